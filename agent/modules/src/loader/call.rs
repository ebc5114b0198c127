//! Helpers for a call of one function by its name, for `salt-call` and for the jobs of a minion.

use state::boot::SSH_JOB;
use state::exec::{Exec, facts};
use state::module::{Error, Problem};
use value::{Map, Value};

use crate::exec;

/// Splits the arguments of a job into positional and named ones. A job carries named arguments in
/// maps with a mark (`__kwarg__`).
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

/// The inverse of [`split`]: the named arguments become the last argument, a map with the mark.
#[must_use]
pub fn joined(args: Vec<Value>, kwargs: Map) -> Vec<Value> {
    let named = (!kwargs.is_empty()).then(|| kwargs.with("__kwarg__", true).into());
    args.into_iter().chain(named).collect()
}

/// Requests that a function of the module `pillar` masks values, because a command line or a job calls
/// it by name. Templates of the pillar still see the values. As in Salt, the functions that `salt-ssh`
/// calls show values; only those that the pillar marks as secret are masked. Does nothing with
/// `show_secrets`, and for other functions.
pub fn mask_pillar(cx: &Exec, fun: &str) {
    if fun.starts_with("pillar.") && !cx.opts().flag("show_secrets") {
        let all = cx.opts().text(SSH_JOB).is_none();
        cx.context(|context| context.insert(exec::pillar::MASK, all));
    }
}

/// Returns the outputter that a function's return needs: `highstate` for state runs.
#[must_use]
pub fn outputter(name: &str) -> Option<&'static str> {
    facts(exec::MODULES, name).outputter
}

/// Returns the exit code of a call that returned: the one that the function has set, or the one
/// that its return implies.
#[must_use]
pub fn retcode(cx: &Exec, ret: &Value) -> i64 {
    let is_false = |key: &&str| ret.get(key).is_some_and(|truth| !truth.is_true());
    match cx.retcode() {
        0 => i64::from(["result", "success"].iter().any(is_false)),
        code => code,
    }
}

/// Formats documentation with the indentation that Salt's own docstrings have.
#[must_use]
pub fn docstring(doc: &str) -> String {
    let lines: String = doc
        .lines()
        .map(|line| format!("   {line}").trim_end().to_owned() + "\n")
        .collect();
    format!("\n{lines}    ")
}

/// Returns Python's message for wrong arguments; `None` for other errors.
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

/// Calls a function on behalf of a module. Its return `False` counts as a failure.
///
/// # Errors
/// When the function fails.
pub(crate) fn succeed(cx: &Exec, function: &str, name: &str, kwargs: Map) -> Result<(), Error> {
    match cx.call_internal(function, vec![name.into()], kwargs)? {
        Value::Bool(false) => Err(Error::refused(format!("{function} {name} failed"))),
        _ => Ok(()),
    }
}
