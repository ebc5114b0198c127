//! Tests of the statements for a batch, against a database that records them.

use std::cell::{Cell, RefCell};

use super::*;

/// A database with a cursor, which refuses some data.
#[derive(Default)]
struct Recorded {
    has_cursors: bool,
    cursor: Cell<Option<u64>>,
    written: RefCell<Vec<String>>,
    /// The text that no row may have.
    refuses: Option<&'static str>,
    is_away: Cell<bool>,
}

impl Database for Recorded {
    fn literal(&self, text: &str) -> String {
        format!("'{text}'")
    }

    fn insert(&self, row: &Row, master: &str) -> Insert {
        match row {
            Row::Load(load) => Insert {
                into: "INSERT INTO jids",
                values: vec![self.literal(&text(load.get("jid")))],
                end: " ON CONFLICT",
            },
            Row::Return(ret, _) => Insert {
                into: "INSERT INTO returns",
                values: vec![self.literal(&text(ret.get("id")))],
                end: "",
            },
            Row::Event { tag, .. } => Insert {
                into: "INSERT INTO events",
                values: vec![self.literal(tag), self.literal(master)],
                end: "",
            },
        }
    }

    fn run(&self, _cx: &Exec, statements: &[String]) -> Result<String, Refused> {
        let text = statements.join("; ");
        if self.is_away.get() {
            return Err(Error::from("the database is away").into());
        }
        if text.contains("salt_cursors") && !self.has_cursors {
            return Err(Refused::NoTable("salt_cursors".into()));
        }
        if text.starts_with("SELECT") {
            let cursor = self.cursor.get();
            return Ok(cursor
                .map(|number| format!("{number}\n"))
                .unwrap_or_default());
        }
        if self.refuses.is_some_and(|refused| text.contains(refused)) {
            return Err(Refused::Row("too long".into()));
        }
        if let Some((_, rest)) = text.split_once("(master_id, returner, sequence) VALUES (") {
            let number = rest
                .split([')', ';'])
                .next()
                .and_then(|row| row.split(", ").last());
            self.cursor
                .set(number.and_then(|number| number.parse().ok()));
        }
        if text.starts_with("DELETE") && !text.contains("INSERT") {
            self.cursor.set(None);
        }
        self.written.borrow_mut().push(text);
        Ok(String::new())
    }
}

fn records(sequences: std::ops::Range<u64>) -> Vec<Record> {
    let record = |sequence: u64| Record {
        sequence,
        event: Map::new()
            .with("tag", format!("t{sequence}"))
            .with("data", Map::new())
            .into(),
    };
    sequences.map(record).collect()
}

fn store(database: &Recorded, records: &[Record]) -> Result<(), Error> {
    let batch = Batch {
        kind: Kind::Events,
        place: "p",
        records,
    };
    database.store(&crate::testing::exec(), &batch)
}

#[test]
fn rows_of_a_table_share_a_statement_up_to_its_size() {
    let database = Recorded::default();
    let load = |jid: &str| Row::Load(Map::new().with("jid", jid));
    let ret = |id: &str| Row::Return(Map::new().with("id", id), None);
    let large = ret(&"x".repeat(STATEMENT_BYTES));
    let rows = [
        load("1"),
        load("2"),
        ret("a"),
        ret("b"),
        load("3"),
        large,
        ret("c"),
    ];
    let rows: Vec<&Row> = rows.iter().collect();
    let statements = inserts(&database, &rows, "master");
    let begins: Vec<&str> = statements
        .iter()
        .map(|text| text.get(..40).unwrap_or(text))
        .collect();
    assert_eq!(begins.len(), 6);
    assert_eq!(begins[0], "INSERT INTO jids VALUES ('1') ON CONFLIC");
    assert_eq!(statements[2], "INSERT INTO returns VALUES ('a'),\n('b')");
    assert_eq!(statements[5], "INSERT INTO returns VALUES ('c')");
}

#[test]
fn a_batch_that_was_written_is_not_written_again() {
    let database = Recorded {
        has_cursors: true,
        ..Recorded::default()
    };
    store(&database, &records(1..4)).unwrap();
    assert_eq!(database.cursor.get(), Some(3));
    let first = database.written.borrow_mut().pop().unwrap();
    assert!(first.starts_with("INSERT INTO salt_cursors "), "{first}");
    store(&database, &records(1..4)).unwrap();
    assert!(database.written.borrow().is_empty());
    store(&database, &records(2..6)).unwrap();
    let second = database.written.borrow_mut().pop().unwrap();
    assert!(
        second.starts_with("DELETE FROM salt_cursors WHERE master_id = "),
        "{second}"
    );
    assert!(
        second.contains("AND returner = 'p' AND sequence = 3"),
        "{second}"
    );
    assert!(
        second.contains("('t4'") && !second.contains("('t3'"),
        "{second}"
    );
    assert_eq!(database.cursor.get(), Some(5));
}

#[test]
fn without_the_table_of_cursors_a_batch_is_written_each_time() {
    let database = Recorded::default();
    for _ in 0..2 {
        store(&database, &records(1..3)).unwrap();
    }
    assert_eq!(database.written.borrow().len(), 2);
    assert!(!database.written.borrow()[0].contains("salt_cursors"));
}

#[test]
fn a_row_that_is_refused_for_its_data_does_not_hold_up_the_others() {
    let database = Recorded {
        has_cursors: true,
        refuses: Some("'t7'"),
        ..Recorded::default()
    };
    store(&database, &records(1..11)).unwrap();
    let written = database.written.borrow().join("; ");
    for sequence in (1..11).filter(|sequence| *sequence != 7) {
        assert_eq!(written.matches(&format!("'t{sequence}'")).count(), 1);
    }
    assert!(!written.contains("'t7'"));
    assert_eq!(database.cursor.get(), Some(10));
    database.is_away.set(true);
    assert!(store(&database, &records(11..12)).is_err());
}

#[test]
fn a_cursor_of_a_log_that_was_lost_is_forgotten() {
    let database = Recorded {
        has_cursors: true,
        ..Recorded::default()
    };
    let cx = crate::testing::exec();
    database.cursor.set(Some(90));
    database.begin(&cx, "p", 90).unwrap();
    assert_eq!(database.cursor.get(), Some(90));
    database.begin(&cx, "p", 89).unwrap();
    assert_eq!(database.cursor.get(), None);
    Recorded::default().begin(&cx, "p", 1).unwrap();
}
