//! What comes of calling one function by its name: for `salt-call` and for the jobs of a minion.

use state::exec::Exec;
use state::module::{Error, Problem};
use value::{Map, Value};

/// Arguments as jobs carry them: those with names lie in maps that say so.
#[must_use]
pub fn split(args: &[Value]) -> (Vec<Value>, Map) {
    let (mut places, mut names) = (Vec::new(), Map::new());
    for arg in args {
        match arg {
            Value::Map(map) if map.get("__kwarg__").is_some_and(Value::is_true) => {
                let mut map = map.clone();
                map.remove("__kwarg__");
                names.update(map);
            }
            other => places.push(other.clone()),
        }
    }
    (places, names)
}

/// The other way round: those with names are the last one, in a map that says so.
#[must_use]
pub fn joined(args: Vec<Value>, kwargs: Map) -> Vec<Value> {
    let named = (!kwargs.is_empty()).then(|| kwargs.with("__kwarg__", true).into());
    args.into_iter().chain(named).collect()
}

/// How a function wants its return printed: state runs as a highstate.
#[must_use]
pub fn outputter(name: &str) -> Option<&'static str> {
    const RUNS: &[&str] = &[
        "sls",
        "sls_id",
        "pkg",
        "top",
        "single",
        "highstate",
        "template",
        "template_str",
        "apply",
        "test",
        "request",
        "check_request",
        "run_request",
    ];
    let fun = name.strip_prefix("state.")?;
    RUNS.contains(&fun).then_some("highstate")
}

/// The exit code of a call that returned: what the function has asked for, or what its return says.
#[must_use]
pub fn retcode(cx: &Exec, ret: &Value) -> i64 {
    let is_false = |key: &&str| ret.get(key).is_some_and(|truth| !truth.is_true());
    match cx.retcode() {
        0 => i64::from(["result", "success"].iter().any(is_false)),
        code => code,
    }
}

/// Documentation as it stands in Salt's own files.
#[must_use]
pub fn docstring(doc: &str) -> String {
    let lines: String = doc
        .lines()
        .map(|line| format!("   {line}").trim_end().to_owned() + "\n")
        .collect();
    format!("\n{lines}    ")
}

/// What Python says of arguments that do not fit; nothing for other errors.
#[must_use]
pub fn wrong_arguments(name: &str, error: &Error) -> Option<String> {
    let short = name.rsplit('.').next().unwrap_or(name);
    match error.problem() {
        Problem::Unexpected(text) => Some(text.clone()),
        Problem::Missing(argument) => Some(format!(
            "{short}() missing 1 required positional argument: '{argument}'"
        )),
        _ => None,
    }
}
