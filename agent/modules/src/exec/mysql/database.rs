//! The databases of a server.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::{Conn, ident, or, quoted};

state::exec_module! {
    /// Manage databases of MySQL and MariaDB.
    mod mysql;

    /// Return the databases.
    ///
    ///     salt-call mysql.db_list
    fn db_list(DbList {
        ..kwargs
    });

    /// Return True if a database exists.
    ///
    ///     salt-call mysql.db_exists shop
    fn db_exists(DbExists {
        /// The name of the database.
        name: String,
        ..kwargs
    });

    /// Return the character set and collation of a database.
    ///
    ///     salt-call mysql.db_get shop
    fn db_get(DbGet {
        /// The name of the database.
        name: String,
        ..kwargs
    });

    /// Return the tables of a database.
    ///
    ///     salt-call mysql.db_tables shop
    fn db_tables(DbTables {
        /// The name of the database.
        name: String,
        ..kwargs
    });

    /// Create a database.
    ///
    ///     salt-call mysql.db_create shop character_set=utf8mb4
    fn db_create(DbCreate {
        /// The name of the database.
        name: String,
        /// The character set.
        character_set: Option<String> = None,
        /// The collation.
        collate: Option<String> = None,
        ..kwargs
    });

    /// Change a database.
    ///
    ///     salt-call mysql.alter_db shop character_set=utf8mb4
    fn alter_db(AlterDb {
        /// The name of the database.
        name: String,
        /// The character set.
        character_set: Option<String> = None,
        /// The collation.
        collate: Option<String> = None,
        ..kwargs
    });

    /// Remove a database.
    ///
    ///     salt-call mysql.db_remove shop
    fn db_remove(DbRemove {
        /// The name of the database.
        name: String,
        ..kwargs
    });

    /// Check the tables of a database.
    ///
    ///     salt-call mysql.db_check shop
    fn db_check(DbCheck {
        /// The name of the database.
        name: String,
        /// The table. The default is all tables.
        table: Option<String> = None,
        ..kwargs
    });

    /// Repair the tables of a database.
    ///
    ///     salt-call mysql.db_repair shop
    fn db_repair(DbRepair {
        /// The name of the database.
        name: String,
        /// The table. The default is all tables.
        table: Option<String> = None,
        ..kwargs
    });

    /// Optimize the tables of a database.
    ///
    ///     salt-call mysql.db_optimize shop
    fn db_optimize(DbOptimize {
        /// The name of the database.
        name: String,
        /// The table. The default is all tables.
        table: Option<String> = None,
        ..kwargs
    });
}

/// Returns the first column of a statement's rows, such as the names of all databases.
fn names(cx: &Exec, conn: &Conn, sql: &str) -> Result<Vec<String>, Error> {
    let rows = conn.table(cx, sql)?.rows;
    let first = |row: &Map| row.values().next().map(Value::to_text);
    Ok(rows.iter().filter_map(first).collect())
}

/// Returns whether a database exists.
pub(crate) fn exists(cx: &Exec, conn: &Conn, name: &str) -> Result<bool, Error> {
    conn.has(cx, &format!("SHOW DATABASES LIKE {}", quoted(name)))
}

/// Returns the character set and collation of a database; `None` if it does not exist.
pub(crate) fn get(cx: &Exec, conn: &Conn, name: &str) -> Result<Option<Map>, Error> {
    let sql = format!(
        "SELECT DEFAULT_CHARACTER_SET_NAME AS character_set, DEFAULT_COLLATION_NAME AS collate_name \
         FROM INFORMATION_SCHEMA.SCHEMATA WHERE SCHEMA_NAME={}",
        quoted(name)
    );
    let table = conn.table(cx, &sql)?;
    let cell = |column: &str| table.first(column);
    Ok(cell("character_set").map(|set| {
        let collate = cell("collate_name").unwrap_or_default();
        Map::new()
            .with("character_set", set)
            .with("collate", collate)
    }))
}

fn clause(asked: Option<&str>, word: &str) -> String {
    let asked = asked.filter(|value| !value.is_empty());
    asked.map_or_else(String::new, |value| format!(" {word} {}", quoted(value)))
}

/// Creates a database.
pub(crate) fn create(
    cx: &Exec,
    conn: &Conn,
    name: &str,
    (character_set, collate): (Option<&str>, Option<&str>),
) -> Result<(), Error> {
    let (set, collate) = (
        clause(character_set, "CHARACTER SET"),
        clause(collate, "COLLATE"),
    );
    let sql = format!(
        "CREATE DATABASE IF NOT EXISTS {}{set}{collate}",
        ident(name)
    );
    conn.ask(cx, &sql).map(|_| ())
}

