//! Orchestrations that Salt's own master ran: the same trees on our master, with one minion.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use tests::answer::{same_text, same_value, settled, trimmed, without_times};
use tests::scratch::corpus;

use super::Fleet;

/// The intended differences from Salt, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "nominion.run.",
        "Salt prints a sentence before the data, which makes the JSON invalid",
    ),
    (
        "wheel.run.",
        "Salt names the files of the master's key after the machine since 3008",
    ),
];

#[derive(Deserialize)]
struct Case {
    words: Vec<String>,
    out: String,
    rc: i32,
}

fn add(fleet: &Fleet, from: &Path, below: &str, out: &str) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let below = if below.is_empty() {
            name.to_owned()
        } else {
            format!("{below}/{name}")
        };
        if path.is_dir() {
            add(fleet, &path, &below, out);
        } else {
            let text = std::fs::read_to_string(&path).unwrap();
            fleet.write(&below, &text.replace("@TMP@", out));
        }
    }
}

fn check(case: &Case, out: &str, fleet: &Fleet) -> Result<(), String> {
    let words: Vec<&str> = case.words.iter().map(String::as_str).collect();
    let answer = fleet.run(&words);
    if answer.rc != Some(case.rc) {
        return Err(format!(
            "exit code {} / {:?}\n{}",
            case.rc, answer.rc, answer.out
        ));
    }
    let got = answer.out.replace(out, "@ENV@/out");
    match (read(&case.out), read(&got)) {
        (Some(want), Some(got)) => {
            let settle = |value: &Value| settled(value, &without_times);
            same_value(&settle(&want), &settle(&got), "")
        }
        _ => same_text(&trimmed(&case.out), &trimmed(&got)),
    }
}

fn read(json: &str) -> Option<Value> {
    serde_json::from_str(json).ok()
}

#[test]
fn orchestrations_print_what_salts_master_prints() {
    let mut fleet = Fleet::with("id: vm_master\n");
    let out = fleet.dir.path().join("out").display().to_string();
    std::fs::create_dir(&out).unwrap();
    add(&fleet, &corpus().join("recorded/tree/srv"), "", &out);
    fleet.accepted(&["m1"]);
    let text = std::fs::read_to_string(corpus().join("master/orchestrate.json")).unwrap();
    let cases: BTreeMap<String, Case> = serde_json::from_str(&text).unwrap();
    let mut wrong = Vec::new();
    for (name, case) in &cases {
        std::fs::remove_dir_all(&out).unwrap();
        std::fs::create_dir(&out).unwrap();
        let is_known = DIFFERENT.iter().any(|(known, _)| name.starts_with(known));
        match (check(case, &out, &fleet), is_known) {
            (Err(why), false) => wrong.push(format!("{name}: {why}")),
            (Ok(()), true) => wrong.push(format!(
                "{name}: it no longer differs; remove it from the list"
            )),
            _ => {}
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}
