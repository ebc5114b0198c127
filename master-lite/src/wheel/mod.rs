//! Wheel functions that need the master.

pub(crate) mod key;
mod minions;

use std::sync::Arc;

use state::opts::Opts;
use value::Value;
use wire::tag;

use crate::events::Events;
use crate::jobs::minions::Minions;
use crate::keys::{Keys, Rotation};
use crate::store::{Store, now_ms};

/// The wheel functions about keys and connections.
#[derive(Clone)]
pub(crate) struct Wheel {
    pub(crate) opts: Arc<Opts>,
    pub(crate) events: Events,
    pub(crate) keys: Keys,
    /// The handle of the store through which keys are changed.
    pub(crate) store: Store,
    pub(crate) rotation: Rotation,
    pub(crate) minions: Minions,
}

/// Returns the module and the name of each function, its arguments, and how many of them must be
/// given.
pub(crate) fn functions()
-> impl Iterator<Item = (&'static str, &'static str, &'static [&'static str], usize)> {
    let keys = key::functions().map(|(name, args, required)| ("key", name, args, required));
    let none: &[&str] = &[];
    keys.chain([("minions", "connected", none, 0)])
}

impl Wheel {
    /// Returns these functions with another handle of the store, which may have a fence.
    pub(crate) fn through(self, store: Store) -> Self {
        Self { store, ..self }
    }

    /// Returns true if a function is one of these.
    pub(crate) fn has(fun: &str) -> bool {
        fun.starts_with("key.") || fun == minions::CONNECTED
    }

    /// Calls one of these functions.
    pub(crate) async fn call(&self, fun: &str, arg: Vec<Value>) -> Result<Value, String> {
        match fun {
            minions::CONNECTED => minions::connected(&self.minions, &arg),
            _ => self.key(fun, arg).await,
        }
    }

    /// Calls a function `key.…`, and fires the events of its changes.
    pub(crate) async fn key(&self, fun: &str, arg: Vec<Value>) -> Result<Value, String> {
        let (wheel, fun) = (self.clone(), fun.to_owned());
        let call = move || {
            let keys = key::Keys {
                store: &wheel.store,
                files: wheel.keys.files(),
                rotation: &wheel.rotation,
                hash_type: wheel.opts.text("hash_type").unwrap_or("sha256"),
                at_ms: now_ms(),
            };
            key::call(keys, &fun, arg)
        };
        let outcome = smol::unblock(call)
            .await
            .map_err(|error| error.to_string())?;
        self.keys.changed(&outcome.changed);
        if outcome.has_next_key {
            self.rotation.announce_to_all();
        }
        for data in outcome.events {
            self.events.fire(tag::KEY, data).await;
        }
        Ok(outcome.ret)
    }
}
