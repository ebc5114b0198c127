//! The `grains` execution module.

use std::path::PathBuf;

use machine::fs::{self, Owner};
use render::yaml::{self, Dump};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use crate::exec::filter_by::{self, Around};

state::exec_module! {
    /// Read and set grains: facts about this machine, and the values in the grains file.
    #[facts(pure = true)]
    mod grains;

    /// Return the value of a grain. Colons separate the levels of nested grains, and numbers index
    /// lists.
    ///
    ///     salt-call grains.get os
    fn get(Get {
        /// The name of the grain, such as `a:b:0`.
        key: String,
        /// The value to return if the grain does not exist.
        default: Value = "".into(),
        /// The text that separates the levels in `key`.
        delimiter: String = ":".into(),
        /// Accepted for compatibility: the order is always kept.
        ordered: bool = true,
    });

    /// Return the value of a grain. Same as `grains.get`.
    ///
    ///     salt-call grains.fetch os
    fn fetch(Fetch {
        /// The name of the grain, such as `a:b:0`.
        key: String,
        /// The value to return if the grain does not exist.
        default: Value = "".into(),
        /// The text that separates the levels in `key`.
        delimiter: String = ":".into(),
        /// Accepted for compatibility: the order is always kept.
        ordered: bool = true,
    });

    /// Return True if a grain exists.
    ///
    ///     salt-call grains.has_value roles
    fn has_value(HasValue {
        /// The name of the grain.
        key: String,
    });

    /// Return all grains.
    ///
    ///     salt-call grains.items
    #[facts(outputter = "nested")]
    fn items(Items {
        /// Whether to mask the values that identify the machine.
        sanitize: bool = false,
    });

    /// Return the named grains.
    ///
    ///     salt-call grains.item os osrelease
    #[facts(outputter = "nested")]
    fn item(Item {
        *rest,
        ..kwargs
    });

    /// Return the names of all grains.
    ///
    ///     salt-call grains.ls
    fn ls(Ls {});

    /// Return True if a grain has a value. Both are compared as text.
    ///
    ///     salt-call grains.equals os Debian
    fn equals(Equals {
        /// The name of the grain.
        key: String,
        /// The value.
        value: Value,
    });

    /// Select an entry of a dictionary by the value of a grain.
    ///
    ///     salt-call grains.filter_by '{Debian: {pkg: apache2}, RedHat: {pkg: httpd}}'
    fn filter_by(FilterBy {
        /// The dictionary. Its keys are globs.
        lookup_dict: Map,
        /// The name of the grain.
        grain: String = "os_family".into(),
        /// A dictionary that is merged over the selected entry.
        merge: Value = Value::Null,
        /// The key of the entry to use if no other one matches.
        default: Value = "default".into(),
        /// The key of an entry that the selected entry is merged over.
        base: Value = Value::Null,
    });

    /// Set grains in the grains file.
    ///
    ///     salt-call grains.setvals '{datacenter: berlin}'
    #[facts(pure = false)]
    fn setvals(Setvals {
        /// The grains to set: a dictionary of names and values.
        grains: Value,
        /// Whether None removes a grain.
        destructive: bool = false,
        /// Accepted for compatibility: the next run compiles the pillar in any case.
        refresh_pillar: bool = true,
    });

    /// Set one grain in the grains file.
    ///
    ///     salt-call grains.setval datacenter berlin
    #[facts(pure = false, outputter = "nested")]
    fn setval(Setval {
        /// The name of the grain.
        key: Value,
        /// The value to set.
        val: Value,
        /// Whether None removes the grain.
        destructive: bool = false,
        /// Accepted for compatibility: the next run compiles the pillar in any case.
        refresh_pillar: bool = true,
    });

    /// Add a value, or the values of a list, to a grain that is a list.
    ///
    ///     salt-call grains.append roles web convert=True
    #[facts(pure = false)]
    fn append(Append {
        /// The name of the grain.
        key: String,
        /// The value to add, or a list of values.
        val: Value,
        /// Whether to convert a grain that is not a list to a list.
        convert: bool = false,
        /// The text that separates the levels in `key`.
        delimiter: String = ":".into(),
    });

    /// Remove a value from a grain that is a list.
    ///
    ///     salt-call grains.remove roles web
    #[facts(pure = false)]
    fn remove(Remove {
        /// The name of the grain.
        key: String,
        /// The value to remove.
        val: Value,
        /// The text that separates the levels in `key`.
        delimiter: String = ":".into(),
    });

    /// Set a grain to None, or remove it.
    ///
    ///     salt-call grains.delval datacenter
    #[facts(pure = false)]
    fn delval(Delval {
        /// The name of the grain.
        key: String,
        /// Whether to remove the grain instead of setting it to None.
        destructive: bool = false,
        /// Whether a list or a dictionary may be removed.
        force: bool = false,
    });

    /// Remove a grain.
    ///
    ///     salt-call grains.delkey datacenter
    #[facts(pure = false)]
    fn delkey(Delkey {
        /// The name of the grain.
        key: String,
        /// Whether a list or a dictionary may be removed.
        force: bool = false,
    });

    /// Set a grain at any depth, and return the changes.
    ///
    ///     salt-call grains.set app:port 8080
    #[facts(pure = false)]
    fn set(Set {
        /// The name of the grain.
        key: String,
        /// The value to set.
        val: Value = "".into(),
        /// Whether a list or a dictionary may be replaced.
        force: bool = false,
        /// Whether None removes the grain.
        destructive: bool = false,
        /// The text that separates the levels in `key`.
        delimiter: String = ":".into(),
    });
}

