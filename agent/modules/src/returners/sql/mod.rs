//! Returners that write rows into Salt's tables of a database: `jids`, `salt_returns` and
//! `salt_events`.
//!
//! ```text
//! return or events -> Row -> Insert -> one transaction of the client program
//! ```
//!
//! The rows of a batch of a master's log and the number of its last event are written in one
//! transaction if the database has the table `salt_cursors`. Then no row is written twice, whatever
//! dies in between.

mod mysql;
mod postgres;
mod sqlite3;
#[cfg(test)]
mod tests;

pub(super) use mysql::{MYSQL, MYSQL_LOG};
pub(super) use postgres::{PGJSONB, PGJSONB_LOG, POSTGRES, POSTGRES_LOG};
pub(super) use sqlite3::{SQLITE3, SQLITE3_LOG};

use jiff::Timestamp;
use state::exec::Exec;
use state::module::Error;
use value::json::{self, Layout};
use value::{Map, Value, log, secret};

use super::follow::{Batch, Kind, OfJob, Record, Store};

/// The size of a statement in bytes at which it takes no further row.
const STATEMENT_BYTES: usize = 512 << 10;

/// The seconds that the client program may run for a batch, if the option `query_timeout` is not set.
const SECONDS: i64 = 60;

/// A row of one of the tables.
#[derive(Clone, Debug)]
enum Row {
    /// A job, in `jids`.
    Load(Map),
    /// A return, in `salt_returns`, and the time at which the master got it.
    Return(Map, Option<Timestamp>),
    /// An event, in `salt_events`.
    Event {
        tag: String,
        data: Value,
        at: Option<Timestamp>,
    },
}

impl Row {
    /// Returns the row of an event of a master's log: `None` if it is about no job, but jobs are
    /// wanted.
    fn of(kind: Kind, record: &Record) -> Option<Self> {
        match kind {
            Kind::Jobs => record.of_job().map(|of_job| match of_job {
                OfJob::New(load) => Self::Load(load),
                OfJob::Return(ret, stamp) => Self::Return(ret, stamp.as_ref().and_then(time)),
            }),
            Kind::Events => {
                let data = record.event.get("data").cloned().unwrap_or_default();
                Some(Self::Event {
                    tag: text(record.event.get("tag")),
                    at: data.get("_stamp").and_then(time),
                    data,
                })
            }
        }
    }

    /// Returns the words that name the row in a message.
    fn describe(&self) -> String {
        match self {
            Self::Load(load) => format!("job {}", text(load.get("jid"))),
            Self::Return(ret, _) => {
                format!(
                    "the return of job {} of {}",
                    text(ret.get("jid")),
                    text(ret.get("id"))
                )
            }
            Self::Event { tag, .. } => format!("the event {tag}"),
        }
    }
}

/// A statement that inserts rows.
struct Insert {
    /// `INSERT INTO table (columns)`.
    into: &'static str,
    /// The literals of the columns.
    values: Vec<String>,
    /// The end of the statement. Rows with an end have a statement each.
    end: &'static str,
}

/// The reason for which a database has not stored rows.
#[derive(Debug)]
enum Refused {
    /// The data of a row are the reason, so that it can never be stored.
    Row(String),
    /// A table does not exist.
    NoTable(String),
    /// Any other reason, for example no connection.
    Other(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Row(reason) | Refused::NoTable(reason) => Self::refused(reason),
            Refused::Other(error) => error,
        }
    }
}

/// The expressions of a database that removes old rows.
struct Old {
    /// Returns the time some seconds ago.
    before: fn(i64) -> String,
    /// Returns the statement that creates the archive of a table.
    create_archive: fn(&str) -> String,
}

/// A database with Salt's tables.
trait Database {
    /// Returns a text as a literal.
    fn literal(&self, text: &str) -> String;
    /// Returns the statement that inserts a row. `master` is the id of the master.
    fn insert(&self, row: &Row, master: &str) -> Insert;
    /// Returns how old rows are removed, if the returner removes them.
    fn old(&self) -> Option<&'static Old> {
        None
    }
    /// Runs statements in a transaction. Returns the result of the last one, as text.
    fn run(&self, cx: &Exec, statements: &[String]) -> Result<String, Refused>;
}

/// Stores one return.
fn store_return(cx: &Exec, database: &dyn Database, ret: &Map) -> Result<(), Error> {
    let row = Row::Return(ret.clone(), None);
    database.run(cx, &inserts(database, &[&row], cx.opts().id()))?;
    Ok(())
}

