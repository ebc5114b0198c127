//! The `schedule` execution module without a daemon: what `offline=True` means in Salt. Jobs stand in `minion.d/_schedule.conf`,
//! where a minion finds them when it starts; nothing runs them here.

use std::path::PathBuf;

use render::yaml::{self, Dump};
use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use crate::fs;

state::exec_module! {
    /// Jobs that a minion runs at times. With `offline` they are written to its configuration; without, a running minion is needed.
    mod schedule;

    /// Return the jobs.
    fn list(List {
        /// Jobs of Salt's own too.
        show_all: bool = false,
        /// Jobs that are switched off too.
        show_disabled: bool = true,
        /// Of a running minion only.
        r#where: Option<String> = None,
        /// Return a text of YAML and no data.
        return_yaml: bool = true,
        /// Return those of the file.
        offline: bool = false,
    });

    /// Return a job, or nothing where there is none; without a name, whether the schedule is on.
    fn is_enabled(IsEnabled {
        /// The job.
        name: Option<String> = None,
    });

    /// Return a job as it would be kept.
    fn build_schedule_item(BuildScheduleItem {
        /// Its name.
        name: String,
        ..kwargs
    });

    /// Add a job.
    fn add(Add {
        /// Its name.
        name: String,
        ..kwargs
    });

    /// Change a job.
    fn modify(Modify {
        /// Its name.
        name: String,
        ..kwargs
    });

    /// Remove a job.
    fn delete(Delete {
        /// Its name.
        name: String,
        ..kwargs
    });

    /// Remove all jobs.
    fn purge(Purge {..kwargs});

    /// Switch a job on.
    fn enable_job(EnableJob {
        /// Its name.
        name: String,
        ..kwargs
    });

    /// Switch a job off.
    fn disable_job(DisableJob {
        /// Its name.
        name: String,
        ..kwargs
    });
}

/// What a job may say.
const KNOWN: &[&str] = &[
    "name",
    "maxrunning",
    "function",
    "splay",
    "range",
    "when",
    "once",
    "once_fmt",
    "returner",
    "jid_include",
    "args",
    "kwargs",
    "_seconds",
    "seconds",
    "minutes",
    "hours",
    "days",
    "enabled",
    "return_job",
    "metadata",
    "cron",
    "until",
    "after",
    "return_config",
    "return_kwargs",
    "run_on_start",
    "skip_during_range",
    "run_after_skip_range",
];

const INTERVALS: [&str; 4] = ["seconds", "minutes", "hours", "days"];

/// What is taken as it is given, in Salt's order.
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

fn file(cx: &Exec) -> PathBuf {
    let include = cx
        .opts()
        .text("default_include")
        .unwrap_or("minion.d/*.conf");
    let folder = include.rsplit_once('/').map_or("", |(folder, _)| folder);
    let conf = cx.opts().path("conf_file");
    conf.with_file_name(folder).join("_schedule.conf")
}

/// The jobs of the file.
fn saved(cx: &Exec) -> Result<Map, Error> {
    let path = file(cx);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(error) => return Err(Error::io(&path)(error)),
    };
    let data = yaml::load(&text)
        .map_err(|error| Error::refused(format!("{}: {}", path.display(), error.salt_message())))?;
    let jobs = data.get("schedule").and_then(Value::as_map);
    Ok(jobs.cloned().unwrap_or_default())
}

fn save(cx: &Exec, jobs: &Map) -> Result<(), Error> {
    let path = file(cx);
    let data = Map::new().with("schedule", jobs.clone());
    if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
        fs::mkdir(cx, folder).map_err(Error::io(folder))?;
    }
    let text = dumped(&data.into(), None)?;
    fs::write(cx, &path, text.as_bytes(), fs::Owner::default())?;
    // A daemon reads its jobs again; without one they run when one starts.
    cx.ask(Ask::Refresh { what: "schedule" })?;
    Ok(())
}

fn dumped(data: &Value, flow: Option<bool>) -> Result<String, Error> {
    let layout = Dump {
        default_flow_style: flow,
        sort_keys: true,
        ..Dump::default()
    };
    yaml::dump(data, &layout).map_err(|error| Error::refused(error.to_string()))
}

fn is_offline(kwargs: &Map) -> bool {
    kwargs.get("offline").is_some_and(Value::is_true)
}

