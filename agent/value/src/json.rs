//! Reads JSON, and writes it as Python's `json` module does.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::PushFmt;
use crate::{Map, Value, python};

/// The layout of written JSON.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    /// The number of spaces per level; `None` writes everything on one line with `", "` and `": "`.
    pub indent: Option<usize>,
    /// True to sort the keys.
    pub sort_keys: bool,
    /// True to write every character outside of ASCII as `\uXXXX`.
    pub ascii: bool,
}

/// The reason why a text is not JSON: the reader's message with line and column.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(#[from] serde_json::Error);

/// Reads one JSON document.
///
/// # Errors
/// When the text is not JSON or nests deeper than 128 levels.
pub fn read(text: &str) -> Result<Value, Error> {
    Ok(serde_json::from_str(text)?)
}

/// Returns a value as `json.dumps` writes it.
#[must_use]
pub fn write(value: &Value, layout: Layout) -> String {
    let mut out = String::new();
    put(&mut out, value, layout, 0);
    out
}

fn put(out: &mut String, value: &Value, layout: Layout, depth: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Float(number) if number.is_nan() => out.push_str("NaN"),
        Value::Float(number) if number.is_infinite() => {
            out.push_str(if *number > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            });
        }
        Value::Int(_) | Value::Big(_) | Value::Float(_) => python::write_repr(out, value),
        Value::Str(text) => quote(out, text, layout.ascii),
        Value::Bytes(bytes) => quote(out, &String::from_utf8_lossy(bytes), layout.ascii),
        Value::List(items) | Value::Tuple(items) => {
            put_all(out, ('[', ']'), items.iter(), layout, depth, |out, item| {
                put(out, item, layout, depth + 1);
            });
        }
        Value::Set(set) => put_all(out, ('[', ']'), set.keys(), layout, depth, |out, item| {
            put(out, item, layout, depth + 1);
        }),
        Value::Map(map) => {
            let put = |out: &mut String, (key, value): (&Value, &Value)| {
                quote(out, &key_text(key), layout.ascii);
                out.push_str(": ");
                put(out, value, layout, depth + 1);
            };
            if layout.sort_keys {
                let mut entries: Vec<_> = map.iter().collect();
                crate::sorted::sort_by(&mut entries, |a, b| a.0.cmp(b.0));
                put_all(out, ('{', '}'), entries.into_iter(), layout, depth, put);
            } else {
                put_all(out, ('{', '}'), map.iter(), layout, depth, put);
            }
        }
    }
}

fn put_all<T>(
    out: &mut String,
    (open, close): (char, char),
    items: impl ExactSizeIterator<Item = T>,
    layout: Layout,
    depth: usize,
    mut put: impl FnMut(&mut String, T),
) {
    out.push(open);
    let empty = items.len() == 0;
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push_str(if layout.indent.is_some() { "," } else { ", " });
        }
        new_line(out, layout, depth + 1);
        put(out, item);
    }
    if !empty {
        new_line(out, layout, depth);
    }
    out.push(close);
}

fn new_line(out: &mut String, layout: Layout, depth: usize) {
    const SPACES: &str = "                                                                ";
    let Some(indent) = layout.indent else { return };
    out.push('\n');
    let mut wanted = indent * depth;
    while let Some(rest) = wanted.checked_sub(SPACES.len()) {
        out.push_str(SPACES);
        wanted = rest;
    }
    out.push_str(SPACES.get(..wanted).unwrap_or_default());
}

fn key_text(key: &Value) -> Cow<'_, str> {
    match key {
        Value::Null => "null".into(),
        Value::Bool(truth) => if *truth { "true" } else { "false" }.into(),
        Value::Str(text) => (&**text).into(),
        other => python::str(other).into(),
    }
}

fn quote(out: &mut String, text: &str, ascii: bool) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut rest = text;
    while let Some(at) = special(rest.as_bytes(), ascii) {
        let (plain, after) = rest.split_at(at);
        out.push_str(plain);
        let mut chars = after.chars();
        chars.next().into_iter().for_each(|c| escape(out, c));
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

/// Returns the index of the first byte of the first character that must be escaped in a string.
/// Later bytes of a character are never below 128, so they cannot look like such a character.
fn special(bytes: &[u8], ascii: bool) -> Option<usize> {
    let (words, _) = bytes.as_chunks::<8>();
    let plain = words
        .iter()
        .take_while(|word| !may_be_special(u64::from_le_bytes(**word), ascii));
    let skipped = plain.count() * 8;
    // This check covers the last eight bytes at once. It may look at some bytes again, but avoids
    // testing them one by one.
    if skipped + 8 > bytes.len()
        && let Some(last) = bytes.last_chunk::<8>()
        && !may_be_special(u64::from_le_bytes(*last), ascii)
    {
        return None;
    }
    let special = |b: &u8| *b < b' ' || *b == b'"' || *b == b'\\' || (ascii && *b > b'~');
    let at = bytes.get(skipped..)?.iter().position(special)?;
    Some(skipped + at)
}

/// Returns false when none of the eight bytes is special. Each test sets the high bit of a byte for
/// which it holds, and possibly of some bytes after it.
fn may_be_special(word: u64, ascii: bool) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let below = |word: u64, byte: u8| word.wrapping_sub(ONES * u64::from(byte)) & !word;
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let found = below(word, b' ') | is(b'"') | is(b'\\');
    let beyond = if ascii { word | is(0x7f) } else { 0 };
    (found | beyond) & (ONES << 7) != 0
}

fn escape(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        c => {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_fmt(format_args!("\\u{unit:04x}"));
            }
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::list(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, value)) = entries.next_entry::<String, Value>()? {
            map.insert(key, value);
        }
        Ok(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_reads_back_and_is_laid_out_as_python_lays_it_out() {
        let value = read(r#"{"b": [1, 2.5, "ü\n"], "a": {}, "c": null, "d": true}"#).unwrap();
        let layout = Layout {
            indent: Some(4),
            ..Layout::default()
        };
        let want = "{\n    \"b\": [\n        1,\n        2.5,\n        \"ü\\n\"\n    ],\n    \"a\": {},\n    \"c\": null,\n    \"d\": true\n}";
        assert_eq!(write(&value, layout), want);
        let one_line = Layout {
            sort_keys: true,
            ascii: true,
            ..Layout::default()
        };
        assert_eq!(
            write(&value, one_line),
            r#"{"a": {}, "b": [1, 2.5, "\u00fc\n"], "c": null, "d": true}"#
        );
    }

    #[test]
    fn what_cannot_stand_in_a_string_is_escaped_wherever_it_stands() {
        let ascii = Layout {
            ascii: true,
            ..Layout::default()
        };
        let escaped = [
            ("\"", "\\\"", "\\\""),
            ("\\", "\\\\", "\\\\"),
            ("\u{1f}", "\\u001f", "\\u001f"),
            ("\u{7f}", "\u{7f}", "\\u007f"),
            ("é", "é", "\\u00e9"),
            ("😀", "😀", "\\ud83d\\ude00"),
            ("~ ", "~ ", "~ "),
        ];
        for (special, as_it_is, in_ascii) in escaped {
            for before in 0..20 {
                for after in [0, 1, 9] {
                    let around = |middle: &str| {
                        format!("{}{middle}{}", "a".repeat(before), "z".repeat(after))
                    };
                    let value = Value::from(around(special));
                    assert_eq!(
                        write(&value, Layout::default()),
                        format!("\"{}\"", around(as_it_is))
                    );
                    assert_eq!(write(&value, ascii), format!("\"{}\"", around(in_ascii)));
                }
            }
        }
    }
}