impl<T: Database> Store for T {
    /// Removes a cursor that is after the last event of the log: it is of a log that was lost, and the
    /// numbers of its events belong to others now.
    fn begin(&self, cx: &Exec, place: &str, last: u64) -> Result<(), Error> {
        let cursor = Cursor::read(cx, self, place)?;
        if cursor.is_new(last.saturating_add(1)) {
            return Ok(());
        }
        let named = cursor.named(self);
        let delete = format!("DELETE FROM salt_cursors WHERE {named} AND sequence > {last}");
        self.run(cx, &[delete])?;
        Ok(())
    }

    /// Stores the rows of a batch. One that the database refuses for its data is reported and left
    /// out.
    fn store(&self, cx: &Exec, batch: &Batch<'_>) -> Result<(), Error> {
        let mut cursor = Cursor::read(cx, self, batch.place)?;
        let new = batch.records.iter();
        let new = new.filter(|record| cursor.is_new(record.sequence));
        let rows = new.filter_map(|record| Some((record.sequence, Row::of(batch.kind, record)?)));
        let rows: Vec<Numbered> = rows.collect();
        write(cx, self, &mut cursor, &rows)
    }

    /// Removes the old rows of the three tables: a job when its last return is old.
    fn clean(&self, cx: &Exec, seconds: i64, archive: bool) -> Result<(), Error> {
        let Some(old) = self.old() else {
            return Ok(());
        };
        let before = (old.before)(seconds);
        let of_old_jobs = format!(
            "jid IN (SELECT jid FROM salt_returns GROUP BY jid HAVING max(alter_time) < {before})"
        );
        let is_old = format!("alter_time < {before}");
        let tables = [
            ("jids", of_old_jobs.as_str()),
            ("salt_returns", &is_old),
            ("salt_events", &is_old),
        ];
        if archive {
            let create = tables.iter().map(|(table, _)| (old.create_archive)(table));
            self.run(cx, &create.collect::<Vec<String>>())?;
        }
        let all = tables
            .iter()
            .flat_map(|(table, old)| cleaned(table, old, archive));
        self.run(cx, &all.collect::<Vec<String>>())?;
        Ok(())
    }
}

/// Returns the statements that remove rows, and copy them first if `archive` is true.
fn cleaned(table: &str, old: &str, archive: bool) -> Vec<String> {
    let delete = format!("DELETE FROM {table} WHERE {old}");
    match archive {
        false => vec![delete],
        true => vec![
            format!("INSERT INTO {table}_archive SELECT * FROM {table} WHERE {old}"),
            delete,
        ],
    }
}

/// A row, and the number of its event.
type Numbered = (u64, Row);

/// Writes rows in one transaction. If the data of a row are refused, its halves are written.
fn write(
    cx: &Exec,
    database: &dyn Database,
    cursor: &mut Cursor<'_>,
    rows: &[Numbered],
) -> Result<(), Error> {
    let Some((last, _)) = rows.last() else {
        return Ok(());
    };
    let only: Vec<&Row> = rows.iter().map(|(_, row)| row).collect();
    let mut statements = cursor.moved(database, *last);
    statements.extend(inserts(database, &only, cx.opts().id()));
    match (database.run(cx, &statements), rows) {
        (Ok(_), _) => {
            cursor.done = Some(*last);
            Ok(())
        }
        (Err(Refused::Row(reason)), [(_, row)]) => {
            log::error(format_args!(
                "returner {}: {} is not stored, because the database refuses its data: {reason}",
                cursor.place,
                row.describe()
            ));
            Ok(())
        }
        (Err(Refused::Row(_)), rows) => {
            let (first, second) = rows.split_at(rows.len() / 2);
            write(cx, database, cursor, first)?;
            write(cx, database, cursor, second)
        }
        (Err(refused), _) => Err(refused.into()),
    }
}

/// Returns the statements that insert rows, in their order.
fn inserts(database: &dyn Database, rows: &[&Row], master: &str) -> Vec<String> {
    let mut statements: Vec<String> = Vec::new();
    let mut open = "";
    for row in rows {
        let Insert { into, values, end } = database.insert(row, master);
        let values = format!("({})", values.join(", "));
        match statements.last_mut() {
            Some(last) if open == into && last.len() < STATEMENT_BYTES => {
                last.push_str(",\n");
                last.push_str(&values);
            }
            _ => statements.push(format!("{into} VALUES {values}{end}")),
        }
        open = if end.is_empty() { into } else { "" };
    }
    statements
}

