//! Rings: groups of masters that keep the returns of jobs for all. All masters of a cluster know all
//! jobs and which minions have returned; where `jobs` is routed to a ring, only the ring's masters
//! keep the data of the returns, and the others read it from them.
//!
//! The rings and routes are rows of the store, which commands change. What a master keeps follows from
//! them and the members ([`View`]). A master removes data only after all owners have confirmed that
//! they have it on their disks ([`shed`]), and restores data that it should have from those that have
//! it ([`fetch`]). Both are changes of this master alone.

mod ask;
mod fetch;
mod shed;

use std::collections::BTreeSet;
use std::sync::Mutex;

use cluster::core::{Keep, POSITIONS, Placement, Ring, Rings};
use value::{Map, Value};

use super::members::no_master;
use super::{Cluster, lock};
use crate::store::{Command, now_ms};

pub(super) use ask::Rows;
pub(crate) use shed::{Source, status};

/// The kind of data that can be routed to a ring.
const JOBS: &str = "jobs";

/// The state of the rings on this master.
#[derive(Default)]
pub(super) struct State {
    /// Locked while data is removed, and while other masters are answered whether data is here.
    removing: smol::lock::Mutex<()>,
    drops: Mutex<Drops>,
}

/// The number of returns whose data was removed here since the start, because this master is in
/// another ring, and because other masters of its ring keep them.
#[derive(Clone, Copy, Debug, Default)]
struct Drops {
    not_a_member: u64,
    other_ring_member: u64,
}

/// The rings and members by which a master decides what it keeps. Two masters with the same view
/// decide alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Version {
    rings: u64,
    routes: u64,
    members: u64,
}

/// The masters that keep the returns of jobs, as this master sees them.
struct View {
    version: Version,
    /// The ring of jobs, the time since when, and the placement of jobs on its masters.
    routed: Option<(String, Ring, u64, Placement)>,
}

impl View {
    /// Returns the masters that keep the returns of a job; `None` if all do.
    fn owners(&self, jid: &str) -> Option<Vec<&str>> {
        let (_, _, _, placement) = self.routed.as_ref()?;
        let owners = placement.owners(jid);
        // Without any master of the ring, nothing may be removed.
        (!owners.is_empty()).then_some(owners)
    }

    /// Returns whether a master keeps the returns of a job.
    fn keeps(&self, master: &str, jid: &str) -> bool {
        self.owners(jid)
            .is_none_or(|owners| owners.contains(&master))
    }
}

fn list<'a>(names: impl IntoIterator<Item = &'a String>) -> Value {
    Value::list(names.into_iter().map(|name| Value::from(name.as_str())))
}

impl Cluster {
    fn view(&self) -> Result<View, String> {
        let rings = self.0.store.rings().map_err(|error| error.to_string())?;
        let status = self.status();
        let names: BTreeSet<&str> = status.members.values().map(|of| of.name.as_str()).collect();
        let routed = rings.routed(JOBS).map(|(name, ring, since_ms)| {
            let placement = ring.placement(|master| names.contains(master));
            (name.to_owned(), ring.clone(), since_ms, placement)
        });
        Ok(View {
            version: Version {
                rings: rings.ring_changes,
                routes: rings.route_changes,
                members: status.members_at,
            },
            routed,
        })
    }

    fn stored_rings(&self) -> Result<Rings, String> {
        self.0.store.rings().map_err(|error| error.to_string())
    }

