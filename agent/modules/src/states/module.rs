//! The `module` state module: calls execution functions as states.

use state::custom::Signature;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Arguments, Error, Extra, Ret};
use value::{Map, Value, log};

state::state_module! {
    /// Call execution functions.
    #[facts(effects = Effects::Command, free_arguments = true)]
    mod module;

    /// Call one or more functions: `- test.ping:` with the arguments below it, or in the older
    /// style `- name: test.ping`. There, arguments of the function with the name `name`, `fun`,
    /// `names`, `state` or `saltenv` are given as `m_name` and so on; `args` is a list of further
    /// positional arguments, `kwargs` a dictionary of further named ones.
    ///
    ///     reload the units:
    ///       module.run:
    ///         - service.systemctl_reload: []
    fn run(Run {
        ..kwargs
    });

    /// Call functions only when a watched state changes something.
    ///
    ///     reload the units:
    ///       module.wait:
    ///         - service.systemctl_reload: []
    ///         - watch:
    ///           - file: /etc/app.conf
    fn wait(Wait {
        /// The function, as in `module.run`.
        name: String,
        ..kwargs
    });

    /// The same as `module.wait`.
    ///
    ///     reload the units:
    ///       module.watch:
    ///         - service.systemctl_reload: []
    ///         - watch:
    ///           - file: /etc/app.conf
    fn watch(Watch {
        /// The function, as in `module.run`.
        name: String,
        ..kwargs
    });

    /// Call the functions because a watched state changed something.
    ///
    ///     reload the units:
    ///       module.wait:
    ///         - service.systemctl_reload: []
    ///         - watch:
    ///           - file: /etc/app.conf
    fn mod_watch(ModWatch {
        ..kwargs
    });
}

fn wait(_cx: &Exec, _args: Wait) -> Result<Ret, Error> {
    Ok(Ret::ok(""))
}

fn watch(_cx: &Exec, _args: Watch) -> Result<Ret, Error> {
    Ok(Ret::ok(""))
}

fn mod_watch(cx: &Exec, args: ModWatch) -> Result<Ret, Error> {
    called(cx, args.kwargs)
}

fn run(cx: &Exec, args: Run) -> Result<Ret, Error> {
    called(cx, args.kwargs)
}

fn called(cx: &Exec, mut kwargs: Map) -> Result<Ret, Error> {
    let name = kwargs.remove("name").map(|name| name.to_text());
    let name = name.unwrap_or_default();
    let names: Vec<Value> = kwargs.keys().cloned().collect();
    kwargs.remove("sfun");
    kwargs.remove("__reqs__");
    if let Some(returner) = kwargs.get("returner").filter(|value| value.is_true()) {
        log::warning(format_args!(
            "module.run: ignoring the returner '{}': the return goes to the returner of the state run",
            returner.to_text()
        ));
    }
    let dotted = |key: &Value| key.to_text().contains('.');
    if kwargs.is_empty() || !kwargs.keys().all(dotted) {
        older(cx, &name, kwargs)
    } else {
        Ok(newer(cx, &kwargs)?.with("name", names))
    }
}

/// Runs the newer style, `module.run: - test.ping: …`, which can call several functions.
fn newer(cx: &Exec, calls: &Map) -> Result<Ret, Error> {
    let names: Vec<String> = calls.keys().map(Value::to_text).collect();
    let (available, missing): (Vec<&str>, Vec<&str>) = names
        .iter()
        .map(|name| bare(name))
        .partition(|name| cx.has_function(name));
    let tests = if cx.test { available } else { Vec::new() };
    if !tests.is_empty() || !missing.is_empty() {
        let comment = announced(&missing, &tests);
        return Ok(if missing.is_empty() {
            Ret::would(comment)
        } else {
            Ret::failed(comment)
        });
    }
    let (mut failures, mut successes) = (Vec::new(), Vec::new());
    let mut changes = Map::new();
    for (name, given) in names.iter().zip(calls.values()) {
        match call(cx, bare(name), given) {
            // An error from the function itself ends the state. Wrong arguments are reported with
            // the other calls.
            Err(error) if error.is_of_command() => return Err(error),
            Err(error) => failures.push(format!("'{name}' failed: {error}")),
            Ok(ret) if succeeded(&ret) => {
                successes.push(format!("{name}: {}", comment_or(&ret, "Success")));
                changes.insert(name.as_str(), ret);
            }
            Ok(Value::Bool(_)) => failures.push(format!("'{name}': False")),
            Ok(ret) => {
                let why = comment_or(&ret, "(error message N/A)");
                failures.push(format!("'{name}' failed: {why}"));
            }
        }
    }
    let result = Some(failures.is_empty());
    failures.append(&mut successes);
    Ok(Ret {
        result,
        ..Ret::ok(failures.join(", ")).changes(changes)
    })
}

