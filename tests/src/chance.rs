//! Random choices for tests, which a seed makes repeatable.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the seeds that an environment variable names as `FROM..TO`; by default `every_day` seeds
/// from 0 on.
///
/// # Panics
/// When the variable is not a range.
#[must_use]
pub fn seeds(variable: &str, every_day: u64) -> Range<u64> {
    let Ok(named) = std::env::var(variable) else {
        return 0..every_day;
    };
    let (from, to) = named.split_once("..").unwrap();
    from.parse().unwrap()..to.parse().unwrap()
}

/// Checks a property for each of these seeds, two at a time.
///
/// # Panics
/// When it does not hold, with the seeds that fail.
pub fn each(seeds: Range<u64>, holds: impl Fn(u64) -> Result<(), String> + Sync) {
    let (next, failures) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            if let Err(why) = holds(seed) {
                failures.lock().unwrap().push(format!("seed {seed}: {why}"));
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Numbers that follow from a seed (splitmix64).
pub struct Chance(pub u64);

impl Chance {
    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    /// Returns one of these items.
    ///
    /// # Panics
    /// When the slice is empty.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }

    /// Returns true with this probability in percent.
    pub fn comes(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