    /// Returns an active ring that has a master of this name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(in crate::cluster) fn ring_of(&self, master: &str) -> Result<Option<String>, String> {
        let rings = self.stored_rings()?.rings.into_iter();
        let mut of = rings.filter(|(_, ring)| ring.is_active && ring.voters.contains(master));
        Ok(of.next().map(|(name, _)| name))
    }

    /// Returns the rings, with the keys of Salt's `cluster.rings`.
    pub(crate) fn rings(&self) -> Result<Map, String> {
        let rings = self.stored_rings()?;
        let all = rings.rings.iter().map(|(name, ring)| {
            let status = match ring.is_active {
                true => "active",
                false => "destroyed",
            };
            let row = Map::new()
                .with("founding_voters", list(&ring.voters))
                .with("status", status)
                .with("members", ring.keep.word())
                .with("replicas", ring.replicas());
            (Value::from(name.as_str()), Value::Map(row))
        });
        let active = rings.active_names().map(Value::from);
        Ok(Map::new()
            .with("node_id", self.0.settings.name.as_str())
            .with("rings", all.collect::<Map>())
            .with("active_rings", Value::list(active))
            .with("registry_version", version(rings.ring_changes)))
    }

    /// Returns the routes, with the keys of Salt's `cluster.routes`.
    pub(crate) fn routes(&self) -> Result<Map, String> {
        let rings = self.stored_rings()?;
        let routes = rings.routes.iter().map(|(data_type, route)| {
            let ring = route.ring.as_deref().map_or(Value::Null, Value::from);
            (Value::from(data_type.as_str()), ring)
        });
        let mut stats = Map::new();
        let drops = *lock(&self.0.rings.drops);
        if let Some((ring, ..)) = rings.routed(JOBS) {
            let row = Map::new()
                .with("ring_id", ring)
                .with("not_a_member", drops.not_a_member)
                .with("other_ring_member", drops.other_ring_member);
            stats.insert(JOBS, row);
        }
        Ok(Map::new()
            .with("node_id", self.0.settings.name.as_str())
            .with("routes", routes.collect::<Map>())
            .with("routing_version", version(rings.route_changes))
            .with("drop_stats", stats))
    }

    /// Returns the masters of a ring, or all masters, with the keys of Salt's `cluster.ring_info`.
    pub(crate) fn ring_info(&self, name: Option<&str>) -> Result<Map, String> {
        let members = self.status().members;
        let mut nodes: BTreeSet<String> = members.values().map(|of| of.name.clone()).collect();
        if let Some(name) = name {
            let rings = self.stored_rings()?;
            let voters = &rings.active(name)?.voters;
            // A master that was removed from the cluster keeps nothing.
            nodes.retain(|node| voters.contains(node));
        }
        Ok(Map::new()
            .with("is_clustered", true)
            .with("node_count", nodes.len())
            .with("nodes", list(&nodes))
            .with("vnodes", POSITIONS))
    }

    /// Adds a ring of masters.
    ///
    /// # Errors
    /// When a voter is no member, or the ring cannot be added.
    pub(crate) async fn create_ring(&self, name: &str, voters: Vec<String>) -> Result<(), String> {
        let status = self.status();
        let is_member = |name: &String| status.members.values().any(|of| of.name == *name);
        if let Some(stranger) = voters.iter().find(|voter| !is_member(voter)) {
            return Err(no_master(&status, stranger));
        }
        let name = name.to_owned();
        self.0
            .store
            .apply_all(vec![Command::RingCreated { name, voters }])
            .await
    }

    /// Destroys a ring.
    ///
    /// # Errors
    /// When there is none of this name, or it is in use.
    pub(crate) async fn destroy_ring(&self, name: &str) -> Result<(), String> {
        let name = name.to_owned();
        self.0
            .store
            .apply_all(vec![Command::RingDestroyed { name }])
            .await
    }

    /// Changes the given properties of a ring. Returns a warning if the loss of one master can lose data.
    ///
    /// # Errors
    /// When there is none of this name, or a value cannot be used.
    pub(crate) async fn set_ring(
        &self,
        name: &str,
        keep: Option<Keep>,
        replicas: Option<u64>,
    ) -> Result<Option<String>, String> {
        let command = Command::RingSet {
            name: name.to_owned(),
            keep,
            replicas,
        };
        self.0.store.apply_all(vec![command]).await?;
        let rings = self.stored_rings()?;
        let ring = rings.active(name)?;
        let (all, replicas) = (ring.voters.len() as u64, ring.replicas());
        let safe = all / 2 + 1;
        Ok((replicas < safe).then(|| {
            format!(
                "With replicas={replicas} data is lost when {replicas} of the {all} masters are lost; with replicas={safe} no minority of them loses any"
            )
        }))
    }

    /// Routes a kind of data to a ring, or to all masters.
    ///
    /// # Errors
    /// When the kind cannot be routed, or there is no such ring.
    pub(crate) async fn set_route(
        &self,
        data_type: &str,
        ring: Option<String>,
    ) -> Result<(), String> {
        let data_type = data_type.to_owned();
        let command = Command::RouteSet {
            data_type,
            ring,
            at_ms: now_ms(),
        };
        self.0.store.apply_all(vec![command]).await
    }

    /// Returns an error if the removal of masters would lose data of a ring.
    pub(super) fn is_not_sole_owner(&self, names: &BTreeSet<&str>) -> Result<(), String> {
        let view = self.view()?;
        let Some((ring, of, ..)) = &view.routed else {
            return Ok(());
        };
        match of.replicas() == 1 && of.voters.iter().any(|voter| names.contains(voter.as_str())) {
            true => Err(format!(
                "It alone keeps a part of the returns of jobs (ring {ring}, 1 replica): set more replicas first (`salt-run cluster.ring_set {ring} replicas=2`) and wait until `salt-run cluster.shed_unowned {ring} dry_run=True` on it keeps none, or add force=True"
            )),
            false => Ok(()),
        }
    }
}

/// Returns a number of changes as Salt shows it: -1 if there was none.
fn version(changes: u64) -> Value {
    match changes {
        0 => (-1).into(),
        changes => changes.into(),
    }
}
