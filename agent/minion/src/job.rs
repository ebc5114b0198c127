//! Runs the process of one job: from receiving the job to the moment when the daemon has its return
//! on disk.

use std::os::fd::OwnedFd;

use modules::fileserver::roots::Roots;
use modules::loader::call::{docstring, mask_pillar, outputter, retcode, wrong_arguments};
use modules::loader::custom::CustomModules;
use modules::returners;
use modules::state_run::orchestrate;
use state::exec::Exec;
use state::module::{Error, Extra, Problem};
use state::opts::Opts;
use state::sources::Sources;
use value::{Map, Value, jid, log, secret};
use wire::{BOUND_GRAINS, Job, NO_LOG, Options, PEER, Return, SECRETS};

use crate::blackout;
use crate::functions::registry;
use crate::local_socket::{self, OfMinion, Uplink};
use crate::orphans;
use crate::reactor::REACTION;
use crate::sources::OfMaster;

/// Runs the job that arrives on the socket which this process was started with.
///
/// # Errors
/// When the daemon is gone before it has the return.
pub fn run(opts: Opts, socket: OwnedFd) -> Result<(), local_socket::Error> {
    let (uplink, job) = Uplink::of_job(socket)?;
    if let Some(marks) = job.options.get(SECRETS) {
        secret::learn(marks);
    }
    let quiet = job.options.get(NO_LOG).is_some_and(Value::is_true);
    let _hush = secret::mask_logs(quiet);
    let data = match context(opts.clone(), &uplink, &job) {
        Ok(cx) => {
            let data = done(&cx, &job);
            cx.barrier();
            // The return of a job with `no_log` is covered as a whole, except for the parts that
            // say which job it belongs to.
            secret::event(data)
        }
        Err(error) => failed(returned(&job), format!("ERROR: {error}")),
    };
    let answer = Return {
        sequence: 0,
        jid: job.jid.clone(),
        stamp: jid::stamp(),
        data,
    };
    let called = uplink.call(answer.clone());
    hand_out(&opts, &uplink, &job, &answer.data);
    let Err(error) = called else {
        return Ok(());
    };
    // The daemon is gone. Leave the return on disk for the next daemon.
    let leave = match job.options.contains(REACTION) {
        true => orphans::leave_to_reactor,
        false => orphans::leave,
    };
    leave(&opts, answer).map_err(|left| {
        log::error(format_args!(
            "cannot store the return, which is lost: {left}"
        ));
        error
    })?;
    // The next daemon may run already.
    local_socket::tell_of_orphans(&opts);
    Ok(())
}

/// Passes the return to the returners that the job names.
fn hand_out(opts: &Opts, uplink: &Uplink, job: &Job, data: &Map) {
    if job.ret.is_empty() {
        return;
    }
    match context(opts.clone(), uplink, job) {
        Ok(cx) => {
            let ret = data.clone().with("id", opts.id());
            returners::hand(&cx, &job.ret, &ret);
            cx.barrier();
        }
        Err(error) => log::error(format_args!(
            "cannot pass the return of job {} to its returners: {error}",
            job.jid
        )),
    }
}

/// Returns whether files and pillar are those of this machine.
pub(crate) fn is_local(opts: &Opts) -> bool {
    opts.text("file_client") == Some("local") || opts.text("master_type") == Some("disable")
}

fn context(opts: Opts, uplink: &Uplink, job: &Job) -> Result<Exec, local_socket::Error> {
    let is_local = is_local(&opts);
    crate::know_token(&opts);
    let bound = job.options.get(BOUND_GRAINS).and_then(Value::as_map);
    let mut opts = with_grains(opts, bound);
    let sources: Box<dyn Sources> = if is_local {
        Box::new(Roots::states(&opts))
    } else {
        let options = match is_state(job) {
            true => Some(masters_options(uplink)?),
            false => None,
        };
        opts = with_options(opts, options.clone().unwrap_or_default());
        Box::new(OfMaster::new(uplink.clone(), &opts, options))
    };
    let custom = Box::new(CustomModules::new(&opts));
    let targets = Box::new(OfMinion::new(uplink.clone()));
    Ok(Exec::with_custom(
        opts,
        registry(),
        sources,
        targets,
        custom,
    ))
}

/// Returns true for functions that compile states: the master provides options for them.
fn is_state(job: &Job) -> bool {
    let is_one = |fun: &Value| {
        let fun = fun.as_str().unwrap_or_default();
        fun.starts_with("state.") || fun.starts_with("saltcheck.")
    };
    let several = job.fun.as_list().unwrap_or_default();
    is_one(&job.fun) || several.iter().any(is_one)
}

/// Returns the options with the grains that this minion's key is bound to. They override the grains
/// of the configuration.
pub(crate) fn with_grains(opts: Opts, bound: Option<&Map>) -> Opts {
    let Some(bound) = bound.filter(|map| !map.is_empty()) else {
        return opts;
    };
    let own = opts.get("grains").and_then(Value::as_map);
    let mut grains = own.cloned().unwrap_or_default();
    grains.update(bound.clone());
    Opts::new(opts.map.with("grains", grains))
}

/// Returns the options that the master sets for a state run.
///
/// # Errors
/// When the master does not answer.
pub fn masters_options(uplink: &Uplink) -> Result<Map, local_socket::Error> {
    match uplink.call(Options {})? {
        Value::Map(said) => Ok(said),
        _ => Ok(Map::new()),
    }
}

/// Returns the options of a run with those of the master, and with the grains that this minion's key
/// is bound to.
#[must_use]
pub fn with_options(opts: Opts, mut masters: Map) -> Opts {
    let bound = masters.remove(BOUND_GRAINS);
    let mut map = opts.map;
    map.update(masters);
    let bound = bound.as_ref().and_then(Value::as_map);
    with_grains(Opts::new(map), bound)
}

