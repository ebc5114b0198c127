//! [`Keys`]: the keys of minions, in the store and as files, and the peers that a change of a key
//! concerns.

mod changes;
mod files;
mod pending;
mod rotation;
mod sent;

use std::convert::Infallible;
use std::sync::Arc;

use link::PublicKey;
use state::opts::Opts;
use value::log;
use wire::Id;

use crate::jobs::minions::Minions;
use crate::store::{Applied, ChangedKeys, Command, KeyState, Store, now_ms};

pub(crate) use files::{Changed, Error, KeyFiles, Use};
pub(crate) use pending::Pending;
pub(crate) use rotation::{Error as RotationError, Progress, Rotation, own};

use changes::Changes;
use files::Outcome;
use sent::SentFiles;

/// The keys of minions.
#[derive(Clone)]
pub(crate) struct Keys {
    store: Store,
    files: Arc<KeyFiles>,
    changes: Arc<Changes>,
    minions: Minions,
    pending: Pending,
    sent: SentFiles,
}

impl Keys {
    /// Opens the key files in `pki_dir`, and makes them match the store.
    ///
    /// # Errors
    /// When a folder or the store cannot be read or written.
    pub(crate) fn open(
        opts: &Opts,
        store: &Store,
        minions: &Minions,
        use_of: Use,
    ) -> Result<Self, Error> {
        let files = KeyFiles::open(&opts.path("pki_dir"), use_of)?;
        files.repair(store, now_ms())?;
        Ok(Self {
            store: store.clone(),
            files: Arc::new(files),
            changes: Arc::default(),
            minions: minions.clone(),
            pending: Pending::default(),
            sent: SentFiles::of_opts(opts),
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

    /// Follows the changes of keys that several masters have agreed on, for as long as this one runs.
    pub(crate) async fn follow(&self) -> Infallible {
        loop {
            // No deadline: keys change at any time.
            let changed = self.store.changed_keys().await;
            let keys = self.clone();
            if let Err(error) = smol::unblock(move || keys.show_changed(changed)).await {
                log::error(format_args!("cannot show changed keys as files: {error}"));
            }
        }
    }

    /// Closes connections of keys that are no longer accepted, wakes the peers that wait for a
    /// decision, and makes the key files match.
    fn show_changed(&self, ChangedKeys { all, keys }: ChangedKeys) -> Result<(), Error> {
        let mut keys: Vec<(Id, PublicKey)> = keys
            .into_iter()
            .map(|(id, key)| (id, PublicKey::from_bytes(key)))
            .collect();
        if all {
            keys.extend(self.minions.here());
            self.pending.all_changed();
        }
        let mut changed = Vec::new();
        for (id, key) in &keys {
            let known = self.store.key(id)?.filter(|known| known.key == *key);
            changed.push(Changed {
                id: id.clone(),
                key: *key,
                state: known.map(|known| known.state),
            });
        }
        self.changed(&changed);
        match all {
            true => self.files.repair(&self.store, now_ms()).map(drop),
            false => {
                let ids = keys.into_iter().map(|(id, _)| id).collect();
                self.files.show_all(&self.store, &ids)
            }
        }
    }

    /// Wakes the peers that wait for a decision on these keys, closes every connection of a key that is
    /// no longer accepted, and removes what minions without a key have sent.
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
        let deleted = changed.iter().filter(|key| key.state.is_none());
        let ids: Vec<Id> = deleted.map(|key| key.id.clone()).collect();
        if !ids.is_empty() {
            let (sent, store) = (self.sent.clone(), self.store.clone());
            smol::unblock(move || sent.remove(&store, &ids)).detach();
        }
    }
}
