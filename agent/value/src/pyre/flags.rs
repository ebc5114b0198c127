//! [`Flags`]: Python's `re` flags, as numbers and as names.

use super::Error;
use crate::Value;

/// Python's `re.RegexFlag`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// No flags.
    pub const NONE: Self = Self(0);
    /// Upper and lower case are equal.
    pub const IGNORECASE: Self = Self(2);
    /// The locale decides which characters are word characters: for bytes only.
    pub const LOCALE: Self = Self(4);
    /// `^` and `$` match at every line.
    pub const MULTILINE: Self = Self(8);
    /// `.` matches newlines.
    pub const DOTALL: Self = Self(16);
    /// For text only, where it is the default.
    pub const UNICODE: Self = Self(32);
    /// White space and comments in the pattern are ignored.
    pub const VERBOSE: Self = Self(64);
    /// `\w` and similar classes match ASCII only.
    pub const ASCII: Self = Self(256);

    /// True when it contains at least one of the other flags.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the flags of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns these flags without the others.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the flag of a letter in a pattern: `(?i)`.
    #[must_use]
    pub const fn of_letter(letter: char) -> Option<Self> {
        match letter {
            'i' => Some(Self::IGNORECASE),
            'L' => Some(Self::LOCALE),
            'm' => Some(Self::MULTILINE),
            's' => Some(Self::DOTALL),
            'u' => Some(Self::UNICODE),
            'x' => Some(Self::VERBOSE),
            'a' => Some(Self::ASCII),
            _ => None,
        }
    }

    /// Returns the flag of a name, in any case: `MULTILINE` or `m`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        match name.to_uppercase().as_str() {
            "I" | "IGNORECASE" => Some(Self::IGNORECASE),
            "L" | "LOCALE" => Some(Self::LOCALE),
            "M" | "MULTILINE" => Some(Self::MULTILINE),
            "S" | "DOTALL" => Some(Self::DOTALL),
            "U" | "UNICODE" => Some(Self::UNICODE),
            "X" | "VERBOSE" => Some(Self::VERBOSE),
            "A" | "ASCII" => Some(Self::ASCII),
            "T" | "TEMPLATE" => Some(Self(1)),
            "DEBUG" => Some(Self(128)),
            _ => None,
        }
    }

    /// Returns the flags of an argument: a number, a name, or a list of names.
    ///
    /// # Errors
    /// When something in the argument is not a flag, with Salt's message.
    pub fn of_value(value: &Value) -> Result<Self, Error> {
        match value {
            Value::Int(_) | Value::Bool(_) => {
                let number = value.as_int().unwrap_or_else(|| i64::from(value.is_true()));
                Ok(Self((number & 0x1ff) as u16))
            }
            Value::Str(name) => Self::named(name),
            Value::List(items) | Value::Tuple(items) => items
                .iter()
                .map(|item| Self::named(&item.to_text()))
                .try_fold(Self::NONE, |all, flag| Ok(all.with(flag?))),
            other => Err(Error::Flags(format!(
                "Invalid re flags: \"{}\", must be given either as a single flag string, a list of strings, as an integer, or as an re flag",
                other.to_text()
            ))),
        }
    }

    fn named(name: &str) -> Result<Self, Error> {
        Self::of_name(name).ok_or_else(|| Error::Flags(format!("Invalid re flag given: {name}")))
    }
}
