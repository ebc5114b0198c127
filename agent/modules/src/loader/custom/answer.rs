//! Answers to the requests of children and other programs: calls of functions, data, names.

use state::custom::Kind;
use state::exec::Exec;
use state::module::{Arguments, Error, Problem, Ret};
use value::{Map, Value};

use super::CustomModules;
use crate::state_run::orchestrate;

/// Answers a request that a child sends while it works.
pub(super) fn within(custom: &CustomModules, cx: &Exec, request: &Map, python: bool) -> Map {
    if let Some(function) = request.get("call").and_then(Value::as_str)
        && python
        && cx.is_custom(function)
    {
        let found = custom.index(Kind::Module).find(custom, cx, function);
        if let Some((file, _)) = found.filter(|(file, _)| file.python) {
            return Map::new().with("yours", file.path.display().to_string());
        }
    }
    outside(cx, request)
}

/// Answers another program that uses the protocol of the children.
#[must_use]
pub fn outside(cx: &Exec, request: &Map) -> Map {
    match answered(cx, request) {
        Ok(value) => Map::new().with("return", value),
        Err(error) => {
            let kind = match error.problem() {
                _ if error.is_of_command() => "CommandExecutionError",
                Problem::NotAvailable(_) => "CommandNotFoundError",
                Problem::Missing(_) => "TypeError",
                _ => "SaltInvocationError",
            };
            let error = Map::new()
                .with("type", kind)
                .with("text", error.to_string());
            Map::new().with("error", error)
        }
    }
}

fn answered(cx: &Exec, request: &Map) -> Result<Value, Error> {
    let Some((verb, of)) = request.first() else {
        return Err("the request is empty".into());
    };
    let name = of.as_str().unwrap_or_default();
    let args = request.get("args").and_then(Value::as_list);
    let args = args.unwrap_or_default().to_vec();
    let kwargs = request.get("kwargs").and_then(Value::as_map);
    let kwargs = kwargs.cloned().unwrap_or_default();
    match verb.as_str().unwrap_or_default() {
        "call" => cx.call_internal(name, args, kwargs),
        "state" => state(cx, name, args, kwargs),
        "runner" => runner(cx, name, args, kwargs),
        "has" => Ok(cx.has_function(name).into()),
        "has_state" => Ok(cx.state_function(name).is_some().into()),
        "has_runner" => Ok(names(cx, "sys.list_runner_functions")
            .contains(&name.to_owned())
            .into()),
        "names" => Ok(cx.function_names().into()),
        "states" => Ok(names(cx, "sys.list_state_functions").into()),
        "runners" => Ok(names(cx, "sys.list_runner_functions").into()),
        "config" => data(cx, "opts"),
        "get" => data(cx, name),
        _ => {
            let line = Value::Map(request.clone()).to_text();
            Err(Error::refused(format!("unknown request: {line}")))
        }
    }
}

fn names(cx: &Exec, list: &str) -> Vec<String> {
    let listed = cx
        .call_internal(list, Vec::new(), Map::new())
        .unwrap_or_default();
    let names = listed.as_list().unwrap_or_default().iter();
    names.map(Value::to_text).collect()
}

fn data(cx: &Exec, data: &str) -> Result<Value, Error> {
    match data {
        "grains" => Ok(cx.grains().into()),
        "pillar" => Ok(cx.pillar()?.into()),
        "opts" => {
            let opts = cx.opts().map.clone();
            Ok(opts
                .with("test", cx.test)
                .with("saltenv", cx.saltenv.as_str())
                .into())
        }
        other => Err(Error::refused(format!(
            "cannot get '{other}'; expected grains, pillar or opts"
        ))),
    }
}

fn runner(cx: &Exec, name: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, Error> {
    let called = orchestrate::runner(&cx.apart(), name, args, kwargs);
    if called.raised {
        return Err(Error::refused(called.ret.to_text()));
    }
    Ok(called.ret)
}

/// Calls a state function for another one (`__states__`).
fn state(cx: &Exec, full: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, Error> {
    let Some(function) = cx.state_function(full) else {
        return Err(Error::not_available(full.to_owned()));
    };
    let mut cx = cx.clone();
    if let Some(low) = &cx.chunk
        && let Some((state, fun)) = full.split_once('.')
    {
        // A custom function reads its own name from the chunk.
        let mut low = (**low).clone();
        (low.state, low.fun) = (state.to_owned(), fun.to_owned());
        cx.chunk = Some(std::sync::Arc::new(low));
    }
    let ret = function.invoke(full, &cx, Arguments::new(args, kwargs.clone()))?;
    Ok(laid_out(ret, &kwargs).into())
}

fn laid_out(ret: Ret, kwargs: &Map) -> Map {
    let name = ret.name.map(Value::from);
    let name = name.or_else(|| kwargs.get("name").cloned());
    let mut map = Map::new()
        .with("name", name)
        .with("changes", ret.changes)
        .with("result", ret.result)
        .with("comment", ret.comment);
    if !ret.warnings.is_empty() {
        map.insert("warnings", ret.warnings);
    }
    map.update(ret.extra);
    map
}
