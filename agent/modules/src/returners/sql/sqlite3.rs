//! The returner `sqlite3`.

use jiff::{Timestamp, Zoned};
use state::exec::Exec;
use state::module::Error;
use value::Map;

use super::{Database, Insert, Options, Refused, Row, document, part, success, text};
use crate::databases::sqlite3::{File, literal};
use crate::returners::follow::{Kind, OfLog};
use crate::returners::{Returner, function};

pub(in crate::returners) const SQLITE3: Returner = Returner {
    name: "sqlite3",
    doc: "Insert the return into a table of an SQLite database.",
    store: |cx, ret| super::store_return(cx, &Sqlite::open(cx, ret)?, ret),
};

pub(in crate::returners) const SQLITE3_LOG: OfLog = OfLog {
    name: "sqlite3",
    kinds: &[Kind::Events, Kind::Jobs],
    open: |cx| Ok(Box::new(Sqlite::open(cx, &Map::new())?)),
};

/// An SQLite database.
struct Sqlite(File);

impl Sqlite {
    fn open(cx: &Exec, ret: &Map) -> Result<Self, Error> {
        let prefix = "sqlite3";
        let options = Options { cx, ret, prefix };
        let missing = |name| {
            Error::refused(format!(
                "sqlite3 config option \"sqlite3.{name}\" is missing"
            ))
        };
        let path = options.get("database").ok_or_else(|| missing("database"))?;
        let lock = options.get("timeout").ok_or_else(|| missing("timeout"))?;
        let lock = lock.as_float().or_else(|| lock.as_str()?.parse().ok());
        let lock = lock.ok_or("sqlite3.timeout must be a number of seconds")?;
        let file = File::new(path.to_text(), lock, options.query_timeout())?;
        Ok(Self(file))
    }
}

impl Database for Sqlite {
    fn literal(&self, text: &str) -> String {
        literal(&text.replace('\0', "\u{fffd}"))
    }

    fn insert(&self, row: &Row, master: &str) -> Insert {
        match row {
            Row::Load(load) => Insert {
                into: "INSERT OR IGNORE INTO jids (jid, load)",
                values: vec![
                    self.literal(&text(load.get("jid"))),
                    self.literal(&document(&load.clone().into())),
                ],
                end: "",
            },
            Row::Return(ret, at) => Insert {
                into: "INSERT INTO salt_returns (fun, jid, id, fun_args, date, full_ret, success)",
                values: vec![
                    self.literal(&function(ret)),
                    self.literal(&text(ret.get("jid"))),
                    self.literal(&text(ret.get("id"))),
                    match ret.get("fun_args").filter(|args| args.is_true()) {
                        Some(args) => self.literal(&args.to_text()),
                        None => "NULL".to_owned(),
                    },
                    self.literal(&date(*at)),
                    self.literal(&part(ret, "return")),
                    self.literal(&success(ret, ["1", "0"])),
                ],
                end: "",
            },
            Row::Event { tag, data, .. } => Insert {
                into: "INSERT INTO salt_events (tag, data, master_id)",
                values: vec![
                    self.literal(tag),
                    self.literal(&document(data)),
                    self.literal(master),
                ],
                end: "",
            },
        }
    }

    fn run(&self, cx: &Exec, statements: &[String]) -> Result<String, Refused> {
        let statements = statements.join(";\n");
        let script = format!("BEGIN IMMEDIATE;\n{statements};\nCOMMIT;\n");
        let output = self.0.run(cx, &[], script);
        output.map_err(|error| {
            let reason = error.sentence();
            match () {
                () if reason.contains("no such table") => Refused::NoTable(reason),
                () if reason.contains("string or blob too big") => Refused::Row(reason),
                () => error.into(),
            }
        })
    }
}

/// Returns the local time of a return, as Python prints it.
fn date(at: Option<Timestamp>) -> String {
    let at = at.unwrap_or_else(Timestamp::now);
    let local = at.to_zoned(Zoned::now().time_zone().clone());
    local.strftime("%Y-%m-%d %H:%M:%S.%6f").to_string()
}
