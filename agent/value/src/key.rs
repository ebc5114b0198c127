//! [`Key`]: a word that stands in many dictionaries, made once.

use std::sync::OnceLock;

use crate::Value;

/// A key that all dictionaries share which have it: where thousands are made alike, each key of its own is a piece of memory more.
#[derive(Debug)]
pub struct Key {
    word: &'static str,
    value: OnceLock<Value>,
}

impl Key {
    /// The key of this word.
    #[must_use]
    pub const fn new(word: &'static str) -> Self {
        Self {
            word,
            value: OnceLock::new(),
        }
    }

    /// The word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.word
    }
}

impl From<&Key> for Value {
    fn from(key: &Key) -> Self {
        let value = key.value.get_or_init(|| key.word.into());
        value.clone()
    }
}
