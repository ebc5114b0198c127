//! The reactor of a master: rules that react to events of the master's log with jobs, runners and
//! wheel functions.
//!
//! Each rule has a separate task with a cursor in the log ([`follow`]). A slow or broken rule
//! delays no other rule, and events that it has not read yet stay in the log. The crate `reactor`
//! defines rules and reactions and runs reactions; this module executes their calls on a master
//! ([`effects`]). A reaction is one row of the store, with its chunks and the ids of their jobs.
//! The row is stored before the first effect, and after a crash the rest of the reaction is
//! executed from it. The job's record proves that a job was published. A runner that was begun and
//! did not end is not run again, but its reaction reports that. To accept a key twice does no harm.

mod effects;
mod follow;
mod returns;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use link::wait::pause;
use reactor::{Causes, Limits, Place, Reaction, Rule, Templates};
use smol::lock::Semaphore;
use state::opts::Opts;
use value::{Map, log};

use crate::events::Events;
use crate::jobs::Jobs;
use crate::metrics::Metrics;
use crate::runs::{Runners, Runs};
use crate::store::{Command, Error, Event, Store};

/// The maximum number of reactions of all rules that run at a time. Each may take a thread.
const AT_ONCE: usize = 256;
/// The time after the start of the master during which jobs of reactions wait for minions to
/// reconnect.
const COMING_BACK: Duration = Duration::from_secs(60);

/// The maximum time for which a repeated reaction waits for returns.
const REPLAY_MAX: Duration = Duration::from_secs(30);
const REPLAY_LOOK: Duration = Duration::from_millis(50);

/// The place of the row that stores whether reactions are executed. No rule has the number 0.
const SETTINGS: Place = Place {
    rule: 0,
    sequence: 0,
};

/// The reactor that runs at present: in a cluster each term of a leader has its own.
#[derive(Default)]
pub(crate) struct Current(Mutex<Option<Arc<Reactor>>>);

impl Current {
    /// Returns the reactor, once it was made.
    pub(crate) fn get(&self) -> Option<Arc<Reactor>> {
        lock(&self.0).clone()
    }
}

/// The reactor: its rules, and the state that they share.
pub(crate) struct Reactor {
    current: Arc<Current>,
    opts: Arc<Opts>,
    store: Store,
    events: Events,
    metrics: Arc<Metrics>,
    jobs: Jobs,
    runs: Runs,
    rules: Mutex<Vec<(Rule, smol::Task<()>)>>,
    /// The task that follows the returns of jobs.
    returns: Mutex<Option<smol::Task<()>>>,
    is_leader: AtomicBool,
    is_observing: AtomicBool,
    causes: Causes,
    awaited: returns::Awaited,
    turns: Arc<Semaphore>,
    began: Instant,
    templates: Templates,
    limits: Limits,
}

/// The prefix of the names of the rules' cursors.
const CURSOR: &str = "reactor/";

