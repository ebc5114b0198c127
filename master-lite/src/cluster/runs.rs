//! Orchestrations that survive their master: their records have copies in the store, from which
//! another master resumes them.
//!
//! A copy has an owner: a master in one of its processes. Only the owner changes it, and the store
//! refuses the changes of a master that another one has replaced. The leader looks for copies whose
//! owner has ended or is silent, and gives them to the master with the fewest orchestrations. That one
//! takes them up ([`crate::runs::takeover`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use link::wait::pause;
use state::module::Error;
use state::record::RecordCopy;
use value::log;

use super::{Cluster, lock};
use crate::store::{self, Applied, Command, PendingWrite, Refusal, RunOwner, Store};

/// The interval between two looks at the orchestrations of masters that may have ended.
const LOOK_AT_RUNS: Duration = Duration::from_secs(1);

/// The orchestrations that run in this process, by job id.
#[derive(Default)]
pub(super) struct Running(Mutex<BTreeMap<String, Arc<Copy>>>);

/// The copy of the record of an orchestration that runs here.
pub(crate) struct Copy {
    store: Store,
    running: std::sync::Weak<super::Shared>,
    jid: String,
    owner: RunOwner,
    state: Mutex<CopyState>,
    /// True if another master has taken over the orchestration.
    is_lost: AtomicBool,
    /// True if the orchestration was given to this master, and does not run yet.
    is_waiting: AtomicBool,
    /// The steps whose jobs have ended here.
    ended: Mutex<BTreeSet<String>>,
}

#[derive(Default)]
struct CopyState {
    /// True if the store has the copy.
    has_begun: bool,
    /// The length of the lines.
    length: u64,
    /// The changes that may not be on the disks of a majority yet.
    pending: Vec<PendingWrite>,
    /// The first failure.
    failure: Option<String>,
}

impl std::fmt::Debug for Copy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Copy({})", self.jid)
    }
}

impl Copy {
    /// Proposes a change behind all earlier ones.
    fn begin(&self, state: &mut CopyState, command: Command) {
        match smol::block_on(self.store.begin(command)) {
            Ok(pending) => state.pending.push(pending),
            Err(error) => {
                state.failure.get_or_insert_with(|| error.to_string());
            }
        }
    }

    fn lines(&self, state: &mut CopyState, offset: u64, lines: &str) {
        state.length = offset + lines.len() as u64;
        let (jid, owner, lines) = (self.jid.clone(), self.owner, lines.to_owned());
        let command = match std::mem::replace(&mut state.has_begun, true) {
            false => Command::RunBegun { jid, owner, lines },
            true => Command::RunCopied {
                jid,
                owner,
                offset,
                lines,
            },
        };
        self.begin(state, command);
    }

    /// Returns the reason if a change was not made. Notes if another master has taken over the
    /// orchestration.
    fn settle(&self, applied: Result<Applied, store::Error>) -> Result<(), String> {
        let applied = applied.map_err(|error| error.to_string())?;
        let Some(refusal) = applied.rejection() else {
            return Ok(());
        };
        if matches!(refusal, Refusal::RunTaken { .. }) {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        Err(refusal.to_string())
    }

    /// Returns whether another master has taken over the orchestration.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Returns the job of a step that another process has published and not awaited to its
    /// end.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn job_of(&self, step: &str) -> Result<Option<String>, String> {
        if lock(&self.ended).contains(step) {
            return Ok(None);
        }
        let job = self.store.run_step(&self.jid, step);
        job.map_err(|error| error.to_string())
    }

    /// Notes the job of a step, before it is published.
    ///
    /// # Errors
    /// When another master has taken over the orchestration, or no majority confirms the note.
    pub(crate) async fn note_job(&self, step: &str, job: &str) -> Result<(), String> {
        let command = Command::RunStep {
            jid: self.jid.clone(),
            owner: self.owner,
            step: step.to_owned(),
            job: job.to_owned(),
        };
        self.settle(self.store.apply(command).await)
    }

