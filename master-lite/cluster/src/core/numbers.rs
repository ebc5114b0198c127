//! [`Numbers`]: which proposals of a master have been applied.

use std::collections::BTreeSet;

/// The maximum number of proposals of one master that wait at a time. A number that is this much
/// lower than the highest one is not applied any more.
pub const PENDING_MAX: usize = 4096;

/// The applied proposals of one master, by the start of the master and their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    boot: u64,
    /// Every number up to this one has been applied, or will never be.
    low: u64,
    /// The applied numbers above `low`.
    above: BTreeSet<u64>,
}

impl Numbers {
    /// Restores the numbers from [`Numbers::parts`].
    #[must_use]
    pub fn from_parts(boot: u64, low: u64, above: BTreeSet<u64>) -> Self {
        Self { boot, low, above }
    }

    /// Returns the start, the number up to which all are applied, and the applied ones above it.
    #[must_use]
    pub fn parts(&self) -> (u64, u64, &BTreeSet<u64>) {
        (self.boot, self.low, &self.above)
    }

    /// Takes a number, and returns whether it is new. All numbers of an earlier start are old.
    pub fn take(&mut self, boot: u64, number: u64) -> bool {
        if boot < self.boot {
            return false;
        }
        if boot > self.boot {
            *self = Self {
                boot,
                ..Self::default()
            };
        }
        if number <= self.low || !self.above.insert(number) {
            return false;
        }
        while self.above.remove(&(self.low + 1)) {
            self.low += 1;
        }
        if self.above.len() > PENDING_MAX
            && let Some(lowest) = self.above.pop_first()
        {
            // The numbers in between were given up by their master.
            self.low = lowest;
            while self.above.remove(&(self.low + 1)) {
                self.low += 1;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once_in_any_order() {
        let mut numbers = Numbers::default();
        for number in [1, 3, 2, 5] {
            assert!(numbers.take(7, number), "{number}");
            assert!(!numbers.take(7, number), "{number}");
        }
        assert_eq!(numbers.parts(), (7, 3, &[5].into()));
    }

    #[test]
    fn a_later_start_counts_again_and_ends_the_earlier_one() {
        let mut numbers = Numbers::default();
        assert!(numbers.take(1, 1));
        assert!(numbers.take(2, 1));
        assert!(!numbers.take(1, 2));
    }

    #[test]
    fn numbers_that_never_come_need_no_room() {
        let mut numbers = Numbers::default();
        for number in (2..).step_by(2).take(3 * PENDING_MAX) {
            assert!(numbers.take(1, number));
        }
        assert!(numbers.above.len() <= PENDING_MAX);
        // It is too old to be told from one that was applied.
        assert!(!numbers.take(1, 1));
    }
}
