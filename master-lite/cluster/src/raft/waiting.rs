//! [`Waiting`]: the proposals of this master that are not applied yet, with their callers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smol::channel::{Receiver, Sender, bounded};
use smol::lock::{Semaphore, SemaphoreGuardArc};
use value::channel;

use super::NotAgreed;
use crate::core::{Numbers, Proposal};

/// The maximum number of proposals of one master that wait at a time.
pub const PENDING_MAX: usize = 4096;

/// The result of a proposal.
type Result<T> = std::result::Result<T, NotAgreed>;

/// A proposal with its caller.
struct Pending<T, I> {
    proposal: Proposal,
    caller: Sender<Result<T>>,
    /// The time at which the caller stops waiting.
    end: I,
    /// True if it may have got into a log.
    was_offered: bool,
    _room: Room,
}

/// The room that a proposal takes among those that wait. It is free when this is dropped.
pub(super) type Room = SemaphoreGuardArc;

/// The proposals of one start of this master, in the order of their numbers.
pub(super) struct Waiting<T, I> {
    pub(super) node: u64,
    pub(super) boot: u64,
    state: Mutex<State<T, I>>,
    room: Arc<Semaphore>,
    /// A channel that has a message when there is something to offer.
    wake: (Sender<()>, Receiver<()>),
}

struct State<T, I> {
    last: u64,
    /// The number of proposals that were applied.
    done: u64,
    pending: VecDeque<Pending<T, I>>,
    /// Why the group has ended.
    failure: Option<String>,
}

impl<T, I: Copy + Ord> Waiting<T, I> {
    pub(super) fn new(node: u64, boot: u64) -> Arc<Self> {
        Arc::new(Self {
            node,
            boot,
            state: Mutex::new(State {
                last: 0,
                done: 0,
                pending: VecDeque::new(),
                failure: None,
            }),
            room: Arc::new(Semaphore::new(PENDING_MAX)),
            wake: bounded(1),
        })
    }

    /// Waits until fewer than [`PENDING_MAX`] proposals wait. Callers get room in the order of their
    /// calls.
    pub(super) async fn room(&self) -> Room {
        // No deadline: the caller has one.
        self.room.acquire_arc().await
    }

    fn state(&self) -> MutexGuard<'_, State<T, I>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a command behind all earlier ones, and returns the channel for its result.
    pub(super) fn add(
        &self,
        room: Room,
        command: Vec<u8>,
        level: u64,
        fence: Option<u64>,
        end: I,
    ) -> Result<Receiver<Result<T>>> {
        let mut state = self.state();
        if let Some(failure) = &state.failure {
            return Err(NotAgreed::Failed(failure.clone()));
        }
        state.last += 1;
        let (caller, result) = bounded(1);
        let proposal = Proposal {
            node: self.node,
            boot: self.boot,
            number: state.last,
            level,
            fence,
            command: command.into(),
        };
        state.pending.push_back(Pending {
            proposal,
            caller,
            end,
            was_offered: false,
            _room: room,
        });
        drop(state);
        channel::if_open(self.wake.0.try_send(()));
        Ok(result)
    }

    /// Returns the number of the first proposal that waits; `None` if none does.
    pub(super) fn first(&self) -> Option<u64> {
        let state = self.state();
        state.pending.front().map(|pending| pending.proposal.number)
    }

    /// Waits until something was added.
    pub(super) async fn added(&self) {
        // No deadline: the caller has one.
        channel::or_closed(self.wake.1.recv().await);
    }

    /// Returns the next proposals after a number, until they have `bytes` in all. They count as
    /// offered from now on.
    pub(super) fn after(&self, number: u64, count: usize, bytes: usize) -> Vec<Proposal> {
        let mut state = self.state();
        let mut size = 0;
        let next = state
            .pending
            .iter_mut()
            .filter(|pending| pending.proposal.number > number);
        let mut proposals = Vec::new();
        for pending in next.take(count) {
            size += pending.proposal.command.len();
            if size > bytes && !proposals.is_empty() {
                break;
            }
            pending.was_offered = true;
            proposals.push(pending.proposal.clone());
        }
        proposals
    }

    /// Answers the callers whose time is over.
    pub(super) fn expire(&self, now: I) {
        let mut state = self.state();
        state.pending.retain(|pending| {
            let is_over = pending.end <= now;
            if is_over {
                let result = match pending.was_offered {
                    true => NotAgreed::Unknown,
                    false => NotAgreed::NoMajority,
                };
                channel::if_open(pending.caller.try_send(Err(result)));
            }
            !is_over
        });
    }

