//! Custom state functions: `_states` of the tree.

use std::sync::Mutex;

use state::custom::Signature;
use state::exec::Exec;
use state::module::{Arg, Error, Extra, Function, Given, Ret};
use value::{Map, Value};

use super::{CustomModules, lock};

/// What the engine was told of each function so far. It keeps that for the life of the program, as it does for built-in functions: a
/// few hundred bytes for a function.
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
        doc: &[],
        // The function fills in its own default.
        default: default.as_ref().map(|_| (|| Value::Null) as fn() -> Value),
    });
    let doc: Vec<&'static str> = signature.doc.lines().map(kept).collect();
    let extra = if signature.kwargs {
        Extra::Accept
    } else {
        Extra::Reject
    };
    Box::leak(Box::new(Function {
        name: kept(full.rsplit('.').next().unwrap_or(full)),
        doc: Vec::leak(doc),
        args: Vec::leak(args.collect()),
        varargs: signature.varargs,
        extra,
        call,
    }))
}

/// Which function it is stands in the chunk that is being run.
fn call(cx: &Exec, given: &mut Given) -> Result<Ret, Error> {
    let Some(low) = &cx.low else {
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
    let (_, module) = if named {
        custom.states.find_by_name(custom, cx, full)?
    } else {
        custom.states.find(custom, cx, full)?
    };
    Some(custom.declared.function(full, module.signature(full)?))
}

pub(super) fn called(
    custom: &CustomModules,
    cx: &Exec,
    full: &str,
    kwargs: Map,
) -> Result<Ret, Error> {
    let Some((file, _)) = custom.states.find(custom, cx, full) else {
        return Err(custom.states.missing(custom, cx, full));
    };
    let reply = custom.run(cx, &file, full, Vec::new(), kwargs)?;
    ret(reply.get("return").cloned().unwrap_or_default())
}

/// A state's return as Python makes it.
fn ret(returned: Value) -> Result<Ret, Error> {
    let Value::Map(mut map) = returned else {
        return Err("Malformed state return. Data must be a dictionary type.".into());
    };
    let missing: Vec<&str> = ["name", "result", "changes", "comment"]
        .into_iter()
        .filter(|key| !map.contains(key))
        .collect();
    if !missing.is_empty() {
        let missing = missing.join(",");
        return Err(Error::Refused(format!(
            "The following keys were not present in the state return: {missing}"
        )));
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
    let warnings = taken("warnings");
    let warnings = warnings.as_list().unwrap_or_default();
    Ok(Ret {
        result: taken("result").as_bool(),
        changes: taken("changes"),
        comment,
        name: Some(taken("name").to_text()),
        comment_first,
        warnings: warnings.iter().map(Value::to_text).collect(),
        extra: map,
    })
}
