//! Sizes, leftovers and forbidden constructs.

use std::fs;

use super::none;
use super::source::{Source, below, workspace};

const MAX_FILE: usize = 800;
const MAX_FUNCTION: usize = 70;

/// Longer functions, each with its reason.
const LONG: &[(&str, &str)] = &[];

/// The only files with `unsafe`.
const UNSAFE: [&str; 5] = [
    "agent/render/src/yaml/engine.rs",
    "agent/cli/src/heap.rs",
    "agent/cli/src/compare.rs",
    "agent/cli/src/resident.rs",
    "agent/state/src/umask.rs",
];

/// The only files that name a source of randomness, each with its reason.
const RANDOM: [(&str, &str); 2] = [
    (
        "agent/value/src/random.rs",
        "this file is the source of randomness",
    ),
    (
        "agent/value/src/hash.rs",
        "the hash of a table protects no secret, and the seed of the standard library is enough",
    ),
];

const FOLDERS: &[&str] = &["agent", "master-lite", "cross", "tests", "packaging"];

fn all() -> Vec<Source> {
    let folders = FOLDERS
        .iter()
        .filter(|folder| workspace().join(folder).is_dir());
    let holding = folders.filter(|folder| **folder != "cross");
    holding.flat_map(|folder| below(folder)).collect()
}

/// The lines of code outside tests that hold one of these words, this file's own apart.
fn holding(words: &[&str], everywhere: bool) -> Vec<String> {
    let mut found = Vec::new();
    for source in all() {
        if source.path.starts_with("tests/tidy/") || (source.is_test() && !everywhere) {
            continue;
        }
        let lines: Vec<&str> = if everywhere {
            source.text.lines().collect()
        } else {
            source.code()
        };
        for (at, line) in lines.iter().enumerate() {
            if words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{}: {}", source.path, at + 1, line.trim()));
            }
        }
    }
    found
}

#[test]
fn no_file_is_too_long() {
    let long = all().into_iter().filter_map(|source| {
        let lines = source.text.lines().count();
        (lines > MAX_FILE).then(|| format!("{} has {lines} lines", source.path))
    });
    none(
        &long.collect::<Vec<_>>(),
        "files of more than 800 lines: split them by topic",
    );
}

#[test]
fn no_function_is_too_long() {
    let mut long = Vec::new();
    let mut needed = Vec::new();
    for source in all() {
        for function in source.functions() {
            let name = format!("{} {}", source.path, function.name);
            if function.lines <= MAX_FUNCTION {
                continue;
            }
            if LONG.iter().any(|(known, _)| *known == name) {
                needed.push(name);
            } else {
                long.push(format!("{name} has {} lines", function.lines));
            }
        }
    }
    none(&long, "functions of more than 70 lines: split them");
    let stale = LONG
        .iter()
        .filter(|(known, _)| !needed.iter().any(|name| name == known))
        .map(|(known, _)| (*known).to_owned());
    none(
        &stale.collect::<Vec<_>>(),
        "entries for functions that are short enough now: remove them",
    );
}

#[test]
fn nothing_is_left_undone() {
    none(
        &holding(&["todo!", "unimplemented!", "TODO", "FIXME", "XXX:"], true),
        "unfinished code: remove it, or return an error",
    );
}

#[test]
fn nothing_panics_outside_tests() {
    none(
        &holding(
            &[".unwrap()", ".expect(", "panic!(", "unreachable!("],
            false,
        ),
        "code that can panic: return an error instead",
    );
}

/// `tests/run` does not search for documentation tests: the search takes minutes.
#[test]
fn documentation_has_no_tests() {
    let mut tests = Vec::new();
    for source in all() {
        let mut is_inside = false;
        for (at, line) in source.text.lines().enumerate() {
            let line = line.trim_start();
            let comment = line
                .strip_prefix("///")
                .or_else(|| line.strip_prefix("//!"));
            let Some(kind) = comment.and_then(|text| text.trim().strip_prefix("```")) else {
                continue;
            };
            if !is_inside && kind != "text" {
                tests.push(format!("{}:{}: {line}", source.path, at + 1));
            }
            is_inside = !is_inside;
        }
    }
    none(
        &tests,
        "blocks that rustdoc would compile: mark them as text, or write a test",
    );
}

#[test]
fn unsafe_stands_in_the_files_that_need_it() {
    let mut found = holding(
        &["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"],
        true,
    );
    let is_known = |line: &String| {
        UNSAFE
            .iter()
            .any(|file| line.starts_with(&format!("{file}:")))
    };
    found.retain(|line| !is_known(line));
    none(&found, &format!("unsafe code outside {UNSAFE:?}"));
}

