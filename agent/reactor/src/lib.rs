//! What a master and a minion react by.
//!
//! A [`Rule`] names SLS files for the tags of events. They are rendered and compiled ([`compile`]) to chunks, whose calls ([`Call`])
//! are then made. What a rule made of an event is a [`Reaction`]: it is kept before the first effect, with the chunks and the ids of
//! their jobs, and [`course`] brings it to its end, also one that was begun before. Who reacts is an [`Actor`]: a master on its log of
//! events, a minion on what happens on its machine. Which reactions led to one another is known to [`Causes`], so that loops end.

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
pub use course::{Actor, Board, Outcome, failed, keep, not_kept, react, shortened};
pub use high::{Compiled, compile};
pub use reaction::{Chunk, Reaction, State};
pub use rule::Rule;
pub use templates::Templates;
pub use test::{Tried, given};

/// The tag of the event that tells of a reaction that failed.
pub const ERROR: &str = "salt/reactor/error";

/// Who asks for a reactor's runners and wheel functions: no reactor answers their events.
pub const USER: &str = "Reactor";

/// How many reactions in a row may lead to one another (`reactor_loop_max`).
const LOOP_MAX: u64 = 32;

/// An event as rules see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its place among the others.
    pub sequence: u64,
    /// Its tag.
    pub tag: String,
    /// What it says, with when it was made (`_stamp`).
    pub data: Map,
}

impl Event {
    /// Events of the reactor's own runners are no events to it, as in Salt.
    #[must_use]
    pub fn is_own(&self) -> bool {
        is_own(&self.data)
    }
}

/// Whether data is that of an event of the reactor's own runners and wheel functions.
#[must_use]
pub fn is_own(data: &Map) -> bool {
    data.get("user").and_then(Value::as_str) == Some(USER)
}

/// Where a reaction stands: by its rule, and then by its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The number of the rule.
    pub rule: u64,
    /// The event's place among the others.
    pub sequence: u64,
}

/// The options that begin with `reactor_`.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many reactions of a rule are under way at a time.
    pub threads: usize,
    /// How many events of a rule may wait for their turn.
    pub waiting: usize,
    /// For how long a context of templates is used: a module that was synced meanwhile is seen after it.
    pub refresh: Duration,
    /// How many reactions in a row may lead to one another.
    pub loop_max: u64,
    /// How long the files of a rule may take to render.
    pub render: Duration,
}

impl Limits {
    /// Those of a configuration, with what its engine `reactor` is given.
    #[must_use]
    pub fn of(opts: &Opts) -> Self {
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
        }
    }
}

/// Tells that a reaction went wrong: in the log, and as an event that a rule may answer. What such a rule does about a loop that was
/// stopped comes after it, and when that is stopped too it is told in the log only.
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
