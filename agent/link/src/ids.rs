//! Generates the connection ids of a master.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quinn::{ConnectionId, ConnectionIdGenerator};
use ring::hmac::{HMAC_SHA256, Key, sign};
use value::random;

/// The length of an id in bytes. Two random ids are equal by chance once in four thousand million
/// connections.
const LENGTH: usize = 8;

/// A generator of connection ids without a pattern.
///
/// With predictable ids, a restarted master would mistake the ids of its previous run for its own,
/// instead of reporting that those connections are gone. The only randomness is one key, drawn when
/// the master starts: quinn does not let the generation of an id fail, so it must not depend on
/// anything that can fail.
#[derive(Clone, Debug)]
pub(crate) struct KeyedIds {
    key: Key,
    count: Arc<AtomicU64>,
}

impl KeyedIds {
    /// Draws the key.
    pub(crate) fn new() -> Result<Self, random::Error> {
        let key: [u8; 32] = random::array()?;
        Ok(Self {
            key: Key::new(HMAC_SHA256, &key),
            count: Arc::default(),
        })
    }
}

impl ConnectionIdGenerator for KeyedIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let signed = sign(&self.key, &count.to_be_bytes());
        let id: Vec<u8> = signed.as_ref().iter().copied().take(LENGTH).collect();
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_comes_twice_within_a_life_or_in_another() {
        let mut seen = std::collections::HashSet::new();
        for _ in 0..2 {
            let mut ids = KeyedIds::new().unwrap();
            let mut copy = ids.clone();
            for _ in 0..1000 {
                assert!(seen.insert(ids.generate_cid().to_vec()));
                assert!(seen.insert(copy.generate_cid().to_vec()));
            }
        }
        assert!(seen.iter().all(|id| id.len() == LENGTH));
    }
}
