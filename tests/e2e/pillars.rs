//! External pillars: data of databases against the answers of Salt, and sources that fail.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use tests::program::{prepare, program, salt_call, salt_call_in_throwaway};
use tests::scratch::{Scratch, corpus};

/// The password of the database accounts. It must not appear in an argument, an output or a log.
const SECRET: &str = "planted-secret";

const KINDS: [&str; 3] = ["sqlite3", "mysql", "postgres"];

/// Returns the result of a function on this machine.
pub(crate) fn call(scratch: &Scratch, words: &[&str]) -> Value {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let answer = salt_call(
        scratch.path(),
        &[words, vec!["--out=json".to_owned()]].concat(),
    );
    let out = answer.unwrap().out;
    serde_json::from_str::<Value>(&out).unwrap_or_else(|_| panic!("{out}{}", stderr(scratch)))["local"].clone()
}

fn stderr(scratch: &Scratch) -> String {
    fs::read_to_string(scratch.path().join("stderr")).unwrap()
}

/// Returns the configuration with the placeholder of a database.
fn written(config: &Value, kind: &str) -> Value {
    match config {
        Value::String(text) if kind == "sqlite3" => text.replace("%s", "?").into(),
        Value::Array(items) => items.iter().map(|item| written(item, kind)).collect(),
        Value::Object(map) => {
            let entries = map.iter();
            let entries = entries.map(|(key, value)| (key.clone(), written(value, kind)));
            Value::Object(entries.collect())
        }
        other => other.clone(),
    }
}

/// Returns the options of the connections: of accounts that need no password.
fn connections(dir: &Path) -> Value {
    json!({
        "sqlite3": {"database": dir.join("pillar.db")},
        "mysql": {"user": "root", "pass": "", "db": "salt", "unix_socket": dir.join("run/mysql.sock")},
        "postgres": {"host": dir.join("run"), "user": "postgres", "db": "postgres"},
        "postgres.bins_dir": "/usr/lib/postgresql/15/bin",
        "id": "m1",
    })
}

/// Writes the configuration of a case: that of the scratch minion, and these options.
fn configure(scratch: &Scratch, folder: &str, options: &Value) {
    let minion = fs::read_to_string(scratch.path().join("etc/minion")).unwrap();
    scratch.write(format!("{folder}/minion"), &minion);
    scratch.write(format!("{folder}/minion.d/case.conf"), &options.to_string());
}

/// A root with the three databases; `None` without root.
fn databases(setup: &Value, more: &str) -> Option<Scratch> {
    if !tests::skip::is_root() {
        return None;
    }
    let scratch = Scratch::new();
    for kind in KINDS {
        let own = setup[kind].as_str().unwrap();
        let sql = format!("{own}{}", setup["all"].as_str().unwrap());
        scratch.write(format!("{kind}.sql"), &sql);
    }
    let script = format!("dir=@ENV@ corpus=@CORPUS@\n. @CORPUS@/pillars/sql.sh\n{more}");
    prepare(scratch.path(), &scratch.filled(&script), true).unwrap();
    Some(scratch)
}

/// Returns the cases and the statements that fill the databases.
fn cases() -> Value {
    let scratch = Scratch::new();
    let path = corpus().join("pillars/sql.yaml").display().to_string();
    call(
        &scratch,
        &["slsutil.renderer", &path, "default_renderer=yaml"],
    )
}

/// Returns why the answer to a case is wrong, if it is. `out` is the pillar as Python prints it.
fn wrong(case: &Value, kind: &str, out: &str, salt: &Value) -> Option<String> {
    let wanted = match &case["pinch"] {
        Value::Null => salt.as_str().unwrap(),
        Value::Object(by_kind) => by_kind[kind].as_str().unwrap(),
        wanted => wanted.as_str().unwrap(),
    };
    let is_right = match wanted.strip_prefix("error ") {
        Some(part) => {
            out.starts_with("local: {'_errors': [")
                && out.replace("\\'", "'").contains(part)
                && out.contains(&format!("Failed to load ext_pillar {kind}: "))
        }
        None => out.trim_end() == format!("local: {wanted}"),
    };
    (!is_right).then(|| format!("wanted {wanted}\n   got {out}"))
}

