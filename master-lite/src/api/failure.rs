//! [`Failure`]: a request that is answered with an error.

use value::{Map, Value};

use crate::http::Refusal;

/// The text of a request without a valid token.
const NO_PERMISSION: &str = "No permission -- see authorization schemes";
/// The text of a wrong user name or password.
const NO_LOGIN: &str = "Could not authenticate using provided credentials";
/// The text of a chunk without a token and without a user.
const NO_CREDENTIALS: &str = "No authentication credentials given";

/// A request that is answered with an error: its status, and the text that the client receives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(super) struct Failure {
    pub(super) status: u16,
    pub(super) text: String,
    /// The number of seconds after which the client may try again.
    pub(super) later: Option<u64>,
}

impl Failure {
    /// Returns a failure with this status and text.
    pub(super) fn new(status: u16, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
            later: None,
        }
    }

    /// Returns a failure because the request is wrong.
    pub(super) fn bad(text: impl Into<String>) -> Self {
        Self::new(400, text)
    }

    /// Returns the failure of a request without a valid token.
    pub(super) fn no_permission() -> Self {
        Self::new(401, NO_PERMISSION)
    }

    /// Returns the failure of a login with a wrong name or password.
    pub(super) fn no_login() -> Self {
        Self::new(401, NO_LOGIN)
    }

    /// Returns the failure of a chunk without credentials.
    pub(super) fn no_credentials() -> Self {
        Self::new(401, NO_CREDENTIALS)
    }

    /// Returns the failure of a request for a token with a wrong name or password.
    pub(super) fn no_user(map: &Map) -> Self {
        let name = map.get("username").map(Value::to_text).unwrap_or_default();
        let name: String = name.chars().take(64).collect();
        let text = format!("Authentication failure of type \"eauth\" occurred for user {name}.");
        Self::new(401, text)
    }

    /// Returns a failure after which the client may try again in this many seconds.
    pub(super) fn later(status: u16, seconds: u64, text: impl Into<String>) -> Self {
        Self {
            later: Some(seconds.max(1)),
            ..Self::new(status, text)
        }
    }

    /// Returns the failure for a refusal of the server.
    pub(super) fn from_refusal(refusal: &Refusal) -> Self {
        Self::new(refusal.status, refusal.why.as_str())
    }
}
