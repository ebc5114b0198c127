//! [`Targets`]: the machines that run an orchestration's steps, and the event bus.

use std::any::Any;
use std::sync::Arc;

use value::{Map, Value};

use crate::ask::Ask;
use crate::exec::Exec;
use crate::module::Error;
use crate::record::RecordCopy;

/// The return of one minion.
#[derive(Clone, Debug)]
pub struct MinionReturn {
    /// The id of the minion.
    pub id: String,
    /// The return of its function.
    pub ret: Value,
    /// The exit code. A value other than 0 means that the function failed.
    pub retcode: i64,
    /// The id of the job that ran it.
    pub jid: String,
    /// True if the minion did not return. `ret` is then a sentence that says why.
    pub is_missing: bool,
}

/// Returns the data of a minion's event as it appears on a master's bus: the sender's id, the tag,
/// and the minion's own data under `data`.
#[must_use]
pub fn minion_event(id: &str, tag: &str, data: Map) -> Map {
    Map::new()
        .with("id", id)
        .with("tag", tag)
        .with("data", data)
        .with("cmd", "_minion_event")
}

/// The maximum number of names in the description of a step that waits.
const NAMED: usize = 5;

/// Returns a description of the machines that a step waits for, for users who watch the run. `kind`
/// is the word for one of them.
#[must_use]
pub fn description(kind: &str, ids: &[String]) -> String {
    let named: Vec<&str> = ids.iter().take(NAMED).map(String::as_str).collect();
    let named = named.join(", ");
    match ids.len().checked_sub(NAMED).filter(|more| *more > 0) {
        Some(more) => format!("the {kind}s {named} and {more} more"),
        None if ids.len() == 1 => format!("the {kind} {named}"),
        None => format!("the {kind}s {named}"),
    }
}

/// A callback that receives events: the number in the bus's log if it has one, the tag, and the
/// data.
pub type Sink = Box<dyn Fn(Option<u64>, String, Map) + Send + Sync>;

/// A subscription to the event bus. Dropping it ends the subscription.
pub trait Subscription: Send + Sync {
    /// Delivers every event that was fired before this call. A bus with a log may deliver them
    /// later.
    fn catch_up(&self) {}

    /// Returns the number of the first event that it delivers, if the bus has a log.
    fn start(&self) -> Option<u64> {
        None
    }
}

/// The targets of orchestrations: this machine alone, or a master's minions. The targets also
/// provide the event bus that belongs to them.
pub trait Targets: Send + Sync {
    /// Returns whether the only target is the machine on which this program runs.
    fn is_here(&self) -> bool {
        true
    }

    /// Returns the ids of the minions that match a target.
    ///
    /// # Errors
    /// When the target is invalid.
    fn resolve(&self, cx: &Exec, tgt: &Value, tgt_type: &str) -> Result<Vec<String>, Error>;

    /// Runs a function on these minions and waits for all returns.
    ///
    /// # Errors
    /// When the job cannot be published.
    fn run(
        &self,
        cx: &Exec,
        ids: &[String],
        fun: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Vec<MinionReturn>, Error>;

    /// Returns whether a minion that was missing may still return, because it has an agent.
    fn may_come_late(&self, _id: &str) -> bool {
        false
    }

    /// Returns the late return of a minion that was missing in an earlier result. Returns `None`
    /// while it is still missing.
    ///
    /// # Errors
    /// When it cannot be looked up.
    fn come_late(&self, _missing: &MinionReturn) -> Result<Option<MinionReturn>, Error> {
        Ok(None)
    }

    /// Fires an event.
    ///
    /// # Errors
    /// When the bus does not accept it.
    fn fire(&self, cx: &Exec, tag: &str, data: Map) -> Result<(), Error>;

    /// Fires an event about the progress of a runner or a wheel function. No caller waits for such
    /// an event, so an implementation need not make it durable first.
    ///
    /// # Errors
    /// Those of [`Targets::fire`].
    fn announce(&self, cx: &Exec, tag: &str, data: Map) -> Result<(), Error> {
        self.fire(cx, tag, data)
    }

    /// Subscribes to the events from now on, or from a number in the bus's log on.
    ///
    /// # Errors
    /// When there is no bus, or the subscription fails.
    fn subscribe(
        &self,
        _cx: &Exec,
        _from: Option<u64>,
        _sink: Sink,
    ) -> Result<Box<dyn Subscription>, Error> {
        Err(Error::refused("No event bus is available".to_owned()))
    }

    /// Sends a question to the daemon of this machine, or to its master. Returns `None` if there is
    /// no daemon; the calling function then does what it does without one.
    ///
    /// # Errors
    /// When the daemon does not answer, or refuses.
    fn ask(&self, _cx: &Exec, _ask: Ask) -> Result<Option<Value>, Error> {
        Ok(None)
    }

    /// Returns the hosts of rosters, for steps with `ssh: True`. `rosters` are the names of the
    /// rosters; without them, those of the option `roster`.
    ///
    /// # Errors
    /// When this program reaches no hosts, or a roster cannot be read.
    fn hosts(&self, _cx: &Exec, _rosters: Option<&Value>) -> Result<Arc<dyn HostTargets>, Error> {
        Err(Error::refused("`ssh: True` reaches hosts of a roster, which is possible only in an orchestration without a master, or in one of the master itself, and not in the core build".to_owned()))
    }

    /// Returns whether targets of steps may be other machines than this one.
    fn has_others(&self, _cx: &Exec) -> bool {
        !self.is_here()
    }

    /// Returns whether a step for a target runs on other machines only.
    fn is_elsewhere(&self, _cx: &Exec, _tgt: &Value, _tgt_type: &str) -> bool {
        !self.is_here()
    }

    /// Returns the machines to which the step of this context gave its job before the run was cut
    /// short.
    ///
    /// # Errors
    /// When they cannot be read.
    fn begun(&self, _cx: &Exec) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// Returns a second place for the record of a run, from which another machine can resume it.
    fn record_copy(&self, _jid: &str) -> Option<Arc<dyn RecordCopy>> {
        None
    }

    /// Discards what was stored to resume the step of this context. Its return is recorded next.
    fn step_ends(&self, _cx: &Exec) {}

    /// Returns the implementation itself, for functions that need more than this trait offers: the
    /// runners of a master.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// The hosts of rosters, which are reached by ssh.
pub trait HostTargets: Send + Sync {
    /// Returns the ids of the hosts that match a target.
    ///
    /// # Errors
    /// When the target is invalid.
    fn matched(&self, cx: &Exec, tgt: &Value, tgt_type: &str) -> Result<Vec<String>, Error>;

    /// Runs a function on these hosts and waits for all returns. A host that cannot be reached is
    /// missing, with the reason.
    ///
    /// # Errors
    /// When no job can be started.
    fn run(
        &self,
        cx: &Exec,
        ids: &[String],
        fun: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Vec<MinionReturn>, Error>;
}
