//! The functions of the runner `cluster` about rings, with Salt's answers and events.

use ::cluster::core::Keep;
use state::exec::Exec;
use state::module::Error;
use value::python::repr;
use value::{Map, Value};

use super::super::runs;
use super::{
    CollectFromPeers, RingCreate, RingDestroy, RingInfo, RingSet, Rings, RouteClear, RouteSet,
    Routes, ShedStatus, ShedUnowned, ShedUnownedAll, skipped, with_cluster,
};
use crate::cluster::{self, Cluster, Source};

/// The banks of Salt's job cache.
const BANKS: [&str; 4] = [
    "jobs/loads",
    "jobs/minions",
    "jobs/endtimes",
    "jobs/nocache",
];
/// The kinds of keys that Salt collects apart from banks. All masters have them.
const CHANNELS: [&str; 2] = ["keys", "denied_keys"];

/// Returns an error unless an argument has a value, in Salt's words.
pub(super) fn given(function: &str, what: &str, value: &str) -> Result<(), Error> {
    match value.is_empty() {
        true => Err(Error::refused(format!(
            "cluster.{function} requires a non-empty '{what}'"
        ))),
        false => Ok(()),
    }
}

/// Returns a list of names: a list, or a text with commas.
fn names(value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::List(names) => names.iter().map(Value::to_text).collect(),
        name => {
            let text = name.to_text();
            let names = text
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        }
    }
}

/// Returns the banks of a call, by default all.
fn banks(function: &str, value: &Value) -> Result<Vec<String>, Error> {
    if value.is_null() {
        return Ok(BANKS.map(str::to_owned).into());
    }
    let banks = names(value);
    match banks.iter().find(|bank| !BANKS.contains(&bank.as_str())) {
        Some(bank) => Err(Error::refused(format!(
            "cluster.{function}: {bank:?} is not a bank of jobs (only {})",
            BANKS.join(", ")
        ))),
        None => Ok(banks),
    }
}

/// Makes a change, fires Salt's event about it, and returns Salt's answer. The change is agreed on by
/// then.
fn changed(
    cx: &Exec,
    function: &str,
    data: Map,
    change: impl AsyncFnOnce(&Cluster) -> Result<Map, String>,
) -> Result<Value, Error> {
    let Some(cluster) = &runs(cx)?.cluster else {
        return Ok(skipped());
    };
    if let Some(why) = cluster.minority() {
        return Err(Error::refused(why));
    }
    let more = smol::block_on(change(cluster)).map_err(Error::refused)?;
    let mut answer = fired(cx, function, data)?;
    answer.update(more);
    Ok(answer.into())
}

fn fired(cx: &Exec, function: &str, data: Map) -> Result<Map, Error> {
    let tag = format!("cluster/runner/{function}");
    runs(cx)?.events.fire_for_module(&tag, data.clone())?;
    Ok(Map::new()
        .with("status", "fan-out initiated")
        .with("tag", tag)
        .with("data", data))
}

pub(super) fn rings(cx: &Exec, _args: Rings) -> Result<Value, Error> {
    with_cluster(cx, |cluster| cluster.rings().map(Value::Map))
}

pub(super) fn routes(cx: &Exec, _args: Routes) -> Result<Value, Error> {
    with_cluster(cx, |cluster| cluster.routes().map(Value::Map))
}

pub(super) fn ring_info(cx: &Exec, args: RingInfo) -> Result<Value, Error> {
    if let Some(name) = &args.name {
        given("ring_info", "name", name)?;
    }
    with_cluster(cx, |cluster| {
        cluster.ring_info(args.name.as_deref()).map(Value::Map)
    })
}

pub(super) fn ring_create(cx: &Exec, args: RingCreate) -> Result<Value, Error> {
    given("ring_create", "name", &args.name)?;
    let voters = names(&args.voters);
    if voters.is_empty() {
        return Err(Error::refused(
            "cluster.ring_create requires a non-empty 'voters' list".to_owned(),
        ));
    }
    let data = Map::new().with("ring_id", args.name.as_str()).with(
        "founding_voters",
        Value::list(voters.iter().map(Value::from)),
    );
    changed(cx, "ring_create", data, async |cluster| {
        cluster.create_ring(&args.name, voters).await?;
        Ok(Map::new())
    })
}

pub(super) fn ring_destroy(cx: &Exec, args: RingDestroy) -> Result<Value, Error> {
    given("ring_destroy", "name", &args.name)?;
    let data = Map::new().with("ring_id", args.name.as_str());
    changed(cx, "ring_destroy", data, async |cluster| {
        cluster.destroy_ring(&args.name).await?;
        Ok(Map::new())
    })
}

