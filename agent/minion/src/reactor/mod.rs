//! The minion's own reactor: rules that answer the events of this machine, with a master or without one.
//!
//! It hears what is fired on the machine's bus: by `salt-call` and by jobs, by beacons, and at the daemon's start. Each rule answers its
//! events in their order, the rules side by side. What they have in common with a master's is the crate `reactor`.
//!
//! An event that a rule is for is a file ([`kept`]) before anything is done about it; so are the chunks that the rule makes of it, with
//! the ids of their jobs, and how each of them ended. After a crash at any moment the rest is done: a job whose return was left on the
//! disk is not run again, one that still runs is waited for, and one that is gone is run once more under its id; three times at most, for
//! it may be what ends the daemon. So an effect happens at least once, and once where its end was seen. Where the disk takes no file an event is answered from memory, at most once; so is lost
//! what was fired and not yet read from the socket when the daemon was killed: who fires an event is not told whether anybody hears it.

mod act;
pub(crate) mod kept;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use modules::bus::{self, Ear};
use reactor::{Causes, ERROR, Event, Limits, Place, Rule, Templates};
use smol::Async;
use smol::channel::{Receiver, Sender, bounded};
use smol::lock::Semaphore;
use state::opts::Opts;
use value::{Map, Value, jid, log};

use crate::daemon::Shared;
use crate::deliver::Bell;
use kept::{Kept, Row};

pub(crate) use act::REACTION;

/// How many events of a rule wait for their turn at most (`reactor_worker_hwm` where that is less). The oldest make room, and that is told.
const WAITING_MAX: usize = 1000;
/// After how many reactions the oldest go.
const PRUNE_EVERY: usize = 64;
/// How many events are read from the socket together, and how many wait in memory until they are on the disk.
const HEARD_MAX: usize = 64;
const READ_MAX: usize = 4096;

/// What all rules share.
pub(crate) struct Reactor {
    limits: Limits,
    waiting_max: usize,
    causes: Causes,
    templates: Templates,
    kept: Kept,
    following: Mutex<Vec<(Arc<Following>, smol::Task<()>)>>,
    /// The tasks that hear, from when there was a rule.
    hearing: Mutex<Vec<smol::Task<()>>>,
    /// How many reactions are under way at a time.
    turns: Arc<Semaphore>,
    /// State runs of reactions, one after the other: they would refuse each other.
    state_runs: Semaphore,
    /// Who waits for the returns of which jobs.
    returns: Mutex<HashMap<String, Sender<Map>>>,
    /// The last event's number.
    sequence: Mutex<u64>,
    /// How many reactions have ended.
    ended: AtomicUsize,
}

/// A rule, and the events that wait for it.
#[derive(Debug)]
struct Following {
    rule: Rule,
    waiting: Mutex<VecDeque<Waiting>>,
    came: Bell,
}

/// An event that waits: its file knows what it says, unless the disk did not take it.
#[derive(Debug)]
struct Waiting {
    sequence: u64,
    unkept: Option<Event>,
}

impl std::fmt::Debug for Reactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reactor").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Following {
    fn place(&self, sequence: u64) -> Place {
        let rule = self.rule.number();
        Place { rule, sequence }
    }

    /// An event waits; what had to make room for it comes back.
    fn push(&self, waiting: Waiting, most: usize) -> Option<Waiting> {
        let mut all = lock(&self.waiting);
        let dropped = (all.len() >= most).then(|| all.pop_front()).flatten();
        all.push_back(waiting);
        self.came.ring();
        dropped
    }
}

impl Reactor {
    pub(crate) fn new(opts: &Opts) -> Self {
        let limits = Limits::of(opts);
        Self {
            limits,
            waiting_max: limits.waiting.min(WAITING_MAX),
            causes: Causes::default(),
            templates: Templates::default(),
            kept: Kept::of(opts),
            following: Mutex::default(),
            hearing: Mutex::default(),
            turns: Arc::new(Semaphore::new(limits.threads)),
            state_runs: Semaphore::new(1),
            returns: Mutex::default(),
            sequence: Mutex::default(),
            ended: AtomicUsize::new(0),
        }
    }

    /// The rules that are for this event.
    fn following(&self, tag: &str, data: &Map) -> Vec<Arc<Following>> {
        if reactor::is_own(data) {
            return Vec::new();
        }
        let all = lock(&self.following);
        let matching = all.iter().filter(|(one, _)| one.rule.matches(tag));
        matching.map(|(one, _)| one.clone()).collect()
    }

    /// The number of the next event: later than all before, also those before the daemon was started again.
    fn next(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or_default();
        let mut last = lock(&self.sequence);
        *last = now.max(last.saturating_add(1));
        *last
    }

    fn is_used(&self, sequence: u64) {
        let mut last = lock(&self.sequence);
        *last = sequence.max(*last);
    }