#[test]
fn queries_of_databases_give_the_pillar_that_salt_makes_of_them() {
    let corpus_of_sql = cases();
    let Some(scratch) = databases(&corpus_of_sql["setup"], "") else {
        return;
    };
    let salt = fs::read_to_string(corpus().join("pillars/sql.json")).unwrap();
    let salt: Map<String, Value> = serde_json::from_str(&salt).unwrap();
    let mut all = Vec::new();
    for (name, case) in corpus_of_sql["cases"].as_object().unwrap() {
        let is_in = |kind: &&&str| match case["only"].as_array() {
            Some(only) => only.contains(&json!(**kind)),
            None => true,
        };
        for kind in KINDS.iter().filter(is_in) {
            let mut options = connections(scratch.path());
            options["ext_pillar"] = json!([{*kind: written(&case["config"], kind)}]);
            configure(&scratch, &format!("cases/{name} {kind}"), &options);
            all.push((format!("{name} {kind}"), case, *kind));
        }
    }
    assert!(all.len() >= 60);
    let program = program().join(" ");
    let script = format!(
        "for case in cases/*; do {program} -c \"$case\" --local pillar.items unmask=True --out=txt >\"$case/out\" 2>\"$case/err\" || :; done"
    );
    prepare(scratch.path(), &script, true).unwrap();
    let failed: Vec<String> = all
        .iter()
        .filter_map(|(name, case, kind)| {
            let out = scratch.path().join("cases").join(name).join("out");
            let why = wrong(case, kind, &fs::read_to_string(out).unwrap(), &salt[name])?;
            Some(format!("{name}: {why}"))
        })
        .collect();
    assert!(
        failed.is_empty(),
        "{} of {}:\n{}",
        failed.len(),
        all.len(),
        failed.join("\n")
    );
}

