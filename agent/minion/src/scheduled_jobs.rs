//! Jobs that the daemon starts by itself: those of its schedule, the updates of the mine, and the
//! startup states.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::civil::DateTime;
use link::wait::pause;
use modules::loader::call;
use smol::future::FutureExt;
use state::opts::Opts;
use value::{Map, Value, jid, log};
use wire::Job;

use crate::beacon_loop;
use crate::jobs::Jobs;
use crate::launcher::{Launcher, ReturnTo};
use crate::schedule::{Due, Now, ReturnJob, Schedule, Source, manage};
use crate::wakeup::Wakeup;

/// The longest wait between two looks at the schedule, for changes that the daemon was not notified
/// of.
const IDLE: Duration = Duration::from_secs(3600);
/// The options of the configuration that the plan depends on.
pub(crate) const OF_CONFIG: [&str; 4] = [
    "schedule",
    "mine_functions",
    "mine_interval",
    "mine_enabled",
];
/// The keys of the pillar that the plan depends on.
const OF_PILLAR: [&str; 4] = ["schedule", "whens", "mine_functions", "mine_interval"];
/// The keys of the grains that the plan depends on.
const OF_GRAINS: [&str; 1] = ["whens"];

/// The schedule, the data that it is made from, and the parts of the daemon that run its jobs.
pub(crate) struct ScheduledJobs {
    opts: Opts,
    jobs: Arc<Jobs>,
    launcher: Launcher,
    parts: Mutex<Parts>,
    changed: Wakeup,
}

struct Parts {
    schedule: Schedule,
    /// The schedule as the configuration files had it. Changes at run time remain when the files
    /// are read again, unless their schedule differs from this one.
    configured: Value,
    config: Map,
    pillar: Map,
    grains: Map,
}

impl std::fmt::Debug for ScheduledJobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScheduledJobs").finish_non_exhaustive()
    }
}

fn kept(map: &Map, names: &[&str]) -> Map {
    let names = names.iter();
    names
        .filter_map(|name| Some((Value::from(*name), map.get(name)?.clone())))
        .collect()
}

fn has_mine(opts: &Map, pillar: &Map) -> bool {
    let of_either = pillar
        .get("mine_functions")
        .or_else(|| opts.get("mine_functions"));
    let is_enabled = opts.get("mine_enabled").is_none_or(Value::is_true);
    is_enabled && of_either.is_some_and(Value::is_true)
}

/// The result of a request about the schedule.
struct Managed {
    answer: Map,
    due: Option<Due>,
    /// The jobs to write to the schedule's file, if they have changed.
    saved: Option<Map>,
}

fn schedule(config: &Map) -> Value {
    config.get("schedule").cloned().unwrap_or_default()
}

/// Returns the schedule of the configuration. If there is a mine, it includes the job that updates
/// it (Salt's `__mine_interval`).
fn configured_jobs(opts: &Map, pillar: &Map) -> Value {
    let mut jobs = opts
        .get("schedule")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    if has_mine(opts, pillar) {
        let minutes = pillar
            .get("mine_interval")
            .or_else(|| opts.get("mine_interval"));
        let minutes = minutes.cloned().unwrap_or_else(|| 60.into());
        let job = Map::new()
            .with("function", "mine.update")
            .with("minutes", minutes)
            .with("jid_include", true)
            .with("maxrunning", 2)
            .with("return_job", false);
        jobs.insert("__mine_interval", job);
    }
    jobs.into()
}

