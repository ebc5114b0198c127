//! [`Proposer`]: offers the proposals of this master to the leader, in their order.
//!
//! A proposal is offered again when another master leads, or the leader did not answer, and so are
//! all that follow it. An entry that is in the log twice is applied once, and no lower number is
//! applied after a higher one, so the proposals of a master take effect in their order or not at
//! all.

use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::{Instant, Raft};
use smol::future::{FutureExt, poll_once};
use smol::stream::StreamExt;
use value::log;

use super::bytes::{Answer, Ask};
use super::machine::{Applier, Machine};
use super::network::{Link, LinkError};
use super::types::{Reason, Types};
use super::waiting::Waiting;
use super::{InstantOf, Runtime};
use crate::core::{Member, Proposal};

/// The time after which the leader is looked up again while proposals wait.
const TICK: Duration = Duration::from_millis(50);
/// The same time while none waits. A new proposal ends it.
const IDLE: Duration = Duration::from_secs(1);
/// The time in which one of the proposals that the leader took must be applied. Otherwise all are
/// offered again, because the leader may have lost them. The time is doubled each time, up to the
/// maximum: a leader that is only slow must not become slower by that.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(4);
/// The maximum time for the leader to take proposals.
const TAKE_MAX: Duration = Duration::from_secs(1);
/// The maximum number of proposals in one message, and of bytes of their commands.
const TOGETHER_MAX: usize = 512;
const TOGETHER_BYTES: usize = 1 << 20;

/// The result of an offer.
enum Offered {
    /// The leader has got them.
    Taken,
    /// There is no leader, or it did not take them.
    NotTaken,
}

pub(super) struct Proposer<R: Runtime, M: Machine, L> {
    pub(super) raft: Raft<Types<R>, Applier<M, InstantOf<R>>>,
    pub(super) link: L,
    pub(super) waiting: Arc<Waiting<M::Outcome, InstantOf<R>>>,
}

impl<R: Runtime, M: Machine, L: Link> Proposer<R, M, L> {
    /// Runs until the group ends.
    pub(super) async fn run(self) {
        let mut upto = 0;
        let (mut term, mut progress) = (None, Progress::<InstantOf<R>>::new());
        loop {
            self.waiting.expire(InstantOf::<R>::now());
            let leader = match self.leader() {
                Ok(leader) => leader,
                Err(why) => return self.waiting.fail(&why),
            };
            let before = std::mem::replace(&mut term, leader.as_ref().map(Leader::term));
            if progress.is_late(self.waiting.first()) || term != before {
                upto = 0;
            }
            let next = match &leader {
                Some(_) => self.waiting.after(upto, TOGETHER_MAX, TOGETHER_BYTES),
                None => Vec::new(),
            };
            match (&leader, next.last().map(|last| last.number)) {
                (Some(leader), Some(last)) => match self.offer_to(leader, next).await {
                    Offered::Taken => upto = last,
                    Offered::NotTaken => {
                        upto = 0;
                        R::sleep(TICK).await;
                    }
                },
                _ => {
                    let time = self.waiting.first().map_or(IDLE, |_| TICK);
                    self.waiting.added().or(R::sleep(time)).await;
                }
            }
        }
    }

    /// Returns the leader, if there is one.
    fn leader(&self) -> Result<Option<Leader>, String> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        if let Err(failure) = &metrics.running_state {
            return Err(Reason::of(failure));
        }
        let members = metrics.membership_config.membership();
        Ok(metrics.current_leader.map(|id| Leader {
            id,
            term: metrics.current_term,
            member: members.get_node(&id).cloned(),
        }))
    }

    /// Offers proposals to a leader, as long as it leads.
    async fn offer_to(&self, leader: &Leader, proposals: Vec<Proposal>) -> Offered {
        let replaced = async {
            loop {
                R::sleep(TICK).await;
                let now = self.leader().ok().flatten();
                if now.as_ref().map(Leader::term) != Some(leader.term()) {
                    return Offered::NotTaken;
                }
            }
        };
        self.offer(leader, proposals).or(replaced).await
    }

    async fn offer(&self, leader: &Leader, proposals: Vec<Proposal>) -> Offered {
        if leader.id == self.waiting.node {
            return take(&self.raft, proposals).await;
        }
        let Some(member) = &leader.member else {
            return Offered::NotTaken;
        };
        let message = match Ask::<R>::Propose(proposals).encode() {
            Ok(message) => message,
            Err(error) => {
                log::error(format_args!("cannot propose changes: {error}"));
                return Offered::NotTaken;
            }
        };
        let asked = self.link.ask(leader.id, member, message, TAKE_MAX).await;
        match asked.map(|answer| Answer::<R>::decode(&answer)) {
            Ok(Ok(Answer::Done)) => Offered::Taken,
            Ok(_) | Err(LinkError::Unreachable(_) | LinkError::NoAnswer(_)) => Offered::NotTaken,
        }
    }
}

/// The progress of the proposals that wait.
struct Progress<I> {
    /// The first one.
    first: Option<u64>,
    /// The time since which it is the first one, or since which all were offered again.
    since: I,
    patience: Duration,
}

impl<I: Instant> Progress<I> {
    fn new() -> Self {
        Self {
            first: None,
            since: I::now(),
            patience: AGAIN,
        }
    }

    /// Returns whether the proposals must be offered again.
    fn is_late(&mut self, first: Option<u64>) -> bool {
        let now = I::now();
        if first.is_none() || first != self.first {
            *self = Self {
                first,
                ..Self::new()
            };
            return false;
        }
        let is_late = self.since + self.patience < now;
        if is_late {
            self.since = now;
            self.patience = AGAIN_MAX.min(2 * self.patience);
        }
        is_late
    }
}

/// The leader of a term.
struct Leader {
    id: u64,
    term: u64,
    member: Option<Member>,
}

impl Leader {
    fn term(&self) -> (u64, u64) {
        (self.id, self.term)
    }
}

/// Puts proposals into the log, if this master is the leader. A leader without contact to a majority
/// refuses them for a moment. Later proposals must not be offered before these are in the log: once
/// they are applied, earlier ones are void.
async fn take<R: Runtime, M: Machine>(
    raft: &Raft<Types<R>, Applier<M, InstantOf<R>>>,
    proposals: Vec<Proposal>,
) -> Offered {
    let Ok(mut results) = raft.client_write_many(proposals).await else {
        return Offered::NotTaken;
    };
    // openraft answers requests in their order, so after this one it has refused the proposals or
    // has taken all of them.
    if raft.with_raft_state(|_| ()).await.is_err() {
        return Offered::NotTaken;
    }
    // The results come from the state, also on other masters than this one.
    match poll_once(results.next()).await {
        None | Some(Some(Ok(Ok(_)))) => Offered::Taken,
        Some(None | Some(Ok(Err(_)) | Err(_))) => Offered::NotTaken,
    }
}

/// Puts proposals of another master into the log. Returns whether this master leads.
pub(super) async fn take_from_other<R: Runtime, M: Machine>(
    raft: &Raft<Types<R>, Applier<M, InstantOf<R>>>,
    proposals: Vec<Proposal>,
) -> bool {
    raft.is_leader() && matches!(take(raft, proposals).await, Offered::Taken)
}
