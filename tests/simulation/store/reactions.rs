//! The reactors: the leader reacts to each event of a minion with one event. As in the master, the
//! reaction's row and its effect are one command, which is void in later terms.

use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use reactor::Place;
use value::Map;

use crate::acts;
use crate::machine::Stored;
use crate::minions;
use crate::site::Masters;
use crate::store::{Applied, Command, Store};
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

/// Reacts to events while a master leads, until it ends.
pub(crate) async fn follow(fleet: Fleet, master: Process) {
    loop {
        world::sleep(Duration::from_millis(30)).await;
        let chosen = fleet.running().into_iter().find(|one| one.master == master);
        let Some(Chosen { group, store, .. }) = chosen else {
            continue;
        };
        let term = term(&group);
        // When it is applied here, so is every command of the earlier terms that ever will be.
        let barrier = Command::All(Vec::new());
        let leads = group.raft().is_leader()
            && matches!(
                fleet
                    .propose(master, group.clone(), &barrier, Some(term))
                    .await,
                Some(Ok(_))
            );
        if leads {
            lead(&fleet, (master, &group), &store, term).await;
        }
    }
}

fn term(group: &Masters<Stored>) -> u64 {
    let metrics = group.raft().metrics();
    metrics.borrow_watched().current_term
}

/// Reacts to events until an effect is not known to be done.
async fn lead(
    fleet: &Fleet,
    (master, group): (Process, &Masters<Stored>),
    store: &Store,
    term: u64,
) {
    let mut next = store.cursor(CURSOR).unwrap().unwrap_or(0);
    while group.raft().is_leader() && self::term(group) == term {
        let events = store.events(next).unwrap();
        let wanted = events
            .map(Result::unwrap)
            .find(|event| event.tag.starts_with(minions::TAG));
        let Some(event) = wanted else {
            world::sleep(Duration::from_millis(30)).await;
            continue;
        };
        next = event.sequence + 1;
        if store.reaction(place(event.sequence)).unwrap().is_some() {
            continue;
        }
        // The time in which a master renders the rule's files.
        world::sleep(Duration::from_millis(world::below(40))).await;
        let effect = format!("{EFFECT}{}", event.sequence);
        let command = Command::All(vec![
            Command::Reaction {
                place: place(event.sequence),
                row: Some(Map::new().with("state", "done")),
            },
            acts::event(effect, Map::new(), at_ms(master)),
            Command::Cursor {
                name: CURSOR.to_owned(),
                sequence: Some(next),
            },
        ]);
        match fleet
            .propose(master, group.clone(), &command, Some(term))
            .await
        {
            Some(Ok(Applied::All(_))) => {}
            // It may still be done. The next command that is done shows that it was, or never will be.
            _ => return,
        }
    }
}