/// Returns the name of a function without its suffix. A function can be called twice as
/// `test.ping:1` and `test.ping:2`.
fn bare(name: &str) -> &str {
    name.split(':').next().unwrap_or_default()
}

/// Returns Salt's sentence with Salt's form of the plural, since users may match on it.
fn announced(missing: &[&str], tests: &[&str]) -> String {
    let plural = |names: &[&str]| if names.len() > 1 { "True" } else { "" };
    let mut sentences = Vec::new();
    if !missing.is_empty() {
        let (plural, names) = (plural(missing), missing.join(", "));
        sentences.push(format!("Unavailable function{plural}: {names}."));
    }
    if !tests.is_empty() {
        let (plural, names) = (plural(tests), tests.join(", "));
        sentences.push(format!("Function{plural} {names} to be executed."));
    }
    sentences.join(" ")
}

fn comment_or(ret: &Value, without: &str) -> String {
    match ret {
        Value::Map(map) => map
            .get("comment")
            .map_or_else(|| without.to_owned(), Value::to_text),
        other => other.to_text(),
    }
}

/// Calls a function. `given` is a list of positional values and of dictionaries with named ones.
fn call(cx: &Exec, name: &str, given: &Value) -> Result<Value, Error> {
    let signature = signature(cx, name).ok_or_else(|| Error::not_available(name.to_owned()))?;
    let (mut args, mut kwargs) = (Vec::new(), Map::new());
    let items = match given {
        Value::Null => Vec::new(),
        Value::List(items) => items.to_vec(),
        one => vec![one.clone()],
    };
    for item in items {
        match item {
            // If an argument is given twice, the first value applies.
            Value::Map(named) => {
                let earlier = std::mem::replace(&mut kwargs, named);
                kwargs.update(earlier);
            }
            value => args.push(value),
        }
    }
    count(name, &signature, &args, &kwargs)?;
    cx.call(name, args, kwargs)
}

/// Returns the signature of a function, built-in or custom.
fn signature(cx: &Exec, name: &str) -> Option<Signature> {
    if cx.is_custom(name) {
        return cx.shared.custom.signature(cx, name);
    }
    let function = cx.function(name)?;
    let args = function.args.iter().map(|arg| {
        let default = arg.default.map(|default| default());
        (arg.name.to_owned(), default)
    });
    Some(Signature {
        args: args.collect(),
        varargs: function.varargs,
        kwargs: function.extra == Extra::Accept,
        doc: String::new(),
    })
}

/// Checks the number of arguments. The errors are Python's for too many arguments and Salt's for
/// missing ones.
fn count(name: &str, function: &Signature, args: &[Value], kwargs: &Map) -> Result<(), Error> {
    let required = function
        .args
        .iter()
        .filter(|(_, default)| default.is_none());
    let (least, most, given) = (required.clone().count(), function.args.len(), args.len());
    let missing: Vec<&str> = required
        .skip(given)
        .map(|(name, _)| name.as_str())
        .filter(|name| !kwargs.contains(name))
        .collect();
    if !missing.is_empty() {
        return Err(Error::unexpected(format!(
            "Missing arguments: {}",
            missing.join(", ")
        )));
    }
    if given > most && !function.varargs {
        let takes = if least == most {
            most.to_string()
        } else {
            format!("from {least} to {most}")
        };
        let (plural, were) = (
            if most == 1 { "" } else { "s" },
            if given == 1 { "was" } else { "were" },
        );
        let short = name.rsplit('.').next().unwrap_or_default();
        return Err(Error::unexpected(format!(
            "{short}() takes {takes} positional argument{plural} but {given} {were} given"
        )));
    }
    Ok(())
}

