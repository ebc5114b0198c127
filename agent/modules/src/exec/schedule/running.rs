//! The functions of the `schedule` module that need a running minion.

use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, json};

use super::{
    Copy, Disable, Enable, JobStatus, Move, PostponeJob, Reload, RunJob, Save, ShowNextFireTime,
    SkipJob, answer, done, has, is_test, listed,
};

const FMT: &str = "%Y-%m-%dT%H:%M:%S";

/// Returns an answer without changes.
fn reply(result: bool, comment: impl Into<Value>) -> Value {
    Map::new()
        .with("comment", comment)
        .with("result", result)
        .into()
}

fn missing(name: &str) -> Value {
    reply(false, format!("Job {name} does not exist."))
}

pub(super) fn run_job(cx: &Exec, args: RunJob) -> Result<Value, Error> {
    let name = &args.name;
    let jobs = listed(cx, true, None, false)?;
    let Some(job) = jobs.get(name) else {
        return Ok(missing(name));
    };
    if job.get("enabled") == Some(&false.into()) && !args.force {
        return Ok(reply(true, format!("Job {name} is disabled.")));
    }
    Ok(match done(cx, "run_job", Some(name), Map::new())? {
        Some(_) => reply(true, format!("Scheduling Job {name} on minion.")),
        None => reply(false, format!("Failed to run job {name} on minion.")),
    })
}

pub(super) fn enable(cx: &Exec, args: Enable) -> Result<Value, Error> {
    switch(cx, &args.kwargs, "enable", ["enabled", "Enabled"])
}

pub(super) fn disable(cx: &Exec, args: Disable) -> Result<Value, Error> {
    switch(cx, &args.kwargs, "disable", ["disabled", "Disabled"])
}

fn switch(
    cx: &Exec,
    kwargs: &Map,
    fun: &'static str,
    [word, past]: [&str; 2],
) -> Result<Value, Error> {
    if is_test(kwargs) {
        return Ok(answer(true, format!("Schedule would be {word}.")).into());
    }
    let persist = kwargs.get("persist").is_none_or(Value::is_true);
    let data = Map::new().with("persist", persist);
    if done(cx, fun, None, data)?.is_none() {
        return Ok(answer(false, format!("Failed to {fun} schedule on minion.")).into());
    }
    let mut answer = answer(true, format!("{past} schedule on minion."));
    answer.insert("changes", Map::new().with("schedule", word));
    Ok(answer.into())
}

pub(super) fn save(cx: &Exec, args: Save) -> Result<Value, Error> {
    if is_test(&args.kwargs) {
        return Ok(reply(true, "Schedule would be saved."));
    }
    Ok(match done(cx, "save", None, Map::new())? {
        Some(_) => reply(true, "Schedule (non-pillar items) saved."),
        None => reply(false, "Failed to save schedule."),
    })
}

pub(super) fn reload(cx: &Exec, _args: Reload) -> Result<Value, Error> {
    let mut comments: Vec<Value> = Vec::new();
    if cx.pillar()?.contains("schedule") {
        cx.ask(Ask::Refresh {
            what: "pillar",
            wait_s: None,
        })?;
        comments.push("Reloaded schedule from pillar on minion.".into());
    }
    // The schedule is part of the configuration, so the minion reads the whole configuration again.
    if crate::exec::schedule::file::beside(cx.opts(), "schedule.conf").is_file() {
        cx.ask(Ask::Refresh {
            what: "schedule",
            wait_s: None,
        })?;
        comments.push("Reloaded schedule on minion from schedule.conf.".into());
    }
    Ok(reply(true, comments))
}

/// Makes the minion store times for a job. Returns whether it did, or an answer with the error.
fn note(
    cx: &Exec,
    fun: &'static str,
    name: &str,
    times: [Option<&str>; 2],
    kwargs: &Map,
) -> Result<Result<bool, Value>, Error> {
    let fmt = kwargs.get("time_fmt").filter(|fmt| fmt.is_true());
    let fmt = fmt.map_or_else(|| FMT.to_owned(), Value::to_text);
    for time in times.into_iter().flatten() {
        if jiff::fmt::strtime::parse(&fmt, time).is_err() {
            return Ok(Err(reply(false, "Date string could not be parsed.")));
        }
    }
    if !listed(cx, true, None, false)?.contains(name) {
        return Ok(Err(missing(name)));
    }
    let [time, new_time] = times;
    let data = Map::new()
        .with("time", time)
        .with("new_time", new_time)
        .with("time_fmt", fmt);
    Ok(Ok(done(cx, fun, Some(name), data)?.is_some()))
}

pub(super) fn postpone_job(cx: &Exec, args: PostponeJob) -> Result<Value, Error> {
    let name = &args.name;
    if cx.test {
        return Ok(reply(
            true,
            format!("Job: {name} would be postponed in schedule."),
        ));
    }
    let times = [Some(args.current_time.as_str()), Some(&args.new_time)];
    let noted = note(cx, "postpone_job", name, times, &args.kwargs)?;
    Ok(match noted {
        Err(problem) => problem,
        Ok(true) => reply(true, format!("Postponed Job {name} in schedule.")),
        Ok(false) => reply(false, format!("Failed to postpone job {name} in schedule.")),
    })
}

