//! The `postgres` execution module: PostgreSQL through its own client, `psql`.

pub(crate) mod cluster;
pub(crate) mod database;
pub(crate) mod extension;
pub(crate) mod password;
pub(crate) mod privileges;
pub(crate) mod role;
pub(crate) mod schema;

use std::path::Path;

use machine::process::{self, Output, Process};
use state::exec::Exec;
use state::facts::Missing;
use state::module::Error;
use value::{Map, Value, log};

use crate::exec::config;

state::exec_module! {
    /// Manage PostgreSQL with `psql`.
    #[module(virtual_ = missing)]
    mod postgres;

    /// Return the rows of a query, a dictionary for each row.
    ///
    ///     salt-call postgres.psql_query 'SELECT count(*) FROM orders' maintenance_db=shop
    fn psql_query(PsqlQuery {
        /// The query.
        query: String,
        #[group] server: Connection,
        /// True if the query changes data.
        write: bool = false,
    });

    /// Return the version of the server.
    ///
    ///     salt-call postgres.version
    fn version(Version {
        #[group] server: Connection,
    });
}

/// The settings of a connection. Each one that is not set comes from the option `postgres.user`,
/// `postgres.host` and so on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conn {
    pub user: Option<String>,
    pub host: Option<String>,
    pub port: Option<String>,
    pub maintenance_db: Option<String>,
    pub password: Option<String>,
    /// The system account that runs the client.
    pub runas: Option<String>,
}

state::argument_group! {
    /// The server, and the role that connects to it.
    pub(crate) struct Server {
        /// The role that connects.
        user: Option<String> = None,
        /// The host, or the folder of the socket.
        host: Option<String> = None,
        /// The port.
        port: Option<String> = None,
        /// The database to connect to.
        maintenance_db: Option<String> = None,
        /// The password of the role that connects.
        password: Option<String> = None,
    }
}

state::argument_group! {
    /// The server, and the accounts that connect to it.
    pub(crate) struct Connection {
        #[group] server: Server,
        /// The system account that runs the client.
        runas: Option<String> = None,
    }
}

state::argument_group! {
    /// The server, and the accounts that connect to a given database of it.
    pub(crate) struct Login {
        /// The role that connects.
        user: Option<String> = None,
        /// The host, or the folder of the socket.
        host: Option<String> = None,
        /// The port.
        port: Option<String> = None,
        /// The password of the role that connects.
        password: Option<String> = None,
        /// The system account that runs the client.
        runas: Option<String> = None,
    }
}

state::argument_group! {
    /// The role that connects, and the server, with the names and order of the functions for schemas
    /// and extensions.
    pub(crate) struct DbLogin {
        /// The role that connects.
        db_user: Option<String> = None,
        /// The password of the role that connects.
        db_password: Option<String> = None,
        /// The host, or the folder of the socket.
        db_host: Option<String> = None,
        /// The port.
        db_port: Option<String> = None,
    }
}

impl Server {
    /// Returns the connection of a system account.
    fn conn(self, runas: Option<String>) -> Conn {
        Conn {
            user: self.user,
            host: self.host,
            port: self.port,
            maintenance_db: self.maintenance_db,
            password: self.password,
            runas,
        }
    }
}

impl Connection {
    fn conn(self) -> Conn {
        self.server.conn(self.runas)
    }
}

impl Login {
    /// Returns the connection to a database.
    fn conn(self, maintenance_db: Option<String>) -> Conn {
        Conn {
            user: self.user,
            host: self.host,
            port: self.port,
            maintenance_db,
            password: self.password,
            runas: self.runas,
        }
    }
}

impl DbLogin {
    /// Returns the connection of a system account to a database.
    pub(crate) fn conn(self, runas: Option<String>, maintenance_db: Option<String>) -> Conn {
        Conn {
            user: self.db_user,
            host: self.db_host,
            port: self.db_port,
            maintenance_db,
            password: self.db_password,
            runas,
        }
    }
}

/// Returns whether a PostgreSQL program is installed.
pub(crate) fn has_program(cx: &Exec, name: &str) -> bool {
    // The PATH first: the option may be in the pillar, which would be compiled for it.
    process::which(name).is_some() || program(cx, name).is_some()
}

/// Returns what is missing without the client, or without Debian's programs for clusters.
fn missing(cx: &Exec, function: &str) -> Option<Missing> {
    if function.starts_with("cluster_") && process::which("pg_createcluster").is_none() {
        return Some(Missing::Function);
    }
    (!has_program(cx, "psql")).then(|| Missing::Module("psql was not found".to_owned()))
}

