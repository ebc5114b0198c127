//! The records of a spool, and their bytes: events, returns, and the record of what had to be
//! dropped.

use value::{Map, Value};
use wire::{Control, Event, Frame, Limits, Request, Return};

use super::Error;

/// The tag of the event that replaces dropped records.
pub const GAP: &str = wire::tag::SPOOL_GAP;

/// A frame in the sequence of a spool.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// An event, which is sent over the control stream.
    Event(Event),
    /// A return, which is sent as a separate request.
    Return(Return),
}

impl From<Event> for Entry {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

impl From<Return> for Entry {
    fn from(ret: Return) -> Self {
        Self::Return(ret)
    }
}

impl From<Entry> for Frame {
    fn from(entry: Entry) -> Self {
        match entry {
            Entry::Event(event) => event.into(),
            Entry::Return(ret) => ret.into(),
        }
    }
}

impl Entry {
    /// Returns the sequence number; 0 before the entry was pushed.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        match self {
            Self::Event(event) => event.sequence,
            Self::Return(ret) => ret.sequence,
        }
    }

    /// Returns the time at which the entry was made.
    #[must_use]
    pub fn stamp(&self) -> &str {
        match self {
            Self::Event(event) => &event.stamp,
            Self::Return(ret) => &ret.stamp,
        }
    }

    fn numbered(self, sequence: u64) -> Self {
        match self {
            Self::Event(event) => Event { sequence, ..event }.into(),
            Self::Return(ret) => Return { sequence, ..ret }.into(),
        }
    }
}

/// The kind of a record. It is the first byte of the value, so that dropping records does not read
/// the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Event,
    Return,
    Gap,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Self::Event => b'e',
            Self::Return => b'r',
            Self::Gap => b'g',
        }
    }

    pub(super) fn from_value(value: &[u8]) -> Option<Self> {
        let kinds = [Self::Event, Self::Return, Self::Gap];
        let first = value.first()?;
        kinds.into_iter().find(|kind| kind.byte() == *first)
    }
}

/// Returns the bytes of an entry with its sequence number.
pub(super) fn encoded(entry: Entry, sequence: u64) -> Result<Vec<u8>, Error> {
    let (kind, limits) = match entry {
        Entry::Event(_) => (Kind::Event, Limits::CONTROL),
        Entry::Return(_) => (Kind::Return, Limits::STREAM),
    };
    bytes(kind, limits, entry.numbered(sequence))
}

fn bytes(kind: Kind, limits: Limits, entry: Entry) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![kind.byte()];
    Frame::from(entry).encode(limits, &mut bytes)?;
    Ok(bytes)
}

/// Returns the entry that a record's bytes encode, or `None` if they encode none.
pub(super) fn decoded(value: &[u8]) -> Option<Entry> {
    let limits = match Kind::from_value(value)? {
        Kind::Return => Limits::STREAM,
        Kind::Event | Kind::Gap => Limits::CONTROL,
    };
    // Skips the kind and the frame's length.
    match Frame::decode(value.get(5..)?, limits).ok()? {
        Frame::Control(Control::Event(event)) => Some(event.into()),
        Frame::Request(Request::Return(ret)) => Some(ret.into()),
        _ => None,
    }
}

/// The dropped records, as one record at the number of the last of them.
///
/// It has the last number, not the first: a master that has the number `first` already discards
/// everything up to there as sent twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gap {
    /// The first dropped number.
    pub first: u64,
    /// The last dropped number, which is the number of this record.
    pub last: u64,
    /// The number of dropped records. Others between `first` and `last` were sent or will be sent.
    pub dropped: u64,
    /// The number of returns among them.
    pub returns: u64,
    /// The stamp of the first dropped record.
    pub since: String,
    /// The stamp of the last dropped record.
    pub until: String,
}

impl Gap {
    /// Counts one more dropped record.
    pub(super) fn add(&mut self, entry: &Entry) {
        let sequence = entry.sequence();
        if self.dropped == 0 || sequence < self.first {
            self.first = sequence;
            self.since = entry.stamp().to_owned();
        }
        if sequence > self.last {
            self.last = sequence;
            self.until = entry.stamp().to_owned();
        }
        self.dropped += 1;
        self.returns += u64::from(matches!(entry, Entry::Return(_)));
    }

    pub(super) fn encoded(&self) -> Result<Vec<u8>, Error> {
        let data = Map::new()
            .with("first", self.first)
            .with("last", self.last)
            .with("dropped", self.dropped)
            .with("returns", self.returns)
            .with("since", self.since.as_str());
        let event = Event {
            sequence: self.last,
            tag: GAP.to_owned(),
            stamp: self.until.clone(),
            data,
        };
        bytes(Kind::Gap, Limits::CONTROL, event.into())
    }

    /// Returns the gap that a record describes, or `None` if it is no such record.
    pub(super) fn decoded(value: &[u8]) -> Option<Self> {
        let Some(Entry::Event(event)) = decoded(value) else {
            return None;
        };
        let number = |name| u64::try_from(event.data.get(name)?.as_int()?).ok();
        Some(Self {
            first: number("first")?,
            last: number("last")?,
            dropped: number("dropped")?,
            returns: number("returns")?,
            since: event.data.get("since").and_then(Value::as_str)?.to_owned(),
            until: event.stamp.clone(),
        })
    }
}
