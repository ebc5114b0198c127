//! Two runs at the same time, and runs that are ended from outside.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::os::unix::process::CommandExt as _;
use tests::program::program;
use tests::scratch::Scratch;
use tests::terminal::terminal;

const LONG: &str = "\
long:
  cmd.run:
    - name: true > @TMP@/begun; sleep 30; true
";
const SHORT: &str = "short:\n  test.succeed_without_changes\n";

fn machine() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("srv/salt/long.sls", LONG);
    scratch.write("srv/salt/short.sls", SHORT);
    scratch
}

fn salt_call(dir: &Path, words: &[&str]) -> Command {
    // The process that starts the tests in the background may have made them ignore SIGINT.
    let mut command = Command::new("env");
    command
        .arg("--default-signal=INT")
        .args(program())
        .arg("-c")
        .arg(dir.join("etc"))
        .arg("--local")
        .args(words)
        .stdin(Stdio::null())
        .process_group(0);
    command
}

/// A run that holds the lock for 30 seconds, unless it is ended earlier.
struct Holder(Child);

impl Holder {
    fn start(scratch: &Scratch) -> Self {
        Self::reading(scratch, Stdio::null())
    }

    fn reading(scratch: &Scratch, stdin: Stdio) -> Self {
        let mut command = salt_call(scratch.path(), &["state.apply", "long", "--out=json"]);
        let stderr = fs::File::create(scratch.tmp().join("stderr")).unwrap();
        let child = command.stdin(stdin).stdout(Stdio::null()).stderr(stderr);
        let holder = Self(child.spawn().unwrap());
        waited("the run begins", || scratch.tmp().join("begun").exists());
        holder
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.0.wait();
    }
}

fn waited(what: &str, done: impl Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "{what}: did not happen within 20 s"
        );
        sleep(Duration::from_millis(5));
    }
}

fn short(scratch: &Scratch, words: &[&str]) -> Output {
    let words = [&["state.apply", "short", "--out=json"], words].concat();
    salt_call(scratch.path(), &words).output().unwrap()
}

#[test]
fn a_second_run_is_refused_with_salts_sentence() {
    let scratch = machine();
    let holder = Holder::start(&scratch);
    let refused = short(&scratch, &[]);
    let said = String::from_utf8(refused.stdout).unwrap();
    let sentence = format!(
        "The function \\\"state.apply\\\" is running as PID {} and was started at ",
        holder.0.id()
    );
    assert!(
        said.contains(&sentence) && said.contains(" with jid "),
        "{said}"
    );
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn a_concurrent_run_goes_beside() {
    let scratch = machine();
    let _holder = Holder::start(&scratch);
    let done = short(&scratch, &["concurrent=True"]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
}

#[test]
fn a_queued_run_waits_and_goes_when_the_holder_is_killed() {
    let scratch = machine();
    let holder = Holder::start(&scratch);
    let words = ["state.apply", "short", "queue=True", "--out=json"];
    let mut command = salt_call(scratch.path(), &words);
    let mut queued = command.stdout(Stdio::null()).spawn().unwrap();
    sleep(Duration::from_millis(500));
    assert!(
        queued.try_wait().unwrap().is_none(),
        "the command did not wait"
    );
    kill_process(holder.pid(), Signal::KILL).unwrap();
    let started = Instant::now();
    assert_eq!(queued.wait().unwrap().code(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn what_a_killed_run_held_is_free_at_once() {
    let scratch = machine();
    let mut holder = Holder::start(&scratch);
    kill_process(holder.pid(), Signal::KILL).unwrap();
    holder.0.wait().unwrap();
    let done = short(&scratch, &[]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
}

/// Returns the processes whose command line contains this text.
fn running(text: &str) -> usize {
    let folders = fs::read_dir("/proc").unwrap().flatten();
    let lines = folders.filter_map(|folder| fs::read(folder.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(text))
        .count()
}

#[test]
fn a_run_interrupted_at_a_terminal_ends_with_its_children_and_its_record_reads() {
    let scratch = machine();
    let (_screen, keyboard) = terminal(80);
    let mut holder = Holder::reading(&scratch, keyboard.into());
    let child = format!("true > {}/begun; sleep 30", scratch.tmp().display());
    assert!(running(&child) > 0);
    // As a terminal does: the signal goes to all that run in the foreground.
    kill_process_group(holder.pid(), Signal::INT).unwrap();
    let started = Instant::now();
    let status = holder.0.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    let said = fs::read_to_string(scratch.tmp().join("stderr")).unwrap();
    let etc = scratch.path().join("etc").display().to_string();
    // The command gets the signal, too: the state may have failed before the run noticed its own.
    assert!(said.contains("Interrupted: "), "{said}");
    let expected = format!(
        " of 1 states done.\nContinue: salt-call -c {etc} --local state.apply long --out=json --resume\nUndo: pinch undo -c {etc} 20"
    );
    assert!(said.contains(&expected), "{said}");
    waited("the command ends", || running(&child) == 0);
    assert!(started.elapsed() < Duration::from_secs(5));
    let words = ["saltutil.runner", "jobs.list_jobs", "--out=json"];
    let jobs = salt_call(scratch.path(), &words).output().unwrap();
    let listed = String::from_utf8(jobs.stdout).unwrap();
    assert!(listed.contains("\"Function\": \"state.apply\""), "{listed}");
    assert_eq!(short(&scratch, &[]).status.code(), Some(0));
}