    /// A job of a reaction has returned.
    pub(crate) fn has_return(&self, jid: &str, data: Map) {
        if let Some(waits) = lock(&self.returns).remove(jid) {
            let _ = waits.try_send(data);
        }
    }

    fn waits_for(&self, jid: &str) -> Receiver<Map> {
        let (sender, returned) = bounded(1);
        lock(&self.returns).insert(jid.to_owned(), sender);
        returned
    }
}

impl Shared {
    /// Begins to follow the rules of the configuration, and goes on with what was begun before.
    pub(crate) async fn begin_reactor(self: &Arc<Self>) {
        if !self.follow_rules(&self.opts().clone()) {
            return;
        }
        let shared = self.clone();
        smol::unblock(move || shared.go_on()).await;
        let id = self.opts().id();
        let tag = format!("salt/minion/{id}/start");
        let said = format!("Minion {id} started at {}", jid::asctime());
        let data = Map::new()
            .with("id", id)
            .with("cmd", "_minion_event")
            .with("pretag", Value::Null)
            .with("data", said)
            .with("tag", tag.as_str());
        self.tell_machine(&tag, data).await;
    }

    /// Follows the rules that the configuration has now; whether there are any.
    pub(crate) fn follow_rules(self: &Arc<Self>, opts: &Opts) -> bool {
        let (rules, faults) = reactor::rules(opts);
        for fault in faults {
            log::error(format_args!("{fault}"));
        }
        let mut all = lock(&self.reactor().following);
        all.retain(|(one, _)| rules.contains(&one.rule));
        for rule in &rules {
            if !all.iter().any(|(one, _)| one.rule == *rule) {
                let following = Arc::new(Following {
                    rule: rule.clone(),
                    waiting: Mutex::default(),
                    came: Bell::new(),
                });
                let task = smol::spawn(self.clone().follow(following.clone()));
                all.push((following, task));
            }
        }
        drop(all);
        if !rules.is_empty() {
            self.hear();
        }
        !rules.is_empty()
    }

    /// Begins to hear the events of this machine.
    fn hear(self: &Arc<Self>) {
        let mut hearing = lock(&self.reactor().hearing);
        if !hearing.is_empty() {
            return;
        }
        let ear = match Ear::that_answers(self.opts()) {
            Ok(ear) => ear,
            Err(error) => {
                return log::error(format_args!(
                    "The rules of the option `reactor` hear no events: {error}"
                ));
            }
        };
        let (heard, hears) = bounded(READ_MAX);
        hearing.push(smol::spawn(self.clone().read(ear, heard)));
        hearing.push(smol::spawn(self.clone().take_in(hears)));
    }

