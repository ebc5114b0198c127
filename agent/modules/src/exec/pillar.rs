//! The `pillar` execution module.

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log, merge, secret};

use crate::lookup::{self, Around};

state::exec_module! {
    /// The pillar of this minion.
    ///
    /// Called by name on a command line these functions cover the values, unless `unmask=True` is given; templates see them.
    mod pillar;

    /// Return a value of the pillar; levels are joined by colons, and numbers index lists.
    fn get(Get {
        /// Which: `a:b:0`.
        key: String,
        /// What to return when it is not there.
        default: Value = UNSET.into(),
        /// Whether a dictionary or a list of the pillar is laid over the default.
        merge: bool = false,
        /// Whether lists inside are joined; the option `pillar_merge_lists` where it is not said.
        merge_nested_lists: Option<bool> = None,
        /// What joins the levels.
        delimiter: String = ":".into(),
        /// The environment of the pillar.
        pillarenv: Option<String> = None,
        /// The environment that the pillar is compiled for.
        saltenv: Option<String> = None,
        /// Whether values are shown.
        unmask: Option<bool> = None,
    });

    /// The same as `pillar.get`.
    fn fetch(Fetch {
        /// Which: `a:b:0`.
        key: String,
        /// What to return when it is not there.
        default: Value = UNSET.into(),
        /// As of `pillar.get`.
        merge: bool = false,
        /// As of `pillar.get`.
        merge_nested_lists: Option<bool> = None,
        /// What joins the levels.
        delimiter: String = ":".into(),
        /// As of `pillar.get`.
        pillarenv: Option<String> = None,
        /// As of `pillar.get`.
        saltenv: Option<String> = None,
        /// As of `pillar.get`.
        unmask: Option<bool> = None,
    });

    /// Compile the pillar and return all of it, or some keys.
    fn items(Items {
        *rest,
        ..kwargs
    });

    /// The same as `pillar.items`.
    fn data(Data {
        *rest,
        ..kwargs
    });

    /// Compile the pillar and return it with the types of its values in their places.
    fn obfuscate(Obfuscate {
        *rest,
        ..kwargs
    });

    /// Compile the pillar and return its keys.
    fn ls(Ls {
        *rest,
        ..kwargs
    });

    /// Return some values of the pillar.
    fn item(Item {
        *rest,
        ..kwargs
    });

    /// Return the pillar as it was compiled for this run, or one key of it.
    fn raw(Raw {
        /// Which key.
        key: Option<String> = None,
        /// Whether values are shown.
        unmask: Option<bool> = None,
    });

    /// Return the keys of a dictionary in the pillar.
    fn keys(Keys {
        /// Which.
        key: String,
        /// What joins the levels.
        delimiter: String = ":".into(),
        /// Accepted: keys are never covered.
        unmask: Option<bool> = None,
    });

    /// Return True when a file is in the pillar roots.
    fn file_exists(FileExists {
        /// Its path below a root.
        path: String,
        /// The environment; all where none is named.
        saltenv: Option<String> = None,
    });

    /// Choose an entry of a dictionary by what a key of the pillar says.
    fn filter_by(FilterBy {
        /// The dictionary; its keys are globs.
        lookup_dict: Map,
        /// The key of the pillar.
        pillar: String,
        /// Laid over what is chosen.
        merge: Value = Value::Null,
        /// The key that is chosen when no other matches.
        default: Value = "default".into(),
        /// The key of what lies below whatever is chosen.
        base: Value = Value::Null,
    });
}

/// Salt's own sign that no default is given.
const UNSET: &str = "__unset__";

/// The key of `__context__` by which the command line asks the next function of this module to cover values.
const MASK: &str = "mask_pillar";

/// How much a function shows.
#[derive(Clone, Copy)]
struct Shown {
    /// Values are covered.
    mask: bool,
    /// It was called by name: secrets are covered also where `unmask=True` shows the rest.
    outside: bool,
}

impl Shown {
    /// A value that stands at a key.
    fn value(self, key: &str, delimiter: &str, value: Value) -> Value {
        let path: Vec<&str> = key.split(delimiter).collect();
        match self {
            Self { mask: true, .. } => cover(value),
            Self { outside: true, .. } if !delimiter.is_empty() => secret::at(&path, &value),
            _ => value,
        }
    }
}

