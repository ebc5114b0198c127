//! [`Rotation`]: the master's own key, and the key that is about to replace it.
//!
//! A rotation begins with the next key, `master.next.pem`. Each minion receives it, signed with the
//! old key, over its session: at once, or when it connects. Once all accepted minions have stored
//! it, or when an administrator says so, the next key becomes `master.pem`. Sessions continue.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::key::NotAKey;
use link::pki::{self, Identity, Pki};
use link::wait::within;
use link::{Handle, KeyPair, Listener, PublicKey, Succession};
use smol::channel::{Receiver, Sender, bounded};
use value::{Map, Value, channel, log};
use wire::{Id, NextKey};

use crate::jobs::minions::{Connected, Minion, Minions};
use crate::store::{self, Cache, Change, Command, KeyState, Store};

/// The name of the master's key.
const OWN: &str = "master";
/// The name of the key that replaces it.
const NEXT: &str = "master.next";
/// The field of a minion's status that has the fingerprint of the next key that it accepts.
const ACCEPTS: &str = "next_key";
/// The time that a minion has to store the next key. It gets it again when it connects again.
const ANSWER: Duration = Duration::from_secs(60);

/// The reason why the master's key cannot be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The folder of keys cannot be used.
    #[error(transparent)]
    Pki(#[from] pki::Error),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The old key cannot sign.
    #[error(transparent)]
    Key(#[from] NotAKey),
    /// There is no next key.
    #[error("no rotation of the master's key is in progress: start one with --rotate-master-key")]
    None,
    /// The other masters of a cluster know this one by its key.
    #[error(
        "a master of a cluster keeps its key, by which the others know it: to replace it, remove the master from the cluster (cluster.remove) and let it join again as a new one"
    )]
    OfCluster,
}

/// The state of a rotation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The master's key.
    pub(crate) own: PublicKey,
    /// The key that is about to replace it, unless that has happened.
    pub(crate) next: Option<PublicKey>,
    /// The minions that accept it.
    pub(crate) ready: Vec<Id>,
    /// The minions that do not accept it yet.
    pub(crate) waiting: Vec<Id>,
}

/// The master's own key. Clones are cheap.
#[derive(Clone)]
pub(crate) struct Rotation(Arc<Shared>);

struct Shared {
    pki: Pki,
    store: Store,
    minions: Minions,
    is_of_cluster: bool,
    keys: Mutex<Own>,
    /// The new key, for the listener.
    switched: (Sender<KeyPair>, Receiver<KeyPair>),
}

struct Own {
    own: Identity,
    next: Option<Identity>,
    /// The statement about the present key, if it has replaced another one since this master
    /// started. A minion whose key was pending then has a session under the old key.
    last: Option<Succession>,
}

/// Reads the master's key, or creates it.
///
/// # Errors
/// When it cannot be read or created.
pub(crate) fn own(pki: &Pki) -> Result<KeyPair, pki::Error> {
    Ok(pki.own(OWN)?.pair)
}

impl Rotation {
    /// Reads the master's key, or creates it, and the next key of a rotation in progress.
    ///
    /// # Errors
    /// When a key cannot be read or created.
    pub(crate) fn open(
        pki: Pki,
        store: Store,
        minions: Minions,
        is_of_cluster: bool,
    ) -> Result<Self, pki::Error> {
        let own = pki.own(OWN)?;
        let next = pki.find_own(NEXT)?;
        Ok(Self(Arc::new(Shared {
            pki,
            store,
            minions,
            is_of_cluster,
            keys: Mutex::new(Own {
                own,
                next,
                last: None,
            }),
            switched: bounded(1),
        })))
    }

    fn keys(&self) -> MutexGuard<'_, Own> {
        self.0.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the master's key.
    pub(crate) fn own(&self) -> Identity {
        self.keys().own.clone()
    }

    fn next(&self) -> Option<PublicKey> {
        let keys = self.keys();
        keys.next.as_ref().map(|next| next.pair.public())
    }

    /// Creates the next key, unless there is one. If no minion is left to wait for, it replaces the
    /// master's key. This blocks on files.
    ///
    /// # Errors
    /// When a file or the store cannot be used.
    pub(crate) fn begin(&self) -> Result<Progress, Error> {
        if self.0.is_of_cluster {
            return Err(Error::OfCluster);
        }
        {
            let mut keys = self.keys();
            if keys.next.is_none() {
                let next = self.0.pki.own(NEXT)?;
                log::info(format_args!(
                    "The next key of this master is {}",
                    next.pair.public()
                ));
                keys.next = Some(next);
            }
        }
        self.settle()
    }

    /// Makes the next key the master's key now. Minions that do not accept it yet refuse this master
    /// from now on. This blocks on files.
    ///
    /// # Errors
    /// When there is no next key, or a file or the store cannot be used.
    pub(crate) fn finish(&self) -> Result<Progress, Error> {
        if self.0.is_of_cluster {
            return Err(Error::OfCluster);
        }
        let progress = self.progress()?;
        let mut keys = self.keys();
        let next = keys.next.as_ref().ok_or(Error::None)?;
        let last = Succession::sign(&keys.own.pair, next.pair.public())?;
        keys.own = self.0.pki.replace_own(next, &keys.own)?;
        keys.next = None;
        keys.last = Some(last);
        let pair = keys.own.pair.clone();
        log::warning(format_args!(
            "the key of this master is now {}",
            pair.public()
        ));
        channel::if_open(self.0.switched.0.force_send(pair.clone()).map(drop));
        Ok(Progress {
            own: pair.public(),
            next: None,
            ..progress
        })
    }

