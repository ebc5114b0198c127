//! `event_return` and `master_job_cache`: the events of the master's log, and those of jobs, are handed
//! to returners.
//!
//! Each returner has a separate task with a cursor in the log ([`follow`]). An event is handed over
//! at least once and in the order of the log, also if the master is killed or the returner fails for
//! a time: events that it did not take stay in the log. A returner that fails delays no other one.

mod batch;
mod follow;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use link::wait::pause;
pub(crate) use modules::returners::follow::Kind;
use modules::returners::follow::{clean as clean_now, never_takes};
use smol::Task;
use state::opts::Opts;
use value::{Map, Value, log};

use crate::events::Events;
use crate::runs::Runners;
use crate::store::{Command, Error, Store};

use batch::{Filter, Queue};
use follow::Follower;

/// An option that names a returner, and the returner.
pub(crate) type Following = (Kind, String);

/// The tags of the events of new jobs and of returns.
const JOBS: [&str; 2] = ["salt/job/*/new", "salt/job/*/ret/*"];

/// The interval at which returners of jobs remove old ones.
const CLEAN_EVERY: Duration = Duration::from_secs(3600);

/// The event that Salt fires when it begins to hand over events.
const BEGUN: &str = "salt/event_listen/start";

/// Returns the name of a returner's cursor in the log.
fn cursor(kind: Kind, returner: &str) -> String {
    format!("{}/{returner}", kind.option())
}

/// Returns the returner whose cursor has this name.
pub(crate) fn of_cursor(kind: Kind, name: &str) -> Option<&str> {
    name.strip_prefix(kind.option())?.strip_prefix('/')
}

/// The service that hands the events of the log to the returners of `event_return`.
pub(crate) struct EventReturn {
    pub(crate) opts: Arc<Opts>,
    pub(crate) store: Store,
    pub(crate) events: Events,
    pub(crate) runners: Runners,
}

impl EventReturn {
    /// Returns the returners that an option names, each once. Returns a sentence about the first one
    /// that can never get events.
    ///
    /// # Errors
    /// When there is such a returner.
    pub(crate) fn returners(&self, kind: Kind) -> Result<Vec<Following>, String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.opts.get(kind.option()).map_or(Vec::new(), names_of) {
            // The store of this program is the local cache of jobs.
            let is_own = kind == Kind::Jobs && name == "local_cache";
            if !is_own && !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let cx = self.runners.context(false);
        let never = |name: &String| never_takes(&cx, kind, name);
        match names.iter().find_map(never) {
            Some(why) => Err(why),
            None => Ok(names.into_iter().map(|name| (kind, name)).collect()),
        }
    }

    /// Begins to follow the log for these returners, until the returned tasks are dropped.
    ///
    /// # Errors
    /// Returns an error if the store cannot be used.
    pub(crate) async fn begin(&self, all: &[Following]) -> Result<Vec<Task<()>>, Error> {
        self.forget_others(all).await?;
        let mut tasks = Vec::new();
        for following in all {
            let follower = Follower::begin(self, following.clone()).await?;
            tasks.push(smol::spawn(follower.run()));
            if following.0 == Kind::Jobs {
                tasks.push(smol::spawn(clean(
                    self.runners.clone(),
                    following.1.clone(),
                )));
            }
        }
        if all.iter().any(|(kind, _)| *kind == Kind::Events) {
            self.events.fire(BEGUN, Map::new()).await;
        }
        Ok(tasks)
    }

    /// Removes the cursors of returners that the configuration does not name any more. If such a
    /// returner is added again, it begins with new events.
    async fn forget_others(&self, all: &[Following]) -> Result<(), Error> {
        for name in self.store.cursors()? {
            let is_of = |kind| of_cursor(kind, &name).is_some();
            let is_named = || all.iter().any(|(kind, known)| cursor(*kind, known) == name);
            if [Kind::Events, Kind::Jobs].into_iter().any(is_of) && !is_named() {
                let sequence = None;
                self.store.apply(Command::Cursor { name, sequence }).await?;
            }
        }
        Ok(())
    }

    /// Returns the events that are handed over. The lists of the configuration are for all events.
    fn filter(&self, kind: Kind) -> Filter {
        match kind {
            Kind::Events => Filter {
                only: self.opts.texts("event_return_whitelist"),
                never: self.opts.texts("event_return_blacklist"),
            },
            Kind::Jobs => Filter {
                only: JOBS.map(str::to_owned).into(),
                never: Vec::new(),
            },
        }
    }

    /// Returns the queue. Jobs are handed over at once.
    fn queue(&self, kind: Kind) -> Queue {
        match kind {
            Kind::Jobs => Queue::new(None, None),
            Kind::Events => Queue::new(
                self.opts.int("event_return_queue"),
                self.opts.int("event_return_queue_max_seconds"),
            ),
        }
    }
}

/// Removes old jobs from a returner of `master_job_cache` at regular intervals, for as long as the master
/// runs.
async fn clean(runners: Runners, returner: String) {
    loop {
        let (runners, name) = (runners.clone(), returner.clone());
        let cleaned = move || clean_now(&runners.context(false), &name);
        if let Err(error) = smol::unblock(cleaned).await {
            log::error(format_args!(
                "master_job_cache: the returner {returner} cannot remove old jobs: {error}"
            ));
        }
        pause(CLEAN_EVERY).await;
    }
}

/// Returns the names in an option. An empty text names no returner.
fn names_of(option: &Value) -> Vec<String> {
    match option.as_str() {
        Some("") => Vec::new(),
        _ => option.texts(),
    }
}
