//! The state of the cluster as the runner `cluster` shows it.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::raft::Status;
use value::{Map, Value};

use super::Cluster;

/// Returns the names of masters, sorted.
fn names(status: &Status, numbers: impl Iterator<Item = u64>) -> Value {
    let mut names: Vec<String> = numbers.map(|number| name(status, number)).collect();
    names.sort();
    Value::list(names.into_iter().map(Value::from))
}

fn name(status: &Status, number: u64) -> String {
    let member = status.members.get(&number);
    member.map_or_else(|| number.to_string(), |member| member.name.clone())
}

fn seconds(time: Option<Duration>) -> Value {
    let seconds = time.map(|time| (time.as_secs_f64() * 1000.0).round() / 1000.0);
    seconds.map_or(Value::Null, Value::from)
}

impl Cluster {
    /// Returns the name of the leader. A master in a minority knows none, even if it was one.
    fn known_leader(&self, status: &Status) -> Option<String> {
        let leader = status.leader.filter(|_| self.minority().is_none());
        leader.map(|leader| name(status, leader))
    }

    /// Returns the members, with the keys of Salt's `cluster.members`.
    pub(crate) fn members(&self) -> Map {
        let status = self.status();
        let all: BTreeSet<u64> = status.members.keys().copied().collect();
        let learners = all.difference(&status.voters).copied();
        let alive = self.0.others.alive();
        let is_silent = |voter: &u64| *voter != status.node && !alive.contains(voter);
        let unhealthy = status.voters.iter().copied().filter(is_silent);
        let leader = self.known_leader(&status);
        let mut members = Map::new()
            .with("node_id", self.0.settings.name.as_str())
            .with("voters", names(&status, status.voters.iter().copied()))
            .with("learners", names(&status, learners.clone()))
            .with("membership_version", status.members_at)
            .with("voter_count", status.voters.len())
            .with("learner_count", learners.count())
            .with("leader_id", leader.map_or(Value::Null, Value::from))
            .with("term", status.term)
            .with("unhealthy_voters", names(&status, unhealthy))
            .with("recently_demoted", Value::list([]));
        let differences = self.differences();
        if !differences.is_empty() {
            members.insert("differs", differences);
        }
        members
    }

    /// Returns the state of the log.
    pub(crate) fn report(&self) -> Map {
        let status = self.status();
        let alive = self.0.others.alive();
        let mut members: Vec<_> = status.members.iter().collect();
        members.sort_by_key(|(_, member)| &member.name);
        let masters = members.into_iter().map(|(number, member)| {
            let is_own = *number == status.node;
            let mut row = Map::new()
                .with("number", *number)
                .with("address", member.address.as_str())
                .with("minions", member.minions.as_str())
                .with("votes", status.voters.contains(number))
                .with("up", is_own || alive.contains(number));
            if let Some(follower) = status.followers.get(number) {
                row.insert("behind", status.last.saturating_sub(follower.matched));
                row.insert("silent_seconds", seconds(follower.silent));
            }
            (Value::from(member.name.as_str()), Value::Map(row))
        });
        let leader = self.known_leader(&status);
        let silence = self.0.contact.silence();
        let minority = self.minority().map_or(Value::Null, Value::from);
        Map::new()
            .with("cluster_id", self.0.settings.cluster.as_str())
            .with("node_id", self.0.settings.name.as_str())
            .with("number", self.0.node.number)
            .with("leader_id", leader.map_or(Value::Null, Value::from))
            .with("term", status.term)
            .with("last_index", status.last)
            .with("applied_index", status.applied)
            .with("snapshot_index", status.snapshot)
            .with("contact_seconds", seconds(silence))
            .with("minority", minority)
            .with("masters", masters.collect::<Map>())
    }
}
