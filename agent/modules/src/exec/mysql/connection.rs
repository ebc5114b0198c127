//! Connections to a server: runs statements with the client program and parses the results.

use machine::fs::Temporary;
use machine::process::{Process, which};
use python::xml;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::config;

/// The connection arguments: each with the minion option that is its default, and its name in the
/// client's option file.
const ARGUMENTS: [(&str, &str, &str); 7] = [
    ("connection_host", "mysql.host", "host"),
    ("connection_user", "mysql.user", "user"),
    ("connection_pass", "mysql.pass", "password"),
    ("connection_port", "mysql.port", "port"),
    ("connection_db", "mysql.db", "database"),
    ("connection_unix_socket", "mysql.unix_socket", "socket"),
    (
        "connection_charset",
        "mysql.charset",
        "default-character-set",
    ),
];

/// The parameters of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conn {
    /// The settings that are written to the option file of the client.
    settings: Map,
    /// An option file of the client that is read before those settings.
    default_file: String,
    default_group: String,
}

/// The rows of a statement's result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub rows: Vec<Map>,
}

impl Table {
    /// Returns a cell of the first row.
    pub(crate) fn first(&self, column: &str) -> Option<Value> {
        self.rows.first()?.get(column).cloned()
    }
}

impl From<Table> for Value {
    fn from(table: Table) -> Self {
        Self::list(table.rows.into_iter().map(Self::from))
    }
}

/// Returns the path of the client program.
fn client() -> Option<String> {
    which("mariadb").or_else(|| which("mysql"))
}

/// Quotes a name for SQL.
pub(crate) fn ident(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Quotes a text for SQL.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

impl Conn {
    /// Returns the connection from the arguments of a function; missing ones come from the options
    /// of the minion.
    pub(crate) fn from_kwargs(cx: &Exec, kwargs: &Map) -> Result<Self, Error> {
        let has_file = kwargs.contains("connection_default_file");
        let argument = |argument: &str, name: &str, always: bool| match kwargs.get(argument) {
            Some(given) => Ok(given.clone()),
            None if has_file && !always => Ok(Value::Null),
            None => config::found(cx, name),
        };
        let mut settings = Map::new();
        for (given, name, key) in ARGUMENTS {
            let value = argument(given, name, key == "default-character-set")?;
            if value.is_true() {
                settings.insert(key, value.to_text());
            }
        }
        let text = |value: Value| {
            if value.is_true() {
                value.to_text()
            } else {
                String::new()
            }
        };
        Ok(Self {
            settings,
            default_file: text(argument(
                "connection_default_file",
                "mysql.default_file",
                false,
            )?),
            default_group: text(argument(
                "connection_default_group",
                "mysql.default_group",
                false,
            )?),
        })
    }

    /// Returns a copy that uses a database.
    pub(crate) fn within(&self, database: &str) -> Self {
        self.with("database", database)
    }

    /// Returns a copy with another value for a setting.
    pub(crate) fn with(&self, key: &str, value: &str) -> Self {
        let mut conn = self.clone();
        conn.settings.insert(key, value);
        conn
    }

    /// Returns the text of the client's option file. It contains the password, so that the command
    /// line does not.
    fn file(&self) -> Result<String, Error> {
        let mut text = String::new();
        match self.default_group.as_str() {
            _ if self.default_file.is_empty() => {}
            "" | "client" => text.push_str(&format!("!include {}\n", self.default_file)),
            group => {
                let file = &self.default_file;
                let all = machine::fs::text(file)?;
                text.push_str(&format!("[client]\n{}", of_group(&all, group)));
            }
        }
        text.push_str("[client]\n");
        if !self.settings.contains("default-character-set") {
            text.push_str("default-character-set=utf8mb4\n");
        }
        for (key, value) in &self.settings {
            let (key, value) = (key.to_text(), value.to_text());
            // The option for the database is known only to this program, not to all clients.
            if key != "database" {
                text.push_str(&format!("{key}={}\n", set_apart(&value)));
            }
        }
        if let Some(database) = self.settings.get("database") {
            let database = set_apart(&database.to_text());
            text.push_str(&format!("[mysql]\ndatabase={database}\n"));
        }
        Ok(text)
    }

    /// Returns the call of the client for statements, and its option file, which must exist until the
    /// call ends.
    ///
    /// # Errors
    /// When there is no client, or the file cannot be written.
    pub(crate) fn process(&self, flags: &[&str], sql: &str) -> Result<(Process, Temporary), Error> {
        let client = client().ok_or("the program mariadb or mysql is not in the path")?;
        let file = Temporary::written(".cnf", self.file()?.as_bytes(), None)?;
        let defaults = format!("--defaults-file={}", file.path().display());
        let words = [client.as_str(), &defaults, "--binary-mode"];
        let process = Process {
            stdin: Some(format!("{sql}\n;\n")),
            rstrip: false,
            ..Process::words(words.iter().chain(flags).copied()).quiet()
        };
        Ok((process, file))
    }

    /// Runs statements. Returns their result tables, including those without rows.
    pub(crate) fn ask(&self, cx: &Exec, sql: &str) -> Result<Vec<Table>, Error> {
        let (process, _file) = self.process(&["--xml"], sql)?;
        let output = process.run(cx)?;
        if !output.success() {
            return Err(Error::refused(reason(output.stderr.trim())));
        }
        Ok(tables(output.stdout_regardless()))
    }

    /// Returns the result table of one statement.
    pub(crate) fn table(&self, cx: &Exec, sql: &str) -> Result<Table, Error> {
        Ok(self.ask(cx, sql)?.into_iter().next().unwrap_or_default())
    }

    /// Returns whether a statement returns rows.
    pub(crate) fn has(&self, cx: &Exec, sql: &str) -> Result<bool, Error> {
        Ok(!self.table(cx, sql)?.rows.is_empty())
    }

    /// Returns the version of the server.
    pub(crate) fn version(&self, cx: &Exec) -> Result<String, Error> {
        let found = self.table(cx, "SELECT VERSION() AS v")?.first("v");
        found
            .map(|version| version.to_text())
            .ok_or_else(|| "cannot read the version of the server".into())
    }

    /// Returns the status of a plugin; it is empty if the plugin does not exist.
    pub(crate) fn plugin(&self, cx: &Exec, name: &str) -> Result<String, Error> {
        let sql = format!(
            "SELECT PLUGIN_STATUS AS s FROM INFORMATION_SCHEMA.PLUGINS WHERE PLUGIN_NAME = {}",
            quoted(name)
        );
        let found = self.table(cx, &sql)?.first("s");
        Ok(found.map(|status| status.to_text()).unwrap_or_default())
    }
}

/// Returns the lines of one group of an option file.
fn of_group(text: &str, group: &str) -> String {
    let (mut found, mut is_inside) = (String::new(), false);
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[') {
            is_inside = name.trim_end_matches(']') == group;
        } else if is_inside {
            found.push_str(line);
            found.push('\n');
        }
    }
    found
}

