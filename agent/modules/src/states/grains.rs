//! The `grains` state module.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::grains::{Setting, append_value, remove_value, set_values, value};

state::state_module! {
    /// Manage grains in the grains file of this machine.
    #[facts(effects = Effects::Files(&[]))]
    mod grains;

    /// Make sure that a grain exists.
    ///
    ///     roles:
    ///       grains.exists
    fn exists(Exists {
        /// The name of the grain, with levels joined by colons.
        name: String,
        /// The separator between the levels in `name`.
        delimiter: String = ":".into(),
    });

    /// Make sure that a grain has a value.
    ///
    ///     datacenter:
    ///       grains.present:
    ///         - value: berlin
    fn present(Present {
        /// The name of the grain, with levels joined by `delimiter`.
        name: String,
        /// The value of the grain.
        value: Value,
        /// The separator between the levels in `name`.
        delimiter: String = ":".into(),
        /// True to allow that a list or dictionary is replaced.
        force: bool = false,
    });

    /// Make sure that a grain is a list that contains some values.
    ///
    ///     roles:
    ///       grains.list_present:
    ///         - value: [web, proxy]
    fn list_present(ListPresent {
        /// The name of the grain, with levels joined by `delimiter`.
        name: String,
        /// One value, or a list of values.
        value: Value,
        /// The separator between the levels in `name`.
        delimiter: String = ":".into(),
    });

    /// Make sure that a list in a grain does not contain some values.
    ///
    ///     roles:
    ///       grains.list_absent:
    ///         - value: proxy
    fn list_absent(ListAbsent {
        /// The name of the grain, with levels joined by `delimiter`.
        name: String,
        /// One value, or a list of values.
        value: Value,
        /// The separator between the levels in `name`.
        delimiter: String = ":".into(),
    });

    /// Make sure that a grain is None or does not exist.
    ///
    ///     datacenter:
    ///       grains.absent:
    ///         - destructive: True
    fn absent(Absent {
        /// The name of the grain, with levels joined by `delimiter`.
        name: String,
        /// True to remove the grain instead of setting it to None.
        destructive: bool = false,
        /// The separator between the levels in `name`.
        delimiter: String = ":".into(),
        /// True to allow that a list or dictionary is removed.
        force: bool = false,
    });

    /// Add a value to a list in a grain.
    ///
    ///     roles:
    ///       grains.append:
    ///         - value: web
    ///         - convert: True
    fn append(Append {
        /// The name of the grain, with levels joined by `delimiter`.
        name: String,
        /// The value to add.
        value: Value,
        /// True to convert a grain that is not a list into one.
        convert: bool = false,
        /// The separator between the levels in `name`.
        delimiter: String = ":".into(),
    });
}

/// Returns the name of a grain with its levels joined by colons. The return shows it in this form.
fn named(name: &str, delimiter: &str) -> String {
    if delimiter.is_empty() {
        name.to_owned()
    } else {
        name.replace(delimiter, ":")
    }
}

fn with_name(ret: Ret, name: String) -> Ret {
    Ret {
        name: Some(name),
        ..ret
    }
}

fn exists(cx: &Exec, args: Exists) -> Result<Ret, Error> {
    let name = named(&args.name, &args.delimiter);
    let ret = match value(cx, &name, ":") {
        Some(_) => Ret::ok("Grain exists"),
        None => Ret::failed("Grain does not exist"),
    };
    Ok(with_name(ret, name))
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let name = named(&args.name, &args.delimiter);
    let existing = value(cx, &name, ":");
    if existing.as_ref() == Some(&args.value) {
        return Ok(with_name(Ret::ok("Grain is already set"), name));
    }
    let would = if existing.is_none() {
        Ret::would(format!("Grain {name} is set to be added")).change("new", name.as_str())
    } else {
        let change = Map::new().with(&name, args.value.clone());
        Ret::would(format!("Grain {name} is set to be changed")).change("changed", change)
    };
    let ret = cx.apply(would, || {
        let shown = args.value.to_text();
        let set = setting(args.force, false).apply(cx, &name, args.value)?;
        let mut ret = answered(&set);
        if ret.result == Some(true) && ret.changes.is_true() {
            ret.comment = format!("Set grain {name} to {shown}");
        }
        Ok(ret)
    })?;
    Ok(with_name(ret, name))
}

fn setting(force: bool, destructive: bool) -> Setting<'static> {
    Setting {
        force,
        destructive,
        delimiter: ":",
    }
}

/// Returns the result of `grains.set` as a state's return.
fn answered(set: &Map) -> Ret {
    Ret {
        result: set.get("result").and_then(Value::as_bool),
        changes: set.get("changes").cloned().unwrap_or_default(),
        comment: set.get("comment").map(Value::to_text).unwrap_or_default(),
        ..Ret::default()
    }
}

fn list_present(cx: &Exec, args: ListPresent) -> Result<Ret, Error> {
    let name = named(&args.name, &args.delimiter);
    let ret = list_with(cx, &name, args.value)?;
    Ok(with_name(ret, name))
}