impl ScheduledJobs {
    pub(crate) fn new(opts: &Opts, jobs: Arc<Jobs>, launcher: Launcher) -> Self {
        let config = kept(&opts.map, &OF_CONFIG);
        let nothing = Map::new();
        let source = Source {
            config: &configured_jobs(&config, &nothing),
            pillar: &nothing,
            grains: &nothing,
        };
        let parts = Parts {
            configured: schedule(&config),
            schedule: Schedule::new(source, &Now::read()),
            config,
            pillar: nothing.clone(),
            grains: nothing.clone(),
        };
        let scheduled = Self {
            opts: opts.clone(),
            jobs,
            launcher,
            parts: Mutex::new(parts),
            changed: Wakeup::new(),
        };
        scheduled.parts().tell_faults();
        scheduled
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Parts)) {
        let mut parts = self.parts();
        change(&mut parts);
        parts.read();
        drop(parts);
        self.changed.ring();
    }

    /// Applies a configuration that was read again.
    pub(crate) fn has_config(&self, opts: &Map) {
        self.change(|parts| {
            let mut config = kept(opts, &OF_CONFIG);
            let said = schedule(&config);
            if said == parts.configured {
                config.insert("schedule", parts.config.get("schedule").cloned());
            } else {
                parts.configured = said;
            }
            parts.config = config;
        });
    }

    /// Answers a request about the schedule. The result includes a job to start now, if the request
    /// asks for one.
    fn managed(&self, asked: &wire::Schedule) -> Managed {
        let running = |name: &str| self.jobs.scheduled(name);
        let (mut parts, now) = (self.parts(), Now::read());
        let name = asked.name.as_deref().unwrap_or_default();
        let (mut answer, mut due) = (Map::new().with("complete", true), None);
        match asked.fun.as_str() {
            "run_job" => {
                due = parts.schedule.at_once(name, running);
                answer.insert("complete", due.is_some());
            }
            "next_fire_time" => {
                let next = parts.schedule.next_fire_time(name, &now);
                answer.insert("next_fire_time", next.map(format_time));
            }
            _ => answer = parts.managed(asked, &now),
        }
        let is_done = answer.get("complete").is_some_and(Value::is_true);
        let saved = (is_done && manage::is_kept(asked)).then(|| manage::saved(&parts.own()));
        drop(parts);
        self.changed.ring();
        Managed { answer, due, saved }
    }

    /// Applies a pillar that was compiled again.
    pub(crate) fn has_pillar(&self, pillar: &Map) {
        self.change(|parts| parts.pillar = kept(pillar, &OF_PILLAR));
    }

    /// Applies grains that were collected again.
    pub(crate) fn has_grains(&self, grains: &Map) {
        self.change(|parts| parts.grains = kept(grains, &OF_GRAINS));
    }
}

/// Returns a time as Salt shows it.
fn format_time(time: DateTime) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

impl Parts {
    /// Returns the jobs of the configuration, including changes at run time.
    fn own(&self) -> Map {
        let own = self.config.get("schedule").and_then(Value::as_map);
        own.cloned().unwrap_or_default()
    }

    /// Answers a request about the configured jobs, and applies the changes that it makes to them.
    fn managed(&mut self, asked: &wire::Schedule, now: &Now) -> Map {
        let mut own = self.own();
        let mut salts = configured_jobs(&self.config, &self.pillar);
        if let Some(salts) = salts.as_map_mut() {
            salts.retain(|name, _| name.to_text().starts_with("__"));
        }
        let salts = salts.as_map().cloned().unwrap_or_default();
        let pillar = self.pillar.get("schedule").and_then(Value::as_map);
        let pillar = pillar.cloned().unwrap_or_default();
        let mut answer = manage::managed(asked, &mut own, &pillar, &salts, now.wall.date());
        if own != self.own() {
            self.config.insert("schedule", own);
            self.read();
        }
        if asked.fun == "status" {
            let name = asked.name.as_deref().unwrap_or_default();
            let next = self.schedule.next_fire_time(name, now);
            answer.insert("next_fire_time", next.map(format_time));
        }
        answer
    }

    fn read(&mut self) {
        let config = configured_jobs(&self.config, &self.pillar);
        let source = Source {
            config: &config,
            pillar: &self.pillar,
            grains: &self.grains,
        };
        self.schedule.update(source, &Now::read());
        self.tell_faults();
    }

    fn tell_faults(&self) {
        for fault in self.schedule.faults() {
            log::error(format_args!(
                "cannot schedule the job {:?}: {}",
                fault.job, fault.text
            ));
        }
    }
}

