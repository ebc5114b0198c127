//! The heartbeats of a leader.
//!
//! openraft can send them, and wakes up five times for each of them, on each master, because it also
//! looks whether it is time for an election. An election needs no such precision. So openraft gets a
//! longer interval, and only the leader wakes up for heartbeats.

use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::{Raft, ServerState};

use super::machine::{Applier, Machine};
use super::types::Types;
use super::{InstantOf, Runtime};

/// Returns the interval between two heartbeats: a third of the shortest time without a leader before
/// an election, in milliseconds.
pub(super) fn every(election_min: u64) -> Duration {
    Duration::from_millis((election_min / 3).max(1))
}

/// Returns the interval that openraft gets, in milliseconds. It looks five times in it whether it is
/// time for an election, and waits that long for the answer to entries and heartbeats.
pub(super) fn interval_of_openraft(election_min: u64) -> u64 {
    (election_min * 5 / 6).max(1)
}

/// Sends heartbeats while this master leads, until the group ends.
pub(super) async fn send<R: Runtime, M: Machine>(
    raft: Raft<Types<R>, Applier<M, InstantOf<R>>>,
    every: Duration,
) {
    raft.runtime_config().heartbeat(false);
    let mut state = raft.server_metrics();
    loop {
        let leads = state.borrow_watched().state == ServerState::Leader;
        let runs = match leads {
            true => {
                let sent = raft.trigger().heartbeat().await;
                R::sleep(every).await;
                sent.is_ok()
            }
            // No deadline: a master may never lead.
            false => state.changed().await.is_ok(),
        };
        if !runs {
            return;
        }
    }
}
