//! The `pillar` execution module.

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log, merge, secret};

use crate::exec::filter_by::{self, Around};

state::exec_module! {
    /// The pillar of this minion.
    ///
    /// When these functions are called by name on a command line, they mask the values unless
    /// `unmask=True` is given. Templates receive the real values.
    #[facts(pure = true)]
    mod pillar;

    /// Return a value of the pillar. Colons separate the levels of the key, and numbers are indexes
    /// of lists.
    ///
    ///     salt-call pillar.get shop:port default=8080
    fn get(Get {
        /// The key of the value, such as `a:b:0`.
        key: String,
        /// The value to return if the key does not exist.
        default: Value = UNSET.into(),
        /// True to merge a dictionary or a list of the pillar into the default.
        merge: bool = false,
        /// True to join nested lists while merging; the option `pillar_merge_lists` by default.
        merge_nested_lists: Option<bool> = None,
        /// The separator of the levels.
        delimiter: String = ":".into(),
        /// The environment of the pillar.
        pillarenv: Option<String> = None,
        /// The environment of the minion that the pillar is compiled for.
        saltenv: Option<String> = None,
        /// True to return the real values, False to mask them. By default only calls by name, from a
        /// command line or in a job, mask them.
        unmask: Option<bool> = None,
    });

    /// The same as `pillar.get`.
    ///
    ///     salt-call pillar.fetch shop:port
    fn fetch(Fetch {
        /// The key of the value, such as `a:b:0`.
        key: String,
        /// The value to return if the key does not exist.
        default: Value = UNSET.into(),
        /// True to merge a dictionary or a list of the pillar into the default.
        merge: bool = false,
        /// True to join nested lists while merging; the option `pillar_merge_lists` by default.
        merge_nested_lists: Option<bool> = None,
        /// The separator of the levels.
        delimiter: String = ":".into(),
        /// The environment of the pillar.
        pillarenv: Option<String> = None,
        /// The environment of the minion that the pillar is compiled for.
        saltenv: Option<String> = None,
        /// True to return the real values, False to mask them. By default only calls by name, from a
        /// command line or in a job, mask them.
        unmask: Option<bool> = None,
    });

    /// Compile the pillar and return all of it, or some keys.
    ///
    ///     salt-call pillar.items
    fn items(Items {
        *rest,
        ..kwargs
    });

    /// The same as `pillar.items`.
    ///
    ///     salt-call pillar.data
    fn data(Data {
        *rest,
        ..kwargs
    });

    /// Compile the pillar and return it with each value replaced by the name of its type.
    ///
    ///     salt-call pillar.obfuscate
    fn obfuscate(Obfuscate {
        *rest,
        ..kwargs
    });

    /// Compile the pillar and return its keys.
    ///
    ///     salt-call pillar.ls
    fn ls(Ls {
        *rest,
        ..kwargs
    });

    /// Return the values of some keys of the pillar.
    ///
    ///     salt-call pillar.item shop
    fn item(Item {
        *rest,
        ..kwargs
    });

    /// Return the pillar as it was compiled for this run, or the value of one of its keys.
    ///
    ///     salt-call pillar.raw
    fn raw(Raw {
        /// The key; the whole pillar if not given.
        key: Option<String> = None,
        /// True to return the real values, False to mask them. By default only calls by name, from a
        /// command line or in a job, mask them.
        unmask: Option<bool> = None,
    });

    /// Return the keys of a dictionary in the pillar.
    ///
    ///     salt-call pillar.keys shop
    fn keys(Keys {
        /// The key of the dictionary, such as `a:b`.
        key: String,
        /// The separator of the levels.
        delimiter: String = ":".into(),
        /// Accepted and ignored: keys are never masked.
        unmask: Option<bool> = None,
    });

    /// Return True when a file exists in the pillar roots.
    ///
    ///     salt-call pillar.file_exists shop.sls
    fn file_exists(FileExists {
        /// The path of the file relative to a pillar root.
        path: String,
        /// The environment to look in; all environments if not given.
        saltenv: Option<String> = None,
    });

    /// Return the entry of a dictionary that is selected by a value of the pillar.
    ///
    ///     salt-call pillar.filter_by '{web: {port: 80}, db: {port: 5432}}' role
    fn filter_by(FilterBy {
        /// The dictionary to select from; its keys are globs.
        lookup_dict: Map,
        /// The key of the pillar whose value is matched.
        pillar: String,
        /// A dictionary that is merged over the selected entry.
        merge: Value = Value::Null,
        /// The key of the entry to use if no other matches.
        default: Value = "default".into(),
        /// The key of an entry that the selected entry is merged over.
        base: Value = Value::Null,
    });
}

/// The value by which Salt marks that no default was given.
const UNSET: &str = "__unset__";

/// The key of `__context__` with which a command line or a job requests that the next function of
/// this module masks its values.
pub(crate) const MASK: &str = "mask_pillar";

/// The extent to which a function shows values.
#[derive(Clone, Copy)]
struct Masking {
    /// True if all values are masked.
    mask: bool,
    /// True if the function was called by name. Secrets are then masked even if `unmask=True` shows
    /// the other values.
    outside: bool,
}

impl Masking {
    /// Returns the value at `key` in the form in which it may be shown.
    fn value(self, key: &str, delimiter: &str, value: Value) -> Value {
        let path: Vec<&str> = key.split(delimiter).collect();
        match self {
            Self { mask: true, .. } => cover(value),
            Self { outside: true, .. } if !delimiter.is_empty() => secret::at(&path, &value),
            _ => value,
        }
    }
}

/// Returns how values are shown. Removes the request to mask from the context, so that templates of
/// this pillar receive the real values.
fn masked(cx: &Exec, unmask: Option<bool>) -> Masking {
    let wished = cx.context(|context| context.remove(MASK));
    Masking {
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

/// Returns the value merged into the default. Logs an error and returns `None` if their types
/// differ.
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

/// Returns the pillar of this run, or compiles it for the given environments.
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

/// Returns the pillar as `pillar.items` does with these arguments, and whether its values must be
/// masked.
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
    let secrets = Masking {
        mask: false,
        ..shown
    };
    Ok((some(pillar, keys, &"".into(), ":", secrets), shown.mask))
}

fn some(pillar: Map, keys: &[Value], default: &Value, delimiter: &str, shown: Masking) -> Map {
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

/// Returns the pillar with its values masked. The errors of its compilation stay readable: they
/// hold no values, and a user could not fix an error that is masked.
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
    filter_by::filter_by(&args.lookup_dict, &args.pillar, cx.pillar()?, &around)
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
