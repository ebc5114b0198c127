//! `event_return`, `master_job_cache` and `ext_job_cache`: the events of the master's log, and those of
//! jobs, are handed to returners.
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
use modules::returners::follow::{Kind, clean as clean_now, never_takes};
use smol::Task;
use state::opts::Opts;
use value::{Map, Value, log};

use crate::events::Events;
use crate::runs::Runners;
use crate::store::{Command, Error, Store};

use batch::{Filter, Queue};
use follow::Follower;

/// An option that names returners of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogOption {
    /// All events.
    EventReturn,
    /// Jobs and returns.
    MasterJobCache,
    /// Jobs. The minions store their returns with the same returner.
    ExtJobCache,
}

impl LogOption {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::EventReturn, Self::MasterJobCache, Self::ExtJobCache];

    /// Returns the name of the option.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::EventReturn => "event_return",
            Self::MasterJobCache => "master_job_cache",
            Self::ExtJobCache => "ext_job_cache",
        }
    }

    /// Returns the functions that the returner must have.
    const fn kind(self) -> Kind {
        match self {
            Self::EventReturn => Kind::Events,
            Self::MasterJobCache | Self::ExtJobCache => Kind::Jobs,
        }
    }
}

/// An option that names a returner, and the returner.
pub(crate) type Following = (LogOption, String);

/// The tags of the events of new jobs.
const NEW_JOBS: &str = "salt/job/*/new";
/// The tags of the events of returns.
const RETURNS: &str = "salt/job/*/ret/*";

/// The interval at which returners of jobs remove old ones.
const CLEAN_EVERY: Duration = Duration::from_secs(3600);

/// The event that Salt fires when it begins to hand over events.
const BEGUN: &str = "salt/event_listen/start";

/// Returns the name of a returner's cursor in the log.
fn cursor(option: LogOption, returner: &str) -> String {
    format!("{}/{returner}", option.name())
}

/// Returns the returner whose cursor has this name.
pub(crate) fn of_cursor(option: LogOption, name: &str) -> Option<&str> {
    name.strip_prefix(option.name())?.strip_prefix('/')
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
    /// When there is such a returner. A returner of `ext_job_cache` that only minions can use is no error
    /// but a warning in the log, as in Salt.
    pub(crate) fn returners(&self, option: LogOption) -> Result<Vec<Following>, String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.opts.get(option.name()).map_or(Vec::new(), names_of) {
            // The store of this program is the local cache of jobs.
            let is_own = option.kind() == Kind::Jobs && name == "local_cache";
            if !is_own && !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let cx = self.runners.context(false);
        let mut all = Vec::new();
        for name in names {
            match never_takes(&cx, option.kind(), &name) {
                None => all.push((option, name)),
                Some(why) if option == LogOption::ExtJobCache => log::warning(format_args!(
                    "ext_job_cache: only the returns of minions are stored, not the jobs: {why}"
                )),
                Some(why) => return Err(why),
            }
        }
        Ok(all)
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
            if following.0 == LogOption::MasterJobCache {
                tasks.push(smol::spawn(clean(
                    self.runners.clone(),
                    following.1.clone(),
                )));
            }
        }
        if all
            .iter()
            .any(|(option, _)| *option == LogOption::EventReturn)
        {
            self.events.fire(BEGUN, Map::new()).await;
        }
        Ok(tasks)
    }

    /// Removes the cursors of returners that the configuration does not name any more. If such a
    /// returner is added again, it begins with new events.
    async fn forget_others(&self, all: &[Following]) -> Result<(), Error> {
        for name in self.store.cursors()? {
            let is_of = |option| of_cursor(option, &name).is_some();
            let is_named = || {
                all.iter()
                    .any(|(option, known)| cursor(*option, known) == name)
            };
            if LogOption::ALL.into_iter().any(is_of) && !is_named() {
                let sequence = None;
                self.store.apply(Command::Cursor { name, sequence }).await?;
            }
        }
        Ok(())
    }

    /// Returns the events that are handed over. The lists of the configuration are for all events.
    fn filter(&self, option: LogOption) -> Filter {
        let only = |tags: &[&str]| Filter {
            only: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            never: Vec::new(),
        };
        match option {
            LogOption::EventReturn => Filter {
                only: self.opts.texts("event_return_whitelist"),
                never: self.opts.texts("event_return_blacklist"),
            },
            LogOption::MasterJobCache => only(&[NEW_JOBS, RETURNS]),
            LogOption::ExtJobCache => only(&[NEW_JOBS]),
        }
    }

    /// Returns the queue. Jobs are handed over at once.
    fn queue(&self, option: LogOption) -> Queue {
        match option {
            LogOption::MasterJobCache | LogOption::ExtJobCache => Queue::new(None, None),
            LogOption::EventReturn => Queue::new(
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
