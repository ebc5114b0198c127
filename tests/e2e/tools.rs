//! State modules that manage data of other programs, where no recorded case can cover them.

use std::process::{Command, Stdio};

use serde_json::Value;
use tests::program::{copy_program, salt_call};
use tests::scratch::Scratch;

/// Runs one state and returns its return.
fn single(scratch: &Scratch, words: &[&str]) -> Value {
    let words = ["--local", "--out=json", "state.single"]
        .iter()
        .chain(words);
    let words: Vec<String> = words.map(|word| scratch.filled(word)).collect();
    let answer = salt_call(scratch.path(), &words).unwrap();
    let all: Value = serde_json::from_str(&answer.out).unwrap();
    all["local"]
        .as_object()
        .unwrap()
        .values()
        .next()
        .unwrap()
        .clone()
}

#[test]
fn a_process_that_must_not_be_is_ended() {
    let scratch = Scratch::new();
    let program = scratch.tmp().join("sleeper");
    copy_program("/bin/sleep".as_ref(), &program);
    let mut child = Command::new(&program)
        .arg("600")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let ret = single(&scratch, &["process.absent", "@TMP@/sleeper", "signal=9"]);
    assert_eq!(ret["comment"], "Killed 1 processes");
    assert_eq!(ret["changes"]["killed"][0], child.id());
    assert!(!child.wait().unwrap().success());
    let ret = single(&scratch, &["process.absent", "@TMP@/sleeper"]);
    assert_eq!(ret["comment"], "No matching processes running");
}