fn is_test(kwargs: &Map) -> bool {
    kwargs.get("test").is_some_and(Value::is_true)
}

/// The jobs as `schedule.list` tells them; without a minion there are those of the file or none.
fn listed(cx: &Exec, show_all: bool, offline: bool) -> Result<Map, Error> {
    let mut jobs = if offline { saved(cx)? } else { Map::new() };
    jobs.retain(|name, _| show_all || !name.to_text().starts_with("__"));
    for (name, job) in jobs.iter_mut() {
        if ["enabled", "skip_function", "skip_during_range"].contains(&name.to_text().as_str()) {
            continue;
        }
        let Some(job) = job.as_map_mut() else {
            continue;
        };
        job.retain(|item, value| {
            let item = item.to_text();
            KNOWN.contains(&item.as_str()) && item != "_seconds" && !value.is_null()
        });
        if !job.contains("enabled") {
            job.insert("enabled", true);
        }
    }
    Ok(jobs)
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    let mut jobs = listed(cx, args.show_all, args.offline)?;
    jobs.retain(|_, job| args.show_disabled || job.get("enabled") != Some(&false.into()));
    if !args.return_yaml {
        return Ok(jobs.into());
    }
    for (_, job) in jobs.iter_mut() {
        if let Some(job) = job.as_map_mut() {
            job.insert("saved", true);
        }
    }
    let data = Map::new().with("schedule", jobs);
    Ok(dumped(&data.into(), Some(false))?.into())
}

fn is_enabled(_cx: &Exec, args: IsEnabled) -> Result<Value, Error> {
    Ok(match args.name {
        None => true.into(),
        Some(_) => Map::new().into(),
    })
}

fn answer(result: bool, comment: impl Into<Value>) -> Map {
    Map::new()
        .with("comment", comment)
        .with("result", result)
        .with("changes", Map::new())
}

/// What needs a minion that runs.
fn unreachable(comment: String) -> Value {
    log::warning("No minion runs here: offline=True works on its configuration");
    answer(false, comment).into()
}

/// What is wrong with the times of a job.
fn conflict(kwargs: &Map) -> Option<&'static str> {
    let has = |name| kwargs.contains(name);
    if INTERVALS.into_iter().any(has) && (has("when") || has("cron")) {
        return Some(
            "Unable to use \"seconds\", \"minutes\", \"hours\", or \"days\" with \"when\" or \"cron\" options.",
        );
    }
    (has("when") && has("cron"))
        .then_some("Unable to use \"when\" and \"cron\" options together.  Ignoring.")
}

