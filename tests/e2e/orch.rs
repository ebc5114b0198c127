//! Masterless orchestrations: each folder of `corpus/orch` is one case, run on its SLS files and
//! those in `shared`.
//!
//! `case.toml` holds the call and the expected exit code, the result of each step in execution
//! order, events in order, standard error, and the steps that run at the same time. `return.json`
//! is the whole return without times. `differs` is the reason why Salt with a master answers
//! differently; the other cases agree with Salt.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Map, Value};
use tests::answer::{same_value, settled, without_times};
use tests::corpus::{Case, Outcome, check_all};
use tests::program::{program, salt_call};
use tests::scratch::{Scratch, corpus};

use crate::bus::{Ear, Event};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Orch {
    #[serde(default = "orchestrate")]
    call: String,
    #[serde(default = "orch")]
    words: Vec<String>,
    rc: i32,
    /// Lines for the minion's configuration.
    #[serde(default)]
    config: String,
    /// An SLS for every minion.
    pillar: Option<String>,
    /// Files of the minion.
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    stderr: Vec<String>,
    /// Steps, or states in them, that must run at the same time.
    #[serde(default)]
    together: Vec<String>,
    #[serde(default)]
    events: Vec<Wanted>,
    #[serde(default)]
    results: IndexMap<String, Value>,
    #[serde(rename = "differs")]
    _differs: Option<String>,
}

fn orchestrate() -> String {
    "state.orchestrate".to_owned()
}

fn orch() -> Vec<String> {
    vec![orch_name()]
}

fn orch_name() -> String {
    "orch".to_owned()
}

/// An event: a pattern for its tag, and part of its data.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    tag: String,
    data: Value,
}

/// Lines that every case adds to the minion's configuration: it has no master, and its bus is below
/// its `root_dir`.
const LOCAL: &str = "file_client: local\nsock_dir: /sock\n";

struct Folder {
    name: String,
    path: PathBuf,
}

#[test]
fn orchestrations() {
    let folder = corpus().join("orch");
    let mut cases: Vec<Folder> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("case.toml").is_file())
        .map(|path| Folder {
            name: path.file_name().unwrap().to_str().unwrap().to_owned(),
            path,
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    check_all("orch", &cases);
}

impl Case for Folder {
    fn name(&self) -> String {
        format!("orch/{}", self.name)
    }

    fn check(&self) -> Result<Outcome, String> {
        let text = std::fs::read_to_string(self.path.join("case.toml")).unwrap();
        let case: Orch = toml::from_str(&text).map_err(|error| error.to_string())?;
        let scratch = case.scratch(&self.path);
        let ear = Ear::on(&scratch.path().join("root/sock"));
        let mut words = vec!["--out=json".to_owned(), case.call.clone()];
        words.extend(case.words.iter().map(|word| scratch.filled(word)));
        let answer = salt_call(scratch.path(), &words);
        let heard = ear.heard();
        let answer = answer?;
        let got: Value = serde_json::from_str(&answer.out)
            .map_err(|_| format!("not JSON: {:.300?}", answer.out))?;
        let got = &got["local"];
        case.check_results(got)?;
        self.check_return(&scratch, got)?;
        case.check_together(got)?;
        case.check_events(&heard)?;
        case.check_stderr(&scratch)?;
        if answer.rc != Some(case.rc) {
            return Err(format!("exit code {} / {:?}", case.rc, answer.rc));
        }
        Ok(Outcome::Agrees)
    }
}

impl Folder {
    fn check_return(&self, scratch: &Scratch, got: &Value) -> Result<(), String> {
        let path = self.path.join("return.json");
        let text = |text: &str| without_waits(&without_times(&scratch.masked(text)));
        let got = settled(got, &text);
        if std::env::var_os("PINCH_RECORD").is_some() {
            let text = serde_json::to_string_pretty(&got).unwrap();
            std::fs::write(&path, text + "\n").unwrap();
            return Ok(());
        }
        let want = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        same_value(&serde_json::from_str(&want).unwrap(), &got, "return")
    }
}

/// Returns the text without the durations of waits for events.
fn without_waits(text: &str) -> String {
    match text.strip_prefix("All events seen in ") {
        Some(_) => "All events seen in T seconds.".to_owned(),
        None => text.to_owned(),
    }
}

impl Orch {
    fn scratch(&self, folder: &Path) -> Scratch {
        let scratch = Scratch::new();
        let tree = Path::new("srv/salt");
        scratch.add(&corpus().join("orch/shared"), tree);
        scratch.add(folder, tree);
        let config = format!("{LOCAL}{}", self.config);
        scratch.write("etc/minion.d/case.conf", &config);
        if let Some(pillar) = &self.pillar {
            scratch.write("srv/pillar/top.sls", "base:\n  '*': [data]\n");
            scratch.write("srv/pillar/data.sls", pillar);
        }
        for (path, text) in &self.files {
            scratch.write(path, text);
        }
        scratch
    }

    fn check_results(&self, got: &Value) -> Result<(), String> {
        let ran = steps(got);
        let ran: Vec<_> = ran
            .iter()
            .map(|(id, ret)| (id.as_str(), case_form(&ret["result"])))
            .collect();
        let wanted = self.results.iter();
        let wanted: Vec<_> = wanted.map(|(id, result)| (id.as_str(), result)).collect();
        for (id, result) in &wanted {
            match ran.iter().find(|(ran, _)| ran == id) {
                None => return Err(format!("{id} did not run: {ran:?}")),
                Some((_, got)) if got != *result => return Err(format!("{id}: {result} / {got}")),
                Some(_) => {}
            }
        }
        if ran.len() == wanted.len() {
            return Ok(());
        }
        Err(format!("{} steps / {}", wanted.len(), ran.len()))
    }

    fn check_together(&self, got: &Value) -> Result<(), String> {
        let mut spans = BTreeMap::new();
        collect_spans(got, &mut spans);
        let of = |id: &String| spans.get(id).ok_or_else(|| format!("{id} has no times"));
        let spans: Vec<(f64, f64)> = self
            .together
            .iter()
            .map(|id| of(id).copied())
            .collect::<Result<_, _>>()?;
        let start = spans.iter().map(|span| span.0).fold(f64::MIN, f64::max);
        let end = spans.iter().map(|span| span.1).fold(f64::MAX, f64::min);
        if spans.is_empty() || start < end {
            return Ok(());
        }
        Err(format!(
            "{:?} ran one after the other: {spans:?}",
            self.together
        ))
    }

    fn check_events(&self, heard: &[Event]) -> Result<(), String> {
        let mut left = heard.iter();
        for wanted in &self.events {
            if !left.any(|event| wanted.is(event)) {
                let heard: Vec<String> = heard
                    .iter()
                    .map(|(tag, data)| format!("{tag} {data}"))
                    .collect();
                return Err(format!(
                    "event {} {} is missing or out of order in\n{}",
                    wanted.tag,
                    wanted.data,
                    heard.join("\n")
                ));
            }
        }
        Ok(())
    }

    fn check_stderr(&self, scratch: &Scratch) -> Result<(), String> {
        let said = std::fs::read_to_string(scratch.path().join("stderr")).unwrap();
        match self.stderr.iter().find(|part| !said.contains(*part)) {
            Some(part) => Err(format!("{part:?} is missing on stderr: {said}")),
            None => Ok(()),
        }
    }
}

impl Wanted {
    fn is(&self, (tag, data): &Event) -> bool {
        matches(&self.tag, tag) && within(&self.data, data)
    }
}

/// Returns whether a text matches a pattern with `*`.
fn matches(glob: &str, text: &str) -> bool {
    match glob.split_once('*') {
        None => glob == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.any(|at| matches(rest, &text[at..]))
        }),
    }
}

