//! The external pillar `sqlite3`: queries of an SQLite database, with the program `sqlite3`.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::sql::{self, Database, Settings, Table};
use crate::databases::sqlite3::{File, literal};

/// Returns the data of queries.
///
/// # Errors
/// When a query fails.
pub(super) fn load(cx: &Exec, val: &Value, _pillar: &Map) -> Result<Map, Error> {
    let settings = Settings::new(cx, "sqlite3")?;
    let file = File::new(
        settings.text("database", "/var/lib/salt/pillar.db"),
        settings.seconds("timeout", 5.0)?,
        settings.query_timeout()?,
    )?;
    sql::load(cx, val, &file)
}

impl Database for File {
    fn rows(&self, cx: &Exec, query: &str, id: &str) -> Result<Table, Error> {
        let query = filled(query, &literal(id))?;
        let flags = ["-readonly", "-quote", "-header"];
        let output = self.run(cx, &flags, format!("{query}\n;\n"))?;
        table(&output)
    }
}

/// Puts a literal in the place of each parameter of a query (`?`, `?1`, `:id`, `@id`, `$id`).
///
/// # Errors
/// When the query has no parameter, or there is another statement after it.
fn filled(query: &str, literal: &str) -> Result<String, Error> {
    let (mut text, mut count, mut is_over) = (String::new(), 0, false);
    let mut rest = query;
    while let Some(sign) = rest.chars().next() {
        let part = rest
            .get(..length(rest, text.chars().last()))
            .unwrap_or(rest);
        rest = rest.get(part.len()..).unwrap_or_default();
        let is_parameter = sign == '?' || matches!(sign, ':' | '@' | '$') && part.len() > 1;
        let is_comment = part.starts_with("--") || part.starts_with("/*");
        if is_over && !sign.is_whitespace() && !is_comment && sign != ';' {
            return Err("it has more than one statement".into());
        }
        is_over |= sign == ';';
        if is_parameter {
            text.push_str(literal);
            count += 1;
        } else if !is_over {
            text.push_str(part);
        }
    }
    match count {
        0 => Err("it has no ? for the id of the minion".into()),
        _ => Ok(text),
    }
}

/// Returns the length in bytes of the first part of a text: a quoted text, a comment, a parameter, or
/// one character.
fn length(text: &str, before: Option<char>) -> usize {
    let mut signs = text.chars();
    let first = signs.next().unwrap_or_default();
    let until = |end: &str| {
        let found = text.get(1..).and_then(|inside| inside.find(end));
        found.map_or(text.len(), |at| 1 + at + end.len())
    };
    let is_word = |sign: char| sign.is_alphanumeric() || sign == '_' || sign == '$';
    match (first, signs.next()) {
        ('\'' | '"' | '`', _) => until(&first.to_string()),
        ('[', _) => until("]"),
        ('-', Some('-')) => until("\n"),
        ('/', Some('*')) => text
            .get(2..)
            .and_then(|inside| inside.find("*/"))
            .map_or(text.len(), |at| at + 4),
        ('?' | ':' | '@' | '$', _) if !before.is_some_and(is_word) || first == '?' => {
            let name = text.get(1..).unwrap_or_default();
            1 + name.find(|sign| !is_word(sign)).unwrap_or(name.len())
        }
        _ => first.len_utf8(),
    }
}

/// Parses rows of literals. The first row has the names of the columns.
fn table(text: &str) -> Result<Table, Error> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (value, after) = cell(rest)?;
        row.push(value);
        rest = after.get(1..).unwrap_or_default();
        if !after.starts_with(',') {
            rows.push(std::mem::take(&mut row));
        }
    }
    let mut rows = rows.into_iter();
    let names = rows.next().unwrap_or_default();
    Ok(Table {
        names: names.iter().map(Value::to_text).collect(),
        rows: rows.collect(),
    })
}

