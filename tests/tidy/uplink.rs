//! The minion's daemon: `uplink/` is the only room that knows how a master is spoken to.

use std::collections::BTreeSet;

use super::none;
use super::source::below;

const FOLDER: &str = "agent/minion/src/";

/// The places that name the crate `link`, the names that each may use (`*` for all), and the reason.
const PLACES: &[(&str, &[&str], &str)] = &[
    (
        "uplink/",
        &["*"],
        "the connections to masters: another protocol changes only this room",
    ),
    (
        "local_socket/",
        &["unix", "Error", "Limits", "Part", "PeerInfo"],
        "the Unix sockets of jobs and commands carry the same frames; their peers are no masters",
    ),
    (
        "daemon.rs",
        &["Notify", "Pulse"],
        "the service manager's socket is no connection to a master",
    ),
    ("", &["wait"], "the clock has no peer"),
];

/// Returns the names that a text uses of the crate `link`: `unix` of `link::unix::Pipe`, and both
/// names of `link::{Error, Part}`.
fn names(text: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, word) in text.match_indices("link::") {
        if text[..at].ends_with(is_name) {
            continue;
        }
        let rest = &text[at + word.len()..];
        let list = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap(),
            None => rest.split(|c| !is_name(c)).next().unwrap(),
        };
        let names = list.split(',').map(str::trim);
        let names = names.map(|name| name.split(|c| !is_name(c)).next().unwrap());
        found.extend(names.filter(|name| !name.is_empty()));
    }
    found
}

#[test]
fn names_of_the_crate_are_found() {
    let text = "use link::{\n    Error,\n    pki::Pki,\n};\nlet x = link::wait::pause; uplink::y(); link::Error::Lost";
    assert_eq!(names(text), ["Error", "pki", "wait", "Error"]);
}

#[test]
fn only_the_uplink_of_a_minion_knows_how_a_master_is_spoken_to() {
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for source in below(FOLDER.trim_end_matches('/')) {
        let path = source.path.strip_prefix(FOLDER).unwrap();
        for name in names(&source.code().join("\n")) {
            let place = PLACES.iter().position(|(place, allowed, _)| {
                path.starts_with(place) && (allowed.contains(&name) || *allowed == ["*"])
            });
            match place {
                Some(place) => {
                    used.insert((place, name.to_owned()));
                }
                None => wrong.push(format!("{}: link::{name}", source.path)),
            }
        }
    }
    for (at, (place, names, _)) in PLACES.iter().enumerate() {
        let is_used = |name: &str| used.iter().any(|(row, of)| *row == at && of == name);
        let unused = names.iter().filter(|name| **name != "*" && !is_used(name));
        wrong.extend(unused.map(|name| format!("{FOLDER}{place}: link::{name} is not used")));
    }
    none(
        &wrong,
        "the crate `link` outside its places in the minion: use the types of `uplink`",
    );
}
