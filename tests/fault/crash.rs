//! Runs that are killed at any system call, or in which any system call reports a full or broken
//! disk. Afterwards each file is old or new, the record is readable, and the next run completes the
//! work.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tests::program::{pinch_program, salt_call};
use tests::scratch::Scratch;

use super::inject::{BROKEN, FULL, KILLED, Subject};

const FILES: usize = 20;

/// Every other file is there before the run, with other contents.
const SLS: &str = "\
{% for n in range(20) %}
@TMP@/{{ n }}.conf:
  file.managed:
    - mode: '0644'
    - contents: |
        {%- for line in range(200) %}
        new {{ n }} line {{ line }}
        {%- endfor %}
{% endfor %}
";

fn contents(word: &str, n: usize) -> String {
    (0..200)
        .map(|line| format!("{word} {n} line {line}\n"))
        .collect()
}

fn machine() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("srv/salt/files.sls", SLS);
    for n in (0..FILES).step_by(2) {
        fs::write(file(&scratch, n), contents("old", n)).unwrap();
    }
    scratch
}

fn file(scratch: &Scratch, n: usize) -> PathBuf {
    scratch.tmp().join(format!("{n}.conf"))
}

/// A run of the files' SLS.
static RUN: Subject = Subject {
    prepare: machine,
    words: &["state.apply", "files"],
    survives,
};

fn meets(call: &str, fault: &str, step: usize) {
    RUN.meets(call, fault, step);
}

fn survives(scratch: &Scratch, at: usize) -> Result<(), String> {
    for n in 0..FILES {
        check_file(scratch, n)?;
    }
    if at.is_multiple_of(2) {
        undone(scratch)?;
    }
    let words = |words: [&str; 3]| words.map(str::to_owned);
    let listed = words(["saltutil.runner", "jobs.list_jobs", "--out=json"]);
    let jobs = salt_call(scratch.path(), &listed)?;
    if jobs.rc != Some(0) {
        return Err(format!("cannot list the records: {}", jobs.out));
    }
    let again = salt_call(
        scratch.path(),
        &words(["state.apply", "files", "--out=json"]),
    )?;
    if again.rc != Some(0) {
        return Err(format!("the next run failed: {}", again.out));
    }
    for n in 0..FILES {
        if fs::read_to_string(file(scratch, n)).unwrap() != contents("new", n) {
            return Err(format!("file {n} is not new after the next run"));
        }
    }
    let left = fs::read_dir(scratch.tmp()).unwrap().count();
    if left != FILES {
        return Err(format!("{} unexpected files are left", left - FILES));
    }
    Ok(())
}

/// Undoes the run. Fails unless each file is the same as before the run, or the output says why it
/// cannot be.
fn undone(scratch: &Scratch) -> Result<(), String> {
    let output = Command::new(pinch_program())
        .args(["undo", "last", "--yes", "-c"])
        .arg(scratch.path().join("etc"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    let told = fs::read_to_string(scratch.path().join("stderr")).unwrap();
    if told.contains("cannot record this run") || told.contains("which lacks lines") {
        return Ok(());
    }
    for n in 0..FILES {
        let path = file(scratch, n);
        let before = n.is_multiple_of(2).then(|| contents("old", n));
        if fs::read_to_string(&path).ok() != before
            && !said.contains(&format!("! {}: ", path.display()))
        {
            return Err(format!("file {n} is not restored: {said}{errors}"));
        }
    }
    Ok(())
}

/// A file is old or new; one that was not there may still not be.
fn check_file(scratch: &Scratch, n: usize) -> Result<(), String> {
    match fs::read_to_string(file(scratch, n)) {
        Ok(text) if text == contents("new", n) => Ok(()),
        Ok(text) if n.is_multiple_of(2) && text == contents("old", n) => Ok(()),
        Err(_) if !n.is_multiple_of(2) => Ok(()),
        Ok(text) => Err(format!("file {n} is torn: {} bytes", text.len())),
        Err(error) => Err(format!("file {n} is lost: {error}")),
    }
}

#[test]
fn killed_at_a_write() {
    meets("write", KILLED, 1);
}

#[test]
fn killed_at_a_rename() {
    meets("rename", KILLED, 1);
}

#[test]
fn killed_at_an_fsync() {
    meets("fsync", KILLED, 1);
}

#[test]
fn killed_at_an_open() {
    meets("openat", KILLED, 1);
}

#[test]
fn a_full_disk_at_a_write() {
    meets("write", FULL, 1);
}

#[test]
fn a_full_disk_at_a_rename() {
    meets("rename", FULL, 1);
}

#[test]
fn a_full_disk_at_an_fsync() {
    meets("fsync", FULL, 1);
}

#[test]
fn a_full_disk_at_an_open() {
    meets("openat", FULL, 3);
}

#[test]
fn a_broken_disk_at_a_write() {
    meets("write", BROKEN, 1);
}

#[test]
fn a_broken_disk_at_a_rename() {
    meets("rename", BROKEN, 1);
}

#[test]
fn a_broken_disk_at_an_fsync() {
    meets("fsync", BROKEN, 1);
}

#[test]
fn a_broken_disk_at_an_open() {
    meets("openat", BROKEN, 3);
}
