//! The returner `mysql`, for MySQL and MariaDB.

use state::exec::Exec;
use state::module::Error;
use value::Map;

use super::{Database, Insert, Old, Options, Refused, Row, document, part, success, text};
use crate::databases::Failure;
use crate::databases::mysql::Server;
use crate::exec::mysql::{Conn, quoted};
use crate::returners::follow::{Kind, OfLog};
use crate::returners::{Returner, function};

pub(in crate::returners) const MYSQL: Returner = Returner {
    name: "mysql",
    doc: "Insert the return into a table of a MySQL or MariaDB database.",
    store: |cx, ret| super::store_return(cx, &Mysql::open(cx, ret)?, ret),
};

pub(in crate::returners) const MYSQL_LOG: OfLog = OfLog {
    name: "mysql",
    kinds: &[Kind::Events, Kind::Jobs],
    open: |cx| Ok(Box::new(Mysql::open(cx, &Map::new())?)),
};

/// The options about TLS, each with its name in the client's option file.
const SSL: [(&str, &str); 3] = [
    ("ssl_ca", "ssl-ca"),
    ("ssl_cert", "ssl-cert"),
    ("ssl_key", "ssl-key"),
];

/// The size of a statement in bytes from which the server's limit is read first. The smallest
/// default of a server is 1 MiB.
const LARGE: usize = 1 << 20;

/// A backslash in a literal begins an escape, as in the client.
const SESSION: &str =
    "SET SESSION sql_mode = REPLACE(@@SESSION.sql_mode, 'NO_BACKSLASH_ESCAPES', '');\n";

const OLD: Old = Old {
    before: |seconds| format!("now() - INTERVAL {seconds} SECOND"),
    create_archive: |table| format!("CREATE TABLE IF NOT EXISTS {table}_archive LIKE {table}"),
};

/// A MySQL or MariaDB database.
struct Mysql(Server);

impl Mysql {
    fn open(cx: &Exec, ret: &Map) -> Result<Self, Error> {
        let prefix = "mysql";
        let options = Options { cx, ret, prefix };
        let mut conn = Conn::default()
            .with("host", &options.text("host", "salt"))
            .with("user", &options.text("user", "salt"))
            .with("password", &options.password("pass"))
            .with("port", &options.text("port", "3306"))
            .with("max-allowed-packet", "1G")
            .within(&options.text("db", "salt"));
        for (name, option) in SSL {
            if let Some(value) = options.get(name) {
                conn = conn.with(option, &value.to_text());
            }
        }
        Ok(Self(Server::new(conn, options.query_timeout())?))
    }

    fn ask(&self, cx: &Exec, statements: &str) -> Result<String, Refused> {
        let flags = ["--batch", "--raw", "--skip-column-names"];
        let output = self.0.run(cx, &flags, statements);
        output.map_err(|failure| match failure {
            Failure::Said(said) => refused(&said),
            Failure::Other(error) => error.into(),
        })
    }

    /// Returns an error if a statement is larger than the server permits.
    fn check_sizes(&self, cx: &Exec, statements: &[String]) -> Result<(), Refused> {
        let largest = statements.iter().map(String::len).max();
        let Some(largest) = largest.filter(|largest| *largest >= LARGE) else {
            return Ok(());
        };
        let limit = self.ask(cx, "SELECT @@max_allowed_packet")?;
        let limit: usize = limit.trim().parse().unwrap_or(LARGE);
        match largest < limit {
            true => Ok(()),
            false => Err(Refused::Row(format!(
                "{largest} bytes are more than max_allowed_packet of the server ({limit})"
            ))),
        }
    }
}

impl Database for Mysql {
    fn literal(&self, text: &str) -> String {
        quoted(&text.replace('\0', "\u{fffd}"))
    }

    fn insert(&self, row: &Row, master: &str) -> Insert {
        match row {
            Row::Load(load) => Insert {
                into: "INSERT INTO `jids` (`jid`, `load`)",
                values: vec![
                    self.literal(&text(load.get("jid"))),
                    self.literal(&document(&load.clone().into())),
                ],
                end: " ON DUPLICATE KEY UPDATE `jid` = `jid`",
            },
            Row::Return(ret, _) => Insert {
                into: "INSERT INTO `salt_returns` (`fun`, `jid`, `return`, `id`, `success`, `full_ret`)",
                values: vec![
                    self.literal(&function(ret)),
                    self.literal(&text(ret.get("jid"))),
                    self.literal(&part(ret, "return")),
                    self.literal(&text(ret.get("id"))),
                    self.literal(&success(ret, ["1", "0"])),
                    self.literal(&document(&ret.clone().into())),
                ],
                end: "",
            },
            Row::Event { tag, data, .. } => Insert {
                into: "INSERT INTO `salt_events` (`tag`, `data`, `master_id`)",
                values: vec![
                    self.literal(tag),
                    self.literal(&document(data)),
                    self.literal(master),
                ],
                end: "",
            },
        }
    }

    fn old(&self) -> Option<&'static Old> {
        Some(&OLD)
    }

    fn run(&self, cx: &Exec, statements: &[String]) -> Result<String, Refused> {
        self.check_sizes(cx, statements)?;
        let statements = statements.join(";\n");
        self.ask(
            cx,
            &format!("{SESSION}START TRANSACTION;\n{statements};\nCOMMIT"),
        )
    }
}

/// Returns the kind of a failure, by the number and the code of its message: `ERROR 1406 (22001) at
/// line 3: Data too long`.
fn refused(said: &str) -> Refused {
    let line = said.lines().find(|line| line.starts_with("ERROR "));
    let parts = line.and_then(|line| {
        let (number, rest) = line.strip_prefix("ERROR ")?.split_once(" (")?;
        let (code, rest) = rest.split_once(')')?;
        Some((number, code, rest.split_once(": ")?.1))
    });
    let Some((number, code, sentence)) = parts else {
        return Refused::Other(Error::refused(said.to_owned()));
    };
    let sentence = format!("{sentence} ({number})");
    match number {
        "1146" => Refused::NoTable(sentence),
        // A constraint of a JSON column: MariaDB has no code for it.
        "4025" => Refused::Row(sentence),
        _ if code.starts_with("22") => Refused::Row(sentence),
        _ => Refused::Other(Error::refused(sentence)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_the_data_and_of_the_server_differ() {
        let shown = |said: &str| format!("{:?}", refused(said));
        let long = "ERROR 1406 (22001) at line 3: Data too long for column 'fun' at row 1";
        assert_eq!(
            shown(long),
            "Row(\"Data too long for column 'fun' at row 1 (1406)\")"
        );
        let table = "WARNING: x\nERROR 1146 (42S02) at line 1: Table 'salt.x' doesn't exist";
        assert!(shown(table).starts_with("NoTable("));
        for other in ["ERROR 2002 (HY000): Can't connect", "killed"] {
            assert!(shown(other).starts_with("Other("), "{other}");
        }
    }
}