#[test]
fn random_bytes_have_one_source() {
    // Only code outside tests is checked: in tests, ring makes keys with its own source of
    // randomness. Embedded scripts run in a Python interpreter.
    let others = [
        "/dev/urandom",
        "/dev/random",
        "SystemRandom",
        "RandomState",
        "getrandom(",
    ];
    let mut found = holding(&others, false);
    let is_known = |line: &String| {
        RANDOM
            .iter()
            .any(|(file, _)| line.starts_with(&format!("{file}:")))
    };
    found.retain(|line| !is_known(line));
    none(
        &found,
        "other sources of randomness: use value::random, which returns an error on failure",
    );
}

/// Functions that read a file or a folder, after their module's name.
const READS: [&str; 10] = [
    "read",
    "read_to_string",
    "read_dir",
    "read_link",
    "text",
    "list",
    "entries",
    "names",
    "link_target",
    "open",
];

/// The continuations of a read that make every error look like an empty file or a missing one.
const EMPTIED: [&str; 6] = [
    ".ok()",
    ".unwrap_or_default()",
    ".unwrap_or(",
    ".unwrap_or_else(|_|",
    ".into_iter().flatten()",
    ".into_iter().flat_map(",
];

/// The only files in which a read may end like that, each with its reason.
const EMPTY: [(&str, &str); 2] = [
    (
        "agent/machine/src/procfs.rs",
        "processes and devices may disappear while their files are read",
    ),
    (
        "agent/state/src/lock.rs",
        "the nearest folder that can be opened stands in for a lock that cannot be made",
    ),
];

/// The text after the parenthesis that closes a call, whose arguments begin the given text.
fn after_call(text: &str) -> Option<&str> {
    let mut open = 1;
    let end = text.find(|c| {
        open += i32::from(c == '(') - i32::from(c == ')');
        open == 0
    })?;
    text.get(end + 1..)
}

/// The reads in some code whose errors are lost, each as its beginning.
fn emptied(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for module in ["fs::", "raw::", "File::"] {
        for (at, _) in code.match_indices(module) {
            let call = &code[at + module.len()..];
            let Some((name, rest)) = call.split_once('(') else {
                continue;
            };
            let is_read = READS.contains(&name.strip_suffix("_or_none").unwrap_or(name));
            if !is_read || code[..at].ends_with("rustix::") || code[..at].ends_with("proc") {
                continue;
            }
            let next = after_call(rest).unwrap_or_default();
            let next: String = next.split_whitespace().take(4).collect();
            if EMPTIED.iter().any(|end| next.starts_with(end)) {
                found.push(code[at..].lines().next().unwrap_or_default());
            }
        }
    }
    found
}

#[test]
fn only_a_missing_file_is_read_as_none() {
    let mut found = Vec::new();
    for source in all() {
        let is_known = EMPTY.iter().any(|(file, _)| *file == source.path);
        if !source.is_test() && !is_known {
            let code = source.code().join("\n");
            let lost = emptied(&code).into_iter();
            found.extend(lost.map(|line| format!("{}: {line}", source.path)));
        }
    }
    none(
        &found,
        "reads that lose their error: use machine::fs::read_or_none, or value::read::or_log where nothing is written back",
    );
    assert_eq!(
        emptied(
            "fs::read(f(x))\n  .ok()?;\nfs::text_or_none(a)?.ok();\nstd::fs::read_dir(a).into_iter()\n.flatten()"
        ),
        ["fs::read(f(x))", "fs::read_dir(a).into_iter()"]
    );
}

#[test]
fn no_thread_of_ours_becomes_another_user() {
    let calls = [
        "set_thread_uid",
        "set_thread_res_uid",
        "set_thread_gid",
        "set_thread_res_gid",
        "set_thread_groups",
    ];
    let mut found = holding(&calls, false);
    found.retain(|line| !line.starts_with("agent/machine/src/process/become_user.rs:"));
    none(
        &found,
        "a user could signal a thread with their identity and end the process: start a helper (process::become_user)",
    );
}

#[test]
fn the_top_level_has_no_other_folders() {
    let mut others = Vec::new();
    for entry in fs::read_dir(workspace()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let known = name.starts_with('.') || name == "target" || FOLDERS.contains(&name.as_str());
        if entry.path().is_dir() && !known {
            others.push(name);
        }
    }
    none(&others, "folders that are not part of the design");
}

#[test]
fn every_list_of_banned_functions_has_the_roots() {
    let root = fs::read_to_string(workspace().join("clippy.toml")).unwrap();
    for path in ["agent/machine/clippy.toml", "agent/modules/clippy.toml"] {
        let theirs = fs::read_to_string(workspace().join(path)).unwrap();
        let lacking = root.lines().filter(|line| !theirs.contains(line));
        let lacking: Vec<String> = lacking.map(str::to_owned).collect();
        none(&lacking, &format!("{path} lacks lines of clippy.toml"));
    }
}
