//! The returner `redis`: returns and jobs as keys of Redis, which expire as the jobs of a master do.
//! Salt 3008 no longer has it; the keys are those of Salt 3007.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::Returner;
use super::follow::{Batch, Kind, OfJob, OfLog, Record, Store};
use crate::exec::redis::run_all;

pub(super) const RETURNER: Returner = Returner {
    name: "redis",
    doc: "Store the return in Redis: in the hash ret:JID, by minion.",
    store: |cx, ret| run_all(cx, &connection(cx, ret), &of_return(cx, ret)),
};

pub(super) const OF_LOG: OfLog = OfLog {
    name: "redis",
    kinds: &[Kind::Jobs],
    open: |_| Ok(Box::new(Keys)),
};

/// The time in seconds after which keys expire, if `keep_jobs_seconds` is not set.
const KEEP: i64 = 86_400;

/// The keys of jobs and returns. A batch that is written again changes nothing.
struct Keys;

impl Store for Keys {
    fn store(&self, cx: &Exec, batch: &Batch<'_>) -> Result<(), Error> {
        let jobs = batch.records.iter().filter_map(Record::of_job);
        let commands = jobs.flat_map(|of_job| match of_job {
            OfJob::New(load) => of_load(cx, &load),
            OfJob::Return(ret, _) => of_return(cx, &ret),
        });
        let commands: Vec<Vec<String>> = commands.collect();
        run_all(cx, &connection(cx, &Map::new()), &commands)
    }
}

/// Returns the connection of the options.
fn connection(cx: &Exec, ret: &Map) -> Map {
    let named = ["host", "port", "db", "password"];
    let options = named.map(|name| (name, super::option(cx, ret, "redis", name)));
    let set = options
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    set.collect()
}

fn life(cx: &Exec) -> String {
    cx.opts()
        .int("keep_jobs_seconds")
        .unwrap_or(KEEP)
        .to_string()
}

fn command<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

fn text(map: &Map, key: &str) -> String {
    map.get(key).map(Value::to_text).unwrap_or_default()
}

fn of_load(cx: &Exec, load: &Map) -> Vec<Vec<String>> {
    let key = format!("load:{}", text(load, "jid"));
    vec![command(["SETEX", &key, &life(cx), &super::json(load)])]
}

fn of_return(cx: &Exec, ret: &Map) -> Vec<Vec<String>> {
    let (id, jid, life) = (text(ret, "id"), text(ret, "jid"), life(cx));
    let hash = format!("ret:{jid}");
    let last = format!("{id}:{}", super::function(ret));
    vec![
        command(["HSET", &hash, &id, &super::json(ret)]),
        command(["EXPIRE", &hash, &life]),
        command(["SET", &last, &jid, "EX", &life]),
        command(["SADD", "minions", &id]),
    ]
}
