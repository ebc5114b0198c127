//! [`Map`]: Python's dictionary.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashbrown::Equivalent;

use crate::Value;
use crate::entries::Entries;

/// A dictionary that keeps insertion order. Clones share their entries until one of them is
/// changed.
#[derive(Clone, Debug, Default)]
pub struct Map(Arc<Entries>);

/// A borrowed string key; it hashes and compares as the `Value::Str` of the same text.
struct Text<'a>(&'a str);

impl Hash for Text<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Equivalent<Value> for Text<'_> {
    /// Most keys differ in length, so this is inlined to compare lengths without a call.
    #[inline(always)]
    fn equivalent(&self, key: &Value) -> bool {
        matches!(key, Value::Str(text) if text.len() == self.0.len() && **text == *self.0)
    }
}

impl Map {
    /// Creates an empty dictionary.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty dictionary with room for a number of entries.
    #[must_use]
    pub fn with_room(entries: usize) -> Self {
        let mut map = Self::default();
        map.changed().make_room(entries);
        map
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.as_slice().len()
    }

    /// True when there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    /// Returns the value of a string key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.value(self.place(key))
    }

    /// Returns the value of any key.
    #[must_use]
    pub fn get_value(&self, key: &Value) -> Option<&Value> {
        self.value(self.0.place(key))
    }

    fn value(&self, place: Option<usize>) -> Option<&Value> {
        self.at(place?).map(|(_, value)| value)
    }

    fn place(&self, key: &str) -> Option<usize> {
        self.0.place(&Text(key))
    }

    /// Returns the index of a string key; [`Self::at`] returns the entry at an index.
    #[must_use]
    pub fn position(&self, key: &str) -> Option<usize> {
        self.place(key)
    }

    /// Returns the index of any key.
    #[must_use]
    pub fn position_value(&self, key: &Value) -> Option<usize> {
        self.0.place(key)
    }

    fn changed(&mut self) -> &mut Entries {
        Arc::make_mut(&mut self.0)
    }

    /// Returns the value of a string key, mutably.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let place = self.place(key)?;
        self.changed().value_mut(place)
    }

    /// Returns the value of any key, mutably.
    pub fn get_value_mut(&mut self, key: &Value) -> Option<&mut Value> {
        let place = self.0.place(key)?;
        self.changed().value_mut(place)
    }

    /// Returns the value of `key`, after inserting `default` if the key is missing.
    pub fn entry(&mut self, key: impl Into<Value>, default: impl FnOnce() -> Value) -> &mut Value {
        self.changed().entry(key.into(), default)
    }

    /// True when the dictionary contains a string key.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.place(key).is_some()
    }

    /// True when the dictionary contains a key of any type.
    #[must_use]
    pub fn contains_value(&self, key: &Value) -> bool {
        self.0.place(key).is_some()
    }

    /// Sets a key and returns its previous value; an existing key keeps its index.
    pub fn insert(&mut self, key: impl Into<Value>, value: impl Into<Value>) -> Option<Value> {
        self.changed().insert(key.into(), value.into())
    }

    /// Sets a key and returns the dictionary, to chain calls.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.insert(key, value);
        self
    }

    /// Removes a string key and returns its value; the other entries keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let place = self.place(key)?;
        self.changed().remove(place)
    }

    /// Removes a key of any type and returns its value; the other entries keep their order.
    pub fn remove_value(&mut self, key: &Value) -> Option<Value> {
        let place = self.0.place(key)?;
        self.changed().remove(place)
    }

    /// Returns the entry at an index.
    #[must_use]
    pub fn at(&self, index: usize) -> Option<(&Value, &Value)> {
        self.0
            .as_slice()
            .get(index)
            .map(|(key, value)| (key, value))
    }

    /// Returns the first entry: the only one of a single-key dictionary.
    #[must_use]
    pub fn first(&self) -> Option<(&Value, &Value)> {
        self.at(0)
    }

    /// Returns the entries in order.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.0.as_slice().iter())
    }

    /// Returns the entries in order, with mutable values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Value, &mut Value)> {
        self.changed().iter_mut()
    }

    /// Returns the keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// Returns the values in order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// Sets every entry of `other`, as Python's `update` does: existing keys get the new value, new
    /// keys are appended.
    pub fn update(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        } else if !other.is_empty() {
            self.extend(other);
        }
    }

    /// Keeps the entries for which `keep` is true.
    pub fn retain(&mut self, keep: impl FnMut(&Value, &mut Value) -> bool) {
        self.changed().retain(keep);
    }

    /// Sorts by key.
    pub fn sort_keys(&mut self) {
        self.changed().sort_keys();
    }

    /// Returns an address that is equal for two clones as long as neither was changed.
    #[must_use]
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

/// An iterator over the entries of a [`Map`], in order.
#[derive(Clone, Debug)]
pub struct Iter<'a>(std::slice::Iter<'a, (Value, Value)>);

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a Value, &'a Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(key, value)| (key, value))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Equality as in Python: the order of the keys does not matter.
impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for Map {}

impl<K: Into<Value>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut map = Self::new();
        map.extend(pairs);
        map
    }
}

impl<K: Into<Value>, V: Into<Value>> Extend<(K, V)> for Map {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        let pairs = pairs.into_iter();
        let entries = self.changed();
        if entries.as_slice().is_empty() {
            entries.make_room(pairs.size_hint().0);
        }
        for (key, value) in pairs {
            entries.insert(key.into(), value.into());
        }
    }
}

impl IntoIterator for Map {
    type Item = (Value, Value);
    type IntoIter = std::vec::IntoIter<(Value, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        Arc::unwrap_or_clone(self.0).into_iter()
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = (&'a Value, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