/// What is shown of values. The wish is taken away, so that templates of this pillar see what is in it.
fn masked(cx: &Exec, unmask: Option<bool>) -> Shown {
    let wished = cx.context(|context| context.remove(MASK));
    Shown {
        outside: wished.is_some(),
        mask: unmask.map_or_else(
            || wished.is_some_and(|wished| wished.is_true()),
            |unmask| !unmask,
        ),
    }
}

fn covered(value: Value, mask: bool) -> Value {
    if mask { cover(value) } else { value }
}

fn cover(value: Value) -> Value {
    match value {
        Value::Map(map) => map
            .into_iter()
            .map(|(key, value)| (key, cover(value)))
            .collect(),
        Value::List(items) => Value::list(items.iter().cloned().map(cover)),
        leaf if leaf.is_true() => "**********".into(),
        leaf => leaf,
    }
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    let shown = masked(cx, args.unmask);
    let pillar = pillar_of(cx, args.saltenv, args.pillarenv)?;
    let found = Value::from(pillar)
        .traverse(&args.key, &args.delimiter)
        .cloned();
    let unset = args.default.as_str() == Some(UNSET);
    if args.merge {
        let lists = args
            .merge_nested_lists
            .unwrap_or_else(|| cx.opts().flag("pillar_merge_lists"));
        if let Some(merged) = merged(&args.default, found.as_ref(), lists) {
            return Ok(shown.value(&args.key, &args.delimiter, merged));
        }
    }
    match found {
        Some(value) => Ok(shown.value(&args.key, &args.delimiter, value)),
        None if unset && cx.opts().flag("pillar_raise_on_missing") => Err(Error::refused(format!(
            "Pillar key not found: {}",
            args.key
        ))),
        None if unset => Ok("".into()),
        None => Ok(covered(args.default, shown.mask)),
    }
}

/// The value laid over the default; none, and a word in the log, where they are of different kinds.
fn merged(default: &Value, found: Option<&Value>, lists: bool) -> Option<Value> {
    let (empty, word) = match default {
        Value::Map(_) => (Value::from(Map::new()), "dict"),
        Value::List(_) => (Value::list([]), "list"),
        _ => {
            let (shown, kind) = (default.to_text(), default.type_name());
            log::error(format_args!(
                "pillar.get: Default ({shown}) is of type '{kind}', must be a dict or list to merge. Merge will be skipped."
            ));
            return None;
        }
    };
    match (default, found.unwrap_or(&empty)) {
        (Value::Map(default), Value::Map(found)) => {
            Some(merge::recurse(default, found, lists).into())
        }
        (Value::List(default), Value::List(found)) => {
            let new = found.iter().filter(|item| !default.contains(item));
            Some(Value::list(default.iter().chain(new).cloned()))
        }
        (_, other) => {
            let (default, shown, kind) = (default.to_text(), other.to_text(), other.type_name());
            log::error(format_args!(
                "pillar.get: Default ({default}) is a {word}, but the returned pillar value ({shown}) is of type '{kind}'. Merge will be skipped."
            ));
            None
        }
    }
}

fn fetch(cx: &Exec, args: Fetch) -> Result<Value, Error> {
    let args = Get {
        key: args.key,
        default: args.default,
        merge: args.merge,
        merge_nested_lists: args.merge_nested_lists,
        delimiter: args.delimiter,
        pillarenv: args.pillarenv,
        saltenv: args.saltenv,
        unmask: args.unmask,
    };
    get(cx, args)
}

/// The pillar of this run, or one compiled anew for an environment that is named.
fn pillar_of(cx: &Exec, saltenv: Option<String>, pillarenv: Option<String>) -> Result<Map, Error> {
    if saltenv.is_none() && pillarenv.is_none() {
        return cx.pillar();
    }
    compiled(cx, saltenv, pillarenv, None)
}

fn compiled(
    cx: &Exec,
    saltenv: Option<String>,
    pillarenv: Option<String>,
    given: Option<Map>,
) -> Result<Map, Error> {
    let given = given.or_else(|| cx.pillar_override.as_deref().cloned());
    let mut anew = cx.with_override(given);
    if let Some(saltenv) = saltenv {
        if pillarenv.is_none() && cx.opts().flag("pillarenv_from_saltenv") {
            anew.pillarenv = Some(saltenv.clone());
        }
        anew.saltenv = saltenv;
    }
    if pillarenv.is_some() {
        anew.pillarenv = pillarenv;
    }
    anew.pillar()
}

