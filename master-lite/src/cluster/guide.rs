//! Guides minions to the masters: each minion gets the list of all masters, and leaves one that has lost
//! its majority.

use std::collections::BTreeMap;

use cluster::core::Member;
use cluster::raft::Status;
use link::PublicKey;
use value::{Map, log};
use wire::Masters;

use super::Cluster;
use crate::jobs::minions::Connected;

/// Returns the masters for minions: those with a vote, and the others once there is no room for more
/// votes. Before that, they are catching up.
///
/// The number of the list grows with the log, and with the time at which the cluster was founded: the
/// lists of a cluster that was restored from a backup replace those of the lost one.
pub(super) fn masters(status: &Status, voters_max: usize, founded_us: u64) -> Masters {
    let is_full = status.voters.len() >= voters_max;
    let serving = status.agreed.iter();
    let serving = serving.filter(|(number, _)| is_full || status.voters.contains(number));
    // A master that has joined again with a new disk replaces itself.
    let by_name: BTreeMap<&str, &Member> = serving
        .map(|(_, member)| (member.name.as_str(), member))
        .collect();
    let masters = by_name.into_values().filter_map(|member| {
        let key = member.key.as_slice().try_into().ok()?;
        let master = Map::new()
            .with("name", member.name.as_str())
            .with("address", member.minions.as_str())
            .with("finger", PublicKey::from_bytes(key).finger());
        Some(master.into())
    });
    Masters {
        index: founded_us.saturating_add(status.agreed_at),
        masters: masters.collect(),
    }
}

/// The guidance that the minions here have got.
#[derive(Default)]
pub(super) struct Guided {
    /// The entry of the log with the masters that they know.
    agreed_at: u64,
    /// True if they were sent to other masters.
    is_sent_away: bool,
}

impl Cluster {
    /// Sends the minions here a new list of masters, and to other masters when this one has lost its
    /// majority. Does not wait for them.
    pub(super) fn guide_minions(&self, status: &Status, guided: &mut Guided) {
        if status.agreed_at != guided.agreed_at {
            guided.agreed_at = status.agreed_at;
            let cluster = self.clone();
            smol::spawn(async move { cluster.introduce_all().await }).detach();
        }
        // An election that takes longer on a busy machine sends no minion away.
        let is_cut_off = self
            .0
            .contact
            .silence()
            .is_none_or(|silence| silence > 2 * self.0.contact.most);
        if is_cut_off && !guided.is_sent_away {
            log::warning(
                "This master has lost the majority of its cluster: its minions connect to others",
            );
            let cluster = self.clone();
            smol::spawn(async move { cluster.send_away().await }).detach();
        }
        guided.is_sent_away = is_cut_off;
    }

    async fn introduce_all(&self) {
        for id in self.0.minions.here().into_keys() {
            let minion = self.0.minions.get_here(&id);
            if let Some(handle) = minion.as_ref().and_then(Connected::here) {
                self.introduce(handle).await;
            }
        }
    }

    async fn send_away(&self) {
        for id in self.0.minions.here().into_keys() {
            let minion = self.0.minions.get_here(&id);
            let Some(handle) = minion.as_ref().and_then(Connected::here) else {
                continue;
            };
            if let Err(error) = handle.bye(wire::NO_MAJORITY, None).await {
                log::debug(format_args!("{error}"));
            }
            handle.close(wire::NO_MAJORITY);
        }
    }
}
