//! Python's `pprint.pformat`: prints a value on one line if it fits in 80 columns, or else each
//! item on a separate line.

use minijinja::Value;
use minijinja::value::{Tuple, ValueKind};

use super::super::args;
use super::super::containers::{Dict, List};
use super::super::print;

const WIDTH: usize = 80;

/// The maximum nesting depth; deeper values are printed on one line.
const DEPTH_MAX: usize = 100;

/// Returns a value as `pprint` prints it.
pub(super) fn pretty(value: &Value) -> String {
    at(&sorted_keys(value, 0), Margins::default(), 0)
}

/// The column at which a value begins, and the number of characters that follow it on its last
/// line.
#[derive(Clone, Copy, Default)]
struct Margins {
    column: usize,
    after: usize,
}

fn at(value: &Value, margins: Margins, depth: usize) -> String {
    let line = print::repr(value);
    if depth > DEPTH_MAX || margins.column + line.chars().count() + margins.after <= WIDTH {
        return line;
    }
    if let Some(dict) = value.downcast_object_ref::<Dict>() {
        return entries(&dict.pairs(), margins, depth);
    }
    if value.is_tuple() {
        let items = args::items(value).unwrap_or_default();
        let close = if items.len() == 1 { ",)" } else { ")" };
        return all(&items, ("(", close), margins, depth);
    }
    if value.downcast_object_ref::<List>().is_some() {
        let brackets = match line.starts_with('{') {
            true => ("{", "}"),
            false => ("[", "]"),
        };
        return all(
            &args::items(value).unwrap_or_default(),
            brackets,
            margins,
            depth,
        );
    }
    match value.kind() {
        ValueKind::String => text(value.as_str().unwrap_or_default(), margins, depth),
        _ => line,
    }
}

fn entries(entries: &[(Value, Value)], margins: Margins, depth: usize) -> String {
    let last = entries.len().saturating_sub(1);
    let lines = entries.iter().enumerate().map(|(index, (key, item))| {
        let key = print::repr(key);
        let margins = Margins {
            column: margins.column + 1 + key.chars().count() + 2,
            after: if index == last { margins.after + 1 } else { 1 },
        };
        format!("{key}: {}", at(item, margins, depth + 1))
    });
    let pad = format!(",\n{}", " ".repeat(margins.column + 1));
    format!("{{{}}}", lines.collect::<Vec<_>>().join(&pad))
}

fn all(items: &[Value], (open, close): (&str, &str), margins: Margins, depth: usize) -> String {
    let last = items.len().saturating_sub(1);
    let lines = items.iter().enumerate().map(|(index, item)| {
        let margins = Margins {
            column: margins.column + 1,
            after: if index == last {
                margins.after + close.len()
            } else {
                1
            },
        };
        at(item, margins, depth + 1)
    });
    let pad = format!(",\n{}", " ".repeat(margins.column + 1));
    format!("{open}{}{close}", lines.collect::<Vec<_>>().join(&pad))
}

/// Prints a long text as several shorter ones, split after white space; a text that is not inside a
/// container gets brackets.
fn text(text: &str, margins: Margins, depth: usize) -> String {
    if text.is_empty() {
        return print::repr(&Value::from(text));
    }
    let alone = usize::from(depth == 0);
    let (column, after) = (margins.column + alone, margins.after + alone);
    let mut pieces = Vec::new();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for (index, line) in lines.iter().enumerate() {
        let whole = print::repr(&Value::from(*line));
        let room = WIDTH.saturating_sub(column);
        let is_last = index + 1 == lines.len();
        let most = if is_last {
            room.saturating_sub(after)
        } else {
            room
        };
        if whole.chars().count() <= most {
            pieces.push(whole);
        } else {
            split(line, room, if is_last { after } else { 0 }, &mut pieces);
        }
    }
    match pieces.as_slice() {
        [one] => one.clone(),
        _ => {
            let joined = pieces.join(&format!("\n{}", " ".repeat(column)));
            if depth == 0 {
                format!("({joined})")
            } else {
                joined
            }
        }
    }
}

/// Splits a line into pieces, each with as many words as fit.
fn split(line: &str, room: usize, after: usize, pieces: &mut Vec<String>) {
    let words = words(line);
    let mut current = String::new();
    for (index, word) in words.iter().enumerate() {
        let longer = format!("{current}{word}");
        let room = if index + 1 == words.len() {
            room.saturating_sub(after)
        } else {
            room
        };
        let fits = print::repr(&Value::from(longer.as_str())).chars().count() <= room;
        if fits {
            current = longer;
            continue;
        }
        if !current.is_empty() {
            pieces.push(print::repr(&Value::from(current.as_str())));
        }
        current = (*word).to_owned();
    }
    if !current.is_empty() {
        pieces.push(print::repr(&Value::from(current.as_str())));
    }
}

/// Splits a line before each word, so that each piece ends with its white space.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut in_space) = (0, false);
    for (at, c) in line.char_indices() {
        if in_space && !c.is_whitespace() {
            words.push(line.get(start..at).unwrap_or_default());
            start = at;
        }
        in_space = c.is_whitespace();
    }
    words.push(line.get(start..).unwrap_or_default());
    words
}

/// Sorts the keys of every dictionary, as `pprint` does.
fn sorted_keys(value: &Value, depth: usize) -> Value {
    if depth > DEPTH_MAX {
        return value.clone();
    }
    let sorted = |item: &Value| sorted_keys(item, depth + 1);
    if let Some(dict) = value.downcast_object_ref::<Dict>() {
        let mut entries = dict.pairs();
        value::sorted::sort_by_key(&mut entries, |(key, _): &(Value, Value)| key.clone());
        let entries = entries.into_iter();
        return Dict::value(entries.map(|(key, item)| (key, sorted(&item))).collect());
    }
    if value.is_tuple() {
        let items = args::items(value).unwrap_or_default();
        return Value::from(Tuple::from(items.iter().map(sorted).collect::<Vec<_>>()));
    }
    match value.downcast_object_ref::<List>() {
        Some(list) => List::with_sort(list.sort(), list.snapshot().iter().map(sorted).collect()),
        None => value.clone(),
    }
}
