//! Updates the git repositories of the file server and of the pillar, each at its interval, so that no
//! request of a minion waits for a remote.

use std::convert::Infallible;
use std::time::Duration;

use link::wait::pause;
use modules::git::Repositories;
use state::module::Error;
use state::opts::Opts;
use value::{Map, log};

use crate::events::Events;

/// The interval at which repositories are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// The tag of the event about an update of the file server.
const UPDATED: &str = "salt/fileserver/gitfs/update";

/// The repositories of a master.
#[derive(Debug)]
pub(super) struct Updates {
    files: Repositories,
    pillar: Repositories,
    /// True if events tell about updates (`fileserver_events`).
    has_events: bool,
}

impl Updates {
    /// Reads the configuration.
    ///
    /// # Errors
    /// When a repository is configured in a wrong way.
    pub(super) fn new(opts: &Opts) -> Result<Self, Error> {
        Ok(Self {
            files: Repositories::of_fileserver(opts)?,
            pillar: Repositories::of_pillar(opts)?,
            has_events: opts.flag("fileserver_events"),
        })
    }

    /// Updates the repositories for as long as the master runs.
    pub(super) async fn follow(&self, events: &Events) -> Infallible {
        loop {
            let files = updated(&self.files).await;
            if let Some(changed) = files.filter(|_| self.has_events) {
                let data = Map::new().with("changed", changed).with("backend", "gitfs");
                events.fire(UPDATED, data).await;
            }
            updated(&self.pillar).await;
            pause(LOOK).await;
        }
    }
}

/// Updates the repositories that are due, and returns whether anything has changed. `None` if none was
/// due.
async fn updated(repositories: &Repositories) -> Option<bool> {
    let due = repositories.due();
    if due.is_empty() {
        return None;
    }
    let (changed, errors) = smol::unblock(move || due.update(None)).await;
    for error in errors {
        log::error(error.sentence());
    }
    Some(changed)
}
