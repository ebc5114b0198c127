//! Contents that the state itself supplies: `contents`, `contents_pillar`, `contents_grains`, and
//! their encoding.

use python::text::bare_lines;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

/// Returns a text or a list of texts as the lines of a file.
pub(crate) fn joined(contents: &Value, newline: bool) -> String {
    let parts: Vec<String> = match contents {
        Value::List(items) | Value::Tuple(items) => items.iter().map(Value::to_text).collect(),
        Value::Set(items) => items.keys().map(Value::to_text).collect(),
        other => vec![other.to_text()],
    };
    let mut text = String::new();
    for line in parts.iter().flat_map(|part| bare_lines(part)) {
        text.push_str(line);
        text.push('\n');
    }
    if !newline {
        let end = text.trim_end_matches('\n').trim_end_matches('\r').len();
        text.truncate(end);
    }
    text
}

/// Returns the contents at a pillar key or a list of them.
pub(crate) fn of_pillar(cx: &Exec, keys: &Value, delimiter: &str) -> Result<Value, Error> {
    looked_up(&cx.pillar()?, keys, delimiter, |key| {
        format!("Pillar {key} does not exist")
    })
}

/// Returns the contents at a grain or a list of them.
pub(crate) fn of_grains(cx: &Exec, keys: &Value, delimiter: &str) -> Result<Value, Error> {
    looked_up(&cx.grains(), keys, delimiter, |key| {
        format!("Grain {key} does not exist")
    })
}

fn looked_up(
    data: &Map,
    keys: &Value,
    delimiter: &str,
    missing: impl Fn(&str) -> String,
) -> Result<Value, Error> {
    let data = Value::Map(data.clone());
    let found = |key: &Value| {
        let key = key.to_text();
        data.traverse(&key, delimiter)
            .cloned()
            .ok_or_else(|| Error::refused(missing(&key)))
    };
    let Some(keys) = keys.as_list() else {
        return found(keys);
    };
    let parts: Result<Vec<String>, Error> =
        keys.iter().map(|key| Ok(found(key)?.to_text())).collect();
    Ok(parts?.join("\n").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_end_with_one_line_end_whatever_they_are() {
        assert_eq!(joined(&"a\r\nb".into(), true), "a\nb\n");
        assert_eq!(joined(&"a\n\n".into(), false), "a");
        assert_eq!(joined(&Value::from(vec!["a", "b"]), true), "a\nb\n");
        assert_eq!(joined(&Value::Int(5), true), "5\n");
        assert_eq!(joined(&"".into(), true), "");
    }
}