/// Returns the value of a grain at any depth.
pub(crate) fn value(cx: &Exec, key: &str, delimiter: &str) -> Option<Value> {
    Value::from(cx.grains()).traverse(key, delimiter).cloned()
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    Ok(value(cx, &args.key, &args.delimiter).unwrap_or(args.default))
}

fn fetch(cx: &Exec, args: Fetch) -> Result<Value, Error> {
    Ok(value(cx, &args.key, &args.delimiter).unwrap_or(args.default))
}

fn has_value(cx: &Exec, args: HasValue) -> Result<Value, Error> {
    Ok(value(cx, &args.key, ":").is_some().into())
}

fn items(cx: &Exec, args: Items) -> Result<Value, Error> {
    let grains = cx.grains();
    Ok(if args.sanitize {
        sanitized(grains)
    } else {
        grains
    }
    .into())
}

fn item(cx: &Exec, args: Item) -> Result<Value, Error> {
    let given = |name| args.kwargs.get(name).cloned();
    let default = given("default").unwrap_or_else(|| "".into());
    let delimiter = given("delimiter").map_or_else(|| ":".into(), |given| given.to_text());
    let found =
        |key: &Value| value(cx, &key.to_text(), &delimiter).unwrap_or_else(|| default.clone());
    let grains: Map = args
        .rest
        .iter()
        .map(|key| (key.clone(), found(key)))
        .collect();
    let covered = given("sanitize").is_some_and(|sanitize| sanitize.is_true());
    Ok(if covered { sanitized(grains) } else { grains }.into())
}

/// Masks the values that identify the machine.
fn sanitized(mut grains: Map) -> Map {
    for (key, value) in grains.iter_mut() {
        let cover = match key.as_str().unwrap_or_default() {
            "serialnumber" => serial(&value.to_text()),
            "domain" => "DOMAINNAME".into(),
            "fqdn" | "id" => "MINION.DOMAINNAME".into(),
            "host" | "localhost" | "nodename" => "MINION".into(),
            _ => continue,
        };
        *value = cover.into();
    }
    grains
}

fn serial(text: &str) -> String {
    let count = text.chars().count();
    let kept = count * 3 / 4;
    let kept: String = text.chars().take(kept).collect();
    format!("{kept:X<count$}")
}

fn ls(cx: &Exec, _args: Ls) -> Result<Value, Error> {
    let mut names: Vec<Value> = cx.grains().keys().cloned().collect();
    value::sorted::sort(&mut names);
    Ok(names.into())
}

fn equals(cx: &Exec, args: Equals) -> Result<Value, Error> {
    let has = value(cx, &args.key, ":").map_or_else(String::new, |has| has.to_text());
    Ok((has == args.value.to_text()).into())
}