/// Changes a database.
pub(crate) fn alter(
    cx: &Exec,
    conn: &Conn,
    name: &str,
    (character_set, collate): (Option<&str>, Option<&str>),
) -> Result<(), Error> {
    let (set, collate) = (
        clause(character_set, "CHARACTER SET"),
        clause(collate, "COLLATE"),
    );
    conn.ask(cx, &format!("ALTER DATABASE {}{set}{collate}", ident(name)))
        .map(|_| ())
}

/// Removes an existing database. Returns true if it is gone afterwards.
pub(crate) fn remove(cx: &Exec, conn: &Conn, name: &str) -> Result<bool, Error> {
    if matches!(name, "mysql" | "information_scheme") {
        log::info(format_args!("DB '{name}' may not be removed"));
        return Ok(false);
    }
    conn.ask(cx, &format!("DROP DATABASE {}", ident(name)))?;
    Ok(!exists(cx, conn, name)?)
}

fn db_list(cx: &Exec, args: DbList) -> Result<Value, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    or(names(cx, &conn, "SHOW DATABASES"), Value::list([]))
}

fn db_exists(cx: &Exec, args: DbExists) -> Result<Value, Error> {
    or(
        exists(cx, &Conn::from_kwargs(cx, &args.kwargs)?, &args.name),
        false,
    )
}

fn db_get(cx: &Exec, args: DbGet) -> Result<Value, Error> {
    let found = get(cx, &Conn::from_kwargs(cx, &args.kwargs)?, &args.name);
    or(found.map(Option::unwrap_or_default), Value::list([]))
}

fn tables(cx: &Exec, conn: &Conn, name: &str) -> Result<Vec<String>, Error> {
    names(cx, conn, &format!("SHOW TABLES IN {}", ident(name)))
}

fn db_tables(cx: &Exec, args: DbTables) -> Result<Value, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    match exists(cx, &conn, &args.name) {
        Ok(true) => or(tables(cx, &conn, &args.name), Value::list([])),
        found => or(found, false),
    }
}

fn db_create(cx: &Exec, args: DbCreate) -> Result<Value, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    let with = (args.character_set.as_deref(), args.collate.as_deref());
    let created = || {
        let is_new = !exists(cx, &conn, &args.name)?;
        if is_new {
            create(cx, &conn, &args.name, with)?;
        }
        Ok(is_new)
    };
    or(created(), false)
}

fn alter_db(cx: &Exec, args: AlterDb) -> Result<Value, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    let with = (args.character_set.as_deref(), args.collate.as_deref());
    or(alter(cx, &conn, &args.name, with).map(|()| true), false)
}

fn db_remove(cx: &Exec, args: DbRemove) -> Result<Value, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    let removed = || Ok(exists(cx, &conn, &args.name)? && remove(cx, &conn, &args.name)?);
    or(removed(), false)
}

/// Runs a statement for one table, or for each table. Returns the results.
fn each(
    cx: &Exec,
    kwargs: &Map,
    word: &str,
    name: &str,
    table: Option<String>,
) -> Result<Value, Error> {
    let conn = Conn::from_kwargs(cx, kwargs)?;
    let one = |table: &str| {
        conn.table(
            cx,
            &format!("{word} TABLE {}.{}", ident(name), ident(table)),
        )
        .map(Value::from)
    };
    if let Some(table) = table {
        return or(one(&table), Map::new());
    }
    let all = || -> Result<Value, Error> {
        let tables = tables(cx, &conn, name)?;
        let said: Result<Vec<Value>, Error> = tables.iter().map(|table| one(table)).collect();
        Ok(Value::list(said?))
    };
    or(all(), Value::list([]))
}

fn db_check(cx: &Exec, args: DbCheck) -> Result<Value, Error> {
    each(cx, &args.kwargs, "CHECK", &args.name, args.table)
}

fn db_repair(cx: &Exec, args: DbRepair) -> Result<Value, Error> {
    each(cx, &args.kwargs, "REPAIR", &args.name, args.table)
}

fn db_optimize(cx: &Exec, args: DbOptimize) -> Result<Value, Error> {
    each(cx, &args.kwargs, "OPTIMIZE", &args.name, args.table)
}
