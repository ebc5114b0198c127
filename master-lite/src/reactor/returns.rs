//! [`Awaited`]: the reactions whose jobs were sent and have not returned.
//!
//! One task follows the log for their returns. A reaction does not keep its turn while it waits, so a
//! long job delays no other reaction. After a restart the stored reactions are awaited again, and
//! returns that arrived meanwhile are read from the store.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use link::wait::pause;
use reactor::{Place, Reaction, State, finish, shortened};
use smol::channel::{Receiver, Sender, bounded};
use smol::future::FutureExt;
use value::{Map, Value, channel, log};
use wire::Id;
use wire::tag::Tag;

use super::effects::is_good;
use super::{Reactor, lock};
use crate::store::{Error, Event, Seen, Store, Watch, now_ms};

/// The maximum number of reactions that wait for returns. Above it, a reaction ends once its jobs
/// were sent.
const AWAITED_MAX: usize = 10_000;
/// The comment of a chunk whose returns are not awaited.
pub(super) const NOT_AWAITED: &str =
    "; the returns are not awaited, because 10000 reactions wait for theirs already";
/// The interval of looks for reactions that have waited too long.
const LOOK: Duration = Duration::from_secs(1);
/// The maximum number of minions that a comment names.
const NAMED_MAX: usize = 20;

/// The reactions that wait for returns.
pub(super) struct Awaited {
    registry: Mutex<Registry>,
    /// Wakes the task that looks for late reactions when the first one was added.
    added: (Sender<()>, Receiver<()>),
}

impl Default for Awaited {
    fn default() -> Self {
        Self {
            registry: Mutex::default(),
            added: bounded(1),
        }
    }
}

#[derive(Default)]
struct Registry {
    reactions: HashMap<Place, Waiting>,
    /// The place and chunk of each job.
    jobs: HashMap<String, (Place, usize)>,
}

/// A reaction that waits.
struct Waiting {
    reaction: Reaction,
    chunks: HashMap<usize, Open>,
    /// The end of the wait. `None` if it is too far away for a clock.
    until: Option<Instant>,
}

/// A chunk whose job has not returned from all minions.
struct Open {
    left: HashSet<Id>,
    failed: Vec<String>,
}

impl Open {
    fn came(&mut self, id: &Id, data: &Map) {
        if self.left.remove(id) && !is_good(data) {
            self.failed
                .push(format!("failed on {id}: {}", failure(data)));
        }
    }

    /// Returns the chunk's outcome: the minions that have failed, or those without a return.
    fn outcome(&self) -> (State, String) {
        if !self.failed.is_empty() {
            return (State::Failed, named(&self.failed));
        }
        if self.left.is_empty() {
            return (State::Done, String::new());
        }
        let mut left: Vec<String> = self.left.iter().map(ToString::to_string).collect();
        left.sort();
        let text = format!("no return from {} (reactor_return_timeout)", named(&left));
        (State::Unknown, text)
    }
}

/// Lists texts; of many, the first ones and the number of the others.
fn named(texts: &[String]) -> String {
    let first: Vec<&str> = texts.iter().take(NAMED_MAX).map(String::as_str).collect();
    let first = first.join(", ");
    match texts.len().saturating_sub(NAMED_MAX) {
        0 => first,
        more => format!("{first}, and {more} more minions"),
    }
}

/// Returns a text for a return that failed: the comment of the first failed state, or the return.
fn failure(data: &Map) -> String {
    let ret = data.get("return").cloned().unwrap_or_default();
    let states = ret.as_map().into_iter().flat_map(Map::iter);
    let failed = states
        .filter(|(_, state)| state.get("result") == Some(&Value::Bool(false)))
        .find_map(|(tag, state)| {
            let id = state
                .get("__id__")
                .map_or_else(|| tag.to_text(), Value::to_text);
            Some(format!("{id}: {}", state.get("comment")?.to_text()))
        });
    shortened(&failed.unwrap_or_else(|| ret.to_text()))
}

