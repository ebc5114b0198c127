//! The `mysql_query` state module. Salt 3008 no longer has it; the returns are those of Salt's last
//! version of it.

use machine::fs::{self, Owner};
use state::exec::Exec;
use state::module::{Error, Ret};
use std::path::Path;

use value::{Map, Value, python};

use crate::exec::mysql::{Conn, ask, ask_file, database};

state::state_module! {
    /// Run statements on MySQL and MariaDB. Each function also accepts `connection_user`,
    /// `connection_pass` and the other connection arguments.
    #[needs("mariadb|mysql", "mysql module could not be loaded", "mariadb-client")]
    #[facts(free_arguments = true)]
    mod mysql_query;

    /// Run a statement.
    ///
    ///     remove old sessions:
    ///       mysql_query.run:
    ///         - database: shop
    ///         - query: DELETE FROM sessions WHERE age > 30
    fn run(Run {
        /// Any name.
        name: String,
        /// The database.
        database: String,
        /// The statement.
        query: String,
        /// The destination of the result: `grain`, or a file.
        output: Option<String> = None,
        /// The grain for the result.
        grain: Option<String> = None,
        /// The key in the grain.
        key: Option<String> = None,
        /// True to replace an existing result.
        overwrite: bool = true,
        /// True if the database must exist.
        check_db_exists: bool = true,
        /// A list of flags for the connection.
        client_flags: Value = Value::Null,
        ..kwargs
    });

    /// Run the statements of a file.
    ///
    ///     create the tables:
    ///       mysql_query.run_file:
    ///         - database: shop
    ///         - query_file: salt://tables.sql
    fn run_file(RunFile {
        /// Any name.
        name: String,
        /// The database.
        database: String,
        /// The file with the statements.
        query_file: String,
        /// The destination of the result: `grain`, or a file.
        output: Option<String> = None,
        /// The grain for the result.
        grain: Option<String> = None,
        /// The key in the grain.
        key: Option<String> = None,
        /// True to replace an existing result.
        overwrite: bool = true,
        /// The environment of the file.
        saltenv: Option<String> = None,
        /// True if the database must exist.
        check_db_exists: bool = true,
        /// A list of flags for the connection.
        client_flags: Value = Value::Null,
        ..kwargs
    });
}

/// The destination of a statement's result.
enum Output {
    Nowhere,
    /// A grain, and optionally a key in it.
    Grain(String, Option<String>),
    File(String),
}

impl Output {
    fn parse(
        output: Option<String>,
        grain: Option<String>,
        key: Option<String>,
    ) -> Result<Self, Error> {
        Ok(match (output, grain) {
            (None, _) => Self::Nowhere,
            (Some(word), Some(grain)) if word == "grain" => Self::Grain(grain, key),
            (Some(word), None) if word == "grain" => {
                return Err("Error: output type 'grain' needs the grain parameter\n".into());
            }
            (Some(file), _) => Self::File(file),
        })
    }

    /// Returns the name of the destination for comments.
    fn describe(&self) -> String {
        match self {
            Self::Nowhere => String::new(),
            Self::Grain(grain, None) => format!("grain: {grain}"),
            Self::Grain(grain, Some(key)) => format!("grain: {grain}:{key}"),
            Self::File(file) => format!("file: {file}"),
        }
    }

    /// Returns a comment if the destination contains a result already.
    fn is_set(&self, cx: &Exec) -> Option<String> {
        let (is_set, what) = match self {
            Self::Nowhere => return None,
            Self::Grain(grain, key) => {
                let grains = cx.grains();
                let found = grains.get(grain);
                let is_set = match key {
                    None => found.is_some(),
                    Some(key) => found.is_some_and(|value| value.get(key).is_some()),
                };
                (is_set, self.describe().replacen("grain: ", "Grain ", 1))
            }
            Self::File(file) => (Path::new(file).is_file(), format!("File {file}")),
        };
        is_set.then(|| format!("No execution needed. {what} already set"))
    }

    fn keep(&self, cx: &Exec, answer: &Map) -> Result<String, Error> {
        match self {
            Self::Nowhere => return Ok("Executed".to_owned()),
            Self::Grain(grain, key) => {
                let value = match key {
                    None => answer.clone(),
                    Some(key) => {
                        let grains = cx.grains();
                        let now = grains.get(grain).and_then(Value::as_map).cloned();
                        now.unwrap_or_default().with(key, answer.clone())
                    }
                };
                let args = vec![grain.as_str().into(), value.into()];
                cx.call_internal("grains.setval", args, Map::new())?;
            }
            Self::File(file) => {
                let text = written(answer);
                fs::write(cx, Path::new(file), text.as_bytes(), Owner::default())?;
                return Ok(format!("Executed. Output into {file}"));
            }
        }
        Ok(format!("Executed. Output into {}", self.describe()))
    }
}

