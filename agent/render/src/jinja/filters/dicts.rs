//! Salt's filters of dictionaries.

use indexmap::IndexMap;
use minijinja::{Error, State, Value};

use super::super::args::{Args, items};
use super::super::containers::{Dict, List, pairs};
use super::super::errors::{fault, key_error, type_error};
use super::super::{print, strings};
use super::{Table, text};
use crate::Kind;

/// The filters of this topic.
pub(super) const FILTERS: Table = &[
    ("set_dict_key_value", |_, a| {
        at_path(a, |_, _| a.need(2, "value").cloned())
    }),
    ("update_dict_key_value", |_, a| at_path(a, update)),
    ("append_dict_key_value", |_, a| at_path(a, append)),
    ("extend_dict_key_value", |_, a| at_path(a, extend)),
    ("compare_dicts", compare),
    ("to_entries", to_entries),
    ("from_entries", from_entries),
    ("mysql_to_dict", mysql),
    ("json_encode_dict", |_, a| encoded(a.subject()?, 0, &mut 0)),
    ("json_decode_dict", |_, a| encoded(a.subject()?, 0, &mut 0)),
    ("json_encode_list", |_, a| encoded(a.subject()?, 0, &mut 0)),
    ("json_decode_list", |_, a| encoded(a.subject()?, 0, &mut 0)),
];

fn dict(value: &Value) -> Result<&Dict, Error> {
    value.downcast_object_ref::<Dict>().ok_or_else(|| {
        type_error(format!(
            "'{}' object does not support item assignment",
            print::type_name(value)
        ))
    })
}

/// Changes the value at a path of keys, and creates missing dictionaries on the path.
fn at_path(
    args: &Args,
    change: impl Fn(&Args, Option<Value>) -> Result<Value, Error>,
) -> Result<Value, Error> {
    let delimiter = args.text_or(3, "delimiter", ":")?;
    let path = args.text(1, "keys")?;
    let mut here = args.subject()?.clone();
    let mut keys = path.split(&delimiter).peekable();
    while let Some(key) = keys.next() {
        let holder = dict(&here)?;
        let key = Value::from(key);
        let found = holder.get(&key);
        if keys.peek().is_none() {
            let changed = change(args, found)?;
            holder.change(|entries| entries.insert(key, changed));
            break;
        }
        let next = match found.filter(|found| found.downcast_object_ref::<Dict>().is_some()) {
            Some(next) => next,
            None => {
                let next = Dict::value(IndexMap::new());
                holder.change(|entries| entries.insert(key, next.clone()));
                next
            }
        };
        here = next;
    }
    args.subject().cloned()
}

fn unsupported(value: &Value, verb: &str) -> Error {
    let name = print::type_name(value);
    fault(
        Kind::Call,
        format!("The last key contains a <class '{name}'>, which cannot {verb}."),
    )
}

fn update(args: &Args, found: Option<Value>) -> Result<Value, Error> {
    let found = found
        .filter(|found| !found.is_none())
        .unwrap_or_else(|| Dict::value(IndexMap::new()));
    let entries = pairs(&Args::new(&[args.need(2, "value")?.clone()])?)
        .map_err(|_| cannot_with("update", &found, args))?;
    let dict = found
        .downcast_object_ref::<Dict>()
        .ok_or_else(|| unsupported(&found, "update"))?;
    dict.change(|own| own.extend(entries));
    Ok(found)
}

fn cannot_with(verb: &str, found: &Value, args: &Args) -> Error {
    let other = args.at(2, "value").map_or("NoneType", print::type_name);
    fault(
        Kind::Call,
        format!(
            "Cannot {verb} <class '{}'> with a <class '{other}'>.",
            print::type_name(found)
        ),
    )
}

fn append(args: &Args, found: Option<Value>) -> Result<Value, Error> {
    let found = found
        .filter(|found| !found.is_none())
        .unwrap_or_else(|| List::value(Vec::new()));
    let item = args.need(2, "value")?.clone();
    let list = found
        .downcast_object_ref::<List>()
        .ok_or_else(|| unsupported(&found, "append"))?;
    list.change(|items| items.push(item));
    Ok(found)
}

fn extend(args: &Args, found: Option<Value>) -> Result<Value, Error> {
    let found = found
        .filter(|found| !found.is_none())
        .unwrap_or_else(|| List::value(Vec::new()));
    let more = items(args.need(2, "value")?).map_err(|_| cannot_with("extend", &found, args))?;
    let list = found
        .downcast_object_ref::<List>()
        .ok_or_else(|| unsupported(&found, "extend"))?;
    list.change(|items| items.extend(more));
    Ok(found)
}

