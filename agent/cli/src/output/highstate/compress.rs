//! Combines states for `state_compress_ids`: those with the same id, SLS and result become one.

use value::{Map, Value};

/// Returns the hosts with their states compressed, or `None` if a state lacks the data for it.
pub(super) fn compressed(hosts: &Map) -> Option<Map> {
    hosts
        .iter()
        .map(|(host, chunks)| {
            Some((
                host.clone(),
                Value::Map(chunks_compressed(chunks.as_map()?)?),
            ))
        })
        .collect()
}

fn chunks_compressed(chunks: &Map) -> Option<Map> {
    let mut counts = Map::new();
    for (tag, ret) in chunks.iter() {
        let count = counts.entry(group(tag, ret)?, || Value::Int(0));
        *count = Value::Int(count.as_int()? + 1);
    }
    let mut out = Map::new();
    for (tag, ret) in chunks.iter() {
        let count = counts.get_value(&group(tag, ret)?)?.as_int()?;
        if count == 1 {
            out.insert(tag.clone(), ret.clone());
            continue;
        }
        let tag = Value::from(compressed_tag(tag.as_str()?, ret, count)?);
        match out.get_value_mut(&tag) {
            Some(first) => fold(first.as_map_mut()?, ret.as_map()?)?,
            None => {
                out.insert(tag, ret.clone());
            }
        }
    }
    Some(out)
}

/// Returns the key that states must share to be compressed into one.
fn group(tag: &Value, ret: &Value) -> Option<Value> {
    let state = tag.as_str()?.split("_|-").next()?;
    let shared = ["__id__", "__sls__", "result"].map(|key| ret.get(key).map(Value::to_text));
    let [Some(id), Some(sls), Some(result)] = shared else {
        return None;
    };
    Some(Value::from(format!("{state}_{id}_{sls}_{result}")))
}

fn compressed_tag(tag: &str, ret: &Value, count: i64) -> Option<String> {
    let text = |key: &str| ret.get(key).map(Value::to_text);
    let (id, sls, result) = (text("__id__")?, text("__sls__")?, text("result")?);
    let mut parts: Vec<String> = tag.split("_|-").map(str::to_owned).collect();
    *parts.get_mut(2)? = format!("state_compressed_{sls}_{id}_{result}");
    *parts.get_mut(1)? = format!("{id} ({count})");
    Some(parts.join("_|-"))
}

/// Combines a state with the first one of its group: the lowest number, the sum of the durations,
/// the earliest start, and the changes by name.
fn fold(first: &mut Map, ret: &Map) -> Option<()> {
    let lowest = first
        .get("__run_num__")?
        .clone()
        .min(ret.get("__run_num__")?.clone());
    let duration = first.get("duration")?.as_float()? + ret.get("duration")?.as_float()?;
    let start = first
        .get("start_time")?
        .clone()
        .min(ret.get("start_time")?.clone());
    first.insert("__run_num__", lowest);
    first.insert("duration", format!("{duration:.3}").parse::<f64>().ok()?);
    first.insert("start_time", start);
    let Some(changes) = ret.get("changes").filter(|changes| changes.is_true()) else {
        return Some(());
    };
    let mut by_name = changes_by_name(first)?;
    by_name.insert(ret.get("name")?.clone(), changes.clone());
    first.insert("changes", Map::new().with("compressed changes", by_name));
    Some(())
}

fn changes_by_name(first: &Map) -> Option<Map> {
    let Some(changes) = first.get("changes").filter(|changes| changes.is_true()) else {
        return Some(Map::new());
    };
    match changes
        .get("compressed changes")
        .filter(|changes| changes.is_true())
    {
        Some(by_name) => by_name.as_map().cloned(),
        None => {
            let mut by_name = Map::new();
            by_name.insert(first.get("name")?.clone(), changes.clone());
            Some(by_name)
        }
    }
}