/// Runs the older style, `module.run: - name: test.ping`, with the arguments next to the name.
fn older(cx: &Exec, name: &str, kwargs: Map) -> Result<Ret, Error> {
    let Some(signature) = signature(cx, name) else {
        return Ok(Ret::failed(format!(
            "Module function {name} is not available"
        )));
    };
    let would = Ret::would(format!("Module function {name} is set to execute"));
    cx.apply(would, || {
        let given = match given(&signature, kwargs) {
            Ok(given) => given,
            Err(comment) => return Ok(Ret::failed(comment)),
        };
        Ok(match cx.call(name, given.args, given.kwargs) {
            Err(error) => Ret::failed(format!(
                "Module function {name} threw an exception. Exception: {error}"
            )),
            Ok(ret) => Ret {
                result: Some(succeeded(&ret)),
                ..Ret::ok(format!("Module function {name} executed")).change("ret", ret)
            },
        })
    })
}

/// The names of a state's own arguments. A function's argument of such a name is given with the
/// prefix `m_`.
const TAKEN: [&str; 5] = ["name", "fun", "names", "state", "saltenv"];

fn given(function: &Signature, mut kwargs: Map) -> Result<Arguments, String> {
    let mut named = Map::new();
    let mut missing = String::new();
    for (name, default) in &function.args {
        let name = name.as_str();
        let prefixed = format!("m_{name}");
        let taken = TAKEN
            .contains(&name)
            .then(|| kwargs.remove(&prefixed))
            .flatten();
        let plain = || {
            let plain = default.is_some() || !TAKEN.contains(&name);
            plain.then(|| kwargs.remove(name)).flatten()
        };
        match taken.or_else(plain) {
            Some(value) => {
                named.insert(name, value);
            }
            None if default.is_none() => {
                let prefixed = if TAKEN.contains(&name) {
                    &prefixed
                } else {
                    name
                };
                missing += &format!(" {prefixed}");
            }
            None => {}
        }
    }
    if !missing.is_empty() {
        return Err(format!("The following arguments are missing:{missing}"));
    }
    let rest = match kwargs.remove("args").filter(|_| function.varargs) {
        Some(Value::List(items)) => items.to_vec(),
        Some(_) => return Err("'args' must be a list.".into()),
        None => Vec::new(),
    };
    match kwargs.remove("kwargs").filter(|_| function.kwargs) {
        Some(Value::Map(more)) => named.update(more),
        Some(_) => return Err("'kwargs' must be a dict.".into()),
        None => {}
    }
    // Further positional arguments follow the declared ones, so the declared ones must be
    // positional too.
    let mut args = Vec::new();
    if !rest.is_empty() {
        for (name, default) in &function.args {
            let default = || default.clone().unwrap_or_default();
            args.push(named.remove(name).unwrap_or_else(default));
        }
        args.extend(rest);
    }
    Ok(Arguments::new(args, named))
}

