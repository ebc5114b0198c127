//! The functions that every template has.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use indexmap::IndexMap;
use minijinja::value::{ArgType, Object, ObjectRepr, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::args::{self, Args};
use super::containers::{Dict, List, pairs};
use super::errors::{fault, runtime_error, type_error, value_error};
use super::filters;
use crate::Kind;

/// The longest `range` that Jinja2's sandbox allows.
const RANGE_MAX: u64 = 100_000;

/// Adds the functions to an environment.
pub(super) fn add(env: &mut Environment<'static>) {
    filters::add_function(env, "namespace", namespace);
    filters::add_function(env, "range", range);
    filters::add_function(env, "dict", dict);
    filters::add_function(env, "odict", dict);
    filters::add_function(env, "raise", raise);
    filters::add_function(env, "ifelse", ifelse);
    filters::add_function(env, "show_full_context", show_full_context);
    filters::add_function(env, "cycler", cycler);
    filters::add_function(env, "joiner", joiner);
}

fn range(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let numbers = args
        .pos()
        .iter()
        .map(args::int)
        .collect::<Result<Vec<_>, _>>()?;
    let (start, stop, step) = match *numbers.as_slice() {
        [stop] => (0, stop, 1),
        [start, stop] => (start, stop, 1),
        [start, stop, step] => (start, stop, step),
        _ => {
            return Err(type_error(format!(
                "range expected at most 3 arguments, got {}",
                numbers.len()
            )));
        }
    };
    if step == 0 {
        return Err(value_error("range() arg 3 must not be zero"));
    }
    let span = if step > 0 {
        stop.saturating_sub(start)
    } else {
        start.saturating_sub(stop)
    };
    let count = u64::try_from(span)
        .unwrap_or(0)
        .div_ceil(step.unsigned_abs());
    if count > RANGE_MAX {
        return Err(value_error(format!(
            "Range too big. The sandbox blocks ranges larger than MAX_RANGE ({RANGE_MAX})."
        )));
    }
    let mut items = Vec::new();
    let mut next = start;
    for _ in 0..count {
        items.push(Value::from(next));
        next = next.saturating_add(step);
    }
    Ok(List::value(items))
}

fn dict(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    Ok(Dict::value(pairs(args)?.into_iter().collect()))
}

/// Evaluates `namespace(dictionary, name=value)`, with arguments as for Python's `dict`.
fn namespace(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let names = pairs(args)?;
    let names = Dict::value(names.into_iter().collect());
    minijinja::functions::namespace(Some(ValueOrKwargs::from_value(Some(&names))?))
}

fn raise(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    Err(fault(Kind::Jinja, args.text(0, "msg")?))
}

/// Evaluates `ifelse('a*', 'x', 'b*', 'y', 'default')`: returns the value after the first pattern
/// that matches the minion.
fn ifelse(state: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let salt = state.lookup("salt").unwrap_or_default();
    let Ok(function) = salt.get_item(&Value::from("match.ifelse")) else {
        return Err(runtime_error(
            "ifelse needs the execution function match.ifelse",
        ));
    };
    let mut values = args.pos().to_vec();
    if let Some(minion) = args.named("minion_id") {
        values.push(minion.clone());
    }
    function.call(state, &values)
}

fn show_full_context(state: &mut State<'_, '_>, _: &Args) -> Result<Value, Error> {
    let mut entries = IndexMap::new();
    let names: Vec<String> = state
        .known_variables()
        .iter()
        .map(|name| name.to_string())
        .collect();
    for name in names {
        let Some(value) = state.lookup(&name) else {
            continue;
        };
        let is_plain = value.kind() != ValueKind::Plain && !super::print::is_opaque(&value);
        // Salt shows Python's representation of an object here.
        let shown = match (is_plain, name.as_str()) {
            (true, _) => value,
            (false, "salt") => "<salt.utils.templates.AliasedLoader object>".into(),
            (false, name) => format!("<{name}>").into(),
        };
        entries.insert(Value::from(name), shown);
    }
    Ok(Dict::value(entries))
}

/// The result of `cycler('odd', 'even')`.
struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

impl fmt::Debug for Cycler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<cycler>")
    }
}

fn cycler(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    if args.pos().is_empty() {
        return Err(runtime_error("at least one item has to be provided"));
    }
    Ok(Value::from_object(Cycler {
        items: args.pos().to_vec(),
        at: AtomicUsize::new(0),
    }))
}

impl Cycler {
    fn current(&self) -> Value {
        let at = self.at.load(Ordering::Relaxed) % self.items.len();
        self.items.get(at).cloned().unwrap_or_default()
    }
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("current")).then(|| self.current())
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        _: &[Value],
    ) -> Result<Value, Error> {
        match method {
            "next" => {
                let current = self.current();
                self.at.fetch_add(1, Ordering::Relaxed);
                Ok(current)
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

/// The result of `joiner(', ')`: the first call returns an empty text.
struct Joiner {
    separator: Value,
    used: AtomicBool,
}

impl fmt::Debug for Joiner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<joiner>")
    }
}

fn joiner(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let separator = args.text_or(0, "sep", ", ")?.into();
    Ok(Value::from_object(Joiner {
        separator,
        used: AtomicBool::new(false),
    }))
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, _: &[Value]) -> Result<Value, Error> {
        if self.used.swap(true, Ordering::Relaxed) {
            Ok(self.separator.clone())
        } else {
            Ok(Value::from(""))
        }
    }
}
