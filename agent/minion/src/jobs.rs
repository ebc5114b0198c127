//! [`Jobs`]: the job processes that this daemon has started and that have not ended.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};
use value::{Map, Value};
use wire::Job;

use crate::seen_jobs::SeenJobs;

/// The running jobs by their ids, and the ids of the last jobs that masters sent.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    running: Mutex<HashMap<String, Running>>,
    taken: Mutex<SeenJobs>,
}

#[derive(Debug)]
struct Running {
    job: Job,
    process: Pid,
}

impl Jobs {
    /// Starts without running jobs. The ids of jobs that were sent before are read from a file in
    /// this folder.
    pub(crate) fn open(folder: &Path) -> Self {
        Self {
            taken: Mutex::new(SeenJobs::open(folder)),
            ..Self::default()
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self) -> MutexGuard<'_, SeenJobs> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a job that a master sends. Returns false if the job was sent before.
    pub(crate) fn is_new(&self, jid: &str) -> bool {
        self.taken().is_new(jid)
    }

    /// Returns whether a master has sent a job of this id lately.
    #[cfg(feature = "salt-master")]
    pub(crate) fn was_sent(&self, jid: &str) -> bool {
        self.taken().is_known(jid)
    }

    /// Forgets a job that could not be started, so that it may be sent again.
    pub(crate) fn is_not_begun(&self, jid: &str) {
        self.taken().is_not_begun(jid);
    }

    pub(crate) fn began(&self, job: Job, process: Pid) {
        self.all().insert(job.jid.clone(), Running { job, process });
    }

    pub(crate) fn ended(&self, jid: &str) {
        self.all().remove(jid);
    }

    pub(crate) fn len(&self) -> usize {
        self.all().len()
    }

    /// Returns true while states are being applied.
    pub(crate) fn has_state_run(&self) -> bool {
        let is_state = |running: &Running| running.job.fun.to_text().starts_with("state.");
        self.all().values().any(is_state)
    }

    /// Returns how many jobs of a schedule's entry are running.
    pub(crate) fn scheduled(&self, name: &str) -> u64 {
        let is_of = |running: &&Running| {
            let schedule = running.job.options.get("schedule");
            schedule.and_then(Value::as_str) == Some(name)
        };
        self.all().values().filter(is_of).count() as u64
    }

    /// Returns a job as `saltutil.find_job` shows it, or `None` if it is not running.
    pub(crate) fn find(&self, jid: &str) -> Option<Map> {
        self.all().get(jid).map(Running::to_map)
    }

    /// Returns all running jobs as `saltutil.running` shows them.
    pub(crate) fn to_value(&self) -> Value {
        Value::list(self.all().values().map(|running| running.to_map().into()))
    }

    /// Sends a signal to a job and the processes that it has started. Returns Salt's sentence about
    /// it, or `None` if the job is not running.
    pub(crate) fn signal(&self, jid: &str, signal: u64) -> Option<String> {
        let process = self.all().get(jid)?.process;
        let number = i32::try_from(signal).ok()?;
        let sent = Signal::from_named_raw(number)
            .is_some_and(|signal| kill_process_group(process, signal).is_ok());
        let pid = process.as_raw_nonzero();
        Some(if sent {
            format!("Signal {number} sent to job {jid} at pid {pid}")
        } else {
            format!("Signal {number} was not sent to job {jid} at pid {pid}")
        })
    }
}

impl Running {
    fn to_map(&self) -> Map {
        Map::new()
            .with("fun", self.job.fun.clone())
            .with("jid", self.job.jid.as_str())
            .with("pid", i64::from(self.process.as_raw_nonzero().get()))
            .with("target", self.job.tgt.clone())
            .with("tgt", self.job.tgt.clone())
            .with("tgt_type", self.job.tgt_type.as_str())
            .with("arg", self.job.arg.clone())
            .with("ret", self.job.ret.as_str())
            .with("user", self.job.user.as_str())
    }
}
