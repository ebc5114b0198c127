//! The preview of a job's target: `--preview-target`, and the first step of a batch.

use link::Error;
use link::unix::Local;
use value::{Map, Value};
use wire::Id;

use super::Jobs;
use crate::jobs::targets::Matched;

/// The option of a job that must not be sent.
pub(crate) const PREVIEW: &str = "preview";

/// Returns whether the options say that the job must not be sent.
pub(crate) fn is_previewed(options: &Map) -> bool {
    options.get(PREVIEW).is_some_and(Value::is_true)
}

impl Jobs {
    /// Reports the minions that match, and those of them that are not connected. Nothing is sent to
    /// any minion.
    pub(crate) async fn preview(
        &self,
        (minions, unknown): Matched,
        local: &mut Local,
    ) -> Result<(), Error> {
        let is_away = |id: &&Id| !self.is_up(id);
        let away = minions.iter().filter(is_away);
        let missing = away
            .map(|id| id.as_str())
            .chain(unknown.iter().map(String::as_str));
        let found = Map::new()
            .with("jid", "")
            .with("missing", Value::list(missing.map(Value::from)))
            .with(
                "minions",
                Value::list(minions.iter().map(|id| Value::from(id.as_str()))),
            );
        local.data(found).await?;
        local.done(Value::Null).await
    }
}
