//! `pinch undo`: the changes of a run are reverted, or none of them if something has changed since.

mod files;
mod refusals;
mod seeds;
mod things;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tests::program::{in_recorded_environment, pinch_program};

use crate::plan::schema::hold_to;
use crate::resume::Machine;

/// A snapshot of a path: kind, mode, owner and contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    holds: Vec<u8>,
}

fn snapshot(path: &Path) -> Snapshot {
    let found = path.symlink_metadata().unwrap();
    let (kind, holds) = if found.is_symlink() {
        let target = fs::read_link(path).unwrap();
        ("symlink", target.into_os_string().into_encoded_bytes())
    } else if found.is_dir() {
        ("directory", Vec::new())
    } else if found.is_file() {
        ("file", fs::read(path).unwrap())
    } else {
        ("node", found.rdev().to_be_bytes().to_vec())
    };
    Snapshot {
        kind,
        mode: found.mode(),
        owner: (found.uid(), found.gid()),
        holds,
    }
}

/// Returns a snapshot of every path below a folder, except temporary files that a killed run left
/// behind.
pub(crate) fn below(folder: &Path) -> BTreeMap<PathBuf, Snapshot> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.display().to_string().ends_with(".pinch") {
                continue;
            }
            let found = snapshot(&path);
            if found.kind == "directory" {
                folders.push(path.clone());
            }
            all.insert(path, found);
        }
    }
    all
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Calls `pinch` with the machine's configuration.
pub(crate) fn pinch(machine: &Machine, words: &[&str]) -> Output {
    let mut command = Command::new(pinch_program());
    in_recorded_environment(&mut command)
        .env("SALT_CONFIG_DIR", machine.0.path().join("etc"))
        .args(words)
        .current_dir(machine.0.path())
        .output()
        .unwrap()
}

/// Returns the exit code and the output.
pub(crate) fn code_and_text(output: &Output) -> (Option<i32>, String) {
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.code(), said)
}

/// Returns the plan of an undo as data.
pub(crate) fn planned(machine: &Machine, words: &[&str]) -> Value {
    let output = pinch(
        machine,
        &[&["undo", "--dry-run", "--out=json"], words].concat(),
    );
    let plan = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {:?}", code_and_text(&output)));
    hold_to(
        include_str!("../../../packaging/schemas/undo.schema.json"),
        &plan,
    );
    plan
}

/// Returns the recorded job ids, the oldest first.
pub(crate) fn jids(machine: &Machine) -> Vec<String> {
    let output = pinch(machine, &["runs", "list", "--out=json"]);
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = listed.as_array().unwrap().iter();
    runs.map(|run| run["jid"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the folder with the contents that a run keeps.
pub(crate) fn kept(machine: &Machine, jid: &str) -> PathBuf {
    let runs = "root/var/cache/salt/minion/runs";
    machine.0.path().join(runs).join(format!("kept.{jid}"))
}
