//! The `schedule` execution module: the jobs that a minion runs at times. A running minion is asked and changes them; with
//! `offline=True` they stand in `minion.d/_schedule.conf`, where a minion finds them when it starts.

mod change;
mod item;
mod running;

use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use crate::schedule_file;
use change::{add, delete, disable_job, enable_job, modify, purge};
use item::build_schedule_item;
use running::{
    copy, disable, enable, job_status, r#move, postpone_job, reload, run_job, save,
    show_next_fire_time, skip_job,
};

state::exec_module! {
    /// Jobs that a minion runs at times: of the running minion, or with `offline` of its configuration.
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

    /// Run a job now, whatever its times say.
    fn run_job(RunJob {
        /// The job.
        name: String,
        /// Also one that is switched off.
        force: bool = false,
    });

    /// Switch the schedule on.
    fn enable(Enable {..kwargs});

    /// Switch the schedule off.
    fn disable(Disable {..kwargs});

    /// Write the jobs to the minion's configuration.
    fn save(Save {..kwargs});

    /// Read the jobs again: those of the pillar, and those of `schedule.conf`.
    fn reload(Reload {});

    /// Move a job to other minions.
    fn r#move(Move {
        /// The job.
        name: String,
        /// Which minions.
        target: String,
        ..kwargs
    });

    /// Copy a job to other minions.
    fn copy(Copy {
        /// The job.
        name: String,
        /// Which minions.
        target: String,
        ..kwargs
    });

    /// Run a job at another time than one of its own.
    fn postpone_job(PostponeJob {
        /// The job.
        name: String,
        /// When it would run.
        current_time: String,
        /// When it is to run.
        new_time: String,
        ..kwargs
    });

    /// Leave a job out at one of its times.
    fn skip_job(SkipJob {
        /// The job.
        name: String,
        /// When it would run.
        current_time: String,
        ..kwargs
    });

    /// Return when a job runs next.
    fn show_next_fire_time(ShowNextFireTime {
        /// The job.
        name: String,
        ..kwargs
    });

    /// Return what is known of a job.
    fn job_status(JobStatus {
        /// The job.
        name: String,
        /// How times are written.
        time_fmt: String = "%Y-%m-%dT%H:%M:%S".into(),
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

/// What is no job among the jobs.
const HIDDEN: [&str; 3] = ["enabled", "skip_function", "skip_during_range"];

fn is_offline(kwargs: &Map) -> bool {
    has(kwargs, "offline")
}

fn is_test(kwargs: &Map) -> bool {
    has(kwargs, "test")
}

fn has(map: &Map, key: &str) -> bool {
    map.get(key).is_some_and(Value::is_true)
}

/// What the running minion answers; nothing where none runs.
fn asked(
    cx: &Exec,
    fun: &'static str,
    name: Option<&str>,
    data: Map,
) -> Result<Option<Map>, Error> {
    let name = name.map(str::to_owned);
    Ok(match cx.ask(Ask::Schedule { fun, name, data })? {
        Some(Value::Map(answer)) => Some(answer),
        _ => None,
    })
}

/// Has the running minion do something; what it answers when it did. Why it did not stands in the log.
fn done(cx: &Exec, fun: &'static str, name: Option<&str>, data: Map) -> Result<Option<Map>, Error> {
    let Some(answer) = asked(cx, fun, name, data)? else {
        log::warning("No minion runs here: offline=True works on its configuration");
        return Ok(None);
    };
    if has(&answer, "complete") {
        return Ok(Some(answer));
    }
    if let Some(comment) = answer.get("comment") {
        log::warning(comment.to_text());
    }
    Ok(None)
}

/// The jobs of a place, or those of the file.
fn jobs(cx: &Exec, place: Option<&str>, offline: bool) -> Result<Map, Error> {
    if offline {
        return schedule_file::read(cx.opts());
    }
    let data = Map::new().with("where", place);
    let answer = asked(cx, "list", None, data)?.unwrap_or_default();
    let jobs = answer.get("schedule").and_then(Value::as_map);
    Ok(jobs.cloned().unwrap_or_default())
}

/// The jobs as `schedule.list` tells them; there are none where no minion runs.
fn listed(cx: &Exec, show_all: bool, place: Option<&str>, offline: bool) -> Result<Map, Error> {
    let mut jobs = jobs(cx, place, offline)?;
    jobs.retain(|name, _| show_all || !name.to_text().starts_with("__"));
    for (name, job) in jobs.iter_mut() {
        if let Some(job) = job.as_map_mut()
            && !HIDDEN.contains(&name.to_text().as_str())
        {
            tell(job);
        }
    }
    Ok(jobs)
}

/// Leaves what is told of a job.
fn tell(job: &mut Map) {
    job.retain(|item, value| {
        let item = item.to_text();
        KNOWN.contains(&item.as_str()) && item != "_seconds" && !value.is_null()
    });
    for (_, value) in job.iter_mut() {
        match value.as_str() {
            Some("true") => *value = true.into(),
            Some("false") => *value = false.into(),
            _ => {}
        }
    }
    job.entry("enabled", || true.into());
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    let mut jobs = listed(cx, args.show_all, args.r#where.as_deref(), args.offline)?;
    jobs.retain(|_, job| args.show_disabled || job.get("enabled") != Some(&false.into()));
    if !args.return_yaml {
        return Ok(jobs.into());
    }
    let saved = schedule_file::read(cx.opts())?;
    let configured = cx.opts().map.get("schedule");
    for (name, job) in jobs.iter_mut() {
        let name = name.to_text();
        let is_configured = configured.is_some_and(|jobs| jobs.get(&name).is_some());
        if let Some(job) = job.as_map_mut() {
            job.insert("saved", saved.contains(&name) || is_configured);
        }
    }
    Ok(schedule_file::dumped(&jobs, Some(false))?.into())
}

fn is_enabled(cx: &Exec, args: IsEnabled) -> Result<Value, Error> {
    let jobs = listed(cx, false, None, false)?;
    let found = |name: &str| jobs.get(name).cloned();
    Ok(match args.name {
        None => found("enabled").unwrap_or_else(|| true.into()),
        Some(name) => found(&name).unwrap_or_else(|| Map::new().into()),
    })
}

fn answer(result: bool, comment: impl Into<Value>) -> Map {
    Map::new()
        .with("comment", comment)
        .with("result", result)
        .with("changes", Map::new())
}
