//! Salt's serializers: conversion of data to text in a format, and back. `file.serialize` and
//! `slsutil` use them.

mod configparser;
mod json;
pub(crate) mod msgpack;

use render::yaml::{self, Dump};
use state::module::Error;
use value::{Map, Value};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serializer {
    Configparser,
    Json,
    Msgpack,
    Yaml,
}

impl Serializer {
    /// Returns the format with this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "configparser" => Some(Self::Configparser),
            "json" => Some(Self::Json),
            "msgpack" => Some(Self::Msgpack),
            "yaml" => Some(Self::Yaml),
            _ => None,
        }
    }

    /// Serializes data. The result is bytes where the format is not text.
    ///
    /// # Errors
    /// When the format cannot represent the data, or an option is unknown.
    pub(crate) fn serialize(self, data: &Value, options: &Map) -> Result<Value, Error> {
        match self {
            Self::Configparser => configparser::serialize(data, options).map(Value::from),
            Self::Json => json::serialize(data, options).map(Value::from),
            Self::Msgpack => msgpack::serialize(data, options),
            Self::Yaml => to_yaml(data, options).map(Value::from),
        }
    }

    /// Deserializes data.
    ///
    /// # Errors
    /// When the text is not in the format.
    pub(crate) fn deserialize(self, text: &str, options: &Map) -> Result<Value, Error> {
        match self {
            Self::Configparser => configparser::deserialize(text, options),
            Self::Json => value::json::read(text)
                .map_err(|error| Error::refused(json::problem(text, &error.to_string()))),
            Self::Msgpack => Err("cannot deserialize msgpack: its data is binary".into()),
            Self::Yaml => yaml::load(text).map_err(|error| Error::refused(error.to_string())),
        }
    }
}

/// Returns the error for an option that a format does not have.
fn unknown_option(format: &str, option: &Value) -> Error {
    Error::refused(format!(
        "the {format} serializer has no option '{}'",
        option.to_text()
    ))
}

fn to_yaml(data: &Value, options: &Map) -> Result<String, Error> {
    let mut layout = Dump {
        unicode: false,
        ..Dump::default()
    };
    let (mut start, mut end) = (false, false);
    for (option, value) in options {
        let number = || value.as_int().and_then(|n| i32::try_from(n).ok());
        match option.as_str().unwrap_or_default() {
            "default_flow_style" => {
                layout.default_flow_style = (!value.is_null()).then(|| value.is_true());
            }
            "allow_unicode" => layout.unicode = value.is_true(),
            "sort_keys" => layout.sort_keys = value.is_true(),
            "indent" => layout.indent = number().unwrap_or(layout.indent),
            "width" => layout.width = number().unwrap_or(layout.width),
            "explicit_start" => start = value.is_true(),
            "explicit_end" => end = value.is_true(),
            // The output is always UTF-8.
            "encoding" | "line_break" | "canonical" | "version" | "tags"
                if !value.is_true() || option.as_str() == Some("encoding") => {}
            _ => return Err(unknown_option("yaml", option)),
        }
    }
    let text = yaml::serialize(data, &layout).map_err(|error| Error::refused(error.to_string()))?;
    let block = matches!(text.lines().next(), Some(first) if first.ends_with(':') || first.starts_with("- ") || first.contains(": "));
    let flow = text.starts_with(['{', '[']);
    let text = match (start, block && !flow) {
        (true, true) => format!("---\n{text}"),
        (true, false) => format!("--- {text}"),
        (false, _) => text,
    };
    Ok(if end { format!("{text}\n...") } else { text })
}
