//! The layout of the tables: keys are bytes that sort in the order of reading, values are msgpack
//! maps.

use link::key::PublicKey;
use value::{Map, Value};
use wire::{Id, msgpack};

use super::command::{Cache, KeyState, Origin};

/// A table of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// Keys of minions, durable positions of their spools, tokens, cursors, counters.
    Keys,
    /// Grains, pillar, mine, status.
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

/// The limits of a row: a frame of a stream, and a little for the fields around it.
pub(super) const ROW: wire::Limits = wire::Limits {
    bytes: wire::Limits::STREAM.bytes + (64 << 10),
    depth: wire::Limits::STREAM.depth + 4,
    items: wire::Limits::STREAM.items + (16 << 10),
};

/// The maximum length of any name, in bytes.
pub(crate) const NAME_MAX: usize = 512;

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

/// The field that names the holder of a row. It is the first field, so that it can be read without
/// decoding the rest.
const HOLDER: &str = "of";

/// Begins a row with its holder. Rows of the master itself have no such field.
fn held(holder: &str) -> Map {
    match holder.is_empty() {
        true => Map::new(),
        false => Map::new().with(HOLDER, holder),
    }
}

/// Returns the holder of a row of an event or a job, from the row's first bytes.
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

/// Returns the holder of a job or of a return, from the row's key and its first bytes.
pub(super) fn holder_in_jobs<'a>(key: &'a [u8], bytes: &'a [u8]) -> &'a str {
    at::of_returned(key).unwrap_or_else(|| holder(bytes))
}

/// A key of a minion.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    /// The minion's id.
    pub(crate) id: Id,
    /// Its key.
    pub(crate) key: PublicKey,
    /// Its state.
    pub(crate) state: KeyState,
    /// The time of the last change of its state, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// Its bindings: `role`, `grains`, `pillar`.
    pub(crate) bound: Map,
    /// The address, or the network of IPv6, that it was offered from.
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

    pub(super) fn from_row(id: Id, bytes: &[u8]) -> Option<Self> {
        let row = decode(bytes)?;
        Some(Self {
            id,
            key: public_key(row.get("key")?)?,
            state: KeyState::from_word(row.get("state")?.as_str()?)?,
            at_ms: number(&row, "at_ms")?,
            bound: map(&row, "bound"),
            from: text(&row, "from"),
        })
    }
}

/// Encodes the list of files that show an id's keys.
pub(super) fn shown_row(files: &[(KeyState, PublicKey)]) -> Map {
    let mut row = Map::new();
    for (state, key) in files {
        row.insert(state.as_str(), Value::Bytes(key.bytes().as_slice().into()));
    }
    row
}

pub(super) fn from_shown_row(bytes: &[u8]) -> Option<Vec<(KeyState, PublicKey)>> {
    of_shown(&decode(bytes)?)
}

/// Reads the list of files that show an id's keys.
pub(super) fn of_shown(row: &Map) -> Option<Vec<(KeyState, PublicKey)>> {
    let file = |(state, key): (&Value, &Value)| {
        Some((KeyState::from_word(state.as_str()?)?, public_key(key)?))
    };
    row.iter().map(file).collect()
}

/// Reads a key that the store wrote.
pub(super) fn public_key(value: &Value) -> Option<PublicKey> {
    match value {
        Value::Bytes(key) => Some(PublicKey::from_bytes(key.as_ref().try_into().ok()?)),
        _ => None,
    }
}

/// An event of the log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// Its number in the log.
    pub(crate) sequence: u64,
    /// Its tag.
    pub(crate) tag: String,
    /// The time at which it was made, as in `_stamp`.
    pub(crate) stamp: String,
    /// The time at which it arrived at this master, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// Its data.
    pub(crate) data: Map,
}

impl Event {
    /// Returns the data with `_stamp`, which is the form that readers of events get.
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

    pub(super) fn from_row(key: &[u8], bytes: &[u8]) -> Option<Self> {
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
    /// Its job id.
    pub(crate) jid: String,
    /// The job's load; empty for a job that this master did not publish.
    pub(crate) load: Map,
    /// The minions that are expected to return.
    pub(crate) minions: Vec<Id>,
    /// The time at which it arrived, in milliseconds since 1970.
    pub(crate) at_ms: u64,
}

impl Job {
    /// Returns whether another record may be one of the same job: it is of the same user and function,
    /// or of a return that came before the job.
    pub(super) fn is_alike(&self, known: &Self) -> bool {
        let same = |field: &str| self.load.get(field) == known.load.get(field);
        known.load.is_empty() || same("fun") && same("user")
    }

    /// Returns whether a minion gave the job to itself.
    pub(super) fn is_own(&self) -> bool {
        self.load.get("own").is_some_and(Value::is_true)
    }

    pub(super) fn row(&self, holder: &str) -> Map {
        let minions = self.minions.iter().map(|id| Value::from(id.as_str()));
        held(holder)
            .with("at_ms", self.at_ms)
            .with("load", Value::Map(self.load.clone()))
            .with("minions", Value::list(minions))
    }

    pub(super) fn from_row(jid: &str, bytes: &[u8]) -> Option<Self> {
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

/// A minion's return of a job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Returned {
    /// The minion.
    pub(crate) id: Id,
    /// The time at which it arrived at this master, in milliseconds since 1970.
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

    pub(super) fn from_row(id: Id, bytes: &[u8]) -> Option<Self> {
        let mut row = decode(bytes)?;
        Some(Self {
            id,
            at_ms: number(&row, "at_ms")?,
            data: taken(&mut row, "data"),
        })
    }
}

/// The highest position of a spool that has arrived. A minion sends in order, and sends a return
/// only after everything before it was acknowledged. A position that it skips never arrives:
/// another master acknowledged it and lost its state since, or it was dropped from a full spool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    highest: u64,
}

impl Received {
    /// Records a position. Returns false if it, or a later one, arrived before.
    pub(super) fn take(&mut self, sequence: u64) -> bool {
        let is_new = sequence > self.highest;
        self.highest = self.highest.max(sequence);
        is_new
    }