/// Quotes a value for an option file of the client.
fn set_apart(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    let value = value.replace('\n', "\\n").replace('\r', "\\r");
    format!("\"{value}\"")
}

/// Returns the error message of the client in Salt's form: `MySQL Error NUMBER: SENTENCE`.
pub(crate) fn reason(stderr: &str) -> String {
    let line = stderr.lines().find(|line| line.starts_with("ERROR "));
    let parts = line.and_then(|line| {
        let rest = line.strip_prefix("ERROR ")?;
        let (number, _) = rest.split_once(' ')?;
        Some((number, rest.split_once(": ")?.1))
    });
    match parts {
        Some((number, sentence)) => format!("MySQL Error {number}: {sentence}"),
        None => format!("MySQL Error: {stderr}"),
    }
}

/// Parses the tables from the client's XML output.
fn tables(text: &str) -> Vec<Table> {
    let mut all: Vec<Table> = Vec::new();
    for element in xml::elements(text) {
        let last = all.last_mut().map(|table| &mut table.rows);
        match (element.name.as_str(), last) {
            ("resultset", _) => all.push(Table::default()),
            ("row", Some(rows)) => rows.push(Map::new()),
            ("field", Some(rows)) => {
                let value = match element.get("xsi:nil") {
                    "true" => Value::Null,
                    _ => element.text.as_str().into(),
                };
                if let Some(row) = rows.last_mut() {
                    row.insert(element.get("name"), value);
                }
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_errors_of_the_client_are_read() {
        let xml = "<?xml version=\"1.0\"?>\n<resultset statement=\"SELECT &lt;1\"\n xmlns:xsi=\"x\">\n  <row>\n\t<field name=\"a\">x &amp; y\n</field>\n\
            \t<field name=\"b\" xsi:nil=\"true\" />\n  </row>\n</resultset>\n<resultset statement=\"SELECT 2\"></resultset>";
        let found = tables(xml);
        assert_eq!(found[0].first("a"), Some("x & y\n".into()));
        assert_eq!(found[0].first("b"), Some(Value::Null));
        assert!(found.len() == 2 && found[1].rows.is_empty());
        let said = reason("ERROR 1064 (42000) at line 1: You have: an error");
        assert_eq!(said, "MySQL Error 1064: You have: an error");
    }

    #[test]
    fn what_the_client_reads_is_set_apart() {
        let conn = Conn::default().with("password", "a\"b\\c # d").within("x");
        assert_eq!(
            conn.file().unwrap(),
            "[client]\ndefault-character-set=utf8mb4\npassword=\"a\\\"b\\\\c # d\"\n[mysql]\ndatabase=\"x\"\n"
        );
        assert_eq!(of_group("[a]\nx=1\n[b]\ny=2\n", "b"), "y=2\n");
        assert_eq!(
            (ident("a`b"), quoted("it's \\")),
            ("`a``b`".into(), "'it''s \\\\'".into())
        );
    }
}