/// Returns the name of a rule's cursor in the log.
pub(crate) fn cursor(rule: &Rule) -> String {
    format!("{CURSOR}{:016x}", rule.number())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reactor {
    pub(crate) fn new(metrics: Arc<Metrics>, runs: Runs) -> Arc<Self> {
        let store = runs.store.clone();
        Self::with(Arc::default(), metrics, runs, store)
    }

    /// Returns a reactor that takes the place of this one when this master leads the cluster. Its
    /// reactions are void unless they get into the log of the cluster in this term.
    ///
    /// # Errors
    /// When this master does not lead in this term any more, or the masters do not agree in time.
    pub(crate) async fn in_term(&self, term: u64) -> Result<Arc<Self>, Error> {
        let (metrics, runs) = (self.metrics.clone(), self.runs.clone());
        let store = runs.store.in_term(term).await?;
        Ok(Self::with(self.current.clone(), metrics, runs, store))
    }

    fn with(current: Arc<Current>, metrics: Arc<Metrics>, runs: Runs, store: Store) -> Arc<Self> {
        let (opts, jobs) = (runs.opts.clone(), runs.jobs.clone());
        let reactor = Arc::new(Self {
            current: current.clone(),
            rules: Mutex::default(),
            returns: Mutex::default(),
            is_leader: AtomicBool::new(true),
            is_observing: AtomicBool::default(),
            causes: Causes::default(),
            awaited: returns::Awaited::default(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            began: Instant::now(),
            templates: Templates::default(),
            limits: Limits::from_opts(&opts),
            opts,
            // The events of a reactor have its fence: the next leader reports its reactions itself.
            events: Events::new(store.clone()),
            store,
            metrics,
            jobs,
            runs,
        });
        *lock(&current.0) = Some(reactor.clone());
        reactor
    }

    /// Returns the place of the reactor that runs at present.
    pub(crate) fn current(&self) -> Arc<Current> {
        self.current.clone()
    }

    /// Stops to react to events. Reactions that have begun still finish, unless this master does not
    /// lead its cluster any more.
    pub(crate) async fn stop(&self) {
        // First, because events that are ignored from now on must not count as done, and no reaction
        // may begin.
        self.store.close_fence().await;
        self.set_leader(false);
        let rules = std::mem::take(&mut *lock(&self.rules));
        for (_, task) in rules {
            task.cancel().await;
        }
        let returns = lock(&self.returns).take();
        if let Some(returns) = returns {
            returns.cancel().await;
        }
    }

    /// Returns the rules that are followed, in their order.
    pub(crate) fn rules(&self) -> Vec<Rule> {
        let rules = lock(&self.rules);
        rules.iter().map(|(rule, _)| rule.clone()).collect()
    }

    /// Returns whether this master reacts to events.
    pub(crate) fn is_leader(&self) -> bool {
        self.is_leader.load(Ordering::Relaxed)
    }

    /// Sets whether this master reacts to events.
    pub(crate) fn set_leader(&self, is_leader: bool) {
        self.is_leader.store(is_leader, Ordering::Relaxed);
    }

    /// Returns the runners, which may use this reactor.
    pub(crate) fn runners(self: &Arc<Self>) -> Runners {
        Runners {
            runs: self.runs.clone(),
            reactor: self.current.clone(),
        }
    }

    /// Begins to follow the rules of the configuration.
    ///
    /// # Errors
    /// Returns an error if the store cannot be used.
    pub(crate) async fn begin(self: &Arc<Self>) -> Result<(), Error> {
        let (rules, faults) = reactor::rules(&self.opts);
        for fault in faults {
            log::error(format_args!("{fault}"));
        }
        self.forget_rules(&rules).await?;
        let settings = self.store.reaction(SETTINGS)?.unwrap_or_default();
        let is_observing = settings
            .get("enforce")
            .is_some_and(|enforce| !enforce.is_true());
        self.is_observing.store(is_observing, Ordering::Relaxed);
        // The watch begins before the first reaction, so that no return is missed.
        let watch = self.store.watch();
        let returns = smol::spawn(self.clone().follow_returns(watch));
        *lock(&self.returns) = Some(returns);
        self.await_known().await?;
        for rule in rules {
            self.follow_rule(rule).await?;
        }
        Ok(())
    }

    /// Removes the cursors and old reactions of rules that do not exist any more. If such a rule is
    /// added again, it begins with new events, and does not react to those of the last week.
    async fn forget_rules(&self, rules: &[Rule]) -> Result<(), Error> {
        for name in self.store.cursors()? {
            let is_ours = name.starts_with(CURSOR);
            if is_ours && !rules.iter().any(|rule| cursor(rule) == name) {
                let sequence = None;
                self.store.apply(Command::Cursor { name, sequence }).await?;
            }
        }
        let (first, _) = self.store.log()?;
        let old: Vec<Place> = {
            let all = self.store.reactions(None)?;
            let places = all.map(|reaction| Ok(reaction?.0));
            let places = places.collect::<Result<Vec<Place>, Error>>()?;
            let is_known = |place: &Place| rules.iter().any(|rule| rule.number() == place.rule);
            let is_old = |place: &Place| *place != SETTINGS && place.sequence < first;
            let old = places
                .into_iter()
                .filter(|place| is_old(place) && !is_known(place));
            old.collect()
        };
        for place in old {
            self.store
                .later(Command::Reaction { place, row: None })
                .await?;
        }
        Ok(())
    }

    /// Begins to follow a rule, from its cursor if there is one, or with the next event.
    async fn follow_rule(self: &Arc<Self>, rule: Rule) -> Result<(), Error> {
        let follower = follow::Follower::begin(self.clone(), rule.clone()).await?;
        let task = smol::spawn(follower.run());
        lock(&self.rules).push((rule, task));
        Ok(())
    }

    /// Adds a rule until the master ends. Returns false if there is a rule with this glob.
    ///
    /// # Errors
    /// Returns an error if the store cannot be used.
    pub(crate) async fn add_rule(self: &Arc<Self>, rule: Rule) -> Result<bool, Error> {
        let mut known = self.rules().into_iter();
        if known.any(|known| known.glob == rule.glob) {
            return Ok(false);
        }
        self.follow_rule(rule).await?;
        Ok(true)
    }

    /// Removes the first rule with this glob until the master ends. Returns false if there is none.
    /// Reactions that have begun still finish.
    ///
    /// # Errors
    /// Returns an error if the store cannot be used.
    pub(crate) async fn delete_rule(&self, glob: &str) -> Result<bool, Error> {
        let taken = {
            let mut rules = lock(&self.rules);
            let at = rules.iter().position(|(rule, _)| rule.glob == glob);
            at.map(|at| rules.remove(at))
        };
        let Some((rule, task)) = taken else {
            return Ok(false);
        };
        task.cancel().await;
        let (name, sequence) = (cursor(&rule), None);
        self.store.apply(Command::Cursor { name, sequence }).await?;
        Ok(true)
    }

    /// Sets whether reactions are executed or only observed. The setting is stored, and survives a
    /// restart.
    ///
    /// # Errors
    /// Returns an error if the store cannot be used.
    pub(crate) async fn enforce(&self, enforce: bool) -> Result<(), Error> {
        let row = Some(Map::new().with("enforce", enforce));
        let place = SETTINGS;
        self.store.apply(Command::Reaction { place, row }).await?;
        self.is_observing.store(!enforce, Ordering::Relaxed);
        Ok(())
    }

    /// Removes a stored reaction, for example after an administrator has dealt with a failure.
    ///
    /// # Errors
    /// Returns an error if the store cannot be used.
    pub(crate) async fn forget_reaction(&self, place: Place) -> Result<(), Error> {
        let forget = Command::Reaction { place, row: None };
        self.store.apply(forget).await.map(|_| ())
    }

    /// Reacts to an event again, with the rule's current files, and waits for the end, or at most
    /// [`REPLAY_MAX`] for returns. Returns `None` while an earlier reaction of the rule to the event
    /// has not ended.
    ///
    /// # Errors
    /// Returns an error if the store cannot be used.
    pub(crate) async fn replay(
        self: &Arc<Self>,
        rule: &Rule,
        event: &Event,
    ) -> Result<Option<Reaction>, Error> {
        let place = Place {
            rule: rule.number(),
            sequence: event.sequence,
        };
        let known = |row: Option<Map>| row.and_then(|row| Reaction::from_row(place, &row));
        let before = known(self.store.reaction(place)?);
        if before.is_some_and(|before| !before.state.is_final()) {
            return Ok(None);
        }
        self.forget_reaction(place).await?;
        let own = Arc::new(Semaphore::new(1)).acquire_arc().await;
        let turn = Arc::new((own, self.turns.acquire_arc().await));
        self.react(rule, &Arc::new(event.clone()), false, &turn)
            .await;
        // Rows that were queued without a sync are on the disk when this command is.
        let until = Instant::now() + REPLAY_MAX;
        loop {
            self.store.barrier().await?;
            let reaction = known(self.store.reaction(place)?);
            let is_over = reaction.as_ref().is_none_or(|one| one.state.is_final());
            if is_over || Instant::now() > until {
                return Ok(reaction);
            }
            pause(REPLAY_LOOK).await;
        }
    }
}