    /// Returns the position up to which nothing can still arrive.
    pub(super) fn durable(self) -> u64 {
        self.highest
    }

    /// Encodes it as 8 bytes, because every event reads and writes it.
    pub(super) fn row(self) -> Vec<u8> {
        self.highest.to_be_bytes().to_vec()
    }

    pub(super) fn from_row(bytes: &[u8]) -> Option<Self> {
        let highest = u64::from_be_bytes(bytes.try_into().ok()?);
        Some(Self { highest })
    }
}

/// The bounds of the event log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Log {
    /// The number of the oldest event.
    pub(super) first: u64,
    /// The number that the next event gets.
    pub(super) next: u64,
    /// The total size of the events in bytes.
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

    pub(super) fn from_row(bytes: &[u8]) -> Option<Self> {
        let row = decode(bytes)?;
        Some(Self {
            first: number(&row, "first")?,
            next: number(&row, "next")?,
            bytes: number(&row, "bytes")?,
        })
    }
}

/// The keys of the rows, as bytes.
pub(super) mod at {
    use reactor::Place;

    use super::{Cache, Id, Origin, PublicKey};

    pub(in crate::store) const LOG: &[u8] = b"m log";

    /// The position in the log of several masters up to which the rows follow from it.
    pub(in crate::store) const CONTROL: &[u8] = b"m control";

    pub(in crate::store) fn key(id: &Id) -> Vec<u8> {
        [b"i", id.as_str().as_bytes()].concat()
    }

    /// Returns the key of the row that holds the 32 bytes of an id's accepted key.
    pub(in crate::store) fn accepted(id: &Id) -> Vec<u8> {
        [b"a", id.as_str().as_bytes()].concat()
    }

    pub(in crate::store) fn denied(id: &Id) -> Vec<u8> {
        [b"d", id.as_str().as_bytes(), b"\0"].concat()
    }

    pub(in crate::store) fn denied_key(id: &Id, key: &PublicKey) -> Vec<u8> {
        [denied(id).as_slice(), key.bytes()].concat()
    }

    pub(in crate::store) fn key_files(id: &Id) -> Vec<u8> {
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

    /// Returns the place of the reaction with this row key.
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
            Cache::Status => b"s",
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

    /// The rings of masters and the routes to them.
    pub(in crate::store) const RINGS: &[u8] = b"m rings";

    /// Returns the key of the row that exists if data of a job's returns is missing here.
    pub(in crate::store) fn elsewhere(jid: &str) -> Vec<u8> {
        [b"s", jid.as_bytes()].concat()
    }

    /// Returns the jid in such a row key.
    pub(in crate::store) fn of_elsewhere(key: &[u8]) -> Option<&str> {
        std::str::from_utf8(key.strip_prefix(b"s")?).ok()
    }

    /// Returns the key of the owner of an orchestration. The keys of its lines and steps begin with it.
    pub(in crate::store) fn run(jid: &str) -> Vec<u8> {
        [runs(), jid.as_bytes(), b"\0"].concat()
    }

    pub(in crate::store) fn runs() -> &'static [u8] {
        b"o"
    }

    /// Returns the jid in the key of the owner of an orchestration.
    pub(in crate::store) fn of_run(key: &[u8]) -> Option<&str> {
        std::str::from_utf8(key.strip_prefix(runs())?.strip_suffix(b"\0")?).ok()
    }

    pub(in crate::store) fn run_lines(jid: &str) -> Vec<u8> {
        [run(jid).as_slice(), b"l"].concat()
    }

    pub(in crate::store) fn run_line(jid: &str, offset: u64) -> Vec<u8> {
        [run_lines(jid).as_slice(), &offset.to_be_bytes()].concat()
    }

    pub(in crate::store) fn run_step(jid: &str, step: &str) -> Vec<u8> {
        [run(jid).as_slice(), b"s", step.as_bytes()].concat()
    }

    /// Returns the time and the jid of a row key in the list of jobs.
    pub(in crate::store) fn of_time(key: &[u8]) -> Option<(u64, String)> {
        let (at_ms, jid) = key.strip_prefix(times())?.split_at_checked(8)?;
        let at_ms = u64::from_be_bytes(at_ms.try_into().ok()?);
        Some((at_ms, String::from_utf8(jid.to_vec()).ok()?))
    }

    /// Returns the minion's id in the row key of a return.
    pub(in crate::store) fn of_returned(key: &[u8]) -> Option<&str> {
        let name = key.strip_prefix(b"r")?;
        let end = name.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(name.get(end + 1..)?).ok()
    }

    /// Returns the id that follows a prefix, up to a NUL or the end.
    pub(in crate::store) fn id(key: &[u8], prefix: usize) -> Option<Id> {
        let name = key.get(prefix..)?.split(|byte| *byte == 0).next()?;
        std::str::from_utf8(name).ok()?.parse().ok()
    }
}

/// Reads the number of a field.
pub(super) fn number(row: &Map, name: &str) -> Option<u64> {
    whole(row.get(name)?)
}

/// Reads a number that the store wrote. Numbers that do not fit into a signed integer are stored as
/// digits.
pub(super) fn whole(value: &Value) -> Option<u64> {
    match value {
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
