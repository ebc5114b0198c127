//! [`Typed`]: the conversion of a user's values to the argument types of functions.

use std::collections::BTreeMap;
use std::path::PathBuf;

use value::{Map, Value};

/// A type of an argument. Conversions are as lenient as Salt's functions are: a number is accepted
/// as text, and a single value as a list of one.
pub trait Typed: Default {
    /// Converts the user's value.
    ///
    /// # Errors
    /// A sentence that names the expected type and the actual value.
    fn typed(value: Value) -> Result<Self, String>;

    /// Returns a default as `sys.argspec` shows it.
    fn to_value(&self) -> Value;
}

fn wrong<T>(expected: &str, value: &Value) -> Result<T, String> {
    Err(format!(
        "expected {expected}, got {} {}",
        value.type_name(),
        value::python::repr(value)
    ))
}

impl Typed for Value {
    fn typed(value: Value) -> Result<Self, String> {
        Ok(value)
    }

    fn to_value(&self) -> Value {
        self.clone()
    }
}

impl Typed for String {
    fn typed(value: Value) -> Result<Self, String> {
        match value {
            Value::Str(text) => Ok(Self::from(&*text)),
            Value::Int(_) | Value::Big(_) | Value::Float(_) | Value::Bool(_) => Ok(value.to_text()),
            Value::Bytes(bytes) => Ok(Self::from_utf8_lossy(&bytes).into_owned()),
            other => wrong("a string", &other),
        }
    }

    fn to_value(&self) -> Value {
        Value::from(self.as_str())
    }
}

impl Typed for PathBuf {
    fn typed(value: Value) -> Result<Self, String> {
        String::typed(value).map(Self::from)
    }

    fn to_value(&self) -> Value {
        Value::from(self.display().to_string())
    }
}

/// Python's truth value, except that words such as `no` and `off` are false.
impl Typed for bool {
    fn typed(value: Value) -> Result<Self, String> {
        Ok(match value.as_str() {
            Some(text) => !matches!(
                text.to_ascii_lowercase().as_str(),
                "" | "false" | "no" | "off" | "0" | "none"
            ),
            None => value.is_true(),
        })
    }

    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }
}

impl Typed for i64 {
    fn typed(value: Value) -> Result<Self, String> {
        match &value {
            Value::Int(number) => Ok(*number),
            Value::Bool(truth) => Ok(Self::from(*truth)),
            Value::Float(number) => Ok(*number as Self),
            Value::Str(text) => text
                .trim()
                .parse()
                .or_else(|_| wrong("a whole number", &value)),
            _ => wrong("a whole number", &value),
        }
    }

    fn to_value(&self) -> Value {
        Value::Int(*self)
    }
}

impl Typed for f64 {
    fn typed(value: Value) -> Result<Self, String> {
        match &value {
            Value::Str(text) => text.trim().parse().or_else(|_| wrong("a number", &value)),
            _ => value
                .as_float()
                .map_or_else(|| wrong("a number", &value), Ok),
        }
    }

    fn to_value(&self) -> Value {
        Value::Float(*self)
    }
}

/// Null, or no value, is `None`.
impl<T: Typed> Typed for Option<T> {
    fn typed(value: Value) -> Result<Self, String> {
        if value.is_null() {
            Ok(None)
        } else {
            T::typed(value).map(Some)
        }
    }

    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, Typed::to_value)
    }
}

/// A single value is accepted as a list of one.
impl<T: Typed> Typed for Vec<T> {
    fn typed(value: Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(Self::new()),
            Value::List(items) | Value::Tuple(items) => {
                items.iter().cloned().map(T::typed).collect()
            }
            Value::Set(items) => items.keys().cloned().map(T::typed).collect(),
            one => T::typed(one).map(|one| vec![one]),
        }
    }

    fn to_value(&self) -> Value {
        Value::list(self.iter().map(Typed::to_value))
    }
}

/// A list of single-key dictionaries is accepted as a dictionary.
impl Typed for Map {
    fn typed(value: Value) -> Result<Self, String> {
        match value {
            Value::Map(map) => Ok(map),
            Value::Null => Ok(Self::new()),
            Value::List(items) if items.iter().all(|item| matches!(item, Value::Map(_))) => {
                Ok(items
                    .iter()
                    .filter_map(Value::as_map)
                    .flat_map(Self::iter)
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect())
            }
            other => wrong("a dictionary", &other),
        }
    }

    fn to_value(&self) -> Value {
        Value::Map(self.clone())
    }
}

impl<T: Typed> Typed for BTreeMap<String, T> {
    fn typed(value: Value) -> Result<Self, String> {
        Map::typed(value)?
            .into_iter()
            .map(|(key, value)| Ok((key.to_text(), T::typed(value)?)))
            .collect()
    }

    fn to_value(&self) -> Value {
        self.iter()
            .map(|(key, value)| (key.as_str(), value.to_value()))
            .collect()
    }
}