fn filter_by(cx: &Exec, args: FilterBy) -> Result<Value, Error> {
    let around = Around {
        merge: args.merge,
        default: args.default,
        base: args.base,
    };
    filter_by::filter_by(&args.lookup_dict, &args.grain, cx.grains(), &around)
}

/// Returns the path of the grains file, which is next to the configuration file.
fn file(cx: &Exec) -> PathBuf {
    let conf = cx.opts().text("conf_file").unwrap_or("/etc/salt/minion");
    let conf = PathBuf::from(conf);
    if conf.is_dir() {
        conf.join("grains")
    } else {
        conf.with_file_name("grains")
    }
}

/// Sets grains in the grains file. Returns these grains, or a message if the file cannot be read.
pub(crate) fn set_values(cx: &Exec, new: &Map, destructive: bool) -> Result<Value, Error> {
    let path = file(cx);
    let old = match fs::text_or_none(&path)? {
        Some(text) => yaml::load(&text),
        None => Ok(Value::Null),
    };
    let mut grains = match old {
        Ok(Value::Map(grains)) => grains,
        Ok(_) => Map::new(),
        Err(error) => return Ok(format!("Unable to read existing grains file: {error}").into()),
    };
    for (key, value) in new {
        if value.is_null() && destructive {
            grains.remove_value(key);
        } else {
            grains.insert(key.clone(), value.clone());
        }
    }
    let layout = Dump {
        default_flow_style: Some(false),
        ..Dump::default()
    };
    let text = yaml::dump(&grains.into(), &layout).map_err(|e| Error::refused(e.to_string()))?;
    if let Err(error) = fs::write(cx, &path, text.as_bytes(), Owner::default()) {
        log::error(format_args!(
            "Unable to write to grains file at {}. Check permissions.",
            path.display()
        ));
        return Err(error);
    }
    cx.refresh_grains();
    Ok(new.clone().into())
}

fn setvals(cx: &Exec, args: Setvals) -> Result<Value, Error> {
    match &args.grains {
        Value::Map(grains) => set_values(cx, grains, args.destructive),
        _ => Err("setvals grains must be a dictionary.".into()),
    }
}

fn setval(cx: &Exec, args: Setval) -> Result<Value, Error> {
    let one: Map = [(args.key, args.val)].into_iter().collect();
    set_values(cx, &one, args.destructive)
}

/// Sets one grain in the grains file.
pub(crate) fn set_value(
    cx: &Exec,
    key: &str,
    value: Value,
    destructive: bool,
) -> Result<Value, Error> {
    set_values(cx, &Map::new().with(key, value), destructive)
}

fn append(cx: &Exec, args: Append) -> Result<Value, Error> {
    append_value(cx, &args.key, args.val, args.convert, &args.delimiter)
}

/// Runs `grains.append`.
pub(crate) fn append_value(
    cx: &Exec,
    key: &str,
    val: Value,
    convert: bool,
    delimiter: &str,
) -> Result<Value, Error> {
    let mut list = match value(cx, key, delimiter) {
        None => Vec::new(),
        Some(Value::List(items)) => items.to_vec(),
        Some(Value::Null) if convert => Vec::new(),
        Some(one) if convert => vec![one],
        Some(_) => return Ok(format!("The key {key} is not a valid list").into()),
    };
    if list.contains(&val) {
        let val = val.to_text();
        return Ok(format!("The val {val} was already in the list {key}").into());
    }
    match val {
        Value::List(items) => list.extend(items.iter().cloned()),
        one => list.push(one),
    }
    set_below(cx, key, list.into(), delimiter)
}

fn remove(cx: &Exec, args: Remove) -> Result<Value, Error> {
    remove_value(cx, &args.key, &args.val, &args.delimiter)
}

/// Runs `grains.remove`.
pub(crate) fn remove_value(
    cx: &Exec,
    key: &str,
    val: &Value,
    delimiter: &str,
) -> Result<Value, Error> {
    let mut list = match value(cx, key, delimiter) {
        None => Vec::new(),
        Some(Value::List(items)) => items.to_vec(),
        Some(_) => return Ok(format!("The key {key} is not a valid list").into()),
    };
    let Some(place) = list.iter().position(|item| item == val) else {
        let val = val.to_text();
        return Ok(format!("The val {val} was not in the list {key}").into());
    };
    list.remove(place);
    set_below(cx, key, list.into(), delimiter)
}

