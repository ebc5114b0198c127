//! Salt's `nested` layout, in which most functions print their returns and errors show their data.

use crate::{Map, Value, python};

/// The kind of a line; an outputter gives each kind its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number, `True`, `False` or `None`.
    Scalar,
    /// A line of text.
    Text,
    /// A rule above a dictionary.
    Rule,
    /// A key of a dictionary.
    Key,
    /// The mark of a list or dictionary inside a list.
    Mark,
}

/// One line of the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The kind of the line.
    pub kind: Kind,
    /// The number of spaces before the text.
    pub indent: usize,
    /// The text.
    pub text: String,
}

/// Returns the lines of a value, each indented by at least `indent`.
#[must_use]
pub fn lines(value: &Value, indent: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    put(&mut lines, value, indent, "");
    lines
}

/// Returns the layout as text, without colours.
#[must_use]
pub fn text(value: &Value) -> String {
    let shown = |line: Line| {
        let end = if line.kind == Kind::Key { ":" } else { "" };
        format!("{:indent$}{}{end}", "", line.text, indent = line.indent)
    };
    let lines: Vec<String> = lines(value, 0).into_iter().map(shown).collect();
    lines.join("\n").trim_end().to_owned()
}

fn put(lines: &mut Vec<Line>, value: &Value, indent: usize, prefix: &str) {
    let mut line = |kind, text: &str| {
        lines.push(Line {
            kind,
            indent,
            text: format!("{prefix}{text}"),
        });
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Float(_) => {
            line(Kind::Scalar, &python::repr(value));
        }
        Value::Str(words) => put_text(lines, words, indent, prefix),
        Value::Bytes(bytes) => {
            if let Ok(words) = std::str::from_utf8(bytes) {
                put_text(lines, words, indent, prefix);
            }
        }
        Value::List(items) | Value::Tuple(items) => put_items(lines, items, indent),
        Value::Map(map) => put_map(lines, map, indent, prefix),
        // Salt prints nothing for a set.
        Value::Set(_) => {}
    }
}

fn put_map(lines: &mut Vec<Line>, map: &Map, indent: usize, prefix: &str) {
    if indent > 0 {
        let text = "----------".to_owned();
        lines.push(Line {
            kind: Kind::Rule,
            indent,
            text,
        });
    }
    for (key, value) in sorted(map) {
        lines.push(Line {
            kind: Kind::Key,
            indent,
            text: format!("{prefix}{}", key.to_text()),
        });
        put(lines, value, indent + 4, "");
    }
}

fn put_text(lines: &mut Vec<Line>, words: &str, indent: usize, prefix: &str) {
    let mut prefix = prefix.to_owned();
    for line in splitlines(words) {
        lines.push(Line {
            kind: Kind::Text,
            indent,
            text: format!("{prefix}{line}"),
        });
        prefix = " ".repeat(prefix.chars().count());
    }
}

fn put_items(lines: &mut Vec<Line>, items: &[Value], indent: usize) {
    for item in items {
        match item {
            Value::List(_) | Value::Tuple(_) | Value::Map(_) => {
                lines.push(Line {
                    kind: Kind::Mark,
                    indent,
                    text: "|_".to_owned(),
                });
                let prefix = if item.as_map().is_some() { "" } else { "- " };
                put(lines, item, indent + 2, prefix);
            }
            _ => put(lines, item, indent, "- "),
        }
    }
}

/// Returns the entries in the order of Python's `sorted(dict)`; if the keys cannot be compared in
/// Python they are converted to strings first.
#[must_use]
pub fn sorted(map: &Map) -> Vec<(Value, &Value)> {
    let mut entries: Vec<(Value, &Value)> = if comparable(map) {
        map.iter()
            .map(|(key, value)| (key.clone(), value))
            .collect()
    } else {
        let texts: Map = map
            .iter()
            .map(|(key, _)| (Value::from(key.to_text()), key.clone()))
            .collect();
        texts
            .iter()
            .filter_map(|(text, key)| Some((text.clone(), map.get_value(key)?)))
            .collect()
    };
    crate::sorted::sort_by(&mut entries, |a, b| a.0.cmp(&b.0));
    entries
}

fn comparable(map: &Map) -> bool {
    let number = |key: &Value| {
        matches!(
            key,
            Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Float(_)
        )
    };
    map.len() < 2 || map.keys().all(|key| key.as_str().is_some()) || map.keys().all(number)
}

/// Splits a text as Python's `str.splitlines` does: at every line break that Python knows, without
/// an empty last line.
#[must_use]
pub fn splitlines(text: &str) -> Vec<&str> {
    split_keeping_ends(text)
        .into_iter()
        .map(|line| {
            line.strip_suffix("\r\n")
                .unwrap_or_else(|| line.strip_suffix(is_break).unwrap_or(line))
        })
        .collect()
}

/// Splits a text as Python's `str.splitlines(True)` does: each line keeps its line break.
#[must_use]
pub fn split_keeping_ends(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(found) = rest.find(is_break) {
        let tail = rest.get(found..).unwrap_or_default();
        let width = if tail.starts_with("\r\n") {
            2
        } else {
            tail.chars().next().map_or(1, char::len_utf8)
        };
        let (line, after) = rest.split_at(found + width);
        lines.push(line);
        rest = after;
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn is_break(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}
