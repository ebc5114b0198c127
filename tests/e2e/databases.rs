//! Real servers of PostgreSQL and MariaDB in throw-away roots: behaviour that only they can show, and
//! the absence of passwords in the arguments of their clients.

use std::fs;

use serde_json::Value;
use tests::program::{prepare, salt_call_in_throwaway};
use tests::scratch::Scratch;

/// A secret that must not appear in any argument or log.
const SECRET: &str = "planted-secret";

/// A machine with a server, whose client records its arguments; `None` without root.
fn machine(server: &str, client: &str, config: &str, more: &str) -> Option<Scratch> {
    if !tests::skip::is_root() {
        return None;
    }
    let scratch = Scratch::new();
    scratch.write("etc/minion.d/case.conf", config);
    let script = format!(
        "dir=@ENV@\n. @CORPUS@/{server}.sh\n{more}\nmkdir -p /usr/local/clients\nclient=$(realpath {client})\nname={client}\n\
         printf '#!/bin/sh\\nprintf \"%%s\\\\n\" \"$@\" >>/tmp/arguments\\nexec %s \"$@\"\\n' \"$client\" >/usr/local/clients/${{name##*/}}\n\
         chmod 755 /usr/local/clients/*\ninstall -m 666 /dev/null /tmp/arguments\n"
    );
    prepare(scratch.path(), &scratch.filled(&script), true).unwrap();
    Some(scratch)
}

fn call(scratch: &Scratch, words: &[&str]) -> Value {
    let log = scratch.path().join("log").display().to_string();
    let first = ["--out=json", "--log-file-level=all", "--log-file", &log];
    let words: Vec<String> = first
        .iter()
        .chain(words)
        .map(|word| (*word).to_owned())
        .collect();
    let answer = salt_call_in_throwaway(scratch.path(), &words).unwrap();
    let told: Result<Value, _> = serde_json::from_str(&answer.out);
    told.unwrap_or_else(|_| panic!("{}", answer.out))["local"].clone()
}

/// Applies states in their order, which must all succeed, and returns their changes.
fn apply(scratch: &Scratch, sls: &str) -> Vec<Value> {
    scratch.write("srv/salt/case.sls", sls);
    let rets = call(scratch, &["state.apply", "case"]);
    let mut rets: Vec<&Value> = rets.as_object().unwrap().values().collect();
    rets.sort_by_key(|ret| ret["__run_num__"].as_u64());
    assert!(rets.iter().all(|ret| ret["result"] == true), "{rets:?}");
    rets.into_iter().map(|ret| ret["changes"].clone()).collect()
}

/// Asserts that the clients' arguments and the log exist, and do not contain the secret.
fn nothing_is_told(scratch: &Scratch) {
    for file in [
        scratch.changed("/tmp/arguments"),
        scratch.path().join("log"),
    ] {
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.is_empty(), "{} is empty", file.display());
        let line = text.lines().find(|line| line.contains(SECRET));
        assert_eq!(line, None, "{}", file.display());
    }
}

const ROLES: &str = "
keeper:
  postgres_user.present:
    - password: planted-secret
    - encrypted: scram-sha-256
new:
  postgres_user.present
data:
  postgres_database.present:
    - owner: new
    - owner_recurse: True
all of it:
  postgres_privileges.present:
    - name: keeper
    - object_name: t
    - object_type: table
    - privileges: [ALL]
    - maintenance_db: data
one of it:
  postgres_privileges.present:
    - name: reader
    - object_name: f(integer)
    - object_type: function
    - privileges: [EXECUTE]
    - grant_option: True
    - maintenance_db: data
";

#[test]
fn roles_of_postgresql_log_in_and_own_what_they_are_given() {
    let config = "postgres.host: @ENV@/run\npostgres.bins_dir: /usr/local/clients\n";
    let more = "psql -c 'create role reader' -c 'create database data'\npsql -d data -c 'create table t (a int)' \
         -c 'create function f(int) returns int language sql as $$select 1$$'\n\
         as_postgres sed -i '1i local all keeper scram-sha-256' /var/lib/postgresql/data/pg_hba.conf\n\
         as_postgres $bin/pg_ctl --pgdata=/var/lib/postgresql/data --silent reload";
    let client = "/usr/lib/postgresql/15/bin/psql";
    let Some(scratch) = machine("postgres", client, config, more) else {
        return;
    };
    let changes = apply(&scratch, ROLES);
    assert!(
        changes.iter().all(|one| one != &serde_json::json!({})),
        "{changes:?}"
    );
    let again = apply(&scratch, ROLES);
    assert!(
        again.iter().all(|one| one == &serde_json::json!({})),
        "{again:?}"
    );
    let owner = "select tableowner from pg_tables where tablename = 't'";
    let rows = call(
        &scratch,
        &["postgres.psql_query", owner, "maintenance_db=data"],
    );
    assert_eq!(rows, serde_json::json!([{"tableowner": "new"}]));
    let version = |password: &str| {
        let password = format!("password={password}");
        call(&scratch, &["postgres.version", "user=keeper", &password])
    };
    assert!(
        version(SECRET)
            .as_str()
            .is_some_and(|text| text.starts_with("15."))
    );
    assert_eq!(version("wrong"), Value::Null);
    nothing_is_told(&scratch);
}

const STATEMENTS: &str = "
keeper:
  mysql_user.present:
    - password: planted-secret
data:
  mysql_database.present:
    - character_set: latin1
rights:
  mysql_grants.present:
    - grant: ALL
    - database: data.*
    - user: keeper
made:
  mysql_query.run_file:
    - database: data
    - query_file: @ENV@/srv/make.sql
    - connection_user: keeper
    - connection_pass: planted-secret
rows:
  mysql_query.run:
    - database: data
    - query: SELECT * FROM t
    - output: @TMP@/rows
";

#[test]
fn users_of_mariadb_log_in_and_run_statements() {
    let config = "mysql.unix_socket: @ENV@/run/mysql.sock\nmysql.user: root\n";
    let more = "sql -e 'CREATE DATABASE data CHARACTER SET utf8mb4'\nln -s ../clients/mariadb /usr/local/bin/mariadb";
    let Some(scratch) = machine("mariadb", "/usr/bin/mariadb", config, more) else {
        return;
    };
    let file = "-- rows\nCREATE TABLE t\n  (a int, b varchar(20));\nINSERT INTO t VALUES (1, 'one;'),\n  (2, NULL);\n";
    scratch.write("srv/make.sql", file);
    let changes = apply(&scratch, STATEMENTS);
    assert_eq!(changes[1]["character_set"]["now"], "latin1");
    assert_eq!(changes[3]["query"], "Executed");
    let rows = fs::read_to_string(scratch.tmp().join("rows")).unwrap();
    assert_eq!(rows, "a:1\nb:one;\na:2\nb:None\n");
    let found = call(
        &scratch,
        &["mysql.query", "data", "SELECT a, b FROM t WHERE b IS NULL"],
    );
    assert_eq!(found["results"], serde_json::json!([["2", null]]));
    assert_eq!(found["columns"], serde_json::json!(["a", "b"]));
    let changed = call(&scratch, &["mysql.query", "data", "DELETE FROM t"]);
    assert_eq!(changed["rows affected"], 2);
    let login = |password: &str| call(&scratch, &["mysql.verify_login", "keeper", password]);
    assert_eq!((login(SECRET), login("wrong")), (true.into(), false.into()));
    nothing_is_told(&scratch);
}