fn list_with(cx: &Exec, name: &str, mut wanted: Value) -> Result<Ret, Error> {
    let grain = value(cx, name, ":").filter(Value::is_true);
    let mut before = String::new();
    if let Some(grain) = &grain {
        let Some(has) = grain.as_list() else {
            return Ok(Ret::failed(format!("Grain {name} is not a valid list")));
        };
        let shown = wanted.to_text();
        let already = || {
            Ret::ok(format!(
                "Value {shown} is already in grain {name} (or pending)"
            ))
        };
        match &wanted {
            Value::List(items) => {
                let (there, missing): (Vec<Value>, Vec<Value>) =
                    items.iter().cloned().partition(|item| has.contains(item));
                if missing.is_empty() {
                    return Ok(already());
                }
                if !there.is_empty() {
                    let there = Value::from(there).to_text();
                    before = format!(
                        "Removed value {there} from update due to value found in \"{name}\" (or pending).\n"
                    );
                }
                wanted = missing.into();
            }
            one if has.contains(one) => return Ok(already()),
            _ => {}
        }
    }
    let shown = wanted.to_text();
    let would = match &grain {
        Some(grain) => Ret::would(format!(
            "Value {shown} is set to be appended to grain {name}"
        ))
        .change("new", grain.clone()),
        None => Ret::would(format!("Grain {name} is set to be added"))
            .change("new", value(cx, name, ":").unwrap_or_else(|| "".into())),
    };
    cx.apply(would, || {
        let new = append_value(cx, name, wanted.clone(), false, ":")?;
        let has = value(cx, name, ":").unwrap_or_default();
        let has = has.as_list().unwrap_or_default();
        let there = match &wanted {
            Value::List(items) => items.iter().all(|item| has.contains(item)),
            one => has.contains(one),
        };
        Ok(if there {
            Ret::ok(format!("{before}Append value {shown} to grain {name}")).change("new", new)
        } else {
            Ret::failed(format!("Failed append value {shown} to grain {name}"))
        })
    })
}

fn list_absent(cx: &Exec, args: ListAbsent) -> Result<Ret, Error> {
    let name = named(&args.name, &args.delimiter);
    let ret = list_without(cx, &name, args.value)?;
    Ok(with_name(ret, name))
}

