//! Fields of frames: converts a struct's fields to the entries of a map, and back.

use value::{Map, Value};

use crate::msgpack::Writer;
use crate::{Error, Id, Secret};

/// A type that a field of a frame may have.
pub(crate) trait Field: Sized {
    /// The expected type, for error messages.
    const WANTED: &'static str;

    /// Returns the value to be written; `None` leaves the field out.
    fn written(&self) -> Option<Value>;

    /// Returns the field's value; `None` if the value has another type.
    fn read(value: Value) -> Option<Self>;

    /// Returns the value of a missing field; `None` if the field is required.
    fn absent() -> Option<Self> {
        None
    }
}

/// Appends one field, unless it is left out.
pub(crate) fn put(
    fields: &mut Vec<(&'static str, Value)>,
    name: &'static str,
    field: Option<Value>,
) {
    fields.extend(field.map(|value| (name, value)));
}

/// Writes a frame's map: its kind, then its fields.
pub(crate) fn write(
    writer: &mut Writer<'_>,
    kind: &str,
    fields: &[(&'static str, Value)],
) -> Result<(), Error> {
    writer.map_head(fields.len() + 1)?;
    writer.text("kind")?;
    writer.text(kind)?;
    fields.iter().try_for_each(|(name, value)| {
        writer.text(name)?;
        writer.value(value)
    })
}

/// Takes one field out of a frame's map. A field that is `None` counts as missing.
pub(crate) fn take<T: Field>(
    map: &mut Map,
    kind: &'static str,
    field: &'static str,
) -> Result<T, Error> {
    let read = match map.get_mut(field).map(std::mem::take) {
        None | Some(Value::Null) => T::absent(),
        Some(value) => T::read(value),
    };
    read.ok_or(Error::Field {
        kind,
        field,
        wanted: T::WANTED,
    })
}

impl Field for String {
    const WANTED: &'static str = "text";

    fn written(&self) -> Option<Value> {
        Some(self.into())
    }

    fn read(value: Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

impl Field for Id {
    const WANTED: &'static str = "an id";

    fn written(&self) -> Option<Value> {
        Some(self.as_str().into())
    }

    fn read(value: Value) -> Option<Self> {
        value.as_str()?.parse().ok()
    }
}

impl Field for Secret {
    const WANTED: &'static str = "text";

    fn written(&self) -> Option<Value> {
        Some(self.reveal().into())
    }

    fn read(value: Value) -> Option<Self> {
        value.as_str().map(Self::new)
    }
}

impl Field for u64 {
    const WANTED: &'static str = "a non-negative integer";

    fn written(&self) -> Option<Value> {
        Some((*self).into())
    }

    fn read(value: Value) -> Option<Self> {
        match value {
            Value::Int(number) => number.try_into().ok(),
            Value::Big(digits) => digits.parse().ok(),
            _ => None,
        }
    }
}

impl Field for bool {
    const WANTED: &'static str = "true or false";

    fn written(&self) -> Option<Value> {
        self.then_some(Value::Bool(true))
    }

    fn read(value: Value) -> Option<Self> {
        value.as_bool()
    }

    fn absent() -> Option<Self> {
        Some(false)
    }
}

impl Field for f64 {
    const WANTED: &'static str = "a number";

    fn written(&self) -> Option<Value> {
        Some((*self).into())
    }

    fn read(value: Value) -> Option<Self> {
        value.as_float().filter(|number| number.is_finite())
    }
}

/// A field of any value, even `None`: a job can return that.
impl Field for Value {
    const WANTED: &'static str = "a value";

    fn written(&self) -> Option<Value> {
        (!self.is_null()).then(|| self.clone())
    }

    fn read(value: Value) -> Option<Self> {
        Some(value)
    }

    fn absent() -> Option<Self> {
        Some(Self::Null)
    }
}

impl Field for Map {
    const WANTED: &'static str = "a map";

    fn written(&self) -> Option<Value> {
        (!self.is_empty()).then(|| Value::Map(self.clone()))
    }

    fn read(value: Value) -> Option<Self> {
        match value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }
}

impl<T: Field> Field for Option<T> {
    const WANTED: &'static str = T::WANTED;

    fn written(&self) -> Option<Value> {
        self.as_ref().and_then(T::written)
    }

    fn read(value: Value) -> Option<Self> {
        T::read(value).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl Field for Vec<Value> {
    const WANTED: &'static str = "a list";

    fn written(&self) -> Option<Value> {
        (!self.is_empty()).then(|| Value::list(self.iter().cloned()))
    }

    fn read(value: Value) -> Option<Self> {
        value.as_list().map(<[Value]>::to_vec)
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }
}

impl Field for Vec<String> {
    const WANTED: &'static str = "a list of strings";

    fn written(&self) -> Option<Value> {
        (!self.is_empty()).then(|| Value::list(self.iter().map(Value::from)))
    }

    fn read(value: Value) -> Option<Self> {
        value.as_list()?.iter().cloned().map(String::read).collect()
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }
}