/// The pillar as `pillar.items` has it with these arguments, and whether it is to be covered.
fn all(cx: &Exec, keys: &[Value], kwargs: &Map) -> Result<(Map, bool), Error> {
    let text = |name| {
        kwargs
            .get(name)
            .filter(|value| value.is_true())
            .map(Value::to_text)
    };
    let unmask = kwargs.get("unmask").filter(|value| !value.is_null());
    let shown = masked(cx, unmask.map(Value::is_true));
    let given = match kwargs.get("pillar") {
        Some(Value::Map(given)) => Some(given.clone()),
        Some(Value::Null) | None => None,
        Some(_) => return Err("Pillar data must be formatted as a dictionary".into()),
    };
    let pillar = compiled(cx, text("saltenv"), text("pillarenv"), given)?;
    if keys.is_empty() {
        return Ok((pillar, shown.mask));
    }
    let secrets = Shown {
        mask: false,
        ..shown
    };
    Ok((some(pillar, keys, &"".into(), ":", secrets), shown.mask))
}

fn some(pillar: Map, keys: &[Value], default: &Value, delimiter: &str, shown: Shown) -> Map {
    let pillar = Value::from(pillar);
    let found = |key: &Value| {
        let found = pillar.traverse(&key.to_text(), delimiter);
        let found = found.unwrap_or(default).clone();
        shown.value(&key.to_text(), delimiter, found)
    };
    keys.iter().map(|key| (key.clone(), found(key))).collect()
}

fn items(cx: &Exec, args: Items) -> Result<Value, Error> {
    let (pillar, mask) = all(cx, &args.rest, &args.kwargs)?;
    let mask = mask && cx.opts().get("pillar_mask_output") != Some(&Value::Bool(false));
    Ok(match mask {
        true => covered_but_errors(pillar).into(),
        false => pillar.into(),
    })
}

/// Returns the pillar with its values covered. What went wrong while it was compiled stays
/// readable: it holds no values, and nobody could mend what is covered.
fn covered_but_errors(pillar: Map) -> Map {
    let is_told = |key: &Value| key.as_str() == Some("_errors");
    let shown = pillar.into_iter().map(|(key, value)| match is_told(&key) {
        true => (key, value),
        false => (key, cover(value)),
    });
    shown.collect()
}

fn data(cx: &Exec, args: Data) -> Result<Value, Error> {
    let (rest, kwargs) = (args.rest, args.kwargs);
    items(cx, Items { rest, kwargs })
}

fn obfuscate(cx: &Exec, args: Obfuscate) -> Result<Value, Error> {
    let (pillar, _) = all(cx, &args.rest, &args.kwargs)?;
    Ok(types(pillar.into()))
}

fn types(value: Value) -> Value {
    match value {
        Value::Map(map) => map
            .into_iter()
            .map(|(key, value)| (key, types(value)))
            .collect(),
        Value::List(items) => Value::list(items.iter().cloned().map(types)),
        leaf => format!("<{}>", leaf.type_name()).into(),
    }
}

fn ls(cx: &Exec, args: Ls) -> Result<Value, Error> {
    let (pillar, _) = all(cx, &args.rest, &args.kwargs)?;
    Ok(Value::list(pillar.keys().cloned()))
}

fn item(cx: &Exec, args: Item) -> Result<Value, Error> {
    let given = |name| args.kwargs.get(name).filter(|value| !value.is_null());
    let text = |name| given(name).map(Value::to_text);
    let shown = masked(cx, given("unmask").map(Value::is_true));
    let pillar = pillar_of(cx, text("saltenv"), text("pillarenv"))?;
    let default = given("default").cloned().unwrap_or_else(|| "".into());
    let delimiter = text("delimiter").unwrap_or_else(|| ":".into());
    Ok(some(pillar, &args.rest, &default, &delimiter, shown).into())
}

fn raw(cx: &Exec, args: Raw) -> Result<Value, Error> {
    masked(cx, args.unmask);
    let pillar = cx.pillar()?;
    let value = match args.key.filter(|key| !key.is_empty()) {
        Some(key) => pillar
            .get(&key)
            .cloned()
            .unwrap_or_else(|| Map::new().into()),
        None => pillar.into(),
    };
    Ok(covered(value, args.unmask == Some(false)))
}

fn keys(cx: &Exec, args: Keys) -> Result<Value, Error> {
    masked(cx, args.unmask);
    let key = &args.key;
    match Value::from(cx.pillar()?).traverse(key, &args.delimiter) {
        Some(Value::Map(map)) => Ok(Value::list(map.keys().cloned())),
        Some(_) => Err(Error::refused(format!(
            "Pillar value in key {key} is not a dict"
        ))),
        None => Err(Error::refused(format!("Pillar key not found: {key}"))),
    }
}