impl ScheduledJobs {
    /// Starts the jobs that are due, for as long as the daemon runs.
    pub(crate) async fn run(&self) -> Infallible {
        loop {
            let now = Now::read();
            let (due, next) = {
                let mut parts = self.parts();
                let due = parts.schedule.due(&now, |name| self.jobs.scheduled(name));
                (due, parts.schedule.next(&now))
            };
            for due in due {
                self.start_due(due);
            }
            let wait = next.unwrap_or(IDLE).min(IDLE);
            pause(wait).or(self.changed.rung()).await;
        }
    }

    /// Answers a request about the schedule: changes it, writes it, or starts a job of it.
    pub(crate) fn manage(&self, asked: &wire::Schedule) -> Map {
        let managed = self.managed(asked);
        if let Some(due) = managed.due {
            self.start_due(due);
        }
        let written = managed.saved.map(|jobs| {
            let cx = beacon_loop::context(&self.opts);
            modules::exec::schedule::file::write(&cx, &jobs)
        });
        match written {
            Some(Err(error)) => {
                log::error(format_args!(
                    "Failed to persist the updated schedule: {error}"
                ));
                manage::refused(&error.to_string())
            }
            _ => managed.answer,
        }
    }

    fn start_due(&self, due: Due) {
        let name = due.name.clone();
        let mut options = Map::new().with("schedule", due.name.as_str());
        if let Some(metadata) = due.metadata {
            options.insert("metadata", metadata);
        }
        let arg = call::joined(due.args, due.kwargs);
        let purpose = match due.return_job {
            ReturnJob::No => ReturnTo::Nobody,
            ReturnJob::Yes | ReturnJob::NoCache => ReturnTo::Masters,
        };
        for (key, value) in [
            ("ret_config", due.return_config),
            ("ret_kwargs", due.return_kwargs),
        ] {
            if let Some(value) = value {
                options.insert(key, value);
            }
        }
        let mut job = own_job(&due.fun, arg, options);
        let of_all = self.opts.text("schedule_returner").unwrap_or_default();
        let of_job = due.returners.iter().map(String::as_str);
        let returners: Vec<&str> = std::iter::once(of_all).chain(of_job).collect();
        job.ret = returners.join(",");
        if let Err(error) = self.launcher.start(job, purpose) {
            log::error(format_args!(
                "cannot start the scheduled job {name}: {error}"
            ));
        }
    }

    /// Fills the mine, because a newly connected master may not have its data.
    pub(crate) fn fill_mine(&self) {
        let parts = self.parts();
        let has_mine = has_mine(&parts.config, &parts.pillar);
        drop(parts);
        if has_mine
            && let Err(error) = self.launcher.start(
                own_job("mine.update", Vec::new(), Map::new()),
                ReturnTo::Nobody,
            )
        {
            log::error(format_args!("cannot update the mine: {error}"));
        }
    }

    /// Applies the states of the option `startup_states`. The returner of `ext_job_cache` gets their return.
    pub(crate) fn apply_startup_states(&self) {
        let opts = &self.opts;
        let (fun, arg) = match opts.text("startup_states").unwrap_or_default() {
            "" => return,
            "sls" => ("state.sls", vec![opts.texts("sls_list").into()]),
            "top" => {
                let top = opts.text("top_file").unwrap_or_default();
                ("state.top", vec![top.into()])
            }
            "highstate" => ("state.highstate", Vec::new()),
            other => {
                return log::error(format_args!(
                    "invalid value {other:?} of the option `startup_states`, which must be highstate, sls or top: applying no states"
                ));
            }
        };
        let job = Job {
            ret: opts.text("ext_job_cache").unwrap_or_default().to_owned(),
            ..own_job(fun, arg, Map::new())
        };
        if let Err(error) = self.launcher.start(job, ReturnTo::Masters) {
            log::error(format_args!("cannot start the startup states: {error}"));
        }
    }
}

/// Creates a job that the daemon starts by itself.
pub(crate) fn own_job(fun: &str, arg: Vec<Value>, options: Map) -> Job {
    Job {
        jid: jid::new(),
        fun: fun.into(),
        arg,
        tgt: "*".into(),
        tgt_type: "glob".to_owned(),
        ret: String::new(),
        user: "root".to_owned(),
        options,
    }
}
