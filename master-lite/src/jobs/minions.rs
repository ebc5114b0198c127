//! [`Minions`]: the connected minions, of this master and of the others of its cluster.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use link::wait::within;
use link::{Error, Handle, PublicKey};
use smol::channel::{Receiver, Sender, bounded};
use smol::future::FutureExt;
use value::{Map, Value, channel};
use wire::{Id, Request};

use crate::store::Origin;

/// The number of seconds that minions wait before they reconnect to a master that is restarted.
const BACK_AFTER_S: u64 = 1;
/// The maximum time in which a minion of a cluster connects to another master when its own has died. If
/// the machine of its master is paused, the minion notices that after 20 s (`idle` of `link::Limits`).
const MOVING: Duration = Duration::from_secs(30);
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
    /// The minions that are connected to other masters of the cluster.
    elsewhere: HashMap<Id, Connected>,
    /// The minions whose connection to a master of the cluster has ended, and when. They are about to
    /// connect to another one.
    moving: HashMap<Id, Instant>,
    /// True for a master of a cluster.
    is_clustered: bool,
    /// The connections of calls on machines whose daemon does not run. They receive no jobs.
    calls: Vec<Connected>,
    /// The channels that close when a minion connects. Only accepted ids are waited for, so there
    /// are at most as many as keys.
    awaited: HashMap<Id, (Sender<()>, Receiver<()>)>,
    /// The number of connections so far.
    count: u64,
    /// The channel that has a message when a minion of this master has come or gone.
    changes: Option<Sender<()>>,
    /// True once the master ends: connections that are lost from then on are not the minions' doing.
    is_ending: bool,
}

/// A request that a minion has not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unanswered {
    /// The minion answered that it does not.
    #[error("{0}")]
    Refused(String),
    /// The connection was lost, or the answer is late.
    #[error("{0}")]
    Lost(String),
}

/// The answer to a request.
pub(crate) type Answered = Pin<Box<dyn Future<Output = Result<Value, Unanswered>> + Send>>;

/// Passes requests on to another master, for a minion that is connected to it.
pub(crate) trait Relay: Send + Sync {
    /// Asks a minion with this key for something.
    fn ask(&self, id: Id, key: PublicKey, request: Request) -> Answered;
}

/// The route to a minion.
#[derive(Clone)]
enum Way {
    /// Over a connection of this master.
    Here(Handle),
    /// Through another master.
    There(Arc<dyn Relay>),
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Here(_) => "Here",
            Self::There(_) => "There",
        })
    }
}

/// The connection of a minion.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    way: Way,
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

impl All {
    /// Notes that a minion has lost its connection, unless it has another one.
    fn left(&mut self, id: Id) {
        if self.get(&id).is_none() {
            self.moving.insert(id, Instant::now());
        }
    }

    fn changed(&self) {
        if let Some(changes) = &self.changes {
            channel::if_open(changes.try_send(()));
        }
    }

    fn get(&self, id: &Id) -> Option<Connected> {
        let connected = self.by_id.get(id).or_else(|| self.elsewhere.get(id));
        connected.cloned()
    }
}

impl Connected {
    /// Sends a request to the minion, which has this id, and returns the answer. Fails as soon as the
    /// connection stops answering packets, long before the answer is overdue.
    pub(crate) async fn ask(
        &self,
        id: &Id,
        request: impl Into<Request>,
    ) -> Result<Value, Unanswered> {
        let handle = match &self.way {
            Way::There(relay) => return relay.ask(id.clone(), self.key, request.into()).await,
            Way::Here(handle) => handle,
        };
        let answer = async { handle.ask(request).await?.done().await };
        let lost = async { Err(handle.silence().await) };
        let answered: Result<Value, Error> = answer.or(lost).await;
        answered.map_err(|error| match error {
            Error::Failed { .. } => Unanswered::Refused(error.to_string()),
            _ => Unanswered::Lost(error.to_string()),
        })
    }

    /// Returns the connection itself, if it is one of this master.
    pub(crate) fn here(&self) -> Option<&Handle> {
        match &self.way {
            Way::Here(handle) => Some(handle),
            Way::There(_) => None,
        }
    }