pub(super) fn skip_job(cx: &Exec, args: SkipJob) -> Result<Value, Error> {
    let name = &args.name;
    if cx.test {
        return Ok(reply(
            true,
            format!("Job: {name} would be skipped in schedule."),
        ));
    }
    let times = [Some(args.current_time.as_str()), None];
    let noted = note(cx, "skip_job", name, times, &args.kwargs)?;
    Ok(match noted {
        Err(problem) => problem,
        Ok(true) => reply(true, format!("Added Skip Job {name} in schedule.")),
        Ok(false) => reply(false, format!("Failed to skip job {name} in schedule.")),
    })
}

pub(super) fn show_next_fire_time(cx: &Exec, args: ShowNextFireTime) -> Result<Value, Error> {
    let answer = done(cx, "next_fire_time", Some(&args.name), Map::new())?;
    let answer = answer.unwrap_or_default();
    let shown = Map::new().with("result", true);
    Ok(match answer.get("next_fire_time") {
        Some(next) => shown.with("next_fire_time", next.clone()),
        None => shown.with("comment", "next fire time not available."),
    }
    .into())
}

pub(super) fn job_status(cx: &Exec, args: JobStatus) -> Result<Value, Error> {
    let answer = done(cx, "status", Some(&args.name), Map::new())?;
    let answer = answer.unwrap_or_default();
    let job = answer
        .get("schedule")
        .and_then(|jobs| jobs.get(&args.name))
        .and_then(Value::as_map);
    let Some(mut job) = job.cloned() else {
        return Ok(Map::new().into());
    };
    let next = answer.get("next_fire_time").and_then(Value::as_str);
    let next = next.map(|next| written(next, &args.time_fmt));
    job.insert("_next_fire_time", next);
    Ok(job.into())
}

/// Returns a time in another format, or unchanged if it cannot be parsed.
fn written(time: &str, fmt: &str) -> String {
    let parsed: Result<jiff::civil::DateTime, _> = time.parse();
    let written = parsed.and_then(|time| jiff::fmt::strtime::format(fmt, time));
    written.unwrap_or_else(|_| time.to_owned())
}

pub(super) fn r#move(cx: &Exec, args: Move) -> Result<Value, Error> {
    let (name, target) = (&args.name, &args.target);
    if is_test(&args.kwargs) {
        return Ok(reply(
            true,
            format!("Job: {name} would be moved from schedule."),
        ));
    }
    let minions = match sent(cx, name, target)? {
        Ok(minions) => minions,
        Err(problem) => return Ok(problem),
    };
    let words = Map::new().with("name", name.as_str());
    let deleted = cx.call_internal("schedule.delete", Vec::new(), words)?;
    if deleted.get("result") != Some(&true.into()) {
        return Ok(deleted);
    }
    Ok(with_minions(
        format!("Moved Job {name} from schedule."),
        minions,
    ))
}

pub(super) fn copy(cx: &Exec, args: Copy) -> Result<Value, Error> {
    let (name, target) = (&args.name, &args.target);
    if is_test(&args.kwargs) {
        return Ok(reply(
            true,
            format!("Job: {name} would be copied from schedule."),
        ));
    }
    Ok(match sent(cx, name, target)? {
        Ok(minions) => {
            let comment = format!("Copied Job {name} from schedule to minion(s).");
            with_minions(comment, minions)
        }
        Err(problem) => problem,
    })
}

fn with_minions(comment: impl Into<Value>, minions: Vec<Value>) -> Value {
    Map::new()
        .with("comment", comment)
        .with("result", true)
        .with("minions", minions)
        .into()
}

/// Makes other minions add a job. Returns the minions that have it, or an answer with the error.
fn sent(cx: &Exec, name: &str, target: &str) -> Result<Result<Vec<Value>, Value>, Error> {
    let jobs = listed(cx, true, None, false)?;
    let Some(job) = jobs.get(name).and_then(Value::as_map) else {
        return Ok(Err(missing(name)));
    };
    let args = vec![
        target.into(),
        "schedule.add".into(),
        words(name, job).into(),
    ];
    let answered = cx.call_internal("publish.publish", args, Map::new())?;
    let answered = answered.as_map().cloned().unwrap_or_default();
    if answered.is_empty() {
        let comment = "no servers answered the published schedule.add command";
        return Ok(Err(reply(false, comment)));
    }
    let has_it = |ret: &Value| ret.as_map().is_some_and(|ret| has(ret, "result"));
    let (mut minions, mut refused) = (Vec::new(), Vec::new());
    for (id, ret) in answered.iter() {
        match has_it(ret) {
            true => minions.push(id.clone()),
            false => refused.push(id.clone()),
        }
    }
    if refused.is_empty() {
        return Ok(Ok(minions));
    }
    let comment = "the following minions return False";
    let answer = Map::new().with("comment", comment).with("result", false);
    Ok(Err(answer.with("minions", refused).into()))
}

/// Returns a job as arguments of `schedule.add`.
fn words(name: &str, job: &Map) -> Vec<Value> {
    let word = |(key, value): (&Value, &Value)| {
        let key = match key.to_text().as_str() {
            "args" => "job_args".to_owned(),
            "kwargs" => "job_kwargs".to_owned(),
            other => other.to_owned(),
        };
        Value::from(format!("{key}={}", json::write(value, Default::default())))
    };
    let items = job.iter().filter(|(key, _)| key.as_str() != Some("name"));
    std::iter::once(name.into())
        .chain(items.map(word))
        .collect()
}
