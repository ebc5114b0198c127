//! [`Key`]: a key that many dictionaries share, so that its text is allocated once.

use std::sync::OnceLock;

use crate::Value;

/// A dictionary key whose [`Value`] is shared by all dictionaries that use it. This saves one
/// allocation per dictionary where thousands with the same keys are made.
#[derive(Debug)]
pub struct Key {
    word: &'static str,
    value: OnceLock<Value>,
}

impl Key {
    /// Creates the key of a word; its [`Value`] is made at first use.
    #[must_use]
    pub const fn new(word: &'static str) -> Self {
        Self {
            word,
            value: OnceLock::new(),
        }
    }

    /// Returns the word.
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
