//! `event_return`: the events of the master's log are handed to returners of the tree.
//!
//! Each returner has a separate task with a cursor in the log ([`follow`]). An event is handed over
//! at least once and in the order of the log, also if the master is killed or the returner fails for
//! a time: events that it did not take stay in the log. A returner that fails delays no other one.

mod batch;
mod follow;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use smol::Task;
use state::opts::Opts;
use value::{Map, Value};

use crate::events::Events;
use crate::runs::Runners;
use crate::store::{Command, Error, Store};

use batch::{Filter, Queue};
use follow::Follower;

/// The event that Salt fires when it begins to hand over events.
const BEGUN: &str = "salt/event_listen/start";

/// The prefix of the names of the returners' cursors.
const CURSOR: &str = "event_return/";

/// Returns the name of a returner's cursor in the log.
fn cursor(returner: &str) -> String {
    format!("{CURSOR}{returner}")
}

/// Returns the returner whose cursor has this name.
pub(crate) fn of_cursor(name: &str) -> Option<&str> {
    name.strip_prefix(CURSOR)
}

/// The service that hands the events of the log to the returners of `event_return`.
pub(crate) struct EventReturn {
    pub(crate) opts: Arc<Opts>,
    pub(crate) store: Store,
    pub(crate) events: Events,
    pub(crate) runners: Runners,
}

impl EventReturn {
    /// Returns the returners of the configuration, each once. Returns a sentence about the first one
    /// that can never get events.
    pub(crate) fn returners(&self) -> Result<Vec<String>, String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.opts.get("event_return").map_or(Vec::new(), names_of) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            return Ok(names);
        }
        let cx = self.runners.context(false);
        let never = |name: &String| modules::returners::never_takes_events(&cx, name);
        let why = names.iter().find_map(never);
        why.map_or(Ok(names), Err)
    }

    /// Begins to follow the log for these returners, until the returned tasks are dropped.
    ///
    /// # Errors
    /// Returns an error if the store cannot be used.
    pub(crate) async fn begin(&self, returners: &[String]) -> Result<Vec<Task<()>>, Error> {
        self.forget_others(returners).await?;
        let mut tasks = Vec::new();
        for returner in returners {
            let follower = Follower::begin(self, returner.clone()).await?;
            tasks.push(smol::spawn(follower.run()));
        }
        if !tasks.is_empty() {
            self.events.fire(BEGUN, Map::new()).await;
        }
        Ok(tasks)
    }

    /// Removes the cursors of returners that the configuration does not name any more. If such a
    /// returner is added again, it begins with new events.
    async fn forget_others(&self, returners: &[String]) -> Result<(), Error> {
        for name in self.store.cursors()? {
            let is_old = of_cursor(&name)
                .is_some_and(|returner| !returners.iter().any(|known| known == returner));
            if is_old {
                let sequence = None;
                self.store.apply(Command::Cursor { name, sequence }).await?;
            }
        }
        Ok(())
    }

    fn filter(&self) -> Filter {
        Filter {
            only: self.opts.texts("event_return_whitelist"),
            never: self.opts.texts("event_return_blacklist"),
        }
    }

    fn queue(&self) -> Queue {
        Queue::new(
            self.opts.int("event_return_queue"),
            self.opts.int("event_return_queue_max_seconds"),
        )
    }
}

/// Returns the names in the option `event_return`. An empty text names no returner.
fn names_of(option: &Value) -> Vec<String> {
    match option.as_str() {
        Some("") => Vec::new(),
        _ => option.texts(),
    }
}
