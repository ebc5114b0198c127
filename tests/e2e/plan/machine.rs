//! A machine in a folder: a tree, a pillar, a minion's configuration, and a folder for the states.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use tests::program::{in_recorded_environment, pinch_program};

/// A snapshot of a path: a folder with its mode, a link's target, or a file with its mode and
/// contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Snapshot {
    Folder(u32),
    Link(PathBuf),
    File(u32, Vec<u8>),
}

pub(super) struct Machine(TempDir);

impl Machine {
    pub(super) fn new() -> Self {
        let machine = Self(TempDir::new().unwrap());
        for folder in ["salt", "pillar", "etc", "out", "root"] {
            fs::create_dir(machine.path(folder)).unwrap();
        }
        let here = machine.path("");
        let here = here.display().to_string();
        let here = here.trim_end_matches('/');
        machine.put(
            "etc/minion",
            &format!(
                "file_client: local\nid: here\nroot_dir: {here}/root\nfile_roots: {{base: [{here}/salt]}}\npillar_roots: {{base: [{here}/pillar]}}\n"
            ),
        );
        machine.put("pillar/top.sls", "base: {'*': [p]}\n");
        machine.put("pillar/p.sls", "who: world\n");
        machine
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(path)
    }

    /// Writes a file; `OUT` in it is the folder that states work in.
    pub(super) fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let out = self.path("out").display().to_string();
        fs::write(path, text.replace("OUT", &out)).unwrap();
    }

    pub(super) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub(super) fn chmod(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), Permissions::from_mode(mode)).unwrap();
    }

    pub(super) fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(pinch_program());
        in_recorded_environment(&mut command)
            .args(words)
            .current_dir(self.path(""))
            .output()
            .unwrap()
    }

    /// Plans into `plan.json`. Returns the exit code and the plan.
    pub(super) fn plan(&self, words: &[&str]) -> (i32, Value) {
        let mut all = vec!["plan", "-c", "etc", "--out=json", "-o", "plan.json"];
        all.extend(words);
        let output = self.run(&all);
        let plan = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr))
        });
        (output.status.code().unwrap(), plan)
    }

    pub(super) fn apply(&self) -> (i32, String, String) {
        let output = self.run(&["apply", "plan.json", "--out=json"]);
        let code = output.status.code().unwrap();
        (code, text(&output.stdout), text(&output.stderr))
    }

    /// Returns a snapshot of every path in the folder in which states work.
    pub(super) fn snapshot(&self) -> BTreeMap<PathBuf, Snapshot> {
        let mut all = BTreeMap::new();
        let out = self.path("out");
        look(&out, &out, &mut all);
        all
    }

    /// Restores that folder from a snapshot.
    pub(super) fn restore(&self, all: &BTreeMap<PathBuf, Snapshot>) {
        let out = self.path("out");
        fs::remove_dir_all(&out).unwrap();
        fs::create_dir(&out).unwrap();
        for (path, lies) in all {
            let path = out.join(path);
            match lies {
                Snapshot::Folder(mode) => {
                    if !path.is_dir() {
                        fs::create_dir(&path).unwrap();
                    }
                    fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
                }
                Snapshot::Link(target) => symlink(target, &path).unwrap(),
                Snapshot::File(mode, contents) => {
                    fs::write(&path, contents).unwrap();
                    fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
                }
            }
        }
    }
}

fn look(out: &Path, folder: &Path, all: &mut BTreeMap<PathBuf, Snapshot>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let found = path.symlink_metadata().unwrap();
        let mode = found.mode() & 0o7777;
        let lies = if found.is_symlink() {
            Snapshot::Link(fs::read_link(&path).unwrap())
        } else if found.is_dir() {
            look(out, &path, all);
            Snapshot::Folder(mode)
        } else {
            Snapshot::File(mode, fs::read(&path).unwrap())
        };
        all.insert(path.strip_prefix(out).unwrap().to_path_buf(), lies);
    }
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the state with this id and function from a plan.
pub(super) fn state<'a>(plan: &'a Value, id: &str, function: &str) -> &'a Value {
    let mut states = plan["states"].as_array().unwrap().iter();
    states
        .find(|state| state["id"] == id && state["function"] == function)
        .unwrap_or_else(|| panic!("{id} {function} is missing in {plan:#}"))
}
