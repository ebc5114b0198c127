//! The bytes of a [`Command`]: the form in which a journal that several masters replicate contains
//! it. Files in `tests/corpus/store` fix these bytes.
//!
//! A command is a msgpack map of its `kind` and its fields by name. A field that is `None` is left
//! out. A later release can therefore add an optional field to a kind, and still reads the commands
//! that were written without it. A kind, word or field that this release does not know is an error:
//! masters that apply different parts of a command would have different stores from then on.

use cluster::core::Keep;
use link::key::PublicKey;
use reactor::Place;
use value::{Map, Value};
use wire::{Id, msgpack};

use super::command::{Cache, Change, Claim, Command, JobRows, KeyState, Origin, RunOwner};
use super::rows::{self, ROW};

/// The limits of an encoded command. The command that stores a return can also contain the job and
/// the event, and each of the three may be as large as a row.
const LIMITS: wire::Limits = wire::Limits {
    bytes: 4 * ROW.bytes,
    depth: ROW.depth + 8,
    items: 4 * ROW.items,
};

/// The maximum number of characters of an unknown name that an error repeats.
const SHOWN_MAX: usize = 64;

/// A command that cannot be encoded, or bytes that are no command. `field` is the path of a field,
/// such as `command.event.origin.epoch`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    /// A command that exceeds the limits.
    #[error("cannot encode a command: {0}")]
    Encoding(wire::Error),
    /// Bytes that are not exactly one value, or exceed the limits.
    #[error("cannot decode a command: {0}")]
    Decoding(wire::Error),
    /// A kind that this release does not know.
    #[error(
        "`{field}` is {kind:?}, which is unknown: use the release that wrote it, or a later one"
    )]
    Kind {
        /// The field that names the kind.
        field: String,
        /// The beginning of the kind.
        kind: String,
    },
    /// A field that this release does not know.
    #[error("`{field}` is unknown: use the release that wrote it, or a later one")]
    Unknown {
        /// The field.
        field: String,
    },
    /// A field that is missing or has a value of another type.
    #[error("`{field}` must be {wanted}")]
    Field {
        /// The field.
        field: String,
        /// The expected value.
        wanted: &'static str,
    },
}

impl Error {
    /// Puts the name of the enclosing part before the path of the field.
    fn inside(mut self, outer: &str) -> Self {
        if let Self::Kind { field, .. } | Self::Unknown { field } | Self::Field { field, .. } =
            &mut self
        {
            *field = match field.is_empty() {
                true => outer.to_owned(),
                false => format!("{outer}.{field}"),
            };
        }
        self
    }
}

/// Encodes a command.
///
/// # Errors
/// Returns an error if the command is larger or more deeply nested than the limits allow.
pub(super) fn encode(command: &Command) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    msgpack::encode(&command.written(), LIMITS, &mut bytes).map_err(Error::Encoding)?;
    Ok(bytes)
}

/// Decodes a command from all of the bytes.
///
/// # Errors
/// Returns an error if the bytes are not exactly one command with known fields.
pub(super) fn decode(bytes: &[u8]) -> Result<Command, Error> {
    let value = msgpack::decode(bytes, LIMITS).map_err(Error::Decoding)?;
    Command::read(value).map_err(|error| error.inside("command"))
}

/// A command, or the value of one of its fields.
trait Part: Sized {
    /// The expected value, for error messages.
    const WANTED: &'static str;

    /// Returns the value to be written. `Null` leaves the field out.
    fn written(&self) -> Value;

    /// Reads a value. It is an error if the value has another type, even if it is `Null`.
    fn read(value: Value) -> Result<Self, Error>;

    /// Returns the value of a missing field, or `None` if the field is required.
    fn absent() -> Option<Self> {
        None
    }
}

/// Returns the error for a value that is no `T`.
fn wrong<T: Part>() -> Error {
    Error::Field {
        field: String::new(),
        wanted: T::WANTED,
    }
}

/// Adds a field to a map, unless it is left out.
fn put<T: Part>(map: &mut Map, name: &'static str, field: &T) {
    let value = field.written();
    if !value.is_null() {
        map.insert(name, value);
    }
}

/// Takes a field out of a map.
fn take<T: Part>(map: &mut Map, name: &'static str) -> Result<T, Error> {
    let read = match map.remove(name) {
        Some(value) => T::read(value),
        None => T::absent().ok_or_else(wrong::<T>),
    };
    read.map_err(|error| error.inside(name))
}