    /// Answers the caller of an applied proposal.
    pub(super) fn answer(&self, proposal: &Key, result: Result<T>) {
        if (proposal.node, proposal.boot) != (self.node, self.boot) {
            return;
        }
        let mut state = self.state();
        let place = state
            .pending
            .binary_search_by_key(&proposal.number, |pending| pending.proposal.number);
        if let Some(pending) = place.ok().and_then(|place| state.pending.remove(place)) {
            channel::if_open(pending.caller.try_send(result));
            state.done += 1;
        }
    }

    /// Returns the number of proposals that were applied.
    pub(super) fn done(&self) -> u64 {
        self.state().done
    }

    /// Answers the callers of proposals that a received state contains. Their results are not
    /// known.
    pub(super) fn skip(&self, applied: Numbers) {
        if applied.boot != self.boot {
            return;
        }
        self.state().pending.retain(|pending| {
            let is_applied = pending.proposal.number <= applied.last;
            if is_applied {
                channel::if_open(pending.caller.try_send(Err(NotAgreed::NoResult)));
            }
            !is_applied
        });
    }

    /// Answers all callers, now and from now on, with the reason why the group has ended.
    pub(super) fn fail(&self, why: &str) {
        let mut state = self.state();
        state.failure = Some(why.to_owned());
        for pending in state.pending.drain(..) {
            let result = NotAgreed::Failed(why.to_owned());
            channel::if_open(pending.caller.try_send(Err(result)));
        }
    }
}

/// The identity of a proposal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    node: u64,
    boot: u64,
    number: u64,
}

impl From<&Proposal> for Key {
    fn from(proposal: &Proposal) -> Self {
        Self {
            node: proposal.node,
            boot: proposal.boot,
            number: proposal.number,
        }
    }
}

#[cfg(test)]
mod tests {
    use smol::future::poll_once;

    use super::*;

    fn add(waiting: &Waiting<(), u64>, command: Vec<u8>, end: u64) -> Receiver<Result<()>> {
        let room = smol::block_on(waiting.room());
        waiting.add(room, command, 1, None, end).unwrap()
    }

    fn numbers(proposals: &[Proposal]) -> Vec<u64> {
        proposals.iter().map(|proposal| proposal.number).collect()
    }

    #[test]
    fn proposals_are_offered_in_order_until_they_are_applied() {
        let waiting: Arc<Waiting<(), u64>> = Waiting::new(1, 1);
        let results: Vec<_> = (0..4).map(|_| add(&waiting, vec![0; 10], 9)).collect();
        let first = waiting.after(0, 10, 25);
        assert_eq!(numbers(&first), [1, 2]);
        waiting.answer(&(&first[0]).into(), Ok(()));
        assert_eq!(numbers(&waiting.after(0, 10, 100)), [2, 3, 4]);
        assert_eq!(results[0].try_recv(), Ok(Ok(())));
        assert!(results[1].try_recv().is_err());
    }

    #[test]
    fn what_was_never_offered_is_known_not_to_happen() {
        let waiting: Arc<Waiting<(), u64>> = Waiting::new(1, 1);
        let offered = add(&waiting, Vec::new(), 5);
        waiting.after(0, 1, 100);
        let kept = add(&waiting, Vec::new(), 5);
        let later = add(&waiting, Vec::new(), 6);
        waiting.expire(5);
        assert_eq!(offered.try_recv(), Ok(Err(NotAgreed::Unknown)));
        assert_eq!(kept.try_recv(), Ok(Err(NotAgreed::NoMajority)));
        waiting.fail("the disk is full");
        let failed = NotAgreed::Failed("the disk is full".to_owned());
        assert_eq!(later.try_recv(), Ok(Err(failed.clone())));
        let room = smol::block_on(waiting.room());
        assert_eq!(
            waiting.add(room, Vec::new(), 1, None, 9).unwrap_err(),
            failed
        );
    }

    #[test]
    fn a_proposal_waits_for_room_and_gets_it_when_another_one_is_answered() {
        let waiting: Arc<Waiting<(), u64>> = Waiting::new(1, 1);
        for _ in 0..PENDING_MAX {
            add(&waiting, Vec::new(), 5);
        }
        assert!(smol::block_on(poll_once(waiting.room())).is_none());
        assert_eq!(waiting.first(), Some(1));
        let first = waiting.after(0, 1, 100);
        waiting.answer(&(&first[0]).into(), Ok(()));
        assert!(smol::block_on(poll_once(waiting.room())).is_some());
        assert_eq!(waiting.first(), Some(2));
    }
}
