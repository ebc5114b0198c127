//! [`Entries`]: the entries of a dictionary, in insertion order.

use std::hash::{BuildHasher as _, Hash};

use hashbrown::{Equivalent, HashTable};

use crate::Value;
use crate::hash::Keyed;

/// The maximum number of entries for which a key is found by comparing. That is faster than
/// hashing, and most dictionaries of a tree are not larger.
const FEW: usize = 16;

/// Pairs of keys and values; no key occurs twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    pairs: Vec<(Value, Value)>,
    /// The index of each key in `pairs`, by its hash; `None` for up to [`FEW`] entries.
    places: Option<Box<HashTable<usize>>>,
}

impl Entries {
    pub(crate) fn as_slice(&self) -> &[(Value, Value)] {
        &self.pairs
    }

    /// Reserves room for exactly this number of additional entries.
    pub(crate) fn make_room(&mut self, entries: usize) {
        self.pairs.reserve_exact(entries);
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&Value, &mut Value)> {
        self.pairs.iter_mut().map(|(key, value)| (&*key, value))
    }

    pub(crate) fn into_iter(self) -> std::vec::IntoIter<(Value, Value)> {
        self.pairs.into_iter()
    }

    /// Returns the index of a key.
    pub(crate) fn place<Q: Hash + Equivalent<Value> + ?Sized>(&self, key: &Q) -> Option<usize> {
        let Some(places) = &self.places else {
            return self
                .pairs
                .iter()
                .position(|(other, _)| key.equivalent(other));
        };
        let is_it = |place: &usize| {
            let pair = self.pairs.get(*place);
            pair.is_some_and(|(other, _)| key.equivalent(other))
        };
        places.find(Keyed.hash_one(key), is_it).copied()
    }

    pub(crate) fn value_mut(&mut self, place: usize) -> Option<&mut Value> {
        self.pairs.get_mut(place).map(|(_, value)| value)
    }

    /// Sets a key and returns its previous value; an existing key keeps its index.
    pub(crate) fn insert(&mut self, key: Value, value: Value) -> Option<Value> {
        match self.place(&key).and_then(|place| self.value_mut(place)) {
            Some(old) => Some(std::mem::replace(old, value)),
            None => {
                self.push(key, value);
                None
            }
        }
    }

    /// Returns the value of a key, after inserting `default` if the key is missing.
    #[expect(
        clippy::indexing_slicing,
        reason = "the index was just found or pushed"
    )]
    pub(crate) fn entry(&mut self, key: Value, default: impl FnOnce() -> Value) -> &mut Value {
        let found = self.place(&key);
        let place = found.unwrap_or_else(|| {
            self.push(key, default());
            self.pairs.len() - 1
        });
        &mut self.pairs[place].1
    }

    /// Appends a key; the caller has checked that it is not present.
    fn push(&mut self, key: Value, value: Value) {
        self.pairs.push((key, value));
        if self.pairs.len() > FEW {
            self.index_last();
        }
    }

    /// Removes the entry at an index and returns its value; the following entries keep their order.
    pub(crate) fn remove(&mut self, place: usize) -> Option<Value> {
        if place >= self.pairs.len() {
            return None;
        }
        let (_, value) = self.pairs.remove(place);
        self.index();
        Some(value)
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Value, &mut Value) -> bool) {
        self.pairs.retain_mut(|(key, value)| keep(key, value));
        self.index();
    }

    pub(crate) fn sort_keys(&mut self) {
        crate::sorted::sort_by(&mut self.pairs, |a, b| a.0.cmp(&b.0));
        self.index();
    }

    /// Rebuilds the hash index.
    fn index(&mut self) {
        self.places = None;
        if self.pairs.len() > FEW {
            self.index_last();
        }
    }

    /// Adds the last key to the hash index, or every key if there is no index yet.
    fn index_last(&mut self) {
        let pairs = &self.pairs;
        let hash = |place: &usize| pairs.get(*place).map_or(0, |pair| Keyed.hash_one(&pair.0));
        let is_new = self.places.is_none();
        let places = self.places.get_or_insert_default();
        let first = if is_new { 0 } else { pairs.len() - 1 };
        for place in first..pairs.len() {
            places.insert_unique(hash(&place), place, hash);
        }
    }
}

/// Equality as in Python: the order of the keys does not matter.
impl PartialEq for Entries {
    fn eq(&self, other: &Self) -> bool {
        let has = |(key, value): &(Value, Value)| {
            let there = other.place(key).and_then(|place| other.pairs.get(place));
            there.is_some_and(|(_, others)| value == others)
        };
        self.pairs.len() == other.pairs.len() && self.pairs.iter().all(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(count: i64) -> Entries {
        let mut entries = Entries::default();
        for number in 0..count {
            entries.insert(format!("k{number}").into(), number.into());
        }
        entries
    }

    #[test]
    fn keys_are_found_and_keep_their_order_in_small_and_in_large_dictionaries() {
        for count in [0, 1, 7, 8, 9, 10, 100, 1000] {
            let mut entries = numbered(count);
            assert_eq!(
                entries.insert("k0".into(), Value::Null).is_some(),
                count > 0
            );
            for number in 1..count {
                let place = entries.place(&Value::from(format!("k{number}")));
                assert_eq!(place, usize::try_from(number).ok(), "of {count}");
            }
            assert_eq!(entries.place(&Value::from("other")), None);
        }
    }

    #[test]
    fn what_is_taken_out_is_gone_and_the_rest_is_found_where_it_then_stands() {
        for count in [2, 8, 9, 10, 100] {
            let mut entries = numbered(count);
            assert_eq!(entries.remove(1), Some(1.into()));
            assert_eq!(entries.place(&Value::from("k1")), None);
            assert_eq!(entries.place(&Value::from("k0")), Some(0));
            assert_eq!(
                entries.as_slice().len(),
                usize::try_from(count - 1).unwrap()
            );
            for (place, (key, _)) in entries.as_slice().iter().enumerate() {
                assert_eq!(entries.place(key), Some(place));
            }
            entries.retain(|_, value| value.as_int() == Some(0));
            assert_eq!(entries.as_slice(), [("k0".into(), 0.into())]);
        }
    }

    #[test]
    fn true_and_one_are_the_same_key_at_every_size() {
        for count in [0, 20] {
            let mut entries = numbered(count);
            entries.insert(true.into(), "a".into());
            assert_eq!(entries.insert(1.into(), "b".into()), Some("a".into()));
            assert_eq!(entries.insert(1.0.into(), "c".into()), Some("b".into()));
        }
    }

    #[test]
    fn the_order_does_not_matter_for_equality_and_everything_else_does() {
        let mut turned = Entries::default();
        for (key, value) in numbered(12).into_iter().rev() {
            turned.insert(key, value);
        }
        assert_eq!(turned, numbered(12));
        assert_ne!(numbered(11), numbered(12));
        turned.insert("k3".into(), 4.into());
        assert_ne!(turned, numbered(12));
        turned.sort_keys();
        assert_eq!(turned.place(&Value::from("k10")), Some(2));
    }
}