    /// Notes that all returns of the job of a step are here.
    pub(crate) fn job_ended(&self, step: String) {
        lock(&self.ended).insert(step);
    }
}

impl RecordCopy for Copy {
    fn replace(&self, lines: &str) {
        self.lines(&mut lock(&self.state), 0, lines);
    }

    fn add(&self, line: &str) {
        let mut state = lock(&self.state);
        let offset = state.length;
        self.lines(&mut state, offset, line);
    }

    fn sync(&self) -> Result<(), Error> {
        let mut state = lock(&self.state);
        for pending in std::mem::take(&mut state.pending) {
            if let Err(error) = self.settle(smol::block_on(pending.done())) {
                state.failure.get_or_insert(error);
            }
        }
        match &state.failure {
            None => Ok(()),
            Some(failure) => Err(Error::refused(failure.clone())),
        }
    }

    fn ended(&self) {
        let command = Command::RunEnded {
            jid: self.jid.clone(),
            owner: self.owner,
        };
        self.begin(&mut lock(&self.state), command);
        let Some(cluster) = self.running.upgrade().map(Cluster) else {
            return;
        };
        match self.sync() {
            Ok(()) => drop(lock(&cluster.0.running.0).remove(&self.jid)),
            // It continues there, so this master fires no event about its end.
            Err(error) if self.is_lost() => log::warning(format_args!(
                "The orchestration {} has ended here: {error}",
                self.jid
            )),
            Err(error) => {
                log::warning(format_args!(
                    "The end of the orchestration {} is not noted yet: {error}",
                    self.jid
                ));
                let jid = self.jid.clone();
                smol::spawn(async move { cluster.end_run(&jid).await }).detach();
            }
        }
    }
}

/// The masters that do not answer, each with the time since which it has not.
#[derive(Debug, Default)]
pub(crate) struct Silent(BTreeMap<u64, Instant>);

impl Cluster {
    /// Returns the copy of an orchestration that runs here from now on: that of one that was given to
    /// this master, or a new one.
    pub(crate) fn copy_of_run(&self, jid: &str) -> Arc<Copy> {
        if let Some(copy) = self.running(jid)
            && copy.is_waiting.swap(false, Ordering::Relaxed)
        {
            return copy;
        }
        let owner = RunOwner {
            node: self.0.node.number,
            boot: self.0.node.boot,
            claim: 0,
        };
        self.add_copy(jid, owner, CopyState::default())
    }

    fn add_copy(&self, jid: &str, owner: RunOwner, state: CopyState) -> Arc<Copy> {
        let copy = Arc::new(Copy {
            store: self.0.store.clone(),
            running: Arc::downgrade(&self.0),
            jid: jid.to_owned(),
            owner,
            is_lost: AtomicBool::new(false),
            is_waiting: AtomicBool::new(state.has_begun),
            state: Mutex::new(state),
            ended: Mutex::default(),
        });
        lock(&self.0.running.0).insert(jid.to_owned(), copy.clone());
        copy
    }

    /// Returns the copy of an orchestration that runs here.
    pub(crate) fn running(&self, jid: &str) -> Option<Arc<Copy>> {
        lock(&self.0.running.0).get(jid).cloned()
    }

