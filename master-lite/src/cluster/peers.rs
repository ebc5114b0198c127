//! The members of `cluster_peers` that are of another cluster: two clusters that were founded by
//! mistake, or masters whose `cluster_id` differs. Nothing joins them, so a warning names them.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::raft::pool::address;
use link::PublicKey;
use link::wait::pause;
use value::{jid, log};

use super::Cluster;
use super::join::{Answer, Join};
use super::requests::JOIN;

/// The interval between two looks at the peers.
const EVERY: Duration = Duration::from_secs(10);

impl Cluster {
    /// Asks the masters of `cluster_peers` that are no members whether they are of another cluster, for
    /// as long as this one runs.
    pub(super) async fn find_other_clusters(self) {
        let mut known = BTreeMap::new();
        loop {
            for peer in &self.0.settings.peers {
                let why = self.other_cluster(peer).await;
                let before = known.insert(peer, why.clone());
                if let Some(why) = why.filter(|why| before.flatten().as_ref() != Some(why)) {
                    log::warning(format_args!(
                        "The master {peer} in `cluster_peers` is none of this cluster: {why}"
                    ));
                }
            }
            pause(EVERY).await;
        }
    }

    /// Returns why a peer is of another cluster. One that does not answer, or waits to join, is not.
    async fn other_cluster(&self, peer: &str) -> Option<String> {
        let address = address(peer).await.ok()?;
        let members = self.status().members;
        let is_member = |member: &cluster::core::Member| member.address == address.to_string();
        if members.values().any(is_member) {
            return None;
        }
        let join = Join::of_member(&self.0.settings, self.0.node.founded_us).encode();
        let request = [&[JOIN], join.as_slice()].concat();
        let asked = self.0.pool.ask_unknown(address, &[], |_| request).await;
        match Answer::decode(&asked.ok()?.0.bytes)?.0 {
            Answer::Refused(why) => Some(why),
            _ => None,
        }
    }

    /// Returns the answer to a member of a cluster of the same name, which lists this master.
    pub(super) fn answer_member(&self, join: &Join, key: &PublicKey) -> Answer {
        let (own, name) = (self.0.node.founded_us, &self.0.settings.name);
        let founded_us = join.founded_us.unwrap_or_default();
        if founded_us == own && self.number_of(key).is_ok() {
            // It lists this master by another address.
            return Answer::Wait(format!("{} is a member", join.name));
        }
        if founded_us == own {
            return Answer::Refused(format!(
                "{} is no member of the cluster {} any more: move its folders `store` and `cluster` away to join again",
                join.name, join.cluster
            ));
        }
        Answer::Refused(format!(
            "{name} and {} belong to two clusters of the name {}, founded at {} and {}: choose one, and move the folders `store`, `cluster` and of keys (`minions`, …) of all masters of the other one away, so that they join it",
            join.name,
            join.cluster,
            jid::stamp_of(own),
            jid::stamp_of(founded_us)
        ))
    }
}
