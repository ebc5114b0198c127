//! Keys that expire: those whose rule or token limits how long they are valid.

use std::collections::HashMap;
use std::sync::Arc;

use value::{Map, Value, log};
use wire::{Id, tag};

use super::Admission;
use crate::store::{Command, Key, KeyState, now_ms};

/// The time (in ms) since which the minion of an expiring key has been seen to be disconnected. It
/// is not stored: a master that starts counts from then.
pub(crate) type Gone = HashMap<Id, u64>;

impl Admission {
    /// Deletes the keys that have expired.
    pub(crate) async fn expire_keys(self: &Arc<Self>, gone: &mut Gone) {
        let admission = self.clone();
        let keys = smol::unblock(move || admission.bound_to_end()).await;
        let keys = keys.unwrap_or_else(|error| {
            log::error(format_args!("cannot check for expired keys: {error}"));
            Vec::new()
        });
        gone.retain(|id, _| keys.iter().any(|key| key.id == *id));
        for key in keys {
            match self.minions.get(&key.id) {
                Some(_) => gone.remove(&key.id),
                None => Some(*gone.entry(key.id.clone()).or_insert_with(now_ms)),
            };
            let since = gone.get(&key.id).copied();
            if is_over(&key, since, now_ms()) {
                self.expire(key).await;
            }
        }
    }

    fn bound_to_end(&self) -> Result<Vec<Key>, String> {
        let keys = self.store.keys(KeyState::Accepted);
        let keys = keys.map_err(|error| error.to_string())?;
        let mut bound = Vec::new();
        for key in keys {
            let key = key.map_err(|error| error.to_string())?;
            if key.bound.contains("expire") {
                bound.push(key);
            }
        }
        Ok(bound)
    }

    async fn expire(&self, key: Key) {
        log::info(format_args!("The key of {} has expired", key.id));
        let id = key.id.clone();
        let deleted = Command::KeyDeleted {
            id,
            key: key.key,
            at_ms: now_ms(),
        };
        if let Err(error) = self.keys.change(deleted).await {
            return log::error(format_args!(
                "cannot delete the expired key of {}: {error}",
                key.id
            ));
        }
        let data = Map::new()
            .with("result", true)
            .with("act", "delete")
            .with("id", key.id.as_str());
        self.events.fire(tag::KEY, data).await;
    }

    /// Removes the keys that have been pending for longer than `pending_keys_expire_seconds` and
    /// whose peers are not connected.
    pub(crate) async fn expire_waiting(&self) {
        let seconds = self.opts.int("pending_keys_expire_seconds");
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let Some(seconds) = seconds.filter(|seconds| *seconds > 0) else {
            return;
        };
        let before = now_ms().saturating_sub(seconds.saturating_mul(1000));
        let store = self.store.clone();
        let keys = smol::unblock(move || {
            let keys = store.keys(KeyState::Pending)?;
            keys.filter(|key| key.as_ref().map_or(true, |key| key.at_ms < before))
                .collect::<Result<Vec<_>, _>>()
        });
        let keys = keys.await.unwrap_or_else(|error| {
            log::error(format_args!(
                "cannot check for expired pending keys: {error}"
            ));
            Vec::new()
        });
        for Key { id, key, .. } in keys {
            if self.keys.pending().has(&key) {
                continue;
            }
            log::info(format_args!(
                "Removing the pending key of {id}: it was not accepted for {seconds} s (pending_keys_expire_seconds)"
            ));
            let gone = Command::KeyWithdrawn { id, key };
            if let Err(error) = self.keys.change(gone).await {
                log::error(format_args!(
                    "cannot remove an expired pending key: {error}"
                ));
            }
        }
    }
}

/// Returns whether a key has been accepted, or its minion disconnected, for as long as its binding
/// allows.
fn is_over(key: &Key, gone_since: Option<u64>, now: u64) -> bool {
    let expire = key.bound.get("expire");
    let time = |word: &str| {
        let time = expire?.get(word).and_then(Value::as_int)?;
        u64::try_from(time).ok()
    };
    let lasted = |since: u64, time: u64| now.saturating_sub(since) >= time;
    time("after").is_some_and(|time| lasted(key.at_ms, time))
        || gone_since
            .zip(time("disconnected"))
            .is_some_and(|(since, time)| lasted(since, time))
}

#[cfg(test)]
mod tests {
    use link::PublicKey;

    use super::*;

    #[test]
    fn a_key_ends_after_its_time_or_when_its_minion_is_gone_for_long() {
        let key = |word: &str| Key {
            id: "m1".parse().unwrap(),
            key: PublicKey::from_bytes([1; 32]),
            state: KeyState::Accepted,
            at_ms: 1000,
            bound: Map::new().with("expire", Map::new().with(word, 500)),
            from: None,
        };
        assert!(!is_over(&key("after"), None, 1499));
        assert!(is_over(&key("after"), None, 1500));
        assert!(!is_over(&key("disconnected"), None, 9000));
        assert!(!is_over(&key("disconnected"), Some(8600), 9000));
        assert!(is_over(&key("disconnected"), Some(8500), 9000));
    }
}
