//! The `mysql` execution module: manages MySQL and MariaDB with their client program. Salt 3008 no
//! longer has it; the results are those of its last version.

mod connection;
pub(crate) mod database;
pub(crate) mod grants;
pub(crate) mod user;

use std::time::Instant;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

pub(crate) use connection::{Conn, ident, quoted, reason};

state::exec_module! {
    /// Manage MySQL and MariaDB with their client program. Each function accepts connection
    /// arguments such as `connection_user` and `connection_pass`.
    #[needs(
        "mariadb|mysql",
        "the program mariadb or mysql is not in the path",
        "mariadb-client"
    )]
    mod mysql;

    /// Run a statement.
    ///
    ///     salt-call mysql.query shop 'SELECT count(*) FROM orders'
    fn query(Query {
        /// The database.
        database: String,
        /// The SQL statement.
        query: String,
        ..kwargs
    });

    /// Run the statements of a file.
    ///
    ///     salt-call mysql.file_query shop /srv/tables.sql
    fn file_query(FileQuery {
        /// The database.
        database: String,
        /// The path of the file with the statements.
        file_name: String,
        ..kwargs
    });

    /// Return the status variables of the server.
    ///
    ///     salt-call mysql.status
    fn status(Status {
        ..kwargs
    });

    /// Return the version of the server.
    ///
    ///     salt-call mysql.version
    fn version(Version {
        ..kwargs
    });

    /// Return the lag of a replica in seconds. A negative number is an error: -1 if the server is
    /// not a replica, -2 if replication is not running, -3 if the query fails.
    ///
    ///     salt-call mysql.slave_lag
    fn slave_lag(SlaveLag {
        ..kwargs
    });

    /// Return the threads that are running on the server.
    ///
    ///     salt-call mysql.processlist
    fn processlist(Processlist {
        ..kwargs
    });

    /// Return the binary log status of a server for its replicas.
    ///
    ///     salt-call mysql.get_master_status
    fn get_master_status(GetMasterStatus {
        ..kwargs
    });

    /// Return the status of a replica.
    ///
    ///     salt-call mysql.get_slave_status
    fn get_slave_status(GetSlaveStatus {
        ..kwargs
    });

    /// Return the variables of the session.
    ///
    ///     salt-call mysql.showvariables
    fn showvariables(Showvariables {
        ..kwargs
    });

    /// Return the variables of the server.
    ///
    ///     salt-call mysql.showglobal
    fn showglobal(Showglobal {
        ..kwargs
    });

    /// Return the installed plugins.
    ///
    ///     salt-call mysql.plugins_list
    fn plugins_list(PluginsList {
        ..kwargs
    });

    /// Return the status of a plugin, or an empty text if it does not exist.
    ///
    ///     salt-call mysql.plugin_status auth_socket
    fn plugin_status(PluginStatus {
        /// The name of the plugin.
        name: String,
        ..kwargs
    });

    /// Install a plugin.
    ///
    ///     salt-call mysql.plugin_add auth_socket
    fn plugin_add(PluginAdd {
        /// The name of the plugin.
        name: String,
        /// The name of the plugin's library file.
        soname: Option<String> = None,
        ..kwargs
    });

    /// Remove a plugin.
    ///
    ///     salt-call mysql.plugin_remove auth_socket
    fn plugin_remove(PluginRemove {
        /// The name of the plugin.
        name: String,
        ..kwargs
    });

    /// Quote a name for SQL.
    ///
    ///     salt-call mysql.quote_identifier shop
    fn quote_identifier(QuoteIdentifier {
        /// The name.
        identifier: String,
        /// Whether to escape the name for a grant, where it is a pattern.
        for_grants: bool = false,
    });
}

/// Returns Salt's result for a failed query if the server cannot be queried. The error is logged.
fn or<T: Into<Value>>(
    found: Result<T, Error>,
    otherwise: impl Into<Value>,
) -> Result<Value, Error> {
    Ok(match found {
        Ok(found) => found.into(),
        Err(problem) => {
            log::error(&problem);
            otherwise.into()
        }
    })
}

