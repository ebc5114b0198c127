//! Reports the commands that are run in login shells. It traces the shells with `strace`.

use std::collections::BTreeMap;

use value::{Map, Value};

use super::follow::{Follow, Output};
use super::{Ask, Beacon, Settings};

const PROGRAM: &str = "strace";

/// The maximum number of shells that are traced at a time.
const SHELLS_MAX: usize = 64;

struct Traced {
    user: String,
    trace: Follow,
}

/// The traced shells, by their process ids.
struct Sh(BTreeMap<String, Traced>);

pub(super) fn make(_settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    Ok(Box::new(Sh(BTreeMap::new())))
}

/// Returns the process ids of the running login shells, with their users.
fn running(shells: &[String], processes: &Value) -> Vec<(String, String)> {
    let processes = processes.as_map().into_iter().flat_map(Map::iter);
    let shown = |process: &Value, what: &str| process.get(what).map(Value::to_text);
    processes
        .filter_map(|(pid, process)| {
            let line = shown(process, "cmd")?;
            let line = line.trim_start_matches('-');
            let is_shell = !line.is_empty() && shells.iter().any(|shell| shell.contains(line));
            is_shell.then(|| (pid.to_text(), shown(process, "user").unwrap_or_default()))
        })
        .collect()
}

/// Returns the event of a traced command, from a line of the trace: `execve("/bin/ls", ["ls",
/// "-l"], …) = 0`.
fn command(pid: &str, user: &str, line: &str) -> Option<Map> {
    let (_, call) = line.split_once("execve")?;
    let call = call.split("execve").next().unwrap_or_default();
    let mut quoted = call.split('"').skip(1).step_by(2);
    let cmd = quoted.next();
    let args = Value::list(quoted.map(Value::from));
    let mut told = Map::new().with("args", args).with("tag", pid);
    if let Some(cmd) = cmd {
        told.insert("cmd", cmd);
    }
    Some(told.with("user", user))
}

impl Sh {
    /// Begins to trace new shells.
    fn trace(&mut self, ask: &Ask<'_>) -> Result<(), String> {
        let shells = ask("cmd.shells", Vec::new())?.texts();
        for (pid, user) in running(&shells, &ask("status.procs", Vec::new())?) {
            if self.0.len() < SHELLS_MAX && !self.0.contains_key(&pid) {
                let words = ["-f", "-e", "execve", "-p", &pid];
                let trace = Follow::start(PROGRAM, &words, Output::Stderr)?;
                self.0.insert(pid, Traced { user, trace });
            }
        }
        Ok(())
    }
}

impl Beacon for Sh {
    fn poll(&mut self, ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        self.trace(ask)?;
        let mut told = Vec::new();
        for (pid, traced) in &mut self.0 {
            let lines = traced.trace.lines();
            let commands = lines
                .iter()
                .filter_map(|line| command(pid, &traced.user, line));
            told.extend(commands);
        }
        self.0.retain(|_, traced| !traced.trace.has_ended());
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(value: impl Into<Value>) -> String {
        value::json::write(&value.into(), Default::default())
    }

    /// Compares with Salt's beacon, which parses the same lines.
    #[test]
    fn a_line_of_a_trace_is_a_command() {
        let cases = [
            (
                r#"execve("/bin/ls", ["ls", "-l", "a b"], 0x7ffd /* 20 vars */) = 0"#,
                r#"{"args": ["ls", "-l", "a b"], "tag": "7", "cmd": "/bin/ls", "user": "root"}"#,
            ),
            (
                r#"[pid 12] execve("/bin/true", ["true"], 0x1 /* 2 vars */ <unfinished ...>"#,
                r#"{"args": ["true"], "tag": "7", "cmd": "/bin/true", "user": "root"}"#,
            ),
            (
                "[pid 12] <... execve resumed>) = 0",
                r#"{"args": [], "tag": "7", "user": "root"}"#,
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(json(command("7", "root", line).unwrap()), expected);
        }
        assert_eq!(command("7", "root", "strace: Process 7 attached"), None);
    }

    #[test]
    fn login_shells_are_found_by_their_command_lines() {
        let processes = r#"{"1": {"user": "root", "cmd": "-bash"}, "2": {"user": "a", "cmd": "sh"}, "3": {"user": "a", "cmd": "bash -c x"},
            "4": {"user": "a", "cmd": ""}, "5": {"user": "b", "cmd": "/bin/bash"}}"#;
        let processes = value::json::read(processes).unwrap();
        let shells = ["/bin/sh".to_owned(), "/bin/bash".to_owned()];
        let found = running(&shells, &processes);
        let pids: Vec<&str> = found.iter().map(|(pid, _)| pid.as_str()).collect();
        assert_eq!(pids, ["1", "2", "5"]);
    }
}
