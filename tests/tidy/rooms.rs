//! The rooms of the two large crates, in the order in which they know each other. For the master it
//! is also the order in which its services are built.

use std::collections::BTreeSet;
use std::path::Path;

use super::none;
use super::source::{Source, below};

/// A crate with rooms.
struct House {
    /// The folder of its sources.
    folder: &'static str,
    /// The rooms, each with its contents. A room knows itself and the rooms before it. A part of a
    /// room may have a separate place.
    order: &'static [(&'static str, &'static str)],
    /// A file, the room after it that it imports, and the reason.
    exceptions: &'static [(&'static str, &'static str, &'static str)],
}

const MASTER: House = House {
    folder: "master-lite/src",
    order: &[
        ("store", "Store: all durable state"),
        ("refusals", "Refusals: their log"),
        ("unstored", "the log of data that the store did not take"),
        ("events", "Events: those that the master fires"),
        ("metrics", "Metrics: the counters"),
        ("jobs::minions", "Minions: their connections"),
        ("cluster", "Cluster: several masters with one store"),
        ("keys", "Keys: in the store, and as files"),
        ("wheel", "Wheel: the functions about keys and connections"),
        ("jobs::waiting", "Waiting: the callers of jobs"),
        ("jobs::targets", "Targets: who matches"),
        ("jobs", "Jobs"),
        ("access", "Access: what users and minions may request"),
        ("data", "Data: files, pillar, mine"),
        ("runs", "Runs: the context of runners; Runners calls them"),
        ("admit", "Admission: decides on keys"),
        ("reactor", "Reactor"),
        (
            "event_return",
            "EventReturn: hands the log's events to returners",
        ),
        ("runners", "the functions of runners"),
        ("http", "the HTTP server"),
        ("hook", "Hook: requests that become events"),
        ("api", "Api: the paths of rest_cherrypy"),
        ("metrics::text", "the format of the page"),
        ("metrics::page", "Page: the counters over HTTP"),
        (
            "daemon::connections",
            "Connections: their begin and end, as events",
        ),
        ("daemon::session", "Session: a minion's requests"),
        ("daemon::local_requests", "LocalRequests: those of commands"),
        ("daemon::maintenance", "Maintenance: the regular chores"),
        ("daemon::leading", "Leading: the work of one master for all"),
        ("daemon", "Master: builds the services"),
        ("commands", "the programs of the command line"),
        ("lib", "the crate's interface"),
    ],
    exceptions: &[],
};

const MODULES: House = House {
    folder: "agent/modules/src",
    order: &[
        ("event_bus", "the events of this machine"),
        ("backend", "the backends of the file server"),
        ("git", "repositories of git as trees"),
        ("fileserver", "files of SLS trees"),
        ("serializers", "formats of data"),
        ("grains", "grains"),
        (
            "loader",
            "custom modules; what is missing on this machine; calls",
        ),
        ("state_run", "the steps of a state run"),
        (
            "served",
            "answers to jobs on other machines, from the trees of this one",
        ),
        ("exec", "execution modules"),
        ("databases", "databases, by their client programs"),
        ("pillars", "external pillars"),
        ("returners", "returners"),
        ("states", "state modules"),
        ("runners", "runners that need no master"),
        ("wheel", "wheel functions that need no master"),
        ("testing", "the context of tests"),
        ("lib", "the registry"),
    ],
    exceptions: &[
        (
            "agent/modules/src/loader/call.rs",
            "exec",
            "the outputter is a fact of the declared function",
        ),
        (
            "agent/modules/src/loader/needs.rs",
            "exec",
            "pkg and service are available if one of their providers is",
        ),
        (
            "agent/modules/src/loader/custom/answer.rs",
            "state_run",
            "a custom module may call runners",
        ),
    ],
};

impl House {
    /// The position of the room that a module, or an item in it, belongs to.
    fn room(&self, path: &[String]) -> Option<usize> {
        (1..=path.len()).rev().find_map(|length| {
            let name = path[..length].join("::");
            self.order.iter().position(|(room, _)| *room == name)
        })
    }

    /// The imports of rooms that come later, and the exceptions that nothing needs.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut needed = vec![false; self.exceptions.len()];
        for file in below(self.folder).iter().filter(|file| !file.is_test()) {
            let Some(own) = self.room(&module(self.folder, file)) else {
                wrong.push(format!("{} has no place in the order", file.path));
                continue;
            };
            for path in named(self.folder, file) {
                let Some(at) = self.room(&path).filter(|at| *at > own) else {
                    continue;
                };
                let later = self.order[at].0;
                let excepted = |(name, room, _): &_| *name == file.path && *room == later;
                match self.exceptions.iter().position(excepted) {
                    Some(at) => needed[at] = true,
                    None => wrong.push(format!("{}: {}", file.path, path.join("::"))),
                }
            }
        }
        let needed = self.exceptions.iter().zip(needed);
        let unneeded = needed.filter(|(_, needed)| !needed);
        wrong.extend(unneeded.map(|((file, ..), _)| format!("{file} needs no exception")));
        wrong
    }
}

