//! The parts of a reactor that a master and a minion share.
//!
//! A [`Rule`] names SLS files for the tags of events. They are rendered and compiled ([`compile`])
//! to chunks, whose calls ([`Call`]) are then made. A [`Reaction`] is the result of a rule and an
//! event. It is stored before its first effect, with the chunks and the ids of their jobs, and
//! [`course`] runs it to its end, even if it was begun before a restart. An [`Actor`] is the
//! program that reacts: a master answers the events of its log, a minion those of its machine.
//! [`Causes`] knows which reactions led to one another, so that loops end.

pub mod call;
mod causes;
mod config;
pub mod course;
mod high;
mod reaction;
mod rule;
mod templates;
mod test;

use std::time::Duration;

use state::opts::Opts;
use value::{Map, Value, log};

pub use call::Call;
pub use causes::Causes;
pub use config::rules;
pub use course::{Actor, Board, Outcome, failed, finish, keep, not_kept, react, shortened};
pub use high::{Compiled, compile};
pub use reaction::{Chunk, Reaction, State};
pub use rule::Rule;
pub use templates::Templates;
pub use test::{Tried, given};

/// The tag of the event that reports a failed reaction.
pub const ERROR: &str = "salt/reactor/error";

/// The user of the reactor's runners and wheel functions. No reactor answers the events of this
/// user.
pub const USER: &str = "Reactor";

/// The maximum number of reactions in a row that lead to one another (`reactor_loop_max`).
const LOOP_MAX: u64 = 32;

/// An event in the form that rules use.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The event's sequence number.
    pub sequence: u64,
    /// The event's tag.
    pub tag: String,
    /// The event's data, with the time at which it was made (`_stamp`).
    pub data: Map,
}

impl Event {
    /// Returns true for an event of the reactor's own runners. The reactor ignores those, as in
    /// Salt.
    #[must_use]
    pub fn is_own(&self) -> bool {
        is_own(&self.data)
    }
}

/// Returns true for the data of an event of the reactor's own runners and wheel functions.
#[must_use]
pub fn is_own(data: &Map) -> bool {
    data.get("user").and_then(Value::as_str) == Some(USER)
}

/// The key of a reaction, ordered by its rule and then by its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The number of the rule.
    pub rule: u64,
    /// The event's sequence number.
    pub sequence: u64,
}

/// The options that begin with `reactor_`.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum number of reactions that run at the same time: for each rule on a master, for
    /// all rules together on a minion.
    pub threads: usize,
    /// The maximum number of events of a rule that wait for their turn.
    pub waiting: usize,
    /// The time for which a context of templates is used. A module that was synced meanwhile is
    /// visible after it.
    pub refresh: Duration,
    /// The maximum number of reactions in a row that lead to one another.
    pub loop_max: u64,
    /// The maximum time for rendering the files of a rule.
    pub render: Duration,
    /// The maximum time for which a reaction waits for the returns of its jobs. If it is zero, a
    /// reaction ends once its jobs were sent.
    pub returns: Duration,
}

impl Limits {
    /// Reads the limits of a configuration, and the options of its engine `reactor`.
    #[must_use]
    pub fn from_opts(opts: &Opts) -> Self {
        let opts = config::with_engine(opts);
        let number = |name: &str, default: u64| {
            let given = opts.int(name).and_then(|number| u64::try_from(number).ok());
            given.unwrap_or(default)
        };
        let count = |name, default, most| {
            let given = number(name, default).clamp(1, most);
            usize::try_from(given).unwrap_or(1)
        };
        Self {
            threads: count("reactor_worker_threads", 10, 64),
            waiting: count("reactor_worker_hwm", 10_000, u64::MAX),
            refresh: Duration::from_secs(number("reactor_refresh_interval", 60)),
            loop_max: number("reactor_loop_max", LOOP_MAX),
            render: Duration::from_secs(number("reactor_render_timeout", 30).max(1)),
            returns: Duration::from_secs(number("reactor_return_timeout", 3600)),
        }
    }
}

/// Reports a failed reaction: in the log, and as an event that rules may answer. If a loop was
/// stopped, one more reaction to that event is allowed. If that one is stopped too, it is only
/// logged.
pub async fn tell_failure<A: Actor>(actor: &A, reaction: &Reaction) {
    let errors = reaction.errors();
    let Reaction {
        rule, tag, place, ..
    } = reaction;
    log::error(format_args!(
        "The rule {rule} failed for the event {tag} ({}): {}",
        place.sequence,
        errors.join("; ")
    ));
    let is_stopped = reaction.state == State::Stopped;
    let most = actor.limits().loop_max + 1;
    if is_stopped && (reaction.generation > most || tag == ERROR) {
        return;
    }
    let errors = errors.iter().map(|error| error.as_str().into());
    let data = Map::new()
        .with("rule", rule.as_str())
        .with("sequence", place.sequence)
        .with("tag", tag.as_str())
        .with("state", reaction.state.as_str())
        .with("errors", Value::list(errors))
        .with("generation", reaction.generation + u64::from(!is_stopped));
    actor.tell(ERROR, data).await;
}

#[cfg(test)]
mod tests;
