//! [`Ask`]: the requests of masters to each other that do not belong to the log.
//!
//! ```text
//! KIND MAP
//! ```
//! KIND is one byte, higher than the number of any group of the log; MAP is msgpack.

use std::net::SocketAddr;
use std::time::Duration;

use cluster::core::Member;
use link::PublicKey;
use link::pool::{Lane, Pool};
use value::{Map, Value};
use wire::{Frame, Id, Limits, Request, msgpack};

use super::notes::Note;
use super::own_row;
use super::rings::Rows;
use super::roots::Message;

/// The first byte of a request of a member, and of one of a master that wants to join.
pub(super) const OF_MEMBER: u8 = 200;
pub(super) const JOIN: u8 = 201;

/// The length of the head of a frame, which has its length.
const FRAME_HEAD: usize = 4;

/// The limits of a request: a job for a minion, or the minions of a master.
const LIMITS: Limits = Limits {
    bytes: 32 << 20,
    depth: 256,
    items: 1 << 20,
};

/// A request of one master to another.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ask {
    /// The minions that are connected to the master that asks.
    Note(Note),
    /// A request for a minion that is connected to the receiver.
    Minion {
        id: Id,
        key: PublicKey,
        /// The index up to which the master must have applied the log before.
        index: u64,
        request: Request,
    },
    /// A change of the members, for the leader.
    Members(Change),
    /// The row that the master wants to have among the members, without its key. For the leader.
    Row(Member),
    /// A request about returns of jobs.
    Rows(Rows),
    /// A part of a sync of the roots.
    Roots(Message),
}

/// A change of the members, which an administrator wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The kind of change.
    pub(crate) what: What,
    /// The name of the master that it is about.
    pub(crate) name: String,
    /// True to make a change that leaves the cluster without a majority.
    pub(crate) force: bool,
}

/// The kind of a change of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A master that waits may join.
    Accept,
    /// A master is no member any more.
    Remove,
    /// Another master leads.
    TransferLeader,
}

impl What {
    const ALL: [(&'static str, Self); 3] = [
        ("accept", Self::Accept),
        ("remove", Self::Remove),
        ("transfer_leader", Self::TransferLeader),
    ];

    /// Returns the name of the function of the runner.
    pub(crate) fn word(self) -> &'static str {
        let known = Self::ALL.iter().find(|(_, what)| *what == self);
        known.map_or("", |(word, _)| word)
    }
}

pub(super) fn number(map: &Map, name: &str) -> Option<u64> {
    u64::try_from(map.get(name)?.as_int()?).ok()
}

/// Reads a key.
pub(super) fn key(value: &Value) -> Option<PublicKey> {
    match value {
        Value::Bytes(bytes) => Some(PublicKey::from_bytes(bytes.as_ref().try_into().ok()?)),
        _ => None,
    }
}

