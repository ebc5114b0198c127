//! [`Keys`]: the keys of minions, in the store and as files, and the peers that a change of a key
//! concerns.

mod changes;
mod files;
mod pending;
mod rotation;

use std::path::Path;
use std::sync::Arc;

use value::log;

use crate::jobs::minions::Minions;
use crate::store::{Applied, Command, KeyState, Store, now_ms};

pub(crate) use files::{Changed, Error, KeyFiles};
pub(crate) use pending::Pending;
pub(crate) use rotation::{Error as RotationError, Progress, Rotation};

use changes::Changes;
use files::Outcome;

/// The keys of minions.
#[derive(Clone)]
pub(crate) struct Keys {
    store: Store,
    files: Arc<KeyFiles>,
    changes: Arc<Changes>,
    minions: Minions,
    pending: Pending,
}

impl Keys {
    /// Opens the key files in `pki_dir`, and makes them match the store.
    ///
    /// # Errors
    /// When a folder or the store cannot be read or written.
    pub(crate) fn open(pki_dir: &Path, store: Store, minions: Minions) -> Result<Self, Error> {
        let files = KeyFiles::open(pki_dir)?;
        files.repair(&store, now_ms())?;
        Ok(Self {
            store,
            files: Arc::new(files),
            changes: Arc::default(),
            minions,
            pending: Pending::default(),
        })
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn files(&self) -> &KeyFiles {
        &self.files
    }

    /// Returns the connected peers whose keys are not decided on yet.
    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    /// Changes the state of a key, updates the key files, and notifies the peers that the change
    /// concerns.
    pub(crate) async fn change(&self, command: Command) -> Result<Applied, String> {
        self.put(Some(command)).await
    }

    /// Applies the changes that administrators made to the key files.
    pub(crate) async fn look_at_files(&self) {
        if self.files.are_as_left() {
            return;
        }
        if let Err(error) = self.put(None).await {
            log::error(format_args!("cannot read the key files: {error}"));
        }
    }

    async fn put(&self, command: Option<Command>) -> Result<Applied, String> {
        let (answer, is_ours) = self.changes.put(command);
        if is_ours {
            let keys = self.clone();
            let write = move || {
                let changed = |changed: &[Changed]| keys.changed(changed);
                keys.changes.write(&keys.files, &keys.store, changed);
            };
            smol::unblock(write).detach();
        }
        // No deadline: the store and the files answer each change.
        let answer = answer.recv().await;
        answer.unwrap_or_else(|_| Err("the master is shutting down".to_owned()))
    }

    /// Wakes the peers that wait for a decision on these keys, and closes every connection of a key
    /// that is no longer accepted.
    pub(crate) fn changed(&self, changed: &[Changed]) {
        for Changed { id, key, state } in changed {
            self.pending.changed(key);
            let reason = match state {
                Some(KeyState::Accepted) => continue,
                Some(KeyState::Rejected) => "key rejected",
                Some(_) => "key no longer accepted",
                None => "key deleted",
            };
            self.minions.close(id, key, reason);
        }
    }
}
