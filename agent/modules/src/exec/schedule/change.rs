//! Adds, changes and removes jobs, through the running minion or in the file.

use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::item::{both, conflicts, item, refused};
use super::{
    Add, Delete, DisableJob, EnableJob, Modify, Purge, answer, done, is_offline, is_test, listed,
};
use crate::exec::schedule::file;

/// Writes the jobs to the file. If a minion runs nevertheless, it reads the jobs again.
fn save(cx: &Exec, jobs: &Map) -> Result<(), Error> {
    file::write(cx, jobs)?;
    cx.ask(Ask::Refresh {
        what: "schedule",
        wait_s: None,
    })?;
    Ok(())
}

/// Returns the keyword of a request that says whether the minion writes the change to its file.
fn kept(kwargs: &Map) -> Map {
    let persist = kwargs.get("persist").is_none_or(Value::is_true);
    Map::new().with("persist", persist)
}

fn changed(name: &str, what: impl Into<Value>, comment: String) -> Value {
    let mut answer = answer(true, comment);
    answer.insert("changes", Map::new().with(name, what));
    answer.into()
}

fn failed(comment: String) -> Result<Value, Error> {
    Ok(answer(false, comment).into())
}

pub(super) fn add(cx: &Exec, args: Add) -> Result<Value, Error> {
    let (name, kwargs) = (&args.name, &args.kwargs);
    let offline = is_offline(kwargs);
    let mut jobs = listed(cx, true, None, offline)?;
    if jobs.contains(name) {
        return failed(format!("Job {name} already exists in schedule."));
    }
    if conflicts(kwargs) {
        return failed("Error: Unable to use \"seconds\", \"minutes\", \"hours\", or \"days\" with \"when\" or \"cron\" options.".to_owned());
    }
    if let Some(both) = both(kwargs) {
        return failed(both.to_owned());
    }
    let job = match item(cx, name, kwargs)? {
        Ok(job) => job,
        Err(problem) => return Ok(refused(&problem)),
    };
    if is_test(kwargs) {
        return Ok(answer(true, format!("Job: {name} would be added to schedule.")).into());
    }
    if offline {
        jobs.insert(name.as_str(), job);
        save(cx, &jobs)?;
    } else if done(cx, "add", Some(name), kept(kwargs).with("schedule", job))?.is_none() {
        return failed(format!("Failed to add job {name} to schedule."));
    }
    let comment = format!("Added job: {name} to schedule.");
    Ok(changed(name, "added", comment))
}

pub(super) fn modify(cx: &Exec, args: Modify) -> Result<Value, Error> {
    let (name, mut kwargs) = (args.name.as_str(), args.kwargs);
    if conflicts(&kwargs) {
        return failed("Error: Unable to use \"seconds\", \"minutes\", \"hours\", or \"days\" with \"when\" option.".to_owned());
    }
    if let Some(both) = both(&kwargs) {
        return failed(both.to_owned());
    }
    let offline = is_offline(&kwargs);
    let mut jobs = listed(cx, true, None, offline)?;
    let Some(old) = jobs.get(name).and_then(Value::as_map).cloned() else {
        return failed(format!("Job {name} does not exist in schedule."));
    };
    kwargs.entry("function", || {
        old.get("function").cloned().unwrap_or_default()
    });
    let new = match item(cx, name, &kwargs)? {
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
    if offline {
        let mut merged = old;
        merged.update(new);
        jobs.insert(name, merged);
        save(cx, &jobs)?;
    } else if done(
        cx,
        "modify",
        Some(name),
        kept(&kwargs).with("schedule", new),
    )?
    .is_none()
    {
        return failed(format!("Failed to modify job {name} in schedule."));
    }
    let comment = format!("Modified job: {name} in schedule.");
    Ok(changed(name, change, comment))
}

pub(super) fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    let (name, kwargs) = (args.name.as_str(), &args.kwargs);
    if is_test(kwargs) {
        return Ok(answer(true, format!("Job: {name} would be deleted from schedule.")).into());
    }
    let offline = is_offline(kwargs);
    let mut jobs = listed(cx, true, None, offline)?;
    if jobs.remove(name).is_none() {
        return failed(format!("Job {name} does not exist."));
    }
    if offline {
        save(cx, &jobs)?;
    } else if done(cx, "delete", Some(name), kept(kwargs))?.is_none() {
        return failed(format!("Failed to delete job {name} from schedule."));
    }
    let comment = format!("Deleted Job {name} from schedule.");
    Ok(changed(name, "removed", comment))
}

pub(super) fn purge(cx: &Exec, args: Purge) -> Result<Value, Error> {
    let (kwargs, offline) = (&args.kwargs, is_offline(&args.kwargs));
    let mut jobs = listed(cx, true, None, offline)?;
    let own = |name: &&Value| name.as_str() != Some("enabled") && !name.to_text().starts_with("__");
    let names: Vec<String> = jobs.keys().filter(own).map(Value::to_text).collect();
    let (mut comments, mut changes) = (Vec::new(), Map::new());
    for name in names {
        if is_test(kwargs) {
            comments.push(format!("Job: {name} would be deleted from schedule."));
            continue;
        }
        if !offline && done(cx, "delete", Some(&name), kept(kwargs))?.is_none() {
            comments.push(format!("Failed to delete job {name} from schedule."));
            continue;
        }
        jobs.remove(&name);
        comments.push(format!("Deleted job: {name} from schedule."));
        changes.insert(name, "removed");
    }
    if offline && !changes.is_empty() {
        save(cx, &jobs)?;
    }
    let mut answer = answer(true, comments);
    answer.insert("changes", changes);
    Ok(answer.into())
}

pub(super) fn enable_job(cx: &Exec, args: EnableJob) -> Result<Value, Error> {
    switch(cx, &args.name, &args.kwargs, true)
}

pub(super) fn disable_job(cx: &Exec, args: DisableJob) -> Result<Value, Error> {
    switch(cx, &args.name, &args.kwargs, false)
}

fn switch(cx: &Exec, name: &str, kwargs: &Map, on: bool) -> Result<Value, Error> {
    let (fun, word, verb, past) = match on {
        true => ("enable_job", "enabled", "enable", "Enabled"),
        false => ("disable_job", "disabled", "disable", "Disabled"),
    };
    if is_test(kwargs) || cx.test {
        return Ok(answer(true, format!("Job: {name} would be {word} in schedule.")).into());
    }
    let offline = is_offline(kwargs);
    let mut jobs = listed(cx, true, None, offline)?;
    let Some(job) = jobs.get_mut(name).and_then(Value::as_map_mut) else {
        return failed(format!("Job {name} does not exist."));
    };
    let is_so = job.insert("enabled", on) == Some(on.into());
    let comment = format!("{past} Job {name} in schedule.");
    if offline && is_so {
        return Ok(answer(true, comment).into());
    }
    if offline {
        save(cx, &jobs)?;
    } else if done(cx, fun, Some(name), kept(kwargs))?.is_none() {
        return failed(format!("Failed to {verb} job {name} in schedule."));
    }
    Ok(changed(name, word, comment))
}