/// Sets a value at any depth, and keeps the dictionaries around it.
fn set_below(cx: &Exec, key: &str, mut new: Value, delimiter: &str) -> Result<Value, Error> {
    let mut key = key;
    while let Some((above, last)) = key.rsplit_once(delimiter) {
        let around = value(cx, above, delimiter).unwrap_or_else(|| Map::new().into());
        new = match around {
            Value::Map(map) => map.with(last, new).into(),
            other => other,
        };
        key = above;
    }
    set_value(cx, key, new, false)
}

fn delval(cx: &Exec, args: Delval) -> Result<Value, Error> {
    let set = Setting {
        force: args.force,
        destructive: args.destructive,
        delimiter: ":",
    };
    set.apply(cx, &args.key, Value::Null).map(Value::from)
}

fn delkey(cx: &Exec, args: Delkey) -> Result<Value, Error> {
    let set = Setting {
        force: args.force,
        destructive: true,
        delimiter: ":",
    };
    set.apply(cx, &args.key, Value::Null).map(Value::from)
}

fn set(cx: &Exec, args: Set) -> Result<Value, Error> {
    let set = Setting {
        force: args.force,
        destructive: args.destructive,
        delimiter: &args.delimiter,
    };
    set.apply(cx, &args.key, args.val).map(Value::from)
}

/// The options of `grains.set`.
pub(crate) struct Setting<'a> {
    /// True if a list or a dictionary may be replaced.
    pub(crate) force: bool,
    /// True if None removes the grain.
    pub(crate) destructive: bool,
    /// The text that separates the levels of a name.
    pub(crate) delimiter: &'a str,
}

impl Setting<'_> {
    /// Runs `grains.set`, and returns a dictionary with result, comment and changes.
    pub(crate) fn apply(&self, cx: &Exec, key: &str, val: Value) -> Result<Map, Error> {
        let existing = value(cx, key, self.delimiter);
        if existing.as_ref() == Some(&val) && !(val.is_null() && self.destructive) {
            return Ok(answer("Grain is already set", Map::new(), true));
        }
        if let Some(comment) = self.rejection(key, existing.as_ref(), &val) {
            return Ok(answer(comment, Map::new(), false));
        }
        let (mut key, mut new) = (key, val);
        while let Some((above, last)) = key.rsplit_once(self.delimiter) {
            let around = value(cx, above, self.delimiter);
            let around = around.unwrap_or_else(|| Map::new().into());
            new = match self.put(around, last, new) {
                Ok(new) => new,
                Err(around) => {
                    let around = around.to_text();
                    return Ok(answer(
                        format!(
                            "The key '{above}' value is '{around}', which is different from the provided key '{last}'. Use 'force=True' to overwrite."
                        ),
                        Map::new(),
                        false,
                    ));
                }
            };
            key = above;
        }
        Ok(match set_value(cx, key, new, self.destructive)? {
            Value::Map(changes) => answer("", changes, true),
            other => answer(other.to_text(), Map::new(), false),
        })
    }

    fn rejection(&self, key: &str, existing: Option<&Value>, val: &Value) -> Option<String> {
        let complex = |value: &Value| matches!(value, Value::Map(_) | Value::List(_));
        let existing = existing.filter(|existing| !existing.is_null() && !self.force)?;
        if complex(existing) {
            Some(format!(
                "The key '{key}' exists but is a dict or a list. Use 'force=True' to overwrite."
            ))
        } else if complex(val) {
            Some(format!(
                "The key '{key}' exists and the given value is a dict or a list. Use 'force=True' to overwrite."
            ))
        } else {
            None
        }
    }

    /// Puts a value under a key of its parent. Returns the parent as an error if it cannot hold a
    /// key.
    fn put(&self, around: Value, key: &str, new: Value) -> Result<Value, Value> {
        match around {
            Value::Map(mut map) => {
                if new.is_null() && self.destructive {
                    map.remove(key);
                } else {
                    map.insert(key, new);
                }
                Ok(map.into())
            }
            Value::List(items) => Ok(in_list(&items, key, &new)),
            other if other.as_str() == Some(key) || self.force => {
                Ok(Map::new().with(key, new).into())
            }
            other => Err(other),
        }
    }
}

