//! The body of a hook's request, read like rest_cherrypy reads it.

use cli::options::yamlify_arg;
use render::yaml::SaltYaml;
use value::yaml::Yaml;
use value::{Map, Value, json};

use crate::http::Refusal;
use crate::http::quoted::plain;

/// Returns the text of a body and the data in it: `{}` if the body is empty or its data is false,
/// as in Salt.
pub(super) fn read(kind: Option<&str>, bytes: &[u8]) -> Result<(String, Value), Refusal> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| Refusal::new(400, "the body is not UTF-8"))?;
    if text.is_empty() {
        return Ok((String::new(), Map::new().into()));
    }
    let data = parsed(&self::kind(kind), text)?;
    let data = match data.is_true() {
        true => data,
        false => Map::new().into(),
    };
    Ok((text.to_owned(), data))
}

/// Returns the media type in a header `Content-Type`.
pub(crate) fn kind(header: Option<&str>) -> String {
    let kind = header.unwrap_or_default().split(';').next();
    kind.unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns the data in a text of a media type.
pub(crate) fn parsed(kind: &str, text: &str) -> Result<Value, Refusal> {
    Ok(match kind {
        "application/json" => json::read(text).map_err(|_| invalid("JSON"))?,
        "application/x-www-form-urlencoded" => Value::Map(form(text)),
        "application/x-yaml" | "text/yaml" => SaltYaml.load(text).map_err(|_| invalid("YAML"))?,
        "text/plain" => json::read(text).unwrap_or_else(|_| text.into()),
        _ => return Err(Refusal::new(406, "the Content-Type is not supported")),
    })
}

fn invalid(what: &str) -> Refusal {
    Refusal::new(400, format!("the body is not valid {what}"))
}

/// Returns the fields of a form. A field without a value is left out. A field that occurs more than
/// once is a list. `arg` and `kwarg` are read like words of a command line.
fn form(text: &str) -> Map {
    let mut fields = Map::new();
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    for (name, value) in pairs.filter(|(_, value)| !value.is_empty()) {
        let list = fields.entry(plain(name), || Value::list([]));
        if let Some(list) = list.as_list_mut() {
            list.push(plain(value).into());
        }
    }
    for (name, values) in fields.iter_mut() {
        *values = field(name.as_str().unwrap_or_default(), values.texts());
    }
    fields
}

fn field(name: &str, mut values: Vec<String>) -> Value {
    let is_one = values.len() == 1;
    let word = |text: &String| yamlify_arg(text, &SaltYaml);
    match name {
        "arg" => Value::list(values.iter().map(word)),
        "kwarg" if is_one => word(&values.pop().unwrap_or_default()),
        _ if is_one => values.pop().unwrap_or_default().into(),
        _ => Value::list(values.into_iter().map(Value::from)),
    }
}
