//! Updates of a repository of gitfs that are killed at any system call, of the program or of git, or
//! in which one reports a full or broken disk. Afterwards the files of the old or of the new commit
//! are served, also if the repository cannot be reached, and the next update works.

use std::fs;
use std::path::Path;

use tests::git::git;
use tests::program::salt_call;
use tests::scratch::Scratch;

use super::inject::{BROKEN, FULL, KILLED, Subject};

static UPDATE: Subject = Subject {
    prepare,
    words: &["cp.list_master"],
    survives,
};

/// Makes a commit whose files all have the same text, and one file that only this commit has.
fn commit(folder: &Path, version: &str) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    for name in ["a.txt", "b.txt", version] {
        fs::write(folder.join(name), version).unwrap();
    }
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--message", version]);
}

/// Returns the words of a function.
fn words(function: &[&str]) -> Vec<String> {
    let more = ["--out=json", "--log-level=error"];
    function
        .iter()
        .chain(&more)
        .map(ToString::to_string)
        .collect()
}

/// Returns a machine that has fetched a commit, after which there is another one.
fn prepare() -> Scratch {
    let scratch = Scratch::new();
    let origin = scratch.tmp().join("origin");
    fs::create_dir_all(&origin).unwrap();
    git(&origin, &["init", "--quiet", "--initial-branch=master"]);
    commit(&origin, "old");
    let config = format!(
        "fileserver_backend: [gitfs]\ngitfs_remotes: ['file://{}']\ngitfs_update_interval: 0\n",
        origin.display()
    );
    let path = scratch.path().join("etc/minion.d/git.conf");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, config).unwrap();
    assert_eq!(served(&scratch).unwrap(), "old");
    commit(&origin, "new");
    scratch
}

/// Returns the version whose files are served.
fn served(scratch: &Scratch) -> Result<String, String> {
    let asked = |function: &[&str]| {
        let answer = salt_call(scratch.path(), &words(function))?;
        let json: serde_json::Value = serde_json::from_str(&answer.out).unwrap_or_default();
        match answer.rc {
            Some(0) => Ok(json["local"].clone()),
            _ => Err(format!("{function:?} failed: {}", answer.out)),
        }
    };
    let text = asked(&["cp.get_file_str", "salt://a.txt"])?;
    let version = text.as_str().unwrap_or_default().to_owned();
    let other = asked(&["cp.get_file_str", "salt://b.txt"])?;
    let files = asked(&["cp.list_master"])?;
    match other == text && files == serde_json::json!(["a.txt", "b.txt", version]) {
        true => Ok(version),
        false => Err(format!(
            "a.txt is {text}, b.txt is {other}, the files are {files}"
        )),
    }
}

fn survives(scratch: &Scratch, _at: usize) -> Result<(), String> {
    let (origin, away) = (scratch.tmp().join("origin"), scratch.tmp().join("away"));
    fs::rename(&origin, &away).unwrap();
    let version = served(scratch)?;
    if !["old", "new"].contains(&version.as_str()) {
        return Err(format!("the files of {version:?} are served"));
    }
    fs::rename(&away, &origin).unwrap();
    match served(scratch)?.as_str() {
        "new" => Ok(()),
        version => Err(format!(
            "after the next update, the files of {version:?} are served"
        )),
    }
}

#[test]
fn an_update_of_gitfs_that_is_killed_at_any_call_leaves_a_whole_commit() {
    for (call, step) in [("rename", 1), ("fsync", 1), ("write", 2), ("openat", 12)] {
        UPDATE.meets(call, KILLED, step);
    }
}

#[test]
fn an_update_of_gitfs_on_a_full_or_broken_disk_leaves_a_whole_commit() {
    for fault in [FULL, BROKEN] {
        for (call, step) in [("rename", 1), ("fsync", 2), ("write", 7)] {
            UPDATE.meets(call, fault, step);
        }
    }
}