/// Returns whether a result is a success. False, `result: False` and a `retcode` other than 0 at
/// any depth are failures.
fn succeeded(ret: &Value) -> bool {
    match ret {
        Value::Bool(truth) => *truth,
        Value::Map(map) => map.iter().all(|(key, value)| {
            let failed = match key.as_str() {
                Some("result") => value.as_bool() == Some(false),
                Some("retcode") => *value != Value::Int(0),
                _ => false,
            };
            !failed && (value.as_map().is_none() || succeeded(value))
        }),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{apply, exec, json};

    fn ran(kwargs: &str, test: bool) -> (Option<bool>, String, String) {
        let mut cx = exec();
        cx.test = test;
        let ret = apply(
            &cx,
            "module.run",
            Map::new()
                .with("name", "x")
                .into_iter()
                .chain(json(kwargs))
                .collect(),
        )
        .unwrap();
        // Returns contain lists in place of tuples.
        let changes = value::python::repr(&ret.changes)
            .replace('(', "[")
            .replace(')', "]");
        (ret.result, ret.comment, changes)
    }

    /// Arguments, with the result, comment and changes that Salt returns for them.
    const ANSWERS: &[(&str, Option<bool>, &str, &str)] = &[
        (
            r#"{"test.ping": null, "test.echo": [{"text": "hi"}]}"#,
            Some(true),
            "test.ping: True, test.echo: hi",
            r#"{"test.ping": true, "test.echo": "hi"}"#,
        ),
        (
            r#"{"test.nosuch": null, "nosuch.fun": null, "test.ping": null}"#,
            Some(false),
            "Unavailable functionTrue: test.nosuch, nosuch.fun.",
            "{}",
        ),
        (
            r#"{"name": "test.echo", "text": "hi"}"#,
            Some(true),
            "Module function test.echo executed",
            r#"{"ret": "hi"}"#,
        ),
        (
            r#"{"name": "test.nosuch"}"#,
            Some(false),
            "Module function test.nosuch is not available",
            "{}",
        ),
        (
            r#"{"name": "test.arg", "args": [1, 2], "kwargs": {"a": "b"}}"#,
            Some(true),
            "Module function test.arg executed",
            r#"{"ret": {"args": [1, 2], "kwargs": {"a": "b"}}}"#,
        ),
        (
            r#"{"name": "test.echo"}"#,
            Some(false),
            "The following arguments are missing: text",
            "{}",
        ),
        (
            r#"{"test.false": null}"#,
            Some(false),
            "'test.false': False",
            "{}",
        ),
        (
            r#"{"name": "test.false"}"#,
            Some(false),
            "Module function test.false executed",
            r#"{"ret": false}"#,
        ),
        (
            r#"{"test.arg": [1, {"a": 2}, "x"]}"#,
            Some(true),
            "test.arg: Success",
            r#"{"test.arg": {"args": [1, "x"], "kwargs": {"a": 2}}}"#,
        ),
        (
            r#"{"name": "test.exception", "message": "boo"}"#,
            Some(false),
            "Module function test.exception threw an exception. Exception: boo",
            "{}",
        ),
        (
            r#"{"cmd.run_all": [{"cmd": "exit 3", "python_shell": true}]}"#,
            Some(false),
            "'cmd.run_all' failed: (error message N/A)",
            "{}",
        ),
        (
            r#"{"test.echo": ["a", "b"]}"#,
            Some(false),
            "'test.echo' failed: echo() takes 1 positional argument but 2 were given",
            "{}",
        ),
        (
            r#"{"test.echo": null}"#,
            Some(false),
            "'test.echo' failed: Missing arguments: text",
            "{}",
        ),
        (
            "{}",
            Some(false),
            "Module function x is not available",
            "{}",
        ),
        (
            r#"{"name": "test.arg", "args": "x"}"#,
            Some(false),
            "'args' must be a list.",
            "{}",
        ),
        (
            r#"{"name": "test.arg", "kwargs": "x"}"#,
            Some(false),
            "'kwargs' must be a dict.",
            "{}",
        ),
        (
            r#"{"test.echo:1": ["x"], "test.echo:2": ["y"]}"#,
            Some(true),
            "test.echo:1: x, test.echo:2: y",
            r#"{"test.echo:1": "x", "test.echo:2": "y"}"#,
        ),
        (
            r#"{"test.echo": [{"text": {"comment": "cc", "result": false}}]}"#,
            Some(false),
            "'test.echo' failed: cc",
            "{}",
        ),
    ];

    #[test]
    fn both_styles_answer_as_salt_does() {
        for (kwargs, result, comment, changes) in ANSWERS {
            let wanted = (
                *result,
                (*comment).to_owned(),
                value::python::repr(&json(changes).into()),
            );
            assert_eq!(ran(kwargs, false), wanted, "{kwargs}");
        }
    }

    #[test]
    fn test_mode_calls_nothing() {
        for (kwargs, comment) in [
            (
                r#"{"test.ping": null, "test.echo": []}"#,
                "FunctionTrue test.ping, test.echo to be executed.",
            ),
            (
                r#"{"test.exception": null}"#,
                "Function test.exception to be executed.",
            ),
            (
                r#"{"name": "test.exception"}"#,
                "Module function test.exception is set to execute",
            ),
        ] {
            let wanted = (None, comment.to_owned(), "{}".to_owned());
            assert_eq!(ran(kwargs, true), wanted, "{kwargs}");
        }
    }
}
