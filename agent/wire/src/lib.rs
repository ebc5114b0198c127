//! What a fleet says to each other, as bytes: frames, ids, event tags, and who may send what. No sockets, no clock, no file.
//!
//! # The protocol, version 1
//!
//! A minion and its master speak over one QUIC connection; the crate `link` has it. Both prove an Ed25519 key in the handshake, and
//! that key *is* the session's identity: no frame after the hello holds an id that anybody reads.
//!
//! ## Frames
//!
//! A frame is its length as four bytes, the highest first, and one msgpack map of that length. `kind` says which frame it is; the
//! other entries are its fields. A receiver
//!
//! - ignores entries that it does not know, and takes a missing optional one, or `None`, as its default;
//! - answers a kind that it does not know with `unsupported`, and goes on;
//! - drops a frame of a known kind that is malformed, and counts it; too many end the connection;
//! - ends the connection on a length above its limit, because it cannot find the next frame without reading this one.
//!
//! A new field, kind or feature needs no new version; a changed meaning does. [`Limits`] are one of three: before acceptance, on a
//! control stream, on a stream of its own.
//!
//! ## Values
//!
//! [`msgpack`] holds Salt's values: `None`, booleans, whole numbers of 64 bits, floats, text, bytes, lists, and maps that keep their
//! order, with any key that Python takes. What msgpack has no form for is an extension:
//!
//! | type | what | bytes |
//! |---|---|---|
//! | 1 | a whole number beyond 64 bits | its decimal digits |
//! | 2 | a tuple | a msgpack array |
//! | 3 | a set | a msgpack array |
//!
//! Refused: other extensions, a key or an item twice, keys that are lists, maps, sets or not-a-number, text that is not UTF-8, bytes
//! after the end.
//!
//! ## Streams
//!
//! The minion opens the first stream, the *control stream*, and says `hello`. The master answers, in this order and on this stream,
//!
//! ```text
//! minion                         master
//!   hello ------------------------>            the range of versions, features, id, evidence
//!         <------------------------ pending    nothing else can be said until the welcome comes, hours later if need be
//!         <------------------------ welcome    version, features, what the key is bound to, how far its events are durable
//!   or    <------------------------ refused    and the connection is closed
//!   event 7, event 8 ------------->
//!         <------------------------ ack 8      everything up to 8 is on the master's disk
//!   bye   <-----------------------> bye        the connection will be closed; what is under way ends first
//! ```
//!
//! The rest have a stream each, opened by who asks; it begins with a [`Request`], and [`Answer`] frames follow: any number of `data`,
//! then one `done` or `error`. A stream that ends without either is an error at the asker's end, never an empty answer.
//!
//! - Minion to master: `pillar`, `grains`, `options`, `list`, `stat`, `file`, `push`, `mine_*`, `return`, `publish`, `runner`.
//! - Master to minion: `job` (`done` says that it was taken), `find_job`, `running`, `signal_job`, `refresh`, `ping`.
//!
//! ## Once, and in order
//!
//! Events and returns count in one row of sequence numbers, from 1, within a spool that has a number of its own, its `epoch`. A
//! minion drops what is acked (`ack` covers events and returns up to its number; the `done` of a `return` covers that return). It sends
//! in order: a return when everything before it was acked, an event after a return when that was done. So a number that is not above the
//! highest one that came is one that was sent twice, and the master drops it by (key, epoch, sequence); numbers that are left out never
//! come. After a loss the minion sends again from the welcome's `durable` on. An event with sequence 0 is not kept by anybody and not acked.
//!
//! ## Who may send what
//!
//! [`rule::check`] is asked for every frame that comes in, with the [`Way`] that follows from the connection. Its table is made from
//! the declarations of the frames: a kind that names no way may not be sent, and only `hello` and `bye` come before acceptance. Of
//! event tags a minion may send its own and those that are not reserved: [`tag::may_send`].
//!
//! ## On one machine
//!
//! Commands and job processes speak the same frames over a Unix socket. There is no hello: the kernel says who it is. A stream is
//! the whole socket; one request follows another when the first one's answer has ended, and `event` may stand before a request.
//!
//! # For programs
//!
//! [`Frame::encode`] appends to a buffer; [`Decoder`] takes bytes as they come and gives frames. Both hold the same limits, so what
//! is too large fails where it is made. `Debug` of a frame shows its kind only: pillar and tokens never get into a log that way.

mod answer;
mod control;
mod error;
mod fields;
mod frame;
mod id;
mod kinds;
mod limits;
pub mod msgpack;
mod request;
pub mod rule;
mod secret;
pub mod tag;

pub use answer::{Answer, Data, Done, Failed};
pub use control::{Ack, Bye, Control, Event, Hello, Pending, Refused, Welcome};
pub use error::Error;
pub use frame::{Decoder, Frame};
pub use id::{Id, NotAnId};
pub use limits::{EVIDENCE_MAX, Limits};
pub use request::{
    Beacons, File, FindJob, Fire, Grains, Job, List, Listen, MineDelete, MineGet, MinePut, Options,
    Pillar, Ping, Publish, Push, Refresh, Request, Return, Runner, Running, Schedule, SignalJob,
    Stat, Wheel,
};
pub use rule::{Rule, Way};
pub use secret::Secret;

use value::{Map, Value};

/// The oldest protocol version that is spoken here.
pub const VERSION_MIN: u64 = 1;
/// The newest one.
pub const VERSION_MAX: u64 = 1;
/// What QUIC's handshake calls the protocol.
pub const ALPN: &[u8] = b"pinch/1";

/// Under which name the answer to [`Options`], and a job for its process, has the grains that the minion's key is bound to.
pub const BOUND_GRAINS: &str = "bound_grains";

/// Under which name a job's options say that its return is covered as a whole: the step that it is of has `no_log`.
pub const NO_LOG: &str = "no_log";

/// Under which name a job's options say which of its arguments are secret (`value::secret::marks`). Who does not know it prints them.
pub const SECRETS: &str = "secrets";

/// Under which name a job's options say which minion asked for it. The master alone writes it: a minion may do for one what it does not for
/// another.
pub const PEER: &str = "id";

/// The feature by which a hello says that its session is a command's, which fires events and returns and takes no jobs.
pub const CALL: &str = "call";

/// The grains in what a key is bound to (`Welcome::bound`): its role is one of them.
#[must_use]
pub fn bound_grains(bound: &Map) -> Map {
    let mut grains = Map::new();
    if let Some(role) = bound.get("role") {
        grains.insert("role", role.clone());
    }
    let others = bound.get("grains").and_then(Value::as_map);
    grains.update(others.cloned().unwrap_or_default());
    grains
}

/// The newest version that both of two ranges hold.
#[must_use]
pub fn common_version(min: u64, max: u64) -> Option<u64> {
    let newest = max.min(VERSION_MAX);
    (newest >= min.max(VERSION_MIN)).then_some(newest)
}

#[cfg(test)]
mod golden;
