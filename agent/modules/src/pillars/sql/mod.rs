//! External pillars from databases (`sqlite3`, `mysql`, `postgres`): their queries, and the pillar data
//! that rows become.
//!
//! ```text
//! configuration -> Query -> client program: Table -> Tree -> pillar
//! ```

mod query;
mod tree;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, secret};

use tree::Tree;

/// The seconds that the client program of a database may run for a query.
const SECONDS: i64 = 30;

/// The result of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table {
    /// The names of the columns. Two may be the same. A table without rows may have none.
    pub(super) names: Vec<String>,
    pub(super) rows: Vec<Vec<Value>>,
}

/// The connection to a database.
pub(super) trait Database {
    /// Returns the rows of a query for a minion.
    ///
    /// # Errors
    /// When the query is not well formed, or the database does not answer or refuses it.
    fn rows(&self, cx: &Exec, query: &str, id: &str) -> Result<Table, Error>;
}

/// Returns the pillar data of the queries of a source.
///
/// # Errors
/// When an entry is no query, or a query fails: with the place of the query.
pub(super) fn load(cx: &Exec, val: &Value, database: &dyn Database) -> Result<Map, Error> {
    let queries = query::configured(val).map_err(Error::refused)?;
    let mut tree = Tree::new();
    for query in &queries {
        let failed =
            |reason: &dyn std::fmt::Display| Error::refused(format!("{}: {reason}", query.place));
        let table = database.rows(cx, &query.text, cx.opts().id());
        let table = table.map_err(|error| failed(&error.sentence()))?;
        tree.enter(query.root.as_deref());
        tree.add(query, table).map_err(|reason| failed(&reason))?;
    }
    Ok(tree.into_map())
}

/// The settings of a connection, from an option of the configuration.
pub(super) struct Settings<'a> {
    option: &'static str,
    given: Option<&'a Map>,
}

impl<'a> Settings<'a> {
    /// Returns the settings of an option.
    ///
    /// # Errors
    /// When the option is not a dictionary.
    pub(super) fn new(cx: &'a Exec, option: &'static str) -> Result<Self, Error> {
        let given = cx.opts().get(option).filter(|given| !given.is_null());
        let given = given.map(|given| {
            let given = given.as_map();
            given.ok_or_else(|| Error::refused(format!("the option {option} must be a dictionary")))
        });
        let given = given.transpose()?;
        Ok(Self { option, given })
    }

    /// Returns a setting that is not null.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.given?.get(key).filter(|value| !value.is_null())
    }

    /// Returns the text of a setting.
    pub(super) fn text(&self, key: &str, default: &str) -> String {
        self.get(key)
            .map_or_else(|| default.to_owned(), Value::to_text)
    }

    /// Returns a password, and keeps it out of logs and outputs.
    pub(super) fn password(&self, default: &str) -> String {
        let password = self.text("pass", default);
        if self.get("pass").is_some() {
            secret::keep(&[], &password.as_str().into());
        }
        password
    }

    /// Returns a number of seconds.
    ///
    /// # Errors
    /// When the setting is not a number above 0.
    pub(super) fn seconds(&self, key: &str, default: f64) -> Result<f64, Error> {
        let Some(given) = self.get(key) else {
            return Ok(default);
        };
        let seconds = given.as_float().or_else(|| given.as_str()?.parse().ok());
        let seconds = seconds.filter(|seconds| *seconds > 0.0 && seconds.is_finite());
        seconds.ok_or_else(|| {
            let option = self.option;
            Error::refused(format!(
                "{option}:{key} must be a number of seconds above 0"
            ))
        })
    }

    /// Returns the seconds that the client program may run.
    ///
    /// # Errors
    /// When the setting is not a number above 0.
    pub(super) fn query_timeout(&self) -> Result<Value, Error> {
        Ok(self.seconds("query_timeout", SECONDS as f64)?.into())
    }
}

/// Puts a literal of SQL in the place of each `%s` of a query, and returns how many there were. `%%`
/// is a percent sign.
///
/// # Errors
/// When the query has `%` before another character.
pub(super) fn filled(query: &str, literal: &str) -> Result<(String, usize), Error> {
    let (mut text, mut count) = (String::new(), 0);
    let mut signs = query.chars();
    while let Some(sign) = signs.next() {
        match (sign, sign == '%') {
            (_, false) => text.push(sign),
            (_, true) => match signs.next() {
                Some('s') => {
                    text.push_str(literal);
                    count += 1;
                }
                Some('%') => text.push('%'),
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(Error::refused(format!(
                        "it has %{other}: write %% for a percent sign, and %s for the id of the minion"
                    )));
                }
            },
        }
    }
    Ok((text, count))
}

/// Returns a number of SQL: a whole one without a decimal point, or a float.
pub(super) fn number(text: &str) -> Result<Value, Error> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_whole {
        let whole = text.parse::<i64>().map(Value::Int);
        return Ok(whole.unwrap_or_else(|_| Value::Big(text.into())));
    }
    let float = text.parse::<f64>().map(Value::Float);
    float.map_err(|_| Error::refused(format!("the database has returned {text:?} as a number")))
}

/// Returns the bytes that hexadecimal digits stand for.
///
/// # Errors
/// When the text has anything else.
pub(super) fn bytes(hex: &str) -> Result<Value, Error> {
    let digits: Option<Vec<u8>> = hex
        .chars()
        .map(|sign| sign.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0);
    let digits = digits.ok_or("the database has returned bytes that are not hexadecimal")?;
    let pairs = digits.chunks_exact(2);
    let bytes: Vec<u8> = pairs
        .map(|pair| pair.iter().fold(0, |byte, digit| byte * 16 + digit))
        .collect();
    Ok(Value::Bytes(bytes.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_replaces_each_placeholder() {
        let fill = |query| filled(query, "'m'").map_err(|error| error.to_string());
        assert_eq!(
            fill("a %s b LIKE 'x%%' c %s"),
            Ok(("a 'm' b LIKE 'x%' c 'm'".into(), 2))
        );
        assert_eq!(fill("SELECT 1"), Ok(("SELECT 1".into(), 0)));
        assert!(fill("a LIKE 'x%' = %s").is_err_and(|error| error.contains("%'")));
        assert!(fill("%s %").is_err());
    }

    #[test]
    fn numbers_and_bytes_keep_their_values() {
        assert_eq!(number("-7").unwrap().as_int(), Some(-7));
        assert_eq!(number("1.50").unwrap().as_float(), Some(1.5));
        let big = "123456789012345678901234567890";
        assert_eq!(number(big).unwrap().to_text(), big);
        assert!(number("x").is_err() && number("").is_err());
        assert_eq!(bytes("00fF").unwrap(), Value::Bytes([0, 255].into()));
        assert!(bytes("0").is_err() && bytes("0g").is_err());
    }
}
