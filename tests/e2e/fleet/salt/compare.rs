//! The same jobs to a minion of Salt and to one of Pinch: their returns are compared field by field.
//!
//! `tests/corpus/saltlink/jobs.toml` has the jobs. With `PINCH_ALL`, all of them run, otherwise every
//! fourth.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::{Events, PATIENCE, Salt};

const JOBS: &str = include_str!("../../../corpus/saltlink/jobs.toml");

/// The minions: of Salt, and of Pinch.
const IDS: [&str; 2] = ["python-minion", "native-minion"];

/// The fields of a return that differ between any two returns.
const PASSING: [&str; 7] = ["_stamp", "id", "jid", "metadata", "nonce", "tok", "ts"];

/// The entries of values that depend on the time or the process, and the beginning of those that
/// describe the job.
const MOMENTARY: [&str; 3] = ["duration", "start_time", "pid"];
const OF_JOB: &str = "__pub_";

const SLS: &str = "
page:
  file.managed:
    - name: {{ grains['place'] }}/page
    - source: salt://page.txt
    - template: jinja
second:
  test.succeed_with_changes:
    - require: [{file: page}]
";

const FAILING: &str = "
bad:
  test.fail_without_changes: []
after:
  test.nop:
    - require: [{test: bad}]
wrong:
  test.nosuch: []
";

const OWN: &str = "
def say(what):
    return 'own ' + what

def fail():
    raise ValueError('no')

def gen():
    yield 'one'
    yield 'two'
";

#[derive(Deserialize)]
struct Jobs {
    job: Vec<Job>,
}

/// A job, and the fields of its returns that differ.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    call: Vec<String>,
    #[serde(default)]
    differ: Vec<String>,
    #[serde(default)]
    why: String,
}

fn with_data(salt: &Salt) {
    let files = [
        ("salt/top.sls", "base: {'*': [web]}\n"),
        ("salt/web.sls", SLS),
        ("salt/failing.sls", FAILING),
        ("salt/broken.sls", "a: [\n"),
        ("salt/page.txt", "{{ pillar['role'] }}\n"),
        ("salt/script.sh", "echo script $1\n"),
        ("salt/sub/file.txt", "text\n"),
        ("salt/_modules/own.py", OWN),
        ("pillar/top.sls", "base: {'*': [data]}\n"),
        ("pillar/data.sls", "role: web\nmap: {b: 1, a: [2]}\n"),
    ];
    for (path, text) in files {
        salt.write(path, text);
    }
}

/// Runs a job on one minion, and returns its return as the master's event has it.
fn returned(salt: &Salt, events: &Events, case: &str, id: &str, call: &[String]) -> Json {
    let metadata = format!("--metadata={{\"case\": \"{case}\"}}");
    let call: Vec<String> = call.iter().map(|word| word.replace("ID", id)).collect();
    let mut words = vec!["--async", "--out=quiet", &metadata, id];
    words.extend(call.iter().map(String::as_str));
    salt.run("salt", &words);
    let tail = format!("/ret/{id}");
    let is_its = |event: &Json| event["metadata"]["case"] == case;
    let began = Instant::now();
    loop {
        let mut found = events.with_tail(&tail).into_iter();
        if let Some(event) = found.find(is_its) {
            return event;
        }
        let late = || format!("{call:?} did not return: {}", salt.logs());
        assert!(began.elapsed() < PATIENCE, "{}", late());
        sleep(Duration::from_millis(50));
    }
}

/// Removes what differs between any two runs.
fn steady(value: &mut Json) {
    match value {
        Json::Object(map) => {
            map.retain(|key, _| !MOMENTARY.contains(&key.as_str()) && !key.starts_with(OF_JOB));
            map.values_mut().for_each(steady);
        }
        Json::Array(list) => list.iter_mut().for_each(steady),
        _ => {}
    }
}

/// Returns the fields of a return that can be compared.
fn fields(salt: &Salt, id: &str, event: Json) -> Map<String, Json> {
    let root = salt.path(id).display().to_string();
    let text = event.to_string().replace(&root, "ROOT").replace(id, "ID");
    let mut event: Json = serde_json::from_str(&text).unwrap();
    steady(&mut event);
    let mut fields = event.as_object().unwrap().clone();
    fields.retain(|key, _| !PASSING.contains(&key.as_str()));
    fields
}

/// Compares the returns of a job, and describes what is not as the corpus says.
fn compared(job: &Job, [python, native]: &[Map<String, Json>; 2]) -> Vec<String> {
    let mut wrong = Vec::new();
    let names: std::collections::BTreeSet<&String> = python.keys().chain(native.keys()).collect();
    for name in names {
        let (salts, ours) = (python.get(name), native.get(name));
        let show =
            |value: Option<&Json>| value.map_or_else(|| "nothing".to_owned(), Json::to_string);
        let (call, may) = (&job.call, job.differ.contains(name));
        if (salts == ours) == may {
            let (salts, ours) = (show(salts), show(ours));
            let word = if may { "is equal" } else { "differs" };
            wrong.push(format!(
                "{call:?}: {name} {word}\n  Salt:  {salts}\n  Pinch: {ours}\n"
            ));
        }
    }
    wrong
}

#[test]
fn returns_are_those_of_a_minion_of_salt() {
    let jobs: Jobs = toml::from_str(JOBS).unwrap();
    let explained = |job: &Job| job.differ.is_empty() == job.why.is_empty();
    assert!(
        jobs.job.iter().all(explained),
        "each difference has a reason"
    );
    let Some(mut salt) = Salt::start("zeromq", "") else {
        return;
    };
    with_data(&salt);
    let events = salt.record_events();
    for id in IDS {
        let place = salt.path(id).display().to_string();
        let config = format!("grains: {{shelf: top, place: {place}}}\n");
        match id == IDS[0] {
            true => salt.start_python_minion(id, &config),
            false => salt.start_minion(id, &config),
        }
    }
    for id in IDS {
        salt.answers(id);
        salt.call(id, &["saltutil.sync_all"]);
    }
    let step = if std::env::var_os("PINCH_ALL").is_some() {
        1
    } else {
        4
    };
    let mut wrong = Vec::new();
    for (number, job) in jobs.job.iter().enumerate().step_by(step) {
        let fields = IDS.map(|id| {
            let case = format!("{id} {number}");
            fields(&salt, id, returned(&salt, &events, &case, id, &job.call))
        });
        wrong.extend(compared(job, &fields));
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
}
