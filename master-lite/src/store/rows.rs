//! How things lie in the tables: keys of bytes that sort as they are read, values that are msgpack maps.

use link::key::PublicKey;
use value::{Map, Value};
use wire::{Id, msgpack};

use super::command::{Cache, KeyState, Origin};

/// A table of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// Keys of minions, how far their spools are durable, tokens, cursors, counters.
    Keys,
    /// Grains, pillar, mine.
    Caches,
    /// The event log.
    Events,
    /// Jobs, returns, reactions.
    Jobs,
}

impl Table {
    pub(super) const ALL: [Self; 4] = [Self::Keys, Self::Caches, Self::Events, Self::Jobs];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Caches => "caches",
            Self::Events => "events",
            Self::Jobs => "jobs",
        }
    }
}

/// What a row may be: a frame of a stream, and a little for what is put around it.
const ROW: wire::Limits = wire::Limits {
    bytes: wire::Limits::STREAM.bytes + (64 << 10),
    depth: wire::Limits::STREAM.depth + 4,
    items: wire::Limits::STREAM.items + (16 << 10),
};

/// How long a name of anything may be.
pub(super) const NAME_MAX: usize = 512;

pub(super) fn encode(map: Map) -> Result<Vec<u8>, wire::Error> {
    let mut bytes = Vec::new();
    msgpack::encode(&Value::Map(map), ROW, &mut bytes)?;
    Ok(bytes)
}

pub(super) fn decode(bytes: &[u8]) -> Option<Map> {
    match msgpack::decode(bytes, ROW) {
        Ok(Value::Map(map)) => Some(map),
        _ => None,
    }
}

/// The name of the field that says whose a row is. It stands first, so that it can be read without the rest.
const HOLDER: &str = "of";

/// Adds whose a row is. Rows that are the master's own need no holder.
fn held(holder: &str) -> Map {
    match holder.is_empty() {
        true => Map::new(),
        false => Map::new().with(HOLDER, holder),
    }
}

/// Returns whose a row of an event or a job is, read from how it begins.
pub(super) fn holder(bytes: &[u8]) -> &str {
    let text = || {
        let rest = bytes.get(1..)?.strip_prefix(b"\xa2of")?;
        let (length, text) = match rest {
            [short @ 0xa0..=0xbf, text @ ..] => (usize::from(short & 0x1f), text),
            [0xd9, length, text @ ..] => (usize::from(*length), text),
            [0xda, high, low, text @ ..] => (usize::from(u16::from_be_bytes([*high, *low])), text),
            _ => return None,
        };
        std::str::from_utf8(text.get(..length)?).ok()
    };
    text().unwrap_or_default()
}

/// A key of a minion.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    /// The minion's id.
    pub(crate) id: Id,
    /// Its key.
    pub(crate) key: PublicKey,
    /// Where it stands.
    pub(crate) state: KeyState,
    /// Since when.
    pub(crate) at_ms: u64,
    /// What it is bound to.
    pub(crate) bound: Map,
    /// From where it was offered.
    pub(crate) from: Option<String>,
}

impl Key {
    pub(super) fn row(&self) -> Map {
        let mut row = Map::new()
            .with("state", self.state.as_str())
            .with("key", Value::Bytes(self.key.bytes().as_slice().into()))
            .with("at_ms", self.at_ms);
        if let Some(from) = &self.from {
            row.insert("from", from.as_str());
        }
        match self.bound.is_empty() {
            true => row,
            false => row.with("bound", Value::Map(self.bound.clone())),
        }
    }

    pub(super) fn of_row(id: Id, bytes: &[u8]) -> Option<Self> {
        let row = decode(bytes)?;
        let Some(Value::Bytes(key)) = row.get("key") else {
            return None;
        };
        Some(Self {
            id,
            key: PublicKey::from_bytes(key.as_ref().try_into().ok()?),
            state: KeyState::of_word(row.get("state")?.as_str()?)?,
            at_ms: number(&row, "at_ms")?,
            bound: map(&row, "bound"),
            from: text(&row, "from"),
        })
    }
}

/// The files that show an id's keys.
pub(super) fn shown_row(files: &[(KeyState, PublicKey)]) -> Map {
    let mut row = Map::new();
    for (state, key) in files {
        row.insert(state.as_str(), Value::Bytes(key.bytes().as_slice().into()));
    }
    row
}

pub(super) fn of_shown_row(bytes: &[u8]) -> Option<Vec<(KeyState, PublicKey)>> {
    let row = decode(bytes)?;
    let file = |(state, key): (&Value, &Value)| {
        let Value::Bytes(key) = key else {
            return None;
        };
        let key = PublicKey::from_bytes(key.as_ref().try_into().ok()?);
        Some((KeyState::of_word(state.as_str()?)?, key))
    };
    row.iter().map(file).collect()
}

/// An event of the log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// Its place.
    pub(crate) sequence: u64,
    /// Its tag.
    pub(crate) tag: String,
    /// When it was made, as `_stamp` has it.
    pub(crate) stamp: String,
    /// When it came to this master.
    pub(crate) at_ms: u64,
    /// What it says.
    pub(crate) data: Map,
}

