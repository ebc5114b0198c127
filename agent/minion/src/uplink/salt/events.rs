//! Sends events one after the other, and acknowledges them when the master has answered.

use std::sync::Arc;
use std::time::Duration;

use link::wait::pause;
use smol::channel::Receiver;
use value::{Map, Value, channel, log};
use wire::tag::Tag;
use wire::{Ack, Event, Frame, Way};

use super::super::connection::Incoming;
use super::{Error, Inner, check};

/// The number of attempts to send an event that the master refuses, and the time between them.
const TRIES: u32 = 5;
const AGAIN: Duration = Duration::from_secs(2);
/// The maximum number of events that one message carries.
const TOGETHER: usize = 64;

/// Sends the events of the queue until the connection is lost.
pub(super) async fn send(inner: Arc<Inner>, queue: Receiver<Event>) {
    // No deadline: an event may come at any time.
    while let Ok(first) = queue.recv().await {
        let mut events = vec![first];
        while events.len() < TOGETHER
            && let Ok(event) = queue.try_recv()
        {
            events.push(event);
        }
        for (load, sequence) in loads(events) {
            if let Err(error) = sent(&inner, load).await {
                return inner.lost(error);
            }
            acknowledge(&inner, sequence).await;
        }
    }
}

/// Sends a message of events. A message that the master refuses again and again is dropped, so that it
/// does not block the others for ever.
async fn sent(inner: &Inner, load: Map) -> Result<(), Error> {
    let mut tries = 1;
    loop {
        let answered = inner.session.request("_minion_event", load.clone()).await;
        match answered.map_err(Error::from) {
            Ok(_) => return Ok(()),
            Err(Error::Answered { text, .. }) if tries < TRIES => {
                log::debug(format_args!("{text}"));
                tries += 1;
                pause(AGAIN).await;
            }
            Err(Error::Answered { text, .. }) => {
                log::error(format_args!("dropping an event: {text}"));
                return Ok(());
            }
            Err(lost) => return Err(lost),
        }
    }
}

/// Acknowledges all events up to this one. Event 0 needs no acknowledgement.
async fn acknowledge(inner: &Inner, sequence: u64) {
    let ack = Frame::from(Ack { sequence });
    if sequence > 0 && check(&ack, Way::MasterToMinion).is_ok() {
        // No deadline: the daemon reads the messages, or drops the connection.
        let sent = inner.incoming.send(Incoming::Ack(sequence)).await;
        channel::if_open(sent);
    }
}

/// Returns the messages for these events, each with the number of its last event. Events of beacons
/// that follow each other share a message. Another event is a message itself, because reactors expect
/// the message's fields in it.
fn loads(events: Vec<Event>) -> Vec<(Map, u64)> {
    let mut loads: Vec<(Map, u64)> = Vec::new();
    let mut shared: Vec<Value> = Vec::new();
    let mut last = 0;
    for event in events {
        if is_shared(&event) {
            last = event.sequence;
            shared.push(
                Map::new()
                    .with("tag", event.tag)
                    .with("data", event.data)
                    .into(),
            );
            continue;
        }
        if !shared.is_empty() {
            loads.push((several(std::mem::take(&mut shared)), last));
        }
        loads.push((event.data.with("tag", event.tag), event.sequence));
    }
    if !shared.is_empty() {
        loads.push((several(shared), last));
    }
    loads
}

/// Returns whether the data of an event is all of it.
fn is_shared(event: &Event) -> bool {
    matches!(Tag::parse(&event.tag), Tag::Beacon { .. }) || !event.data.contains("data")
}

fn several(events: Vec<Value>) -> Map {
    Map::new()
        .with("events", events)
        .with("pretag", Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(sequence: u64, tag: &str, data: Map) -> Event {
        Event {
            sequence,
            tag: tag.to_owned(),
            stamp: String::new(),
            data,
        }
    }

    #[test]
    fn events_of_beacons_share_a_message_and_others_have_their_own() {
        let of_user = || Map::new().with("data", Map::new().with("x", 1));
        let loads = loads(vec![
            event(1, "salt/beacon/m1/load/", Map::new().with("1m", 1)),
            event(2, "salt/beacon/m1/load/", Map::new().with("1m", 2)),
            event(3, "my/tag", of_user()),
            event(4, "my/bare", Map::new().with("x", 1)),
        ]);
        let numbers: Vec<u64> = loads.iter().map(|(_, sequence)| *sequence).collect();
        assert_eq!(numbers, [2, 3, 4]);
        let count = |load: &Map| load.get("events").and_then(Value::as_list).map(<[_]>::len);
        let counts: Vec<_> = loads.iter().map(|(load, _)| count(load)).collect();
        assert_eq!(counts, [Some(2), None, Some(1)]);
        let (custom, _) = &loads[1];
        assert_eq!(custom.get("tag"), Some(&"my/tag".into()));
        assert_eq!(custom.get("data"), Some(&Map::new().with("x", 1).into()));
    }
}