/// Sets a key in a list, where it is an item on its own or the key of a dictionary.
fn in_list(items: &[Value], key: &str, new: &Value) -> Value {
    let mut found = false;
    let mut list: Vec<Value> = items
        .iter()
        .map(|item| match item {
            Value::Map(map) if map.contains(key) => {
                found = true;
                map.clone().with(key, new.clone()).into()
            }
            item if item.as_str() == Some(key) => {
                found = true;
                Map::new().with(key, new.clone()).into()
            }
            item => item.clone(),
        })
        .collect();
    if !found {
        list.push(Map::new().with(key, new.clone()).into());
    }
    list.into()
}

fn answer(comment: impl Into<Value>, changes: Map, result: bool) -> Map {
    Map::new()
        .with("comment", comment)
        .with("changes", changes)
        .with("result", result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{exec_with, json};

    fn calls(grains_file: &str, calls: &[(&str, &str, &str)]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grains");
        std::fs::write(&path, grains_file).unwrap();
        let conf = folder.path().join("minion").display().to_string();
        let cx = exec_with(Map::new().with("conf_file", conf), Map::new());
        for (function, kwargs, wanted) in calls {
            let got = cx
                .call(&format!("grains.{function}"), Vec::new(), json(kwargs))
                .unwrap();
            assert_eq!(value::python::repr(&got), *wanted, "{function} {kwargs}");
        }
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn the_file_is_written_as_salt_writes_it() {
        let written = calls(
            "",
            &[
                ("setval", r#"{"key": "a", "val": [1, 2]}"#, "{'a': [1, 2]}"),
                ("append", r#"{"key": "a", "val": 3}"#, "{'a': [1, 2, 3]}"),
                (
                    "append",
                    r#"{"key": "a", "val": 3}"#,
                    "'The val 3 was already in the list a'",
                ),
                (
                    "remove",
                    r#"{"key": "a", "val": 9}"#,
                    "'The val 9 was not in the list a'",
                ),
                (
                    "set",
                    r#"{"key": "x:y", "val": "z"}"#,
                    "{'comment': '', 'changes': {'x': {'y': 'z'}}, 'result': True}",
                ),
                (
                    "set",
                    r#"{"key": "x:y", "val": "z"}"#,
                    "{'comment': 'Grain is already set', 'changes': {}, 'result': True}",
                ),
                (
                    "set",
                    r#"{"key": "x", "val": "q"}"#,
                    "{'comment': \"The key 'x' exists but is a dict or a list. Use 'force=True' to overwrite.\", 'changes': {}, 'result': False}",
                ),
            ],
        );
        assert_eq!(written, "a:\n- 1\n- 2\n- 3\nx:\n  y: z\n");
    }

    #[test]
    fn grains_go_and_are_covered() {
        let written = calls(
            "a: 1\nb: {c: 2, d: 3}\n",
            &[
                (
                    "delkey",
                    r#"{"key": "a"}"#,
                    "{'comment': '', 'changes': {'a': None}, 'result': True}",
                ),
                (
                    "delkey",
                    r#"{"key": "b:c"}"#,
                    "{'comment': '', 'changes': {'b': {'d': 3}}, 'result': True}",
                ),
                (
                    "delval",
                    r#"{"key": "b:d"}"#,
                    "{'comment': '', 'changes': {'b': {'d': None}}, 'result': True}",
                ),
                ("has_value", r#"{"key": "b:d"}"#, "True"),
                ("get", r#"{"key": "b:nosuch", "default": 5}"#, "5"),
                ("equals", r#"{"key": "id", "value": "m1"}"#, "True"),
                (
                    "items",
                    r#"{"sanitize": true}"#,
                    "{'id': 'MINION.DOMAINNAME', 'b': {'d': None}}",
                ),
            ],
        );
        assert_eq!(written, "b:\n  d: null\n");
        assert_eq!(serial("12345678"), "123456XX");
    }
}
