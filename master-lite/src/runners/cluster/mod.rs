//! The `cluster` runner: shows the masters of the cluster, and changes which belong to it.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

mod rings;
mod roots;

use super::runs;
use crate::cluster::{Change, Cluster, What};
use rings::{
    collect_from_peers, given, ring_create, ring_destroy, ring_info, ring_set, rings, route_clear,
    route_set, routes, shed_status, shed_unowned, shed_unowned_all,
};
use roots::sync_roots;

state::exec_module! {
    /// Manage the cluster that this master belongs to.
    mod cluster;

    /// Return the masters of the cluster, as this master knows them: those with a vote, the others,
    /// the leader, and those with a vote that do not answer.
    ///
    ///     salt-run cluster.members
    fn members(Members {});

    /// Return the state of the cluster's log on this master, and on the leader also how far each
    /// other master is.
    ///
    ///     salt-run cluster.status
    fn status(Status {});

    /// Let a master join that waits for it (event `salt/cluster/join/pending`). Compare its
    /// fingerprint before: `salt-key -F master` on that machine shows it.
    ///
    ///     salt-run cluster.accept 10.0.0.3
    fn accept(Accept {
        /// The name of the master: its address.
        name: String,
    });

    /// Remove a master from the cluster. It may be down. Its key is not believed any more.
    ///
    ///     salt-run cluster.remove 10.0.0.3
    fn remove(Remove {
        /// The name of the master: its address.
        name: String,
        /// True to remove it even if no majority of the others is up.
        force: bool = false,
    });

    /// Make another master the leader, for example before the present one is stopped.
    ///
    ///     salt-run cluster.transfer_leader 10.0.0.2
    fn transfer_leader(TransferLeader {
        /// The name of the master: its address.
        name: String,
    });

    /// Return the rings of masters: which masters keep the returns of jobs that are routed to the
    /// ring.
    ///
    ///     salt-run cluster.rings
    fn rings(Rings {});

    /// Return which kinds of data are routed to which ring, and how much this master has not kept
    /// since its start because others do.
    ///
    ///     salt-run cluster.routes
    fn routes(Routes {});

    /// Return the masters of a ring, or of the whole cluster.
    ///
    ///     salt-run cluster.ring_info jobs
    fn ring_info(RingInfo {
        /// The name of the ring.
        name: Option<String> = None,
    });

    /// Add a ring of masters.
    ///
    ///     salt-run cluster.ring_create name=jobs voters='["10.0.0.1", "10.0.0.2"]'
    fn ring_create(RingCreate {
        /// The name of the ring.
        name: String,
        /// The names of its masters: a list.
        voters: Value,
    });

    /// Destroy a ring that no data is routed to.
    ///
    ///     salt-run cluster.ring_destroy jobs
    fn ring_destroy(RingDestroy {
        /// The name of the ring.
        name: String,
    });

    /// Change which masters of a ring keep a row, and how many.
    ///
    ///     salt-run cluster.ring_set name=jobs members=voters replicas=2
    fn ring_set(RingSet {
        /// The name of the ring.
        name: Option<String> = None,
        /// `self` if each master of the ring keeps all rows, `voters` if they share them.
        members: Option<String> = None,
        /// The number of masters that keep each row if they share them. By default as many as survive
        /// the loss of any minority of the ring.
        replicas: Option<i64> = None,
    });

    /// Route a kind of data to a ring: its masters keep what is new from now on. What is older moves
    /// with `cluster.shed_unowned`.
    ///
    ///     salt-run cluster.route_set data_type=jobs ring=jobs
    fn route_set(RouteSet {
        /// The kind of data: `jobs` (the returns of jobs).
        data_type: String,
        /// The name of the ring.
        ring: String,
    });

    /// Let all masters keep a kind of data again. They fetch what they lack.
    ///
    ///     salt-run cluster.route_clear jobs
    fn route_clear(RouteClear {
        /// The kind of data.
        data_type: String,
    });

    /// Remove the data of returns here that other masters of a ring keep, once these have confirmed
    /// that it is on their disks.
    ///
    ///     salt-run cluster.shed_unowned ring=jobs dry_run=True
    fn shed_unowned(ShedUnowned {
        /// The name of the ring.
        ring: String,
        /// The banks of Salt's job cache, of which the returns of jobs are the last ones.
        banks: Value = Value::Null,
        /// The bank of the returns of one job.
        subbank_template: Value = "jobs/returns/{key}".into(),
        /// Ignored: a master has one store.
        driver: Value = Value::Null,
        /// True to only count.
        dry_run: bool = false,
    });

    /// The same as `cluster.shed_unowned` on all masters.
    ///
    ///     salt-run cluster.shed_unowned_all ring=jobs
    fn shed_unowned_all(ShedUnownedAll {
        /// The name of the ring.
        ring: String,
        /// The banks of Salt's job cache, of which the returns of jobs are the last ones.
        banks: Value = Value::Null,
        /// The bank of the returns of one job.
        subbank_template: Value = "jobs/returns/{key}".into(),
        /// Ignored: a master has one store.
        driver: Value = Value::Null,
        /// True to only count.
        dry_run: bool = false,
    });

    /// Return the last result of `cluster.shed_unowned` on this master.
    ///
    ///     salt-run cluster.shed_status
    fn shed_status(ShedStatus {});

    /// Fetch the data of all returns that this master lacks from the others.
    ///
    ///     salt-run cluster.collect_from_peers
    fn collect_from_peers(CollectFromPeers {
        /// `keys` or `denied_keys`, which all masters have.
        channels: Value = Value::Null,
        /// The banks of Salt's job cache.
        banks: Value = Value::Null,
    });

    /// Copy the jobs and returns in the job cache of a Salt master (`cachedir/jobs`) into the store of
    /// this master. The files stay unchanged. What was copied before counts, and is not copied again.
    ///
    ///     salt-run cluster.migrate_jobs_to_cache dry_run=True
    fn migrate_jobs_to_cache(MigrateJobsToCache {
        /// True to only count what would be copied.
        dry_run: bool = false,
    });

    /// Send the files of this master's `file_roots` and `pillar_roots` to the other masters of the
    /// cluster. Returns when all of them have answered; `peers` has the answer of each.
    ///
    ///     salt-run cluster.sync_roots
    fn sync_roots(SyncRoots {
        /// The files to send: `file`, `pillar` or `both`.
        roots: Value = "both".into(),
        /// True to remove files from the other masters that this one does not have.
        delete: bool = false,
    });
}

