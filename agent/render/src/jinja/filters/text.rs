//! Salt's filters of texts.

use ::value::glob::matches_expression;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

use super::super::args::{self, Args, items};
use super::super::errors::{type_error, value_error};
use super::super::{print, strings};
use super::Table;
use super::builtin::number;

/// The filters of this topic.
pub(super) const FILTERS: Table = &[
    ("skip", |_, _| Ok(Value::from(""))),
    ("quote", |_, a| Ok(Value::from(quote(&a.text(0, "txt")?)))),
    ("contains_whitespace", |_, a| {
        Ok(Value::from(
            a.text(0, "text")?.contains(char::is_whitespace),
        ))
    }),
    ("human_to_bytes", human_to_bytes),
    ("is_hex", |_, a| Ok(Value::from(is_hex(a.subject()?)))),
    ("str_to_num", |_, a| Ok(to_num(a.subject()?))),
    ("to_num", |_, a| Ok(to_num(a.subject()?))),
    ("to_bool", |_, a| Ok(Value::from(to_bool(a.subject()?)))),
    ("to_bytes", |_, a| {
        Ok(Value::from_bytes(a.text(0, "s")?.into_bytes()))
    }),
    ("to_snake_case", |_, a| {
        Ok(Value::from(snake(&a.text(0, "camel_input")?)))
    }),
    ("to_camelcase", |_, a| {
        Ok(Value::from(camel(
            &a.text(0, "snake_input")?,
            a.flag(1, "uppercamel", false),
        )))
    }),
    ("substring_in_list", substring_in_list),
    ("check_whitelist_blacklist", check_lists),
    ("method_call", method_call),
    ("path_join", path_join),
    ("urlencode", urlencode),
];

/// Quotes a text as Python's `shlex.quote`.
fn quote(text: &str) -> String {
    if text.is_empty() {
        return "''".into();
    }
    if text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c))
    {
        return text.into();
    }
    format!("'{}'", text.replace('\'', "'\"'\"'"))
}

fn human_to_bytes(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let text = args.text(0, "size")?;
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit = match unit.trim() {
        "" => args.text_or(1, "default_unit", "B")?,
        unit => unit.to_owned(),
    }
    .to_lowercase();
    let Some(size) = number(digits) else {
        return Ok(Value::from(0));
    };
    let (letter, suffix) = unit.split_at(unit.chars().next().map_or(0, char::len_utf8));
    let Some(power) = "bkmgtpezy"
        .find(letter)
        .and_then(|power| i32::try_from(power).ok())
    else {
        return Ok(Value::from(0));
    };
    let scale = match (letter, suffix) {
        ("b", "") => 1.0,
        (_, "") | (_, "ib") if letter != "b" => 1024_f64.powi(power),
        (_, "b") if letter != "b" => {
            if args.flag(2, "handle_metric", false) {
                1000_f64.powi(power)
            } else {
                1024_f64.powi(power)
            }
        }
        _ => return Ok(Value::from(0)),
    };
    let bytes = (size * scale) as i128;
    Ok(i64::try_from(bytes).map_or_else(|_| Value::from(bytes), Value::from))
}

fn is_hex(value: &Value) -> bool {
    let Some(text) = value.as_str() else {
        return false;
    };
    let digits = text.trim().trim_start_matches(['+', '-']);
    let digits = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
        .unwrap_or(digits);
    !digits.is_empty()
        && !digits.starts_with('_')
        && digits.chars().all(|c| c.is_ascii_hexdigit() || c == '_')
}

/// Converts a text to a whole number or a float; returns it unchanged if it is neither.
pub(super) fn to_num(value: &Value) -> Value {
    let Some(text) = value.as_str() else {
        return value.clone();
    };
    if let Ok(whole) = text.trim().replace('_', "").parse::<i64>() {
        return Value::from(whole);
    }
    number(text).map_or_else(|| value.clone(), Value::from)
}

fn to_bool(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Bool => value.is_true(),
        ValueKind::String => matches!(
            value.as_str().unwrap_or_default().to_lowercase().as_str(),
            "yes" | "1" | "true"
        ),
        ValueKind::Number if value.is_integer() => value.as_i64().is_some_and(|number| number > 0),
        ValueKind::Seq if value.is_tuple() => false,
        ValueKind::Seq | ValueKind::Map => value.len().is_some_and(|len| len > 0),
        _ => false,
    }
}

