//! [`KeyChanges`]: the keys that commands of a log may have changed, for the parts of the master that
//! have to follow: its connections and its key files.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use link::PublicKey;
use smol::channel::{Receiver, Sender, bounded};
use value::channel;
use wire::Id;

/// The keys that may have changed since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedKeys {
    /// True if any key may have changed.
    pub(crate) all: bool,
    /// The keys, with the ids that they belong to.
    pub(crate) keys: BTreeSet<(Id, [u8; 32])>,
}

/// Collects changed keys until they are looked at. There are at most as many as keys.
#[derive(Debug)]
pub(super) struct KeyChanges {
    changed: Mutex<ChangedKeys>,
    wake: (Sender<()>, Receiver<()>),
}

impl Default for KeyChanges {
    fn default() -> Self {
        Self {
            changed: Mutex::default(),
            wake: bounded(1),
        }
    }
}

impl KeyChanges {
    /// Adds keys that a command is about.
    pub(super) fn add(&self, keys: Vec<(Id, PublicKey)>) {
        if keys.is_empty() {
            return;
        }
        let keys = keys.into_iter().map(|(id, key)| (id, *key.bytes()));
        let changed = self.changed.lock();
        changed
            .unwrap_or_else(PoisonError::into_inner)
            .keys
            .extend(keys);
        channel::if_open(self.wake.0.try_send(()));
    }

    /// Marks all keys as changed.
    pub(super) fn add_all(&self) {
        let changed = self.changed.lock();
        changed.unwrap_or_else(PoisonError::into_inner).all = true;
        channel::if_open(self.wake.0.try_send(()));
    }

    /// Waits until keys have changed, and takes them.
    pub(super) async fn next(&self) -> ChangedKeys {
        // No deadline: keys change at any time. The sender is never dropped.
        channel::or_closed(self.wake.1.recv().await);
        let changed = self.changed.lock();
        std::mem::take(&mut *changed.unwrap_or_else(PoisonError::into_inner))
    }
}
