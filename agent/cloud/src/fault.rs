//! [`Fault`]: the reason why a cloud did not do something, with its own text.

use std::time::Duration;

use state::module::Error;

/// The maximum length of a cloud's text in an error, in characters.
const TEXT_MAX: usize = 2_000;

/// The reason why a request about clouds failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The configuration, or the request itself, is wrong. The text is the whole message.
    #[error("{0}")]
    Wrong(String),
    /// The cloud refuses.
    #[error("{driver}: {text}")]
    Refused {
        /// The driver.
        driver: String,
        /// The word that the cloud has for it; may be empty.
        code: String,
        /// The cloud's own text.
        text: String,
    },
    /// The cloud refuses because of too many requests, and accepts the same request later.
    #[error("{driver}: {text}")]
    Throttled {
        /// The driver.
        driver: String,
        /// The cloud's own text.
        text: String,
        /// The time that the cloud wants between the requests, if it named one.
        after: Option<Duration>,
    },
    /// There is no usable answer, so that the request may have been carried out.
    #[error("{driver}: {text}")]
    Unanswered {
        /// The driver.
        driver: String,
        /// The reason.
        text: String,
    },
}

impl Fault {
    /// Creates a fault of the configuration or of a request.
    #[must_use]
    pub fn wrong(text: impl Into<String>) -> Self {
        Self::Wrong(text.into())
    }

    /// Creates a fault of a cloud that refuses.
    #[must_use]
    pub fn refused(driver: &str, code: &str, text: &str) -> Self {
        Self::Refused {
            driver: driver.to_owned(),
            code: code.to_owned(),
            text: shortened(text),
        }
    }

    /// Creates a fault of a cloud that did not answer, or not as expected.
    #[must_use]
    pub fn unanswered(driver: &str, text: &str) -> Self {
        Self::Unanswered {
            driver: driver.to_owned(),
            text: shortened(text),
        }
    }

    /// Creates a fault of a cloud that wants fewer requests.
    #[must_use]
    pub fn throttled(driver: &str, text: &str, after: Option<Duration>) -> Self {
        Self::Throttled {
            driver: driver.to_owned(),
            text: shortened(text),
            after,
        }
    }

    /// Returns the word that the cloud has for its refusal.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            _ => "",
        }
    }
}

/// Returns the start of a cloud's text, without control characters.
fn shortened(text: &str) -> String {
    let is_shown = |c: &char| !c.is_control() || *c == '\n';
    let shown: String = text
        .trim()
        .chars()
        .filter(is_shown)
        .take(TEXT_MAX)
        .collect();
    match shown.is_empty() {
        true => "the answer has no text".to_owned(),
        false => shown,
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::refused(fault.to_string())
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Wrong(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_cloud_is_shortened_and_has_no_escapes() {
        let fault = Fault::refused("ec2", "Quota", "\u{1b}[31mno more\n");
        assert_eq!(fault.to_string(), "ec2: [31mno more");
        assert_eq!(fault.code(), "Quota");
        let long = Fault::unanswered("ec2", &"x".repeat(10_000)).to_string();
        assert_eq!(long.len(), "ec2: ".len() + TEXT_MAX);
        let empty = Fault::unanswered("ec2", " ").to_string();
        assert_eq!(empty, "ec2: the answer has no text");
    }
}
