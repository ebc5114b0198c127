//! [`Minions`]: the connected minions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::wait::within;
use link::{Handle, PublicKey};
use smol::channel::{Receiver, Sender, bounded};
use value::{Map, Value};
use wire::Id;

use crate::store::Origin;

/// The number of seconds that minions wait before they reconnect to a master that is restarted.
const BACK_AFTER_S: u64 = 1;
/// The maximum time for saying goodbye to all minions.
const GOODBYE: Duration = Duration::from_secs(2);

/// The accepted minion of a session.
#[derive(Clone, Debug)]
pub(crate) struct Minion {
    pub(crate) id: Id,
    pub(crate) key: PublicKey,
    pub(crate) epoch: u64,
    /// The properties that the minion's key is bound to.
    pub(crate) bound: Map,
}

impl Minion {
    /// Returns the pillar that overrides the compiled one.
    pub(crate) fn bound_pillar(&self) -> Map {
        let mut pillar = Map::new();
        if let Some(role) = self.bound.get("role") {
            pillar.insert("role", role.clone());
        }
        let bound = self.bound.get("pillar").and_then(Value::as_map);
        pillar.update(bound.cloned().unwrap_or_default());
        pillar
    }

    /// Returns the place of a record in the minion's spool. The number 0 has none.
    pub(crate) fn origin(&self, sequence: u64) -> Option<Origin> {
        (sequence > 0).then(|| Origin {
            id: self.id.clone(),
            key: self.key,
            epoch: self.epoch,
            sequence,
        })
    }
}

/// The connections of accepted minions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Minions(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    by_id: HashMap<Id, Connected>,
    /// The connections of calls on machines whose daemon does not run. They receive no jobs.
    calls: Vec<Connected>,
    /// The channels that close when a minion connects. Only accepted ids are waited for, so there
    /// are at most as many as keys.
    awaited: HashMap<Id, (Sender<()>, Receiver<()>)>,
    /// The number of connections so far.
    count: u64,
}

/// The connection of a minion.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    pub(crate) handle: Handle,
    pub(crate) key: PublicKey,
    /// The number of the connection. A minion that reconnects before its loss is noticed has two
    /// for a moment.
    number: u64,
}

impl Minions {
    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the connection of a minion, or of a call. Closes an older connection of the minion.
    /// Returns the number that [`went`](Self::went) needs.
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
                old.handle.close("the minion has connected again");
            }
        }
        number
    }

    /// Removes a lost connection. Returns true if it was the minion's newest.
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

    /// Closes all connections of an id that have this key.
    pub(crate) fn close(&self, id: &Id, key: &PublicKey, reason: &str) {
        let all = self.all();
        let open = all.by_id.get(id).into_iter().chain(&all.calls);
        for connected in open.filter(|connected| connected.key == *key) {
            connected.handle.close(reason);
        }
    }

    /// Returns a minion's connection, if there is one.
    pub(crate) fn get(&self, id: &Id) -> Option<Connected> {
        self.all().by_id.get(id).cloned()
    }

    /// Returns a minion's connection, or a channel that closes as soon as the minion connects.
    pub(crate) fn get_or_wait(&self, id: &Id) -> Result<Connected, Receiver<()>> {
        let mut all = self.all();
        if let Some(connected) = all.by_id.get(id) {
            return Ok(connected.clone());
        }
        let awaited = all.awaited.entry(id.clone());
        Err(awaited.or_insert_with(|| bounded(1)).1.clone())
    }

    /// Returns the ids of all connected minions, sorted.
    pub(crate) fn ids(&self) -> Vec<Id> {
        let mut ids: Vec<Id> = self.all().by_id.keys().cloned().collect();
        ids.sort();
        ids
    }

    /// Announces the master's end to all minions, and asks them to reconnect soon.
    pub(crate) async fn goodbye(&self) {
        let all = async {
            for id in self.ids() {
                if let Some(minion) = self.get(&id) {
                    #[expect(
                        clippy::let_underscore_must_use,
                        reason = "the connection is closed in any case"
                    )]
                    let _ = minion
                        .handle
                        .bye("the master is shutting down", Some(BACK_AFTER_S))
                        .await;
                }
            }
        };
        let _ = within(GOODBYE, all).await;
    }
}
