//! [`Value`]: the data that YAML, JSON and Jinja exchange.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::{Map, python};

/// A Python-like value. Containers are shared until they are changed, so a clone is cheap.
///
/// Equality is Python's: `True == 1 == 1.0`, and the order of a map's keys does not matter.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// Python's `None`.
    #[default]
    Null,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number that fits 64 bits.
    Int(i64),
    /// A whole number that does not fit 64 bits, as decimal digits.
    Big(Arc<str>),
    /// A float.
    Float(f64),
    /// Text.
    Str(Arc<str>),
    /// Bytes, as from `!!binary`.
    Bytes(Arc<[u8]>),
    /// A list.
    List(Arc<Vec<Self>>),
    /// A tuple: it prints with round brackets and is otherwise treated as a list.
    Tuple(Arc<Vec<Self>>),
    /// A dictionary in insertion order.
    Map(Map),
    /// A set in insertion order; the values of the map are `Null`.
    Set(Map),
}

impl Value {
    /// Creates a list of these items.
    #[must_use]
    pub fn list(items: impl IntoIterator<Item = Self>) -> Self {
        Self::List(Arc::new(items.into_iter().collect()))
    }

    /// Returns the text, if this is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the whole number, if this is one (a bool is not).
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the number as a float, if this is a number (a bool is not).
    #[must_use]
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            Self::Big(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// Returns the truth value, if this is a bool.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// Returns the items, if this is a list or a tuple.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) | Self::Tuple(items) => Some(items),
            _ => None,
        }
    }

    /// Returns a string alone, or the items of a list or tuple as texts; for anything else an empty
    /// list.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::Str(text) => vec![text.to_string()],
            other => {
                let items = other.as_list().unwrap_or_default();
                items.iter().map(Self::to_text).collect()
            }
        }
    }

    /// Returns the entries, if this is a dictionary.
    #[must_use]
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the items, mutably, if this is a list.
    pub fn as_list_mut(&mut self) -> Option<&mut Vec<Self>> {
        match self {
            Self::List(items) => Some(Arc::make_mut(items)),
            _ => None,
        }
    }

    /// Returns the entries, mutably, if this is a dictionary.
    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the value of a string key, if this is a dictionary that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_map()?.get(key)
    }

    /// Returns Python's truth value: false for `None`, `False`, zero and everything empty.
    #[must_use]
    pub fn is_true(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(truth) => *truth,
            Self::Int(number) => *number != 0,
            Self::Big(_) => true,
            Self::Float(number) => *number != 0.0,
            Self::Str(text) => !text.is_empty(),
            Self::Bytes(bytes) => !bytes.is_empty(),
            Self::List(items) | Self::Tuple(items) => !items.is_empty(),
            Self::Map(map) | Self::Set(map) => !map.is_empty(),
        }
    }

    /// True for `None`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the name of the Python type, for error messages.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Big(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "str",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Map(_) => "dict",
            Self::Set(_) => "set",
        }
    }

    /// Returns Python's `str(value)`.
    #[must_use]
    pub fn to_text(&self) -> String {
        python::str(self)
    }

    /// Returns Python's `str(value)`, without a copy if this is a string.
    #[must_use]
    pub fn as_text(&self) -> Cow<'_, str> {
        match self {
            Self::Str(text) => Cow::Borrowed(text),
            other => Cow::Owned(python::str(other)),
        }
    }

    /// Returns the items of an argument that is a list, or a comma-separated text (Salt's
    /// `split_input`).
    #[must_use]
    pub fn split_input(&self) -> Vec<String> {
        match self.as_list() {
            Some(items) => items.iter().map(Self::to_text).collect(),
            None => self
                .to_text()
                .split(',')
                .map(|word| word.trim().to_owned())
                .filter(|word| !word.is_empty())
                .collect(),
        }
    }

    /// Returns the value at `path`: keys joined by `delimiter`, with numbers as indices of lists,
    /// as in `pillar.get a:b:0`. As in Salt, where a list is reached by a word, the first
    /// dictionary in it that has that key is used.
    #[must_use]
    pub fn traverse(&self, path: &str, delimiter: &str) -> Option<&Self> {
        let mut here = self;
        for key in path.split(delimiter) {
            here = here.step(key)?;
        }
        Some(here)
    }

    fn step(&self, key: &str) -> Option<&Self> {
        match self {
            Self::List(items) | Self::Tuple(items) => match key.parse::<i64>() {
                Ok(index) => {
                    let index = if index < 0 {
                        index + items.len() as i64
                    } else {
                        index
                    };
                    items.get(usize::try_from(index).ok()?)
                }
                Err(_) => items.iter().find_map(|item| item.get(key)),
            },
            Self::Map(map) => map
                .get(key)
                .or_else(|| map.get_value(&Self::Int(key.parse().ok()?))),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(_) | Self::Int(_) | Self::Big(_) | Self::Float(_) => 1,
            Self::Str(_) => 2,
            Self::Bytes(_) => 3,
            Self::List(_) | Self::Tuple(_) => 4,
            Self::Map(_) | Self::Set(_) => 5,
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Bool(truth) => Some(f64::from(u8::from(*truth))),
            other => other.as_float(),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Str(a), Self::Str(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Big(a), Self::Big(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::List(a), Self::List(b)) | (Self::Tuple(a), Self::Tuple(b)) => a == b,
            (Self::Map(a), Self::Map(b)) | (Self::Set(a), Self::Set(b)) => a == b,
            _ => matches!((self.number(), other.number()), (Some(a), Some(b)) if a == b),
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Null => state.write_u8(0),
            Self::Str(text) => text.hash(state),
            Self::Bytes(bytes) => bytes.hash(state),
            Self::Big(digits) => digits.hash(state),
            Self::Bool(truth) => state.write_i64(i64::from(*truth)),
            Self::Int(number) => state.write_i64(*number),
            Self::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                state.write_i64(*number as i64);
            }
            Self::Float(number) => state.write_u64(number.to_bits()),
            Self::List(items) | Self::Tuple(items) => items.hash(state),
            Self::Map(map) | Self::Set(map) => state.write_usize(map.len()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A total order: Python's where Python defines one, else by type.
impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Str(a), Self::Str(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::List(a) | Self::Tuple(a), Self::List(b) | Self::Tuple(b)) => a.cmp(b),
            (Self::Map(a) | Self::Set(a), Self::Map(b) | Self::Set(b)) => a.iter().cmp(b.iter()),
            _ => match (self.number(), other.number()) {
                (Some(a), Some(b)) => a.total_cmp(&b),
                _ => self.rank().cmp(&other.rank()),
            },
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Str(text.into())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Str(text.as_str().into())
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Self::list(items.into_iter().map(Into::into))
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

macro_rules! from_small_int {
    ($($kind:ty),*) => { $(
        impl From<$kind> for Value {
            fn from(number: $kind) -> Self {
                Self::Int(i64::from(number))
            }
        }
    )* };
}
from_small_int!(i8, i16, i32, i64, u8, u16, u32);

macro_rules! from_wide_int {
    ($($kind:ty),*) => { $(
        impl From<$kind> for Value {
            fn from(number: $kind) -> Self {
                i64::try_from(number).map_or_else(|_| Self::Big(number.to_string().into()), Self::Int)
            }
        }
    )* };
}
from_wide_int!(u64, usize, i128);

/// Collects pairs into a dictionary.
impl<K: Into<Self>, V: Into<Self>> FromIterator<(K, V)> for Value {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self::Map(pairs.into_iter().collect())
    }
}
