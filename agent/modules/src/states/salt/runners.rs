//! Runners and wheel functions as steps of an orchestration.

use std::sync::Arc;

use state::exec::Exec;
use state::low::LowChunk;
use state::module::{Error, Ret};
use value::{Map, Value, log, watch};

use super::{ParallelRunners, Runner, Wheel, joined};
use crate::state_run::orchestrate::{self, RunnerResult};

pub(super) fn runner(cx: &Exec, args: Runner) -> Result<Ret, Error> {
    let name = &args.name;
    if cx.test {
        return Ok(Ret::would(format!(
            "Runner function '{name}' would be executed."
        )));
    }
    let (arg, kwarg) = runner_arguments(args.kwargs);
    let data = Map::new()
        .with("type", "runner")
        .with("name", name.as_str())
        .with("args", arg.clone())
        .with("kwargs", kwarg.clone());
    orchestrate::fire_args(cx, data);
    Ok(called_ret(
        "Runner",
        name,
        orchestrate::runner(cx, name, arg, kwarg),
    ))
}

pub(super) fn wheel(cx: &Exec, args: Wheel) -> Result<Ret, Error> {
    let name = &args.name;
    if cx.test {
        return Ok(Ret::would(format!(
            "Wheel function '{name}' would be executed."
        )));
    }
    let (arg, kwarg) = runner_arguments(args.kwargs);
    let data = Map::new()
        .with("type", "wheel")
        .with("name", name.as_str())
        .with("args", kwarg.clone());
    orchestrate::fire_args(cx, data);
    Ok(called_ret(
        "Wheel",
        name,
        orchestrate::wheel(cx, name, arg, kwarg),
    ))
}

/// Returns the positional and named arguments of a runner: `arg`, and `kwarg` updated with all
/// other keywords.
fn runner_arguments(mut given: Map) -> (Vec<Value>, Map) {
    let arg = match given.remove("arg") {
        Some(Value::List(items) | Value::Tuple(items)) => items.to_vec(),
        Some(Value::Null) | None => Vec::new(),
        Some(one) => vec![one],
    };
    let mut kwarg = given
        .remove("kwarg")
        .and_then(|kwarg| kwarg.as_map().cloned())
        .unwrap_or_default();
    for key in ["full_return", "saltenv", "jid", "asynchronous"] {
        if key != "saltenv" {
            given.remove(key);
        }
    }
    given.retain(|key, _| !key.as_str().is_some_and(|key| key.starts_with("__")));
    kwarg.update(given);
    (arg, kwarg)
}

fn called_ret(kind: &str, name: &str, called: RunnerResult) -> Ret {
    let outcome = if called.success { "executed" } else { "failed" };
    let ret = Ret {
        result: Some(called.success),
        ..Ret::ok(format!("{kind} function '{name}' {outcome}."))
    };
    ret.change("return", called.ret).with("__jid__", called.jid)
}

pub(super) fn parallel_runners(cx: &Exec, args: ParallelRunners) -> Result<Ret, Error> {
    let runners = match args.runners {
        Value::Str(name) => Map::new().with(&name, Value::Null),
        Value::Map(runners) => runners,
        _ => {
            return Ok(Ret::failed(
                "The runners parameter must be a string or dict.",
            ));
        }
    };
    if cx.test {
        return Ok(Ret::would(format!(
            "Runner functions would be executed: {}",
            joined(&runners)
        )));
    }
    let calls: Vec<(String, String, Vec<Value>, Map)> = runners
        .iter()
        .map(|(id, config)| parallel_call(id, config))
        .collect();
    let done: Vec<RunnerResult> = std::thread::scope(|scope| {
        let started: Vec<_> = calls
            .iter()
            .map(|(id, name, arg, kwarg)| {
                let own = as_part(cx, id);
                let (arg, kwarg, watcher) = (arg.clone(), kwarg.clone(), watch::watcher());
                let call = move || orchestrate::runner(&own, name, arg, kwarg);
                scope.spawn(move || watch::looked_on(watcher, call))
            })
            .collect();
        started
            .into_iter()
            .map(|thread| {
                thread.join().unwrap_or_else(|_| {
                    RunnerResult::failed("The runner's thread ended unexpectedly")
                })
            })
            .collect()
    });
    log::debug(format_args!("{} runners are done", done.len()));
    let outputs = calls
        .iter()
        .map(|(id, ..)| id.as_str())
        .zip(done)
        .collect::<Vec<_>>();
    Ok(parallel_ret(&outputs))
}

/// Returns the context of one of several runners. The id in its function name distinguishes what
/// this runner runs from what the others run.
fn as_part(cx: &Exec, id: &str) -> Exec {
    let mut own = cx.clone();
    own.chunk = cx.chunk.as_deref().map(|low| {
        let fun = format!("{}/{id}", low.fun);
        Arc::new(LowChunk { fun, ..low.clone() })
    });
    own
}

/// Reads one runner of `parallel_runners`. Salt writes it as a list of single-key dictionaries.
fn parallel_call(id: &Value, config: &Value) -> (String, String, Vec<Value>, Map) {
    let config: Map = match config {
        Value::Map(config) => config.clone(),
        Value::List(items) => items
            .iter()
            .filter_map(Value::as_map)
            .flat_map(Map::iter)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
        _ => Map::new(),
    };
    let name = config
        .get("name")
        .map_or_else(|| id.to_text(), Value::to_text);
    let mut given = config;
    given.remove("name");
    let (arg, kwarg) = runner_arguments(given);
    (id.to_text(), name, arg, kwarg)
}

fn parallel_ret(outputs: &[(&str, RunnerResult)]) -> Ret {
    let failed: Vec<&str> = outputs
        .iter()
        .filter(|(_, called)| !called.success)
        .map(|(id, _)| *id)
        .collect();
    let comment = match failed.as_slice() {
        [] => "All runner functions executed successfully.".to_owned(),
        [one] => format!("Runner {one} failed."),
        several => format!("Runners {} failed.", several.join(", ")),
    };
    let returns: Map = outputs
        .iter()
        .map(|(id, called)| (*id, called.ret.clone()))
        .collect();
    let ret = Ret {
        result: Some(failed.is_empty()),
        ..Ret::ok(comment)
    };
    ret.changes(Map::new().with("ret", returns))
}
