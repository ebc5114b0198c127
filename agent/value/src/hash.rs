//! [`Keyed`]: hashing for dictionaries, several times as fast as the standard library's for short
//! keys.
//!
//! Each process has its own random seed, so an attacker cannot choose keys that collide.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));

/// The fraction of pi: an odd number without a pattern.
const MULTIPLIER: u64 = 0x243f_6a88_85a3_08d3;

/// Builds the hashers of dictionaries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keyed;

impl BuildHasher for Keyed {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded(*SEED)
    }
}

/// A hasher that multiplies each word to twice its width and folds the halves together.
#[derive(Clone, Copy, Debug)]
pub struct Folded(u64);

impl Folded {
    /// Returns a hasher with a fixed seed: its result is the same in every program. It is meant for
    /// digests, not for dictionaries.
    #[must_use]
    pub fn of_all_programs() -> Self {
        Self(MULTIPLIER)
    }

    fn word(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word) * u128::from(MULTIPLIER);
        self.0 = (wide as u64) ^ ((wide >> 64) as u64);
    }
}

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        // The last eight bytes contain the rest, if there are as many as eight; they may overlap
        // the words above.
        let mut last = [0; 8];
        match bytes.last_chunk() {
            Some(chunk) => last = *chunk,
            None => last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from),
        }
        self.word(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    fn write_u8(&mut self, number: u8) {
        self.word(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.word(number);
    }

    fn write_i64(&mut self, number: i64) {
        self.word(number.cast_unsigned());
    }

    fn write_usize(&mut self, number: usize) {
        self.word(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_that_are_near_each_other_are_spread_out() {
        let hash = |key: &str| Keyed.hash_one(key);
        let keys: Vec<String> = (0..10_000).map(|n| format!("key {n}")).collect();
        let low: HashSet<u64> = keys.iter().map(|key| hash(key) & 0xffff).collect();
        let high: HashSet<u64> = keys.iter().map(|key| hash(key) >> 48).collect();
        // Of 10,000 random numbers below 65,536 about 9,300 differ.
        assert!(low.len() > 9_000, "{}", low.len());
        assert!(high.len() > 9_000, "{}", high.len());
        let numbers: HashSet<u64> = (0..10_000i64).map(|n| Keyed.hash_one(n) & 0xffff).collect();
        assert!(numbers.len() > 9_000, "{}", numbers.len());
        assert_ne!(hash("a"), hash("a\0"));
    }
}
