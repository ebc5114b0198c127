//! [`Status`]: the state of a group as one of its masters sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::{Instant, RaftMetrics};

use super::types::{LogId, Members, Reason, Types};
use super::{Group, InstantOf, Machine, Runtime};
use crate::core::Member;

/// The state of a group as one of its masters sees it.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The number of this master.
    pub node: u64,
    /// The present term.
    pub term: u64,
    /// The number of the leader, if there is one.
    pub leader: Option<u64>,
    /// The index of the last entry of the log here, 0 if there is none.
    pub last: u64,
    /// The index of the last entry that is applied here.
    pub applied: u64,
    /// The index of the last entry before which the state is on the disk.
    pub snapshot: u64,
    /// The numbers of the masters that have a vote.
    pub voters: BTreeSet<u64>,
    /// All masters.
    pub members: BTreeMap<u64, Member>,
    /// The index of the entry that has the members.
    pub members_at: u64,
    /// The masters on which a majority has agreed, and the index of the entry that has them.
    pub agreed: BTreeMap<u64, Member>,
    /// The index of that entry.
    pub agreed_at: u64,
    /// True while a change of the voters is under way.
    pub is_joint: bool,
    /// On the leader: the index up to which each other master has the log, and the time since it
    /// answered last.
    pub followers: BTreeMap<u64, Follower>,
    /// The time since a majority was in contact: on the leader since a majority answered, on others
    /// since the leader sent something. `None` if that has not happened.
    pub contact: Option<Duration>,
    /// Why the group has ended here.
    pub failure: Option<String>,
}

/// Another master as the leader sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Follower {
    /// The index up to which it has the log.
    pub matched: u64,
    /// The time since it answered last.
    pub silent: Option<Duration>,
}

impl Status {
    /// Returns whether this master leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.leader == Some(self.node)
    }

    /// Returns the leader with its number.
    #[must_use]
    pub fn leading(&self) -> Option<(u64, &Member)> {
        let leader = self.leader?;
        Some((leader, self.members.get(&leader)?))
    }
}

fn index(id: Option<&LogId>) -> u64 {
    id.map_or(0, |id| id.index)
}

fn since<I: Instant>(then: I) -> Duration {
    let now = I::now();
    match now > then {
        true => now - then,
        false => Duration::ZERO,
    }
}

fn all(members: &Members) -> BTreeMap<u64, Member> {
    let nodes = members.nodes();
    nodes.map(|(id, node)| (*id, node.clone())).collect()
}

fn followers<R: Runtime>(metrics: &RaftMetrics<Types<R>>) -> BTreeMap<u64, Follower> {
    let replicated = metrics.replication.iter().flatten();
    let mut followers: BTreeMap<u64, Follower> = replicated
        .map(|(node, matched)| {
            let matched = index(matched.as_ref());
            let silent = None;
            (*node, Follower { matched, silent })
        })
        .collect();
    for (node, answered) in metrics.heartbeat.iter().flatten() {
        if let Some(follower) = followers.get_mut(node) {
            follower.silent = answered.map(|answered| since(*answered));
        }
    }
    followers.remove(&metrics.id);
    followers
}

impl<R: Runtime, M: Machine> Group<R, M> {
    /// Returns the state of the group as this master sees it.
    #[must_use]
    pub fn status(&self) -> Status {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let (stored, agreed) = (
            &metrics.membership_config,
            &metrics.committed_membership_config,
        );
        let members = stored.membership();
        let voters: BTreeSet<u64> = members.voter_ids().collect();
        let leads = metrics.current_leader == Some(metrics.id);
        let is_alone = voters.len() == 1 && voters.contains(&metrics.id);
        let contact = match leads {
            true if is_alone => Some(Duration::ZERO),
            true => metrics.last_quorum_acked.map(|acked| since(*acked)),
            false => self.heard().map(since::<InstantOf<R>>),
        };
        Status {
            node: metrics.id,
            term: metrics.current_term,
            leader: metrics.current_leader,
            last: metrics.last_log_index.unwrap_or_default(),
            applied: index(metrics.last_applied.as_ref()),
            snapshot: index(metrics.snapshot.as_ref()),
            is_joint: members.get_joint_config().len() > 1,
            members: all(members),
            members_at: index(stored.log_id().as_ref()),
            agreed: all(agreed.membership()),
            agreed_at: index(agreed.log_id().as_ref()),
            voters,
            followers: followers(&metrics),
            contact,
            failure: metrics
                .running_state
                .as_ref()
                .err()
                .map(|failure| Reason::of(failure)),
        }
    }
}
