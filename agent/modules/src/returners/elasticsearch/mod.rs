//! The returner `elasticsearch`, also for OpenSearch: returns, and the events or jobs of a master, as
//! documents. Salt 3008 no longer has it; options and documents are those of Salt 3007.
//!
//! ```text
//! return or event -> Document (index, id, source) -> bulk requests
//! ```
//!
//! The id of a document follows from what it is about, so that a repetition changes nothing.

mod bulk;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::Returner;
use super::follow::{Batch, Kind, OfJob, OfLog, Record, Store};
use super::web;
use bulk::{Client, Document};

pub(super) const RETURNER: Returner = Returner {
    name: NAME,
    doc: "Store the return in Elasticsearch or OpenSearch, in the index salt-FUNCTION.",
    store: |cx, ret| {
        let document = of_return(cx, ret, Timestamp::now());
        Client::new(cx, ret)?.store(cx, &document.into_iter().collect::<Vec<_>>())
    },
};

pub(super) const OF_LOG: OfLog = OfLog {
    name: NAME,
    kinds: &[Kind::Events, Kind::Jobs],
    open: |cx| Ok(Box::new(Client::new(cx, &Map::new())?)),
};

const NAME: &str = "elasticsearch";

/// The functions whose returns have states.
const STATE_FUNCTIONS: [&str; 3] = ["state.apply", "state.highstate", "state.sls"];

/// The maximum number of characters of a function in the name of an index, which may have 255 bytes.
const FUNCTION_MAX: usize = 180;

/// The maximum nesting of dictionaries in which names of keys are changed.
const DEPTH_MAX: usize = 100;

impl Store for Client {
    fn store(&self, cx: &Exec, batch: &Batch<'_>) -> Result<(), Error> {
        let of_job = |record: &Record| match record.of_job()? {
            OfJob::New(load) => Some(of_load(cx, &load)),
            OfJob::Return(ret, stamp) => of_return(cx, &ret, web::time(stamp.as_ref())),
        };
        let records = batch.records.iter();
        let documents: Vec<Document> = match batch.kind {
            Kind::Events => records.map(|record| of_event(cx, record)).collect(),
            Kind::Jobs => records.filter_map(of_job).collect(),
        };
        Self::store(self, cx, &documents)
    }
}

fn option(cx: &Exec, ret: &Map, name: &str) -> Option<Value> {
    web::option(cx, ret, NAME, name)
}

fn is_set(cx: &Exec, ret: &Map, name: &str) -> bool {
    option(cx, ret, name).is_some_and(|found| found.is_true())
}

fn text_of(map: &Map, key: &str) -> String {
    map.get(key).map(Value::to_text).unwrap_or_default()
}

/// Returns the name of an index, with the date in UTC if `index_date` is set.
fn dated(cx: &Exec, ret: &Map, index: String, at: Timestamp) -> String {
    match is_set(cx, ret, "index_date") {
        true => format!("{index}-{}", at.strftime("%Y.%m.%d")),
        false => index,
    }
}

/// Returns the name of an index of the options.
fn named(cx: &Exec, name: &str, default: &str) -> String {
    web::text(cx, &Map::new(), NAME, name).unwrap_or_else(|| default.to_owned())
}

/// Returns a function as a part of the name of an index. A return comes from a minion, so that only
/// letters, digits, `-` and `_` are used.
fn escaped(function: &str) -> String {
    let allowed = |letter: char| match letter.to_ascii_lowercase() {
        letter @ ('a'..='z' | '0'..='9' | '-' | '_') => letter,
        _ => '_',
    };
    function.chars().map(allowed).take(FUNCTION_MAX).collect()
}

fn of_event(cx: &Exec, record: &Record) -> Document {
    let part = |key: &str| record.event.get(key).cloned().unwrap_or_else(|| "".into());
    let data = part("data");
    let at = web::time(data.get("_stamp"));
    let none = Map::new();
    let index = named(cx, "master_event_index", "salt-master-event-cache");
    // The numbers of a log that was lost are given again, to events with other times.
    let (master, sequence) = (cx.opts().id(), record.sequence);
    Document {
        index: dated(cx, &none, index, at),
        kind: web::text(cx, &none, NAME, "master_event_doc_type"),
        id: format!("event:{master}:{sequence}:{}", at.as_microsecond()),
        source: Map::new().with("tag", part("tag")).with("data", data),
    }
}

fn of_load(cx: &Exec, load: &Map) -> Document {
    let jid = text_of(load, "jid");
    Document {
        index: named(cx, "master_job_cache_index", "salt-master-job-cache"),
        kind: web::text(cx, &Map::new(), NAME, "master_job_cache_doc_type"),
        source: Map::new()
            .with("jid", jid.as_str())
            .with("load", load.clone()),
        id: jid,
    }
}

