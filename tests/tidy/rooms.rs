//! The rooms of the master: the order in which its services are built, and in which they know each
//! other.

use std::path::Path;

use super::none;
use super::source::{Source, below};

const FOLDER: &str = "master-lite/src";

/// The rooms, each with its contents. A room knows itself and the rooms before it. A part of a room
/// may have a separate place.
const ORDER: &[(&str, &str)] = &[
    ("store", "Store: all durable state"),
    ("events", "Events: those that the master fires"),
    ("refusals", "Refusals: their log"),
    ("metrics", "Metrics: the counters"),
    ("jobs::minions", "Minions: their connections"),
    ("keys", "Keys: in the store, and as files"),
    ("wheel", "Wheel: the functions about keys"),
    ("jobs::waiting", "Waiting: the callers of jobs"),
    ("jobs::targets", "Targets: who matches"),
    ("jobs", "Jobs"),
    ("access", "Access: what users and minions may request"),
    ("data", "Data: files, pillar, mine"),
    ("runs", "Runs: the context of runners; Runners calls them"),
    ("admit", "Admission: decides on keys"),
    ("reactor", "Reactor"),
    ("runners", "the functions of runners"),
    ("http", "the HTTP server"),
    ("hook", "Hook: requests that become events"),
    ("metrics::text", "the format of the page"),
    ("metrics::page", "Page: the counters over HTTP"),
    ("daemon::session", "Session: a minion's requests"),
    ("daemon::local_requests", "LocalRequests: those of commands"),
    ("daemon::maintenance", "Maintenance: the regular chores"),
    ("daemon", "Master: builds the services"),
    ("commands", "the programs of the command line"),
    ("lib", "the crate's interface"),
];

/// A file, the room after it that it imports, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// The position of the room that a module, or an item in it, belongs to.
fn room(path: &[String]) -> Option<usize> {
    (1..=path.len()).rev().find_map(|length| {
        let name = path[..length].join("::");
        ORDER.iter().position(|(room, _)| *room == name)
    })
}

/// The path of the module that a file is.
fn module(file: &Source) -> Vec<String> {
    let inside = Path::new(&file.path).strip_prefix(FOLDER).unwrap();
    let inside = inside.with_extension("").display().to_string();
    let inside = inside.trim_end_matches("/mod");
    inside.split('/').map(str::to_owned).collect()
}

fn is_part_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Adds the paths that a text begins with to `found`: one, or several in braces.
fn paths(text: &str, before: &[String], found: &mut Vec<Vec<String>>) {
    if let Some(list) = text.strip_prefix('{') {
        let (mut depth, mut start) = (0, 0);
        for (at, letter) in list.char_indices() {
            let ends = depth == 0 && matches!(letter, ',' | '}');
            if ends {
                paths(list[start..at].trim(), before, found);
                start = at + 1;
            }
            match letter {
                '}' if depth == 0 => return,
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
        }
        return;
    }
    let end = text.find(|letter| !is_part_of_name(letter));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let path = match name {
        "super" => before[..before.len() - 1].to_vec(),
        "" | "self" => before.to_vec(),
        name => [before, &[name.to_owned()]].concat(),
    };
    match rest.strip_prefix("::") {
        Some(rest) => paths(rest, &path, found),
        None => found.push(path),
    }
}

/// The paths in the crate that a file's code names.
fn named(file: &Source) -> Vec<Vec<String>> {
    let code = file.code().join("\n");
    let own = module(file);
    let mut found = Vec::new();
    for (word, before) in [("crate::", &[][..]), ("super::", &own), ("use ", &own)] {
        for (at, _) in code.match_indices(word) {
            let is_whole = !code[..at].ends_with(|letter| is_part_of_name(letter) || letter == ':');
            match word {
                "crate::" if is_whole => paths(&code[at + word.len()..], before, &mut found),
                "super::" if is_whole => paths(&code[at..], before, &mut found),
                // A room names its own parts without `crate::`.
                "use " if is_whole => paths(&code[at + word.len()..], before, &mut found),
                _ => {}
            }
        }
    }
    found
}

#[test]
fn a_room_of_the_master_knows_only_those_before_it() {
    let mut wrong = Vec::new();
    let mut needed = vec![false; EXCEPTIONS.len()];
    for file in below(FOLDER).iter().filter(|file| !file.is_test()) {
        let Some(own) = room(&module(file)) else {
            wrong.push(format!("{} has no place in the order", file.path));
            continue;
        };
        for path in named(file) {
            let Some((later, _)) = room(&path).filter(|at| *at > own).map(|at| ORDER[at]) else {
                continue;
            };
            let excepted = |(name, room, _): &_| *name == file.path && *room == later;
            match EXCEPTIONS.iter().position(excepted) {
                Some(at) => needed[at] = true,
                None => wrong.push(format!("{}: {}", file.path, path.join("::"))),
            }
        }
    }
    let needed = EXCEPTIONS.iter().zip(needed);
    let unneeded = needed.filter(|(_, needed)| !needed);
    wrong.extend(unneeded.map(|((file, ..), _)| format!("{file} needs no exception")));
    none(&wrong, "rooms of the master that know one after them");
}

#[test]
fn paths_in_code_are_read() {
    let source = Source {
        path: format!("{FOLDER}/jobs/minions.rs"),
        text:
            "use crate::{hook, store::{self, Error}};\nuse super::Jobs;\nlet a = crate::data::B;\n"
                .into(),
    };
    let mut found: Vec<String> = named(&source).iter().map(|path| path.join("::")).collect();
    found.retain(|path| !path.contains("crate"));
    let wanted = [
        "hook",
        "store",
        "store::Error",
        "data::B",
        "jobs::Jobs",
        "jobs::Jobs",
    ];
    assert_eq!(found, wanted);
    assert_eq!(
        room(&module(&source)).map(|at| ORDER[at].0),
        Some("jobs::minions")
    );
    let later = ["metrics", "page", "Page"].map(str::to_owned);
    assert_eq!(room(&later).map(|at| ORDER[at].0), Some("metrics::page"));
}