    /// Reads from the socket what a rule is for: quickly, so that nobody waits who fires an event.
    async fn read(self: Arc<Self>, ear: Ear, heard: Sender<bus::Event>) {
        let ready = ear.descriptor().try_clone_to_owned().and_then(Async::new);
        let ready = match ready {
            Ok(ready) => ready,
            Err(error) => return log::error(format_args!("No events are heard: {error}")),
        };
        loop {
            // No deadline: events come when they come.
            if let Err(error) = ready.readable().await {
                return log::error(format_args!("No more events are heard: {error}"));
            }
            for event in ear.heard(HEARD_MAX) {
                let is_wanted = !self.reactor().following(&event.tag, &event.data).is_empty();
                // Where the disk is slower than all events for long, they wait in their socket, and those who fire them.
                if is_wanted && heard.send(event).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Puts what was heard on the disk, and into the queues of its rules.
    async fn take_in(self: Arc<Self>, hears: Receiver<bus::Event>) {
        // No deadline: events come when they come.
        while let Ok(event) = hears.recv().await {
            let event = Event {
                sequence: self.reactor().next(),
                tag: event.tag,
                data: event.data,
            };
            for following in self.reactor().following(&event.tag, &event.data) {
                self.take_one(&following, &event).await;
            }
        }
    }

    async fn take_one(self: &Arc<Self>, following: &Following, event: &Event) {
        let place = following.place(event.sequence);
        let (kept, row) = (self.reactor().kept.clone(), Row::Event(event.clone()));
        let written = smol::unblock(move || kept.write(place, &row)).await;
        let unkept = written.err().map(|error| {
            let path = self.reactor().kept.path().display();
            log::error(format_args!(
                "The event {} is answered from memory, for it is not kept in {path}: {error}",
                event.tag
            ));
            event.clone()
        });
        let waiting = Waiting {
            sequence: event.sequence,
            unkept,
        };
        if let Some(dropped) = following.push(waiting, self.reactor().waiting_max) {
            self.dropped(following, &dropped).await;
        }
    }

    /// An event had to make room: that is told.
    async fn dropped(self: &Arc<Self>, following: &Following, dropped: &Waiting) {
        let glob = &following.rule.glob;
        let most = self.reactor().waiting_max;
        let text = format!(
            "{most} events wait for the rule {glob} (reactor_worker_hwm): the oldest is not answered"
        );
        log::error(format_args!("{text}"));
        let place = following.place(dropped.sequence);
        self.reactor().kept.remove(place);
        // What answers this must not be what has no room.
        if following.rule.matches(ERROR) {
            return;
        }
        let data = Map::new()
            .with("rule", glob.as_str())
            .with("sequence", dropped.sequence)
            .with("state", "lost")
            .with("errors", Value::list([text.into()]))
            .with("generation", 1);
        self.tell_machine(ERROR, data).await;
    }

    /// Puts what had not ended when the daemon did back into the queues.
    fn go_on(&self) {
        let reactor = self.reactor();
        for (place, _) in reactor.kept.prune() {
            reactor.is_used(place.sequence);
            let all = lock(&reactor.following);
            let mut all = all.iter();
            match all.find(|(one, _)| one.rule.number() == place.rule) {
                Some((following, _)) => {
                    let waiting = Waiting {
                        sequence: place.sequence,
                        unkept: None,
                    };
                    following.push(waiting, usize::MAX);
                }
                None => {
                    log::warning(format_args!(
                        "The event {} was for a rule that is no more: it is not answered",
                        place.sequence
                    ));
                    reactor.kept.remove(place);
                }
            }
        }
    }

    /// Answers the events of a rule, one after the other.
    async fn follow(self: Arc<Self>, following: Arc<Following>) {
        loop {
            let next = lock(&following.waiting).pop_front();
            match next {
                Some(waiting) => self.answer_event(&following, waiting).await,
                // No deadline: events come when they come.
                None => following.came.rung().await,
            }
        }
    }

    async fn answer_event(self: &Arc<Self>, following: &Following, waiting: Waiting) {
        let place = following.place(waiting.sequence);
        let row = match waiting.unkept {
            Some(event) => Ok(Row::Event(event)),
            None => {
                let kept = self.reactor().kept.clone();
                smol::unblock(move || kept.read(place)).await
            }
        };
        let turn = Arc::new(self.reactor().turns.acquire_arc().await);
        let (known, event) = match row {
            Ok(Row::Event(event)) => (None, event),
            Ok(Row::Reaction(reaction)) => {
                let (sequence, tag) = (place.sequence, reaction.tag.clone());
                let data = Map::new();
                let event = Event {
                    sequence,
                    tag,
                    data,
                };
                // Before its chunks were known nothing was done, and the event is no more: see `keep`.
                (Some(reaction), event)
            }
            Err(error) => {
                return log::error(format_args!(
                    "The event {} of the rule {} is not answered: {error}",
                    place.sequence, following.rule.glob
                ));
            }
        };
        reactor::react(self, known, &following.rule, &Arc::new(event), &turn).await;
        let before = self.reactor().ended.fetch_add(1, Ordering::Relaxed);
        if before % PRUNE_EVERY == PRUNE_EVERY - 1 {
            let kept = self.reactor().kept.clone();
            smol::unblock(move || kept.prune()).await;
        }
    }

    /// Fires an event for whoever listens on this machine.
    pub(crate) async fn tell_machine(&self, tag: &str, data: Map) {
        let event = bus::Event {
            tag: tag.to_owned(),
            data: data.with("_stamp", jid::stamp()),
        };
        let opts = self.opts().clone();
        let fired = smol::unblock(move || bus::fire(&opts, &event)).await;
        if let Err(error) = fired {
            log::error(format_args!("The event {tag} is not on the bus: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_event_makes_room() {
        let following = Following {
            rule: Rule::new("my/*", &"/a.sls".into()),
            waiting: Mutex::default(),
            came: Bell::new(),
        };
        let mut dropped = (0..5).map(|sequence| {
            let unkept = None;
            let dropped = following.push(Waiting { sequence, unkept }, 3);
            dropped.map(|dropped| dropped.sequence)
        });
        let expected = [None, None, None, Some(0), Some(1)];
        assert!(dropped.by_ref().eq(expected));
        let left = lock(&following.waiting);
        let left: Vec<u64> = left.iter().map(|waiting| waiting.sequence).collect();
        assert_eq!(left, [2, 3, 4]);
    }

    #[test]
    fn numbers_of_events_only_rise() {
        let reactor = Reactor::new(&Opts::new(Map::new()));
        let first = reactor.next();
        assert!(reactor.next() > first);
        // A clock that was set back, or events of another time.
        reactor.is_used(u64::MAX - 5);
        assert_eq!(reactor.next(), u64::MAX - 4);
    }
}