/// Returns the document of a return; `None` if it is not wanted.
fn of_return(cx: &Exec, ret: &Map, at: Timestamp) -> Option<Document> {
    let (function, jid) = (super::function(ret), text_of(ret, "jid"));
    let unwanted = option(cx, ret, "functions_blacklist");
    let unwanted = unwanted.is_some_and(|list| list.texts().contains(&function));
    let is_empty = |key: &str| ret.get(key).is_none_or(Value::is_null);
    if unwanted || (is_empty("data") && is_empty("return")) {
        let why = match unwanted {
            true => format!("functions_blacklist has {function}"),
            false => "it has no data".to_owned(),
        };
        log::info(format_args!(
            "returner elasticsearch: the return of job {jid} is not stored: {why}"
        ));
        return None;
    }
    let is_state = STATE_FUNCTIONS.contains(&function.as_str());
    let name = match is_state && is_set(cx, ret, "states_single_index") {
        true => "state_apply".to_owned(),
        false => escaped(&function),
    };
    let mut index = dated(cx, ret, format!("salt-{name}"), at);
    let mut data = ret.get("return").cloned().unwrap_or_default();
    let mut counts = Map::new();
    if is_state {
        data = states(cx, ret, data, &mut index);
        if is_set(cx, ret, "states_count") {
            counts = counted(&data);
        }
    }
    let retcode = ret.get("retcode").cloned().unwrap_or_else(|| 1.into());
    let minion = text_of(ret, "id");
    let source = Map::new()
        .with(
            "@timestamp",
            at.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string(),
        )
        .with("success", !retcode.is_true())
        .with("retcode", retcode)
        .with("minion", minion.as_str())
        .with("fun", function)
        .with("jid", jid.as_str())
        .with("counts", counts)
        .with("data", without_dots(&data, 0));
    Some(Document {
        index,
        kind: web::text(cx, ret, NAME, "doc_type"),
        id: format!("return:{jid}:{minion}"),
        source,
    })
}

/// Returns the states of a return. With `states_order_output`, each key begins with the number of its
/// state, each state has its function, and the index ends with `-ordered`. A return without states,
/// such as an error, is stored under the key `return`.
fn states(cx: &Exec, ret: &Map, data: Value, index: &mut String) -> Value {
    let states = match data {
        Value::Map(states) => states,
        other => return Map::new().with("return", other).into(),
    };
    if !is_set(cx, ret, "states_order_output") {
        return states.into();
    }
    index.push_str("-ordered");
    let width = states.len().to_string().len();
    let ordered = states.iter().map(|(key, state)| {
        let key = key.to_text();
        let Some(map) = state.as_map().filter(|_| !starts_with_digit(&key)) else {
            return (key, state.clone());
        };
        let first = key.split("_|-").next().unwrap_or_default();
        let last = key.rsplit("_|-").next().unwrap_or_default();
        let function = format!("{first}.{last}");
        let number = text_of(map, "__run_num__");
        let state = map.clone().with("_func", function);
        (format!("{number:0>width$}_|-{key}"), state.into())
    });
    ordered.collect::<Map>().into()
}

fn starts_with_digit(key: &str) -> bool {
    key.starts_with(|letter: char| letter.is_ascii_digit())
}

/// Returns the numbers of states that succeeded and that failed. In test mode, a change that would be
/// made counts as a success.
fn counted(states: &Value) -> Map {
    let states = states.as_map().into_iter().flat_map(Map::values);
    let results = states.filter_map(|state| state.get("result"));
    let (mut succeeded, mut failed) = (0, 0);
    for result in results {
        match result {
            Value::Bool(false) => failed += 1,
            _ => succeeded += 1,
        }
    }
    Map::new()
        .with("succeeded", succeeded)
        .with("failed", failed)
}

/// Replaces the dots in keys, because they would make fields of fields. The last such key is stored as
/// `_orig_key`.
fn without_dots(value: &Value, depth: usize) -> Value {
    match value {
        _ if depth > DEPTH_MAX => value.clone(),
        Value::Map(map) => {
            let mut changed = Map::new();
            for (key, value) in map {
                let key = key.to_text();
                if key.contains('.') {
                    changed.insert("_orig_key", key.as_str());
                }
                changed.insert(key.replace('.', "_"), without_dots(value, depth + 1));
            }
            changed.into()
        }
        Value::List(items) => Value::list(items.iter().map(|item| without_dots(item, depth + 1))),
        other => other.clone(),
    }
}