/// The path of the module that a file of a crate is.
fn module(folder: &str, file: &Source) -> Vec<String> {
    let inside = Path::new(&file.path).strip_prefix(folder).unwrap();
    let inside = inside.with_extension("").display().to_string();
    let inside = inside.trim_end_matches("/mod");
    inside.split('/').map(str::to_owned).collect()
}

/// The paths in a crate that the code of one of its files names.
fn named(folder: &str, file: &Source) -> Vec<Vec<String>> {
    let code = file.code().join("\n");
    let own = module(folder, file);
    let mut found = Vec::new();
    for (word, before) in [("crate::", &[][..]), ("super::", &own), ("use ", &own)] {
        for (at, _) in code.match_indices(word) {
            let is_part = |letter| is_part_of_name(letter) || letter == ':';
            let is_whole = !code[..at].ends_with(is_part);
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

#[test]
fn a_room_knows_only_those_before_it() {
    for house in [MASTER, MODULES] {
        let what = format!("{}: rooms that know one after them", house.folder);
        none(&house.wrong(), &what);
    }
}

#[test]
fn paths_in_code_are_read() {
    let source = Source {
        path: format!("{}/jobs/minions.rs", MASTER.folder),
        text:
            "use crate::{hook, store::{self, Error}};\nuse super::Jobs;\nlet a = crate::data::B;\n"
                .into(),
    };
    let mut found: Vec<String> = named(MASTER.folder, &source)
        .iter()
        .map(|path| path.join("::"))
        .collect();
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
        MASTER
            .room(&module(MASTER.folder, &source))
            .map(|at| MASTER.order[at].0),
        Some("jobs::minions")
    );
    let later = ["metrics", "page", "Page"].map(str::to_owned);
    assert_eq!(
        MASTER.room(&later).map(|at| MASTER.order[at].0),
        Some("metrics::page")
    );
}

/// The sources of all other crates.
const CRATES: &[&str] = &[
    "agent/src",
    "agent/value/src",
    "agent/python/src",
    "agent/render/src",
    "agent/state/src",
    "agent/machine/src",
    "agent/cli/src",
    "agent/wire/src",
    "agent/link/src",
    "agent/reactor/src",
    "agent/minion/src",
    "agent/lint/src",
    "agent/graph/src",
    "agent/plan/src",
    "agent/undo/src",
    "master-lite/identity/src",
    "master-lite/cluster/src",
    "master-lite/cluster/base2histogram/src",
];

/// A crate, a folder that imports another one although that one imports it, and the reason.
const CIRCLES: &[(&str, &str, &str, &str)] = &[
    (
        "agent/machine/src",
        "accounts",
        "fs",
        "the files of accounts are read and written like all others, whose owners have names",
    ),
    (
        "agent/machine/src",
        "accounts",
        "process",
        "`getent` names the accounts of other sources, and processes run as users",
    ),
];

/// The imports between the folders of a crate: the two folders, and the file that imports.
fn imports_between_folders(folder: &str) -> Vec<(String, String, String)> {
    let files = below(folder);
    let folders: BTreeSet<String> = files
        .iter()
        .map(|file| module(folder, file))
        .filter(|path| path.len() > 1)
        .map(|path| path[0].clone())
        .collect();
    let mut imports = Vec::new();
    for file in files.iter().filter(|file| !file.is_test()) {
        let from = module(folder, file).swap_remove(0);
        for path in named(folder, file) {
            let to = path.first().filter(|to| **to != from);
            if let Some(to) = to.filter(|to| folders.contains(*to) && folders.contains(&from)) {
                imports.push((from.clone(), to.clone(), file.path.clone()));
            }
        }
    }
    imports
}

/// Whether imports lead from one folder to another.
fn leads_to(imports: &[(String, String, String)], from: &str, to: &str) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(folder) = next.pop() {
        if folder == to {
            return true;
        }
        if seen.insert(folder) {
            let onward = imports.iter().filter(|(before, ..)| before == folder);
            next.extend(onward.map(|(_, after, _)| after.as_str()));
        }
    }
    false
}

#[test]
fn folders_do_not_import_each_other_in_a_circle() {
    let mut wrong = Vec::new();
    for crate_folder in CRATES {
        let mut imports = imports_between_folders(crate_folder);
        imports.retain(|(from, to, _)| {
            let excepted = |(of, a, b, _): &_| of == crate_folder && a == from && b == to;
            !CIRCLES.iter().any(excepted)
        });
        for (from, to, file) in &imports {
            if leads_to(&imports, to, from) {
                wrong.push(format!("{file}: {from} -> {to}"));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    none(&wrong, "imports that close a circle of folders");
}
