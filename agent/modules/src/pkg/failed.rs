//! Why a transaction failed, and what it changed all the same.

use state::module::Error;
use value::{Map, Value, nested};

use crate::process::Output;

/// A failure of a transaction (Salt's `CommandExecutionError` with its `info`).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Failed {
    /// The sentence.
    pub(crate) message: String,
    /// What else is known: `errors`, `result`, and `changes` where something changed; none when nothing was run.
    pub(crate) info: Option<Map>,
}

impl Failed {
    /// Programs failed, after these changes.
    pub(crate) fn with(message: &str, errors: Vec<String>, changes: Map) -> Self {
        let info = Map::new().with("errors", errors).with("changes", changes);
        Self {
            message: message.to_owned(),
            info: Some(info),
        }
    }

    /// What changed before it failed.
    pub(crate) fn changes(&self) -> Map {
        let changes = self.info.as_ref().and_then(|info| info.get("changes"));
        changes.and_then(Value::as_map).cloned().unwrap_or_default()
    }

    /// The text for a state's comment, which has the changes beside it.
    pub(crate) fn without_changes(&self) -> String {
        let mut info = self.info.clone().unwrap_or_default();
        info.remove("changes");
        self.text(&info)
    }

    fn text(&self, info: &Map) -> String {
        if info.is_empty() {
            return self.message.clone();
        }
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
        f.write_str(&self.text(&self.info.clone().unwrap_or_default()))
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self {
            message: error.to_string(),
            info: None,
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
