//! The external pillar `mysql`: queries of a MySQL or MariaDB server, with its client program.

use python::xml;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::sql::{self, Database, Settings, Table};
use crate::databases::Failure;
use crate::databases::mysql::Server;
use crate::exec::mysql::{Conn, quoted, reason};

/// The keys of `mysql:ssl`, each with its name in the client's option file.
const SSL: [(&str, &str); 5] = [
    ("ca", "ssl-ca"),
    ("capath", "ssl-capath"),
    ("cert", "ssl-cert"),
    ("cipher", "ssl-cipher"),
    ("key", "ssl-key"),
];

/// The options by which clients verify the server's certificate: those of MariaDB, and of MySQL. A
/// client skips a `loose` one that it does not know.
const VERIFY: [(&str, &str); 2] = [
    ("loose-ssl-verify-server-cert", "1"),
    ("loose-ssl-mode", "VERIFY_IDENTITY"),
];

/// Returns the data of queries.
///
/// # Errors
/// When a query fails.
pub(super) fn load(cx: &Exec, val: &Value, _pillar: &Map) -> Result<Map, Error> {
    let settings = Settings::new(cx, "mysql")?;
    let server = Server::new(connection(&settings)?, settings.query_timeout()?)?;
    sql::load(cx, val, &server)
}

/// Returns the connection of the settings.
fn connection(settings: &Settings<'_>) -> Result<Conn, Error> {
    let mut conn = Conn::default()
        .with("host", &settings.text("host", "localhost"))
        .with("user", &settings.text("user", "salt"))
        .with("password", &settings.password("salt"))
        .with("port", &settings.text("port", "3306"))
        .within(&settings.text("db", "salt"));
    if let Some(socket) = settings.get("unix_socket") {
        conn = conn.with("socket", &socket.to_text());
    }
    let Some(ssl) = settings.get("ssl").filter(|ssl| ssl.is_true()) else {
        return Ok(conn);
    };
    let ssl = ssl.as_map().ok_or("mysql:ssl must be a dictionary")?;
    for (key, value) in ssl {
        let key = key.to_text();
        let known = SSL.iter().find(|(known, _)| *known == key);
        let (_, option) = known.ok_or_else(|| {
            let known = SSL.map(|(known, _)| known).join(", ");
            Error::refused(format!(
                "mysql:ssl has the key {key}; expected one of {known}"
            ))
        })?;
        conn = conn.with(option, &value.to_text());
    }
    let verified = ssl.contains("ca") || ssl.contains("capath");
    let verify = VERIFY.iter().filter(|_| verified);
    Ok(verify.fold(conn, |conn, (option, value)| conn.with(option, value)))
}

impl Database for Server {
    /// The client prints the types of columns only in another form than the rows, so the query runs
    /// twice: for its types, without rows, and for its rows. Both times nothing is committed.
    fn rows(&self, cx: &Exec, query: &str, id: &str) -> Result<Table, Error> {
        let (query, count) = sql::filled(query, &quoted(id))?;
        if count == 0 {
            return Err("it has no %s for the id of the minion".into());
        }
        let query = query.trim_end_matches([';', ' ', '\t', '\r', '\n']);
        let begin = "START TRANSACTION";
        let statements = format!("SET SESSION sql_select_limit = 0;\n{begin};\n{query}");
        let refused = |failure: Failure| failure.into_error(reason);
        let types = self.run(cx, &["--table", "--column-type-info"], &statements);
        let types = types.map_err(refused)?;
        let types = types_of(&types);
        if types.is_empty() {
            return Err("it returns no columns".into());
        }
        let flags = ["--xml", "--binary-as-hex"];
        let rows = self.run(cx, &flags, &format!("{begin};\n{query}"));
        let rows = rows.map_err(refused)?;
        table(&types, &rows)
    }
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Number,
    Float,
    Bytes,
    Text,
}

