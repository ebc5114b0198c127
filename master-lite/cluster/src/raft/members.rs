//! Changes of the members of a group, which only its leader can make.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::async_runtime::WatchReceiver;

use super::{Group, Machine, Runtime};
use crate::core::Member;

/// A change of members that was not made, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot change the members of the cluster: {0}")]
pub struct NotChanged(String);

/// The interval between two looks at a snapshot that is being built.
const LOOK: Duration = Duration::from_millis(10);
/// The maximum number of such looks.
const LOOKS: usize = 1000;

impl<R: Runtime, M: Machine> Group<R, M> {
    async fn change(&self, change: ChangeMembers<u64, Member>) -> Result<(), NotChanged> {
        // `false`: a master that loses its vote is no member any more.
        let changed = self.raft().change_membership(change, false).await;
        changed
            .map(drop)
            .map_err(|error| match error.forward_to_leader() {
                Some(_) => NotChanged("another master leads, or none: try again".to_owned()),
                None => NotChanged(error.to_string()),
            })
    }

    /// Founds a cluster with this master alone, whose state is there already. The log before it is
    /// cut, so that a master that joins gets the whole state.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn found_alone(&self, own: Member) -> std::io::Result<()> {
        let node = *self.raft().node_id();
        self.found(BTreeMap::from([(node, own)])).await?;
        let failed = |error: &dyn std::fmt::Display| std::io::Error::other(error.to_string());
        let led = self.raft().wait(Some(LOOK * 1000));
        let led = led.current_leader(node, "the founder leads").await;
        let index = led
            .map_err(|error| failed(&error))?
            .last_log_index
            .unwrap_or_default();
        let applied = self.raft().wait(Some(LOOK * 1000));
        let applied = applied.applied_index_at_least(Some(index), "the founder's first entries");
        applied.await.map_err(|error| failed(&error))?;
        let trigger = self.raft().trigger();
        trigger.snapshot().await.map_err(|error| failed(&error))?;
        for _ in 0..LOOKS {
            let snapshot = self.raft().metrics().borrow_watched().snapshot;
            if let Some(snapshot) = snapshot {
                let purged = trigger.purge_log(snapshot.index).await;
                return purged.map_err(|error| failed(&error));
            }
            R::sleep(LOOK).await;
        }
        Err(std::io::Error::other(
            "the first snapshot was not written in time",
        ))
    }

    /// Adds a master without a vote, and returns its number, which no other master ever had.
    ///
    /// # Errors
    /// When this master does not lead, or a majority does not confirm it.
    pub async fn add(&self, member: Member) -> Result<u64, NotChanged> {
        let status = self.status();
        // The number is higher than all before it: those were indexes of committed entries.
        let highest = status
            .members
            .keys()
            .next_back()
            .copied()
            .unwrap_or_default();
        let number = status.last.max(highest) + 1;
        let nodes = BTreeMap::from([(number, member.clone())]);
        self.change(ChangeMembers::AddNodes(nodes)).await?;
        // A number that another member has is not given to this one.
        for _ in 0..LOOKS {
            match self.status().members.get(&number) {
                Some(known) if *known == member => return Ok(number),
                Some(_) => break,
                None => R::sleep(LOOK).await,
            }
        }
        Err(NotChanged(
            "another master has joined at the same time".to_owned(),
        ))
    }

    /// Gives a vote to masters, and takes the membership of others, in one change.
    ///
    /// # Errors
    /// As [`Group::add`].
    pub async fn replace(
        &self,
        promoted: BTreeSet<u64>,
        removed: BTreeSet<u64>,
    ) -> Result<(), NotChanged> {
        let status = self.status();
        let mut voters = status.voters.clone();
        voters.extend(promoted);
        voters.retain(|voter| !removed.contains(voter));
        if voters.is_empty() {
            return Err(NotChanged("no master with a vote would be left".to_owned()));
        }
        if voters != status.voters {
            self.change(ChangeMembers::ReplaceAllVoters(voters)).await?;
        }
        let left: BTreeSet<u64> = self.status().members.into_keys().collect();
        let removed: BTreeSet<u64> = removed.intersection(&left).copied().collect();
        match removed.is_empty() {
            true => Ok(()),
            false => self.change(ChangeMembers::RemoveNodes(removed)).await,
        }
    }

    /// Changes the name, the addresses or the level of a member.
    ///
    /// # Errors
    /// As [`Group::add`].
    pub async fn update(&self, number: u64, member: Member) -> Result<(), NotChanged> {
        let nodes = BTreeMap::from([(number, member.clone())]);
        self.change(ChangeMembers::SetNodes(nodes)).await?;
        self.moved(number, member);
        Ok(())
    }

    /// Hands the leadership over to another master.
    ///
    /// # Errors
    /// When the group has failed here.
    pub async fn hand_over(&self, to: u64) -> Result<(), NotChanged> {
        let handed = self.raft().trigger().transfer_leader(to).await;
        handed.map_err(|error| NotChanged(error.to_string()))
    }

    /// Waits until this master has applied the log up to an index. Returns false after the time.
    pub async fn has_applied(&self, index: u64, within: Duration) -> bool {
        let wait = self.raft().wait(Some(within));
        let applied = wait.applied_index_at_least(Some(index), "an index");
        applied.await.is_ok()
    }
}
