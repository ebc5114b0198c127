//! The minion's own reactor: rules that answer the events of this machine, with or without a
//! master.
//!
//! It receives the events on the machine's bus: those fired by `salt-call`, by jobs, by beacons,
//! and at the daemon's start. Each rule answers its events in order, and the rules work in
//! parallel. The parts that it shares with a master's reactor are in the crate `reactor`.
//!
//! An event that a rule matches is written to a file ([`kept`]) before anything else is done with
//! it. So are the chunks that the rule makes from it, with the ids of their jobs, and the result of
//! each chunk. After a crash at any moment the rest is done. A job whose return was left on disk is
//! not run again. A job that still runs is waited for. A job that is gone is run again under its
//! id, three times at most, because it may be what ends the daemon. So an effect happens at least
//! once, and exactly once if its end was recorded. If the disk takes no file, the event is answered
//! from memory, at most once. Events that were fired but not yet read from the socket when the
//! daemon was killed are lost too: the sender of an event does not learn whether any process
//! receives it.

mod act;
pub(crate) mod kept;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use link::wait::unblock;
use modules::event_bus::{self, Ear};
use reactor::{Causes, ERROR, Event, Limits, Place, Rule, Templates};
use smol::Async;
use smol::channel::{Receiver, Sender, bounded};
use smol::lock::Semaphore;
use state::opts::Opts;
use value::{Map, Value, jid, log};

use crate::launcher::Launcher;
use crate::uplink::Upstreams;
use crate::wakeup::Wakeup;
use kept::{ReactorFolder, Row};

pub(crate) use act::REACTION;

/// The maximum number of events of a rule that wait for their turn (`reactor_worker_hwm` if that is
/// less). If there are more, the oldest event is dropped and this is reported.
const WAITING_MAX: usize = 1000;
/// The number of finished reactions after which the oldest ones are removed.
const PRUNE_EVERY: usize = 64;
/// The maximum number of events that are read from the socket at once, and (`READ_MAX`) that wait
/// in memory until they are on disk.
const HEARD_MAX: usize = 64;
const READ_MAX: usize = 4096;

/// The state that all rules share, and the parts of the daemon that reactions use.
pub(crate) struct Reactor {
    opts: Opts,
    launcher: Launcher,
    upstreams: Upstreams,
    limits: Limits,
    waiting_max: usize,
    causes: Causes,
    templates: Templates,
    kept: ReactorFolder,
    following: Mutex<Vec<(Arc<Following>, smol::Task<()>)>>,
    /// The tasks that receive events, once there was a rule.
    hearing: Mutex<Vec<smol::Task<()>>>,
    /// The limit of reactions that run at the same time.
    turns: Arc<Semaphore>,
    /// The lock for state runs of reactions, which run one after the other, because they would
    /// refuse each other.
    state_runs: Semaphore,
    /// The number of the last event.
    sequence: Mutex<u64>,
    /// The number of reactions that have ended.
    ended: AtomicUsize,
}

/// A rule, and the events that wait for it.
#[derive(Debug)]
struct Following {
    rule: Rule,
    waiting: Mutex<VecDeque<Waiting>>,
    came: Wakeup,
}

/// An event that waits. Its contents are in its file, unless the file could not be written.
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

    /// Adds an event to the queue. Returns the event that was dropped to make room for it, if any.
    fn push(&self, waiting: Waiting, most: usize) -> Option<Waiting> {
        let mut all = lock(&self.waiting);
        let dropped = (all.len() >= most).then(|| all.pop_front()).flatten();
        all.push_back(waiting);
        self.came.ring();
        dropped
    }
}

impl Reactor {
    pub(crate) fn new(opts: &Opts, launcher: Launcher, upstreams: Upstreams) -> Self {
        let limits = Limits::from_opts(opts);
        Self {
            opts: opts.clone(),
            launcher,
            upstreams,
            limits,
            waiting_max: limits.waiting.min(WAITING_MAX),
            causes: Causes::default(),
            templates: Templates::default(),
            kept: ReactorFolder::new(opts),
            following: Mutex::default(),
            hearing: Mutex::default(),
            turns: Arc::new(Semaphore::new(limits.threads)),
            state_runs: Semaphore::new(1),
            sequence: Mutex::default(),
            ended: AtomicUsize::new(0),
        }
    }