/// True when `data` contains all of `wanted`, at any depth; `"(null)"` in `wanted` matches null.
fn within(wanted: &Value, data: &Value) -> bool {
    match (wanted, data) {
        (Value::Object(wanted), Value::Object(data)) => wanted
            .iter()
            .all(|(key, value)| data.get(key).is_some_and(|data| within(value, data))),
        (Value::Array(wanted), Value::Array(data)) => {
            wanted.len() == data.len() && wanted.iter().zip(data).all(|(a, b)| within(a, b))
        }
        (Value::String(null), Value::Null) => null == "(null)",
        _ => wanted == data,
    }
}

/// A result as `case.toml` writes it.
fn case_form(result: &Value) -> Value {
    match result {
        Value::Null => "none".into(),
        result => result.clone(),
    }
}

/// Returns the steps of an orchestration by their ids.
fn steps(got: &Value) -> Vec<(String, &Map<String, Value>)> {
    let Some(ran) = got.pointer("/data/m1").and_then(Value::as_object) else {
        return Vec::new();
    };
    ran.iter()
        .map(|(tag, ret)| {
            let id = tag.split("_|-").nth(1).unwrap();
            (id.to_owned(), ret.as_object().unwrap())
        })
        .collect()
}

/// Returns the begin and end of each state at any depth, in seconds of the day.
fn collect_spans(value: &Value, spans: &mut BTreeMap<String, (f64, f64)>) {
    let Value::Object(map) = value else { return };
    for (tag, ret) in map {
        if let (Some(start), Some(duration), Some(id)) = (
            ret["start_time"].as_str(),
            ret["duration"].as_f64(),
            tag.split("_|-").nth(1),
        ) {
            let parts = start.split(':').map(|part| part.parse::<f64>().unwrap());
            let start = parts.fold(0.0, |seconds, part| seconds * 60.0 + part);
            spans.insert(id.to_owned(), (start, start + duration / 1000.0));
        }
        collect_spans(ret, spans);
    }
}

#[test]
fn another_process_hears_an_orchestration() {
    let scratch = Scratch::new();
    scratch.write("etc/minion.d/case.conf", LOCAL);
    let step = "a:\n  salt.runner:\n    - name: manage.up\n";
    scratch.write("srv/salt/orch.sls", step);
    let printed = scratch.path().join("events");
    let mut listener = Command::new(&program()[0])
        .args(&program()[1..])
        .arg("-c")
        .arg(scratch.path().join("etc"))
        .args(["--local", "state.event", "tagmatch=salt/run/*"])
        .stdout(File::create(&printed).unwrap())
        .spawn()
        .unwrap();
    let bus = scratch.path().join("root/sock/bus");
    wait_until(|| bus.read_dir().is_ok_and(|mut files| files.next().is_some()));
    let answer = salt_call(
        scratch.path(),
        &["state.orchestrate".to_owned(), orch_name()],
    );
    let heard = || std::fs::read_to_string(&printed).unwrap();
    wait_until(|| heard().lines().count() >= 5);
    listener.kill().unwrap();
    listener.wait().unwrap();
    assert_eq!(answer.unwrap().rc, Some(0));
    let heard = heard();
    let tags = heard.lines().filter_map(|line| line.split('\t').next());
    let ends: Vec<&str> = tags.filter_map(|tag| tag.rsplit('/').next()).collect();
    assert_eq!(ends, ["new", "args", "new", "ret", "ret"], "{heard}");
}

/// Waits with a timeout.
fn wait_until(done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
}
