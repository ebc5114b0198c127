//! The connection to a MySQL or MariaDB server, with its client program.

use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::Value;

use super::{Failure, client, run};
use crate::exec::mysql::Conn;

/// A MySQL or MariaDB server, with the login and the database.
pub(crate) struct Server {
    conn: Conn,
    timeout: Value,
}

impl Server {
    /// Returns a server. Statements may run for `timeout` seconds.
    ///
    /// # Errors
    /// When the client program is not installed.
    pub(crate) fn new(conn: Conn, timeout: Value) -> Result<Self, Error> {
        client(&["mariadb", "mysql"], "mariadb-client")?;
        Ok(Self { conn, timeout })
    }

    /// Runs statements, and returns what the client prints.
    ///
    /// # Errors
    /// When the client cannot be started, takes too long, prints too much or fails.
    pub(crate) fn run(
        &self,
        cx: &Exec,
        flags: &[&str],
        statements: &str,
    ) -> Result<String, Failure> {
        let (process, _file) = self.conn.process(flags, statements)?;
        let process = Process {
            timeout: Some(self.timeout.clone()),
            ..process
        };
        run(cx, &process)
    }
}
