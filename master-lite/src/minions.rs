//! [`Minions`]: who is connected.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use link::{Handle, PublicKey};
use wire::Id;

/// The minions that are let in, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Minions(Mutex<HashMap<Id, Connected>>);

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    pub(crate) handle: Handle,
    pub(crate) key: PublicKey,
    /// Which of its connections this is: a minion that came back before its loss was noticed has two for a moment.
    number: u64,
}

impl Minions {
    fn all(&self) -> MutexGuard<'_, HashMap<Id, Connected>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A minion has come; an older connection of it is closed. The number is what [`went`](Self::went) wants to know.
    pub(crate) fn came(&self, id: Id, handle: Handle, key: PublicKey) -> u64 {
        let mut all = self.all();
        let number = all.get(&id).map_or(0, |old| {
            old.handle.close("the minion has come again");
            old.number + 1
        });
        let connected = Connected {
            handle,
            key,
            number,
        };
        all.insert(id, connected);
        number
    }

    /// A connection is lost; true when it was the minion's newest.
    pub(crate) fn went(&self, id: &Id, number: u64) -> bool {
        let mut all = self.all();
        let is_newest = all.get(id).is_some_and(|known| known.number == number);
        if is_newest {
            all.remove(id);
        }
        is_newest
    }

    /// The way to a minion, while it is connected.
    pub(crate) fn get(&self, id: &Id) -> Option<Connected> {
        self.all().get(id).cloned()
    }

    /// The ids of all that are connected, sorted.
    pub(crate) fn ids(&self) -> Vec<Id> {
        let mut ids: Vec<Id> = self.all().keys().cloned().collect();
        ids.sort();
        ids
    }
}
