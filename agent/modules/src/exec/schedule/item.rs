//! Builds a job in the form in which it is stored, from the arguments of a request.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{BuildScheduleItem, has, send_to_minion};

const INTERVALS: [&str; 4] = ["seconds", "minutes", "hours", "days"];

/// The arguments that are copied unchanged, in Salt's order.
const PLAIN: &[&str] = &[
    "range",
    "when",
    "once",
    "once_fmt",
    "cron",
    "returner",
    "after",
    "return_config",
    "return_kwargs",
    "until",
    "run_on_start",
    "skip_during_range",
];

/// Returns whether a job has both an interval and set times.
pub(super) fn conflicts(kwargs: &Map) -> bool {
    let has = |name| kwargs.contains(name);
    INTERVALS.into_iter().any(has) && (has("when") || has("cron"))
}

/// Returns the error message for a job that has both `when` and `cron`.
pub(super) fn both(kwargs: &Map) -> Option<&'static str> {
    (kwargs.contains("when") && kwargs.contains("cron"))
        .then_some("Unable to use \"when\" and \"cron\" options together.  Ignoring.")
}

/// Builds a job from the arguments of a request, or returns the reason why it is not valid. A
/// running minion checks its times.
pub(super) fn item(cx: &Exec, name: &str, kwargs: &Map) -> Result<Result<Map, String>, Error> {
    if let Some(when) = kwargs.get("when")
        && let Some(checked) =
            send_to_minion(cx, "validate", None, Map::new().with("when", when.clone()))?
        && !has(&checked, "complete")
    {
        let comment = checked.get("comment").map(Value::to_text);
        return Ok(Err(comment.unwrap_or_default()));
    }
    Ok(built(name, kwargs))
}

fn built(name: &str, kwargs: &Map) -> Result<Map, String> {
    if conflicts(kwargs) {
        return Err("Unable to use \"seconds\", \"minutes\", \"hours\", or \"days\" with \"when\" or \"cron\" options.".into());
    }
    if let Some(both) = both(kwargs) {
        return Err(both.into());
    }
    let function = kwargs.get("function");
    let mut job = Map::new().with(
        "function",
        function.ok_or("Missing parameter function")?.clone(),
    );
    let take = |job: &mut Map, names: &[&str]| {
        for name in names {
            if let Some(value) = kwargs.get(name) {
                job.insert(*name, value.clone());
            }
        }
    };
    take(&mut job, &INTERVALS);
    take(&mut job, &["return_job", "metadata"]);
    if let Some(args) = kwargs.get("job_args") {
        args.as_list()
            .ok_or("job_args is not a list. please correct and try again.")?;
        job.insert("args", args.clone());
    }
    if let Some(args) = kwargs.get("job_kwargs") {
        args.as_map()
            .ok_or("job_kwargs is not a dict. please correct and try again.")?;
        job.insert("kwargs", args.clone());
    }
    let or = |name: &str, default: Value| kwargs.get(name).cloned().unwrap_or(default);
    job.insert("maxrunning", or("maxrunning", 1.into()));
    job.insert("name", or("name", name.into()));
    job.insert("enabled", or("enabled", true.into()));
    job.insert("jid_include", or("jid_include", true.into()));
    take(&mut job, &["splay"]);
    take(&mut job, PLAIN);
    Ok(job)
}

pub(super) fn build_schedule_item(cx: &Exec, args: BuildScheduleItem) -> Result<Value, Error> {
    Ok(match item(cx, &args.name, &args.kwargs)? {
        Ok(job) => job.into(),
        Err(problem) => refused(&problem),
    })
}

/// Returns Salt's answer for a job that is not valid.
pub(super) fn refused(problem: &str) -> Value {
    Map::new()
        .with("comment", problem)
        .with("result", false)
        .into()
}
