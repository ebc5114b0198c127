//! Python's `random.Random` with a seed. The same seed gives the same numbers as in Python.

use sha2::{Digest, Sha512};
use value::Value;

const SIZE: usize = 624;
const MIDDLE: usize = 397;

/// A seeded generator.
pub struct Mersenne {
    state: Vec<u32>,
    next: usize,
}

impl Mersenne {
    /// `random.seed(value)`. Returns `None` for a value that Python refuses.
    pub fn seeded(seed: &Value) -> Option<Self> {
        let words = match seed {
            Value::Int(number) => words(&number.unsigned_abs().to_be_bytes()),
            Value::Bool(truth) => vec![u32::from(*truth)],
            Value::Str(text) => of_bytes(text.as_bytes()),
            Value::Bytes(bytes) => of_bytes(bytes),
            _ => return None,
        };
        Some(Self::of_words(&words))
    }

    fn of_number(seed: u32) -> Self {
        let mut state = vec![seed];
        let mut last = seed;
        for index in 1..SIZE as u32 {
            last = 1_812_433_253_u32
                .wrapping_mul(last ^ (last >> 30))
                .wrapping_add(index);
            state.push(last);
        }
        Self { state, next: SIZE }
    }

    fn of_words(key: &[u32]) -> Self {
        let mut made = Self::of_number(19_650_218);
        let (mut i, mut j) = (1, 0);
        for _ in 0..SIZE.max(key.len()) {
            let word = key.get(j).copied().unwrap_or_default();
            let mixed = made.mixed(i, 1_664_525);
            made.set(i, mixed.wrapping_add(word).wrapping_add(j as u32));
            i = made.stepped(i);
            j = (j + 1) % key.len().max(1);
        }
        for _ in 0..SIZE - 1 {
            let mixed = made.mixed(i, 1_566_083_941);
            made.set(i, mixed.wrapping_sub(i as u32));
            i = made.stepped(i);
        }
        made.set(0, 0x8000_0000);
        made
    }

    fn at(&self, index: usize) -> u32 {
        self.state.get(index % SIZE).copied().unwrap_or_default()
    }

    fn set(&mut self, index: usize, word: u32) {
        if let Some(place) = self.state.get_mut(index) {
            *place = word;
        }
    }

    fn mixed(&self, index: usize, factor: u32) -> u32 {
        let before = self.at(index - 1);
        self.at(index) ^ (before ^ (before >> 30)).wrapping_mul(factor)
    }

    /// Advances an index. Past the end, the first word becomes the last one.
    fn stepped(&mut self, index: usize) -> usize {
        if index + 1 < SIZE {
            return index + 1;
        }
        self.set(0, self.at(SIZE - 1));
        1
    }

    fn refill(&mut self) {
        for index in 0..SIZE {
            let joined = (self.at(index) & 0x8000_0000) | (self.at(index + 1) & 0x7fff_ffff);
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.set(index, self.at(index + MIDDLE) ^ (joined >> 1) ^ odd);
        }
        self.next = 0;
    }

    fn word(&mut self) -> u32 {
        if self.next >= SIZE {
            self.refill();
        }
        let mut word = self.at(self.next);
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// Python's `getrandbits`, up to 64 bits.
    fn bits(&mut self, count: u32) -> u64 {
        let low = u64::from(self.word() >> 32_u32.saturating_sub(count));
        if count <= 32 {
            return low;
        }
        let high = u64::from(self.word() >> (64 - count));
        high << 32 | low
    }

    /// Returns a number below `end`, which must not be 0.
    pub fn below(&mut self, end: u64) -> u64 {
        let bits = u64::BITS - end.leading_zeros();
        loop {
            let number = self.bits(bits);
            if number < end || end == 0 {
                return number;
            }
        }
    }
}

/// Converts a text to a seed as Python does.
fn of_bytes(bytes: &[u8]) -> Vec<u32> {
    let hash = Sha512::digest(bytes);
    words(&[bytes, hash.as_slice()].concat())
}

/// Returns the words of a big-endian number, the lowest first, without leading zeros.
fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |chunk: &[u8]| {
        let add = |number: u32, byte: &u8| number << 8 | u32::from(*byte);
        chunk.iter().fold(0, add)
    };
    let mut words: Vec<u32> = bytes.rchunks(4).map(word).collect();
    while words.len() > 1 && words.last() == Some(&0) {
        words.pop();
    }
    words
}

/// Python's `random.sample`, with a function that returns a number below its argument.
pub fn sample(items: &[Value], size: usize, mut below: impl FnMut(u64) -> u64) -> Vec<Value> {
    let mut place = |end: usize| usize::try_from(below(end as u64)).unwrap_or_default();
    let count = items.len();
    let mut pool_max = 21.0;
    if size > 5 {
        pool_max += 4_f64.powf(((size * 3) as f64).log(4.0).ceil());
    }
    let mut chosen = Vec::with_capacity(size);
    if count as f64 <= pool_max {
        let mut pool = items.to_vec();
        for taken in 0..size.min(count) {
            let left = count - taken;
            let index = place(left);
            chosen.extend(pool.get(index).cloned());
            pool.swap(index, left - 1);
        }
        return chosen;
    }
    let mut seen = std::collections::HashSet::new();
    while chosen.len() < size.min(count) {
        let index = place(count);
        if seen.insert(index) {
            chosen.extend(items.get(index).cloned());
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_pythons_numbers() {
        let mut text = Mersenne::seeded(&"m1".into()).unwrap();
        assert_eq!((text.below(10), text.below(100)), (2, 41));
        let mut number = Mersenne::seeded(&42.into()).unwrap();
        assert_eq!(
            (1 + number.below(10), 1 + number.below(1_000_000)),
            (2, 26226)
        );
    }

    #[test]
    fn a_seeded_sample_is_pythons() {
        let hash: String = Sha512::digest(b"x")
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let numbers = |range: std::ops::Range<i64>| range.map(Value::from).collect::<Vec<_>>();
        let taken = |items: &[Value], size| {
            let mut source = Mersenne::seeded(&hash.as_str().into()).unwrap();
            Value::list(sample(items, size, |end| source.below(end)))
        };
        assert_eq!(taken(&numbers(1..11), 4), vec![7, 5, 2, 10].into());
        assert_eq!(taken(&numbers(0..100), 3), vec![55, 92, 35].into());
    }
}
