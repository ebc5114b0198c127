//! An SQLite database, with the program `sqlite3`.

use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::Value;

use super::{client, run};

/// A file with a database.
pub(crate) struct File {
    program: String,
    path: String,
    /// The seconds to wait for a lock.
    lock_seconds: f64,
    timeout: Value,
}

impl File {
    /// Returns a database. Statements wait for `lock_seconds` for a lock, and may run for `timeout`
    /// seconds.
    ///
    /// # Errors
    /// When the program is not installed.
    pub(crate) fn new(path: String, lock_seconds: f64, timeout: Value) -> Result<Self, Error> {
        // A name that begins with a dash would be an option.
        let path = match path.starts_with('-') {
            true => format!("./{path}"),
            false => path,
        };
        Ok(Self {
            program: client(&["sqlite3"], "sqlite3")?,
            path,
            lock_seconds,
            timeout,
        })
    }

    /// Runs statements, and returns what the program prints.
    ///
    /// # Errors
    /// When the program cannot be started, takes too long, prints too much or fails.
    pub(crate) fn run(
        &self,
        cx: &Exec,
        flags: &[&str],
        statements: String,
    ) -> Result<String, Error> {
        let lock = format!(".timeout {:.0}", self.lock_seconds * 1000.0);
        let fixed = ["-batch", "-bail", "-init", "/dev/null", "-cmd", &lock];
        let program = [self.program.as_str()];
        let path = [self.path.as_str()];
        let words = program.iter().chain(flags).chain(&fixed).chain(&path);
        let process = Process {
            stdin: Some(statements),
            rstrip: false,
            timeout: Some(self.timeout.clone()),
            ..Process::words(words.copied()).quiet()
        };
        run(cx, &process).map_err(|failure| {
            let reason = failure.into_error(reason);
            Error::refused(format!("{}: {}", self.path, reason.sentence()))
        })
    }
}

/// Returns the message of the program without the place in its input.
fn reason(stderr: &str) -> String {
    let line = stderr.lines().next().unwrap_or_default();
    let line = line.split_once(" near line ").map_or(line, |(_, rest)| {
        rest.split_once(": ").map_or(rest, |(_, reason)| reason)
    });
    line.trim_start_matches("Error: ").to_owned()
}

/// Returns a text as a literal of SQL.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_no_place_of_the_input() {
        assert_eq!(
            reason("Parse error near line 1: no such table: t\n  SELECT"),
            "no such table: t"
        );
        assert_eq!(
            reason("Error: unable to open database \"x\": unable"),
            "unable to open database \"x\": unable"
        );
    }
}
