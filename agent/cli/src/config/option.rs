//! The entries of the option tables: types, defaults and support of each option.

use std::net::{Ipv4Addr, SocketAddr};

use value::{Map, Value};

/// A type of values that an option accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `True` or `False`.
    Bool,
    /// A whole number.
    Whole,
    /// A whole number of at least 1.
    Count,
    /// Any number.
    Number,
    /// A number above 0.
    Positive,
    /// An address with a port to listen on. A port alone means the loopback address.
    Listen,
    /// Text.
    Word,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list.
    Items,
    /// A mapping.
    Entries,
    /// Null.
    Nothing,
}

/// The default of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// The option is absent.
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
    /// The folders of the environment `base`.
    Roots(&'static [&'static str]),
}

/// The support of an option in Pinch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It works as in Salt.
    Used,
    /// Setting it has no effect and causes a warning.
    Unsupported,
    /// It restricts the program in Salt and is not supported. Setting it stops the program, which
    /// would otherwise do what the option forbids.
    Restricting,
    /// It has a meaning only with a master.
    Master,
    /// It adjusts a part of Salt that Pinch does not have. Without it, nothing is missing.
    Moot,
}

/// An option that Salt knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownOption {
    /// The name of the option.
    pub name: &'static str,
    /// The accepted types; empty accepts any value.
    pub kinds: &'static [Kind],
    /// The default.
    pub default: Default,
    /// Its support in Pinch.
    pub status: Status,
}

impl Default {
    /// Returns the default as a value, or `None` if the option is absent.
    #[must_use]
    pub fn value(self) -> Option<Value> {
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

impl KnownOption {
    /// Returns the value converted to the option's type, as Salt converts it, including numbers in
    /// quotes. If no type fits, returns a description of the expected types.
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

    /// Returns a description of the accepted types; empty if any value is accepted.
    #[must_use]
    pub fn expected(&self) -> String {
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
            (Self::Count | Self::Positive, value) => return self.above_zero(value),
            (Self::Listen, value) => return listen(&value.to_text()),
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

    /// Returns the number if it is above 0, and for [`Kind::Count`] only if it is whole.
    fn above_zero(self, value: &Value) -> Option<Value> {
        let plain = match self {
            Self::Count => Self::Whole,
            _ => Self::Number,
        };
        let number = plain.accept(value)?;
        let is_above = number
            .as_float()
            .is_some_and(|number| number > 0.0 && number.is_finite());
        is_above.then_some(number)
    }

    fn name(self) -> String {
        match self {
            Self::Bool => "True or False".into(),
            Self::Whole => "a whole number".into(),
            Self::Count => "a whole number of at least 1".into(),
            Self::Number => "a number".into(),
            Self::Positive => "a number above 0".into(),
            Self::Listen => "an address with a port (127.0.0.1:8000, [::1]:8000) or a port".into(),
            Self::Word => "text".into(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::Items => "a list".into(),
            Self::Entries => "a mapping".into(),
            Self::Nothing => "nothing".into(),
        }
    }
}

/// Returns the full address with its port.
fn listen(text: &str) -> Option<Value> {
    let text = text.trim();
    let address = match text.parse::<u16>() {
        Ok(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        Err(_) => text.parse().ok()?,
    };
    Some(address.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_listen_is_an_address_with_a_port() {
        let accepted = |value: Value| Kind::Listen.accept(&value).map(|value| value.to_text());
        for (given, full) in [
            ("8000", "127.0.0.1:8000"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            (" [::1]:8000 ", "[::1]:8000"),
        ] {
            assert_eq!(accepted(given.into()).as_deref(), Some(full));
        }
        assert_eq!(accepted(8000.into()).as_deref(), Some("127.0.0.1:8000"));
        for wrong in ["", "localhost:80", "::1", "1.2.3.4", "1.2.3.4:70000", "-1"] {
            assert_eq!(accepted(wrong.into()), None, "{wrong}");
        }
        assert_eq!(accepted(Value::Bool(true)), None);
    }

    #[test]
    fn what_is_counted_is_above_zero() {
        let accepts = |kind: Kind, value: Value| kind.accept(&value).is_some();
        assert!(accepts(Kind::Count, 1.into()) && accepts(Kind::Count, "7".into()));
        assert!(accepts(Kind::Positive, Value::Float(0.5)) && accepts(Kind::Positive, 3.into()));
        for wrong in [Value::Int(0), Value::Int(-1), "x".into(), Value::Null] {
            assert!(!accepts(Kind::Count, wrong.clone()), "{wrong:?}");
            assert!(!accepts(Kind::Positive, wrong.clone()), "{wrong:?}");
        }
        assert!(!accepts(Kind::Count, Value::Float(1.5)));
        assert!(!accepts(Kind::Positive, Value::Float(f64::INFINITY)));
    }
}