impl Type {
    /// Returns the type of its name and its collation.
    fn of(name: &str, collation: &str) -> Self {
        match name {
            "TINY" | "SHORT" | "LONG" | "LONGLONG" | "INT24" | "YEAR" | "DECIMAL"
            | "NEWDECIMAL" => Self::Number,
            "FLOAT" | "DOUBLE" => Self::Float,
            "BIT" | "GEOMETRY" => Self::Bytes,
            "TINY_BLOB" | "MEDIUM_BLOB" | "LONG_BLOB" | "BLOB" | "VARCHAR" | "VAR_STRING"
            | "STRING"
                if collation.ends_with("(63)") =>
            {
                Self::Bytes
            }
            _ => Self::Text,
        }
    }

    fn value(self, text: &str) -> Result<Value, Error> {
        match self {
            Self::Number => sql::number(text),
            Self::Float => Ok(sql::number(text)?.as_float().into()),
            Self::Bytes => match text.strip_prefix("0x") {
                Some(hex) => sql::bytes(hex),
                None => Ok(Value::Bytes(text.as_bytes().into())),
            },
            Self::Text => Ok(text.into()),
        }
    }
}

/// Returns the types of the columns, from the client's list of them before the table of rows.
fn types_of(output: &str) -> Vec<Type> {
    let mut types = Vec::new();
    let mut name = "";
    for line in output.lines().take_while(|line| !line.starts_with('+')) {
        match line.split_once(':') {
            Some(("Type", value)) => name = value.split_whitespace().next().unwrap_or_default(),
            Some(("Collation", value)) => types.push(Type::of(name, value.trim())),
            _ => {}
        }
    }
    types
}

/// Parses the rows from the client's XML output.
fn table(types: &[Type], output: &str) -> Result<Table, Error> {
    let mut table = Table::default();
    let mut names = Vec::new();
    for element in xml::elements(output) {
        match element.name.as_str() {
            "resultset" if !table.rows.is_empty() => {
                return Err("it has more than one statement".into());
            }
            "row" => {
                table.rows.push(Vec::new());
                names.clear();
            }
            "field" => {
                let Some(row) = table.rows.last_mut() else {
                    continue;
                };
                let of = types
                    .get(row.len())
                    .ok_or("it returns more columns than it has types")?;
                row.push(match element.get("xsi:nil") {
                    "true" => Value::Null,
                    _ => of.value(&element.text)?,
                });
                names.push(element.get("name").to_owned());
            }
            _ => {}
        }
    }
    table.names = names;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_the_types_of_their_columns() {
        let types = "Field   1:  `Type: x`\nCatalog:    `def`\nType:       LONGLONG\nCollation:  binary (63)\n\n\
            Field   2:  `b`\nType:       BLOB (format=json)\nCollation:  utf8mb4_bin (46)\n\n\
            Field   3:  `c`\nType:       VAR_STRING\nCollation:  binary (63)\n\n+---+\n| Type: TINY |\n";
        let types = types_of(types);
        assert_eq!(types, [Type::Number, Type::Text, Type::Bytes]);
        let xml = "<resultset><row><field name=\"a\">7</field><field name=\"a\">x</field><field name=\"c\">0x00FF</field></row>\
            <row><field name=\"a\" xsi:nil=\"true\" /><field name=\"a\"></field><field name=\"c\">0x</field></row></resultset>";
        let found = table(&types, xml).unwrap();
        assert_eq!(found.names, ["a", "a", "c"]);
        let bytes = |bytes: &[u8]| Value::Bytes(bytes.into());
        assert_eq!(found.rows[0], [7.into(), "x".into(), bytes(&[0, 255])]);
        assert_eq!(found.rows[1], [Value::Null, "".into(), bytes(&[])]);
        assert!(table(&types[..1], xml).is_err());
        assert_eq!(Type::Float.value("1").unwrap().to_text(), "1.0");
    }
}