    /// Returns whether the minion is connected to another master of the cluster.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.here().is_none()
    }

    fn close(&self, reason: &str) {
        if let Some(handle) = self.here() {
            handle.close(reason);
        }
    }
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
            way: Way::Here(handle),
            key,
            number,
            closed: Arc::default(),
        };
        let mut is_replaced = false;
        if is_call {
            all.calls.push(connected);
        } else {
            all.awaited.remove(&id);
            all.moving.remove(&id);
            all.changed();
            if let Some(old) = all.by_id.insert(id, connected) {
                old.close("the minion has connected again");
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
        all.changed();
        if all.is_clustered {
            all.left(id.clone());
        }
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
            connected.close(&text);
        }
    }

    /// Replaces the minions that are connected to other masters.
    pub(crate) fn are_elsewhere(
        &self,
        elsewhere: impl IntoIterator<Item = (Id, PublicKey, Arc<dyn Relay>)>,
    ) {
        let connected = elsewhere.into_iter().map(|(id, key, relay)| {
            let connected = Connected {
                way: Way::There(relay),
                key,
                number: 0,
                closed: Arc::default(),
            };
            (id, connected)
        });
        let elsewhere: HashMap<Id, Connected> = connected.collect();
        let mut all = self.all();
        all.awaited.retain(|id, _| !elsewhere.contains_key(id));
        all.is_clustered = true;
        let before = std::mem::replace(&mut all.elsewhere, elsewhere);
        for id in before.into_keys() {
            all.left(id);
        }
        all.moving.retain(|_, since| since.elapsed() < MOVING);
    }

    /// Returns the time for which a minion that is not connected is waited for, because it is about to
    /// connect to another master of the cluster. It is zero for any other minion.
    pub(crate) fn moves_within(&self, id: &Id) -> Duration {
        let all = self.all();
        let since = all.moving.get(id);
        since.map_or(Duration::ZERO, |since| {
            MOVING.saturating_sub(since.elapsed())
        })
    }

    /// Returns a minion's connection, if there is one.
    pub(crate) fn get(&self, id: &Id) -> Option<Connected> {
        self.all().get(id)
    }

    /// Returns a minion's connection to this master, if there is one.
    pub(crate) fn get_here(&self, id: &Id) -> Option<Connected> {
        self.all().by_id.get(id).cloned()
    }

    /// Returns whether a minion is connected to another master.
    pub(crate) fn is_elsewhere(&self, id: &Id) -> bool {
        self.all().elsewhere.contains_key(id)
    }

    /// Returns a minion's connection, or a channel that closes as soon as the minion connects.
    pub(crate) fn get_or_wait(&self, id: &Id) -> Result<Connected, Receiver<()>> {
        let mut all = self.all();
        if let Some(connected) = all.get(id) {
            return Ok(connected);
        }
        let awaited = all.awaited.entry(id.clone());
        Err(awaited.or_insert_with(|| bounded(1)).1.clone())
    }

    /// Returns a channel that has a message whenever minions of this master have come or gone. Only
    /// the last one that was returned gets messages.
    pub(crate) fn changes(&self) -> Receiver<()> {
        let (sender, changes) = bounded(1);
        self.all().changes = Some(sender);
        changes
    }

    /// Returns the minions that are connected to this master, with their keys.
    pub(crate) fn here(&self) -> BTreeMap<Id, PublicKey> {
        let all = self.all();
        let keys = all.by_id.iter();
        keys.map(|(id, connected)| (id.clone(), connected.key))
            .collect()
    }

    /// Returns the ids of all connected minions, sorted.
    pub(crate) fn ids(&self) -> Vec<Id> {
        let all = self.all();
        let mut ids: Vec<Id> = all
            .by_id
            .keys()
            .chain(all.elsewhere.keys())
            .cloned()
            .collect();
        drop(all);
        ids.sort();
        ids.dedup();
        ids
    }

    /// Announces the master's end to all minions, and asks them to reconnect soon.
    pub(crate) async fn goodbye(&self) {
        self.all().is_ending = true;
        let all = async {
            for id in self.here().into_keys() {
                if let Some(handle) = self.get_here(&id).as_ref().and_then(Connected::here) {
                    #[expect(
                        clippy::let_underscore_must_use,
                        reason = "the connection is closed in any case"
                    )]
                    let _ = handle
                        .bye("the master is shutting down", Some(BACK_AFTER_S))
                        .await;
                }
            }
        };
        let _ = within(GOODBYE, all).await;
    }
}
