//! The reactor: rules that answer events with jobs, runners and wheel functions, on the master's log of events.
//!
//! Each rule has a task of its own with a cursor in the log ([`follow`]): a slow or broken one holds up no other, and what it has not
//! looked at yet waits on the disk. What a rule is, what it makes of an event and the course of that are the crate `reactor`; here is
//! what a master does about it ([`effects`]). A reaction is one row of the store: it is there before the first effect, with the chunks
//! and the ids of their jobs, and after a crash the rest is done from it. A job is proven by its own record; a runner that was begun and
//! not ended is not begun again, but told of; keys are accepted twice without harm.

mod effects;
mod follow;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reactor::{Causes, Limits, Place, Reaction, Rule, Templates};
use smol::lock::Semaphore;
use state::opts::Opts;
use value::{Map, log};

use crate::daemon::Master;
use crate::store::{Command, Error, Event};

/// How many reactions of all rules are under way at a time: each may take a thread.
const AT_ONCE: usize = 256;
/// For how long a master that was started waits for its minions to come back before a job of a reaction goes without them.
const COMING_BACK: Duration = Duration::from_secs(60);

/// Where the reactor keeps whether it acts: no rule has this place.
const SETTINGS: Place = Place {
    rule: 0,
    sequence: 0,
};

/// What all rules share.
pub(crate) struct Reactor {
    rules: Mutex<Vec<(Rule, smol::Task<()>)>>,
    is_leader: AtomicBool,
    is_observing: AtomicBool,
    causes: Causes,
    turns: Arc<Semaphore>,
    began: Instant,
    templates: Templates,
    limits: Limits,
}

/// How the names of the cursors of rules begin.
const CURSOR: &str = "reactor/";

/// The name of a rule's cursor in the log.
pub(crate) fn cursor(rule: &Rule) -> String {
    format!("{CURSOR}{:016x}", rule.number())
}

impl std::fmt::Debug for Reactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reactor").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reactor {
    pub(crate) fn new(opts: &Opts) -> Self {
        Self {
            rules: Mutex::default(),
            is_leader: AtomicBool::new(true),
            is_observing: AtomicBool::default(),
            causes: Causes::default(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            began: Instant::now(),
            templates: Templates::default(),
            limits: Limits::of(opts),
        }
    }

    /// The rules that are followed, in their order.
    pub(crate) fn rules(&self) -> Vec<Rule> {
        let rules = lock(&self.rules);
        rules.iter().map(|(rule, _)| rule.clone()).collect()
    }

    /// Whether this master reacts at all.
    pub(crate) fn is_leader(&self) -> bool {
        self.is_leader.load(Ordering::Relaxed)
    }

    /// Lets this master react, or not.
    pub(crate) fn set_leader(&self, is_leader: bool) {
        self.is_leader.store(is_leader, Ordering::Relaxed);
    }

    /// Whether reactions are only looked at.
    pub(crate) fn is_observing(&self) -> bool {
        self.is_observing.load(Ordering::Relaxed)
    }
}

impl Master {
    /// Begins to follow the rules of the configuration.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub(crate) async fn begin_reactor(self: &Arc<Self>) -> Result<(), Error> {
        let (rules, faults) = reactor::rules(self.opts());
        for fault in faults {
            log::error(format_args!("{fault}"));
        }
        self.forget_rules(&rules).await?;
        let settings = self.store().reaction(SETTINGS)?.unwrap_or_default();
        let is_observing = settings
            .get("enforce")
            .is_some_and(|enforce| !enforce.is_true());
        self.reactor()
            .is_observing
            .store(is_observing, Ordering::Relaxed);
        for rule in rules {
            self.follow_rule(rule).await?;
        }
        Ok(())
    }

    /// Takes what is kept for rules that are no more. One that comes again begins anew, and does not answer the events of a week.
    async fn forget_rules(&self, rules: &[Rule]) -> Result<(), Error> {
        for name in self.store().cursors()? {
            let is_ours = name.starts_with(CURSOR);
            if is_ours && !rules.iter().any(|rule| cursor(rule) == name) {
                let sequence = None;
                self.store()
                    .apply(Command::Cursor { name, sequence })
                    .await?;
            }
        }
        let (first, _) = self.store().log()?;
        let old: Vec<Place> = {
            let all = self.store().reactions(None)?;
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
            self.store()
                .later(Command::Reaction { place, row: None })
                .await?;
        }
        Ok(())
    }

    /// Follows one more rule: events from now on, or from where it was left.
    async fn follow_rule(self: &Arc<Self>, rule: Rule) -> Result<(), Error> {
        let follower = follow::Follower::begin(self.clone(), rule.clone()).await?;
        let task = smol::spawn(follower.run());
        lock(&self.reactor().rules).push((rule, task));
        Ok(())
    }

    /// Adds a rule until the master ends; false when there is one for the tag.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub(crate) async fn add_rule(self: &Arc<Self>, rule: Rule) -> Result<bool, Error> {
        let mut known = self.reactor().rules().into_iter();
        if known.any(|known| known.glob == rule.glob) {
            return Ok(false);
        }
        self.follow_rule(rule).await?;
        Ok(true)
    }

    /// Takes the first rule of this tag away until the master ends; false when there is none. What it has begun is still done.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub(crate) async fn delete_rule(&self, glob: &str) -> Result<bool, Error> {
        let taken = {
            let mut rules = lock(&self.reactor().rules);
            let at = rules.iter().position(|(rule, _)| rule.glob == glob);
            at.map(|at| rules.remove(at))
        };
        let Some((rule, task)) = taken else {
            return Ok(false);
        };
        task.cancel().await;
        let (name, sequence) = (cursor(&rule), None);
        self.store()
            .apply(Command::Cursor { name, sequence })
            .await?;
        Ok(true)
    }

    /// Lets reactions act, or only be looked at; it stays so when the master is started again.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub(crate) async fn enforce(&self, enforce: bool) -> Result<(), Error> {
        let row = Some(Map::new().with("enforce", enforce));
        let place = SETTINGS;
        self.store().apply(Command::Reaction { place, row }).await?;
        self.reactor()
            .is_observing
            .store(!enforce, Ordering::Relaxed);
        Ok(())
    }

    /// Forgets a reaction that somebody has taken care of.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub(crate) async fn forget_reaction(&self, place: Place) -> Result<(), Error> {
        let forget = Command::Reaction { place, row: None };
        self.store().apply(forget).await.map(|_| ())
    }

    /// Answers an event once more as a rule has it now, and waits for that; none while the event is still being answered.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub(crate) async fn replay(
        self: &Arc<Self>,
        rule: &Rule,
        event: &Event,
    ) -> Result<Option<Reaction>, Error> {
        let place = Place {
            rule: rule.number(),
            sequence: event.sequence,
        };
        let known = |row: Option<Map>| row.and_then(|row| Reaction::of_row(place, &row));
        let before = known(self.store().reaction(place)?);
        if before.is_some_and(|before| !before.state.is_final()) {
            return Ok(None);
        }
        self.forget_reaction(place).await?;
        let own = Arc::new(Semaphore::new(1)).acquire_arc().await;
        let turn = Arc::new((own, self.reactor().turns.acquire_arc().await));
        self.react(rule, &Arc::new(event.clone()), false, &turn)
            .await;
        // What was left to the system to write is there when this is.
        self.store().apply(Command::All(Vec::new())).await?;
        Ok(known(self.store().reaction(place)?))
    }
}
