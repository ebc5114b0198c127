//! The connection to a PostgreSQL server, with the program `psql`.

use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{Failure, client, run};
use crate::exec::postgres::program;

/// A PostgreSQL server, with the login and the database.
pub(crate) struct Server {
    psql: String,
    env: Map,
    timeout: Value,
}

impl Server {
    /// Returns a server. `env` has its variables of libpq (`PGHOST`, `PGPASSWORD` and so on), and a
    /// script may run for `timeout` seconds.
    ///
    /// # Errors
    /// When `psql` is not installed.
    pub(crate) fn new(cx: &Exec, env: Map, timeout: Value) -> Result<Self, Error> {
        let psql = match program(cx, "psql") {
            Some(psql) => psql,
            None => client(&["psql"], "postgresql-client")?,
        };
        let env = env.with("PGCLIENTENCODING", "UTF8");
        Ok(Self { psql, env, timeout })
    }

    /// Runs a script, and returns what `psql` prints. The password is in its environment, which only
    /// the same account can read.
    ///
    /// # Errors
    /// When `psql` cannot be started, takes too long, prints too much or fails.
    pub(crate) fn run(&self, cx: &Exec, script: String) -> Result<String, Failure> {
        let words = [
            &self.psql,
            "--no-psqlrc",
            "--no-password",
            "--quiet",
            "--tuples-only",
            "--csv",
            "--set=ON_ERROR_STOP=1",
            "--file=-",
        ];
        let process = Process {
            stdin: Some(script),
            rstrip: false,
            timeout: Some(self.timeout.clone()),
            env: self.env.clone(),
            ..Process::words(words).quiet()
        };
        run(cx, &process)
    }
}

/// Returns the first sentence of the program without the place in its input.
pub(crate) fn reason(stderr: &str) -> String {
    let line = stderr.lines().find(|line| !line.is_empty());
    let line = line.unwrap_or_default();
    let place = line.find("ERROR:  ").or_else(|| line.find("FATAL:  "));
    let reason = place.and_then(|place| line.get(place..)).unwrap_or(line);
    reason.replace(":  ", ": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_no_place_and_no_text_of_the_query() {
        let said = "psql:<stdin>:7: ERROR:  relation \"t\" does not exist\nLINE 1: SELECT 'key'";
        assert_eq!(reason(said), "ERROR: relation \"t\" does not exist");
    }
}
