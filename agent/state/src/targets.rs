//! [`Targets`]: who answers an orchestration's steps.

use std::any::Any;

use value::{Map, Value};

use crate::ask::Ask;
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
    /// Nothing came from it: the sentence why stands where its return would.
    pub is_missing: bool,
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

/// Takes events, each with its number in the bus's log where it has one, its tag and its data.
pub type Sink = Box<dyn Fn(Option<u64>, String, Map) + Send + Sync>;

/// A subscription to the event bus, which ends when it is dropped.
pub trait Subscription: Send + Sync {
    /// Hands over every event that was fired before this call; a bus with a log may do that later.
    fn catch_up(&self) {}

    /// Returns the number of the first event that it hands over, where the bus has a log.
    fn start(&self) -> Option<u64> {
        None
    }
}

/// This machine alone, or a master's minions; and the event bus that goes with them.
pub trait Targets: Send + Sync {
    /// Whether the only target is the machine that this program runs on.
    fn is_here(&self) -> bool {
        true
    }

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

    /// What came of a job in place of a return that was missing; none as long as it is.
    ///
    /// # Errors
    /// When it cannot be looked up.
    fn come_late(&self, _missing: &MinionReturn) -> Result<Option<MinionReturn>, Error> {
        Ok(None)
    }

    /// Fires an event.
    ///
    /// # Errors
    /// When the bus does not take it.
    fn fire(&self, cx: &Exec, tag: &str, data: Map) -> Result<(), Error>;

    /// Fires an event that tells of a runner or a wheel function. What waits for nobody's answer need not wait for the disk either.
    ///
    /// # Errors
    /// Those of [`Targets::fire`].
    fn announce(&self, cx: &Exec, tag: &str, data: Map) -> Result<(), Error> {
        self.fire(cx, tag, data)
    }

    /// Subscribes to the events from now on, or from a number in the bus's log on.
    ///
    /// # Errors
    /// When there is no bus, or it cannot be listened to.
    fn subscribe(
        &self,
        _cx: &Exec,
        _from: Option<u64>,
        _sink: Sink,
    ) -> Result<Box<dyn Subscription>, Error> {
        Err(Error::refused("There is no event bus here.".to_owned()))
    }

    /// Asks the daemon of this machine, or its master; nothing where there is none, and the function does what is done then.
    ///
    /// # Errors
    /// When it does not answer, or says no.
    fn ask(&self, _cx: &Exec, _ask: Ask) -> Result<Option<Value>, Error> {
        Ok(None)
    }

    /// What it is, for functions that know more of it than this trait does: the runners of a master.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}