impl Registry {
    fn add(&mut self, waiting: Waiting) {
        let place = waiting.reaction.place;
        for at in waiting.chunks.keys() {
            if let Some(chunk) = waiting.reaction.chunks.get(*at) {
                self.jobs.insert(chunk.jid.clone(), (place, *at));
            }
        }
        self.reactions.insert(place, waiting);
    }

    /// Records a return. Returns the reaction if this was the last one.
    fn came(&mut self, jid: &str, id: &Id, data: &Map) -> Option<Reaction> {
        let (place, at) = *self.jobs.get(jid)?;
        let waiting = self.reactions.get_mut(&place)?;
        waiting.chunks.get_mut(&at)?.came(id, data);
        self.ended(place)
    }

    /// Removes a reaction of which nothing is awaited any more, and returns it.
    fn ended(&mut self, place: Place) -> Option<Reaction> {
        let waiting = self.reactions.get(&place)?;
        let is_open = waiting.chunks.values().any(|open| !open.left.is_empty());
        if is_open { None } else { self.remove(place) }
    }

    /// Removes a reaction, and returns it with its outcome.
    fn remove(&mut self, place: Place) -> Option<Reaction> {
        let Waiting {
            mut reaction,
            chunks,
            ..
        } = self.reactions.remove(&place)?;
        for (at, open) in &chunks {
            if let Some(chunk) = reaction.chunks.get_mut(*at) {
                self.jobs.remove(&chunk.jid);
                let (state, text) = open.outcome();
                chunk.state = state;
                let said = [std::mem::take(&mut chunk.comment), text];
                let said = said.into_iter().filter(|text| !text.is_empty());
                chunk.comment = said.collect::<Vec<_>>().join(", ");
            }
        }
        reaction.state = reaction.outcome();
        Some(reaction)
    }

    /// Removes the reactions whose time is over.
    fn late(&mut self, now: Instant) -> Vec<Reaction> {
        let late = self.reactions.values();
        let late = late.filter(|waiting| waiting.until.is_some_and(|until| until <= now));
        let places: Vec<Place> = late.map(|waiting| waiting.reaction.place).collect();
        let removed = places.into_iter().filter_map(|place| self.remove(place));
        removed.collect()
    }

    /// Returns the jobs of a reaction, or of all, each with the minions that have not returned.
    fn left(&self, place: Option<Place>) -> Vec<(String, Vec<Id>)> {
        let mut left = Vec::new();
        for (jid, (of, at)) in &self.jobs {
            if place.is_none_or(|place| place == *of)
                && let Some(open) = self.reactions.get(of).and_then(|one| one.chunks.get(at))
            {
                left.push((jid.clone(), open.left.iter().cloned().collect()));
            }
        }
        left
    }
}

impl Awaited {
    /// Returns whether too many reactions wait.
    pub(super) fn is_full(&self) -> bool {
        lock(&self.registry).reactions.len() >= AWAITED_MAX
    }

    /// Returns the number of reactions that wait.
    pub(super) fn count(&self) -> usize {
        lock(&self.registry).reactions.len()
    }

    fn add(&self, waiting: Waiting) {
        lock(&self.registry).add(waiting);
        channel::if_open(self.added.0.try_send(()));
    }

    fn came(&self, event: &Event) -> Option<Reaction> {
        let Tag::JobOf {
            jid,
            what: "ret",
            id,
            ..
        } = Tag::parse(&event.tag)
        else {
            return None;
        };
        lock(&self.registry).came(jid, &id.parse().ok()?, &event.data)
    }

