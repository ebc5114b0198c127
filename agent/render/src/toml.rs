//! Reads TOML; dates become their text.

use value::{Map, Value};

/// The key under which the reader returns a date.
const DATE: &str = "$__toml_private_datetime";

/// Reads a TOML document.
///
/// # Errors
/// The reader's message, with line and column.
pub(crate) fn load(text: &str) -> Result<Value, String> {
    let value: Value =
        ::toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    Ok(without_dates(value))
}

fn without_dates(value: Value) -> Value {
    match value {
        Value::Map(map) => match map.get(DATE) {
            Some(date) => date.clone(),
            None => Value::Map(
                map.into_iter()
                    .map(|(key, value)| (key, without_dates(value)))
                    .collect::<Map>(),
            ),
        },
        Value::List(items) => Value::list(items.iter().cloned().map(without_dates)),
        other => other,
    }
}
