//! [`Follower`]: follows the log of events for one rule.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use link::wait::pause;
use reactor::{ERROR, Limits, Place, Reaction, Rule, State};
use smol::channel::{Receiver, Sender, bounded};
use smol::future::{FutureExt, pending};
use smol::lock::Semaphore;
use value::{Map, Value, channel, log};
use wire::tag::Tag;

use super::{Reactor, lock};
use crate::store::{Command, Error, Event, Seen, Watch};

/// The maximum number of events that are read from the log at a time.
const PAST: usize = 256;
/// The maximum number of a rule's events that wait in memory for their turn. All others wait in the
/// log.
const WAITING_MAX: usize = 256;
/// The interval between writes of the cursor while events arrive. After a crash, stored reactions
/// show which events after the cursor are done.
const CURSOR_EVERY: Duration = Duration::from_millis(500);
/// The pause after a failure of the store.
const BREATH: Duration = Duration::from_secs(1);
/// The maximum number of successful reactions of a rule that are kept. It is also the maximum
/// number of all others.
const KEPT_MAX: usize = 1000;
/// The number of reactions after which the oldest ones are removed.
const KEPT_STEP: u64 = 256;

/// The events that were read and are not done yet.
#[derive(Debug, Default)]
struct Progress {
    open: BTreeSet<u64>,
    /// The last event that was read.
    read: u64,
    done: u64,
}

impl Progress {
    /// Returns the last event that is done and before which all events are done.
    fn cursor(&self) -> u64 {
        let open = self.open.first().map(|first| first.saturating_sub(1));
        open.unwrap_or(self.read)
    }
}

/// A rule and its progress in the log.
pub(super) struct Follower {
    reactor: Arc<Reactor>,
    rule: Rule,
    watch: Watch,
    progress: Arc<Mutex<Progress>>,
    /// Room for waiting events.
    window: Arc<Semaphore>,
    /// Room for running reactions.
    turns: Arc<Semaphore>,
    /// The last event of each minion. The channel is closed when that event is done.
    last: HashMap<String, Receiver<()>>,
    written: (u64, Instant),
    pruned: u64,
}

impl Follower {
    /// Returns a follower that continues at the rule's cursor, or begins with the next event.
    pub(super) async fn begin(reactor: Arc<Reactor>, rule: Rule) -> Result<Self, Error> {
        let watch = reactor.store.watch();
        let name = super::cursor(&rule);
        let read = match reactor.store.cursor(&name)? {
            Some(read) => read,
            None => {
                let read = watch.first().saturating_sub(1);
                let sequence = Some(read);
                reactor
                    .store
                    .apply(Command::Cursor { name, sequence })
                    .await?;
                read
            }
        };
        let Limits {
            threads, waiting, ..
        } = reactor.limits;
        let progress = Progress {
            read,
            ..Progress::default()
        };
        Ok(Self {
            reactor,
            rule,
            watch,
            progress: Arc::new(Mutex::new(progress)),
            window: Arc::new(Semaphore::new(waiting.min(WAITING_MAX))),
            turns: Arc::new(Semaphore::new(threads)),
            last: HashMap::new(),
            written: (read, Instant::now()),
            pruned: 0,
        })
    }

    /// Reacts to events until the master ends.
    pub(super) async fn run(mut self) {
        let mut upto = self.watch.first();
        loop {
            let next = lock(&self.progress).read + 1;
            if next < upto {
                if let Err(error) = self.past(next, upto).await {
                    log::error(format_args!(
                        "cannot read the events for the rule {}, retrying: {error}",
                        self.rule.glob
                    ));
                    pause(BREATH).await;
                }
                continue;
            }
            // No deadline: the next event may come at any time.
            let seen = async { Some(self.watch.next().await) };
            let has_more = !self.is_settled();
            let idle = async {
                match has_more {
                    true => pause(CURSOR_EVERY).await,
                    false => pending().await,
                };
                None
            };
            match seen.or(idle).await {
                Some(Some(Seen::Event(event))) => self.take(event).await,
                Some(Some(Seen::Missed { to, .. })) => upto = to + 1,
                Some(None) => return,
                None => {}
            }
            self.note().await;
        }
    }

    /// Reads some events of the log.
    async fn past(&mut self, from: u64, upto: u64) -> Result<(), Error> {
        let store = self.reactor.store.clone();
        let read = move || {
            let (first, _) = store.log()?;
            let events = store.events(from)?.take(PAST);
            let is_here = |event: &Result<Event, Error>| {
                event.as_ref().map_or(true, |event| event.sequence < upto)
            };
            let events = events.take_while(is_here);
            let events = events.collect::<Result<Vec<Event>, Error>>()?;
            Ok::<_, Error>((first, events))
        };
        let (first, events) = smol::unblock(read).await?;
        if first > from {
            let lost = first.min(upto) - from;
            self.lost(from, lost).await;
        }
        // Events that the log has dropped are not waited for.
        let end = events.last().map_or(upto - 1, |event| event.sequence);
        for event in events {
            self.take(Arc::new(event)).await;
        }
        {
            let mut progress = lock(&self.progress);
            progress.read = progress.read.max(end);
        }
        self.note().await;
        Ok(())
    }

