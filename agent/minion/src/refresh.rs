//! [`Refresher`]: collects the grains again, requests the pillar again, and reads the configuration
//! again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use link::wait::{seconds, within};
use smol::Task;
use smol::channel::{Receiver, bounded};
use state::opts::Opts;
use value::{Map, Value, log};
use wire::{Grains, Refresh};

use crate::beacon_loop::BeaconLoop;
use crate::blackout::Blackout;
use crate::launcher::{Ended, Launcher, ReturnTo};
use crate::reactor::Reactor;
use crate::scheduled_jobs::{OF_CONFIG, ScheduledJobs, own_job};
use crate::uplink::Upstreams;

/// The options that SIGHUP changes in a running daemon, in addition to those of its schedule
/// ([`OF_CONFIG`]).
const READ_AGAIN: [&str; 2] = ["beacons", "reactor"];

/// The configuration files, and the parts of the daemon that follow them.
#[derive(Debug)]
pub(crate) struct Reloader {
    /// The configuration at the daemon's start.
    pub(crate) opts: Opts,
    pub(crate) dir: PathBuf,
    pub(crate) overrides: Map,
    pub(crate) read: fn(&Path, Map) -> Result<Opts, String>,
    pub(crate) scheduled: Arc<ScheduledJobs>,
    pub(crate) beacons: Arc<BeaconLoop>,
    pub(crate) reactor: Arc<Reactor>,
}

impl Reloader {
    /// Reads the configuration again. If it cannot be read, the error is logged and the old
    /// configuration remains in force.
    fn reload(&self) -> Option<Opts> {
        match (self.read)(&self.dir, self.overrides.clone()) {
            Ok(opts) => {
                self.scheduled.has_config(&opts.map);
                self.beacons.has_config(&opts.map);
                self.reactor.follow_rules(&opts);
                Some(opts)
            }
            Err(error) => {
                log::error(format_args!("cannot reload the configuration: {error}"));
                None
            }
        }
    }

    /// Reads the configuration again, and logs the options that have changed but that the daemon
    /// reads at its start only.
    pub(crate) fn reload_and_tell(&self) {
        let Some(read) = self.reload() else { return };
        let mut changed = self.opts.changed(&read);
        let is_obeyed = |name: &str| OF_CONFIG.contains(&name) || READ_AGAIN.contains(&name);
        changed.retain(|name| !is_obeyed(name));
        if !changed.is_empty() {
            log::warning(format_args!(
                "these options have changed: {}. New jobs use them; restart the minion to apply them to the minion itself",
                changed.join(", ")
            ));
        }
    }
}

/// Reads parts of the minion's data again on request. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) struct Refresher {
    pub(crate) reloader: Arc<Reloader>,
    pub(crate) launcher: Launcher,
    pub(crate) upstreams: Upstreams,
    pub(crate) blackout: Arc<Blackout>,
}

impl Refresher {
    /// Reads again what the request names, and waits until that is finished, for at most the time
    /// that the request allows.
    pub(crate) async fn refreshed(&self, asked: &Refresh) {
        let Some(task) = self.refresh(&asked.what) else {
            return;
        };
        let Some(wait) = asked.wait_s.and_then(seconds) else {
            return task.detach();
        };
        // Dropping the task would cancel it.
        let mut task = Box::pin(task);
        if within(wait, task.as_mut()).await.is_none() {
            smol::spawn(task).detach();
            log::warning(format_args!(
                "reloading the {} of this minion takes longer than {} s, continuing in the background",
                asked.what,
                wait.as_secs()
            ));
        }
    }

    /// Reads again what `what` names. Returns a task if that needs a job.
    fn refresh(&self, what: &str) -> Option<Task<()>> {
        match what {
            "grains" => return self.refresh_grains(),
            "pillar" => return self.refresh_pillar(),
            "schedule" | "mine" | "beacons" => {
                self.reloader.reload();
            }
            "orphans" => {
                let this = self.clone();
                let adopt = async move { this.upstreams.adopt(&this.reloader.opts).await };
                smol::spawn(adopt).detach();
            }
            _ => {}
        }
        None
    }

    /// Collects the grains again. The returned task ends when this daemon and its masters have them.
    pub(crate) fn refresh_grains(&self) -> Option<Task<()>> {
        let started = OwnJob::start(&self.launcher, "grains.items");
        let failed = |error| log::error(format_args!("cannot collect the grains: {error}"));
        let job = started.map_err(failed).ok()?;
        let this = self.clone();
        Some(smol::spawn(async move {
            if let Some(grains) = job.returned().await {
                this.blackout.has_grains(&grains);
                this.reloader.scheduled.has_grains(&grains);
                this.upstreams.tell(&Grains { grains }.into()).await;
            }
            job.ended.wait().await;
        }))
    }

    /// Requests the pillar again; the daemon uses its schedule and its mine functions. The returned
    /// task ends when the daemon has them.
    pub(crate) fn refresh_pillar(&self) -> Option<Task<()>> {
        let started = OwnJob::start(&self.launcher, "pillar.raw");
        let failed = |error| log::error(format_args!("cannot request the pillar: {error}"));
        let job = started.map_err(failed).ok()?;
        let (reloader, blackout) = (self.reloader.clone(), self.blackout.clone());
        Some(smol::spawn(async move {
            if let Some(pillar) = job.returned().await {
                blackout.has_pillar(&pillar);
                reloader.scheduled.has_pillar(&pillar);
                reloader.beacons.has_pillar(&pillar);
            }
            job.ended.wait().await;
        }))
    }
}

/// A job whose return the daemon itself uses.
struct OwnJob {
    returned: Receiver<Map>,
    ended: Ended,
}

impl OwnJob {
    fn start(launcher: &Launcher, fun: &str) -> io::Result<Self> {
        let (caller, returned) = bounded(1);
        let job = own_job(fun, Vec::new(), Map::new());
        let ended = launcher.start(job, ReturnTo::Caller(caller))?;
        Ok(Self { returned, ended })
    }

    /// Waits for the map that the job returns; `None` if it returns another value or nothing.
    async fn returned(&self) -> Option<Map> {
        // No deadline: a job takes as long as it takes; it can be killed.
        let data = self.returned.recv().await.ok()?;
        data.get("return").and_then(Value::as_map).cloned()
    }
}
