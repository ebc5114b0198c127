//! [`linearizable`]: whether operations on a register could have happened one after the other, each
//! at some moment between its call and its return (Wing and Gong, with Lowe's memory).

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// An operation on a register.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub number: u64,
    pub called: Duration,
    /// The time of its return; `None` if its result is not known. It may happen at any later time.
    pub returned: Option<Duration>,
    /// The value that it writes; `None` only reads.
    pub value: Option<u64>,
    /// The value that it found.
    pub found: Option<u64>,
}

/// Returns whether there is an order. Operations that were certainly not done must be left out.
pub fn linearizable(mut operations: Vec<Operation>) -> bool {
    operations.sort_by_key(|operation| operation.called);
    // A read without a known result proves nothing.
    operations.retain(|operation| operation.returned.is_some() || operation.value.is_some());
    let known = operations
        .iter()
        .filter(|operation| operation.returned.is_some())
        .count();
    let words = operations.len().div_ceil(64).max(1);
    let mut search = Search {
        operations: &operations,
        done: vec![0; words],
        seen: HashSet::new(),
    };
    search.goes_on(None, known)
}

struct Search<'a> {
    operations: &'a [Operation],
    /// A bit for each operation that is done.
    done: Vec<u64>,
    /// The states that lead nowhere.
    seen: HashSet<(Vec<u64>, Option<u64>)>,
}

impl Search<'_> {
    fn is_done(&self, at: usize) -> bool {
        self.done[at / 64] >> (at % 64) & 1 == 1
    }

    /// Tries each operation that may come next.
    fn goes_on(&mut self, value: Option<u64>, known_left: usize) -> bool {
        if known_left == 0 {
            return true;
        }
        if !self.seen.insert((self.done.clone(), value)) {
            return false;
        }
        // Whatever comes next was called before the first return of those that are left.
        let left = (0..self.operations.len()).filter(|at| !self.is_done(*at));
        let left: Vec<usize> = left.collect();
        let first = left.iter().filter_map(|at| self.operations[*at].returned);
        let first = first.min().unwrap_or(Duration::MAX);
        for at in left {
            let operation = self.operations[at];
            if operation.called > first {
                break;
            }
            if operation.returned.is_some() && operation.found != value {
                continue;
            }
            self.done[at / 64] |= 1 << (at % 64);
            let next = operation.value.or(value);
            let left = known_left - usize::from(operation.returned.is_some());
            if self.goes_on(next, left) {
                return true;
            }
            self.done[at / 64] &= !(1 << (at % 64));
        }
        false
    }
}

/// Groups operations by their register.
pub fn by_key(operations: Vec<(u64, Operation)>) -> BTreeMap<u64, Vec<Operation>> {
    let mut by_key: BTreeMap<u64, Vec<Operation>> = BTreeMap::new();
    for (key, operation) in operations {
        by_key.entry(key).or_default().push(operation);
    }
    by_key
}
