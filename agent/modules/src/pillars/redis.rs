//! The external pillar `redis`: the key with the id of the minion (`key_value`, `key_json`).

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, json};

use super::arguments::{named, text};
use crate::exec::redis::{pairs, run};

/// The key of the pillar if none is given.
const PILLAR_KEY: &str = "redis_pillar";

/// Returns the data of the minion's key. A minion without a key has none.
///
/// # Errors
/// When the arguments are wrong, Redis does not answer, or the key has another type.
pub(super) fn load(cx: &Exec, val: &Value, _pillar: &Map) -> Result<Map, Error> {
    let given = named(val, &["function", "pillar_key"])?;
    let pillar_key = text(&given, "pillar_key")?.filter(|key| !key.is_empty());
    match text(&given, "function")?.as_deref() {
        Some("key_value") => {
            let data = value_of(cx)?;
            let key = pillar_key.as_deref().unwrap_or(PILLAR_KEY);
            Ok(data
                .map(|data| Map::new().with(key, data))
                .unwrap_or_default())
        }
        Some("key_json") => document(cx, pillar_key.as_deref()),
        other => Err(Error::refused(format!(
            "function is {}; expected key_value or key_json",
            other.unwrap_or("not set")
        ))),
    }
}

fn ask(cx: &Exec, words: &[&str]) -> Result<Value, Error> {
    run(cx, &Map::new(), words)
}

/// Returns the value of the minion's key by its type: `None` if there is no key.
fn value_of(cx: &Exec) -> Result<Option<Value>, Error> {
    let id = cx.opts().id();
    let of = ask(cx, &["TYPE", id])?.to_text();
    Ok(Some(match of.as_str() {
        "none" => return Ok(None),
        "string" => ask(cx, &["GET", id])?,
        "hash" => pairs(&ask(cx, &["HGETALL", id])?).into(),
        "list" => ask(cx, &["LRANGE", id, "0", "-1"])?,
        "set" => sorted(&ask(cx, &["SMEMBERS", id])?),
        "zset" => ask(cx, &["ZRANGE", id, "0", "-1"])?,
        other => {
            return Err(Error::refused(format!(
                "the key {id} has the type {other}; expected string, hash, list, set or zset"
            )));
        }
    }))
}

/// Returns the members of a set in an order that does not change.
fn sorted(members: &Value) -> Value {
    let mut members = members.texts();
    members.sort();
    members.into()
}

/// Returns the JSON document of the minion's key.
fn document(cx: &Exec, pillar_key: Option<&str>) -> Result<Map, Error> {
    let text = ask(cx, &["GET", cx.opts().id()])?;
    if !text.is_true() {
        return Ok(Map::new());
    }
    let data = json::read(&text.as_text());
    let data = data.map_err(|error| Error::refused(format!("the value is not JSON: {error}")))?;
    Ok(match (data, pillar_key) {
        (Value::Map(data), None) => data,
        (data, key) => Map::new().with(key.unwrap_or(PILLAR_KEY), data),
    })
}
