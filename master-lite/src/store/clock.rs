//! The time of this master. In a cluster it follows the clocks of most masters, so that one with a
//! wrong clock neither removes what is not old yet nor writes rows that look old.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// A moment, and the time at it. `None` without a cluster.
static REFERENCE: Mutex<Option<(Instant, u64)>> = Mutex::new(None);

/// The difference up to which clocks count as equal.
pub(crate) const DIFFERENCE_MAX: Duration = Duration::from_secs(5);

/// Returns the current time in milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    let reference = REFERENCE.lock().unwrap_or_else(PoisonError::into_inner);
    reference.map_or_else(machine_ms, |(at, ms)| after(ms, at.elapsed()))
}

/// Returns the time of this machine's clock in milliseconds since the Unix epoch.
pub(crate) fn machine_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
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

/// Returns the milliseconds by which a clock is ahead of most clocks, unless they count as equal. Of
/// an even number of clocks, the nearer one of the middle ones counts, so that two that differ are
/// both believed.
pub(crate) fn ahead(own: u64, others: Vec<u64>) -> Option<i64> {
    let mut differences: Vec<i64> = others
        .into_iter()
        .map(|other| own.wrapping_sub(other) as i64)
        .collect();
    differences.push(0);
    differences.sort_unstable();
    let (lower, upper) = ((differences.len() - 1) / 2, differences.len() / 2);
    let middle = [lower, upper]
        .into_iter()
        .filter_map(|at| differences.get(at).copied());
    let ahead = middle.min_by_key(|difference| difference.unsigned_abs())?;
    let is_wrong = u128::from(ahead.unsigned_abs()) > DIFFERENCE_MAX.as_millis();
    is_wrong.then_some(ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: u64 = 365 * 86_400_000;
    const NOW: u64 = 56 * YEAR;

    #[test]
    fn a_clock_is_wrong_if_most_others_differ_from_it() {
        assert_eq!(ahead(NOW, vec![]), None);
        assert_eq!(ahead(NOW, vec![NOW - 4000, NOW + 4000]), None);
        assert_eq!(
            ahead(NOW + YEAR, vec![NOW, NOW + 10]),
            Some(YEAR as i64 - 10)
        );
        assert_eq!(ahead(NOW - YEAR, vec![NOW, NOW]), Some(-(YEAR as i64)));
        // One of the others is wrong.
        assert_eq!(ahead(NOW, vec![NOW + YEAR, NOW]), None);
        assert_eq!(ahead(NOW, vec![NOW + YEAR, NOW, 0, NOW]), None);
        // Nothing says which one of two is right.
        assert_eq!(ahead(NOW, vec![NOW + YEAR]), None);
        assert_eq!(ahead(NOW, vec![NOW - YEAR]), None);
    }
}