/// Checks that all fields were taken out of a map.
fn end(map: &Map) -> Result<(), Error> {
    let Some((name, _)) = map.first() else {
        return Ok(());
    };
    Err(Error::Unknown {
        field: name.to_text().chars().take(SHOWN_MAX).collect(),
    })
}

/// Reads a map with a `kind`. `of_kind` reads the fields of that kind, and returns `None` if it does
/// not know the kind.
fn read_kind<T: Part>(
    value: Value,
    of_kind: fn(&str, &mut Map) -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    let Value::Map(mut map) = value else {
        return Err(wrong::<T>());
    };
    let kind: String = take(&mut map, "kind")?;
    let found = of_kind(&kind, &mut map).map_err(|error| error.inside(&kind))?;
    let Some(found) = found else {
        return Err(Error::Kind {
            field: "kind".to_owned(),
            kind: kind.chars().take(SHOWN_MAX).collect(),
        });
    };
    end(&map).map_err(|error| error.inside(&kind))?;
    Ok(found)
}

/// Declares the kinds of an enum: `Variant "kind" { fields }`, or `(field)` with the name under
/// which the one field of a tuple is written.
macro_rules! kinds {
    ($all:ident: $($variant:ident $kind:literal $({ $($field:ident),* })? $(($only:ident))?;)*) => {
        impl Part for $all {
            const WANTED: &'static str = "a map with a `kind`";

            fn written(&self) -> Value {
                Value::Map(match self {
                    $(Self::$variant $({ $($field),* })? $(($only))? => {
                        #[allow(unused_mut, reason = "a kind may have no fields")]
                        let mut map = Map::new().with("kind", $kind);
                        $($(put(&mut map, stringify!($field), $field);)*)?
                        $(put(&mut map, stringify!($only), $only);)?
                        map
                    })*
                })
            }

            fn read(value: Value) -> Result<Self, Error> {
                read_kind(value, |kind, map| {
                    Ok(Some(match kind {
                        $($kind => Self::$variant
                            $({ $($field: take(map, stringify!($field))?),* })?
                            $((take(map, stringify!($only))?))?,)*
                        _ => return Ok(None),
                    }))
                })
            }
        }
    };
}

/// Declares the fields of a struct, which is written as a map.
macro_rules! fields {
    ($all:ident { $($field:ident),* }) => {
        impl Part for $all {
            const WANTED: &'static str = "a map";

            fn written(&self) -> Value {
                let mut map = Map::new();
                $(put(&mut map, stringify!($field), &self.$field);)*
                Value::Map(map)
            }

            fn read(value: Value) -> Result<Self, Error> {
                let mut map = Map::read(value)?;
                let found = Self { $($field: take(&mut map, stringify!($field))?),* };
                end(&map)?;
                Ok(found)
            }
        }
    };
}

/// Declares the words of an enum without fields, after the text that lists them.
macro_rules! words {
    ($all:ident $wanted:literal: $($variant:ident $word:literal),*) => {
        impl Part for $all {
            const WANTED: &'static str = $wanted;

            fn written(&self) -> Value {
                match self {
                    $(Self::$variant => $word.into(),)*
                }
            }

            fn read(value: Value) -> Result<Self, Error> {
                match value.as_str() {
                    $(Some($word) => Ok(Self::$variant),)*
                    _ => Err(wrong::<Self>()),
                }
            }
        }
    };
}

kinds! {
    Command:
    KeyOffered "key_offered" { id, key, at_ms, from, pending_max, pending_per_address, claim };
    KeyWithdrawn "key_withdrawn" { id, key };
    KeyAccepted "key_accepted" { id, key, at_ms, bound, replace };
    KeyRejected "key_rejected" { id, key, at_ms };
    KeyDenied "key_denied" { id, key, at_ms };
    KeyDeleted "key_deleted" { id, key, at_ms };
    KeyShown "key_shown" { id, files };
    Event "event" { tag, data, stamp, at_ms, origin };
    Job "job" { jid, load, minions, at_ms };
    Return "return" { jid, id, data, at_ms, origin };
    Cached "cached" { id, key, what, change };
    Cursor "cursor" { name, sequence };
    Reaction "reaction" { place, row };
    Token "token" { name, data, expected };
    EventsDropped "events_dropped" { before, limit };
    JobsDropped "jobs_dropped" { before_ms, limit };
    EventsRemoved "events_removed" { sequences };
    JobsRemoved "jobs_removed" { jobs };
    RingCreated "ring_created" { name, voters };
    RingDestroyed "ring_destroyed" { name };
    RingSet "ring_set" { name, keep, replicas };
    RouteSet "route_set" { data_type, ring, at_ms };
    RunBegun "run_begun" { jid, owner, lines };
    RunCopied "run_copied" { jid, owner, offset, lines };
    RunStep "run_step" { jid, owner, step, job };
    RunClaimed "run_claimed" { jid, owner, expected };
    RunEnded "run_ended" { jid, owner };
    All "all" (commands);
}