fn snake(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut out = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|at| letters.get(at));
        let after = letters.get(index + 1);
        let begins =
            before.is_some_and(|c| c.is_lowercase()) || after.is_some_and(|c| c.is_lowercase());
        if index > 0 && letter.is_uppercase() && begins {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

fn camel(text: &str, upper: bool) -> String {
    let words = text.split('_').enumerate();
    words
        .map(|(index, word)| {
            if index == 0 && !upper {
                word.to_owned()
            } else {
                strings::capitalize(word)
            }
        })
        .collect()
}

fn substring_in_list(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let text = args.text(0, "string_to_search_for")?;
    let list = items(args.need(1, "list_to_search")?)?;
    Ok(Value::from(
        list.iter().any(|item| print::str(item).contains(&text)),
    ))
}

fn check_lists(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    let white = patterns(args.at(1, "whitelist"))?;
    let black = patterns(args.at(2, "blacklist"))?;
    // Only texts match; not even equal numbers do.
    let hit = |patterns: &[Value]| {
        let mut texts = patterns.iter().filter_map(Value::as_str);
        let value = value.as_str();
        value.is_some_and(|value| texts.any(|pattern| matches_expression(pattern, value)))
    };
    Ok(Value::from(
        !hit(&black) && (white.is_empty() || hit(&white)),
    ))
}

fn patterns(value: Option<&Value>) -> Result<Vec<Value>, Error> {
    match value {
        Some(value) if value.as_str().is_some_and(|text| !text.is_empty()) => {
            Ok(vec![value.clone()])
        }
        Some(value) if value.is_true() => items(value),
        _ => Ok(Vec::new()),
    }
}

fn method_call(state: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let name = args.text(1, "f_name")?;
    let mut values = args.rest(2).to_vec();
    if !args.all_named().is_empty() {
        values.push(minijinja::value::Kwargs::from_iter(args.all_named().iter().cloned()).into());
    }
    match args.subject()?.call_method(state, &name, &values) {
        Err(error)
            if error.kind() == ErrorKind::UnknownMethod
                || error.to_string().contains("has no attribute") =>
        {
            Ok(Value::from(()))
        }
        outcome => outcome,
    }
}

fn path_join(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let mut joined = String::new();
    for (index, part) in args.pos().iter().enumerate() {
        let part = args::defined(part)?.as_str().ok_or_else(|| {
            type_error(format!(
                "expected str, bytes, or bytearray not <class '{}'>",
                print::type_name(part)
            ))
        })?;
        let part = normal_path(part);
        if index > 0 {
            joined.push('/');
        }
        joined.push_str(if index > 0 {
            part.trim_start_matches('/')
        } else {
            &part
        });
    }
    Ok(Value::from(normal_path(&joined)))
}

/// Normalizes a path as Python's `os.path.normpath`.
fn normal_path(path: &str) -> String {
    let root = match path.len() - path.trim_start_matches('/').len() {
        0 => "",
        2 => "//",
        _ => "/",
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if parts.is_empty() && !root.is_empty() => {}
            part => parts.push(part),
        }
    }
    let joined = format!("{root}{}", parts.join("/"));
    if joined.is_empty() {
        ".".into()
    } else {
        joined
    }
}

fn urlencode(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    if matches!(value.kind(), ValueKind::Map | ValueKind::Seq) {
        let pairs = match value.kind() {
            ValueKind::Map => super::builtin::pairs(value)?,
            _ => items(value)?,
        };
        let mut parts = Vec::new();
        for pair in pairs {
            let (key, value) = (pair.get_item_by_index(0)?, pair.get_item_by_index(1)?);
            parts.push(format!(
                "{}={}",
                form(&print::str(&key)),
                form(&print::str(&value))
            ));
        }
        return Ok(Value::from(parts.join("&")));
    }
    if value.is_undefined() {
        return Err(value_error("undefined"));
    }
    Ok(Value::from(percent(&print::str(value), "/")))
}

/// Encodes a text for a form, where a space becomes a plus.
fn form(text: &str) -> String {
    percent(text, "").replace("%20", "+")
}

fn percent(text: &str, safe: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        let c = char::from(byte);
        if byte.is_ascii_alphanumeric() || "_.-~".contains(c) || safe.contains(c) {
            out.push(c);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