    /// Reads the returns of a reaction, or of all, from the store. Returns the reactions that wait
    /// for nothing any more.
    fn catch_up(&self, store: &Store, place: Option<Place>) -> Result<Vec<Reaction>, Error> {
        let left = lock(&self.registry).left(place);
        let mut ended = Vec::new();
        for (jid, ids) in left {
            for id in ids {
                if let Some(returned) = store.returned(&jid, &id)? {
                    ended.extend(lock(&self.registry).came(&jid, &id, &returned.data));
                }
            }
        }
        // One whose minions have all been removed waits for nothing from the beginning.
        ended.extend(place.and_then(|place| lock(&self.registry).ended(place)));
        Ok(ended)
    }
}

/// Returns a reaction with the minions that its jobs were sent to. A job that the store has removed
/// has no minions left.
fn waiting(store: &Store, reaction: Reaction, most: Duration) -> Result<Waiting, Error> {
    let mut chunks = HashMap::new();
    for (at, chunk) in reaction.chunks.iter().enumerate() {
        if chunk.state != State::Sent {
            continue;
        }
        let job = store.job(&chunk.jid)?;
        let minions = job.map(|job| job.minions).unwrap_or_default().into_iter();
        let left = minions.filter(|id| !chunk.absent.iter().any(|absent| absent == id.as_str()));
        let open = Open {
            left: left.collect(),
            failed: Vec::new(),
        };
        chunks.insert(at, open);
    }
    // A clock that jumps from now on changes nothing.
    let waited = Duration::from_millis(now_ms().saturating_sub(reaction.began_ms));
    Ok(Waiting {
        until: Instant::now().checked_add(most.saturating_sub(waited)),
        reaction,
        chunks,
    })
}

impl Reactor {
    /// Returns the number of reactions that wait for returns.
    pub(crate) fn awaited(&self) -> usize {
        self.awaited.count()
    }

    /// Waits for the returns of a reaction in the background.
    pub(super) async fn await_reaction(self: &Arc<Self>, reaction: Reaction) {
        let (reactor, place) = (self.clone(), reaction.place);
        let entered = smol::unblock(move || {
            let waiting = waiting(&reactor.store, reaction, reactor.limits.returns)?;
            reactor.awaited.add(waiting);
            // A return may have arrived before.
            reactor.awaited.catch_up(&reactor.store, Some(place))
        });
        match entered.await {
            Ok(ended) => self.end_all(ended),
            Err(error) => log::error(format_args!("cannot await the returns of a job: {error}")),
        }
    }

    /// Awaits the stored reactions whose calls were all made before a restart. The followers
    /// continue all others.
    pub(super) async fn await_known(self: &Arc<Self>) -> Result<(), Error> {
        let store = self.store.clone();
        let read = smol::unblock(move || {
            let mut known = Vec::new();
            for reaction in store.reactions(None)? {
                let (place, row) = reaction?;
                let reaction = Reaction::from_row(place, &row);
                known.extend(reaction.filter(|one| {
                    let mut chunks = one.chunks.iter();
                    one.state == State::Begun
                        && one.outcome() == State::Begun
                        && chunks.all(|chunk| chunk.state.is_called())
                }));
            }
            Ok::<_, Error>(known)
        });
        for reaction in read.await? {
            self.await_reaction(reaction).await;
        }
        Ok(())
    }

    /// Follows the log for returns until the store is closed.
    pub(super) async fn follow_returns(self: Arc<Self>, watch: Watch) {
        let mut looked = Instant::now();
        loop {
            let has_some = self.awaited.count() > 0;
            // No deadline: the next event may come at any time.
            let seen = async { Some(watch.next().await) };
            let tick = async {
                match has_some {
                    true => pause(LOOK).await,
                    // No deadline: without a reaction that waits, none can be late.
                    false => channel::or_closed(self.awaited.added.1.recv().await),
                }
                None
            };
            match seen.or(tick).await {
                Some(Some(Seen::Event(event))) => self.end_all(self.awaited.came(&event)),
                Some(Some(Seen::Missed { .. })) => self.catch_up().await,
                Some(None) => return,
                None => {}
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                let late = lock(&self.awaited.registry).late(Instant::now());
                self.end_all(late);
            }
        }
    }

