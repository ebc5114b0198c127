//! [`Minority`]: the masters that have lost the majority of their cluster, and whether the minion
//! stays with one of them.
//!
//! A master without a majority serves files and pillar, and takes no events and returns. The minion
//! tries the other masters first. When it comes to one for the second time, it has tried all of them,
//! and stays.

use link::PublicKey;

/// The masters that have stated, one after the other, that they have no majority.
#[derive(Debug, Default)]
pub(super) struct Minority {
    all: Vec<PublicKey>,
    now: Now,
}

/// The answer to the statement of the connected master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Now {
    /// It has stated nothing.
    #[default]
    None,
    /// The minion leaves it.
    Leaves,
    /// The minion stays with it.
    Stays,
}

impl Minority {
    /// Records that the connected master has no majority. Returns true if the minion leaves it.
    pub(super) fn stated(&mut self, master: PublicKey) -> bool {
        let is_new = !self.all.contains(&master);
        if is_new {
            self.all.push(master);
        }
        self.now = if is_new { Now::Leaves } else { Now::Stays };
        is_new
    }

    /// Returns whether the minion stays with a master without a majority.
    pub(super) fn is_stay(&self) -> bool {
        self.now == Now::Stays
    }

    /// Records the end of a connection. Returns true if it was of no use, and no other master is
    /// better.
    pub(super) fn ended(&mut self) -> bool {
        let now = std::mem::take(&mut self.now);
        if now == Now::None {
            self.all.clear();
        }
        now == Now::Stays
    }

    /// Makes the minion try all masters again.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> PublicKey {
        PublicKey::from_bytes([number; 32])
    }

    #[test]
    fn a_minion_stays_where_it_comes_for_the_second_time() {
        let mut minority = Minority::default();
        for master in [1, 2] {
            assert!(minority.stated(key(master)) && !minority.is_stay());
            assert!(!minority.ended());
        }
        assert!(!minority.stated(key(1)) && minority.is_stay());
        // The master closes the connection nevertheless.
        assert!(minority.ended() && !minority.is_stay());
        assert!(!minority.stated(key(2)) && minority.is_stay());
        minority.forget();
        assert!(!minority.is_stay() && minority.stated(key(2)));
    }

    #[test]
    fn a_master_with_a_majority_begins_anew() {
        let mut minority = Minority::default();
        assert!(minority.stated(key(1)));
        minority.ended();
        // The connection with the second master is of use.
        assert!(!minority.ended());
        assert!(minority.stated(key(1)));
    }
}
