//! Custom state functions: `_states` of the tree.

use std::sync::Mutex;

use state::custom::{Kind, Signature};
use state::exec::Exec;
use state::module::{Arg, Arguments, Error, Extra, Function, Ret};
use value::{Map, Value};

use super::host::Failed;
use super::{CustomModules, lock};

/// The declarations of the custom state functions. The engine keeps each for the life of the
/// program, as it does for built-in functions; that costs a few hundred bytes per function.
#[derive(Default)]
pub(super) struct Declared(Mutex<Vec<(String, Signature, &'static Function<Ret>)>>);

impl Declared {
    fn function(&self, full: &str, signature: &Signature) -> &'static Function<Ret> {
        let mut known = lock(&self.0);
        let found = known
            .iter()
            .find(|(name, declared, _)| name == full && declared == signature);
        if let Some((_, _, function)) = found {
            return function;
        }
        let function = declaration(full, signature);
        known.push((full.to_owned(), signature.clone(), function));
        function
    }
}

fn declaration(full: &str, signature: &Signature) -> &'static Function<Ret> {
    let kept = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    let args = signature.args.iter().map(|(name, default)| Arg {
        name: kept(name),
        doc: "",
        // The function fills in its own default.
        default: default.as_ref().map(|_| (|| Value::Null) as fn() -> Value),
    });
    let extra = if signature.kwargs {
        Extra::Accept
    } else {
        Extra::Reject
    };
    Box::leak(Box::new(Function {
        name: kept(full.rsplit('.').next().unwrap_or(full)),
        doc: kept(&signature.doc),
        args: Vec::leak(args.collect()),
        varargs: signature.varargs,
        extra,
        facts: None,
        call,
    }))
}

/// Calls a custom state function. The chunk that is being run contains its name.
fn call(cx: &Exec, given: &mut Arguments) -> Result<Ret, Error> {
    let Some(low) = &cx.chunk else {
        return Err("a custom state can only be called by a state run".into());
    };
    cx.shared
        .custom
        .call_state(cx, &low.function(), given.extra())
}

pub(super) fn function(
    custom: &CustomModules,
    cx: &Exec,
    full: &str,
    named: bool,
) -> Option<&'static Function<Ret>> {
    let states = custom.index(Kind::State);
    let (_, module) = if named {
        states.find_by_name(custom, cx, full)?
    } else {
        states.find(custom, cx, full)?
    };
    Some(custom.declared.function(full, module.signature(full)?))
}

pub(super) fn called(
    custom: &CustomModules,
    cx: &Exec,
    full: &str,
    kwargs: Map,
) -> Result<Ret, Error> {
    let states = custom.index(Kind::State);
    let Some((file, _)) = states.find(custom, cx, full) else {
        return Err(states.missing(custom, cx, full));
    };
    let said = |problem: String| {
        let place = file.path.display();
        Error::refused(format!(
            "An exception occurred in this state: {problem} ({full} of {place})"
        ))
    };
    match custom.run(cx, &file, full, Vec::new(), kwargs)? {
        Ok(reply) => ret(reply.get("return").cloned().unwrap_or_default()).map_err(said),
        Err(failed) => Err(exception(failed)),
    }
}

/// Formats an exception as Salt does in a state's comment: with the traceback for every type.
fn exception(failed: Failed) -> Error {
    match &failed.trace {
        Some(trace) if failed.kind != "Arguments" => {
            Error::refused(format!("An exception occurred in this state: {trace}"))
        }
        _ => failed.into_error(),
    }
}

/// Converts a state's return from Python, or returns the reason why it is invalid.
fn ret(returned: Value) -> Result<Ret, String> {
    let Value::Map(mut map) = returned else {
        return Err("Malformed state return. Data must be a dictionary type.".into());
    };
    let missing: Vec<&str> = ["name", "result", "changes", "comment"]
        .into_iter()
        .filter(|key| !map.contains(key))
        .collect();
    if !missing.is_empty() {
        let missing = missing.join(",");
        return Err(format!(
            "The following keys were not present in the state return: {missing}"
        ));
    }
    let place = |wanted: &str| map.keys().position(|key| key.as_str() == Some(wanted));
    let comment_first = place("comment") < place("result");
    let mut taken = |key: &str| map.remove(key).unwrap_or_default();
    let comment = match taken("comment") {
        Value::List(lines) => {
            let lines: Vec<String> = lines.iter().map(Value::to_text).collect();
            lines.join("\n")
        }
        text => text.to_text(),
    };
    let changes = taken("changes");
    if !matches!(changes, Value::Map(_)) {
        return Err("'Changes' should be a dictionary.".into());
    }
    let result = taken("result");
    if !matches!(result, Value::Bool(_) | Value::Null) {
        let result = value::python::repr(&result);
        return Err(format!(
            "'result' should be True, False or None, it is {result}"
        ));
    }
    let warnings = taken("warnings");
    let warnings = warnings.as_list().unwrap_or_default();
    Ok(Ret {
        result: result.as_bool(),
        changes,
        comment,
        name: Some(taken("name").to_text()),
        comment_first,
        warnings: warnings.iter().map(Value::to_text).collect(),
        extra: map,
    })
}