/// Returns the value of the literal that a text begins with, and the text after it.
fn cell(text: &str) -> Result<(Value, &str), Error> {
    if let Some(inside) = text.strip_prefix("unistr('") {
        let (text, after) = quoted(inside)?;
        let after = after.strip_prefix(')').unwrap_or(after);
        return Ok((unescaped(&text).into(), after));
    }
    if let Some(inside) = text.strip_prefix('\'') {
        let (text, after) = quoted(inside)?;
        return Ok((text.into(), after));
    }
    let (word, after) = text.split_at(text.find([',', '\n']).unwrap_or(text.len()));
    let value = match word
        .strip_prefix("X'")
        .and_then(|hex| hex.strip_suffix('\''))
    {
        Some(hex) => sql::bytes(hex)?,
        None if word == "NULL" => Value::Null,
        None => number(word)?,
    };
    Ok((value, after))
}

/// Returns a number: a float has a point, an exponent or a name.
fn number(word: &str) -> Result<Value, Error> {
    match word {
        "Inf" => Ok(f64::INFINITY.into()),
        "-Inf" => Ok(f64::NEG_INFINITY.into()),
        word => sql::number(word),
    }
}

/// Returns the rest of a quoted text, and the text after its closing quote.
fn quoted(inside: &str) -> Result<(String, &str), Error> {
    let (mut text, mut rest) = (String::new(), inside);
    while let Some((part, after)) = rest.split_once('\'') {
        text.push_str(part);
        let Some(more) = after.strip_prefix('\'') else {
            return Ok((text, after));
        };
        text.push('\'');
        rest = more;
    }
    Err("the program sqlite3 has printed a text that does not end".into())
}

/// Replaces the escapes of `unistr` that the program prints: `\\` and `\uXXXX`.
fn unescaped(text: &str) -> String {
    let (mut all, mut rest) = (String::new(), text);
    while let Some((part, after)) = rest.split_once('\\') {
        all.push_str(part);
        let code = after.strip_prefix('u').and_then(|after| after.get(..4));
        let code = code.and_then(|code| u32::from_str_radix(code, 16).ok());
        let length = match code.and_then(char::from_u32) {
            Some(sign) => {
                all.push(sign);
                5
            }
            None => {
                all.push('\\');
                1
            }
        };
        rest = after.get(length..).unwrap_or_default();
    }
    all + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_outside_texts_and_comments() {
        let fill = |query| filled(query, "'m'").map_err(|error| error.to_string());
        for (query, wanted) in [
            ("a = ?", "a = 'm'"),
            ("a = ?1 OR b = ?1;", "a = 'm' OR b = 'm'"),
            ("a = :id;\n-- end\n", "a = 'm'"),
            (
                "'?' = \"?\" AND [?] = `?` AND @id",
                "'?' = \"?\" AND [?] = `?` AND 'm'",
            ),
            (
                "'it''s ?' = ? -- ?\n/* ? */",
                "'it''s ?' = 'm' -- ?\n/* ? */",
            ),
            ("a$b = $c", "a$b = 'm'"),
            ("'é' || 'ü' = ?", "'é' || 'ü' = 'm'"),
        ] {
            assert_eq!(fill(query).as_deref(), Ok(wanted));
        }
        assert!(fill("SELECT '?'").is_err_and(|error| error.contains("no ?")));
        assert!(fill("a = ?; DROP TABLE a").is_err_and(|error| error.contains("more than one")));
        assert!(fill("a = ? /*").is_ok() && fill("a = ? '").is_ok() && fill("/").is_err());
    }

    #[test]
    fn rows_of_literals_keep_their_types_and_columns_of_one_name() {
        let found =
            table("'a','a','b c'\n1,'it''s,\nx',NULL\n-2.5,X'00ff',unistr('a\\u001b\\\\')\n");
        let found = found.unwrap();
        assert_eq!(found.names, ["a", "a", "b c"]);
        assert_eq!(found.rows[0], [1.into(), "it's,\nx".into(), Value::Null]);
        let bytes = Value::Bytes([0, 255].into());
        assert_eq!(found.rows[1], [(-2.5).into(), bytes, "a\u{1b}\\".into()]);
        assert_eq!(table("").unwrap(), Table::default());
        assert!(table("'a'\n'x").is_err() && table("'a'\nx\n").is_err());
    }
}
