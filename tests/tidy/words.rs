//! Comments in plain English: the number of blocks that bear a mark of the dialect may only fall. `words.toml` has it for each crate.

use std::collections::BTreeMap;
use std::fs;

use super::none;
use super::source::{below, workspace};

const FILE: &str = "tests/tidy/words.toml";

/// A block of comments that begins with one of these words bears a mark.
const OPENINGS: [&str; 10] = [
    "what", "who", "whom", "how", "where", "which", "that", "those", "such", "so",
];

/// A block with one of these phrases bears a mark.
pub(crate) const PHRASES: [&str; 27] = [
    "told",
    "tells",
    "stands",
    "stood",
    "lies",
    "lay",
    "nobody",
    "is asked",
    "of its own",
    "as it is",
    "taken up",
    "let in",
    "beside",
    "besides",
    "for good",
    "goes on",
    "what it was",
    "comes of",
    "is said",
    "heard",
    "who asks",
    "who has",
    "who is",
    "who may",
    "who can",
    "way to",
    "way of",
];

/// The crate of a path; the large one has a count for each of its rooms.
fn room(path: &str) -> &str {
    const ROOMS: [&str; 2] = ["agent/modules/src/exec", "agent/modules/src/states"];
    if let Some(room) = ROOMS.into_iter().find(|room| path.starts_with(room)) {
        return room;
    }
    let (at, _) = path.match_indices("/src/").next().unwrap_or((0, ""));
    match path.get(..at) {
        None | Some("") => path.split('/').next().unwrap_or_default(),
        Some(package) => package,
    }
}

/// The text of each block of comment lines, without its slashes.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        let comment = line.trim_start().strip_prefix("//");
        match comment.map(|rest| rest.trim_start_matches(['/', '!']).trim()) {
            None => is_inside = false,
            Some(words) if is_inside => {
                if let Some(block) = blocks.last_mut() {
                    block.push(' ');
                    block.push_str(words);
                }
            }
            Some(words) => {
                blocks.push(words.to_owned());
                is_inside = true;
            }
        }
    }
    blocks
}

/// Returns the words of a text in lower case, with a space before and after each.
fn spaced(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let words = words.filter(|word| !word.is_empty());
    let words = words.map(str::to_lowercase).collect::<Vec<_>>();
    format!(" {} ", words.join(" "))
}

pub(crate) fn has_phrase(text: &str, phrase: &str) -> bool {
    spaced(text).contains(&format!(" {phrase} "))
}

fn bears_mark(block: &str) -> bool {
    let text = spaced(block);
    let first = text.split_whitespace().next();
    first.is_some_and(|first| OPENINGS.contains(&first))
        || PHRASES
            .iter()
            .any(|phrase| text.contains(&format!(" {phrase} ")))
}

fn counted() -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for folder in ["agent", "master-lite", "tests"] {
        let sources = below(folder);
        // These files quote what they count.
        for source in sources.iter().filter(|source| {
            source.path != "tests/tidy/words.rs" && source.path != "tests/tidy/texts.rs"
        }) {
            let marked = blocks(&source.text)
                .iter()
                .filter(|block| bears_mark(block))
                .count();
            *counts.entry(room(&source.path).to_owned()).or_default() += marked;
        }
    }
    counts
}

#[test]
fn comments_in_plain_english_only_become_more() {
    let counts = counted();
    let allowed = fs::read_to_string(workspace().join(FILE)).unwrap();
    let allowed: BTreeMap<String, usize> = toml::from_str(&allowed).unwrap();
    let rooms = counts.keys().chain(allowed.keys());
    let number =
        |of: &BTreeMap<String, usize>, room: &str| of.get(room).copied().unwrap_or_default();
    let differing = rooms.filter(|room| number(&counts, room) != number(&allowed, room));
    let mut found: Vec<String> = differing
        .map(|room| {
            format!(
                "\"{room}\" = {} (the file has {})",
                number(&counts, room),
                number(&allowed, room)
            )
        })
        .collect();
    found.dedup();
    none(
        &found,
        "comment blocks with marks of the dialect: rewrite them, or lower the number in words.toml if it has fallen",
    );
}

#[test]
fn a_block_bears_a_mark_by_its_first_word_or_a_phrase() {
    assert_eq!(blocks("//! A\n//! b\nfn\n/// C\n"), ["A b", "C"]);
    assert!(bears_mark("What a run has read.") && bears_mark("It lies there."));
    assert!(!bears_mark("Returns the key.") && !bears_mark("Whether it belies."));
}