impl Event {
    /// What it says, with when it was made: as its readers see it.
    pub(crate) fn stamped(&self) -> Map {
        self.data.clone().with("_stamp", self.stamp.as_str())
    }

    pub(super) fn row(&self, holder: &str) -> Map {
        held(holder)
            .with("tag", self.tag.as_str())
            .with("stamp", self.stamp.as_str())
            .with("at_ms", self.at_ms)
            .with("data", Value::Map(self.data.clone()))
    }

    pub(super) fn of_row(key: &[u8], bytes: &[u8]) -> Option<Self> {
        let mut row = decode(bytes)?;
        Some(Self {
            sequence: u64::from_be_bytes(key.try_into().ok()?),
            tag: text(&row, "tag")?,
            stamp: text(&row, "stamp")?,
            at_ms: number(&row, "at_ms")?,
            data: taken(&mut row, "data"),
        })
    }
}

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    /// Its number.
    pub(crate) jid: String,
    /// What was asked; empty for a job that this master did not send.
    pub(crate) load: Map,
    /// Who was expected to answer.
    pub(crate) minions: Vec<Id>,
    /// When it came.
    pub(crate) at_ms: u64,
}

impl Job {
    pub(super) fn row(&self, holder: &str) -> Map {
        let minions = self.minions.iter().map(|id| Value::from(id.as_str()));
        held(holder)
            .with("at_ms", self.at_ms)
            .with("load", Value::Map(self.load.clone()))
            .with("minions", Value::list(minions))
    }

    pub(super) fn of_row(jid: &str, bytes: &[u8]) -> Option<Self> {
        let mut row = decode(bytes)?;
        let minions = row.get("minions")?.as_list()?.iter();
        let minions = minions.map(|id| id.as_str()?.parse().ok());
        Some(Self {
            jid: jid.to_owned(),
            minions: minions.collect::<Option<_>>()?,
            at_ms: number(&row, "at_ms")?,
            load: taken(&mut row, "load"),
        })
    }
}

/// A minion's answer to a job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Returned {
    /// Whose it is.
    pub(crate) id: Id,
    /// When it came to this master.
    pub(crate) at_ms: u64,
    /// `fun`, `fun_args`, `return`, `retcode`, `success` and so on.
    pub(crate) data: Map,
}

impl Returned {
    pub(super) fn row(&self) -> Map {
        Map::new()
            .with("at_ms", self.at_ms)
            .with("data", Value::Map(self.data.clone()))
    }

    pub(super) fn of_row(id: Id, bytes: &[u8]) -> Option<Self> {
        let mut row = decode(bytes)?;
        Some(Self {
            id,
            at_ms: number(&row, "at_ms")?,
            data: taken(&mut row, "data"),
        })
    }
}

/// The highest number of a spool that has come. A minion sends in order, a return only when everything before it was acked, and what
/// it leaves out will never come: it was acked by a master that has forgotten it, or fell out of a spool that was full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    highest: u64,
}

impl Received {
    /// Marks a number; false when it, or one after it, was here already.
    pub(super) fn take(&mut self, sequence: u64) -> bool {
        let is_new = sequence > self.highest;
        self.highest = self.highest.max(sequence);
        is_new
    }

    /// The number up to which nothing can still come.
    pub(super) fn durable(self) -> u64 {
        self.highest
    }

    /// As 8 bytes: every event reads and writes them.
    pub(super) fn row(self) -> Vec<u8> {
        self.highest.to_be_bytes().to_vec()
    }

    pub(super) fn of_row(bytes: &[u8]) -> Option<Self> {
        let highest = u64::from_be_bytes(bytes.try_into().ok()?);
        Some(Self { highest })
    }
}

/// Where the event log begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Log {
    /// The oldest event.
    pub(super) first: u64,
    /// The number that the next one gets.
    pub(super) next: u64,
    /// How much they are together.
    pub(super) bytes: u64,
}

impl Log {
    pub(super) const EMPTY: Self = Self {
        first: 1,
        next: 1,
        bytes: 0,
    };

    pub(super) fn row(self) -> Map {
        Map::new()
            .with("first", self.first)
            .with("next", self.next)
            .with("bytes", self.bytes)
    }

    pub(super) fn of_row(bytes: &[u8]) -> Option<Self> {
        let row = decode(bytes)?;
        Some(Self {
            first: number(&row, "first")?,
            next: number(&row, "next")?,
            bytes: number(&row, "bytes")?,
        })
    }
}

/// Bytes of the keys in the tables.
pub(super) mod at {
    use reactor::Place;

    use super::{Cache, Id, Origin, PublicKey};

    pub(in crate::store) const LOG: &[u8] = b"m log";

    pub(in crate::store) fn key(id: &Id) -> Vec<u8> {
        [b"i", id.as_str().as_bytes()].concat()
    }

