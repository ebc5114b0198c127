//! The `schedule` state module.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Manage the jobs that a minion runs at certain times: in the running minion, or with
    /// `offline: True` in its configuration.
    #[facts(effects = Effects::Files(&[]), free_arguments = true)]
    mod schedule;

    /// Make sure that a job exists with the given settings.
    ///
    ///     nightly highstate:
    ///       schedule.present:
    ///         - function: state.apply
    ///         - when: 3:00am
    fn present(Present {
        /// The name of the job.
        name: String,
        ..kwargs
    });

    /// Make sure that a job does not exist.
    ///
    ///     nightly highstate:
    ///       schedule.absent
    fn absent(Absent {
        /// The name of the job.
        name: String,
        ..kwargs
    });

    /// Make sure that a job is enabled.
    ///
    ///     nightly highstate:
    ///       schedule.enabled
    fn enabled(Enabled {
        /// The name of the job.
        name: String,
        ..kwargs
    });

    /// Make sure that a job is disabled.
    ///
    ///     nightly highstate:
    ///       schedule.disabled
    fn disabled(Disabled {
        /// The name of the job.
        name: String,
        ..kwargs
    });
}

/// Returns the current settings of a job.
fn current(cx: &Exec, name: &str, kwargs: &Map) -> Result<Option<Value>, Error> {
    let options = Map::new()
        .with("show_all", true)
        .with("return_yaml", false)
        .with("offline", kwargs.get("offline").cloned());
    let jobs = cx.call_internal("schedule.list", Vec::new(), options)?;
    Ok(jobs.get(name).cloned())
}

/// Calls a function of the `schedule` module, which supports test mode itself.
fn ask(cx: &Exec, fun: &str, name: &str, kwargs: &Map) -> Result<Value, Error> {
    let mut kwargs = kwargs.clone();
    if cx.test {
        kwargs.insert("test", true);
    }
    cx.call_internal(&format!("schedule.{fun}"), vec![name.into()], kwargs)
}

fn text(answer: &Value) -> String {
    answer
        .get("comment")
        .map(Value::to_text)
        .unwrap_or_default()
}

/// Returns the state's result for an answer of the `schedule` module. The comment is the answer's
/// own if it failed or in test mode, and `done` otherwise.
fn ret_from_answer(cx: &Exec, answer: &Value, done: String) -> Ret {
    let failed = answer.get("result") != Some(&true.into());
    let changes = answer.get("changes").cloned();
    let changes = changes.unwrap_or_else(|| Map::new().into());
    if failed {
        return Ret::failed(text(answer)).changes(changes);
    }
    let comment = if cx.test { text(answer) } else { done };
    Ret::ok(comment).changes(changes)
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let (name, kwargs) = (args.name.as_str(), &args.kwargs);
    let Some(current) = current(cx, name, kwargs)? else {
        let answer = ask(cx, "add", name, kwargs)?;
        let ret = ret_from_answer(cx, &answer, format!("Adding new job {name} to schedule"));
        return Ok(if cx.test && ret.result == Some(true) {
            ret.change(name, "added")
        } else {
            ret
        });
    };
    let new = cx.call_internal(
        "schedule.build_schedule_item",
        vec![name.into()],
        kwargs.clone(),
    )?;
    if new.get("result") == Some(&false.into()) {
        return Ok(Ret::failed(text(&new)));
    }
    if new == current {
        return Ok(Ret::ok(format!("Job {name} in correct state")));
    }
    let answer = ask(cx, "modify", name, kwargs)?;
    Ok(ret_from_answer(
        cx,
        &answer,
        format!("Modifying job {name} in schedule"),
    ))
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (name, kwargs) = (args.name.as_str(), &args.kwargs);
    if current(cx, name, kwargs)?.is_none() {
        return Ok(missing(name));
    }
    let answer = ask(cx, "delete", name, kwargs)?;
    let done = format!("Removed job {name} from schedule");
    Ok(ret_from_answer(cx, &answer, done))
}

fn missing(name: &str) -> Ret {
    Ret::ok(format!("Job {name} not present in schedule"))
}

fn enabled(cx: &Exec, args: Enabled) -> Result<Ret, Error> {
    switched(cx, &args.name, &args.kwargs, true)
}

fn disabled(cx: &Exec, args: Disabled) -> Result<Ret, Error> {
    switched(cx, &args.name, &args.kwargs, false)
}

/// Enables or disables an existing job. There is no change if the job is in that state already.
fn switched(cx: &Exec, name: &str, kwargs: &Map, on: bool) -> Result<Ret, Error> {
    let Some(current) = current(cx, name, kwargs)? else {
        return Ok(missing(name));
    };
    let (fun, past) = match on {
        true => ("enable_job", "Enabled"),
        false => ("disable_job", "Disabled"),
    };
    let answer = ask(cx, fun, name, kwargs)?;
    let ret = ret_from_answer(cx, &answer, format!("{past} job {name} from schedule"));
    let is_so = current.get("enabled") == Some(&on.into());
    Ok(if is_so { ret.changes(Map::new()) } else { ret })
}
