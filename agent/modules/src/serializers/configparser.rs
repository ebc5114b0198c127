//! INI files in the format of Python's `configparser`.

use python::configparser::{self, Options};
use state::module::Error;
use value::{Map, Value};

use super::unknown_option;

/// Returns the options of the serializer.
fn options(given: &Map) -> Result<Options, Error> {
    let mut taken = Options::default();
    for (option, value) in given {
        match (option.as_str(), value) {
            (Some("allow_no_value"), value) => taken.allow_no_value = value.is_true(),
            (Some("defaults"), Value::Map(defaults)) => {
                let text = |value: &Value| match value {
                    Value::Null => Value::Null,
                    value => value.to_text().into(),
                };
                let lower = |key: &Value| key.to_text().to_lowercase();
                let pairs = defaults
                    .iter()
                    .map(|(key, value)| (lower(key), text(value)));
                taken.defaults = pairs.collect();
            }
            _ => return Err(unknown_option("configparser", option)),
        }
    }
    Ok(taken)
}

pub(super) fn serialize(data: &Value, given: &Map) -> Result<String, Error> {
    let options = options(given)?;
    let sections = data.as_map().ok_or_else(|| {
        Error::refused(format!(
            "configparser can only serialize dictionaries, not <class '{}'>",
            data.type_name()
        ))
    })?;
    Ok(configparser::write(sections, options)?)
}

pub(super) fn deserialize(text: &str, given: &Map) -> Result<Value, Error> {
    Ok(configparser::read(text, options(given)?)?.into())
}