/// Returns the path of a PostgreSQL program, looked up in the folder of the option
/// `postgres.bins_dir`, then in the PATH.
pub(crate) fn program(cx: &Exec, name: &str) -> Option<String> {
    let folder = option(cx, "postgres.bins_dir").unwrap_or_default();
    let inside = Path::new(&folder).join(name);
    (!folder.is_empty())
        .then(|| process::which(&inside.to_string_lossy()))
        .flatten()
        .or_else(|| process::which(name))
}

/// Returns an option of the configuration, grains or pillar; empty if it is not set.
pub(crate) fn option(cx: &Exec, name: &str) -> Result<String, Error> {
    Ok(config::found(cx, name)?.to_text())
}

/// Returns the account that owns servers on this operating system.
fn owner(cx: &Exec) -> &'static str {
    match cx.grain("os_family").as_str() {
        "OpenBSD" => "_postgresql",
        _ => "postgres",
    }
}

fn timeout(cx: &Exec) -> Result<Option<Value>, Error> {
    let found = option(cx, "postgres.timeout")?;
    Ok((!found.is_empty()).then(|| found.into()))
}

/// Returns a name quoted as an SQL identifier.
pub(crate) fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns a text quoted as an SQL string.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Conn {
    fn or_option(cx: &Exec, given: &Option<String>, name: &str) -> Result<String, Error> {
        match given {
            Some(given) if !given.is_empty() => Ok(given.clone()),
            _ => option(cx, name),
        }
    }

    fn words(&self, cx: &Exec) -> Result<Vec<String>, Error> {
        let Some(psql) = program(cx, "psql") else {
            return Err("psql was not found".into());
        };
        let fixed = [
            "--no-align",
            "--no-readline",
            "--no-psqlrc",
            "--no-password",
        ];
        let mut words = vec![psql];
        words.extend(fixed.map(str::to_owned));
        for (flag, given, name) in [
            ("--username", &self.user, "postgres.user"),
            ("--host", &self.host, "postgres.host"),
            ("--port", &self.port, "postgres.port"),
        ] {
            let value = Self::or_option(cx, given, name)?;
            if !value.is_empty() {
                words.extend([flag.to_owned(), value]);
            }
        }
        let database = Self::or_option(cx, &self.maintenance_db, "postgres.maintenance_db")?;
        let database = match database.as_str() {
            "" => "postgres".to_owned(),
            _ => database,
        };
        words.extend(["--dbname".to_owned(), database]);
        Ok(words)
    }

    /// Returns the account that runs the client. By default, this is the owner of the server if the
    /// server runs on this machine.
    fn account(&self, cx: &Exec) -> Result<Option<String>, Error> {
        if self.runas.is_some() {
            return Ok(self.runas.clone());
        }
        let host = Self::or_option(cx, &self.host, "postgres.host")?;
        let is_here = host.is_empty() || host.starts_with('/');
        Ok(is_here.then(|| owner(cx).to_owned()))
    }

    /// Runs the client. The password is passed in its environment, which only the same account can
    /// read.
    fn run(&self, cx: &Exec, words: &[&str], stdin: Option<String>) -> Result<Output, Error> {
        let mut env = Map::new();
        let password = match &self.password {
            Some(given) => given.clone(),
            None => option(cx, "postgres.pass")?,
        };
        if !password.is_empty() {
            env.insert("PGPASSWORD", password);
        }
        let mut all = self.words(cx)?;
        all.extend(words.iter().map(|word| (*word).to_owned()));
        let is_told = stdin.is_none();
        let process = Process {
            stdin: stdin.or_else(|| Some(String::new())),
            runas: self.account(cx)?,
            env,
            clean_env: true,
            reset_system_locale: false,
            timeout: timeout(cx)?,
            ..Process::words(all).quiet()
        };
        let output = process.run(cx)?;
        if !output.success() {
            let why = if is_told { output.stderr.as_str() } else { "" };
            log::error(format_args!("Error connecting to Postgresql server: {why}"));
        }
        Ok(output)
    }

    /// Runs a statement that changes data, and returns whether it succeeds. A failure is logged
    /// with the statement.
    pub(crate) fn change(&self, cx: &Exec, sql: &str) -> Result<bool, Error> {
        Ok(self.run(cx, &["-c", sql], None)?.success())
    }

    /// Like [`Self::change`], but passes statements through standard input, in one transaction. Use
    /// it for statements that contain a password or are long.
    pub(crate) fn change_unseen(&self, cx: &Exec, sql: String) -> Result<bool, Error> {
        let words = ["-q", "-v", "ON_ERROR_STOP=1", "-1", "-f", "-"];
        Ok(self.run(cx, &words, Some(sql))?.success())
    }

    /// Returns the rows of a query. As in Salt, there are no rows if the server cannot be reached.
    pub(crate) fn query(&self, cx: &Exec, query: &str) -> Result<Vec<Map>, Error> {
        let query = query.trim().trim_end_matches(';');
        self.rows(cx, &format!("COPY ({query}) TO STDOUT WITH CSV HEADER"))
    }

    fn rows(&self, cx: &Exec, sql: &str) -> Result<Vec<Map>, Error> {
        let words = ["-v", "datestyle=ISO,MDY", "-c", sql];
        let output = self.run(cx, &words, None)?;
        if !output.success() {
            return Ok(Vec::new());
        }
        let mut rows = csv(output.stdout_regardless()).into_iter();
        let header = rows.next().unwrap_or_default();
        let row = |cells: Vec<String>| header.iter().cloned().zip(cells).collect();
        Ok(rows.map(row).collect())
    }

    /// Returns the rows of a query by the value of the column `key`, which is removed from each
    /// row.
    pub(crate) fn by(&self, cx: &Exec, query: &str, key: &str) -> Result<Map, Error> {
        let mut all = Map::new();
        for mut row in self.query(cx, query)? {
            if let Some(name) = row.remove(key) {
                all.insert(name, row);
            }
        }
        Ok(all)
    }

    /// Returns the version of the server, which is the first line of a query without a header.
    fn version(&self, cx: &Exec) -> Result<Option<String>, Error> {
        let query = "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'server_version'";
        let output = self.run(cx, &["-c", query, "-t"], None)?;
        Ok(output.stdout_regardless().lines().next().map(str::to_owned))
    }
}