    /// Returns the orchestrations that were given to this master since the last call.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn claimed(&self) -> Result<Vec<String>, store::Error> {
        let runs = self.0.store.runs()?.into_iter();
        // This master may not know yet that one which it ran itself was given to another one.
        let is_known = |jid: &str, owner: &RunOwner| {
            let copy = self.running(jid);
            copy.is_some_and(|copy| copy.owner == *owner)
        };
        let (node, boot) = (self.0.node.number, self.0.node.boot);
        let claimed = runs.filter(|(jid, owner)| {
            (owner.node, owner.boot) == (node, boot) && !is_known(jid, owner)
        });
        let claimed = claimed.map(|(jid, owner)| {
            let state = CopyState {
                has_begun: true,
                ..CopyState::default()
            };
            drop(self.add_copy(&jid, owner, state));
            jid
        });
        Ok(claimed.collect())
    }

    /// Removes the copy of an orchestration that has ended here. Tries until that is done, or another
    /// master has it.
    pub(crate) async fn end_run(&self, jid: &str) {
        let Some(copy) = self.running(jid) else {
            return;
        };
        let command = Command::RunEnded {
            jid: jid.to_owned(),
            owner: copy.owner,
        };
        loop {
            match self.0.store.apply(command.clone()).await {
                Ok(applied) => {
                    if let Some(refusal) = applied.rejection() {
                        log::warning(format_args!(
                            "The orchestration {jid} has ended here: {refusal}"
                        ));
                    }
                    break;
                }
                Err(error) => log::debug(format_args!(
                    "cannot remove the copy of the orchestration {jid}: {error}"
                )),
            }
            pause(LOOK_AT_RUNS).await;
        }
        let mut running = lock(&self.0.running.0);
        if running
            .get(jid)
            .is_some_and(|known| Arc::ptr_eq(known, &copy))
        {
            running.remove(jid);
        }
    }

    /// Gives the orchestrations of masters that have ended to others, for as long as this master runs.
    /// Only the leader does.
    pub(super) async fn give_runs(self) {
        let mut silent = Silent::default();
        loop {
            pause(LOOK_AT_RUNS).await;
            if self.leads().is_none() {
                silent = Silent::default();
                continue;
            }
            let store = self.0.store.clone();
            let given = match smol::unblock(move || store.runs()).await {
                Ok(runs) => self.give_orphans(&runs, &mut silent).await,
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = given {
                log::warning(format_args!("cannot give orchestrations away: {error}"));
            }
        }
    }

    /// Returns the number of this master and that of its start.
    pub(crate) fn own_start(&self) -> (u64, u64) {
        (self.0.node.number, self.0.node.boot)
    }

    /// Returns the masters that are up, each with the number of its start.
    fn alive(&self) -> BTreeMap<u64, u64> {
        let mut alive = self.0.others.boots();
        alive.insert(self.0.node.number, self.0.node.boot);
        alive
    }

    /// Returns whether a start of a master has ended: it has started again, is no member any more,
    /// or has been silent for `cluster_voter_timeout`.
    pub(crate) fn has_ended(&self, node: u64, boot: u64, silent: &mut Silent) -> bool {
        let alive = self.alive();
        silent.0.retain(|node, _| !alive.contains_key(node));
        match alive.get(&node) {
            Some(known) => *known != boot,
            None if !self.status().members.contains_key(&node) => true,
            None => {
                let since = silent.0.entry(node).or_insert_with(Instant::now);
                since.elapsed() >= self.0.settings.voter_timeout
            }
        }
    }

    async fn give_orphans(
        &self,
        runs: &[(String, RunOwner)],
        silent: &mut Silent,
    ) -> Result<(), String> {
        let alive = self.alive();
        for (jid, owner) in runs {
            let is_gone = self.has_ended(owner.node, owner.boot, silent);
            let count = |node: u64| runs.iter().filter(|(_, owner)| owner.node == node).count();
            let next = alive.iter().min_by_key(|(node, _)| (count(**node), **node));
            let Some((node, boot)) = next.filter(|_| is_gone) else {
                continue;
            };
            let given = RunOwner {
                node: *node,
                boot: *boot,
                claim: owner.claim + 1,
            };
            log::warning(format_args!(
                "The master {} has ended while it ran the orchestration {jid}: {} continues it",
                self.name(owner.node),
                self.name(given.node)
            ));
            let command = Command::RunClaimed {
                jid: jid.clone(),
                owner: given,
                expected: *owner,
            };
            let applied = self.0.store.apply(command).await;
            applied.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
