//! The `postgres_cluster` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use crate::exec::postgres::cell;
use crate::exec::postgres::cluster::{ClusterCreate, clusters, create, remove};

state::state_module! {
    /// Manage clusters of PostgreSQL, as Debian organizes them.
    #[module(virtual_ = super::cluster_missing)]
    mod postgres_cluster;

    /// Make sure that a cluster exists.
    ///
    ///     main:
    ///       postgres_cluster.present:
    ///         - version: '15'
    fn present(Present {
        /// The version of the server.
        version: String,
        /// The name of the cluster.
        name: String,
        /// The port.
        port: Option<String> = None,
        /// The encoding.
        encoding: Option<String> = None,
        /// The locale.
        locale: Option<String> = None,
        /// The folder for the data.
        datadir: Option<String> = None,
        /// True if the group of the folder may read it.
        allow_group_access: Option<bool> = None,
        /// True to use checksums for data pages.
        data_checksums: Option<bool> = None,
        /// The size of a segment of the write-ahead log in megabytes.
        wal_segsize: Option<String> = None,
    });

    /// Make sure that a cluster does not exist.
    ///
    ///     main:
    ///       postgres_cluster.absent:
    ///         - version: '15'
    fn absent(Absent {
        /// The version of the server.
        version: String,
        /// The name of the cluster.
        name: String,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let id = format!("{}/{}", args.version, args.name);
    if let Some(is) = clusters(cx)?.get(&id).and_then(Value::as_map) {
        let differs = |key: &str, wanted: &Option<String>| {
            let wanted = wanted.as_ref().filter(|wanted| !wanted.is_empty());
            wanted.is_some_and(|wanted| cell(is, key) != *wanted)
        };
        return Ok(
            match differs("port", &args.port) || differs("datadir", &args.datadir) {
                true => Ret::failed(format!(
                    "Cluster {id} has wrong parameters which couldn't be changed on fly."
                )),
                false => Ret::ok(format!("Cluster {id} is already present")),
            },
        );
    }
    let asked = ClusterCreate {
        version: args.version,
        name: args.name,
        port: args.port,
        locale: args.locale,
        encoding: args.encoding,
        datadir: args.datadir,
        allow_group_access: args.allow_group_access,
        data_checksums: args.data_checksums,
        wal_segsize: args.wal_segsize,
    };
    let would = Ret::would(format!("Cluster {id} is set to be created"));
    cx.apply(would, || {
        Ok(match create(cx, &asked)?.success() {
            true => Ret::ok(format!("The cluster {id} has been created")).change(&id, "Present"),
            false => Ret::failed(format!("Failed to create cluster {id}")),
        })
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (version, name) = (args.version, args.name);
    let id = format!("{version}/{name}");
    if !clusters(cx)?.contains(&id) {
        return Ok(Ret::ok(format!(
            "Cluster {id} is not present, so it cannot be removed"
        )));
    }
    let would = Ret::would(format!("Cluster {id} is set to be removed"));
    cx.apply(would, || {
        Ok(match remove(cx, &version, &name, true)?.success() {
            true => Ret::ok(format!("Cluster {id} has been removed")).change(&name, "Absent"),
            false => Ret::failed(format!("Cluster {id} failed to be removed")),
        })
    })
}
