//! Names of functions: no string literal outside a module's room (its files in the sources) is the name of one of its
//! declared functions, except those in `literals.toml`. A typed call or a fact of the declaration replaces such a name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde::Deserialize;

use super::modules::{declared, declaring_in};
use super::none;
use super::source::{Source, below, workspace};

const FILE: &str = "tests/tidy/literals.toml";

/// The folders of declarations, and the macro of each.
const DECLARING: [(&str, &str); 6] = [
    ("agent/modules/src/states", "state_module! {"),
    ("agent/modules/src/exec", "exec_module! {"),
    ("agent/modules/src/runners", "exec_module! {"),
    ("agent/modules/src/wheel", "exec_module! {"),
    ("agent/minion/src/functions", "exec_module! {"),
    ("master-lite/src/runners", "exec_module! {"),
];

/// The names that may be literals.
#[derive(Deserialize)]
struct Exceptions {
    /// The reasons, each with a word for it.
    reasons: BTreeMap<String, String>,
    /// The names in each file, by the word of their reason.
    files: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

/// The declared functions, each with the files and folders of its module.
fn rooms() -> (BTreeSet<String>, BTreeMap<String, BTreeSet<String>>) {
    let (mut functions, mut rooms) = (BTreeSet::new(), BTreeMap::<_, BTreeSet<_>>::new());
    for (folder, call) in DECLARING {
        for file in declaring_in(folder, call) {
            for full in declared(&file, call) {
                let module = full.split('.').next().unwrap().to_owned();
                let room = rooms.entry(module.clone()).or_default();
                room.insert(file.path.clone());
                room.insert(format!("agent/modules/src/exec/{module}/"));
                room.insert(format!("agent/modules/src/states/{module}/"));
                room.insert(format!("{folder}/{module}/"));
                functions.insert(full);
            }
        }
    }
    (functions, rooms)
}

/// The string literals of a line that end on it.
fn literals(line: &str) -> Vec<String> {
    let line = line.replace("'\"'", "").replace("'\\\"'", "");
    let (mut all, mut literal, mut chars) = (Vec::new(), None, line.chars());
    while let Some(c) = chars.next() {
        match (c, &mut literal) {
            ('"', None) => literal = Some(String::new()),
            ('"', Some(_)) => all.extend(literal.take()),
            ('\\', Some(text)) => text.extend(chars.next()),
            (c, Some(text)) => text.push(c),
            _ => {}
        }
    }
    all
}

/// The names of functions of other modules in the code of each file.
fn named() -> BTreeMap<String, BTreeSet<String>> {
    let (functions, rooms) = rooms();
    let is_outside = |file: &Source, full: &str| {
        let room = &rooms[full.split('.').next().unwrap()];
        !room
            .iter()
            .any(|place| file.path.starts_with(place.as_str()))
    };
    let mut all = BTreeMap::new();
    for file in ["agent", "master-lite"].into_iter().flat_map(below) {
        if file.is_test() || file.path.contains("/examples/") {
            continue;
        }
        let found = file.code().into_iter().flat_map(literals);
        let found = found.filter(|text| functions.contains(text) && is_outside(&file, text));
        let found: BTreeSet<String> = found.collect();
        if !found.is_empty() {
            all.insert(file.path, found);
        }
    }
    all
}

#[test]
fn names_of_functions_stay_in_their_rooms() {
    let text = fs::read_to_string(workspace().join(FILE)).unwrap();
    let exceptions: Exceptions = toml::from_str(&text).unwrap();
    let mut listed = BTreeMap::<String, BTreeSet<String>>::new();
    let mut wrong = Vec::new();
    for (file, by_reason) in &exceptions.files {
        for (word, names) in by_reason {
            if !exceptions.reasons.contains_key(word) {
                wrong.push(format!("{file}: there is no reason {word}"));
            }
            listed
                .entry(file.clone())
                .or_default()
                .extend(names.clone());
        }
    }
    let found = named();
    let none_of = BTreeSet::new();
    for (file, names) in &found {
        let listed = listed.get(file).unwrap_or(&none_of);
        let more = names.difference(listed);
        wrong.extend(more.map(|name| format!("{file}: \"{name}\" is not in {FILE}")));
    }
    for (file, names) in &listed {
        let found = found.get(file).unwrap_or(&none_of);
        let gone = names.difference(found);
        wrong.extend(gone.map(|name| format!("{FILE}: \"{name}\" is no longer in {file}")));
    }
    none(&wrong, "names of functions as literals");
}

#[test]
fn the_literals_of_a_line_are_found() {
    let line = r#"f("a.b", '"', "c\"d") // e"#;
    assert_eq!(literals(line), ["a.b", "c\"d"]);
}