fn list_without(cx: &Exec, name: &str, unwanted: Value) -> Result<Ret, Error> {
    let Some(grain) = value(cx, name, ":").filter(Value::is_true) else {
        return Ok(Ret::ok(format!("Grain {name} does not exist")));
    };
    let Some(has) = grain.as_list() else {
        return Ok(Ret::failed(format!("Grain {name} is not a valid list")));
    };
    let unwanted = match unwanted {
        Value::List(items) => items.to_vec(),
        one => vec![one],
    };
    let going: Vec<Value> = unwanted
        .iter()
        .filter(|item| has.contains(item))
        .cloned()
        .collect();
    let told = |how: &str| {
        let sentence = |item: &Value| {
            let text = item.to_text();
            if going.contains(item) {
                format!("Value {text} {how}")
            } else {
                format!("Value {text} is absent from grain {name}")
            }
        };
        unwanted.iter().map(sentence).collect::<Vec<_>>().join("\n")
    };
    if going.is_empty() {
        return Ok(Ret::ok(told("")));
    }
    let would = Ret::would(told(&format!("in grain {name} is set to be deleted")));
    cx.apply(would.change("deleted", going.clone()), || {
        for item in &going {
            remove_value(cx, name, item, ":")?;
        }
        let comment = told(&format!("was deleted from grain {name}"));
        Ok(Ret::ok(comment).change("deleted", going.clone()))
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let name = named(&args.name, &args.delimiter);
    let Some(grain) = value(cx, &name, ":") else {
        let ret = Ret::ok(format!("Grain {name} does not exist"));
        return Ok(with_name(ret, name));
    };
    let would = if args.destructive {
        Ret::would(format!("Grain {name} is set to be deleted")).change("deleted", name.as_str())
    } else if grain.is_null() {
        Ret::would("")
    } else {
        let comment = format!("Value for grain {name} is set to be deleted (None)");
        Ret::would(comment)
            .change("grain", name.as_str())
            .change("value", Value::Null)
    };
    let ret = cx.apply(would, || {
        let set = setting(args.force, args.destructive).apply(cx, &name, Value::Null)?;
        let ret = answered(&set);
        if ret.result != Some(true) {
            return Ok(ret);
        }
        Ok(if args.destructive {
            Ret::ok(format!("Grain {name} was deleted")).change("deleted", name.as_str())
        } else if grain.is_null() {
            ret
        } else {
            Ret::ok(format!("Value for grain {name} was set to None"))
                .change("grain", name.as_str())
                .change("value", Value::Null)
        })
    })?;
    Ok(with_name(ret, name))
}

fn append(cx: &Exec, args: Append) -> Result<Ret, Error> {
    let name = named(&args.name, &args.delimiter);
    let ret = appended(cx, &name, args.value, args.convert)?;
    Ok(with_name(ret, name))
}

fn appended(cx: &Exec, name: &str, new: Value, convert: bool) -> Result<Ret, Error> {
    let shown = new.to_text();
    let added =
        || Ret::ok(format!("Value {shown} was added to grain {name}")).change("added", new.clone());
    match value(cx, name, ":") {
        None => Ok(Ret::failed(format!("Grain {name} does not exist"))),
        Some(Value::List(items)) if items.contains(&new) => {
            let comment = format!("Value {shown} is already in the list for grain {name}");
            Ok(Ret::ok(comment))
        }
        Some(Value::List(_)) => {
            let would = Ret::would(format!("Value {shown} in grain {name} is set to be added"));
            cx.apply(would.change("added", new.clone()), || {
                append_value(cx, name, new.clone(), false, ":")?;
                Ok(added())
            })
        }
        Some(one) if convert => {
            let would = Ret::would(format!(
                "Grain {name} is set to be converted to list and value {shown} will be added"
            ));
            cx.apply(would.change("added", new.clone()), || {
                let list = if one.is_null() {
                    vec![new.clone()]
                } else {
                    vec![one, new.clone()]
                };
                set_values(cx, &Map::new().with(name, list), false)?;
                Ok(added())
            })
        }
        Some(_) => Ok(Ret::failed(format!("Grain {name} is not a valid list"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{apply, exec_with, json};

    /// One call and Salt's return for it: test mode, a function and its arguments; then the result,
    /// comment and changes.
    type Step = (
        bool,
        &'static str,
        &'static str,
        Option<bool>,
        &'static str,
        &'static str,
    );

    const STEPS: &[Step] = &[
        (
            true,
            "present",
            r#"{"name": "a", "value": 1}"#,
            None,
            "Grain a is set to be added",
            "{'new': 'a'}",
        ),
        (
            false,
            "present",
            r#"{"name": "a", "value": 1}"#,
            Some(true),
            "Set grain a to 1",
            "{'a': 1}",
        ),
        (
            false,
            "present",
            r#"{"name": "a", "value": 1}"#,
            Some(true),
            "Grain is already set",
            "{}",
        ),
        (
            true,
            "present",
            r#"{"name": "a", "value": 2}"#,
            None,
            "Grain a is set to be changed",
            "{'changed': {'a': 2}}",
        ),
        (
            false,
            "exists",
            r#"{"name": "a"}"#,
            Some(true),
            "Grain exists",
            "{}",
        ),
        (
            false,
            "append",
            r#"{"name": "a", "value": 2}"#,
            Some(false),
            "Grain a is not a valid list",
            "{}",
        ),
        (
            false,
            "append",
            r#"{"name": "a", "value": 2, "convert": true}"#,
            Some(true),
            "Value 2 was added to grain a",
            "{'added': 2}",
        ),
        (
            false,
            "list_present",
            r#"{"name": "l", "value": ["x", "y"]}"#,
            Some(true),
            "Append value ['x', 'y'] to grain l",
            "{'new': {'l': ['x', 'y']}}",
        ),
        (
            false,
            "list_present",
            r#"{"name": "l", "value": ["x", "z"]}"#,
            Some(true),
            "Removed value ['x'] from update due to value found in \"l\" (or pending).\nAppend value ['z'] to grain l",
            "{'new': {'l': ['x', 'y', 'z']}}",
        ),
        (
            false,
            "list_present",
            r#"{"name": "l", "value": "x"}"#,
            Some(true),
            "Value x is already in grain l (or pending)",
            "{}",
        ),
        (
            true,
            "list_absent",
            r#"{"name": "l", "value": ["x", "q"]}"#,
            None,
            "Value x in grain l is set to be deleted\nValue q is absent from grain l",
            "{'deleted': ['x']}",
        ),
        (
            false,
            "list_absent",
            r#"{"name": "l", "value": "x"}"#,
            Some(true),
            "Value x was deleted from grain l",
            "{'deleted': ['x']}",
        ),
        (
            false,
            "absent",
            r#"{"name": "l", "destructive": true, "force": true}"#,
            Some(true),
            "Grain l was deleted",
            "{'deleted': 'l'}",
        ),
        (
            false,
            "absent",
            r#"{"name": "l"}"#,
            Some(true),
            "Grain l does not exist",
            "{}",
        ),
    ];

    #[test]
    fn grains_come_and_go_with_salts_words() {
        let folder = tempfile::tempdir().unwrap();
        let conf = folder.path().join("minion").display().to_string();
        let mut cx = exec_with(Map::new().with("conf_file", conf), Map::new());
        for &(test, function, kwargs, result, comment, changes) in STEPS {
            cx.test = test;
            let ret = apply(&cx, &format!("grains.{function}"), json(kwargs)).unwrap();
            let got = (
                ret.result,
                ret.comment.as_str(),
                value::python::repr(&ret.changes),
            );
            assert_eq!(
                got,
                (result, comment, changes.to_owned()),
                "{function} {kwargs}"
            );
        }
        let written = std::fs::read_to_string(folder.path().join("grains")).unwrap();
        assert_eq!(written, "a:\n- 1\n- 2\n");
    }
}