impl Ask {
    fn encode(&self) -> Result<Vec<u8>, wire::Error> {
        let map = match self {
            Self::Note(note) => Map::new().with("note", note.value()),
            Self::Minion {
                id,
                key,
                index,
                request,
            } => {
                let mut frame = Vec::new();
                Frame::from(request.clone()).encode(Limits::STREAM, &mut frame)?;
                Map::new()
                    .with("minion", id.as_str())
                    .with("key", Value::Bytes(key.bytes().as_slice().into()))
                    .with("index", *index)
                    .with("request", Value::Bytes(frame.into()))
            }
            Self::Members(change) => Map::new()
                .with("members", change.what.word())
                .with("name", change.name.as_str())
                .with("force", change.force),
            Self::Row(row) => Map::new().with("row", own_row::to_map(row)),
            Self::Rows(rows) => Map::new().with("rows", rows.to_map()),
            Self::Roots(message) => Map::new().with("roots", message.value()),
        };
        let mut bytes = vec![OF_MEMBER];
        msgpack::encode(&map.into(), LIMITS, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a request after its first byte.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let value = msgpack::decode(bytes, LIMITS).ok()?;
        let map = value.as_map()?;
        if let Some(note) = map.get("note") {
            return Some(Self::Note(Note::from_value(note)?));
        }
        if let Some(row) = map.get("row") {
            return Some(Self::Row(own_row::from_value(row)?));
        }
        if let Some(message) = map.get("roots") {
            return Some(Self::Roots(Message::read(message)?));
        }
        if let Some(word) = map.get("members") {
            let word = word.as_str()?;
            let (_, what) = What::ALL.iter().find(|(known, _)| *known == word)?;
            return Some(Self::Members(Change {
                what: *what,
                name: map.get("name")?.as_str()?.to_owned(),
                force: map.get("force")?.is_true(),
            }));
        }
        if let Some(rows) = map.get("rows") {
            return Some(Self::Rows(Rows::from_map(rows.as_map()?)?));
        }
        let Value::Bytes(frame) = map.get("request")? else {
            return None;
        };
        let (_, frame) = frame.split_at_checked(FRAME_HEAD)?;
        let Frame::Request(request) = Frame::decode(frame, Limits::STREAM).ok()? else {
            return None;
        };
        Some(Self::Minion {
            id: map.get("minion")?.as_str()?.parse().ok()?,
            key: key(map.get("key")?)?,
            index: number(map, "index")?,
            request,
        })
    }
}

/// Returns the bytes of an answer: a value, or a sentence about a failure.
pub(super) fn answer(result: Result<Value, String>) -> Vec<u8> {
    let map = match result {
        Ok(value) => Map::new().with("ok", value),
        Err(error) => Map::new().with("error", error),
    };
    let mut bytes = Vec::new();
    match msgpack::encode(&map.into(), LIMITS, &mut bytes) {
        Ok(()) => bytes,
        Err(error) => answer(Err(format!("the answer cannot be sent: {error}"))),
    }
}

fn answered(bytes: &[u8]) -> Result<Value, String> {
    let value = msgpack::decode(bytes, LIMITS).map_err(|error| error.to_string())?;
    let map = value.as_map().ok_or("the answer has an unknown form")?;
    match (map.get("ok"), map.get("error")) {
        (Some(value), None) => Ok(value.clone()),
        (None, Some(error)) => Err(error.to_text()),
        _ => Err("the answer has an unknown form".to_owned()),
    }
}

/// Asks another master, and returns its answer.
pub(super) async fn ask(
    pool: &Pool,
    member: &Member,
    ask: &Ask,
    within: Duration,
) -> Result<Value, String> {
    let key = member.key.as_slice().try_into();
    let key = key.map_err(|_| format!("the key of the master {} is not known", member.name))?;
    let address: Result<SocketAddr, _> = member.address.parse();
    let address = address.map_err(|_| format!("{} is not an address", member.address))?;
    let bytes = ask.encode().map_err(|error| error.to_string())?;
    let key = PublicKey::from_bytes(key);
    let lane = match ask {
        Ask::Roots(_) | Ask::Rows(_) | Ask::Members(_) => Lane::Bulk,
        Ask::Minion { .. } => Lane::Minions,
        Ask::Note(_) | Ask::Row(_) => Lane::Log,
    };
    let answer = pool.ask((address, key, lane), &bytes, within).await;
    let answer = answer.map_err(|error| error.to_string())?;
    answered(&answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::FindJob;

    #[test]
    fn requests_are_read_back_and_other_bytes_are_not() {
        let minion = Ask::Minion {
            id: "m1".parse().unwrap(),
            key: PublicKey::from_bytes([7; 32]),
            index: 9,
            request: FindJob {
                jid: "1".to_owned(),
            }
            .into(),
        };
        let change = Ask::Members(Change {
            what: What::Remove,
            name: "10.0.0.1".to_owned(),
            force: true,
        });
        for ask in [minion, change, Ask::Roots(Message::Fetch)] {
            let bytes = ask.encode().unwrap();
            let (kind, rest) = bytes.split_first().unwrap();
            assert_eq!(*kind, OF_MEMBER);
            assert_eq!(Ask::decode(rest), Some(ask));
            for length in 0..rest.len() {
                assert_eq!(Ask::decode(&rest[..length]), None);
            }
        }
        assert_eq!(answered(&answer(Ok(3.into()))), Ok(3.into()));
        assert_eq!(
            answered(&answer(Err("no".to_owned()))),
            Err("no".to_owned())
        );
    }
}
