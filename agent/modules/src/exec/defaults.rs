//! The `defaults` execution module: default values of formulas.

use state::exec::Exec;
use state::host::read;
use state::module::Error;
use value::{Map, Value, merge};

state::exec_module! {
    /// Read the defaults of formulas (a file `defaults.yaml` or `defaults.json` in the folder of
    /// the formula), and merge dictionaries.
    #[facts(pure = true)]
    mod defaults;

    /// Return the defaults of a formula, or the value at a key such as `core:users:root`.
    ///
    ///     salt-call defaults.get core:users:root
    fn get(Get {
        /// The name of the formula, optionally followed by a colon and a key.
        key: String,
        /// The value to return if the key does not exist.
        default: Value = "".into(),
    });

    /// Merge a dictionary into another one.
    ///
    ///     salt-call defaults.merge '{port: 80}' '{host: web1}'
    fn merge(Merge {
        /// The dictionary to merge into.
        dest: Value,
        /// The dictionary whose values take precedence.
        src: Value,
        /// True to join lists instead of replacing them.
        merge_lists: bool = false,
        /// In Salt, True changes `dest` itself. Here the merged dictionary is returned either way.
        in_place: bool = true,
        /// True to treat None as an empty dictionary.
        convert_none: bool = true,
    });

    /// Return a deep copy of a value.
    ///
    ///     salt-call defaults.deepcopy '{port: 80}'
    fn deepcopy(Deepcopy {
        /// The value to copy.
        source: Value,
    });

    /// Merge each value of a dictionary into the defaults.
    ///
    ///     salt-call defaults.update '{shop: {port: 8080}}' '{host: web1}'
    fn update(Update {
        /// A dictionary of names and dictionaries.
        dest: Value,
        /// The defaults, over which each dictionary is merged.
        defaults: Value,
        /// True to join lists instead of replacing them.
        merge_lists: bool = true,
        /// In Salt, True changes `dest` itself. Here the result is returned either way.
        in_place: bool = true,
        /// True to treat None as an empty dictionary.
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

/// Returns a dictionary. With `convert_none`, null becomes an empty dictionary.
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
