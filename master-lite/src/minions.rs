//! [`Minions`]: who is connected.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use link::{Handle, PublicKey};
use smol::channel::{Receiver, Sender, bounded};
use wire::Id;

/// The minions that are let in.
#[derive(Debug, Default)]
pub(crate) struct Minions(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    by_id: HashMap<Id, Connected>,
    /// Commands of minions whose daemons do not run: they get no jobs.
    calls: Vec<Connected>,
    /// Closed when a minion comes that somebody waits for. Only accepted ids are waited for, so these are no more than keys.
    awaited: HashMap<Id, (Sender<()>, Receiver<()>)>,
    /// How many have come.
    count: u64,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    pub(crate) handle: Handle,
    pub(crate) key: PublicKey,
    /// Which of its connections this is: a minion that came back before its loss was noticed has two for a moment.
    number: u64,
}

impl Minions {
    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A minion has come, or a call of one; an older connection of a minion is closed. The number is what [`went`](Self::went) wants to know.
    pub(crate) fn came(&self, id: Id, handle: Handle, key: PublicKey, is_call: bool) -> u64 {
        let mut all = self.all();
        all.count += 1;
        let number = all.count;
        let connected = Connected {
            handle,
            key,
            number,
        };
        if is_call {
            all.calls.push(connected);
        } else {
            all.awaited.remove(&id);
            if let Some(old) = all.by_id.insert(id, connected) {
                old.handle.close("the minion has come again");
            }
        }
        number
    }

    /// A connection is lost; true when it was the minion's newest.
    pub(crate) fn went(&self, id: &Id, number: u64) -> bool {
        let mut all = self.all();
        all.calls.retain(|call| call.number != number);
        let is_newest = all
            .by_id
            .get(id)
            .is_some_and(|known| known.number == number);
        if is_newest {
            all.by_id.remove(id);
        }
        is_newest
    }

    /// Closes whatever an id has open with this key.
    pub(crate) fn close(&self, id: &Id, key: &PublicKey, reason: &str) {
        let all = self.all();
        let open = all.by_id.get(id).into_iter().chain(&all.calls);
        for connected in open.filter(|connected| connected.key == *key) {
            connected.handle.close(reason);
        }
    }

    /// The way to a minion, while it is connected.
    pub(crate) fn get(&self, id: &Id) -> Option<Connected> {
        self.all().by_id.get(id).cloned()
    }

    /// The way to a minion; where there is none, a channel that is closed as soon as the minion comes.
    pub(crate) fn get_or_wait(&self, id: &Id) -> Result<Connected, Receiver<()>> {
        let mut all = self.all();
        if let Some(connected) = all.by_id.get(id) {
            return Ok(connected.clone());
        }
        let awaited = all.awaited.entry(id.clone());
        Err(awaited.or_insert_with(|| bounded(1)).1.clone())
    }

    /// The ids of all that are connected, sorted.
    pub(crate) fn ids(&self) -> Vec<Id> {
        let mut ids: Vec<Id> = self.all().by_id.keys().cloned().collect();
        ids.sort();
        ids
    }
}
