//! Why a transaction failed, and what it changed all the same.

use state::module::{Error, Ret};
use value::{Map, nested};

use crate::process::Output;

/// A failure of a transaction (Salt's `CommandExecutionError` with its `info`).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Failed {
    /// The sentence.
    pub(crate) message: String,
    /// What else is known: `errors`, `result`; none where the sentence says all.
    pub(crate) info: Option<Map>,
    /// What changed before it failed.
    pub(crate) changes: Map,
}

impl Failed {
    /// Programs failed, after these changes. Without a sentence the errors are what is said.
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

    /// The return of a state that failed while `doing` something.
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

/// What a finished command complains about: its own words, or its exit status where it has none.
pub(crate) fn complaint(output: &Output) -> Option<String> {
    if output.success() {
        return None;
    }
    let said = [&output.stderr, &output.stdout];
    let said = said.into_iter().find(|text| !text.trim().is_empty());
    Some(match (said, output.retcode) {
        (Some(text), _) => text.clone(),
        (None, Some(code)) => format!("exit status {code}, and not a word why"),
        (None, None) => "ended without an exit status".to_owned(),
    })
}
