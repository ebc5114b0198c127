//! [`Numbers`]: which proposals of a master have been applied.

/// The last applied proposal of one master. A master proposes in the order of its numbers, so that
/// every number up to the last one has been applied or never will be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The number of the start of the master.
    pub boot: u64,
    /// The last applied number since that start.
    pub last: u64,
}

impl Numbers {
    /// Takes a number, and returns whether it is new. All numbers of an earlier start are old.
    pub fn take(&mut self, boot: u64, number: u64) -> bool {
        let is_new = (boot, number) > (self.boot, self.last);
        if is_new {
            *self = Self { boot, last: number };
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once_and_no_lower_one_follows() {
        let mut numbers = Numbers::default();
        assert!(numbers.take(7, 1));
        assert!(!numbers.take(7, 1));
        assert!(numbers.take(7, 3));
        assert!(!numbers.take(7, 2));
    }

    #[test]
    fn a_later_start_counts_again_and_ends_the_earlier_one() {
        let mut numbers = Numbers::default();
        assert!(numbers.take(1, 5));
        assert!(numbers.take(2, 1));
        assert!(!numbers.take(1, 6));
    }
}
