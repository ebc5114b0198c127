//! [`GitRoots`]: the repositories of the file server, as the roots of a run or of a daemon.

use std::sync::{Arc, Mutex, PoisonError};

use state::module::Error;
use state::opts::Opts;

use crate::git::{Repositories, Snapshot, Version};

/// The repositories of the file server.
#[derive(Debug)]
pub(super) struct GitRoots {
    opts: Opts,
    /// True to use what each update brings, as a daemon does. A run uses the same commits to its end.
    follows: bool,
    known: Mutex<Option<Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    version: Version,
    snapshot: Result<Arc<Snapshot>, String>,
}

impl GitRoots {
    pub(super) fn new(opts: &Opts, follows: bool) -> Self {
        Self {
            opts: opts.clone(),
            follows,
            known: Mutex::new(None),
        }
    }

    /// Returns the commits that are used.
    ///
    /// # Errors
    /// When the configuration is wrong, or a repository was never fetched.
    pub(super) fn snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known
            && !self.follows
        {
            return known.snapshot.clone().map_err(Error::refused);
        }
        let repositories = Repositories::of_fileserver(&self.opts)?;
        let version = repositories.version();
        if let Some(known) = known.as_ref().filter(|known| known.version == version) {
            return known.snapshot.clone().map_err(Error::refused);
        }
        let snapshot = repositories.snapshot().map(Arc::new);
        let snapshot = snapshot.map_err(|error| error.sentence());
        *known = Some(Known {
            version,
            snapshot: snapshot.clone(),
        });
        snapshot.map_err(Error::refused)
    }
}
