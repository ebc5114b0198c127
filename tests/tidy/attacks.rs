//! The attacks and faults, and the tests that cover them: each number has existing tests.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;

use super::none;
use super::source::{below, workspace};

/// The faults that the fleet's own tests cover; other tests cover the rest.
const FAULTS: [u32; 5] = [5, 6, 10, 12, 18];

/// The findings of the security and fault reviews: the prefix of their numbers, and the last
/// number of each.
const FINDINGS: [(&str, u32); 5] = [("C", 2), ("H", 4), ("M", 11), ("L", 11), ("fault-", 19)];

#[derive(Deserialize)]
struct Attack {
    what: String,
    shown: Vec<String>,
}

fn table() -> BTreeMap<String, Attack> {
    let text = fs::read_to_string(workspace().join("tests/corpus/attacks.toml")).unwrap();
    toml::from_str(&text).unwrap()
}

/// Returns whether a file has a test of this name that is not ignored.
fn is_test(path: &str, name: &str) -> bool {
    let text = fs::read_to_string(workspace().join(path)).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = format!("fn {name}()");
    let at = lines.iter().position(|line| line.starts_with(&declared));
    let before = at.and_then(|at| lines.get(..at)).unwrap_or_default();
    before.last() == Some(&"#[test]")
}

#[test]
fn every_attack_and_fault_has_its_tests() {
    let table = table();
    let numbers = (1..=28).map(|n| format!("A{n}"));
    let findings = FINDINGS.iter().flat_map(|(kind, last)| {
        let first = u32::from(*kind != "fault-");
        (first..=*last).map(move |number| format!("{kind}{number}"))
    });
    let numbers = numbers.chain(FAULTS.map(|n| format!("R{n}")));
    let numbers: Vec<String> = numbers.chain(findings).collect();
    let mut wrong: Vec<String> = numbers
        .iter()
        .filter(|number| !table.contains_key(*number))
        .map(|number| format!("{number} has no tests"))
        .collect();
    for (number, entry) in &table {
        if !numbers.contains(number) || entry.what.is_empty() || entry.shown.is_empty() {
            wrong.push(format!(
                "{number} is unknown, or has no description or tests"
            ));
        }
        for test in &entry.shown {
            let found = test.split_once("::");
            if !found.is_some_and(|(path, name)| is_test(path, name)) {
                wrong.push(format!("{number}: test {test} does not exist"));
            }
        }
    }
    none(&wrong, "tests/corpus/attacks.toml");
}

#[test]
fn every_test_of_an_attack_is_in_the_table() {
    let table = table();
    let all: Vec<&String> = table.values().flat_map(|entry| &entry.shown).collect();
    let mut missing = Vec::new();
    for source in below("tests/e2e/fleet/attacks") {
        for (before, line) in source.text.lines().zip(source.text.lines().skip(1)) {
            let name = line
                .strip_prefix("fn ")
                .and_then(|rest| rest.split('(').next());
            if let (true, Some(name)) = (before == "#[test]", name) {
                let test = format!("{}::{name}", source.path);
                if !all.iter().any(|known| **known == test) {
                    missing.push(test);
                }
            }
        }
    }
    none(&missing, "tests missing from tests/corpus/attacks.toml");
}
