//! Single command lines: the cases recorded from Salt's highstates and orchestrations, and
//! execution functions.
//!
//! A group is a file `GROUP.json` of `{case: {"words", "out", "rc"}}`, next to the folder `tree` in
//! which its cases run. `out` is an object if the answer is JSON, otherwise text. It is null if
//! only the exit code is compared. `ours` is the answer that Pinch intends to give in a case that
//! `differences.toml` lists.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;
use tests::answer::{
    error_head, same_text, same_value, settled, sorted_list, trimmed, up_to_error, without_times,
};
use tests::corpus::{Case, Outcome, check_all};
use tests::program::{Answer, salt_call};
use tests::scratch::{Scratch, corpus};

/// Functions that answer in the order of a folder.
const FOLDERS: [&str; 3] = ["file.find", "file.readdir", "file.path_exists_glob"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    words: Vec<String>,
    out: Value,
    rc: i32,
    ours: Option<Answered>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answered {
    out: Value,
    rc: i32,
}

struct Command {
    kind: &'static str,
    group: String,
    name: String,
    tree: PathBuf,
    recorded: Recorded,
}

#[test]
fn recorded() {
    check_all("recorded", &cases("recorded"));
}

#[test]
fn cli() {
    check_all("cli", &cases("cli"));
}

fn cases(kind: &'static str) -> Vec<Command> {
    let folder = corpus().join(kind);
    let mut groups: Vec<PathBuf> = folder
        .read_dir()
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    groups.retain(|path| path.extension().is_some_and(|e| e == "json"));
    groups.sort();
    groups
        .iter()
        .flat_map(|path| group(kind, path, &folder.join("tree")))
        .collect()
}

fn group(kind: &'static str, path: &Path, tree: &Path) -> Vec<Command> {
    let text = std::fs::read_to_string(path).unwrap();
    let recorded: IndexMap<String, Recorded> = serde_json::from_str(&text).unwrap();
    let group = path.file_stem().unwrap().to_str().unwrap();
    let case = |(name, recorded)| Command {
        kind,
        group: group.to_owned(),
        name,
        tree: tree.to_owned(),
        recorded,
    };
    recorded.into_iter().map(case).collect()
}

impl Case for Command {
    fn name(&self) -> String {
        format!("{}/{}/{}", self.kind, self.group, self.name)
    }

    fn check(&self) -> Result<Outcome, String> {
        self.is_as(&self.recorded.out, self.recorded.rc)?;
        Ok(Outcome::Agrees)
    }

    fn check_ours(&self) -> Result<(), String> {
        let ours = self
            .recorded
            .ours
            .as_ref()
            .ok_or("the case has no `ours`")?;
        self.is_as(&ours.out, ours.rc)
    }
}

impl Command {
    fn is_as(&self, want: &Value, want_rc: i32) -> Result<(), String> {
        let scratch = Scratch::with_tree(&self.tree);
        let words: Vec<String> = self
            .recorded
            .words
            .iter()
            .map(|w| scratch.filled(w))
            .collect();
        let Answer { out, rc } = salt_call(scratch.path(), &words)?;
        if rc != Some(want_rc) {
            return Err(format!("exit code {want_rc} / {rc:?}"));
        }
        let out = scratch.masked(&out);
        match want {
            Value::Null => Ok(()),
            Value::String(want) => self.check_text(want, &out),
            want => self.check_json(want, &out),
        }
    }

    fn check_json(&self, want: &Value, out: &str) -> Result<(), String> {
        let got: Value = serde_json::from_str(out).map_err(|_| format!("not JSON: {out:?}"))?;
        let text: &dyn Fn(&str) -> String = match self.kind {
            "recorded" => &|text| error_head(&trimmed(text)).to_owned(),
            _ => &without_times,
        };
        let (mut want, mut got) = (settled(want, text), settled(&got, text));
        if FOLDERS.contains(&self.recorded.words[0].as_str()) {
            (want["local"], got["local"]) = (
                sorted_list(want["local"].take()),
                sorted_list(got["local"].take()),
            );
        }
        same_value(&want, &got, "$")
    }

    fn check_text(&self, want: &str, out: &str) -> Result<(), String> {
        let (want, got) = (trimmed(want), trimmed(out));
        if self.group == "err" {
            return same_text(&up_to_error(&want), &up_to_error(&got));
        }
        same_text(&want, &got)
    }
}