    /// The 32 bytes of the key that an id has, if it is accepted.
    pub(in crate::store) fn accepted(id: &Id) -> Vec<u8> {
        [b"a", id.as_str().as_bytes()].concat()
    }

    pub(in crate::store) fn denied(id: &Id) -> Vec<u8> {
        [b"d", id.as_str().as_bytes(), b"\0"].concat()
    }

    pub(in crate::store) fn denied_key(id: &Id, key: &PublicKey) -> Vec<u8> {
        [denied(id).as_slice(), key.bytes()].concat()
    }

    pub(in crate::store) fn shown(id: &Id) -> Vec<u8> {
        [b"v", id.as_str().as_bytes()].concat()
    }

    pub(in crate::store) fn spools(id: &Id, key: &PublicKey) -> Vec<u8> {
        [b"o", id.as_str().as_bytes(), b"\0", key.bytes()].concat()
    }

    pub(in crate::store) fn spool(id: &Id, key: &PublicKey, epoch: u64) -> Vec<u8> {
        [spools(id, key).as_slice(), &epoch.to_be_bytes()].concat()
    }

    pub(in crate::store) fn origin(origin: &Origin) -> Vec<u8> {
        spool(&origin.id, &origin.key, origin.epoch)
    }

    pub(in crate::store) fn token(name: &str) -> Vec<u8> {
        [b"t", name.as_bytes()].concat()
    }

    pub(in crate::store) fn cursor(name: &str) -> Vec<u8> {
        [b"c", name.as_bytes()].concat()
    }

    pub(in crate::store) fn reaction(place: Place) -> Vec<u8> {
        let Place { rule, sequence } = place;
        [b"x", rule.to_be_bytes().as_slice(), &sequence.to_be_bytes()].concat()
    }

    /// The place of such a row.
    pub(in crate::store) fn of_reaction(key: &[u8]) -> Option<Place> {
        let (rule, sequence) = key.strip_prefix(b"x")?.split_at_checked(8)?;
        Some(Place {
            rule: u64::from_be_bytes(rule.try_into().ok()?),
            sequence: u64::from_be_bytes(sequence.try_into().ok()?),
        })
    }

    pub(in crate::store) fn caches(what: Cache) -> &'static [u8] {
        match what {
            Cache::Grains => b"g",
            Cache::Pillar => b"p",
            Cache::Mine => b"m",
        }
    }

    pub(in crate::store) fn cache(what: Cache, id: &Id, key: &PublicKey) -> Vec<u8> {
        [caches(what), id.as_str().as_bytes(), b"\0", key.bytes()].concat()
    }

    pub(in crate::store) fn event(sequence: u64) -> Vec<u8> {
        sequence.to_be_bytes().to_vec()
    }

    pub(in crate::store) fn job(jid: &str) -> Vec<u8> {
        [b"j", jid.as_bytes()].concat()
    }

    pub(in crate::store) fn returns(jid: &str) -> Vec<u8> {
        [b"r", jid.as_bytes(), b"\0"].concat()
    }

    pub(in crate::store) fn returned(jid: &str, id: &Id) -> Vec<u8> {
        [returns(jid).as_slice(), id.as_str().as_bytes()].concat()
    }

    pub(in crate::store) fn times() -> &'static [u8] {
        b"t"
    }

    pub(in crate::store) fn time(at_ms: u64, jid: &str) -> Vec<u8> {
        [times(), &at_ms.to_be_bytes(), jid.as_bytes()].concat()
    }

    /// The time and the job of such a row.
    pub(in crate::store) fn of_time(key: &[u8]) -> Option<(u64, String)> {
        let (at_ms, jid) = key.strip_prefix(times())?.split_at_checked(8)?;
        let at_ms = u64::from_be_bytes(at_ms.try_into().ok()?);
        Some((at_ms, String::from_utf8(jid.to_vec()).ok()?))
    }

    /// The minion whose answer such a row is.
    pub(in crate::store) fn of_returned(key: &[u8]) -> Option<&str> {
        let name = key.strip_prefix(b"r")?;
        let end = name.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(name.get(end + 1..)?).ok()
    }

    /// The id that stands behind a prefix, up to a NUL or the end.
    pub(in crate::store) fn id(key: &[u8], prefix: usize) -> Option<Id> {
        let name = key.get(prefix..)?.split(|byte| *byte == 0).next()?;
        std::str::from_utf8(name).ok()?.parse().ok()
    }
}

/// A number that the store wrote; those beyond a signed one are digits.
pub(super) fn number(row: &Map, name: &str) -> Option<u64> {
    match row.get(name)? {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Big(digits) => digits.parse().ok(),
        _ => None,
    }
}

fn text(row: &Map, name: &str) -> Option<String> {
    Some(row.get(name)?.as_str()?.to_owned())
}

fn map(row: &Map, name: &str) -> Map {
    let map = row.get(name).and_then(Value::as_map);
    map.cloned().unwrap_or_default()
}

fn taken(row: &mut Map, name: &str) -> Map {
    match row.remove(name) {
        Some(Value::Map(map)) => map,
        _ => Map::new(),
    }
}
