//! Minions that send events and returns from their spools: each record again, to any master, until one
//! acknowledges it. Some are sent once more after that.

use std::time::Duration;

use value::Map;
use wire::Id;

use crate::acts;
use crate::machine::Stored;
use crate::site::Masters;
use crate::store::{Applied, Command, Origin};
use crate::story::{Chosen, Fleet, at_ms};
use crate::world::{self, Process};

pub(crate) const COUNT: usize = 2;
/// The number of the spool.
const EPOCH: u64 = 7;
/// The prefix of the tags of their events, to which the reactors react.
pub(crate) const TAG: &str = "of_minion/";

pub(crate) fn id(number: usize) -> Id {
    acts::id(&format!("spool{number}"))
}

/// Returns whether a record is a return. The others are events.
pub(crate) fn is_return(sequence: u64) -> bool {
    sequence.is_multiple_of(3)
}

/// Returns the job of a return. Both minions return it.
pub(crate) fn jid(sequence: u64) -> String {
    format!("2026112712000000{sequence:04}")
}

/// Returns the tag of an event.
pub(crate) fn tag(number: usize, sequence: u64) -> String {
    format!("{TAG}{number}/{sequence}")
}

/// Sends records until the story is over.
pub(crate) async fn live(fleet: Fleet, number: usize) {
    let key = acts::key(500 + number as u64);
    while !fleet.is_over() {
        world::sleep(Duration::from_millis(50)).await;
        let Some(Chosen { master, group, .. }) = fleet.any_master() else {
            continue;
        };
        let accepted = Command::KeyAccepted {
            id: id(number),
            key,
            at_ms: at_ms(master),
            bound: Map::new(),
            replace: true,
        };
        let accepted = fleet.propose(master, group, &accepted).await;
        if matches!(accepted, Some(Ok(_))) {
            break;
        }
    }
    let mut sequence = 0;
    while !fleet.is_over() {
        world::sleep(Duration::from_millis(world::below(200))).await;
        sequence += 1;
        while !fleet.is_over() {
            let Some(Chosen { master, group, .. }) = fleet.any_master() else {
                world::sleep(Duration::from_millis(50)).await;
                continue;
            };
            if sends(&fleet, (master, group), number, sequence).await {
                fleet.seen().acknowledged[number] = sequence;
                if world::below(4) > 0 {
                    break;
                }
            }
        }
    }
}

/// Sends a record to a master. Returns whether it acknowledges it.
async fn sends(
    fleet: &Fleet,
    (master, group): (Process, Masters<Stored>),
    number: usize,
    sequence: u64,
) -> bool {
    let (id, at_ms) = (id(number), at_ms(master));
    let origin = Some(Origin {
        id: id.clone(),
        key: acts::key(500 + number as u64),
        epoch: EPOCH,
        sequence,
    });
    let data = Map::new().with("id", id.as_str());
    let command = match is_return(sequence) {
        true => Command::Return {
            jid: jid(sequence),
            id,
            data,
            at_ms,
            origin,
        },
        false => Command::Event {
            tag: tag(number, sequence),
            data,
            stamp: String::new(),
            at_ms,
            origin,
        },
    };
    let durable = match fleet.propose(master, group, &command).await {
        Some(Ok(
            Applied::Event { durable, .. }
            | Applied::Returned { durable }
            | Applied::Duplicate { durable },
        )) => durable,
        Some(Ok(other)) => panic!("a minion got {other:?}"),
        Some(Err(_)) | None => return false,
    };
    assert!(durable >= sequence, "{durable} of {sequence}");
    true
}
