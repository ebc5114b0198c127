//! Returners that write into databases: the rows are those of Salt, and no event of a master is lost or
//! written twice.

use std::fs;

use tests::program::{prepare, program};
use tests::scratch::{Scratch, corpus};

/// The returners with tables, and the others.
const TABLES: [&str; 4] = ["pgjsonb", "postgres", "mysql", "sqlite3"];
const OTHERS: [&str; 1] = ["redis"];

/// Returns the statements that the documentation has for a database.
pub(crate) fn tables(database: &str) -> String {
    let page = corpus().join("../../packaging/docs/returners.md");
    let page = fs::read_to_string(page).unwrap();
    let mut blocks = page.split("```sql\n-- ").skip(1);
    let block = blocks.find(|block| block.starts_with(database)).unwrap();
    let (statements, _) = block.split_once("```").unwrap();
    let (_, statements) = statements.split_once('\n').unwrap();
    statements.to_owned()
}

/// A root for the script `servers.sh`; `None` without root.
fn root() -> Option<Scratch> {
    if !tests::skip::is_root() {
        return None;
    }
    let scratch = Scratch::new();
    let postgres = tables("PostgreSQL");
    scratch.write("jsonb.sql", &postgres);
    scratch.write("text.sql", &postgres.replace("jsonb", "text"));
    scratch.write("mysql.sql", &tables("MySQL"));
    scratch.write("sqlite3.sql", &tables("SQLite"));
    Some(scratch)
}

/// Runs a script in the root, after the servers were started. They end with it.
fn run(scratch: &Scratch, script: &str) {
    let script = format!(
        "dir=@ENV@ corpus=@CORPUS@\n. @CORPUS@/returners/servers.sh\ntrap stop_servers EXIT\n{script}"
    );
    let done = prepare(scratch.path(), &scratch.filled(&script), true);
    let out = fs::read_to_string(scratch.path().join("calls.log")).unwrap_or_default();
    done.unwrap_or_else(|error| panic!("{error}\n{out}"));
}

#[test]
fn rows_of_returns_are_those_of_salt() {
    let Some(scratch) = root() else {
        return;
    };
    let program = program().join(" ");
    run(
        &scratch,
        &format!("each_case '{program}' @CORPUS@/returners/cases.txt"),
    );
    for kind in TABLES.iter().chain(&OTHERS) {
        let written = fs::read_to_string(scratch.path().join(format!("{kind}.rows"))).unwrap();
        let salt = corpus().join(format!("returners/{kind}.rows"));
        assert_eq!(written, fs::read_to_string(salt).unwrap(), "{kind}");
    }
    let out = fs::read_to_string(scratch.path().join("calls.log")).unwrap();
    assert!(!out.contains("planted-secret"), "{out}");
}

#[test]
fn each_event_and_return_is_written_once_whichever_process_is_killed() {
    let Some(scratch) = root() else {
        return;
    };
    let program = &program()[0];
    let kills = std::env::var("PINCH_KILLS").map_or(8, |text| text.parse().unwrap());
    run(
        &scratch,
        &format!("rounds={kills} program='{program}'\n. @CORPUS@/returners/kills.sh"),
    );
    let wanted: Vec<String> = (1..=5 * kills)
        .map(|number| format!("my/{number}"))
        .collect();
    for kind in TABLES {
        let tags = fs::read_to_string(scratch.path().join(format!("{kind}.tags"))).unwrap();
        assert_eq!(tags.lines().collect::<Vec<_>>(), wanted, "{kind}");
        let jobs = fs::read_to_string(scratch.path().join(format!("{kind}.jobs"))).unwrap();
        let [jids, returns, with_load] = jobs.lines().collect::<Vec<_>>()[..] else {
            panic!("{jobs}");
        };
        assert!(jids.parse::<u32>().unwrap() >= kills, "{kind}: {jobs}");
        assert_eq!((returns, with_load), (jids, jids), "{kind}");
    }
    let redis = fs::read_to_string(scratch.path().join("redis.jobs")).unwrap();
    let sqlite = fs::read_to_string(scratch.path().join("sqlite3.jobs")).unwrap();
    assert_eq!(redis.lines().next(), sqlite.lines().next());
}
