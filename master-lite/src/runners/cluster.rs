//! The `cluster` runner: shows the masters of the cluster, and changes which belong to it.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::runs;
use crate::cluster::{Change, Cluster, What};

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
