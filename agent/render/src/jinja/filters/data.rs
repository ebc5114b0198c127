//! The filter `traverse`, and filters that Pinch does not support in a template.

use minijinja::{Error, State, Value};

use super::super::args::{self, Args, items};
use super::super::containers::{Dict, List, from_value, place};
use super::super::errors::{fault, note_miss};
use super::super::print;
use super::Table;
use crate::{Kind, yaml};

/// The filters of this topic.
pub(super) const FILTERS: Table = &[
    ("traverse", traverse),
    ("json_query", |_, _| {
        Err(absent("json_query", "use map, selectattr and traverse"))
    }),
    ("http_query", http_query),
];

fn absent(name: &str, instead: &str) -> Error {
    fault(
        Kind::Jinja,
        format!("The filter {name} is not supported: {instead} instead"),
    )
}

/// Calls the execution function of the same name.
fn http_query(state: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let salt = state.lookup("salt").unwrap_or_default();
    let function = salt.get_item(&Value::from("http.query"))?;
    function.call(state, &args.values())
}

/// Returns the value at a path of keys, or the default.
pub(in crate::jinja) fn traverse(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let delimiter = args.text_or(3, "delimiter", ":")?;
    let path = args::defined(args.need(1, "key")?)?;
    let keys = match path.as_str() {
        Some(path) => path.split(&delimiter).map(Value::from).collect(),
        None if path.is_integer() => vec![path.clone()],
        None => items(path)?,
    };
    let mut here = args.subject()?.clone();
    for key in keys {
        match step(&here, &key) {
            Some(next) => here = next,
            None => {
                return Ok(args
                    .at(2, "default")
                    .cloned()
                    .unwrap_or_else(|| Value::from(())));
            }
        }
    }
    Ok(here)
}

/// Looks up one key as Salt does; in a list it is an index, or a key of the first dictionary that
/// has it.
fn step(here: &Value, key: &Value) -> Option<Value> {
    if let Some(list) = here.downcast_object_ref::<List>() {
        let items = list.snapshot();
        let number = key.as_i64().or_else(|| key.as_str()?.trim().parse().ok());
        let wanted = number.map_or_else(|| key.clone(), Value::from);
        let embedded = items
            .iter()
            .find_map(|item| item.downcast_object_ref::<Dict>()?.get(&wanted));
        return embedded.or_else(|| items.get(place(number?, items.len())?).cloned());
    }
    let dict = here.downcast_object_ref::<Dict>()?;
    if let Some(found) = dict.get(key) {
        return Some(found);
    }
    note_miss("dict object", key);
    // A key that YAML reads as a number or truth value is also looked up as such.
    let loaded = from_value(&yaml::load(&print::str(key)).ok()?);
    dict.get(&loaded)
}
