//! [`linearizable`]: whether operations on a register could have happened one after the other, each
//! at some moment between its call and its return (Wing and Gong, with Lowe's memory).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::Hash;
use std::time::Duration;

/// Something that operations read and change.
pub trait Register {
    type State: Clone + Default + Eq + Hash;
    type Call: Clone;
    type Answer: Clone + PartialEq;

    /// Returns the state after an operation, and its answer.
    fn step(before: &Self::State, call: &Self::Call) -> (Self::State, Self::Answer);
}

/// An operation on a register.
pub struct Operation<R: Register> {
    pub number: u64,
    pub called: Duration,
    /// The time of its return, and its answer; `None` if that is not known. It may happen at any later
    /// time.
    pub returned: Option<(Duration, R::Answer)>,
    pub call: R::Call,
}

impl<R: Register> Clone for Operation<R> {
    fn clone(&self) -> Self {
        Self {
            number: self.number,
            called: self.called,
            returned: self.returned.clone(),
            call: self.call.clone(),
        }
    }
}

/// Checks that no operation was done twice, that each one with an answer was done, and that no refused
/// one was. `done` has the number of times that each operation was done.
pub fn each_once<R: Register>(
    done: &BTreeMap<u64, u64>,
    history: &[Operation<R>],
    refused: &BTreeSet<u64>,
) -> Result<(), String> {
    for (number, count) in done {
        if *count != 1 {
            return Err(format!("operation {number} was done {count} times"));
        }
        if refused.contains(number) {
            return Err(format!("operation {number} was refused, and done"));
        }
    }
    let lost =
        |known: &&Operation<R>| known.returned.is_some() && !done.contains_key(&known.number);
    match history.iter().find(lost) {
        Some(Operation { number, .. }) => {
            Err(format!("operation {number} was acknowledged, and is lost"))
        }
        None => Ok(()),
    }
}

/// Returns whether there is an order. Operations that were certainly not done must be left out.
pub fn linearizable<R: Register>(mut operations: Vec<Operation<R>>) -> bool {
    operations.sort_by_key(|operation| operation.called);
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
    search.goes_on(&R::State::default(), known)
}

struct Search<'a, R: Register> {
    operations: &'a [Operation<R>],
    /// A bit for each operation that is done.
    done: Vec<u64>,
    /// The states that lead nowhere.
    seen: HashSet<(Vec<u64>, R::State)>,
}

impl<R: Register> Search<'_, R> {
    fn is_done(&self, at: usize) -> bool {
        self.done[at / 64] >> (at % 64) & 1 == 1
    }

    /// Tries each operation that may come next.
    fn goes_on(&mut self, state: &R::State, known_left: usize) -> bool {
        if known_left == 0 {
            return true;
        }
        if !self.seen.insert((self.done.clone(), state.clone())) {
            return false;
        }
        // Whatever comes next was called before the first return of those that are left.
        let left = (0..self.operations.len()).filter(|at| !self.is_done(*at));
        let left: Vec<usize> = left.collect();
        let returned = |at: &usize| Some(self.operations[*at].returned.as_ref()?.0);
        let first = left.iter().filter_map(returned).min();
        let first = first.unwrap_or(Duration::MAX);
        for at in left {
            let operation = &self.operations[at];
            if operation.called > first {
                break;
            }
            let (next, answer) = R::step(state, &operation.call);
            let returned = operation.returned.as_ref();
            if returned.is_some_and(|(_, returned)| *returned != answer) {
                continue;
            }
            let left = known_left - usize::from(returned.is_some());
            self.done[at / 64] |= 1 << (at % 64);
            if self.goes_on(&next, left) {
                return true;
            }
            self.done[at / 64] &= !(1 << (at % 64));
        }
        false
    }
}