pub(super) fn ring_set(cx: &Exec, args: RingSet) -> Result<Value, Error> {
    let name = args.name.unwrap_or_default();
    given("ring_set", "name", &name)?;
    let mut data = Map::new().with("ring_id", name.as_str());
    let mut keep = None;
    if let Some(members) = args.members {
        keep = Some(Keep::from_word(&members).ok_or_else(|| {
            Error::refused(format!(
                "cluster.ring_set: 'members' must be 'self' or 'voters', not {}",
                repr(&members.as_str().into())
            ))
        })?);
        data.insert("members", members);
    }
    let mut replicas = None;
    if let Some(all) = args.replicas {
        data.insert("replicas", all);
        let count = u64::try_from(all).ok().filter(|count| *count > 0);
        replicas = Some(count.ok_or_else(|| {
            Error::refused(format!(
                "cluster.ring_set: 'replicas' must be 1 or more, not {all}"
            ))
        })?);
    }
    changed(cx, "ring_set", data, async |cluster| {
        let warning = cluster.set_ring(&name, keep, replicas).await?;
        let warning = warning.map(|warning| Map::new().with("warning", warning));
        Ok(warning.unwrap_or_default())
    })
}

pub(super) fn route_set(cx: &Exec, args: RouteSet) -> Result<Value, Error> {
    given("route_set", "data_type", &args.data_type)?;
    given("route_set", "ring", &args.ring)?;
    let data = Map::new()
        .with("data_type", args.data_type.as_str())
        .with("ring_id", args.ring.as_str());
    changed(cx, "route_set", data, async |cluster| {
        cluster.set_route(&args.data_type, Some(args.ring)).await?;
        Ok(Map::new())
    })
}

pub(super) fn route_clear(cx: &Exec, args: RouteClear) -> Result<Value, Error> {
    given("route_clear", "data_type", &args.data_type)?;
    let data = Map::new().with("data_type", args.data_type.as_str());
    changed(cx, "route_clear", data, async |cluster| {
        cluster.set_route(&args.data_type, None).await?;
        Ok(Map::new())
    })
}

pub(super) fn shed_unowned(cx: &Exec, args: ShedUnowned) -> Result<Value, Error> {
    given("shed_unowned", "ring", &args.ring)?;
    if banks("shed_unowned", &args.banks)?.is_empty() {
        return Err(Error::refused(
            "cluster.shed_unowned requires at least one bank".to_owned(),
        ));
    }
    with_cluster(cx, |cluster| {
        let shed = cluster.shed(&args.ring, args.dry_run, Source::Runner);
        smol::block_on(shed).map(Value::Map)
    })
}

pub(super) fn shed_unowned_all(cx: &Exec, args: ShedUnownedAll) -> Result<Value, Error> {
    given("shed_unowned_all", "ring", &args.ring)?;
    let all = banks("shed_unowned_all", &args.banks)?;
    let data = Map::new()
        .with("ring_id", args.ring.as_str())
        .with("banks", Value::list(all.iter().map(Value::from)))
        .with("subbank_template", args.subbank_template.clone())
        .with("driver", args.driver.clone())
        .with("dry_run", args.dry_run);
    if let Some(cluster) = &runs(cx)?.cluster
        && let Some(why) = cluster.minority()
    {
        return Err(Error::refused(why));
    }
    let local = shed_unowned(
        cx,
        ShedUnowned {
            ring: args.ring.clone(),
            banks: args.banks,
            subbank_template: args.subbank_template,
            driver: args.driver,
            dry_run: args.dry_run,
        },
    )?;
    let Some(cluster) = &runs(cx)?.cluster else {
        return Ok(skipped());
    };
    let peers = smol::block_on(cluster.shed_elsewhere(&args.ring, args.dry_run));
    if peers.values().any(|peer| peer.get("error").is_some()) {
        cx.set_retcode(1);
    }
    Ok(Map::new()
        .with("fan_out", fired(cx, "shed_unowned_all", data)?)
        .with("local", local)
        .with("peers", peers)
        .into())
}

pub(super) fn shed_status(cx: &Exec, _args: ShedStatus) -> Result<Value, Error> {
    let cachedir = runs(cx)?.opts.cachedir();
    cluster::shed_status(&cachedir).map_err(Error::refused)
}

pub(super) fn collect_from_peers(cx: &Exec, args: CollectFromPeers) -> Result<Value, Error> {
    let channels = names(&args.channels);
    let unknown = |channel: &&String| !CHANNELS.contains(&channel.as_str());
    let unknown: Vec<Value> = channels.iter().filter(unknown).map(Value::from).collect();
    if !unknown.is_empty() {
        let unknown = repr(&Value::list(unknown));
        return Err(Error::refused(format!(
            "cluster.collect_from_peers: unsupported fixed channels {unknown} (only 'keys' and 'denied_keys' are recognised; arbitrary cache banks go through the 'banks' parameter)"
        )));
    }
    let banks = banks("collect_from_peers", &args.banks)?;
    if channels.is_empty() && banks.is_empty() {
        return Err(Error::refused(
            "cluster.collect_from_peers requires at least one channel or bank".to_owned(),
        ));
    }
    let of_banks = banks.iter().map(|bank| Value::from(format!("bank:{bank}")));
    let all = channels.iter().map(Value::from).chain(of_banks);
    let data = Map::new().with("channels", Value::list(all));
    changed(cx, "collect_from_peers", data, async |cluster| {
        let jobs = match banks.is_empty() {
            true => 0,
            false => cluster.collect().await?,
        };
        Ok(Map::new().with("jobs", jobs))
    })
}