fn compare(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let (old, new) = (args.need(0, "old")?, args.need(1, "new")?);
    let (old, new) = (dict(old)?.snapshot(), dict(new)?.snapshot());
    let mut changes = IndexMap::new();
    for key in new.keys().chain(old.keys()) {
        let change = match (old.get(key), new.get(key)) {
            (None, Some(new)) => [("old", Value::from("")), ("new", new.clone())],
            (Some(old), None) => [("new", Value::from("")), ("old", old.clone())],
            (Some(old), Some(new)) if old != new => [("old", old.clone()), ("new", new.clone())],
            _ => continue,
        };
        let change = change
            .into_iter()
            .map(|(name, value)| (Value::from(name), value))
            .collect();
        changes.insert(key.clone(), Dict::value(change));
    }
    Ok(Dict::value(changes))
}

fn to_entries(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    let entries: Vec<(Value, Value)> = if let Some(dict) = value.downcast_object_ref::<Dict>() {
        dict.snapshot().into_iter().collect()
    } else if let Some(list) = value.downcast_object_ref::<List>() {
        list.snapshot()
            .into_iter()
            .enumerate()
            .map(|(index, item)| (Value::from(index), item))
            .collect()
    } else {
        return Err(fault(Kind::Jinja, "Input data must be a dict or list"));
    };
    let entry = |(key, value)| {
        Dict::value(
            [("key", key), ("value", value)]
                .map(|(name, value)| (Value::from(name), value))
                .into(),
        )
    };
    Ok(List::value(entries.into_iter().map(entry).collect()))
}

fn from_entries(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let mut made = IndexMap::new();
    for entry in items(args.subject()?)? {
        let entry = dict(&entry)?.snapshot();
        let get = |name: &str| {
            let named = |key: &Value| {
                key.as_str()
                    .is_some_and(|key| key.eq_ignore_ascii_case(name))
            };
            entry
                .iter()
                .find(|(key, _)| named(key))
                .map(|(_, value)| value.clone())
        };
        let key = ["key", "name"]
            .into_iter()
            .filter_map(get)
            .find(Value::is_true);
        if let Some(key) = key {
            made.insert(key, get("value").unwrap_or_else(|| Value::from(())));
        }
    }
    Ok(Dict::value(made))
}

/// Reads the table that the `mysql` client prints into a dictionary by the value of one column.
fn mysql(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let key = args.need(1, "key")?;
    let mut headers: Vec<Value> = Vec::new();
    let mut made = IndexMap::new();
    for line in items(args.subject()?)? {
        let line = print::str(&line);
        if line.is_empty() || line.starts_with('+') {
            continue;
        }
        let cells: Vec<Value> = line
            .split('|')
            .map(|cell| Value::from(cell.trim()))
            .collect();
        if headers.len() <= 1 {
            headers = cells;
            continue;
        }
        let last = headers.len() - 1;
        let row: IndexMap<Value, Value> = headers
            .iter()
            .zip(&cells)
            .take(last)
            .skip(1)
            .map(|(header, cell)| (header.clone(), text::to_num(cell)))
            .collect();
        let name = row
            .get(key)
            .cloned()
            .ok_or_else(|| key_error(print::repr(key)))?;
        made.insert(name, Dict::value(row));
    }
    Ok(Dict::value(made))
}

/// Converts all texts in a value to bytes.
fn encoded(value: &Value, depth: usize, count: &mut usize) -> Result<Value, Error> {
    *count += 1;
    strings::checked_items(*count)?;
    if depth > 100 {
        return Ok(Value::from(()));
    }
    if let Some(text) = value.as_str() {
        return Ok(Value::from_bytes(text.as_bytes().to_vec()));
    }
    if let Some(dict) = value.downcast_object_ref::<Dict>() {
        let entries = dict.snapshot().into_iter().map(|(key, item)| {
            Ok((
                encoded(&key, depth + 1, count)?,
                encoded(&item, depth + 1, count)?,
            ))
        });
        return Ok(Dict::value(entries.collect::<Result<_, Error>>()?));
    }
    if value.downcast_object_ref::<List>().is_some() || value.is_tuple() {
        let items = items(value)?;
        return Ok(List::value(
            items
                .iter()
                .map(|item| encoded(item, depth + 1, count))
                .collect::<Result<_, _>>()?,
        ));
    }
    Ok(value.clone())
}
