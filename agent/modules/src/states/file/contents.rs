//! Contents that stand in the state itself: `contents`, `contents_pillar`, `contents_grains`, and their encoding.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::text::bare_lines;

/// A text, or a list of texts, as the lines of a file.
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

/// The contents that a pillar key or a list of them names.
pub(crate) fn of_pillar(cx: &Exec, keys: &Value, delimiter: &str) -> Result<Value, Error> {
    looked_up(&cx.pillar()?, keys, delimiter, |key| {
        format!("Pillar {key} does not exist")
    })
}

/// The contents that a grain or a list of them names.
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

/// A text in an encoding that a user names as Python names them.
///
/// # Errors
/// When the encoding is unknown, or cannot hold the text and `errors` is `strict`.
pub(crate) fn encoded(text: &str, encoding: &str, errors: &str) -> Result<Vec<u8>, Error> {
    let name = encoding.to_ascii_lowercase().replace(['_', ' '], "-");
    let wide = |little: bool| {
        move |unit: u16| {
            if little {
                unit.to_le_bytes()
            } else {
                unit.to_be_bytes()
            }
        }
    };
    match name.as_str() {
        "utf-8" | "utf8" | "u8" => Ok(text.as_bytes().to_vec()),
        "utf-8-sig" => Ok([b"\xef\xbb\xbf", text.as_bytes()].concat()),
        "ascii" | "us-ascii" => narrow(text, encoding, errors, 0x7f),
        "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" | "l1" => {
            narrow(text, encoding, errors, 0xff)
        }
        "utf-16" | "utf16" => Ok([0xff, 0xfe]
            .into_iter()
            .chain(text.encode_utf16().flat_map(wide(true)))
            .collect()),
        "utf-16-le" | "utf-16le" => Ok(text.encode_utf16().flat_map(wide(true)).collect()),
        "utf-16-be" | "utf-16be" => Ok(text.encode_utf16().flat_map(wide(false)).collect()),
        _ => Err(format!("unknown encoding: {encoding}").into()),
    }
}

fn narrow(text: &str, encoding: &str, errors: &str, most: u32) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(text.len());
    for (at, c) in text.chars().enumerate() {
        let code = u32::from(c);
        match u8::try_from(code) {
            Ok(byte) if code <= most => out.push(byte),
            _ => out.extend(substitute(c, errors).ok_or_else(|| {
                Error::refused(format!(
                    "'{encoding}' codec can't encode character '{}' in position {at}: ordinal not in range({})",
                    c.escape_default(),
                    most + 1
                ))
            })?),
        }
    }
    Ok(out)
}

fn substitute(c: char, errors: &str) -> Option<Vec<u8>> {
    let code = u32::from(c);
    Some(match errors {
        "ignore" => Vec::new(),
        "replace" => vec![b'?'],
        "xmlcharrefreplace" => format!("&#{code};").into_bytes(),
        "backslashreplace" if code <= 0xff => format!("\\x{code:02x}").into_bytes(),
        "backslashreplace" if code <= 0xffff => format!("\\u{code:04x}").into_bytes(),
        "backslashreplace" => format!("\\U{code:08x}").into_bytes(),
        _ => return None,
    })
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

    #[test]
    fn what_an_encoding_cannot_hold_is_refused_or_replaced() {
        assert!(encoded("ü", "ascii", "strict").is_err());
        assert_eq!(encoded("ü", "ascii", "replace").ok(), Some(b"?".to_vec()));
        assert_eq!(encoded("ü", "latin-1", "strict").ok(), Some(vec![0xfc]));
    }
}