/// Returns the result as the text of a file, with a line `column:value` for each cell.
fn written(answer: &Map) -> String {
    let cell = |(key, value): (&Value, &Value)| format!("{}:{}\n", key.to_text(), value.to_text());
    match answer.get("results").and_then(Value::as_list) {
        Some(rows) => rows
            .iter()
            .filter_map(Value::as_map)
            .flat_map(|row| row.iter().map(cell))
            .collect(),
        None => answer.iter().map(cell).collect(),
    }
}

/// Returns the result with its rows as dictionaries.
fn by_column(mut answer: Map) -> Map {
    let columns = answer.get("columns").and_then(Value::as_list);
    let columns: Vec<Value> = columns.map(<[Value]>::to_vec).unwrap_or_default();
    let row = |cells: &Value| -> Value {
        let cells = cells.as_list().unwrap_or_default().iter().cloned();
        columns.iter().cloned().zip(cells).collect::<Map>().into()
    };
    let rows = answer.get("results").and_then(Value::as_list);
    if let Some(rows) = rows.map(|rows| Value::list(rows.iter().map(row))) {
        answer.insert("results", rows);
    }
    answer
}

/// The arguments of both functions apart from the statements.
struct QueryOptions {
    database: String,
    /// The name of the database in the comment about a missing one.
    called: String,
    output: Output,
    overwrite: bool,
    must_exist: bool,
}

fn done(
    cx: &Exec,
    conn: &Conn,
    arguments: &QueryOptions,
    ask: impl FnOnce(&Conn) -> Result<Map, Error>,
) -> Result<Ret, Error> {
    if arguments.must_exist && !database::exists(cx, conn, &arguments.database)? {
        return Ok(Ret::would(format!(
            "Database {} is not present",
            arguments.called
        )));
    }
    if let Some(comment) = arguments.output.is_set(cx).filter(|_| !arguments.overwrite) {
        return Ok(Ret::ok(comment));
    }
    let would = match &arguments.output {
        Output::Nowhere => "Query would execute, not storing result".to_owned(),
        output => format!(
            "Query would execute, storing result in {}",
            output.describe()
        ),
    };
    cx.apply(Ret::would(would), || {
        let answer = by_column(ask(&conn.within(&arguments.database))?);
        let change = arguments.output.keep(cx, &answer)?;
        Ok(Ret::ok(python::repr(&answer.into())).change("query", change))
    })
}

fn checked(client_flags: &Value) -> Result<(), Error> {
    match client_flags.is_null() || client_flags.as_list().is_some() {
        true => Ok(()),
        false => Err("Error: client_flags must be a list.".into()),
    }
}

fn run(cx: &Exec, args: Run) -> Result<Ret, Error> {
    checked(&args.client_flags)?;
    let arguments = QueryOptions {
        database: args.database,
        called: args.name,
        output: Output::parse(args.output, args.grain, args.key)?,
        overwrite: args.overwrite,
        must_exist: args.check_db_exists,
    };
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    done(cx, &conn, &arguments, |conn| ask(cx, conn, &args.query))
}

fn run_file(cx: &Exec, args: RunFile) -> Result<Ret, Error> {
    checked(&args.client_flags)?;
    let mut file = args.query_file;
    if file.contains("://") {
        let saltenv = args
            .saltenv
            .map(|saltenv| Map::new().with("saltenv", saltenv));
        let found = cx.call_internal(
            "cp.cache_file",
            vec![file.into()],
            saltenv.unwrap_or_default(),
        )?;
        file = found.to_text();
    }
    if !Path::new(&file).exists() {
        return Ok(Ret::failed(format!("File {file} does not exist")));
    }
    let arguments = QueryOptions {
        called: args.database.clone(),
        database: args.database,
        output: Output::parse(args.output, args.grain, args.key)?,
        overwrite: args.overwrite,
        must_exist: args.check_db_exists,
    };
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    done(cx, &conn, &arguments, |conn| ask_file(cx, conn, &file))
}
