//! The `minion` runner: shows one minion, and what happened to it.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, jid};
use wire::Id;
use wire::tag::{self, Tag};

use super::period::Period;
use super::{runs, unreadable};
use crate::runs::Runs;
use crate::store::{self, Cache, Event, Key, KeyState};

state::exec_module! {
    /// One minion: its key, its connection, and its history.
    mod minion;

    /// Return what the master knows of a minion: its key, role and connection, its last highstate,
    /// and the jobs that it has not returned.
    ///
    ///     salt-run minion.show web1
    fn show(Show {
        /// The minion's id.
        id: String,
    });

    /// Return the connection, the version and the last highstate of several minions by id. Ids without
    /// an accepted key are left out.
    ///
    ///     salt-run minion.overview '[web1, web2]'
    fn overview(Overview {
        /// The ids, at most 256.
        ids: Value,
    });

    /// Return what happened to a minion, the oldest first: connections, jobs, returns.
    ///
    ///     salt-run minion.history web1 since=24h
    fn history(History {
        /// The minion's id.
        id: String,
        /// The time to begin with: `2h`, `30m` or `7d` before now, `today`, `yesterday`,
        /// `2026-11-23` or `2026-11-23 10:30`, in UTC.
        since: Value = "24h".into(),
        /// The time to end with, in the same forms.
        until: Option<Value> = None,
        /// The maximum number of entries. The newest ones are returned.
        count: i64 = 1000,
    });
}

/// The maximum number of jobs that are searched for those that a minion has not returned.
const JOBS_MAX: usize = 1000;
/// The maximum number of minions of an overview.
const OVERVIEW_MAX: usize = 256;
/// The maximum number of jobs of the queue that are returned.
const QUEUE_MAX: usize = 20;

fn known(runs: &Runs, id: &str) -> Result<Key, Error> {
    let unknown = || {
        let problem = format!("the master has no key of {id:?}; `salt-key -L` lists all");
        Error::argument("id", problem)
    };
    let id: Id = id.parse().map_err(|_| unknown())?;
    let key = runs.store.key(&id).map_err(unreadable)?;
    key.ok_or_else(unknown)
}

/// Returns a time in the form of `_stamp`, or nothing for an unknown time.
fn time(map: &Map, key: &str) -> Value {
    let at_ms = map.get(key).and_then(Value::as_int);
    let at_ms = at_ms.and_then(|at_ms| u64::try_from(at_ms).ok());
    at_ms.map_or(Value::Null, shown)
}

fn shown(at_ms: u64) -> Value {
    jid::stamp_of(at_ms.saturating_mul(1000)).into()
}

fn show(cx: &Exec, args: Show) -> Result<Value, Error> {
    let runs = runs(cx)?;
    let key = known(runs, &args.id)?;
    let status = runs.store.cached_of(Cache::Status, &key);
    let status = status.map_err(unreadable)?.unwrap_or_default();
    let is_connected = runs.jobs.minions.get(&key.id).is_some();
    let of = |name: &str| status.get(name).cloned().unwrap_or_default();
    let mut found = Map::new()
        .with("id", key.id.as_str())
        .with("key", key.state.as_str())
        .with("fingerprint", key.key.finger())
        .with("key_since", shown(key.at_ms))
        .with("role", key.bound.get("role").cloned().unwrap_or_default())
        .with("address", of("address"))
        .with("connected", is_connected);
    if is_connected {
        found.insert("connected_since", time(&status, "up_ms"));
    } else {
        found.insert("last_seen", time(&status, "seen_ms"));
        found.insert("disconnected", of("reason"));
    }
    found.insert("last_highstate", last_highstate(&status));
    found.insert("queue", queue(runs, &key.id).map_err(unreadable)?);
    Ok(found.into())
}

fn overview(cx: &Exec, args: Overview) -> Result<Value, Error> {
    let runs = runs(cx)?;
    let ids = match &args.ids {
        list @ Value::List(_) => list.texts(),
        one => vec![one.to_text()],
    };
    if ids.len() > OVERVIEW_MAX {
        let problem = format!("at most {OVERVIEW_MAX} ids are allowed");
        return Err(Error::argument("ids", problem));
    }
    let mut all = Map::new();
    for id in ids {
        let key = id.parse::<Id>().ok().map(|id| runs.store.key(&id));
        let key = key.transpose().map_err(unreadable)?.flatten();
        if let Some(key) = key.filter(|key| key.state == KeyState::Accepted) {
            all.insert(id, overview_of(runs, &key).map_err(unreadable)?);
        }
    }
    Ok(all.into())
}

