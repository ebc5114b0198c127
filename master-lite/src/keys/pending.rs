//! [`Pending`]: the peers that wait for a decision on their keys.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use link::PublicKey;
use smol::channel::{Receiver, Sender, bounded};
use value::channel;

/// The connected peers whose keys are not decided on yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending(Arc<Mutex<HashMap<PublicKey, Vec<Sender<()>>>>>);

impl Pending {
    fn all(&self) -> MutexGuard<'_, HashMap<PublicKey, Vec<Sender<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a channel that reports the next change of a key.
    pub(crate) fn wait(&self, key: PublicKey) -> Receiver<()> {
        let (sender, receiver) = bounded(1);
        let mut all = self.all();
        let waiting = all.entry(key).or_default();
        waiting.retain(|sender| !sender.is_closed());
        waiting.push(sender);
        receiver
    }

    /// Returns whether a peer with this key is connected and waits.
    pub(crate) fn has(&self, key: &PublicKey) -> bool {
        let all = self.all();
        let waiting = all.get(key).into_iter().flatten();
        waiting.into_iter().any(|sender| !sender.is_closed())
    }

    /// Wakes all peers that wait.
    pub(crate) fn all_changed(&self) {
        for sender in self.all().drain().flat_map(|(_, senders)| senders) {
            channel::if_open(sender.try_send(()));
        }
    }

    /// Wakes the peers that wait for a decision on a key, since its state has changed.
    pub(crate) fn changed(&self, key: &PublicKey) {
        for sender in self.all().remove(key).into_iter().flatten() {
            channel::if_open(sender.try_send(()));
        }
    }
}