/// Runs a statement, and returns the result of `mysql.query`.
pub(crate) fn ask(cx: &Exec, conn: &Conn, query: &str) -> Result<Map, Error> {
    let start = Instant::now();
    let statement = query.trim().trim_end_matches(';');
    let mut tables = conn.ask(cx, &format!("{statement}\n;\nSELECT ROW_COUNT() AS n"))?;
    let affected = tables.pop().and_then(|table| table.first("n"));
    let seconds = start.elapsed().as_secs_f64();
    let human = match seconds {
        0.0..0.2 => format!("{:.1}ms", seconds * 1000.0),
        _ => format!("{seconds:.2}s"),
    };
    let time = Map::new()
        .with("human", human)
        .with("raw", format!("{seconds:.5}"));
    let ret = Map::new().with("query time", time);
    let upper = statement.to_uppercase();
    if !["SELECT", "SHOW", "DESC"]
        .iter()
        .any(|word| upper.starts_with(word))
    {
        let affected = affected.and_then(|text| text.to_text().parse::<i64>().ok());
        return Ok(ret.with("rows affected", affected.unwrap_or(0).max(0)));
    }
    let table = tables.into_iter().next().unwrap_or_default();
    let count = i64::try_from(table.rows.len()).unwrap_or(i64::MAX);
    let columns = table
        .rows
        .first()
        .map(|row| Value::list(row.keys().cloned()));
    let rows = table
        .rows
        .iter()
        .map(|row| Value::list(row.values().cloned()));
    Ok(ret
        .with("rows returned", count)
        .with("columns", columns.unwrap_or_else(|| Value::list([])))
        .with("results", Value::list(rows)))
}

/// Runs the statements of a file, and returns the result of `mysql.file_query`.
pub(crate) fn ask_file(cx: &Exec, conn: &Conn, file: &str) -> Result<Map, Error> {
    let text = machine::fs::text(file)?;
    let (mut returned, mut affected, mut seconds) = (0, 0, 0.0);
    let (mut columns, mut results) = (Vec::new(), Vec::new());
    for statement in statements(&text) {
        let ret = ask(cx, conn, &statement)?;
        let number = |key: &str| ret.get(key).and_then(Value::as_int).unwrap_or(0);
        returned += number("rows returned");
        affected += number("rows affected");
        let raw = ret.get("query time").and_then(|time| time.get("raw"));
        seconds += raw
            .and_then(|raw| raw.to_text().parse::<f64>().ok())
            .unwrap_or(0.0);
        columns.extend(ret.get("columns").cloned());
        results.extend(ret.get("results").cloned());
    }
    let time = Map::new()
        .with("raw", seconds)
        .with("human", format!("{seconds:.2}s"));
    let all = Map::new()
        .with("rows returned", returned)
        .with("columns", Value::list(columns))
        .with("results", Value::list(results))
        .with("rows affected", affected)
        .with("query time", time);
    Ok(all
        .into_iter()
        .filter(|(_, value)| value.is_true())
        .collect())
}

/// Splits a file into statements. Each one ends with a line that ends in a semicolon. Comments are
/// removed.
fn statements(text: &str) -> Vec<String> {
    let (mut all, mut open) = (Vec::new(), String::new());
    let is_comment = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("-- ") || line.starts_with('#') || line == "--"
    };
    for line in text.lines().filter(|line| !is_comment(line)) {
        open.push_str(line);
        open.push('\n');
        if line.trim_end().ends_with(';') {
            all.push(std::mem::take(&mut open));
        }
    }
    all.retain(|statement| {
        statement
            .chars()
            .any(|sign| !sign.is_whitespace() && sign != ';')
    });
    all
}

fn query(cx: &Exec, args: Query) -> Result<Value, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?.within(&args.database);
    or(ask(cx, &conn, &args.query), false)
}

fn file_query(cx: &Exec, args: FileQuery) -> Result<Value, Error> {
    let file = match args.file_name.contains("://") {
        true => cx
            .call_internal("cp.cache_file", vec![args.file_name.into()], Map::new())?
            .to_text(),
        false => args.file_name,
    };
    let conn = Conn::from_kwargs(cx, &args.kwargs)?.within(&args.database);
    or(ask_file(cx, &conn, &file), false)
}

fn status(cx: &Exec, args: Status) -> Result<Value, Error> {
    let found = Conn::from_kwargs(cx, &args.kwargs)?.table(cx, "SHOW STATUS");
    let pair = |row: Map| {
        let mut cells = row.values().cloned();
        Some((cells.next()?, cells.next()?))
    };
    let all = found.map(|table| table.rows.into_iter().filter_map(pair).collect::<Map>());
    or(all, Map::new())
}

fn version(cx: &Exec, args: Version) -> Result<Value, Error> {
    or(Conn::from_kwargs(cx, &args.kwargs)?.version(cx), "")
}

