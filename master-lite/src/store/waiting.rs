//! [`Waiting`]: the pending keys, by age and by the address that they came from.

use std::collections::BTreeMap;

use link::{PublicKey, Shares};
use wire::Id;

use super::command::KeyState;
use super::rows::Key;

/// The pending keys.
#[derive(Debug)]
pub(super) struct Waiting {
    rows: BTreeMap<(u64, Id), (PublicKey, String)>,
    of: Shares<String>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            of: Shares::new(usize::MAX, usize::MAX),
        }
    }
}

impl Waiting {
    /// Adds a key, if it is pending.
    pub(super) fn add(&mut self, key: &Key) {
        if key.state != KeyState::Pending {
            return;
        }
        let from = key.from.clone().unwrap_or_default();
        self.of.add(&from, 1);
        self.rows
            .insert((key.at_ms, key.id.clone()), (key.key, from));
    }

    /// Removes a key, if it is pending.
    pub(super) fn remove(&mut self, key: &Key) {
        if let Some((_, from)) = self.rows.remove(&(key.at_ms, key.id.clone())) {
            self.of.give_back(&from, 1);
        }
    }

    /// Returns the number of pending keys.
    pub(super) fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Returns the number of pending keys of an address.
    pub(super) fn count(&self, from: &str) -> u64 {
        self.of.held_by(&from.to_owned()) as u64
    }

    /// Returns the oldest key of the address with most pending keys. Returns `None` if `from`
    /// already has as many keys as that address.
    pub(super) fn oldest_of_fullest(&self, from: &str) -> Option<(Id, PublicKey)> {
        let (_, count) = self.of.fullest()?;
        if self.count(from) >= count as u64 {
            return None;
        }
        let mut oldest_first = self.rows.iter();
        let oldest = oldest_first.find(|(_, (_, of))| self.of.held_by(of) == count);
        oldest.map(|((_, id), (key, _))| (id.clone(), *key))
    }
}
