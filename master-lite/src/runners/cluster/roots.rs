//! `cluster.sync_roots`, with Salt's answer and event.

use state::exec::Exec;
use state::module::Error;
use value::python::repr;
use value::{Map, Value};

use super::super::runs;
use super::{SyncRoots, skipped};
use crate::cluster::Channel;

/// The note of the answer. Salt's one says that the sync is under way.
const NOTE: &str = "The sync has ended: `peers` has the answer of each master. Each master's log has the 'state-sync ... installed N items' lines.";

pub(super) fn sync_roots(cx: &Exec, args: SyncRoots) -> Result<Value, Error> {
    let channels = match args.roots.as_str() {
        Some("file") => vec![Channel::FileRoots],
        Some("pillar") => vec![Channel::PillarRoots],
        Some("both") => vec![Channel::FileRoots, Channel::PillarRoots],
        _ => {
            let roots = repr(&args.roots);
            return Err(Error::refused(format!(
                "roots must be 'file', 'pillar', or 'both', got {roots}"
            )));
        }
    };
    let runs = runs(cx)?;
    let Some(cluster) = &runs.cluster else {
        return Ok(skipped());
    };
    if let Some(why) = cluster.minority() {
        return Err(Error::refused(why));
    }
    let names = Value::list(channels.iter().map(|channel| channel.option().into()));
    let data = Map::new().with("channels", names.clone());
    (runs.events).fire_for_module("cluster/runner/sync_roots", data)?;
    let peers = smol::block_on(cluster.sync_roots(channels, args.delete));
    let peers = peers.map_err(Error::refused)?;
    if peers.values().any(|peer| peer.get("error").is_some()) {
        cx.set_retcode(1);
    }
    Ok(Map::new()
        .with("status", "fan-out initiated")
        .with("channels", names)
        .with("cluster_id", cluster.id())
        .with("note", NOTE)
        .with("peers", peers)
        .into())
}
