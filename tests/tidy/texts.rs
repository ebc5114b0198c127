//! Texts for users in plain English: no help, log, error or page of the documentation has a phrase of the old dialect. Comments are counted
//! separately ([`super::words`]).

use super::none;
use super::source::{below, of_kind};
use super::words::{PHRASES, has_phrase};

/// Verbs of the dialect that comments rarely have.
const MORE: [&str; 4] = ["mend", "mended", "anew", "comes true"];

/// Ordinary English in texts: paths and options lie beside each other, and a way to do something is one.
const ORDINARY: [&str; 10] = [
    "as it is",
    "beside",
    "besides",
    "of its own",
    "way to",
    "way of",
    "who can",
    "who has",
    "who is",
    "who may",
];

/// Salt's own texts, and places where a phrase has its usual meaning.
const RIGHT: [&str; 1] = ["Unable to unhold package {} as it is held with"];

/// The folders of pages and their extensions.
const PAGES: [(&str, &str); 3] = [
    ("packaging/docs", "md"),
    ("packaging/docs", "toml"),
    ("packaging/examples", "md"),
];

/// Returns the phrase of the dialect in a text.
fn phrase(text: &str) -> Option<&'static str> {
    if RIGHT.iter().any(|right| text.contains(right)) {
        return None;
    }
    let banned = PHRASES.iter().chain(&MORE);
    banned
        .filter(|phrase| !ORDINARY.contains(phrase))
        .find(|phrase| has_phrase(text, phrase))
        .copied()
}

/// Returns the string literals of code without comments, each with its line.
fn literals(code: &[&str]) -> Vec<(usize, String)> {
    let (mut all, mut open) = (Vec::new(), None::<(usize, String)>);
    for (at, line) in code.iter().enumerate() {
        if open.is_none() && line.trim_start().starts_with("//") {
            continue;
        }
        let line = line.replace("'\"'", "").replace("'\\\"'", "");
        let mut chars = line.chars();
        while let Some(c) = chars.next() {
            match (c, &mut open) {
                ('"', None) => open = Some((at + 1, String::new())),
                ('"', Some(_)) => all.extend(open.take()),
                ('\\', Some((_, text))) => text.extend(chars.next().filter(|c| *c == '"')),
                ('/', None) if chars.as_str().starts_with('/') => break,
                (c, Some((_, text))) => text.push(c),
                _ => {}
            }
        }
        if let Some((_, text)) = &mut open {
            text.push(' ');
        }
    }
    all
}

#[test]
fn no_message_has_a_phrase_of_the_dialect() {
    let files = ["agent", "master-lite"].into_iter().flat_map(below);
    let mut found = Vec::new();
    for file in files.filter(|file| !file.is_test()) {
        for (line, text) in literals(&file.code()) {
            if let Some(phrase) = phrase(&text).filter(|_| text.contains(' ')) {
                found.push(format!("{}:{line}: {phrase:?} in {text:?}", file.path));
            }
        }
    }
    none(&found, "texts with a phrase of the dialect");
}

#[test]
fn no_page_has_a_phrase_of_the_dialect() {
    let pages = PAGES
        .into_iter()
        .flat_map(|(folder, kind)| of_kind(folder, kind));
    let mut found = Vec::new();
    for page in pages {
        for (at, line) in page.text.lines().enumerate() {
            if let Some(phrase) = phrase(line) {
                found.push(format!("{}:{}: {phrase:?} in {line:?}", page.path, at + 1));
            }
        }
    }
    none(&found, "pages with a phrase of the dialect");
}

#[test]
fn literals_are_found_over_several_lines_and_comments_are_not() {
    let code = [
        "let a = \"one \\",
        "    two\"; // \"three\"",
        "// \"four\"",
        "f('\"', \"five\")",
    ];
    let texts: Vec<String> = literals(&code).into_iter().map(|(_, text)| text).collect();
    assert_eq!(
        texts,
        ["one      two ", "five"].map(|text| text.trim_end().to_owned())
    );
    assert_eq!(phrase("the master is told of it"), Some("told"));
    assert_eq!(phrase("the toldest way to go"), None);
}