fn slave_lag(cx: &Exec, args: SlaveLag) -> Result<Value, Error> {
    let found = Conn::from_kwargs(cx, &args.kwargs)?.table(cx, "SHOW SLAVE STATUS");
    let lag = found.map(|table| match table.rows.first() {
        None => Value::from(-1),
        Some(row) if row.get("Slave_IO_Running") == Some(&"Yes".into()) => {
            let seconds = row
                .get("Seconds_Behind_Master")
                .cloned()
                .unwrap_or_default();
            seconds
                .to_text()
                .parse::<i64>()
                .map_or(seconds, Value::from)
        }
        Some(_) => Value::from(-2),
    });
    or(lag, -3)
}

/// Returns the rows of a query.
fn rows(cx: &Exec, kwargs: &Map, sql: &str) -> Result<Value, Error> {
    or(
        Conn::from_kwargs(cx, kwargs)?.table(cx, sql),
        Value::list([]),
    )
}

/// Returns the first row of a query.
fn row(cx: &Exec, kwargs: &Map, sql: &str) -> Result<Value, Error> {
    let found = Conn::from_kwargs(cx, kwargs)?.table(cx, sql);
    let first = found.map(|table| table.rows.into_iter().next());
    let first = first.map(|row| row.map_or_else(|| Value::list([]), Value::from));
    or(first, Value::list([]))
}

fn processlist(cx: &Exec, args: Processlist) -> Result<Value, Error> {
    rows(cx, &args.kwargs, "SHOW FULL PROCESSLIST")
}

fn get_master_status(cx: &Exec, args: GetMasterStatus) -> Result<Value, Error> {
    row(cx, &args.kwargs, "SHOW MASTER STATUS")
}

fn get_slave_status(cx: &Exec, args: GetSlaveStatus) -> Result<Value, Error> {
    row(cx, &args.kwargs, "SHOW SLAVE STATUS")
}

fn showvariables(cx: &Exec, args: Showvariables) -> Result<Value, Error> {
    rows(cx, &args.kwargs, "SHOW VARIABLES")
}

fn showglobal(cx: &Exec, args: Showglobal) -> Result<Value, Error> {
    rows(cx, &args.kwargs, "SHOW GLOBAL VARIABLES")
}

fn plugins_list(cx: &Exec, args: PluginsList) -> Result<Value, Error> {
    let found = Conn::from_kwargs(cx, &args.kwargs)?.table(cx, "SHOW PLUGINS");
    let plugin = |row: Map| {
        let cell = |name: &str| row.get(name).cloned().unwrap_or_default();
        let plugin = Map::new().with("name", cell("Name"));
        Value::from(plugin.with("status", cell("Status")))
    };
    let all = found.map(|table| Value::list(table.rows.into_iter().map(plugin)));
    or(all, Value::list([]))
}

fn plugin_status(cx: &Exec, args: PluginStatus) -> Result<Value, Error> {
    or(
        Conn::from_kwargs(cx, &args.kwargs)?.plugin(cx, &args.name),
        "",
    )
}

fn plugin_add(cx: &Exec, args: PluginAdd) -> Result<Value, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    let added = || {
        if conn.plugin(cx, &args.name)?.is_empty() {
            let file = args.soname.unwrap_or_else(|| format!("{}.so", args.name));
            let (name, file) = (ident(&args.name), quoted(&file));
            conn.ask(cx, &format!("INSTALL PLUGIN {name} SONAME {file}"))?;
        }
        Ok(true)
    };
    or(added(), false)
}

fn plugin_remove(cx: &Exec, args: PluginRemove) -> Result<Value, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    let removed = || {
        if !conn.plugin(cx, &args.name)?.is_empty() {
            conn.ask(cx, &format!("UNINSTALL PLUGIN {}", ident(&args.name)))?;
        }
        Ok(true)
    };
    or(removed(), false)
}

fn quote_identifier(_cx: &Exec, args: QuoteIdentifier) -> Result<Value, Error> {
    let name = args.identifier.replace('`', "``").replace('%', "%%");
    let name = match args.for_grants {
        true => name.replace('_', "\\_"),
        false => name,
    };
    Ok(format!("`{name}`").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_taken_apart_at_the_ends_of_statements() {
        let text =
            "-- a comment\nCREATE TABLE a\n (b int);\n\nINSERT INTO a VALUES (1);;\n;\nSELECT 1";
        assert_eq!(
            statements(text),
            [
                "CREATE TABLE a\n (b int);\n",
                "\nINSERT INTO a VALUES (1);;\n"
            ]
        );
    }
}