fn file_exists(cx: &Exec, args: FileExists) -> Result<Value, Error> {
    let environments = cx.opts().environments("pillar_roots");
    if environments.is_empty() {
        return Err("No pillar_roots found. Are you running this on the master?".into());
    }
    let wanted = |name: &String| args.saltenv.as_ref().is_none_or(|saltenv| saltenv == name);
    let mut roots = environments
        .iter()
        .filter(|name| wanted(name))
        .flat_map(|name| cx.opts().roots("pillar_roots", name));
    Ok(roots
        .any(|root| Path::new(&root).join(&args.path).is_file())
        .into())
}

fn filter_by(cx: &Exec, args: FilterBy) -> Result<Value, Error> {
    masked(cx, None);
    let around = Around {
        merge: args.merge,
        default: args.default,
        base: args.base,
    };
    lookup::filter_by(&args.lookup_dict, &args.pillar, cx.pillar()?, &around)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{exec_with, json};

    #[test]
    fn what_went_wrong_is_not_covered() {
        let pillar =
            json(r#"{"a": {"b": "x"}, "_errors": ["Failed to load ext_pillar cmd_json: no"]}"#);
        let shown = covered_but_errors(pillar);
        let wanted = json(
            r#"{"a": {"b": "**********"}, "_errors": ["Failed to load ext_pillar cmd_json: no"]}"#,
        );
        assert_eq!(shown, wanted);
    }

    fn cx() -> Exec {
        exec_with(
            Map::new(),
            json(r#"{"a": {"b": 1, "l": [{"x": "y"}, 2]}, "s": "secret", "e": ""}"#),
        )
    }

    fn call(cx: &Exec, function: &str, kwargs: &str) -> String {
        let answer = cx.call(&format!("pillar.{function}"), Vec::new(), json(kwargs));
        answer.map_or_else(
            |error| error.to_string(),
            |value| value::python::repr(&value),
        )
    }

    #[test]
    fn values_are_found_defaulted_and_merged() {
        let cx = cx();
        for (kwargs, wanted) in [
            (r#"{"key": "a:l:0:x"}"#, "'y'"),
            (r#"{"key": "a/b", "delimiter": "/"}"#, "1"),
            (r#"{"key": "nosuch"}"#, "''"),
            (r#"{"key": "nosuch", "default": null}"#, "None"),
            (
                r#"{"key": "a", "merge": true, "default": {"b": 2, "z": 3}}"#,
                "{'b': 1, 'z': 3, 'l': [{'x': 'y'}, 2]}",
            ),
            (
                r#"{"key": "a:l", "merge": true, "default": [2, 5]}"#,
                "[2, 5, {'x': 'y'}]",
            ),
            (r#"{"key": "s", "merge": true, "default": [2]}"#, "'secret'"),
        ] {
            assert_eq!(call(&cx, "get", kwargs), wanted, "{kwargs}");
        }
        assert_eq!(call(&cx, "keys", r#"{"key": "a"}"#), "['b', 'l']");
        assert_eq!(
            call(&cx, "keys", r#"{"key": "s"}"#),
            "Pillar value in key s is not a dict"
        );
        assert_eq!(call(&cx, "ls", "{}"), "['a', 's', 'e']");
        let strict = exec_with(json(r#"{"pillar_raise_on_missing": true}"#), Map::new());
        assert_eq!(
            call(&strict, "get", r#"{"key": "x"}"#),
            "Pillar key not found: x"
        );
    }

    #[test]
    fn the_command_line_gets_values_covered_once() {
        let cx = cx();
        let from_outside = |function: &str, kwargs: &str| {
            cx.context(|context| context.insert(MASK, true));
            call(&cx, function, kwargs)
        };
        assert_eq!(
            from_outside("get", r#"{"key": "a"}"#),
            "{'b': '**********', 'l': [{'x': '**********'}, '**********']}"
        );
        assert_eq!(call(&cx, "get", r#"{"key": "s"}"#), "'secret'");
        assert_eq!(
            from_outside("get", r#"{"key": "s", "unmask": true}"#),
            "'secret'"
        );
        assert_eq!(from_outside("raw", r#"{"key": "s"}"#), "'secret'");
        assert_eq!(
            call(&cx, "obfuscate", "{}"),
            "{'a': {'b': '<int>', 'l': [{'x': '<str>'}, '<int>']}, 's': '<str>', 'e': '<str>'}"
        );
    }
}
