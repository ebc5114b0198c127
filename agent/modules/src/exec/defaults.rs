//! The `defaults` execution module.

use state::exec::Exec;
use state::host::read;
use state::module::Error;
use value::{Map, Value, merge};

state::exec_module! {
    /// Working with defaults of formulas (`defaults.yaml` or `defaults.json` beside them), and merging.
    mod defaults;

    /// Return a formula's defaults, or what stands in them at a key: `core:users:root`.
    fn get(Get {
        /// The formula, and the key after a colon.
        key: String,
        /// What is returned where the key is not there.
        default: Value = "".into(),
    });

    /// Merge a dictionary over another one.
    fn merge(Merge {
        /// The lower one.
        dest: Value,
        /// The upper one.
        src: Value,
        /// Join lists.
        merge_lists: bool = false,
        /// In Salt `dest` itself changes; here the merged one is returned either way.
        in_place: bool = true,
        /// None passes for an empty dictionary.
        convert_none: bool = true,
    });

    /// Return a copy.
    fn deepcopy(Deepcopy {
        /// What is copied.
        source: Value,
    });

    /// Lay each value of a dictionary over the defaults.
    fn update(Update {
        /// Names with dictionaries.
        dest: Value,
        /// What they are laid over.
        defaults: Value,
        /// Join lists.
        merge_lists: bool = true,
        /// In Salt `dest` itself changes; here the result is returned either way.
        in_place: bool = true,
        /// None passes for an empty dictionary.
        convert_none: bool = true,
    });
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    let (formula, key) = match args.key.split_once(':') {
        Some((formula, key)) => (formula, Some(key).filter(|key| !key.is_empty())),
        None => (args.key.as_str(), None),
    };
    let defaults = load(cx, formula)?;
    let Some(key) = key else {
        return Ok(defaults);
    };
    Ok(defaults.traverse(key, ":").cloned().unwrap_or(args.default))
}

fn load(cx: &Exec, formula: &str) -> Result<Value, Error> {
    for suffix in ["yaml", "json"] {
        let path = format!("{formula}/defaults.{suffix}");
        let Some(file) = cx.shared.sources.file(&path, &cx.saltenv)? else {
            continue;
        };
        let text = read(&file.path)?;
        let shown = &file.shown;
        let data = if suffix == "yaml" {
            render::yaml::load(&text).map_err(|error| format!("{shown}: {error}"))?
        } else {
            value::json::read(&text).map_err(|error| format!("{shown}: {error}"))?
        };
        return Ok(if data.is_true() {
            data
        } else {
            Map::new().into()
        });
    }
    Ok(Value::Null)
}

const NOT_DICTIONARIES: &str = "Cannot update using non-dict types in dictupdate.update()";

/// A dictionary; None passes for an empty one where that is asked for.
fn dictionary(value: Value, convert_none: bool) -> Result<Map, Error> {
    match value {
        Value::Map(map) => Ok(map),
        Value::Null if convert_none => Ok(Map::new()),
        _ => Err(NOT_DICTIONARIES.into()),
    }
}

fn merge(_cx: &Exec, args: Merge) -> Result<Value, Error> {
    if args.dest.is_null() && args.in_place && args.convert_none {
        return Err("Can't perform in-place merge into NoneType".into());
    }
    let upper = dictionary(args.src, args.convert_none)?;
    let lower = dictionary(args.dest, args.convert_none)?;
    Ok(merge::recurse(&lower, &upper, args.merge_lists).into())
}

fn deepcopy(_cx: &Exec, args: Deepcopy) -> Result<Value, Error> {
    Ok(args.source)
}

fn update(_cx: &Exec, args: Update) -> Result<Value, Error> {
    if args.dest.is_null() && args.in_place {
        return Err("Can't perform in-place update into NoneType".into());
    }
    let defaults = dictionary(args.defaults, args.convert_none)?;
    let nodes = dictionary(args.dest, args.convert_none)?;
    let mut updated = Map::new();
    for (name, node) in nodes {
        let node = dictionary(node, args.convert_none)?;
        updated.insert(name, merge::recurse(&defaults, &node, args.merge_lists));
    }
    Ok(updated.into())
}
