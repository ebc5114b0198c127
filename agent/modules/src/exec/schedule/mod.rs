//! The `schedule` execution module: the jobs that a minion runs at set times. The functions send
//! their changes to the running minion. With `offline=True` they change `minion.d/_schedule.conf`,
//! which a minion reads when it starts.

mod change;
pub mod file;
mod item;
mod running;

use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use change::{add, delete, disable_job, enable_job, modify, purge};
use item::build_schedule_item;
use running::{
    copy, disable, enable, job_status, r#move, postpone_job, reload, run_job, save,
    show_next_fire_time, skip_job,
};

state::exec_module! {
    /// Manage the jobs that a minion runs at set times. With `offline=True` the functions use the
    /// configuration file instead of the running minion.
    mod schedule;

    /// Return the scheduled jobs.
    ///
    ///     salt-call schedule.list
    fn list(List {
        /// True to include Salt's internal jobs.
        show_all: bool = false,
        /// True to include disabled jobs.
        show_disabled: bool = true,
        /// The source of the jobs; only for a running minion.
        r#where: Option<String> = None,
        /// True to return YAML text, False to return data.
        return_yaml: bool = true,
        /// True to return the jobs of the configuration file.
        offline: bool = false,
    });

    /// Return a job, or an empty dictionary if it does not exist. Without a name, return whether
    /// the schedule is enabled.
    ///
    ///     salt-call schedule.is_enabled nightly
    fn is_enabled(IsEnabled {
        /// The name of the job.
        name: Option<String> = None,
    });

    /// Run a job now, regardless of its schedule.
    ///
    ///     salt-call schedule.run_job nightly
    fn run_job(RunJob {
        /// The name of the job.
        name: String,
        /// True to run the job even if it is disabled.
        force: bool = false,
    });

    /// Enable the schedule.
    ///
    ///     salt-call schedule.enable
    fn enable(Enable {..kwargs});

    /// Disable the schedule.
    ///
    ///     salt-call schedule.disable
    fn disable(Disable {..kwargs});

    /// Save the jobs to the configuration of the minion.
    ///
    ///     salt-call schedule.save
    fn save(Save {..kwargs});

    /// Reload the jobs of the pillar and of `schedule.conf`.
    ///
    ///     salt-call schedule.reload
    fn reload(Reload {});

    /// Move a job to other minions.
    ///
    ///     salt-call schedule.move nightly web2
    fn r#move(Move {
        /// The name of the job.
        name: String,
        /// The target expression that selects minions.
        target: String,
        ..kwargs
    });

    /// Copy a job to other minions.
    ///
    ///     salt-call schedule.copy nightly web2
    fn copy(Copy {
        /// The name of the job.
        name: String,
        /// The target expression that selects minions.
        target: String,
        ..kwargs
    });

    /// Move one run of a job to another time.
    ///
    ///     salt-call schedule.postpone_job nightly 2026-11-25T03:00:00 2026-11-25T05:00:00
    fn postpone_job(PostponeJob {
        /// The name of the job.
        name: String,
        /// The time at which the job would run.
        current_time: String,
        /// The time at which the job runs instead.
        new_time: String,
        ..kwargs
    });

    /// Skip one run of a job.
    ///
    ///     salt-call schedule.skip_job nightly 2026-11-25T03:00:00
    fn skip_job(SkipJob {
        /// The name of the job.
        name: String,
        /// The time at which the job would run.
        current_time: String,
        ..kwargs
    });

    /// Return the time of the next run of a job.
    ///
    ///     salt-call schedule.show_next_fire_time nightly
    fn show_next_fire_time(ShowNextFireTime {
        /// The name of the job.
        name: String,
        ..kwargs
    });

    /// Return the status of a job.
    ///
    ///     salt-call schedule.job_status nightly
    fn job_status(JobStatus {
        /// The name of the job.
        name: String,
        /// The format of times.
        time_fmt: String = "%Y-%m-%dT%H:%M:%S".into(),
    });

    /// Return a job in the form in which it would be stored.
    ///
    ///     salt-call schedule.build_schedule_item nightly function=state.apply when=3:00am
    fn build_schedule_item(BuildScheduleItem {
        /// The name of the job.
        name: String,
        ..kwargs
    });

    /// Add a job.
    ///
    ///     salt-call schedule.add nightly function=state.apply when=3:00am
    fn add(Add {
        /// The name of the job.
        name: String,
        ..kwargs
    });

    /// Change a job.
    ///
    ///     salt-call schedule.modify nightly function=state.apply when=4:00am
    fn modify(Modify {
        /// The name of the job.
        name: String,
        ..kwargs
    });

    /// Remove a job.
    ///
    ///     salt-call schedule.delete nightly
    fn delete(Delete {
        /// The name of the job.
        name: String,
        ..kwargs
    });

    /// Remove all jobs.
    ///
    ///     salt-call schedule.purge
    fn purge(Purge {..kwargs});

    /// Enable a job.
    ///
    ///     salt-call schedule.enable_job nightly
    fn enable_job(EnableJob {
        /// The name of the job.
        name: String,
        ..kwargs
    });

    /// Disable a job.
    ///
    ///     salt-call schedule.disable_job nightly
    fn disable_job(DisableJob {
        /// The name of the job.
        name: String,
        ..kwargs
    });
}

/// The keys that a job may have.
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

/// The keys of a schedule that are not jobs.
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

/// Returns the answer of the running minion, or `None` if no minion runs.
fn send_to_minion(
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

/// Makes the running minion do something and returns its answer if it succeeds. The reason of a
/// failure is logged.
fn done(cx: &Exec, fun: &'static str, name: Option<&str>, data: Map) -> Result<Option<Map>, Error> {
    let Some(answer) = send_to_minion(cx, fun, name, data)? else {
        log::warning("No minion is running: use offline=True to work on its configuration");
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

/// Returns the jobs of a source, or the jobs of the file.
fn jobs(cx: &Exec, place: Option<&str>, offline: bool) -> Result<Map, Error> {
    if offline {
        return file::read(cx.opts());
    }
    let data = Map::new().with("where", place);
    let answer = send_to_minion(cx, "list", None, data)?.unwrap_or_default();
    let jobs = answer.get("schedule").and_then(Value::as_map);
    Ok(jobs.cloned().unwrap_or_default())
}

/// Returns the jobs in the form of `schedule.list`; empty if no minion runs.
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

/// Reduces a job to the items that are shown.
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
    let saved = file::read(cx.opts())?;
    let configured = cx.opts().map.get("schedule");
    for (name, job) in jobs.iter_mut() {
        let name = name.to_text();
        let is_configured = configured.is_some_and(|jobs| jobs.get(&name).is_some());
        if let Some(job) = job.as_map_mut() {
            job.insert("saved", saved.contains(&name) || is_configured);
        }
    }
    Ok(file::dumped(&jobs, Some(false))?.into())
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
