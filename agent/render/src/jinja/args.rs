//! Reads the arguments of a filter, test or method as Python does: by position or by name.

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, Value};

use super::errors::type_error;
use super::print;
use super::strings::{ITEMS_MAX, checked_items};

/// The arguments of a call.
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

    /// Returns the arguments with each value changed.
    pub(super) fn mapped(&self, change: impl Fn(&Value) -> Value) -> Self {
        let named = self.named.iter();
        Self {
            pos: self.pos.iter().map(&change).collect(),
            named: named
                .map(|(name, value)| (name.clone(), change(value)))
                .collect(),
        }
    }

    /// Returns the arguments as values, to pass them to another call.
    pub(super) fn values(&self) -> Vec<Value> {
        let mut values = self.pos.clone();
        if !self.named.is_empty() {
            let named = self.named.iter().cloned();
            values.push(Kwargs::from_iter(named).into());
        }
        values
    }

    /// Returns the argument at an index or with a name.
    pub(super) fn at(&self, index: usize, name: &str) -> Option<&Value> {
        self.pos.get(index).or_else(|| self.named(name))
    }

    /// Like [`Self::at`], but a missing argument is an error.
    pub(super) fn need(&self, index: usize, name: &str) -> Result<&Value, Error> {
        self.at(index, name)
            .ok_or_else(|| type_error(format!("missing 1 required positional argument: '{name}'")))
    }

    /// Returns the argument with a name.
    pub(super) fn named(&self, name: &str) -> Option<&Value> {
        self.named
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }

    /// Returns the first argument, on which filters work; an undefined value is an error.
    pub(super) fn subject(&self) -> Result<&Value, Error> {
        defined(self.need(0, "value")?)
    }

    /// Returns the first argument of a test that only checks its type; here an undefined value is
    /// no error.
    pub(super) fn tested(&self) -> Result<&Value, Error> {
        self.need(0, "value")
    }

    /// Returns an argument as text; other values are converted as by Python's `str`.
    pub(super) fn text(&self, index: usize, name: &str) -> Result<String, Error> {
        Ok(print::str(defined(self.need(index, name)?)?))
    }

    /// Returns an argument as text, or `default` if it is missing or `None`.
    pub(super) fn text_or(&self, index: usize, name: &str, default: &str) -> Result<String, Error> {
        match self.at(index, name) {
            None => Ok(default.into()),
            Some(value) if value.is_none() => Ok(default.into()),
            Some(value) => Ok(print::str(defined(value)?)),
        }
    }

    /// Returns a whole number, or `default` if it is missing or `None`.
    pub(super) fn int_or(&self, index: usize, name: &str, default: i64) -> Result<i64, Error> {
        match self.at(index, name) {
            None => Ok(default),
            Some(value) if value.is_none() => Ok(default),
            Some(value) => int(value),
        }
    }

    /// Returns a truth value, or `default` if it is missing.
    pub(super) fn flag(&self, index: usize, name: &str, default: bool) -> bool {
        self.at(index, name).map_or(default, Value::is_true)
    }

    /// Returns the positional arguments.
    pub(super) fn pos(&self) -> &[Value] {
        &self.pos
    }

    /// Returns the positional arguments from `index` on.
    pub(super) fn rest(&self, index: usize) -> &[Value] {
        self.pos.get(index..).unwrap_or_default()
    }

    /// Returns the named arguments.
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

/// Returns the value, or an error that names it if it is undefined.
pub(super) fn defined(value: &Value) -> Result<&Value, Error> {
    if value.is_undefined() {
        return Err(undefined(value));
    }
    Ok(value)
}

/// Returns the error that names an undefined value.
pub(super) fn undefined(value: &Value) -> Error {
    // The engine names an undefined value only when an attribute of it is looked up.
    value
        .get_attr("")
        .err()
        .unwrap_or_else(|| Error::from(ErrorKind::UndefinedError))
}

/// Returns a whole number; as in Python, booleans are numbers too.
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

/// Returns the items of an iterable value.
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

/// True for values that are iterable in Python.
pub(super) fn iterable(value: &Value) -> bool {
    use minijinja::value::ValueKind as Kind;
    matches!(
        value.kind(),
        Kind::String | Kind::Seq | Kind::Map | Kind::Iterable
    )
}

/// Returns Python's error for a value that is not iterable.
pub(super) fn not_iterable(value: &Value) -> Error {
    type_error(format!(
        "'{}' object is not iterable",
        print::type_name(value)
    ))
}
