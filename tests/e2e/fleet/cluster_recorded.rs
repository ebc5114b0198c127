//! The answers of the runner `cluster` in each situation, as `tests/corpus/cluster` has them.
//! `PINCH_RECORD=1` writes these files, and a developer reads them before the commit.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use regex_automata::meta::Regex;
use serde::{Deserialize, Serialize};
use serde_json::ser::{PrettyFormatter, Serializer};
use tests::answer::{same_text, trimmed};
use tests::scratch::corpus;

use super::cluster::{Masters, SECRET, members, voters};

/// The maximum time for an answer. A debug build on a busy machine has to meet it, too.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The network of the masters in the files.
const NETWORK: &str = "10.0.0";

/// A call, and its answer.
#[derive(Clone, Deserialize, Serialize)]
struct Call {
    /// The number of the master.
    at: usize,
    /// The words after `salt-run --out=json`.
    words: Vec<String>,
    rc: i32,
    out: Vec<String>,
}

/// Returns the text with the names and ports of the files, and without numbers and times that
/// differ in each run.
fn masked(masters: &Masters, at: usize, text: &str) -> String {
    let here = masters.all[at - 1].path("master").display().to_string();
    let port = masters.port;
    let text = text
        .replace(&here, "/MASTER")
        .replace(&format!("{}.", masters.network), &format!("{NETWORK}."))
        .replace(&format!(":{port}"), ":4520")
        .replace(&format!(":{}", port - 10_000), ":4506");
    // A connection may still have been there when the call began.
    let text = match Regex::new(LOST).unwrap().find_iter(&text).next() {
        Some(lost) => {
            let (master, _) = text[lost.range()].split_once(" did").unwrap();
            let unreachable = format!("cannot connect to {master}: no answer to the handshake");
            text.replace(&text[lost.range()], &unreachable)
        }
        None => text,
    };
    let text = replaced(&text, NUMBERS, "N");
    let text = replaced(&text, TIMES, "TIME");
    trimmed(&text)
}

/// The numbers that differ, each after the name of its field.
const NUMBERS: &str = r#""(term|number|membership_version|last_index|applied_index|snapshot_index|contact_seconds|silent_seconds|behind|registry_version|routing_version|updated_at)": [0-9.]+"#;
/// The end of a connection while a master was asked.
const LOST: &str = r#"the master at [0-9.:]+ did not answer: [^"\n]*"#;
/// The times of day.
const TIMES: &str = r"since [0-9:]+ UTC";

/// Replaces what comes after the first space of each match.
fn replaced(text: &str, pattern: &str, with: &str) -> String {
    let regex = Regex::new(pattern).unwrap();
    let (mut masked, mut end) = (String::new(), 0);
    for found in regex.find_iter(text) {
        masked += &text[end..found.start()];
        let (head, _) = text[found.range()].split_once(' ').unwrap();
        masked += &format!("{head} {with}");
        end = found.end();
    }
    masked + &text[end..]
}

impl Call {
    /// Makes the call again.
    fn made(&self, masters: &Masters) -> Self {
        let words = self.words.iter();
        let own = format!("{}.", masters.network);
        let words: Vec<String> = words
            .map(|word| word.replace(&format!("{NETWORK}."), &own))
            .collect();
        let mut all = vec!["salt-run", "--out=json"];
        all.extend(words.iter().map(String::as_str));
        let began = Instant::now();
        let answer = masters.all[self.at - 1].run(&all);
        assert!(
            began.elapsed() < ANSWER_MAX,
            "{:?} took {:?}",
            self.words,
            began.elapsed()
        );
        let out = masked(masters, self.at, &answer.out);
        Self {
            rc: answer.rc.unwrap(),
            out: out.lines().map(str::to_owned).collect(),
            ..self.clone()
        }
    }

    fn differs_from(&self, made: &Self) -> Option<String> {
        let same = same_text(&self.out.join("\n"), &made.out.join("\n"));
        let why = match (same, self.rc == made.rc) {
            (Ok(()), true) => return None,
            (Ok(()), false) => format!("exit code {} / {}", self.rc, made.rc),
            (Err(why), _) => why,
        };
        Some(format!("{} at {}: {why}", self.words.join(" "), self.at))
    }
}

/// Makes the calls of a file, and compares the answers.
fn compare(masters: &Masters, situation: &str) {
    let path: PathBuf = corpus().join("cluster").join(format!("{situation}.json"));
    let calls: Vec<Call> = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let made: Vec<Call> = calls.iter().map(|call| call.made(masters)).collect();
    if std::env::var_os("PINCH_RECORD").is_some() {
        let mut bytes = Vec::new();
        let layout = PrettyFormatter::with_indent(b" ");
        let mut serializer = Serializer::with_formatter(&mut bytes, layout);
        made.serialize(&mut serializer).unwrap();
        bytes.push(b'\n');
        return fs::write(path, bytes).unwrap();
    }
    let differing = calls.iter().zip(&made);
    let differing: Vec<String> = differing
        .filter_map(|(call, made)| call.differs_from(made))
        .collect();
    assert!(
        differing.is_empty(),
        "{situation}:\n{}",
        differing.join("\n")
    );
}

/// Starts masters, each with a file, of which the first one leads.
fn led_by_the_first(count: usize) -> Masters {
    let mut masters = Masters::prepared(count, SECRET);
    for fleet in &masters.all {
        fleet.write("salt/top.sls", "base: {}\n");
    }
    masters.start_all();
    masters.led_by(1);
    masters
}

/// Waits until the first master names these ones as silent.
fn wait_for_silence(masters: &Masters, numbers: &[usize]) {
    let names: Vec<String> = numbers.iter().map(|number| masters.name(*number)).collect();
    masters.soon("the dead masters are named", |masters| {
        members(&masters.all[0])["unhealthy_voters"] == serde_json::json!(names)
    });
}

#[test]
fn the_runner_cluster_without_a_cluster() {
    let mut masters = Masters::prepared(1, "");
    let etc = masters.all[0].path("master/etc/master");
    let text = fs::read_to_string(&etc).unwrap();
    let single = text.lines().filter(|line| !line.starts_with("cluster_"));
    let single: Vec<&str> = single.collect();
    fs::write(&etc, single.join("\n")).unwrap();
    masters.all[0].start_master();
    compare(&masters, "alone");
}

#[test]
fn the_runner_cluster_of_one_master() {
    compare(&led_by_the_first(1), "one");
}

#[test]
fn the_runner_cluster_of_three_masters() {
    let masters = led_by_the_first(3);
    masters.all[0].write("salt/new.sls", "{}\n");
    compare(&masters, "three");
}

#[test]
fn the_runner_cluster_of_five_masters() {
    compare(&led_by_the_first(5), "five");
}

#[test]
fn the_runner_cluster_with_a_dead_master() {
    let mut masters = led_by_the_first(3);
    masters.all[2].kill_master();
    wait_for_silence(&masters, &[3]);
    compare(&masters, "dead");
    assert_eq!(voters(&masters.all[1]).len(), 2, "the dead one was removed");
}

#[test]
fn the_runner_cluster_in_a_minority() {
    let mut masters = led_by_the_first(3);
    for number in [2, 3] {
        masters.all[number - 1].kill_master();
    }
    wait_for_silence(&masters, &[2, 3]);
    masters.soon("the survivor notices", |masters| {
        let status = masters.all[0].run(&["salt-run", "--out=json", "cluster.status"]);
        status.out.contains("is in a minority")
    });
    compare(&masters, "minority");
}
