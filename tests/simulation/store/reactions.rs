//! The reactors: the leader reacts to each event of a minion with one event. As in the master, the
//! reaction's row and its effect are one command, which is void in later terms, and after the reactor
//! was stopped.

use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use reactor::Place;
use value::Map;

use crate::acts;
use crate::machine::Stored;
use crate::minions;
use crate::site::{Masters, PATIENCE, Sabotage};
use crate::store::replica::{Fence, encoded};
use crate::store::{Applied, Command, Event, Store};
use crate::story::{Chosen, Fleet, at_ms};
use crate::world::{self, Process};

/// The prefix of the tags of the effects.
pub(crate) const EFFECT: &str = "effect/";
const CURSOR: &str = "reactor/1";
const RULE: u64 = 1;

/// Returns the place of the reaction to an event.
pub(crate) fn place(sequence: u64) -> Place {
    Place {
        rule: RULE,
        sequence,
    }
}

/// A reactor: the events to which a master reacts while it leads.
#[derive(Clone)]
struct Reactor {
    fleet: Fleet,
    master: Process,
    group: Masters<Stored>,
    store: Store,
    fence: Fence,
}

/// Reacts to events whenever a master leads, until it ends.
pub(crate) async fn follow(fleet: Fleet, master: Process) {
    loop {
        world::sleep(Duration::from_millis(30)).await;
        let chosen = fleet.running().into_iter().find(|one| one.master == master);
        let Some(Chosen { group, store, .. }) = chosen else {
            continue;
        };
        let reactor = Reactor {
            fleet: fleet.clone(),
            master,
            fence: Fence::new(term(&group)),
            group,
            store,
        };
        if reactor.leads() && reactor.has_applied_log().await {
            world::spawn_on(master, reactor.clone().react());
            reactor.stop_later().await;
        }
    }
}

fn term(group: &Masters<Stored>) -> u64 {
    let metrics = group.raft().metrics();
    metrics.borrow_watched().current_term
}

impl Reactor {
    fn leads(&self) -> bool {
        self.group.raft().is_leader() && term(&self.group) == self.fence.term
    }

    /// Waits until every command of the earlier terms that ever will be applied is applied here.
    async fn has_applied_log(&self) -> bool {
        let barrier = Command::All(Vec::new());
        self.fleet.sabotage() == Some(Sabotage::NoBarrier) || self.propose(&barrier).await.is_some()
    }

    /// Proposes a command, which is void in later terms and after the reactor was stopped. Returns
    /// `None` if it is not known to be done.
    async fn propose(&self, command: &Command) -> Option<Applied> {
        let fence = Some(self.fence.term);
        let fence = fence.filter(|_| self.fleet.sabotage() != Some(Sabotage::NoFence));
        let begun = {
            let _open = self.fence.enter().await.ok()?;
            let bytes = encoded(command).unwrap();
            self.group.begin(bytes, fence, PATIENCE).await.ok()?
        };
        begun.recv().await.ok()?.ok()
    }

    /// Stops the reactor when its master does not lead any more, or at any time before, as a master
    /// does that has lost contact to the others: it may lead again in the same term.
    async fn stop_later(&self) {
        let until = world::now() + Duration::from_millis(world::below(2000));
        while self.leads() && world::now() < until {
            world::sleep(Duration::from_millis(30)).await;
        }
        if self.fleet.sabotage() != Some(Sabotage::OpenFence) {
            self.fence.close().await;
        }
    }

    /// Reacts to events until an effect is not known to be done.
    async fn react(self) {
        let mut next = self.store.cursor(CURSOR).unwrap().unwrap_or(0);
        while self.leads() {
            let events = self.store.events(next).unwrap();
            let wanted = events
                .map(Result::unwrap)
                .find(|event| event.tag.starts_with(minions::TAG));
            let Some(event) = wanted else {
                world::sleep(Duration::from_millis(30)).await;
                continue;
            };
            next = event.sequence + 1;
            let known = self.store.reaction(place(event.sequence)).unwrap();
            // If it is not known to be done, it may still be. The next command that is done shows that
            // it was, or never will be.
            if known.is_none() && !self.react_to(&event, next).await {
                return;
            }
        }
    }

    /// Reacts to an event. Returns whether that is known to be done.
    async fn react_to(&self, event: &Event, next: u64) -> bool {
        // The time in which a master renders the rule's files.
        world::sleep(Duration::from_millis(world::below(40))).await;
        let effect = format!("{EFFECT}{}", event.sequence);
        let command = Command::All(vec![
            Command::Reaction {
                place: place(event.sequence),
                row: Some(Map::new().with("state", "done")),
            },
            acts::event(effect, Map::new(), at_ms(self.master)),
            Command::Cursor {
                name: CURSOR.to_owned(),
                sequence: Some(next),
            },
        ]);
        matches!(self.propose(&command).await, Some(Applied::All(_)))
    }
}
