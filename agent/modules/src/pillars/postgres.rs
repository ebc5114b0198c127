//! The external pillar `postgres`: queries of a PostgreSQL server, with the program `psql`.

use state::exec::Exec;
use state::module::Error;
use value::python::hex;
use value::{Map, Value, json, random};

use super::sql::{self, Database, Settings, Table};
use crate::databases::postgres::{Server, reason};
use crate::exec::postgres::{quoted, records};

/// Settings of a session whose output can be parsed. Nothing is committed.
const SESSION: &str =
    "SET standard_conforming_strings = on;\nSET bytea_output = 'hex';\nSET datestyle = 'ISO';\n";

/// Returns the data of queries.
///
/// # Errors
/// When a query fails.
pub(super) fn load(cx: &Exec, val: &Value, _pillar: &Map) -> Result<Map, Error> {
    let settings = Settings::new(cx, "postgres")?;
    let env = Map::new()
        .with("PGHOST", settings.text("host", "localhost"))
        .with("PGPORT", settings.text("port", "5432"))
        .with("PGUSER", settings.text("user", "salt"))
        .with("PGPASSWORD", settings.password("salt"))
        .with("PGDATABASE", settings.text("db", "salt"));
    let server = Server::new(cx, env, settings.query_timeout()?)?;
    sql::load(cx, val, &server)
}

impl Database for Server {
    /// `\gdesc` prints the names and types of the columns, and `\g` repeats the query for its rows.
    fn rows(&self, cx: &Exec, query: &str, id: &str) -> Result<Table, Error> {
        let (query, _) = sql::filled(query, &quoted(id))?;
        let query = query.trim_end_matches([';', ' ', '\t', '\r', '\n']);
        let mark = mark()?;
        let script =
            format!("{SESSION}\\pset null {mark}\nBEGIN;\n{query}\n\\gdesc\n\\echo {mark}\n\\g\n");
        let output = self.run(cx, script);
        let output = output.map_err(|failure| failure.into_error(reason))?;
        let parts = output.split_once(&format!("{mark}\n"));
        let (columns, rows) = parts.ok_or("the program psql has not printed the columns")?;
        table(&records(columns, true), records(rows, false), &mark)
    }
}

/// Returns a word that no value equals by chance: it marks NULL, and the begin of the rows.
fn mark() -> Result<String, Error> {
    let bytes = random::array::<16>().map_err(|error| Error::refused(error.to_string()))?;
    Ok(hex(&bytes))
}

/// Returns the table of columns (names and types) and rows.
fn table(columns: &[Vec<String>], rows: Vec<Vec<String>>, mark: &str) -> Result<Table, Error> {
    let mut table = Table::default();
    let mut types = Vec::new();
    for column in columns {
        // Without columns, there is a sentence with a comma.
        let [name, of] = column.as_slice() else {
            return Err("it returns no columns".into());
        };
        if of.starts_with(' ') {
            return Err("it returns no columns".into());
        }
        table.names.push(name.clone());
        types.push(of.as_str());
    }
    for row in rows {
        if row.len() != types.len() {
            return Err("it has more than one statement that returns rows".into());
        }
        let cells = types.iter().zip(row);
        let cells = cells.map(|(of, text)| match text == mark {
            true => Ok(Value::Null),
            false => value(of, &text),
        });
        table.rows.push(cells.collect::<Result<_, Error>>()?);
    }
    Ok(table)
}

/// Returns the value of a text of a type, by the type's name.
fn value(of: &str, text: &str) -> Result<Value, Error> {
    if let Some(item) = of.strip_suffix("[]") {
        return array(item, text);
    }
    match of.split('(').next().unwrap_or_default() {
        "smallint" | "integer" | "bigint" | "oid" | "numeric" => sql::number(text),
        "real" | "double precision" => Ok(sql::number(text)?.as_float().into()),
        "boolean" => Ok((text == "t").into()),
        "json" | "jsonb" => json::read(text).map_err(|error| Error::refused(error.to_string())),
        "bytea" => sql::bytes(text.strip_prefix("\\x").unwrap_or(text)),
        _ => Ok(text.into()),
    }
}

/// Returns the list of an array: `{1,NULL,"a b"}`, also within another one.
fn array(item: &str, text: &str) -> Result<Value, Error> {
    let broken = || Error::from("the database has returned an array that cannot be read");
    // A range of indexes that do not begin at 1: [0:1]={1,2}.
    let text = match text.starts_with('[') {
        true => text.split_once('=').ok_or_else(broken)?.1,
        false => text,
    };
    let mut open: Vec<Vec<Value>> = Vec::new();
    let (mut word, mut is_quoted, mut was_quoted) = (String::new(), false, false);
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => word.push(signs.next().ok_or_else(broken)?),
            '"' => (is_quoted, was_quoted) = (!is_quoted, true),
            sign if is_quoted => word.push(sign),
            '{' => open.push(Vec::new()),
            ',' | '}' => {
                let items = open.last_mut().ok_or_else(broken)?;
                let text = std::mem::take(&mut word);
                match text.as_str() {
                    "" if !was_quoted => {}
                    "NULL" if !was_quoted => items.push(Value::Null),
                    text => items.push(value(item, text)?),
                }
                was_quoted = false;
                if sign == '}' {
                    let done = Value::list(open.pop().ok_or_else(broken)?);
                    match open.last_mut() {
                        Some(outer) => outer.push(done),
                        None => return Ok(done),
                    }
                }
            }
            sign => word.push(sign),
        }
    }
    Err(broken())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_the_types_of_their_columns() {
        let columns = records("a,integer\na,\"numeric(5,2)\"\nb,bytea\nc,jsonb\n", true);
        let rows = records("7,1.50,\\x00ff,\"{\"\"x\"\": [1]}\"\n7,?,?,?\n", false);
        let found = table(&columns, rows, "?").unwrap();
        assert_eq!(found.names, ["a", "a", "b", "c"]);
        let json = Map::new().with("x", Value::list([1.into()]));
        let bytes = Value::Bytes([0, 255].into());
        assert_eq!(found.rows[0], [7.into(), 1.5.into(), bytes, json.into()]);
        assert_eq!(found.rows[1][1..], [Value::Null, Value::Null, Value::Null]);
        let no_columns = records(
            "The command has no result, or the result has no columns.\n",
            true,
        );
        assert!(table(&no_columns, Vec::new(), "?").is_err());
        assert_eq!(records("\nx\n", false), [[""], ["x"]]);
    }

    #[test]
    fn arrays_become_lists() {
        let shown = |of, text| value(of, text).map(|value| value.to_text()).ok();
        assert_eq!(shown("integer[]", "{1,NULL,-2}").unwrap(), "[1, None, -2]");
        assert_eq!(shown("text[]", "{}").unwrap(), "[]");
        let texts = "{\"a,b\",\"NULL\",\"\",\"q\\\"\\\\\",c}";
        assert_eq!(
            shown("text[]", texts).unwrap(),
            "['a,b', 'NULL', '', 'q\"\\\\', 'c']"
        );
        assert_eq!(shown("boolean[]", "[0:1]={t,f}").unwrap(), "[True, False]");
        assert_eq!(
            shown("integer[]", "{{1,2},{3,4}}").unwrap(),
            "[[1, 2], [3, 4]]"
        );
        assert_eq!(shown("integer[]", "{1"), None);
    }
}
