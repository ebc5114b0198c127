//! [`Minions`]: the connected minions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
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
    /// True once the master ends: connections that are lost from then on are not the minions' doing.
    is_ending: bool,
}

/// The connection of a minion.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    pub(crate) handle: Handle,
    pub(crate) key: PublicKey,
    /// The number of the connection. A minion that reconnects before its loss is noticed has two
    /// for a moment.
    number: u64,
    /// The reason why the master has closed the connection.
    closed: Arc<OnceLock<String>>,
}

/// A new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Came {
    /// The number that [`Minions::went`] needs.
    pub(crate) number: u64,
    /// True if the minion had another connection, which is closed now.
    pub(crate) is_replaced: bool,
}

/// A lost connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Went {
    /// The minion has no connection any more. If the master has closed it, this is the reason.
    Last(Option<String>),
    /// The minion has another connection, or the connection was that of a call.
    Other,
    /// The master ends.
    Ending,
}

impl Minions {
    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the connection of a minion, or of a call. Closes an older connection of the minion.
    pub(crate) fn came(&self, id: Id, handle: Handle, key: PublicKey, is_call: bool) -> Came {
        let mut all = self.all();
        all.count += 1;
        let number = all.count;
        let connected = Connected {
            handle,
            key,
            number,
            closed: Arc::default(),
        };
        let mut is_replaced = false;
        if is_call {
            all.calls.push(connected);
        } else {
            all.awaited.remove(&id);
            if let Some(old) = all.by_id.insert(id, connected) {
                old.handle.close("the minion has connected again");
                is_replaced = true;
            }
        }
        Came {
            number,
            is_replaced,
        }
    }

    /// Removes a lost connection.
    pub(crate) fn went(&self, id: &Id, number: u64) -> Went {
        let mut all = self.all();
        all.calls.retain(|call| call.number != number);
        if all.by_id.get(id).is_none_or(|known| known.number != number) {
            return Went::Other;
        }
        let lost = all.by_id.remove(id);
        match all.is_ending {
            true => Went::Ending,
            false => Went::Last(lost.and_then(|lost| lost.closed.get().cloned())),
        }
    }

    /// Closes all connections of an id that have this key, which is no longer accepted.
    pub(crate) fn close(&self, id: &Id, key: &PublicKey, reason: &str) {
        let all = self.all();
        let open = all.by_id.get(id).into_iter().chain(&all.calls);
        for connected in open.filter(|connected| connected.key == *key) {
            connected.closed.get_or_init(|| reason.to_owned());
            let text = format!("the key is no longer accepted ({reason})");
            connected.handle.close(&text);
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
        self.all().is_ending = true;
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
