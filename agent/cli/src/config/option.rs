//! What the table says of an option.

use value::{Map, Value};

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `True` or `False`.
    Bool,
    /// A whole number.
    Whole,
    /// Any number.
    Number,
    /// Text.
    Word,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list.
    Items,
    /// A mapping.
    Entries,
    /// Nothing at all.
    Nothing,
}

/// What an option is when nobody sets it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// Not there.
    No,
    /// `None`.
    Null,
    /// `False`.
    False,
    /// `True`.
    True,
    /// A whole number.
    Int(i64),
    /// A float.
    Float(f64),
    /// Text.
    Text(&'static str),
    /// `[]`.
    EmptyList,
    /// `{}`.
    EmptyDict,
    /// A list of words.
    List(&'static [&'static str]),
    /// Folders of the environment `base`.
    Roots(&'static [&'static str]),
}

/// What comes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It does what it does in Salt.
    Used,
    /// Setting it has no effect here, which the user is told.
    Unsupported,
    /// It has a meaning only where a master is.
    Master,
    /// It adjusts a part of Salt that has no counterpart here; nothing is missed without it.
    Moot,
}

/// An option that Salt knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// What it may be; empty is anything.
    pub kinds: &'static [Kind],
    /// What it is when nobody sets it.
    pub default: Default,
    /// What comes of it.
    pub status: Status,
}

impl Default {
    pub(super) fn value(self) -> Option<Value> {
        let words = |words: &[&str]| Value::list(words.iter().map(|word| Value::from(*word)));
        Some(match self {
            Self::No => return None,
            Self::Null => Value::Null,
            Self::False => Value::Bool(false),
            Self::True => Value::Bool(true),
            Self::Int(number) => Value::Int(number),
            Self::Float(number) => Value::Float(number),
            Self::Text(text) => Value::from(text),
            Self::EmptyList => Value::list([]),
            Self::EmptyDict => Value::Map(Map::new()),
            Self::List(items) => words(items),
            Self::Roots(folders) => Value::Map(Map::new().with("base", words(folders))),
        })
    }
}

impl Known {
    /// The value as this option takes it: what Salt would accept, numbers in quotes included; else what was expected.
    pub(super) fn accept(&self, value: &Value) -> Result<Value, String> {
        let from_sdb = value
            .as_str()
            .is_some_and(|text| text.starts_with("sdb://"));
        if self.kinds.is_empty() || from_sdb {
            return Ok(value.clone());
        }
        self.kinds
            .iter()
            .find_map(|kind| kind.accept(value))
            .ok_or_else(|| self.expected())
    }

    fn expected(&self) -> String {
        self.kinds
            .iter()
            .map(|kind| kind.name())
            .collect::<Vec<_>>()
            .join(" or ")
    }
}

impl Kind {
    fn accept(self, value: &Value) -> Option<Value> {
        let fits = match (self, value) {
            (Self::Whole, Value::Str(text)) => return text.trim().parse().ok().map(Value::Int),
            (Self::Number, Value::Str(text)) => return text.trim().parse().ok().map(Value::Float),
            (Self::OneOf(words), Value::Str(text)) => words.contains(&&**text),
            (Self::Bool, value) => value.as_bool().is_some(),
            (Self::Whole, value) => value.as_int().is_some(),
            (Self::Number, value) => value.as_float().is_some(),
            (Self::Word, value) => !matches!(
                value,
                Value::Null | Value::List(_) | Value::Tuple(_) | Value::Map(_) | Value::Set(_)
            ),
            (Self::Items, value) => value.as_list().is_some(),
            (Self::Entries, value) => value.as_map().is_some(),
            (Self::Nothing, value) => value.is_null(),
            (Self::OneOf(_), _) => false,
        };
        fits.then(|| value.clone())
    }

    fn name(self) -> String {
        match self {
            Self::Bool => "True or False".into(),
            Self::Whole => "a whole number".into(),
            Self::Number => "a number".into(),
            Self::Word => "text".into(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::Items => "a list".into(),
            Self::Entries => "a mapping".into(),
            Self::Nothing => "nothing".into(),
        }
    }
}