    /// Returns the rules that match an event.
    fn following(&self, tag: &str, data: &Map) -> Vec<Arc<Following>> {
        if reactor::is_own(data) {
            return Vec::new();
        }
        let all = lock(&self.following);
        let matching = all.iter().filter(|(one, _)| one.rule.matches(tag));
        matching.map(|(one, _)| one.clone()).collect()
    }

    /// Returns the number of the next event. It is higher than all earlier ones, including those
    /// from before a restart of the daemon.
    fn next(&self) -> u64 {
        let now = value::clock::since_epoch().as_micros();
        let now = u64::try_from(now).unwrap_or_default();
        let mut last = lock(&self.sequence);
        *last = now.max(last.saturating_add(1));
        *last
    }

    fn is_used(&self, sequence: u64) {
        let mut last = lock(&self.sequence);
        *last = sequence.max(*last);
    }
}

impl Reactor {
    /// Begins to follow the rules of the configuration, and continues what was begun before a
    /// restart.
    pub(crate) async fn begin(self: &Arc<Self>) {
        if !self.follow_rules(&self.opts) {
            return;
        }
        let this = self.clone();
        unblock(move || this.go_on()).await;
        let id = self.opts.id();
        let tag = format!("salt/minion/{id}/start");
        let said = format!("Minion {id} started at {}", jid::asctime());
        let data = Map::new()
            .with("id", id)
            .with("cmd", "_minion_event")
            .with("pretag", Value::Null)
            .with("data", said)
            .with("tag", tag.as_str());
        tell_machine(&self.opts, &tag, data).await;
    }