/// Returns the answer of a master that belongs to no cluster.
fn skipped() -> Value {
    Map::new()
        .with("status", "skipped")
        .with(
            "reason",
            "no cluster_id configured; this master is not a cluster member",
        )
        .into()
}

fn with_cluster(
    cx: &Exec,
    act: impl FnOnce(&Cluster) -> Result<Value, String>,
) -> Result<Value, Error> {
    match &runs(cx)?.cluster {
        Some(cluster) => act(cluster).map_err(Error::refused),
        None => Ok(skipped()),
    }
}

fn members(cx: &Exec, _args: Members) -> Result<Value, Error> {
    with_cluster(cx, |cluster| Ok(cluster.members().into()))
}

fn status(cx: &Exec, _args: Status) -> Result<Value, Error> {
    with_cluster(cx, |cluster| Ok(cluster.report().into()))
}

fn change(cx: &Exec, what: What, name: String, force: bool) -> Result<Value, Error> {
    given(what.word(), "name", &name)?;
    let change = Change { what, name, force };
    with_cluster(cx, |cluster| smol::block_on(cluster.change_members(change)))
}

fn accept(cx: &Exec, args: Accept) -> Result<Value, Error> {
    change(cx, What::Accept, args.name, false)
}

fn remove(cx: &Exec, args: Remove) -> Result<Value, Error> {
    change(cx, What::Remove, args.name, args.force)
}

fn transfer_leader(cx: &Exec, args: TransferLeader) -> Result<Value, Error> {
    change(cx, What::TransferLeader, args.name, false)
}

fn migrate_jobs_to_cache(cx: &Exec, args: MigrateJobsToCache) -> Result<Value, Error> {
    super::migrate_jobs::migrate(runs(cx)?, args.dry_run)
}