    /// Reports events that were dropped from the log before this rule had read them.
    async fn lost(&self, from: u64, count: u64) {
        let glob = &self.rule.glob;
        let text = format!(
            "The rule {glob} was too slow and missed {count} events from number {from} on: the log no longer has them"
        );
        log::error(format_args!("{text}"));
        let data = Map::new()
            .with("rule", glob.as_str())
            .with("sequence", from)
            .with("state", "lost")
            .with("errors", Value::list([text.into()]))
            .with("generation", 1);
        self.reactor.events.fire(ERROR, data).await;
    }

    /// Takes an event, and spawns the reaction to it, which waits for its turn.
    async fn take(&mut self, event: Arc<Event>) {
        let sequence = event.sequence;
        {
            let mut progress = lock(&self.progress);
            if sequence <= progress.read {
                return;
            }
            if !self.is_wanted(&event) {
                progress.read = sequence;
                return;
            }
        }
        let room = self.window.acquire_arc().await;
        {
            let mut progress = lock(&self.progress);
            progress.open.insert(sequence);
            progress.read = sequence;
        }
        self.reactor.metrics.reactions_waiting.up();
        let (ended, before) = self.behind(&event);
        let (reactor, rule) = (self.reactor.clone(), self.rule.clone());
        let (progress, turns) = (self.progress.clone(), self.turns.clone());
        let may_be_known = sequence < self.watch.first();
        let work = async move {
            if let Some(before) = before {
                // No deadline: the channel closes when the event before it is done.
                channel::or_closed(before.recv().await);
            }
            let turn = turns.acquire_arc().await;
            let turn = Arc::new((turn, reactor.turns.acquire_arc().await));
            while !reactor.react(&rule, &event, may_be_known, &turn).await {
                pause(BREATH).await;
            }
            let mut progress = lock(&progress);
            progress.open.remove(&sequence);
            progress.done += 1;
            reactor.metrics.reactions_waiting.down();
            drop((ended, room));
        };
        smol::spawn(work).detach();
    }

    /// Returns whether the rule reacts to an event. It ignores events of the reactor's own runners,
    /// as in Salt, and all events while another master is the leader.
    fn is_wanted(&self, event: &Event) -> bool {
        let is_own = reactor::is_own(&event.data);
        self.rule.matches(&event.tag) && !is_own && self.reactor.is_leader()
    }

    /// Returns the channel that reports the end of this event to the minion's next event, and the
    /// channel that reports the end of the minion's event before it.
    fn behind(&mut self, event: &Event) -> (Option<Sender<()>>, Option<Receiver<()>>) {
        let Some(id) = whose(event) else {
            return (None, None);
        };
        if self.last.len() > 2 * PAST {
            self.last.retain(|_, last| !last.is_closed());
        }
        let (ended, ends) = bounded(1);
        (Some(ended), self.last.insert(id, ends))
    }

    /// Returns whether all events that were read are done and the cursor is written: nothing
    /// changes before the next event.
    fn is_settled(&self) -> bool {
        let progress = lock(&self.progress);
        progress.open.is_empty() && progress.cursor() == self.written.0
    }

    /// Writes the cursor, and removes the oldest reactions, if it is time to.
    async fn note(&mut self) {
        let (cursor, done) = {
            let progress = lock(&self.progress);
            (progress.cursor(), progress.done)
        };
        let (written, at) = self.written;
        if cursor != written && at.elapsed() >= CURSOR_EVERY {
            self.written = (cursor, Instant::now());
            let (name, sequence) = (super::cursor(&self.rule), Some(cursor));
            let kept = self.reactor.store.later(Command::Cursor { name, sequence });
            if let Err(error) = kept.await {
                log::error(format_args!("{error}"));
            }
        }
        if done >= self.pruned + KEPT_STEP {
            self.pruned = done;
            if let Err(error) = self.prune(cursor).await {
                log::error(format_args!("cannot delete old reactions: {error}"));
            }
        }
    }

    /// Removes the oldest reactions. Reactions that did not succeed have a separate limit.
    async fn prune(&self, cursor: u64) -> Result<(), Error> {
        let (store, number) = (self.reactor.store.clone(), self.rule.number());
        let old = smol::unblock(move || {
            let (mut good, mut bad) = (0, 0);
            let mut old = Vec::new();
            for reaction in store.reactions(Some(number))?.rev() {
                let (place, row) = reaction?;
                let reaction = Reaction::from_row(place, &row);
                if reaction.as_ref().is_some_and(|one| !one.state.is_final()) {
                    continue;
                }
                let is_good = reaction.is_some_and(|reaction| reaction.state == State::Done);
                let count = if is_good { &mut good } else { &mut bad };
                *count += 1;
                if *count > KEPT_MAX && place.sequence <= cursor {
                    old.push(place);
                }
            }
            Ok::<Vec<Place>, Error>(old)
        });
        for place in old.await? {
            let row = None;
            self.reactor
                .store
                .later(Command::Reaction { place, row })
                .await?;
        }
        Ok(())
    }
}

/// Returns the minion that an event is about.
fn whose(event: &Event) -> Option<String> {
    if let Some(id) = event.data.get("id").and_then(Value::as_str) {
        return Some(id.to_owned());
    }
    match Tag::parse(&event.tag) {
        Tag::Minion { id, .. }
        | Tag::JobOf { id, .. }
        | Tag::StateResult { id, .. }
        | Tag::Beacon { id, .. } => Some(id.to_owned()),
        _ => None,
    }
}
