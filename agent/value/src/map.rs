//! [`Map`]: Python's dictionary.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use indexmap::{Equivalent, IndexMap};

use crate::Value;
use crate::hash::Keyed;

/// A dictionary that keeps the order its keys came in. Shared until it is changed.
#[derive(Clone, Debug, Default)]
pub struct Map(Arc<IndexMap<Value, Value, Keyed>>);

/// A borrowed string key: hashes and compares as the `Value::Str` of the same text.
struct Text<'a>(&'a str);

impl Hash for Text<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Equivalent<Value> for Text<'_> {
    fn equivalent(&self, key: &Value) -> bool {
        matches!(key, Value::Str(text) if **text == *self.0)
    }
}

impl Map {
    /// An empty dictionary.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many entries it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value under a string key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.place(key)
            .and_then(|place| self.0.get_index(place))
            .map(|(_, value)| value)
    }

    /// Where a string key stands. Few keys are compared sooner than one is hashed.
    fn place(&self, key: &str) -> Option<usize> {
        const FEW: usize = 8;
        let entries = self.0.as_slice();
        if entries.len() > FEW {
            return self.0.get_index_of(&Text(key));
        }
        entries.keys().position(|other| Text(key).equivalent(other))
    }

    /// The value under any key.
    #[must_use]
    pub fn get_value(&self, key: &Value) -> Option<&Value> {
        self.0.get(key)
    }

    /// The value under a string key, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        Arc::make_mut(&mut self.0).get_mut(&Text(key))
    }

    /// The value under any key, to be changed.
    pub fn get_value_mut(&mut self, key: &Value) -> Option<&mut Value> {
        Arc::make_mut(&mut self.0).get_mut(key)
    }

    /// The value under `key`, put there with `default` if there was none.
    pub fn entry(&mut self, key: impl Into<Value>, default: impl FnOnce() -> Value) -> &mut Value {
        Arc::make_mut(&mut self.0)
            .entry(key.into())
            .or_insert_with(default)
    }

    /// True when a string key is there.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.place(key).is_some()
    }

    /// True when any key is there.
    #[must_use]
    pub fn contains_value(&self, key: &Value) -> bool {
        self.0.contains_key(key)
    }

    /// Sets a key and returns what it had; a key that was there keeps its place in the order.
    pub fn insert(&mut self, key: impl Into<Value>, value: impl Into<Value>) -> Option<Value> {
        Arc::make_mut(&mut self.0).insert(key.into(), value.into())
    }

    /// The same, for building one in a row.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.insert(key, value);
        self
    }

    /// Takes a string key out; the others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        if !self.contains(key) {
            return None;
        }
        Arc::make_mut(&mut self.0).shift_remove(&Text(key))
    }

    /// Takes any key out; the others keep their order.
    pub fn remove_value(&mut self, key: &Value) -> Option<Value> {
        if !self.0.contains_key(key) {
            return None;
        }
        Arc::make_mut(&mut self.0).shift_remove(key)
    }

    /// The entry at a place in the order.
    #[must_use]
    pub fn at(&self, index: usize) -> Option<(&Value, &Value)> {
        self.0.get_index(index)
    }

    /// The first entry: the only one of a single-key dictionary.
    #[must_use]
    pub fn first(&self) -> Option<(&Value, &Value)> {
        self.0.first()
    }

    /// The entries in order.
    pub fn iter(&self) -> indexmap::map::Iter<'_, Value, Value> {
        self.0.iter()
    }

    /// The entries in order, values to be changed.
    pub fn iter_mut(&mut self) -> indexmap::map::IterMut<'_, Value, Value> {
        Arc::make_mut(&mut self.0).iter_mut()
    }

    /// The keys in order.
    pub fn keys(&self) -> indexmap::map::Keys<'_, Value, Value> {
        self.0.keys()
    }

    /// The values in order.
    pub fn values(&self) -> indexmap::map::Values<'_, Value, Value> {
        self.0.values()
    }

    /// Python's `update`: the other's entries replace and follow.
    pub fn update(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        } else if !other.is_empty() {
            Arc::make_mut(&mut self.0).extend(other);
        }
    }

    /// Keeps the entries for which `keep` is true.
    pub fn retain(&mut self, keep: impl FnMut(&Value, &mut Value) -> bool) {
        Arc::make_mut(&mut self.0).retain(keep);
    }

    /// Sorts by key.
    pub fn sort_keys(&mut self) {
        Arc::make_mut(&mut self.0).sort_keys();
    }

    /// An address that two clones share as long as neither was changed.
    #[must_use]
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

/// As in Python, the order of the keys does not matter.
impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for Map {}

impl<K: Into<Value>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let pairs = pairs
            .into_iter()
            .map(|(key, value)| (key.into(), value.into()));
        Self(Arc::new(pairs.collect()))
    }
}

impl<K: Into<Value>, V: Into<Value>> Extend<(K, V)> for Map {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        for (key, value) in pairs {
            self.insert(key, value);
        }
    }
}

impl IntoIterator for Map {
    type Item = (Value, Value);
    type IntoIter = indexmap::map::IntoIter<Value, Value>;

    fn into_iter(self) -> Self::IntoIter {
        Arc::unwrap_or_clone(self.0).into_iter()
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = (&'a Value, &'a Value);
    type IntoIter = indexmap::map::Iter<'a, Value, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
