//! The requests that concern other minions or the master itself: the mine, jobs of peers, runners.

use std::time::{Duration, Instant};

use link::wait::{pause, seconds};
use value::{Map, Value};
use wire::{MineGet, Publish, Runner};

use super::files::Parts;
use super::{Error, Inner};

/// The time that a job of peers has if the request names none, and the longest one.
const TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);
/// The interval of requests for returns.
const LOOK: Duration = Duration::from_millis(300);

/// Answers `mine_get`: values by function and minion.
pub(super) async fn mine_get(inner: &Inner, asked: MineGet) -> Result<Value, Error> {
    let funs = asked.fun.iter().map(|fun| fun.as_str().into());
    let load = Map::new()
        .with("tgt", asked.tgt)
        .with("tgt_type", asked.tgt_type)
        // A list makes the master answer by function also for a single one.
        .with("fun", Value::list(funs));
    let Value::Map(mut found) = inner.session.request("_mine_get", load).await? else {
        let text = "the Salt master sent mine data that is not a dictionary";
        return Err(Error::new("invalid", text));
    };
    if asked.exclude_minion {
        for (_, by_id) in found.iter_mut() {
            if let Some(by_id) = by_id.as_map_mut() {
                by_id.remove(&inner.id);
            }
        }
    }
    Ok(found.into())
}

/// Answers `publish`: sends the returns in parts, until all minions that match have returned or the
/// time is over.
pub(super) async fn publish(
    inner: &Inner,
    asked: Publish,
    parts: &Parts<'_>,
) -> Result<Value, Error> {
    let timeout = asked.timeout_s.and_then(seconds).unwrap_or(TIMEOUT);
    let timeout = timeout.min(TIMEOUT_MAX);
    let load = Map::new()
        .with("fun", asked.fun.as_str())
        .with("arg", asked.arg)
        .with("tgt", asked.tgt)
        .with("tgt_type", asked.tgt_type)
        .with("ret", asked.ret)
        .with("tmo", timeout.as_secs())
        .with("form", "full");
    let published = inner.session.request("minion_pub", load).await?;
    let Some(jid) = published.get("jid").cloned() else {
        let text = format!(
            "{} may not call {}: the option `peer` of the master does not allow it",
            inner.id, asked.fun
        );
        return Err(Error::new("refused", text));
    };
    let minions = published.get("minions").map_or(0, |ids| ids.texts().len());
    let (began, mut returned) = (Instant::now(), Vec::new());
    while returned.len() < minions && began.elapsed() < timeout {
        pause(LOOK).await;
        let load = Map::new().with("jid", jid.clone());
        let answer = inner.session.request("pub_ret", load).await?;
        for (id, found) in answer.as_map().into_iter().flat_map(Map::iter) {
            let id = id.to_text();
            if !returned.contains(&id) {
                parts.send(peer_return(&id, found).into()).await;
                returned.push(id);
            }
        }
    }
    Ok(Map::new().with("jid", jid).into())
}

/// Returns a peer's return in the form of the event about it.
fn peer_return(id: &str, found: &Value) -> Map {
    let mut data = found.as_map().cloned().unwrap_or_default();
    let ret = data.remove("ret").or_else(|| data.remove("return"));
    data.with("id", id).with("return", ret.unwrap_or_default())
}

/// Answers `runner`.
pub(super) async fn runner(inner: &Inner, asked: Runner) -> Result<Value, Error> {
    let load = Map::new().with("fun", asked.fun).with("arg", asked.arg);
    let ret = inner.session.request("minion_runner", load).await?;
    Ok(Map::new().with("return", ret).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_return_has_its_id_and_value() {
        let found = Map::new().with("ret", true).with("out", "nested");
        let data = peer_return("m2", &found.into());
        assert_eq!(data.get("return"), Some(&true.into()));
        assert_eq!(data.get("id"), Some(&"m2".into()));
        assert_eq!(data.get("out"), Some(&"nested".into()));
    }
}
