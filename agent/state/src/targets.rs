//! [`Targets`]: who answers an orchestration's steps.

use value::{Map, Value};

use crate::exec::Exec;
use crate::module::Error;

/// What one minion returned.
#[derive(Clone, Debug)]
pub struct MinionReturn {
    /// Which minion.
    pub id: String,
    /// What its function returned.
    pub ret: Value,
    /// Its exit code: not 0 means that the function failed.
    pub retcode: i64,
    /// The job in which it ran.
    pub jid: String,
}

/// The data of an event that a minion sends, as a master has it on its bus: with who sent it, and what it said under `data`.
#[must_use]
pub fn minion_event(cx: &Exec, tag: &str, data: Map) -> Map {
    Map::new()
        .with("id", cx.opts().id())
        .with("tag", tag)
        .with("data", data)
        .with("cmd", "_minion_event")
}

/// This machine alone, or a master's minions; and the event bus that goes with them.
pub trait Targets: Send + Sync {
    /// The ids that a target names.
    ///
    /// # Errors
    /// When the target makes no sense.
    fn resolve(&self, cx: &Exec, tgt: &Value, tgt_type: &str) -> Result<Vec<String>, Error>;

    /// Runs a function on these minions and waits for all of them.
    ///
    /// # Errors
    /// When it cannot be sent.
    fn run(
        &self,
        cx: &Exec,
        ids: &[String],
        fun: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Vec<MinionReturn>, Error>;

    /// Fires an event.
    ///
    /// # Errors
    /// When the bus does not take it.
    fn fire(&self, cx: &Exec, tag: &str, data: Map) -> Result<(), Error>;
}
