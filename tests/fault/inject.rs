//! Commands in which a system call fails, or that are killed at one.

use std::collections::HashMap;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tests::program::program;
use tests::scratch::Scratch;

pub(crate) const KILLED: &str = "signal=KILL";
pub(crate) const FULL: &str = "error=ENOSPC";
pub(crate) const BROKEN: &str = "error=EIO";

/// A command of `salt-call --local`, and the conditions that hold whatever happens to it.
pub(crate) struct Subject {
    /// Prepares a machine.
    pub(crate) prepare: fn() -> Scratch,
    pub(crate) words: &'static [&'static str],
    /// Checks a machine on which the command had a fault at the call with this number.
    pub(crate) survives: fn(&Scratch, usize) -> Result<(), String>,
}

impl Subject {
    /// Runs the command under `strace` with these options.
    fn traced(&self, scratch: &Scratch, options: &[String]) {
        let dir = scratch.path();
        let traced = Command::new("strace")
            .args(["-f", "--seccomp-bpf", "-qq", "-o"])
            .arg(dir.join("trace"))
            .args(options)
            .args(program())
            .arg("-c")
            .arg(dir.join("etc"))
            .arg("--local")
            .args(self.words)
            .stdin(Stdio::null())
            .stdout(fs::File::create(dir.join("stdout")).unwrap())
            .stderr(fs::File::create(dir.join("stderr")).unwrap())
            .status();
        traced.expect("strace is needed: apt-get install strace");
    }

    /// Returns how often the command makes a system call, in the thread that makes the most of them.
    fn calls(&self, call: &str) -> usize {
        let scratch = (self.prepare)();
        self.traced(&scratch, &["-e".to_owned(), format!("trace={call}")]);
        let trace = fs::read_to_string(scratch.path().join("trace")).unwrap();
        let mut counts = HashMap::<&str, usize>::new();
        let named = format!(" {call}(");
        for line in trace.lines().filter(|line| line.contains(&named)) {
            *counts.entry(line.split(' ').next().unwrap()).or_default() += 1;
        }
        let count = counts.into_values().max().unwrap_or(0);
        let said = fs::read_to_string(scratch.path().join("stderr")).unwrap();
        assert!(
            count > 0,
            "strace reports no {call}; is this user allowed to trace processes? {said}"
        );
        count
    }

    /// Lets the command meet `fault` at each (or every `step`-th) call of this name.
    pub(crate) fn meets(&self, call: &str, fault: &str, step: usize) {
        let last = self.calls(call);
        let (next, failures) = (AtomicUsize::new(1), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(step, Ordering::Relaxed);
                        if at > last {
                            break;
                        }
                        let scratch = (self.prepare)();
                        let inject = format!("inject={call}:{fault}:when={at}");
                        self.traced(&scratch, &["-e".to_owned(), inject]);
                        if let Err(why) = (self.survives)(&scratch, at) {
                            let mut failures = failures.lock().unwrap();
                            failures.push(format!("{call} {at} of {last}, {fault}: {why}"));
                        }
                    }
                });
            }
        });
        let failures = failures.into_inner().unwrap();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}
