//! The arguments of a filter, a test or a method, read as Python reads them: by place or by name.

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, Value};

use super::errors::type_error;
use super::print;
use super::strings::{ITEMS_MAX, checked_items};

/// What a call was given.
#[derive(Debug)]
pub(super) struct Args {
    pos: Vec<Value>,
    named: Vec<(String, Value)>,
}

impl Args {
    /// Splits keyword arguments off the end of a call's values.
    pub(super) fn new(values: &[Value]) -> Result<Self, Error> {
        let (pos, last) = match values.split_last() {
            Some((last, rest)) if last.is_kwargs() => (rest, Some(last)),
            _ => (values, None),
        };
        let named = last.map(named_pairs).transpose()?.unwrap_or_default();
        Ok(Self {
            pos: pos.to_vec(),
            named,
        })
    }

    /// Returns the same with each value changed.
    pub(super) fn mapped(&self, change: impl Fn(&Value) -> Value) -> Self {
        let named = self.named.iter();
        Self {
            pos: self.pos.iter().map(&change).collect(),
            named: named
                .map(|(name, value)| (name.clone(), change(value)))
                .collect(),
        }
    }

    /// What was given, to be given on.
    pub(super) fn values(&self) -> Vec<Value> {
        let mut values = self.pos.clone();
        if !self.named.is_empty() {
            let named = self.named.iter().cloned();
            values.push(Kwargs::from_iter(named).into());
        }
        values
    }

    /// The argument at a place or under a name.
    pub(super) fn at(&self, index: usize, name: &str) -> Option<&Value> {
        self.pos.get(index).or_else(|| self.named(name))
    }

    /// The same, which must be there.
    pub(super) fn need(&self, index: usize, name: &str) -> Result<&Value, Error> {
        self.at(index, name)
            .ok_or_else(|| type_error(format!("missing 1 required positional argument: '{name}'")))
    }

    /// The argument under a name.
    pub(super) fn named(&self, name: &str) -> Option<&Value> {
        self.named
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }

    /// The first argument, which filters work on; undefined is an error.
    pub(super) fn subject(&self) -> Result<&Value, Error> {
        defined(self.need(0, "value")?)
    }

    /// The first argument of a test that looks only at its type; undefined is of none.
    pub(super) fn tested(&self) -> Result<&Value, Error> {
        self.need(0, "value")
    }

    /// Text, with other values turned into it as Python's `str` does.
    pub(super) fn text(&self, index: usize, name: &str) -> Result<String, Error> {
        Ok(print::str(defined(self.need(index, name)?)?))
    }

    /// Text, or `default` when it was left out or is `None`.
    pub(super) fn text_or(&self, index: usize, name: &str, default: &str) -> Result<String, Error> {
        match self.at(index, name) {
            None => Ok(default.into()),
            Some(value) if value.is_none() => Ok(default.into()),
            Some(value) => Ok(print::str(defined(value)?)),
        }
    }

    /// A whole number, or `default`.
    pub(super) fn int_or(&self, index: usize, name: &str, default: i64) -> Result<i64, Error> {
        match self.at(index, name) {
            None => Ok(default),
            Some(value) if value.is_none() => Ok(default),
            Some(value) => int(value),
        }
    }

    /// A truth value, or `default`.
    pub(super) fn flag(&self, index: usize, name: &str, default: bool) -> bool {
        self.at(index, name).map_or(default, Value::is_true)
    }

    /// The arguments by place.
    pub(super) fn pos(&self) -> &[Value] {
        &self.pos
    }

    /// The arguments by place from `index` on.
    pub(super) fn rest(&self, index: usize) -> &[Value] {
        self.pos.get(index..).unwrap_or_default()
    }

    /// The arguments by name.
    pub(super) fn all_named(&self) -> &[(String, Value)] {
        &self.named
    }
}

fn named_pairs(kwargs: &Value) -> Result<Vec<(String, Value)>, Error> {
    let mut pairs = Vec::new();
    for key in kwargs.try_iter()? {
        pairs.push((print::str(&key), kwargs.get_item(&key)?));
    }
    Ok(pairs)
}

/// The value, or the error that names what is undefined.
pub(super) fn defined(value: &Value) -> Result<&Value, Error> {
    if value.is_undefined() {
        return Err(undefined(value));
    }
    Ok(value)
}

/// The error that names the undefined value.
pub(super) fn undefined(value: &Value) -> Error {
    // Only looking into an undefined value makes the engine say which one it was.
    value
        .get_attr("")
        .err()
        .unwrap_or_else(|| Error::from(ErrorKind::UndefinedError))
}

/// A whole number; Python's booleans are numbers too.
pub(super) fn int(value: &Value) -> Result<i64, Error> {
    let value = defined(value)?;
    value
        .as_i64()
        .or_else(|| {
            (value.kind() == minijinja::value::ValueKind::Bool).then(|| i64::from(value.is_true()))
        })
        .ok_or_else(|| {
            type_error(format!(
                "'{}' object cannot be interpreted as an integer",
                print::type_name(value)
            ))
        })
}

/// The items of anything that can be gone through.
pub(super) fn items(value: &Value) -> Result<Vec<Value>, Error> {
    let value = defined(value)?;
    match value.as_str() {
        Some(text) => Ok(text.chars().map(Value::from).collect()),
        None if iterable(value) => {
            let most = ITEMS_MAX + 1;
            let items: Vec<Value> = value
                .try_iter()?
                .checked()
                .take(most)
                .collect::<Result<_, _>>()?;
            checked_items(items.len())?;
            Ok(items)
        }
        None => Err(not_iterable(value)),
    }
}

/// True for what Python can go through.
pub(super) fn iterable(value: &Value) -> bool {
    use minijinja::value::ValueKind as Kind;
    matches!(
        value.kind(),
        Kind::String | Kind::Seq | Kind::Map | Kind::Iterable
    )
}

/// Python's error for what cannot be gone through.
pub(super) fn not_iterable(value: &Value) -> Error {
    type_error(format!(
        "'{}' object is not iterable",
        print::type_name(value)
    ))
}