/// Returns the line of one minion in an overview.
fn overview_of(runs: &Runs, key: &Key) -> Result<Map, store::Error> {
    let status = runs.store.cached_of(Cache::Status, key)?;
    let grains = runs.store.cached_of(Cache::Grains, key)?;
    let grain = |name: &str| {
        let grains = grains.as_ref();
        grains.and_then(|grains| grains.get(name)).cloned()
    };
    let os = ["os", "osrelease"].map(|name| grain(name).map(|value| value.to_text()));
    let os: Vec<String> = os.into_iter().flatten().collect();
    Ok(Map::new()
        .with("connected", runs.jobs.minions.get(&key.id).is_some())
        .with("version", grain("saltversion").unwrap_or_default())
        .with("os", os.join(" "))
        .with(
            "last_highstate",
            last_highstate(&status.unwrap_or_default()),
        ))
}

fn last_highstate(status: &Map) -> Value {
    let Some(last) = status.get("highstate").and_then(Value::as_map) else {
        return Value::Null;
    };
    let mut shown = Map::new().with("time", time(last, "at_ms"));
    for key in ["jid", "result", "states", "failed", "changed"] {
        shown.insert(key, last.get(key).cloned().unwrap_or_default());
    }
    shown.into()
}

/// Returns the jobs that were sent to a minion and that it has not returned, the newest first.
fn queue(runs: &Runs, id: &Id) -> Result<Value, store::Error> {
    let mut open = Vec::new();
    for job in runs.store.jobs()?.take(JOBS_MAX) {
        let job = job?;
        if open.len() == QUEUE_MAX {
            break;
        }
        if job.minions.contains(id) && !runs.store.has_returned(&job.jid, id)? {
            let fun = job.load.get("fun").cloned().unwrap_or_default();
            let entry = Map::new().with("jid", job.jid).with("fun", fun);
            open.push(Value::from(entry));
        }
    }
    Ok(Value::list(open))
}

fn history(cx: &Exec, args: History) -> Result<Value, Error> {
    let runs = runs(cx)?;
    let id = known(runs, &args.id)?.id;
    let period = Period::new(Some(&args.since), args.until.as_ref())?;
    let count = usize::try_from(args.count)
        .map_err(|_| Error::argument("count", "must not be negative".to_owned()))?;
    let read = || -> Result<Vec<Value>, store::Error> {
        let store = &runs.store;
        let mut entries = Vec::new();
        for event in store.events(store.first_since(period.first_ms())?)? {
            let event = event?;
            if !period.has(event.at_ms.saturating_mul(1000)) {
                continue;
            }
            entries.extend(entry(&event, &id).map(Value::from));
            if entries.len() > 2 * count {
                entries.drain(..entries.len() - count);
            }
        }
        Ok(entries)
    };
    let mut entries = read().map_err(unreadable)?;
    entries.drain(..entries.len().saturating_sub(count));
    Ok(Value::list(entries))
}

/// Returns the entry of an event in the history of a minion.
fn entry(event: &Event, id: &Id) -> Option<Map> {
    let of = |key: &str| event.data.get(key).cloned().unwrap_or_default();
    let entry = |what: &str| {
        Map::new()
            .with("time", shown(event.at_ms))
            .with("what", what)
    };
    let with = |what: &str, keys: &[&str]| {
        let mut entry = entry(what);
        for key in keys {
            if let Some(value) = event.data.get(key) {
                entry.insert(*key, value.clone());
            }
        }
        entry
    };
    if event.tag == tag::minion_up(id) {
        return Some(with("up", &["reason", "address", "missed"]));
    }
    if event.tag == tag::minion_down(id) {
        return Some(with("down", &["reason", "text", "missed"]));
    }
    match Tag::parse(&event.tag) {
        Tag::Minion { id: of, what } if of == id.as_str() => Some(entry(what)),
        Tag::Job { what: "new", .. } => {
            let minions = of("minions");
            let is_meant = minions
                .as_list()
                .is_some_and(|ids| ids.iter().any(|one| one.as_str() == Some(id.as_str())));
            is_meant.then(|| with("job", &["jid", "fun", "user"]))
        }
        Tag::JobOf {
            what: "ret",
            id: of,
            ..
        } if of == id.as_str() => Some(with("return", &["jid", "fun", "success", "retcode"])),
        _ => None,
    }
}
