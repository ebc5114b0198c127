//! The failure of a transaction: the reason, and the changes that were made before it.

use machine::process::Output;
use state::module::{Error, Ret};
use value::{Map, nested};

/// A failure of a transaction (Salt's `CommandExecutionError` with its `info`).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Failed {
    /// The error message.
    pub(crate) message: String,
    /// The details `errors` and `result`; `None` where the message is complete.
    pub(crate) info: Option<Map>,
    /// The changes that were made before the failure.
    pub(crate) changes: Map,
}

impl Failed {
    /// Creates the failure of one or more programs after these changes. Without a sentence, the
    /// errors form the message.
    pub(crate) fn with(sentence: Option<String>, errors: Vec<String>, changes: Map) -> Self {
        match sentence {
            Some(message) => Self {
                message,
                info: Some(Map::new().with("errors", errors)),
                changes,
            },
            None => Self {
                message: errors.join("\n"),
                info: None,
                changes,
            },
        }
    }

    /// Returns the return of a state that failed while `doing` something.
    pub(crate) fn ret(self, doing: &str) -> Ret {
        let comment = match &self.info {
            Some(info) => self.text(info),
            None => format!("An error was encountered while {doing}: {}", self.message),
        };
        Ret::failed(comment).changes(self.changes)
    }

    fn text(&self, info: &Map) -> String {
        let stop = match self.message.ends_with(['.', '?', '!']) {
            true => "",
            false => ".",
        };
        let shown = nested::text(&info.clone().into());
        let message = &self.message;
        format!("{message}{stop} Additional info follows:\n\n{shown}")
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.info.clone() {
            Some(info) => f.write_str(&self.text(&info.with("changes", self.changes.clone()))),
            None => f.write_str(&self.message),
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self {
            message: error.to_string(),
            ..Self::default()
        }
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        Self::refused(failed.to_string())
    }
}

/// Returns the error of a finished command: its output, or its exit status if there is no output.
/// Returns `None` on success.
pub(crate) fn error_text(output: &Output) -> Option<String> {
    if output.success() {
        return None;
    }
    let said = [output.stderr.as_str(), output.stdout_regardless()];
    let said = said.into_iter().find(|text| !text.trim().is_empty());
    Some(match (said, output.retcode) {
        (Some(text), _) => text.to_owned(),
        (None, Some(code)) => format!("exit status {code} without any output"),
        (None, None) => "ended without an exit status".to_owned(),
    })
}
