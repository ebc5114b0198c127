//! [`JobEvents`]: the events of a step's job, as a master fires them.

use state::exec::Exec;
use state::targets::{MinionReturn, Targets};
use value::{Map, Value, log};

/// A job of a step. Its events have Salt's tags and keys.
#[derive(Clone, Debug)]
pub struct JobEvents {
    /// The id of the job.
    pub jid: String,
    /// The function.
    pub fun: String,
    /// The arguments in the form of events: named ones in a dictionary at the end.
    pub arg: Value,
    /// The user who sends the job.
    pub user: String,
}

impl JobEvents {
    /// Fires the event of the new job for these minions.
    pub fn announce(&self, cx: &Exec, bus: &dyn Targets, ids: &[String]) {
        let ids = Value::list(ids.iter().map(|id| id.as_str().into()));
        let data = Map::new()
            .with("jid", self.jid.as_str())
            .with("tgt_type", "list")
            .with("tgt", ids.clone())
            .with("user", self.user.as_str())
            .with("fun", self.fun.as_str())
            .with("arg", self.arg.clone())
            .with("minions", ids)
            .with("missing", Value::list([]));
        fire(cx, bus, &format!("salt/job/{}/new", self.jid), data);
    }

    /// Fires the event of a minion's return.
    pub fn returned(&self, cx: &Exec, bus: &dyn Targets, one: &MinionReturn) {
        let tag = format!("salt/job/{}/ret/{}", self.jid, one.id);
        fire(cx, bus, &tag, self.data(one));
    }

    /// Returns the data of the event of a minion's return.
    #[must_use]
    pub fn data(&self, one: &MinionReturn) -> Map {
        let mut data = Map::new()
            .with("cmd", "_return")
            .with("id", one.id.as_str())
            .with("success", one.retcode == 0)
            .with("return", one.ret.clone())
            .with("retcode", one.retcode)
            .with("jid", self.jid.as_str())
            .with("fun", self.fun.as_str())
            .with("fun_args", self.arg.clone())
            .with("user", self.user.as_str());
        if self.fun.starts_with("state.") {
            data.insert("out", "highstate");
        }
        data
    }
}

/// Fires an event. A failure is logged and does not stop the caller.
pub fn fire(cx: &Exec, bus: &dyn Targets, tag: &str, data: Map) {
    if let Err(error) = bus.fire(cx, tag, data) {
        log::warning(format_args!("cannot fire event {tag}: {error}"));
    }
}
