//! The output and the exit codes of Salt's `salt-ssh`, and of orchestrations with its steps.
//!
//! `tests/corpus/ssh/commands/record.py` records the cases; its first lines describe the files.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::thread;

use fancy_regex::{Captures, Regex};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};
use tests::answer::{same_text, same_value, settled, trimmed, without_times};
use tests::corpus::{Case, Outcome, check_all};
use tests::scratch::corpus;

use super::{Answer, Host, Site, command_in, free_port};

/// A case, in the order of the fields of its file.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    words: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    files: BTreeMap<String, Option<String>>,
    out: Vec<String>,
    err: Vec<String>,
    rc: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ours: Option<Ours>,
}

/// The answer that Pinch intends to give.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Ours {
    out: Vec<String>,
    err: Vec<String>,
    rc: i32,
}

/// The maximum number of cases that run at a time.
const AT_ONCE: usize = 4;

/// The two hosts of a case, and the machine's keys. Cases that run at a time have their own, because
/// a host runs the states of one at a time.
struct Hosts {
    site: Site,
    ports: [(&'static str, u16); 3],
    _running: [Host; 2],
}

impl Hosts {
    fn start() -> Option<Self> {
        let site = Site::new()?;
        let running = [Host::start(&site, &[]), Host::start(&site, &[])];
        let [web1, web2] = [running[0].port, running[1].port];
        let down = free_port();
        site.enlist(&[("web1", web1), ("web2", web2), ("down", down)]);
        Some(Self {
            site,
            ports: [("@WEB1@", web1), ("@WEB2@", web2), ("@DOWN@", down)],
            _running: running,
        })
    }

    fn filled(&self, text: &str, here: &Path) -> String {
        let text = text.replace("@ENV@", here.to_str().unwrap());
        let ports = self.ports.iter();
        ports.fold(text, |text, (name, port)| {
            text.replace(name, &port.to_string())
        })
    }

    fn masked(&self, text: &str, here: &Path) -> String {
        let text = text.replace(here.to_str().unwrap(), "@ENV@");
        let ports = self.ports.iter();
        ports.fold(text, |text, (name, port)| {
            text.replace(&port.to_string(), name)
        })
    }

    /// Writes the files of a case to a new folder.
    fn lay_out(&self, files: &BTreeMap<String, Option<String>>) -> tempfile::TempDir {
        let scratch = tempfile::tempdir().unwrap();
        let here = scratch.path();
        self.add(&folder().join("tree"), here, here);
        symlink(self.site.path("builds"), here.join("builds")).unwrap();
        for key in ["key", "hostkey"] {
            fs::copy(self.site.path(key), here.join(key)).unwrap();
        }
        fs::copy(self.site.path("known"), here.join("known")).unwrap();
        for (path, text) in files {
            match text {
                Some(text) => {
                    fs::create_dir_all(here.join(path).parent().unwrap()).unwrap();
                    fs::write(here.join(path), self.filled(text, here)).unwrap();
                }
                None => fs::remove_file(here.join(path)).unwrap(),
            }
        }
        scratch
    }

    fn add(&self, tree: &Path, to: &Path, here: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(tree).unwrap() {
            let (path, name) = entry.map(|e| (e.path(), e.file_name())).unwrap();
            if path.is_dir() {
                self.add(&path, &to.join(name), here);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                fs::write(to.join(name), self.filled(&text, here)).unwrap();
            }
        }
    }
}

struct Recording {
    hosts: Arc<Mutex<Hosts>>,
    group: PathBuf,
    name: String,
    recorded: Recorded,
    answered: OnceLock<Answer>,
}

fn folder() -> PathBuf {
    corpus().join("ssh/commands")
}

fn read_group(path: &Path) -> IndexMap<String, Recorded> {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn commands_answer_as_salts() {
    let count = thread::available_parallelism().map_or(1, NonZero::get);
    let all =
        (0..count.min(AT_ONCE)).map(|_| Hosts::start().map(|hosts| Arc::new(Mutex::new(hosts))));
    let Some(all) = all.collect::<Option<Vec<_>>>() else {
        return;
    };
    let entries = fs::read_dir(folder()).unwrap();
    let mut groups: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    groups.retain(|path| path.extension().is_some_and(|end| end == "json"));
    groups.sort();
    let cases = groups.into_iter().flat_map(|group| {
        let cases = read_group(&group).into_iter();
        cases.map(move |(name, recorded)| (group.clone(), name, recorded))
    });
    let cases = cases.zip(all.iter().cycle());
    let cases = cases.map(|((group, name, recorded), hosts)| Recording {
        hosts: hosts.clone(),
        group,
        name,
        recorded,
        answered: OnceLock::new(),
    });
    check_all("ssh", &cases.collect::<Vec<_>>());
}

impl Case for Recording {
    fn name(&self) -> String {
        let group = self.group.file_stem().unwrap().display();
        format!("ssh/{group}/{}", self.name)
    }

    fn check(&self) -> Result<Outcome, String> {
        let recorded = &self.recorded;
        same(&recorded.out, recorded.rc, self.answer())?;
        Ok(Outcome::Agrees)
    }

    fn check_ours(&self) -> Result<(), String> {
        let answer = self.answer();
        if std::env::var_os("PINCH_RECORD").is_some() {
            self.record(answer);
            return Ok(());
        }
        let ours = self.recorded.ours.as_ref();
        let ours = ours.ok_or("the case has no `ours`")?;
        same(&ours.out, ours.rc, answer)?;
        same_text(&ours.err.join("\n"), &trimmed(&answer.err))
    }
}

impl Recording {
    /// Returns the answer of Pinch, which runs once.
    fn answer(&self) -> &Answer {
        self.answered.get_or_init(|| self.run())
    }

    fn run(&self) -> Answer {
        let hosts = self.hosts.lock().unwrap();
        let scratch = hosts.lay_out(&self.recorded.files);
        let here = scratch.path();
        let words = self.recorded.words.iter();
        let words: Vec<String> = words.map(|word| hosts.filled(word, here)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let program = self.recorded.program.as_deref().unwrap_or("salt-ssh");
        let mut answer = Answer::of(command_in(here, program, &words).output().unwrap());
        answer.out = hosts.masked(&answer.out, here);
        answer.err = hosts.masked(&answer.err, here);
        answer
    }

    fn record(&self, answer: &Answer) {
        static WRITES: Mutex<()> = Mutex::new(());
        let _alone = WRITES.lock().unwrap_or_else(PoisonError::into_inner);
        let mut group = read_group(&self.group);
        static DURATION: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r#"("duration": )[\d.]+"#).unwrap());
        let text = sorted(&trimmed(&answer.out));
        let text = DURATION.replace_all(&text, "${1}0");
        let lines = |text: &str| text.lines().map(str::to_owned).collect();
        group[&self.name].ours = Some(Ours {
            out: lines(&text),
            err: lines(&trimmed(&answer.err)),
            rc: answer.code.unwrap(),
        });
        let mut bytes = Vec::new();
        let layout = PrettyFormatter::with_indent(b" ");
        group
            .serialize(&mut Serializer::with_formatter(&mut bytes, layout))
            .unwrap();
        bytes.push(b'\n');
        fs::write(&self.group, bytes).unwrap();
    }
}

fn same(out: &[String], code: i32, got: &Answer) -> Result<(), String> {
    if got.code != Some(code) {
        let answer = format!("{}{}", got.out, got.err);
        return Err(format!("exit code {code} / {:?}: {answer}", got.code));
    }
    let want = out.join("\n");
    match (documents(&want), documents(&got.out)) {
        (Some(want), Some(got)) => same_value(&want, &got, "$"),
        _ => same_text(&sorted(&trimmed(&want)), &sorted(&trimmed(&got.out))),
    }
    .map_err(|why| format!("{why}\n{}{}", got.out, got.err))
}

/// Reads the JSON documents of an output, with the hosts in order.
fn documents(text: &str) -> Option<Value> {
    let read = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut all = read.collect::<Result<Vec<_>, _>>().ok()?;
    all.sort_by_key(Value::to_string);
    match all.is_empty() {
        true => None,
        false => Some(settled(&all.into(), &|text| with_sorted_names(text))),
    }
}

/// Sorts the hosts in the comments of steps, which Salt writes in any order.
fn with_sorted_names(text: &str) -> String {
    static NAMES: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(Updating |ran on )([\w, ]+)").unwrap());
    let sorted = |found: &Captures<'_>| {
        let mut names: Vec<&str> = found[2].split(", ").collect();
        names.sort_unstable();
        format!("{}{}", &found[1], names.join(", "))
    };
    let text = without_times(text);
    NAMES.replace_all(&text, sorted).into_owned()
}

/// Sorts the returns of the hosts, which come in any order.
fn sorted(text: &str) -> String {
    let mut parts: Vec<String> = vec![String::new()];
    for line in text.lines() {
        let begins = ["web1", "web2", "down"].iter().any(|id| {
            let rest = line.strip_prefix(id);
            rest.is_some_and(|rest| rest.starts_with([':', ' ']))
        });
        if begins || line == "{" {
            parts.push(String::new());
        }
        parts.last_mut().unwrap().push_str(&format!("{line}\n"));
    }
    parts[1..].sort();
    parts.concat().trim().to_owned()
}