/// Returns the fields that every return has.
fn returned(job: &Job) -> Map {
    let mut data = Map::new()
        .with("jid", job.jid.as_str())
        .with("fun", job.fun.clone())
        .with("fun_args", job.arg.clone())
        .with("user", job.user.as_str());
    for key in [
        "metadata",
        "ret_config",
        "ret_kwargs",
        "schedule",
        "master_id",
    ] {
        if let Some(value) = job.options.get(key) {
            data.insert(key, value.clone());
        }
    }
    data
}

fn failed(data: Map, text: String) -> Map {
    data.with("return", text)
        .with("retcode", 1)
        .with("success", false)
        .with("out", "nested")
}

/// Calls the functions that the job names.
fn done(cx: &Exec, job: &Job) -> Map {
    let data = returned(job);
    if job.options.get(REACTION).and_then(Value::as_str) == Some("runner") {
        return runner(cx, job, data);
    }
    match (&job.fun, job.fun.as_list()) {
        (_, Some(funs)) => several(cx, job, funs, data),
        (fun, None) => one(cx, job, &fun.to_text(), &job.arg, data),
    }
}

/// Runs a runner for a reaction, as the reactor's user: the reactor does not answer events of that
/// user.
fn runner(cx: &Exec, job: &Job, data: Map) -> Map {
    let (args, kwargs) = modules::loader::call::split(&job.arg);
    let (jid, fun) = (job.jid.clone(), job.fun.to_text());
    let called = orchestrate::runner_by(cx, &reactor::USER.into(), jid, &fun, args, kwargs);
    data.with("return", called.ret)
        .with("retcode", i64::from(!called.success))
        .with("success", called.success)
}

/// Calls several functions in one job, each with its own arguments (Salt's `test.ping,test.arg`).
/// The results are by function, or with `multifunc_ordered` in the order of the functions.
fn several(cx: &Exec, job: &Job, funs: &[Value], mut data: Map) -> Map {
    let mut results: Vec<(Value, Map)> = Vec::new();
    for (at, fun) in funs.iter().enumerate() {
        let args = job.arg.get(at).and_then(Value::as_list).unwrap_or_default();
        let name = fun.to_text();
        let ret = one(cx, job, &name, args, Map::new());
        results.push((name.into(), ret));
    }
    let is_ordered = cx.opts().flag("multifunc_ordered");
    for key in ["return", "retcode", "success"] {
        let part = |ret: &mut Map| ret.remove(key).unwrap_or(Value::Null);
        let values: Value = match is_ordered {
            true => Value::list(results.iter_mut().map(|(_, ret)| part(ret))),
            false => {
                let by_name = results
                    .iter_mut()
                    .map(|(name, ret)| (name.clone(), part(ret)));
                by_name.collect::<Map>().into()
            }
        };
        data.insert(key, values);
    }
    data
}

fn one(cx: &Exec, job: &Job, fun: &str, args: &[Value], data: Map) -> Map {
    if blackout::refuses(job, fun) {
        let text = format!("ERROR executing '{fun}': {}", blackout::REFUSED);
        return failed(data, text);
    }
    let own = cx.apart();
    let (args, kwargs) = split(&own, job, fun, args);
    mask_pillar(&own, fun);
    match own.call(fun, args, kwargs) {
        Ok(ret) => {
            let code = retcode(&own, &ret);
            let data = data
                .with("return", ret)
                .with("retcode", code)
                .with("success", code == 0);
            match outputter(fun) {
                Some(out) => data.with("out", out),
                None => data,
            }
        }
        Err(error) => failed(data, sentence(cx, fun, &error)),
    }
}

/// Splits the arguments into positional and named ones. A function that accepts any name also gets
/// the `__pub_*` arguments, which describe its job.
fn split(cx: &Exec, job: &Job, fun: &str, args: &[Value]) -> (Vec<Value>, Map) {
    let (places, mut names) = modules::loader::call::split(args);
    if cx
        .function(fun)
        .is_some_and(|function| function.extra == Extra::Accept)
    {
        names = names
            .with("__pub_user", job.user.as_str())
            .with("__pub_arg", args.to_vec())
            .with("__pub_fun", fun)
            .with("__pub_jid", job.jid.as_str())
            .with("__pub_tgt", job.tgt.clone())
            .with("__pub_tgt_type", job.tgt_type.as_str())
            .with("__pub_ret", job.ret.as_str())
            .with("__pub_pid", std::process::id());
        if let Some(metadata) = job.options.get("metadata") {
            names.insert("__pub_metadata", metadata.clone());
        }
        // The id of the minion that asked must come from the master only, never from the arguments.
        names.remove("__pub_id");
        if let Some(id) = job.options.get(PEER) {
            names.insert("__pub_id", id.clone());
        }
    }
    (places, names)
}

/// Returns the text of a failed call, in Salt's words.
fn sentence(cx: &Exec, fun: &str, error: &Error) -> String {
    if let Some(wrong) = wrong_arguments(fun, error) {
        let doc = cx.function(fun).map_or("", |function| function.doc);
        return format!(
            "Passed invalid arguments to {fun}: {wrong}\n{}",
            docstring(doc)
        );
    }
    match error.problem() {
        Problem::NotAvailable(_) => error.to_string(),
        Problem::Argument { .. } => format!("ERROR executing '{fun}': {error}"),
        Problem::Raised { trace, .. } => {
            format!("The minion function caused an exception: {trace}")
        }
        _ => format!("ERROR: {error}"),
    }
}