/// Returns the text of a cell; empty if the row has no such column.
pub(crate) fn cell(row: &Map, key: &str) -> String {
    row.get(key).map(Value::to_text).unwrap_or_default()
}

/// Parses comma-separated values. Empty lines are skipped.
pub(crate) fn csv(text: &str) -> Vec<Vec<String>> {
    records(text, true)
}

/// Parses comma-separated values. An empty line is skipped, or is a row with one empty value.
pub(crate) fn records(text: &str, skips_empty: bool) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut is_quoted, mut is_blank) = (false, true);
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '"' if is_quoted && signs.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => (is_quoted, is_blank) = (!is_quoted, false),
            ',' if !is_quoted => {
                row.push(std::mem::take(&mut field));
                is_blank = false;
            }
            '\n' if !is_quoted => {
                if !(is_blank && skips_empty) {
                    row.push(std::mem::take(&mut field));
                    rows.push(std::mem::take(&mut row));
                }
                is_blank = true;
            }
            other => {
                field.push(other);
                is_blank = false;
            }
        }
    }
    if !is_blank {
        row.push(field);
        rows.push(row);
    }
    rows
}

fn psql_query(cx: &Exec, args: PsqlQuery) -> Result<Value, Error> {
    let conn = args.server.conn();
    if !args.write {
        return Ok(listed(conn.query(cx, &args.query)?));
    }
    let query = args.query.trim().trim_end_matches(';');
    let mut rows = conn.rows(
        cx,
        &format!(
            "START TRANSACTION READ WRITE; COPY ({query}) TO STDOUT WITH CSV HEADER; COMMIT TRANSACTION;"
        ),
    )?;
    // The last line of the output is the word COMMIT.
    rows.pop();
    Ok(listed(rows))
}

fn listed(rows: Vec<Map>) -> Value {
    Value::list(rows.into_iter().map(Value::from))
}

fn version(cx: &Exec, args: Version) -> Result<Value, Error> {
    Ok(args.server.conn().version(cx)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_a_table_of_commas_has_them() {
        assert_eq!(
            csv("a,b\n\n1,\"x \"\"y\"\",\nz\"\n\"\"\n,"),
            [
                vec!["a", "b"],
                vec!["1", "x \"y\",\nz"],
                vec![""],
                vec!["", ""]
            ]
        );
        assert!(csv("").is_empty());
    }

    #[test]
    fn names_and_texts_cannot_leave_their_quotes() {
        assert_eq!(ident("a\"; DROP"), "\"a\"\"; DROP\"");
        assert_eq!(quoted("it's"), "'it''s'");
    }
}