/// Accounts with a password, and a log of the arguments of the clients.
const ACCOUNTS: &str = "
psql -c \"create role keeper login password 'planted-secret'\" -c 'grant select on all tables in schema public to keeper'
as_postgres sed -i '1i local all keeper scram-sha-256' /var/lib/postgresql/data/pg_hba.conf
as_postgres $bin/pg_ctl --pgdata=/var/lib/postgresql/data --silent reload
mariadb --no-defaults --user=root --socket=$dir/run/mysql.sock -e \"GRANT ALL ON salt.* TO keeper@localhost IDENTIFIED BY 'planted-secret'\"
mkdir -p /usr/local/clients
install -m 666 /dev/null /tmp/arguments
for client in $bin/psql /usr/bin/mariadb /usr/bin/sqlite3; do
    real=$(realpath $client)
    printf '#!/bin/sh\\nprintf \"%%s\\\\n\" \"$@\" >>/tmp/arguments\\nexec %s \"$@\"\\n' $real >/usr/local/clients/${client##*/}
    ln -s ../clients/${client##*/} /usr/local/bin/${client##*/}
done
chmod 755 /usr/local/clients/*
";

/// Applies the state `case`, which an external pillar must stop. Returns the output and the log.
pub(crate) fn stopped(scratch: &Scratch, kind: &str) -> (String, String) {
    let log = scratch.path().join("log").display().to_string();
    let words = [
        "state.apply",
        "case",
        "--log-file-level=all",
        "--log-file",
        &log,
    ];
    let answer = salt_call(scratch.path(), &words.map(str::to_owned)).unwrap();
    let said = answer.out + &stderr(scratch);
    let failed = format!("Failed to load ext_pillar {kind}: ");
    assert!(said.contains(&failed), "{said}");
    assert!(!scratch.tmp().join("made").exists(), "{said}");
    (said, fs::read_to_string(log).unwrap())
}

/// Applies a state with an external pillar, and returns the output. Without a change, the account
/// and its password are right.
fn apply(scratch: &Scratch, kind: &str, query: &Value, change: Option<(&str, Value)>) -> String {
    let dir = scratch.path();
    let mut options = connections(dir);
    for server in ["mysql", "postgres"] {
        options[server]["user"] = "keeper".into();
        options[server]["pass"] = SECRET.into();
    }
    if let Some((key, value)) = change {
        options[kind][key] = value;
    }
    options["ext_pillar"] = json!([{kind: [query]}]);
    options["postgres.bins_dir"] = "/usr/local/clients".into();
    scratch.write("etc/minion.d/case.conf", &options.to_string());
    let log = dir.join("log").display().to_string();
    let words = [
        "state.apply",
        "case",
        "--log-file-level=all",
        "--log-file",
        &log,
    ];
    let answer = salt_call_in_throwaway(dir, &words.map(str::to_owned)).unwrap();
    let said = answer.out + &fs::read_to_string(dir.join("stderr")).unwrap();
    assert!(!said.contains(SECRET), "{said}");
    said
}

/// A query, a changed setting of its connection, and a part of the error.
type Failure = (Value, Option<(&'static str, Value)>, &'static str);

/// Returns a query with one row.
fn row(placeholder: &str) -> Value {
    json!(format!(
        "SELECT a, d FROM p WHERE minion = {placeholder} AND e = 1"
    ))
}

/// Returns the setting for a query that may run for a second.
fn second() -> Option<(&'static str, Value)> {
    Some(("query_timeout", json!(1)))
}

fn failures_of_sqlite3(scratch: &Scratch) -> Vec<Failure> {
    let at = |path: &str| Some(("database", json!(scratch.path().join(path))));
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 'x', count(*) FROM n WHERE ? = 'm1'";
    let list = json!({"query": "SELECT '[1]' WHERE ? = 'm1'", "as_json": true});
    let large = json!("SELECT 'x', hex(zeroblob(40000000)) WHERE ? = 'm1'");
    let no_table = json!("SELECT a FROM nosuch WHERE a = ?");
    vec![
        (row("?"), at("nosuch"), "unable to open database"),
        (row("?"), at("etc/minion"), "file is not a database"),
        (no_table, None, "no such table: nosuch"),
        (list, None, "each row must be a dictionary"),
        (
            json!(endless),
            second(),
            "has not answered within 1.0 seconds",
        ),
        (large, None, "wrote more than"),
    ]
}

fn failures_of_mysql(scratch: &Scratch) -> Vec<Failure> {
    let password = Some(("pass", json!("planted-other")));
    let socket = Some(("unix_socket", json!(scratch.path().join("nosuch"))));
    let no_table = json!("SELECT a FROM nosuch WHERE a = %s");
    let slow = json!("SELECT 'x', sleep(9) FROM p WHERE minion = %s");
    let large = json!("SELECT 'x', seq FROM seq_1_to_3000000 WHERE 'm1' = %s");
    vec![
        (
            row("%s"),
            password,
            "Access denied for user 'keeper'@'localhost'",
        ),
        (row("%s"), socket, "Can't connect to local server"),
        (no_table, None, "Table 'salt.nosuch' doesn't exist"),
        (json!("UPDATE p SET d = %s"), None, "it returns no columns"),
        (slow, second(), "has not answered within 1.0 seconds"),
        (large, None, "wrote more than"),
    ]
}

fn failures_of_postgres(scratch: &Scratch) -> Vec<Failure> {
    let password = Some(("pass", json!("planted-other")));
    let host = Some(("host", json!(scratch.path().join("nosuch"))));
    let no_table = json!("SELECT a FROM nosuch WHERE a = %s");
    let slow = json!("SELECT 'x', pg_sleep(9)::text FROM p WHERE minion = %s");
    let large = json!("SELECT 'x', repeat('0123456789abcdef', 5000000) WHERE 'm1' = %s");
    vec![
        (
            row("%s"),
            password,
            "password authentication failed for user \"keeper\"",
        ),
        (row("%s"), host, "No such file or directory"),
        (no_table, None, "relation \"nosuch\" does not exist"),
        (json!("SET a.b = %s"), None, "it returns no columns"),
        (slow, second(), "has not answered within 1.0 seconds"),
        (large, None, "wrote more than"),
    ]
}

#[test]
fn no_state_runs_when_a_database_fails() {
    let setup = cases()["setup"].clone();
    let Some(scratch) = databases(&setup, ACCOUNTS) else {
        return;
    };
    let sls = "{{ pillar['a1'] }}:\n  file.managed:\n    - name: @TMP@/made\n    - contents: x\n";
    scratch.write("srv/salt/case.sls", sls);
    let made = scratch.tmp().join("made");
    let all = [
        ("sqlite3", "?", failures_of_sqlite3(&scratch)),
        ("mysql", "%s", failures_of_mysql(&scratch)),
        ("postgres", "%s", failures_of_postgres(&scratch)),
    ];
    for (kind, placeholder, failures) in all {
        for (query, change, sentence) in failures {
            let said = apply(&scratch, kind, &query, change);
            let failed = format!("Failed to load ext_pillar {kind}: query 1: ");
            assert!(
                said.contains(&failed) && said.contains(sentence),
                "{sentence}\n{said}"
            );
            assert!(!made.exists(), "{said}");
        }
        let said = apply(&scratch, kind, &row(placeholder), None);
        assert!(made.exists(), "{said}");
        fs::remove_file(&made).unwrap();
    }
    for file in [
        scratch.changed("/tmp/arguments"),
        scratch.path().join("log"),
    ] {
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            !text.is_empty() && !text.contains("planted-"),
            "{}",
            file.display()
        );
    }
}