    async fn catch_up(self: &Arc<Self>) {
        let reactor = self.clone();
        let read = smol::unblock(move || reactor.awaited.catch_up(&reactor.store, None));
        match read.await {
            Ok(ended) => self.end_all(ended),
            Err(error) => log::error(format_args!("cannot read returns: {error}")),
        }
    }

    /// Stores the ends of reactions in the background.
    fn end_all(self: &Arc<Self>, ended: impl IntoIterator<Item = Reaction>) {
        for reaction in ended {
            let reactor = self.clone();
            let end = async move { finish(&reactor, reaction, false).await };
            smol::spawn(end).detach();
        }
    }
}

#[cfg(test)]
mod tests {
    use value::json;

    use super::*;

    fn id(name: &str) -> Id {
        name.parse().unwrap()
    }

    fn data(text: &str) -> Map {
        json::read(text).unwrap().as_map().unwrap().clone()
    }

    /// Returns a registry with one reaction, whose job was sent to two minions.
    fn registry() -> (Registry, Place) {
        let place = Place {
            rule: 1,
            sequence: 2,
        };
        let chunk = r#"{"low": {"__id__": "a"}, "needs": [], "jid": "7", "state": "sent", "comment": "", "absent": ["m9"]}"#;
        let row = format!(
            r#"{{"rule": "r", "tag": "t", "began_ms": 5, "state": "begun", "generation": 0, "chunks": [{chunk}]}}"#
        );
        let reaction = Reaction::from_row(place, &data(&row)).unwrap();
        assert_eq!(
            reaction.row(),
            Reaction::from_row(place, &reaction.row()).unwrap().row()
        );
        let open = Open {
            left: [id("m1"), id("m2")].into(),
            failed: Vec::new(),
        };
        let mut registry = Registry::default();
        registry.add(Waiting {
            reaction,
            chunks: [(0, open)].into(),
            until: Some(Instant::now() + Duration::from_secs(100)),
        });
        (registry, place)
    }

    #[test]
    fn a_reaction_ends_with_the_last_return() {
        let (mut registry, _) = registry();
        let good = data(r#"{"retcode": 0, "success": true, "return": true}"#);
        assert_eq!(registry.came("7", &id("m1"), &good), None);
        assert_eq!(registry.came("7", &id("m1"), &good), None);
        assert_eq!(registry.came("8", &id("m2"), &good), None);
        let ended = registry.came("7", &id("m2"), &good).unwrap();
        assert_eq!(ended.state, State::Done);
        assert_eq!(ended.chunks[0].state, State::Done);
        assert!(registry.jobs.is_empty() && registry.reactions.is_empty());
    }

    #[test]
    fn a_failed_return_names_the_minion_and_the_state() {
        let (mut registry, _) = registry();
        let bad = data(
            r#"{"retcode": 2, "return": {"file_|-a_|-b_|-managed": {"result": false, "__id__": "a", "comment": "no disk"}}}"#,
        );
        assert_eq!(registry.came("7", &id("m1"), &bad), None);
        let ended = registry.came("7", &id("m2"), &data("{}")).unwrap();
        assert_eq!(ended.state, State::Failed);
        assert_eq!(ended.errors(), ["failed on m1: a: no disk"]);
    }

    #[test]
    fn a_reaction_without_a_return_is_unknown_after_its_time() {
        let (mut registry, _) = registry();
        let good = data(r#"{"retcode": 0}"#);
        assert_eq!(registry.came("7", &id("m2"), &good), None);
        assert!(registry.late(Instant::now()).is_empty());
        let late = registry.late(Instant::now() + Duration::from_secs(100));
        assert_eq!(late[0].state, State::Unknown);
        assert_eq!(
            late[0].errors(),
            ["no return from m1 (reactor_return_timeout)"]
        );
        assert!(registry.jobs.is_empty());
    }
}