kinds! {
    Change:
    Set "set" (data);
    Update "update" (data);
    Without "without" (name);
    Clear "clear";
}

fields!(Origin {
    id,
    key,
    epoch,
    sequence
});
fields!(Place { rule, sequence });
fields!(RunOwner { node, boot, claim });
fields!(JobRows {
    jid,
    returns,
    at_ms
});

words!(Claim "nothing, new or proved": Nothing "nothing", New "new", Proved "proved");
words!(
    Cache "grains, pillar, mine or status":
    Grains "grains", Pillar "pillar", Mine "mine", Status "status"
);

impl Part for Keep {
    const WANTED: &'static str = "self or voters";

    fn written(&self) -> Value {
        self.word().into()
    }

    fn read(value: Value) -> Result<Self, Error> {
        let keep = value.as_str().and_then(Self::from_word);
        keep.ok_or_else(wrong::<Self>)
    }
}

impl Part for String {
    const WANTED: &'static str = "text";

    fn written(&self) -> Value {
        self.into()
    }

    fn read(value: Value) -> Result<Self, Error> {
        let text = value.as_str().map(str::to_owned);
        text.ok_or_else(wrong::<Self>)
    }
}

impl Part for bool {
    const WANTED: &'static str = "true or false";

    fn written(&self) -> Value {
        Value::Bool(*self)
    }

    fn read(value: Value) -> Result<Self, Error> {
        value.as_bool().ok_or_else(wrong::<Self>)
    }
}

impl Part for u64 {
    const WANTED: &'static str = "a whole number from 0 to 18446744073709551615";

    fn written(&self) -> Value {
        (*self).into()
    }

    fn read(value: Value) -> Result<Self, Error> {
        rows::whole(&value).ok_or_else(wrong::<Self>)
    }
}

impl Part for Id {
    const WANTED: &'static str = "a minion id";

    fn written(&self) -> Value {
        self.as_str().into()
    }

    fn read(value: Value) -> Result<Self, Error> {
        let id = value.as_str().and_then(|id| id.parse().ok());
        id.ok_or_else(wrong::<Self>)
    }
}

impl Part for PublicKey {
    const WANTED: &'static str = "the 32 bytes of a key";

    fn written(&self) -> Value {
        Value::Bytes(self.bytes().as_slice().into())
    }

    fn read(value: Value) -> Result<Self, Error> {
        rows::public_key(&value).ok_or_else(wrong::<Self>)
    }
}

impl Part for Map {
    const WANTED: &'static str = "a map";

    fn written(&self) -> Value {
        Value::Map(self.clone())
    }

    fn read(value: Value) -> Result<Self, Error> {
        match value {
            Value::Map(map) => Ok(map),
            _ => Err(wrong::<Self>()),
        }
    }
}

impl<T: Part> Part for Option<T> {
    const WANTED: &'static str = T::WANTED;

    fn written(&self) -> Value {
        self.as_ref().map(T::written).unwrap_or_default()
    }

    fn read(value: Value) -> Result<Self, Error> {
        T::read(value).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: Part> Part for Vec<T> {
    const WANTED: &'static str = "a list";

    fn written(&self) -> Value {
        Value::list(self.iter().map(T::written))
    }

    fn read(value: Value) -> Result<Self, Error> {
        let Value::List(items) = value else {
            return Err(wrong::<Self>());
        };
        let items = items.iter().cloned().enumerate();
        let read = |(at, item): (usize, Value)| {
            T::read(item).map_err(|error| error.inside(&at.to_string()))
        };
        items.map(read).collect()
    }
}

/// The files of an id's keys, as their row has them. An id has at most one file of each state.
impl Part for Vec<(KeyState, PublicKey)> {
    const WANTED: &'static str = "a map from states to the 32 bytes of a key";

    fn written(&self) -> Value {
        Value::Map(rows::shown_row(self))
    }

    fn read(value: Value) -> Result<Self, Error> {
        let files = rows::of_shown(&Map::read(value).map_err(|_| wrong::<Self>())?);
        files.ok_or_else(wrong::<Self>)
    }
}
