//! The outputters with little code: `json`, `yaml`, `txt`, `raw`, `pprint`, `no_return`, `key`.

use std::sync::Arc;

use value::json::{self, Layout};
use value::{Map, Value, python};

use super::color::Color;
use super::{Indent, Mismatch, Output, pprint, text};
use value::yaml::{Yaml, YamlLayout};

pub(super) fn json(value: &Value, how: &Output) -> String {
    let (indent, sort_keys) = match how.indent {
        Indent::Default => (Some(4), false),
        Indent::Pretty => (Some(4), true),
        Indent::OneLine => (None, false),
        Indent::Spaces(spaces) => (usize::try_from(spaces).ok(), false),
    };
    let layout = Layout {
        indent,
        sort_keys,
        ascii: false,
    };
    if has_a_form(value) {
        return json::write(value, layout);
    }
    match jsonable(value) {
        Some(value) => json::write(&value, layout),
        None => "{}".into(),
    }
}

/// Reports whether JSON can represent all of the value. Nearly all values pass.
fn has_a_form(value: &Value) -> bool {
    match value {
        Value::Bytes(_) | Value::Set(_) => false,
        Value::List(items) | Value::Tuple(items) => items.iter().all(has_a_form),
        Value::Map(map) => map.iter().all(|(key, value)| {
            !matches!(key, Value::Bytes(_) | Value::Tuple(_) | Value::Set(_)) && has_a_form(value)
        }),
        _ => true,
    }
}

/// Replaces values that JSON cannot represent by their `repr`. Returns `None` if a key is one that
/// JSON cannot have.
fn jsonable(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Bytes(_) | Value::Set(_) => Value::from(python::repr(value)),
        Value::List(items) | Value::Tuple(items) => Value::List(Arc::new(
            items.iter().map(jsonable).collect::<Option<Vec<_>>>()?,
        )),
        Value::Map(map) => {
            let mut out = Map::new();
            for (key, value) in map.iter() {
                if matches!(key, Value::Bytes(_) | Value::Tuple(_) | Value::Set(_)) {
                    return None;
                }
                out.insert(key.clone(), jsonable(value)?);
            }
            Value::Map(out)
        }
        other => other.clone(),
    })
}

pub(super) fn yaml(value: &Value, how: &Output, yaml: &dyn Yaml) -> String {
    let layout = match how.indent {
        Indent::Spaces(spaces) if spaces >= 0 => YamlLayout {
            indent: usize::try_from(spaces).ok(),
            flow: false,
        },
        Indent::Spaces(_) => YamlLayout {
            indent: Some(0),
            flow: true,
        },
        _ => YamlLayout::default(),
    };
    yaml.dump(value, layout)
}

pub(super) fn txt(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Map(map) => {
            for (key, value) in map.iter() {
                match value {
                    Value::Str(words) => {
                        for line in text::splitlines(words) {
                            out.push_str(&format!("{}: {line}\n", key.to_text()));
                        }
                    }
                    other => out.push_str(&format!("{}: {}\n", key.to_text(), other.to_text())),
                }
            }
        }
        Value::Str(words) => out.push_str(words),
        other => out.push_str(&pprint::pformat(other, 1)),
    }
    out
}

pub(super) fn pretty(value: &Value, how: &Output) -> String {
    match how.indent {
        Indent::Spaces(spaces) => pprint::pformat(value, usize::try_from(spaces).unwrap_or(1)),
        _ => pprint::pformat(value, 1),
    }
}

pub(super) fn no_return(value: &Value, how: &Output) -> String {
    let mut out = String::new();
    put_no_return(&mut out, value, how, 0);
    out
}

fn put_no_return(out: &mut String, value: &Value, how: &Output, indent: usize) {
    let paint = |color: Color, text: &str| {
        format!(
            "{}{:indent$}{text}{}",
            color.code(how.color),
            "",
            Color::End.code(how.color)
        )
    };
    match value {
        Value::Str(words) => {
            for line in words.split('\n') {
                out.push_str(&paint(Color::Red, line));
                out.push('\n');
            }
        }
        Value::Map(map) => {
            for (key, value) in text::sorted(map) {
                out.push_str(&paint(Color::Cyan, &key.to_text()));
                out.push_str(":\n");
                put_no_return(out, value, how, indent + 4);
            }
        }
        _ => {}
    }
}

/// Formats the lists of keys that `salt-key` prints.
pub(super) fn key(value: &Value, how: &Output) -> Result<String, Mismatch> {
    let on = how.color;
    let mut lines = Vec::new();
    for (status, keys) in text::sorted(value.as_map().ok_or(Mismatch)?) {
        let (title, head, color) = heading(status.as_str().ok_or(Mismatch)?).ok_or(Mismatch)?;
        lines.push(format!("{}{title}{}", head.code(on), Color::End.code(on)));
        let paint = |text: &str| format!("{}{text}{}", color.code(on), Color::End.code(on));
        match keys {
            Value::Map(fingers) => {
                for (id, finger) in text::sorted(fingers) {
                    let id = text::without_escapes(&id.to_text());
                    lines.push(paint(&format!("{id}:  {}", finger.to_text())));
                }
            }
            other => {
                let mut ids = other.as_list().ok_or(Mismatch)?.to_vec();
                ids.sort();
                lines.extend(
                    ids.iter()
                        .map(|id| paint(&text::without_escapes(&id.to_text()))),
                );
            }
        }
    }
    Ok(lines.join("\n"))
}

fn heading(status: &str) -> Option<(&'static str, Color, Color)> {
    Some(match status {
        "minions" => ("Accepted Keys:", Color::LightGreen, Color::Green),
        "minions_pre" => ("Unaccepted Keys:", Color::LightRed, Color::Red),
        "minions_denied" => ("Denied Keys:", Color::LightMagenta, Color::Magenta),
        "minions_rejected" => ("Rejected Keys:", Color::LightBlue, Color::Blue),
        "local" => ("Local Keys:", Color::LightMagenta, Color::Magenta),
        _ => return None,
    })
}