    /// Deletes the next key. Minions that accept it already accept it in vain. This blocks on files.
    ///
    /// # Errors
    /// When there is no next key, or a file or the store cannot be used.
    pub(crate) fn cancel(&self) -> Result<Progress, Error> {
        {
            let mut keys = self.keys();
            let next = keys.next.as_ref().ok_or(Error::None)?;
            self.0.pki.remove_own(next)?;
            keys.next = None;
        }
        self.progress()
    }

    /// Makes the next key the master's key if all accepted minions accept it. This blocks on files.
    ///
    /// # Errors
    /// When a file or the store cannot be used.
    pub(crate) fn settle(&self) -> Result<Progress, Error> {
        let progress = self.progress()?;
        match progress.next.is_some() && progress.waiting.is_empty() {
            true => self.finish(),
            false => Ok(progress),
        }
    }

    /// Returns the state of the rotation. This blocks on files.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn progress(&self) -> Result<Progress, Error> {
        let next = self.next();
        let finger = next.map(|next| next.finger());
        let (mut ready, mut waiting) = (Vec::new(), Vec::new());
        for key in self.0.store.keys(KeyState::Accepted)? {
            let id = key?.id;
            let status = self.0.store.cached(Cache::Status, &id)?;
            let status = status.unwrap_or_default();
            let accepts = status.get(ACCEPTS).and_then(Value::as_str);
            match finger.is_some() && accepts == finger.as_deref() {
                true => ready.push(id),
                false => waiting.push(id),
            }
        }
        Ok(Progress {
            own: self.own().pair.public(),
            next,
            ready,
            waiting,
        })
    }

    /// Does the same as [`Rotation::settle`] while a rotation is in progress, and logs a failure.
    pub(crate) async fn check(&self) {
        if self.next().is_none() || self.0.is_of_cluster {
            return;
        }
        let rotation = self.clone();
        if let Err(error) = smol::unblock(move || rotation.settle()).await {
            log::error(format_args!("cannot change the master's key: {error}"));
        }
    }

    /// Announces the next key to all connected minions.
    pub(crate) fn announce_to_all(&self) {
        for (id, key) in self.0.minions.here() {
            let connected = self.0.minions.get(&id);
            if let Some(handle) = connected.as_ref().and_then(Connected::here) {
                self.announce(id, key, handle.clone());
            }
        }
    }

    /// Announces the next key, if there is one, to a minion that has connected.
    pub(crate) fn announce_to(&self, minion: &Minion, handle: &Handle) {
        let is_needed = {
            let keys = self.keys();
            keys.next.is_some() || keys.last.is_some()
        };
        if is_needed {
            self.announce(minion.id.clone(), minion.key, handle.clone());
        }
    }

    fn announce(&self, id: Id, key: PublicKey, handle: Handle) {
        let rotation = self.clone();
        smol::spawn(async move {
            match rotation.announced(&id, key, &handle).await {
                Ok(()) => rotation.check().await,
                Err(problem) => log::warning(format_args!(
                    "{id} does not accept the next key of this master yet: {problem}"
                )),
            }
        })
        .detach();
    }

    /// Announces the next key, and records that the minion accepts it.
    async fn announced(&self, id: &Id, key: PublicKey, handle: &Handle) -> Result<(), String> {
        let Some(statement) = self.statement().map_err(|error| error.to_string())? else {
            return Ok(());
        };
        let finger = statement.next().finger();
        let request = NextKey {
            statement: statement.to_string(),
        };
        let answer = async { handle.ask(request).await?.done().await };
        let answer = within(ANSWER, answer).await;
        let answer = answer.ok_or_else(|| format!("no answer within {} s", ANSWER.as_secs()))?;
        answer.map_err(|error| error.to_string())?;
        let accepts = Command::Cached {
            id: id.clone(),
            key,
            what: Cache::Status,
            change: Change::Update(Map::new().with(ACCEPTS, finger)),
        };
        let stored = async { self.0.store.begin(accepts).await?.done().await };
        stored.await.map(drop).map_err(|error| error.to_string())
    }

    /// Returns the statement about the next key, or that about the present one.
    fn statement(&self) -> Result<Option<Succession>, NotAKey> {
        let keys = self.keys();
        let next = keys.next.as_ref().map(|next| next.pair.public());
        let next = next.map(|next| Succession::sign(&keys.own.pair, next));
        Ok(next.transpose()?.or(keys.last))
    }

    /// Gives the listener each new key, for as long as the master runs.
    pub(crate) async fn follow(&self, listener: &Listener) {
        // No deadline: most masters keep their key.
        while let Ok(pair) = self.0.switched.1.recv().await {
            if let Err(error) = listener.set_key(&pair) {
                log::error(format_args!("cannot use the new key: {error}"));
            }
        }
    }
}