/// A job from what is asked for, or what is wrong with it.
fn item(name: &str, kwargs: &Map) -> Result<Map, String> {
    if let Some(conflict) = conflict(kwargs) {
        return Err(conflict.into());
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

fn build_schedule_item(_cx: &Exec, args: BuildScheduleItem) -> Result<Value, Error> {
    Ok(match item(&args.name, &args.kwargs) {
        Ok(job) => job.into(),
        Err(problem) => refused(&problem),
    })
}

/// As Salt answers for a job that makes no sense.
fn refused(problem: &str) -> Value {
    Map::new()
        .with("comment", problem)
        .with("result", false)
        .into()
}

fn add(cx: &Exec, args: Add) -> Result<Value, Error> {
    let (name, kwargs) = (&args.name, &args.kwargs);
    let offline = is_offline(kwargs);
    let mut jobs = listed(cx, true, offline)?;
    if jobs.contains(name) {
        return Ok(answer(false, format!("Job {name} already exists in schedule.")).into());
    }
    if let Some(conflict) = conflict(kwargs) {
        return Ok(answer(false, format!("Error: {conflict}")).into());
    }
    let job = match item(name, kwargs) {
        Ok(job) => job,
        Err(problem) => return Ok(refused(&problem)),
    };
    if is_test(kwargs) {
        return Ok(answer(true, format!("Job: {name} would be added to schedule.")).into());
    }
    if !offline {
        return Ok(unreachable(format!(
            "Failed to add job {name} to schedule."
        )));
    }
    jobs.insert(name.as_str(), job);
    save(cx, &jobs)?;
    Ok(changed(
        name,
        "added",
        format!("Added job: {name} to schedule."),
    ))
}

fn changed(name: &str, what: impl Into<Value>, comment: String) -> Value {
    let mut answer = answer(true, comment);
    answer.insert("changes", Map::new().with(name, what));
    answer.into()
}

fn modify(cx: &Exec, args: Modify) -> Result<Value, Error> {
    let (name, mut kwargs) = (args.name.as_str(), args.kwargs);
    if let Some(conflict) = conflict(&kwargs) {
        return Ok(answer(false, format!("Error: {conflict}")).into());
    }
    let mut jobs = listed(cx, true, is_offline(&kwargs))?;
    let Some(old) = jobs.get(name).and_then(Value::as_map).cloned() else {
        return Ok(answer(false, format!("Job {name} does not exist in schedule.")).into());
    };
    if !kwargs.contains("function") {
        kwargs.insert("function", old.get("function").cloned());
    }
    let new = match item(name, &kwargs) {
        Ok(new) => new,
        Err(problem) => return Ok(refused(&problem)),
    };
    if new == old {
        return Ok(answer(true, format!("Job {name} in correct state")).into());
    }
    let change = Map::new().with("old", old.clone()).with("new", new.clone());
    if is_test(&kwargs) {
        let comment = format!("Job: {name} would be modified in schedule.");
        return Ok(changed(name, change, comment));
    }
    let mut merged = old;
    merged.update(new);
    jobs.insert(name, merged);
    save(cx, &jobs)?;
    let comment = format!("Modified job: {name} in schedule.");
    Ok(changed(name, change, comment))
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    let (name, kwargs) = (args.name.as_str(), &args.kwargs);
    if is_test(kwargs) {
        return Ok(answer(true, format!("Job: {name} would be deleted from schedule.")).into());
    }
    let mut jobs = listed(cx, true, is_offline(kwargs))?;
    if jobs.remove(name).is_none() {
        return Ok(answer(false, format!("Job {name} does not exist.")).into());
    }
    save(cx, &jobs)?;
    let comment = format!("Deleted Job {name} from schedule.");
    Ok(changed(name, "removed", comment))
}

fn purge(cx: &Exec, args: Purge) -> Result<Value, Error> {
    let mut jobs = listed(cx, true, is_offline(&args.kwargs))?;
    let own = |name: &Value| name.as_str() != Some("enabled") && !name.to_text().starts_with("__");
    let names: Vec<String> = jobs
        .keys()
        .filter(|name| own(name))
        .map(Value::to_text)
        .collect();
    let test = is_test(&args.kwargs);
    let (mut comments, mut changes) = (Vec::new(), Map::new());
    for name in names {
        if test {
            comments.push(format!("Job: {name} would be deleted from schedule."));
            continue;
        }
        jobs.remove(&name);
        comments.push(format!("Deleted job: {name} from schedule."));
        changes.insert(name, "removed");
    }
    if !changes.is_empty() {
        save(cx, &jobs)?;
    }
    let mut answer = answer(true, comments);
    answer.insert("changes", changes);
    Ok(answer.into())
}

fn enable_job(cx: &Exec, args: EnableJob) -> Result<Value, Error> {
    switch(cx, &args.name, &args.kwargs, true)
}

fn disable_job(cx: &Exec, args: DisableJob) -> Result<Value, Error> {
    switch(cx, &args.name, &args.kwargs, false)
}

fn switch(cx: &Exec, name: &str, kwargs: &Map, on: bool) -> Result<Value, Error> {
    let (word, done) = if on {
        ("enabled", "Enabled")
    } else {
        ("disabled", "Disabled")
    };
    if is_test(kwargs) || cx.test {
        return Ok(answer(true, format!("Job: {name} would be {word} in schedule.")).into());
    }
    let mut jobs = listed(cx, true, is_offline(kwargs))?;
    let Some(job) = jobs.get_mut(name).and_then(Value::as_map_mut) else {
        return Ok(answer(false, format!("Job {name} does not exist.")).into());
    };
    let old = job.insert("enabled", on);
    let comment = format!("{done} Job {name} in schedule.");
    if old == Some(on.into()) {
        return Ok(answer(true, comment).into());
    }
    save(cx, &jobs)?;
    Ok(changed(name, word, comment))
}
