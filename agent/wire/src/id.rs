//! [`Id`]: the name of a minion. Ids occur in file names, event tags and targets, so a single
//! grammar applies everywhere.

use std::fmt;
use std::str::FromStr;

/// A minion's id: `[A-Za-z0-9][A-Za-z0-9._-]{0,252}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(String);

const LENGTH_MAX: usize = 253;

/// The error for a text that is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a valid minion id: an id has 1 to {LENGTH_MAX} ASCII letters, digits, dots, underscores and hyphens, and begins with a letter or digit"
)]
pub struct NotAnId(String);

impl Id {
    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a text matches the grammar.
    #[must_use]
    pub fn is_valid(text: &str) -> bool {
        let first = text.bytes().next();
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        first.is_some_and(|byte| byte.is_ascii_alphanumeric())
            && text.len() <= LENGTH_MAX
            && text.bytes().all(inner)
    }
}

impl FromStr for Id {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        if Self::is_valid(text) {
            return Ok(Self(text.to_owned()));
        }
        // The quoted part is limited, so that the log does not contain a megabyte.
        Err(NotAnId(text.chars().take(64).collect()))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_one_grammar() {
        let long = "a".repeat(253);
        for good in ["m1", "web-01.example.org", "0", "A_b", "a.", "a..b", &long] {
            assert_eq!(good.parse::<Id>().unwrap().as_str(), good);
        }
        let longer = "a".repeat(254);
        let bad = [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a\0b",
            "-a",
            "_a",
            ".a",
            "a b",
            "a\n",
            "ä",
            "a\u{202e}b",
            "a:b",
            "a*",
            &longer,
        ];
        for bad in bad {
            assert!(bad.parse::<Id>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_error_quotes_what_was_wrong_and_not_all_of_it() {
        let error = format!("../{}", "x".repeat(1000))
            .parse::<Id>()
            .unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("\"../xxx") && text.len() < 300, "{text}");
    }
}
