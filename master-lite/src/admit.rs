//! Who is let in: each peer comes with a key that it has proved, and waits until somebody decides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use link::{Peer, PublicKey};
use smol::channel::{Receiver, Sender, bounded};
use smol::future::FutureExt;
use value::{Map, Value, jid, log};
use wire::{Id, Welcome, tag};

use crate::daemon::{Master, now_ms};
use crate::store::{self, Applied, Command, KeyState};

/// Peers that wait for what becomes of their keys.
#[derive(Debug, Default)]
pub(crate) struct Pending(Mutex<HashMap<PublicKey, Vec<Sender<()>>>>);

impl Pending {
    fn all(&self) -> MutexGuard<'_, HashMap<PublicKey, Vec<Sender<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, key: PublicKey) -> Receiver<()> {
        let (sender, receiver) = bounded(1);
        let mut all = self.all();
        let waiting = all.entry(key).or_default();
        waiting.retain(|sender| !sender.is_closed());
        waiting.push(sender);
        receiver
    }

    /// The state of a key has changed.
    pub(crate) fn changed(&self, key: &PublicKey) {
        for sender in self.all().remove(key).into_iter().flatten() {
            let _ = sender.try_send(());
        }
    }
}

/// What a peer is told.
enum Decision {
    In(Map),
    Wait,
    No {
        act: &'static str,
        reason: &'static str,
        text: String,
    },
}

/// After how many seconds a refused minion may ask again: a key that was rejected is seldom accepted within a minute.
const ASK_AGAIN_S: u64 = 60;
/// How many keys wait for a decision, at most.
const PENDING_MAX: u64 = 1000;

impl Master {
    /// Decides on a peer, and serves it when it is let in.
    pub(crate) async fn admit(self: Arc<Self>, mut peer: Peer) {
        let (id, key) = (peer.hello().id.clone(), peer.key());
        let mut waits = false;
        loop {
            let changed = self.pending().wait(key);
            match self.decide(&id, key).await {
                Decision::In(bound) => {
                    self.auth(&id, &key, "accept").await;
                    return self.let_in(peer, bound).await;
                }
                Decision::No { act, reason, text } => {
                    log::warning(format_args!("{} is not let in: {text}", peer.who()));
                    self.auth(&id, &key, act).await;
                    return peer.refuse(reason, &text, Some(ASK_AGAIN_S));
                }
                Decision::Wait if waits => {}
                Decision::Wait => {
                    waits = true;
                    self.auth(&id, &key, "pend").await;
                    if let Err(error) = peer.pend("an administrator has to accept it").await {
                        log::warning(format_args!("{error}"));
                        return peer.refuse("full", "too many keys wait", Some(ASK_AGAIN_S));
                    }
                }
            }
            let gone = async { Some(peer.watch().await) };
            let decided = async {
                // No deadline: a key pends until somebody decides or its minion goes.
                let _ = changed.recv().await;
                None
            };
            if let Some(gone) = decided.or(gone).await {
                return log::info(format_args!("A pending minion has gone: {gone}"));
            }
        }
    }

    async fn decide(self: &Arc<Self>, id: &Id, key: PublicKey) -> Decision {
        let no = |act, reason, text: String| Decision::No { act, reason, text };
        let known = match self.offered(id, key).await {
            Ok(known) => known,
            Err(error) => return no("full", "full", error),
        };
        match known.as_ref().map(|known| known.state) {
            Some(KeyState::Accepted) => {
                Decision::In(known.map(|known| known.bound).unwrap_or_default())
            }
            Some(KeyState::Rejected) => no(
                "reject",
                "rejected",
                format!("the key of {id} was rejected"),
            ),
            Some(KeyState::Denied) => no(
                "denied",
                "denied",
                format!("{id} has another key here: delete that one to let this one in"),
            ),
            Some(KeyState::Pending) if self.accepts_all() => self.accept_now(id, key).await,
            Some(KeyState::Pending) | None => Decision::Wait,
        }
    }

    /// Where a key stands that was shown under an id; the first time it is remembered.
    async fn offered(
        self: &Arc<Self>,
        id: &Id,
        key: PublicKey,
    ) -> Result<Option<store::Key>, String> {
        let known = |error: store::Error| error.to_string();
        self.look_at_key_files().await;
        if let Some(known) = self.store().key(id).map_err(known)?
            && known.key == key
        {
            return Ok(Some(known));
        }
        let offered = self.change_key(Command::KeyOffered {
            id: id.clone(),
            key,
            at_ms: now_ms(),
            pending_max: PENDING_MAX,
        });
        match offered.await.map_err(|error| error.to_string())? {
            Applied::Refused(refusal) => Err(refusal.to_string()),
            Applied::Key { state, .. } => Ok(state.map(|state| store::Key {
                id: id.clone(),
                key,
                state,
                at_ms: now_ms(),
                bound: Map::new(),
            })),
            _ => Ok(None),
        }
    }

    /// `auto_accept` and `open_mode`.
    fn accepts_all(&self) -> bool {
        self.opts().flag("auto_accept") || self.opts().flag("open_mode")
    }

    async fn accept_now(self: &Arc<Self>, id: &Id, key: PublicKey) -> Decision {
        let accepted = self.change_key(Command::KeyAccepted {
            id: id.clone(),
            key,
            at_ms: now_ms(),
            bound: Map::new(),
            replace: false,
        });
        match accepted.await {
            Ok(Applied::Key { .. }) => Decision::In(Map::new()),
            Ok(_) => Decision::Wait,
            Err(error) => Decision::No {
                act: "error",
                reason: "failed",
                text: error.to_string(),
            },
        }
    }

    /// `salt/auth`, where `auth_events` has it.
    async fn auth(&self, id: &Id, key: &PublicKey, act: &str) {
        if !self.opts().get("auth_events").is_none_or(Value::is_true) {
            return;
        }
        let is_good = !matches!(act, "reject" | "denied" | "full" | "error");
        let data = Map::new()
            .with("result", is_good)
            .with("act", act)
            .with("id", id.as_str())
            .with("pub", key.pem());
        self.fire(tag::AUTH, data).await;
    }

    async fn let_in(self: Arc<Self>, peer: Peer, bound: Map) {
        let (id, key) = (peer.hello().id.clone(), peer.key());
        let epoch = peer.hello().epoch;
        let is_call = peer.hello().features.iter().any(|name| name == wire::CALL);
        let durable = match self.store().durable(&id, &key, epoch) {
            Ok(durable) => durable,
            Err(error) => {
                log::error(format_args!("{error}"));
                return peer.refuse(
                    "failed",
                    "the master's store cannot be read",
                    Some(ASK_AGAIN_S),
                );
            }
        };
        let welcome = Welcome {
            version: 0,
            features: Vec::new(),
            bound,
            epoch,
            durable,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            stamp: jid::stamp(),
        };
        match peer.accept(welcome).await {
            Ok(link) => self.serve(link, id, key, epoch, is_call).await,
            Err(error) => log::info(format_args!("{error}")),
        }
    }
}