/// The place of a batch in the table `salt_cursors`.
struct Cursor<'a> {
    master: &'a str,
    place: &'a str,
    /// True if the database has the table.
    has_table: bool,
    /// The number of the last event whose row was written.
    done: Option<u64>,
}

impl<'a> Cursor<'a> {
    fn read(cx: &'a Exec, database: &dyn Database, place: &'a str) -> Result<Self, Error> {
        let mut cursor = Self {
            master: cx.opts().id(),
            place,
            has_table: true,
            done: None,
        };
        let query = format!(
            "SELECT sequence FROM salt_cursors WHERE {}",
            cursor.named(database)
        );
        match database.run(cx, &[query]) {
            Ok(found) => {
                let wrong = |_| Error::from("salt_cursors has something else than a number");
                let found = Some(found.trim()).filter(|found| !found.is_empty());
                cursor.done = found.map(str::parse).transpose().map_err(wrong)?;
            }
            Err(Refused::NoTable(_)) => cursor.has_table = false,
            Err(refused) => return Err(refused.into()),
        }
        Ok(cursor)
    }

    fn is_new(&self, sequence: u64) -> bool {
        self.done.is_none_or(|done| sequence > done)
    }

    /// Returns the condition of the cursor's row.
    fn named(&self, database: &dyn Database) -> String {
        format!(
            "master_id = {} AND returner = {}",
            database.literal(self.master),
            database.literal(self.place)
        )
    }

    /// Returns the statements that move the cursor. If another program has moved it, they fail,
    /// because the key of the table exists already.
    fn moved(&self, database: &dyn Database, last: u64) -> Vec<String> {
        if !self.has_table {
            return Vec::new();
        }
        let old = self.done.map(|done| {
            let named = self.named(database);
            format!("DELETE FROM salt_cursors WHERE {named} AND sequence = {done}")
        });
        let new = format!(
            "INSERT INTO salt_cursors (master_id, returner, sequence) VALUES ({}, {}, {last})",
            database.literal(self.master),
            database.literal(self.place)
        );
        old.into_iter().chain([new]).collect()
    }
}

/// The options of a returner, for one call.
struct Options<'a> {
    cx: &'a Exec,
    ret: &'a Map,
    /// The prefix of the options.
    prefix: &'static str,
}

impl Options<'_> {
    fn get(&self, name: &str) -> Option<Value> {
        let value = super::option(self.cx, self.ret, self.prefix, name)?;
        let text = value.to_text();
        (!value.is_null() && !text.is_empty() && text != "None").then_some(value)
    }

    fn text(&self, name: &str, default: &str) -> String {
        let value = self.get(name);
        value.map_or_else(|| default.to_owned(), |value| value.to_text())
    }

    /// Returns a password, and keeps it out of logs and outputs.
    fn password(&self, name: &str) -> String {
        match self.get(name) {
            Some(password) => {
                secret::keep(&[], &password.to_text().as_str().into());
                password.to_text()
            }
            None => "salt".to_owned(),
        }
    }

    /// Returns the seconds that the client program may run.
    fn query_timeout(&self) -> Value {
        self.get("query_timeout").unwrap_or_else(|| SECONDS.into())
    }
}

/// Returns the time of a `_stamp`, which may have no offset.
fn time(stamp: &Value) -> Option<Timestamp> {
    let stamp = stamp.as_str()?;
    let at = stamp.parse().or_else(|_| format!("{stamp}Z").parse());
    at.ok()
}

/// Returns a text; it is empty if there is none.
fn text(found: Option<&Value>) -> String {
    found.map(Value::to_text).unwrap_or_default()
}

/// Returns a part of a return as JSON.
fn part(ret: &Map, key: &str) -> String {
    document(&ret.get(key).cloned().unwrap_or_default())
}

fn document(value: &Value) -> String {
    json::write(value, Layout::default())
}

/// Returns the column `success` of a return, with the texts of true and of false.
fn success(ret: &Map, [yes, no]: [&str; 2]) -> String {
    match ret.get("success") {
        Some(Value::Bool(true)) => yes.to_owned(),
        Some(Value::Bool(false)) | None => no.to_owned(),
        Some(other) => other.to_text(),
    }
}
