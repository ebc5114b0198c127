//! The returners `pgjsonb` and `postgres`.

use jiff::Timestamp;
use state::exec::Exec;
use state::module::Error;
use value::Map;

use super::{Database, Insert, Old, Options, Refused, Row, document, part, success, text};
use crate::databases::Failure;
use crate::databases::postgres::{Server, reason};
use crate::returners::follow::{Kind, OfLog};
use crate::returners::{Returner, function};

pub(in crate::returners) const PGJSONB: Returner = Returner {
    name: "pgjsonb",
    doc: "Insert the return into a table of a PostgreSQL database, as jsonb.",
    store: |cx, ret| super::store_return(cx, &Postgres::open(cx, ret, Type::Jsonb)?, ret),
};

pub(in crate::returners) const POSTGRES: Returner = Returner {
    name: "postgres",
    doc: "Insert the return into a table of a PostgreSQL database, as text.",
    store: |cx, ret| super::store_return(cx, &Postgres::open(cx, ret, Type::Text)?, ret),
};

pub(in crate::returners) const PGJSONB_LOG: OfLog = OfLog {
    name: "pgjsonb",
    kinds: &[Kind::Events, Kind::Jobs],
    open: |cx| Ok(Box::new(Postgres::open(cx, &Map::new(), Type::Jsonb)?)),
};

pub(in crate::returners) const POSTGRES_LOG: OfLog = OfLog {
    name: "postgres",
    kinds: &[Kind::Events, Kind::Jobs],
    open: |cx| Ok(Box::new(Postgres::open(cx, &Map::new(), Type::Text)?)),
};

/// The options about TLS and the connection, each with its variable of libpq.
const OPTIONAL: [(&str, &str); 6] = [
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("sslcert", "PGSSLCERT"),
    ("sslcrl", "PGSSLCRL"),
    ("sslkey", "PGSSLKEY"),
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
];

/// The settings of a session. `verbose` adds codes to messages.
const SESSION: &str = "\\set VERBOSITY verbose\nSET standard_conforming_strings = on;\nBEGIN;\n";

const OLD: Old = Old {
    before: |seconds| format!("now() - interval '{seconds} seconds'"),
    create_archive: |table| format!("CREATE TABLE IF NOT EXISTS {table}_archive (LIKE {table})"),
};

/// The type of the columns that have JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Jsonb,
    Text,
}

/// A PostgreSQL database.
struct Postgres {
    server: Server,
    json: Type,
}

impl Postgres {
    fn open(cx: &Exec, ret: &Map, json: Type) -> Result<Self, Error> {
        let (prefix, password) = match json {
            Type::Jsonb => ("returner.pgjsonb", "pass"),
            Type::Text => ("returner.postgres", "passwd"),
        };
        let options = Options { cx, ret, prefix };
        let mut env = Map::new()
            .with("PGHOST", options.text("host", "localhost"))
            .with("PGPORT", options.text("port", "5432"))
            .with("PGUSER", options.text("user", "salt"))
            .with("PGPASSWORD", options.password(password))
            .with("PGDATABASE", options.text("db", "salt"));
        for (name, variable) in OPTIONAL {
            if let Some(value) = options.get(name) {
                env.insert(variable, value.to_text());
            }
        }
        let server = Server::new(cx, env, options.query_timeout())?;
        Ok(Self { server, json })
    }

    /// Returns a JSON document as a literal. The type jsonb has no character NUL.
    fn document(&self, json: &str) -> String {
        match self.json {
            Type::Jsonb => self.literal(&without_nul(json)),
            Type::Text => self.literal(json),
        }
    }

    /// Returns the literal of a time, or the column's default.
    fn time(&self, at: Option<Timestamp>) -> String {
        match at {
            Some(at) => self.literal(&at.to_string()),
            None => "DEFAULT".to_owned(),
        }
    }
}

impl Database for Postgres {
    fn literal(&self, text: &str) -> String {
        format!("'{}'", text.replace('\'', "''").replace('\0', "\u{fffd}"))
    }

    fn insert(&self, row: &Row, master: &str) -> Insert {
        match row {
            Row::Load(load) => Insert {
                into: "INSERT INTO jids (jid, load)",
                values: vec![
                    self.literal(&text(load.get("jid"))),
                    self.document(&document(&load.clone().into())),
                ],
                end: match self.json {
                    Type::Jsonb => " ON CONFLICT (jid) DO UPDATE SET load = EXCLUDED.load",
                    Type::Text => " ON CONFLICT DO NOTHING",
                },
            },
            Row::Return(ret, at) => Insert {
                into: "INSERT INTO salt_returns (fun, jid, return, id, success, full_ret, alter_time)",
                values: vec![
                    self.literal(&function(ret)),
                    self.literal(&text(ret.get("jid"))),
                    self.document(&part(ret, "return")),
                    self.literal(&text(ret.get("id"))),
                    self.literal(&success(ret, ["true", "false"])),
                    self.document(&document(&ret.clone().into())),
                    self.time(*at),
                ],
                end: "",
            },
            Row::Event { tag, data, at } => Insert {
                into: "INSERT INTO salt_events (tag, data, master_id, alter_time)",
                values: vec![
                    self.literal(tag),
                    self.document(&document(data)),
                    self.literal(master),
                    self.time(*at),
                ],
                end: "",
            },
        }
    }

    /// The returner with text columns removes nothing in Salt either.
    fn old(&self) -> Option<&'static Old> {
        (self.json == Type::Jsonb).then_some(&OLD)
    }

    fn run(&self, cx: &Exec, statements: &[String]) -> Result<String, Refused> {
        let statements = statements.join(";\n");
        let script = format!("{SESSION}{statements};\nCOMMIT;\n");
        self.server
            .run(cx, script)
            .map_err(|failure| match failure {
                Failure::Said(said) => refused(&said),
                Failure::Other(error) => error.into(),
            })
    }
}

/// Returns the kind of a failure, by the code of its message.
fn refused(said: &str) -> Refused {
    let reason = reason(said);
    let coded = reason
        .strip_prefix("ERROR: ")
        .and_then(|coded| coded.split_once(": "));
    let Some((code, sentence)) = coded else {
        return Refused::Other(Error::refused(reason));
    };
    match code {
        "42P01" => Refused::NoTable(sentence.to_owned()),
        // Data exceptions, and limits of the program.
        code if code.starts_with("22") || code.starts_with("54") => {
            Refused::Row(sentence.to_owned())
        }
        _ => Refused::Other(Error::refused(sentence.to_owned())),
    }
}

/// Replaces the character NUL in a JSON document.
fn without_nul(json: &str) -> String {
    let (mut all, mut rest) = (String::with_capacity(json.len()), json);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        all.push_str(before);
        let (escape, after) = match escape.strip_prefix("\\u0000") {
            Some(after) => ("\u{fffd}", after),
            // A backslash and the character after it, which JSON requires to be ASCII.
            None => escape.split_at_checked(2).unwrap_or((escape, "")),
        };
        all.push_str(escape);
        rest = after;
    }
    all + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_is_replaced_and_an_escaped_backslash_is_not() {
        assert_eq!(
            without_nul(r#"["a\u0000b\u0000"]"#.replace("\\\\", "\\").as_str()),
            "[\"a\u{fffd}b\u{fffd}\"]"
        );
    }
}
