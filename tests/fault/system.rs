//! Refusals by the operating system: closed readers, full disks, users without permission.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tests::program::{copy_program, program};
use tests::scratch::Scratch;

fn salt_call(dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(&program()[0]);
    command
        .args(&program()[1..])
        .arg("-c")
        .arg(dir.join("etc"))
        .arg("--local")
        .args(words)
        .stdin(Stdio::null());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_reader_that_is_gone_is_no_error() {
    let scratch = Scratch::new();
    let mut command = salt_call(scratch.path(), &["test.echo", "a word"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.stdout(writer).stderr(Stdio::piped());
    let output = output.spawn().unwrap().wait_with_output().unwrap();
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_full_disk_under_the_output_is_an_error() {
    let scratch = Scratch::new();
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = salt_call(scratch.path(), &["test.ping"]);
    let output = command.stdout(full()).output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    assert!(
        stderr(&output).contains("No space left on device"),
        "{}",
        stderr(&output)
    );
    let words = ["--out-file=/dev/full", "test.ping"];
    let output = salt_call(scratch.path(), &words).output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    let told = stderr(&output);
    assert!(
        told.contains("/dev/full") && told.contains("No space left on device"),
        "{told}"
    );
}

#[test]
fn a_full_disk_under_the_log_stops_nothing() {
    let scratch = Scratch::new();
    let words = [
        "--log-file=/dev/full",
        "--log-file-level=debug",
        "test.ping",
    ];
    let output = salt_call(scratch.path(), &words).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "local:\n    True\n"
    );
}

#[test]
fn a_user_who_may_not_write_is_told_which_file() {
    let scratch = Scratch::new();
    scratch.write(
        "srv/salt/files.sls",
        "@TMP@/a.conf:\n  file.managed:\n    - contents: a\n",
    );
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if rustix::process::geteuid().is_root() {
        // Only root may enter the program's folder, so the unprivileged user runs a copy.
        let copy = scratch.path().join("pinch");
        copy_program(Path::new(&program()[0]), &copy);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        let output = command
            .arg(copy)
            .args(&program()[1..])
            .arg("-c")
            .arg(scratch.path().join("etc"))
            .args(["--local", "state.apply", "files"])
            .output()
            .unwrap();
        refused(&output, &scratch);
    } else {
        fs::set_permissions(
            scratch.path().join("root"),
            fs::Permissions::from_mode(0o555),
        )
        .unwrap();
        let words = ["state.apply", "files"];
        refused(
            &salt_call(scratch.path(), &words).output().unwrap(),
            &scratch,
        );
    }
}

fn refused(output: &Output, scratch: &Scratch) {
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(output);
    let root = scratch.path().join("root").display().to_string();
    let all = told + &String::from_utf8_lossy(&output.stdout);
    assert!(
        all.contains("Permission denied") && all.contains(&root),
        "{all}"
    );
}
