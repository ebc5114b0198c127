//! Values in JSON without loss. A value that JSON lacks is written as a dictionary with one marked
//! key.

use value::json::{self, Layout};
use value::{Map, Value};

/// Writes a message as one line of JSON.
#[must_use]
pub fn line(message: &Map) -> String {
    let layout = Layout {
        ascii: true,
        ..Layout::default()
    };
    json::write(&plain(&message.clone().into()), layout) + "\n"
}

/// Reads a message from a line.
///
/// # Errors
/// When the line is not a dictionary in JSON.
pub fn read(line: &str) -> Result<Map, String> {
    let read = json::read(line).map_err(|error| error.to_string())?;
    match thing(read) {
        Value::Map(message) => Ok(message),
        other => Err(format!(
            "expected a dictionary, found {}",
            other.type_name()
        )),
    }
}

fn plain(value: &Value) -> Value {
    match value {
        Value::Bytes(bytes) => {
            let text: String = bytes.iter().copied().map(char::from).collect();
            mark("__bytes__", text.into())
        }
        Value::Tuple(items) => mark("__tuple__", Value::list(items.iter().map(plain))),
        Value::Set(items) => mark("__set__", Value::list(items.keys().map(plain))),
        Value::List(items) => Value::list(items.iter().map(plain)),
        Value::Float(number) if !number.is_finite() => value.to_text().into(),
        Value::Map(map) if is_plain(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), plain(value)))
            .collect(),
        Value::Map(map) => {
            let pair = |(key, value)| Value::list([plain(key), plain(value)]);
            mark("__pairs__", Value::list(map.iter().map(pair)))
        }
        other => other.clone(),
    }
}

fn mark(key: &str, value: Value) -> Value {
    Map::new().with(key, value).into()
}

/// Returns true if JSON can hold the dictionary unchanged: its keys are text, and it does not look
/// like a marked value.
fn is_plain(map: &Map) -> bool {
    map.keys().all(|key| key.as_str().is_some()) && marked(map).is_none()
}

fn marked(map: &Map) -> Option<(&str, &Value)> {
    const MARKS: [&str; 4] = ["__bytes__", "__pairs__", "__tuple__", "__set__"];
    let (key, value) = map.first().filter(|_| map.len() == 1)?;
    key.as_str()
        .filter(|key| MARKS.contains(key))
        .map(|key| (key, value))
}

fn thing(value: Value) -> Value {
    match value {
        Value::List(items) => Value::list(items.iter().cloned().map(thing)),
        Value::Map(map) => match marked(&map) {
            Some((key, marked)) => unmarked(key, marked),
            None => map
                .into_iter()
                .map(|(key, value)| (key, thing(value)))
                .collect(),
        },
        other => other,
    }
}

fn unmarked(key: &str, marked: &Value) -> Value {
    let items = || marked.as_list().unwrap_or_default().iter();
    match key {
        // Each character represents one byte.
        "__bytes__" => {
            let byte = |char: char| u8::try_from(u32::from(char)).unwrap_or(b'?');
            let bytes: Vec<u8> = marked.to_text().chars().map(byte).collect();
            Value::Bytes(bytes.into())
        }
        "__tuple__" => Value::Tuple(std::sync::Arc::new(items().cloned().map(thing).collect())),
        "__set__" => Value::Set(
            items()
                .map(|item| (thing(item.clone()), Value::Null))
                .collect(),
        ),
        _ => items()
            .filter_map(|pair| match pair.as_list()? {
                [key, value] => Some((thing(key.clone()), thing(value.clone()))),
                _ => None,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back_as_it_was() {
        let odd: Map = [
            (Value::Int(1), Value::Bytes(vec![0, 200].into())),
            (Value::Bool(false), Value::Null),
        ]
        .into_iter()
        .collect();
        let set: Map = [(Value::from("x"), Value::Null)].into_iter().collect();
        let message = Map::new()
            .with("odd", odd)
            .with("tuple", Value::Tuple(vec![1.into()].into()))
            .with("set", Value::Set(set))
            .with("looks like one", Map::new().with("__set__", "a"))
            .with("text", "a\nä");
        let line = line(&message);
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(
            format!("{:?}", read(&line).unwrap()),
            format!("{message:?}")
        );
    }

    #[test]
    fn a_line_that_is_no_dictionary_is_refused() {
        assert!(read("[1]").is_err());
        assert!(read("{").is_err());
    }
}