    /// Follows the rules that the configuration has now. Returns true if there are any.
    pub(crate) fn follow_rules(self: &Arc<Self>, opts: &Opts) -> bool {
        let (rules, faults) = reactor::rules(opts);
        for fault in faults {
            log::error(format_args!("{fault}"));
        }
        let mut all = lock(&self.following);
        all.retain(|(one, _)| rules.contains(&one.rule));
        for rule in &rules {
            if !all.iter().any(|(one, _)| one.rule == *rule) {
                let following = Arc::new(Following {
                    rule: rule.clone(),
                    waiting: Mutex::default(),
                    came: Wakeup::new(),
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

    /// Begins to receive the events of this machine.
    fn hear(self: &Arc<Self>) {
        let mut hearing = lock(&self.hearing);
        if !hearing.is_empty() {
            return;
        }
        let ear = match Ear::that_answers(&self.opts) {
            Ok(ear) => ear,
            Err(error) => {
                return log::error(format_args!(
                    "cannot listen for events for the rules of the option `reactor`: {error}"
                ));
            }
        };
        let (heard, hears) = bounded(READ_MAX);
        hearing.push(smol::spawn(self.clone().read(ear, heard)));
        hearing.push(smol::spawn(self.clone().take_in(hears)));
    }

    /// Reads from the socket the events that a rule matches. It reads quickly, so that the senders
    /// of events do not wait.
    async fn read(self: Arc<Self>, ear: Ear, heard: Sender<event_bus::Event>) {
        let ready = ear.descriptor().try_clone_to_owned().and_then(Async::new);
        let ready = match ready {
            Ok(ready) => ready,
            Err(error) => return log::error(format_args!("cannot listen for events: {error}")),
        };
        loop {
            // No deadline: an event may come at any time.
            if let Err(error) = ready.readable().await {
                return log::error(format_args!("cannot listen for further events: {error}"));
            }
            for event in ear.heard(HEARD_MAX) {
                let is_wanted = !self.following(&event.tag, &event.data).is_empty();
                // If the disk is too slow for the events over a long time, the events wait in their
                // socket, and so do their senders.
                if is_wanted && heard.send(event).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Writes the received events to disk, and adds them to the queues of their rules.
    async fn take_in(self: Arc<Self>, hears: Receiver<event_bus::Event>) {
        // No deadline: an event may come at any time.
        while let Ok(event) = hears.recv().await {
            let event = Event {
                sequence: self.next(),
                tag: event.tag,
                data: event.data,
            };
            for following in self.following(&event.tag, &event.data) {
                self.take_one(&following, &event).await;
            }
        }
    }

    async fn take_one(self: &Arc<Self>, following: &Following, event: &Event) {
        let place = following.place(event.sequence);
        let (kept, row) = (self.kept.clone(), Row::Event(event.clone()));
        let written = unblock(move || kept.write(place, &row)).await;
        let unkept = written.err().map(|error| {
            let path = self.kept.path().display();
            log::error(format_args!(
                "processing the event {} from memory because it cannot be stored in {path}: {error}",
                event.tag
            ));
            event.clone()
        });
        let waiting = Waiting {
            sequence: event.sequence,
            unkept,
        };
        if let Some(dropped) = following.push(waiting, self.waiting_max) {
            self.dropped(following, &dropped).await;
        }
    }

    /// Reports an event that was dropped to make room.
    async fn dropped(self: &Arc<Self>, following: &Following, dropped: &Waiting) {
        let glob = &following.rule.glob;
        let most = self.waiting_max;
        let text = format!(
            "{most} events are queued for the rule {glob} (reactor_worker_hwm): dropping the oldest"
        );
        log::error(format_args!("{text}"));
        let place = following.place(dropped.sequence);
        self.kept.remove(place);
        // A rule that answers such errors may be the one that has no room.
        if following.rule.matches(ERROR) {
            return;
        }
        let data = Map::new()
            .with("rule", glob.as_str())
            .with("sequence", dropped.sequence)
            .with("state", "lost")
            .with("errors", Value::list([text.into()]))
            .with("generation", 1);
        tell_machine(&self.opts, ERROR, data).await;
    }

    /// Adds everything that had not finished when the daemon ended to the queues.
    fn go_on(&self) {
        for (place, _) in self.kept.prune() {
            self.is_used(place.sequence);
            let all = lock(&self.following);
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
                        "ignoring the event {}, because its rule no longer exists",
                        place.sequence
                    ));
                    self.kept.remove(place);
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
                // No deadline: an event may come at any time.
                None => following.came.rung().await,
            }
        }
    }

    async fn answer_event(self: &Arc<Self>, following: &Following, waiting: Waiting) {
        let place = following.place(waiting.sequence);
        let row = match waiting.unkept {
            Some(event) => Ok(Row::Event(event)),
            None => {
                let kept = self.kept.clone();
                unblock(move || kept.read(place)).await
            }
        };
        let turn = Arc::new(self.turns.acquire_arc().await);
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
                // A reaction that was written has all its chunks, so the event's data is not needed
                // any more. It is gone, because `keep` has replaced the event's file.
                (Some(reaction), event)
            }
            Err(error) => {
                return log::error(format_args!(
                    "cannot process the event {} for the rule {}: {error}",
                    place.sequence, following.rule.glob
                ));
            }
        };
        reactor::react(self, known, &following.rule, &Arc::new(event), &turn).await;
        let before = self.ended.fetch_add(1, Ordering::Relaxed);
        if before % PRUNE_EVERY == PRUNE_EVERY - 1 {
            let kept = self.kept.clone();
            unblock(move || kept.prune()).await;
        }
    }
}

/// Fires an event on this machine's bus.
pub(crate) async fn tell_machine(opts: &Opts, tag: &str, data: Map) {
    let event = event_bus::Event {
        tag: tag.to_owned(),
        data: data.with("_stamp", jid::stamp()),
    };
    let opts = opts.clone();
    let fired = unblock(move || event_bus::fire(&opts, &event)).await;
    if let Err(error) = fired {
        log::error(format_args!(
            "cannot fire the event {tag} on the event bus: {error}"
        ));
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
            came: Wakeup::new(),
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
        let (opts, upstreams) = (Opts::new(Map::new()), Upstreams::default());
        let (launcher, _) = Launcher::new(Vec::new(), Arc::default(), upstreams.clone());
        let reactor = Reactor::new(&opts, launcher, upstreams);
        let first = reactor.next();
        assert!(reactor.next() > first);
        // The clock may have been set back since the events of an earlier run.
        reactor.is_used(u64::MAX - 5);
        assert_eq!(reactor.next(), u64::MAX - 4);
    }
}
