//! The time of this master. In a cluster it follows the clocks of most masters, so that one with a
//! wrong clock neither removes what is not old yet nor writes rows that look old.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A moment, and the time at it. `None` without a cluster.
static REFERENCE: Mutex<Option<(Instant, u64)>> = Mutex::new(None);

/// The difference up to which clocks count as equal.
pub(crate) const DIFFERENCE_MAX: Duration = Duration::from_secs(5);

/// Returns the current time in milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    let reference = REFERENCE.lock().unwrap_or_else(PoisonError::into_inner);
    reference.map_or_else(value::clock::now_ms, |(at, ms)| after(ms, at.elapsed()))
}

/// Returns the current time in seconds since the Unix epoch.
pub(crate) fn now_s() -> f64 {
    now_ms() as f64 / 1000.0
}

/// Returns a time that is later by `elapsed`.
pub(crate) fn after(ms: u64, elapsed: Duration) -> u64 {
    ms.saturating_add(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}

/// Sets the present time, from which it continues.
pub(crate) fn set(ms: u64) {
    let mut reference = REFERENCE.lock().unwrap_or_else(PoisonError::into_inner);
    *reference = Some((Instant::now(), ms));
}

/// The result of comparing a clock with those of other masters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// No majority of clocks is known and equal. A wrong one would look right.
    Unknown,
    /// It counts as equal to those of a majority.
    Right,
    /// It is ahead of those of a majority by these milliseconds, or behind if they are negative.
    Wrong(i64),
}

/// Compares a clock with those of the other masters that are known, of a cluster with this number of
/// voters.
pub(crate) fn compared(own: u64, others: &[u64], voters: usize) -> Compared {
    let differ =
        |one: u64, other: u64| u128::from(one.abs_diff(other)) > DIFFERENCE_MAX.as_millis();
    let is_common = |clock: u64| {
        let all = others.iter().chain([&own]);
        2 * all.filter(|other| !differ(clock, **other)).count() > voters
    };
    if is_common(own) {
        return Compared::Right;
    }
    let common = others.iter().find(|other| is_common(**other));
    common.map_or(Compared::Unknown, |common| {
        Compared::Wrong(own.wrapping_sub(*common) as i64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: u64 = 365 * 86_400_000;
    const NOW: u64 = 56 * YEAR;

    #[test]
    fn a_clock_is_wrong_if_a_majority_differs_from_it() {
        assert_eq!(compared(NOW, &[], 1), Compared::Right);
        let near = [NOW - 4000, NOW + 4000];
        assert_eq!(compared(NOW, &near, 3), Compared::Right);
        let ahead = Compared::Wrong(YEAR as i64 - 10);
        assert_eq!(compared(NOW + YEAR, &[NOW + 10, NOW], 3), ahead);
        let behind = Compared::Wrong(-(YEAR as i64));
        assert_eq!(compared(NOW - YEAR, &[NOW, NOW], 3), behind);
        // One or two of the others are wrong.
        assert_eq!(compared(NOW, &[NOW + YEAR, NOW], 3), Compared::Right);
        let others = [NOW + YEAR, NOW, 0, NOW];
        assert_eq!(compared(NOW, &others, 5), Compared::Right);
    }

    #[test]
    fn a_clock_is_not_judged_without_an_equal_majority() {
        assert_eq!(compared(NOW, &[], 2), Compared::Unknown);
        assert_eq!(compared(NOW, &[], 3), Compared::Unknown);
        assert_eq!(compared(NOW, &[NOW], 5), Compared::Unknown);
        assert_eq!(compared(NOW, &[NOW, NOW], 5), Compared::Right);
        // Nothing says which one of two is right.
        for other in [NOW + YEAR, NOW - YEAR] {
            assert_eq!(compared(NOW, &[other], 2), Compared::Unknown);
            assert_eq!(compared(NOW, &[other], 3), Compared::Unknown);
        }
    }
}
