//! The messages of a fleet as bytes: frames, ids, event tags, and the rules of which side may send
//! what. This crate uses no sockets, no clock and no files.
//!
//! # The protocol, version 1
//!
//! A minion and its master communicate over one QUIC connection, which the crate `link` implements.
//! Both prove an Ed25519 key in the handshake. That key *is* the session's identity: no frame after
//! the hello contains an id that any receiver trusts.
//!
//! ## Frames
//!
//! A frame consists of its length as four bytes, the highest first, and one msgpack map of that
//! length. The entry `kind` names the kind of frame; the other entries are its fields. A receiver
//!
//! - ignores entries that it does not know, and uses the default for an optional entry that is
//!   missing or `None`;
//! - answers an unknown kind with `unsupported`, and continues;
//! - drops a malformed frame of a known kind, and counts it; too many of them end the connection;
//! - ends the connection on a length above its limit, because it cannot find the next frame without
//!   reading this one.
//!
//! A new field, kind or feature needs no new version; a changed meaning does. There are three sets
//! of [`Limits`]: before acceptance, on a control stream, and on a separate stream.
//!
//! ## Values
//!
//! [`msgpack`] encodes Salt's values: `None`, booleans, whole numbers of 64 bits, floats, text,
//! bytes, lists, and maps that keep their order, with any key that Python accepts. Values for which
//! msgpack has no form are extensions:
//!
//! | type | what | bytes |
//! |---|---|---|
//! | 1 | a whole number beyond 64 bits | its decimal digits |
//! | 2 | a tuple | a msgpack array |
//! | 3 | a set | a msgpack array |
//!
//! A receiver rejects other extensions, duplicate keys or items, keys that are lists, maps, sets or
//! not-a-number, text that is not UTF-8, and bytes after the end.
//!
//! ## Streams
//!
//! The minion opens the first stream, the *control stream*, and sends `hello`. The master answers,
//! in this order and on this stream:
//!
//! ```text
//! minion                         master
//!   hello ------------------------>          the range of versions, features, id, evidence
//!         <------------------------ pending  the minion waits for the welcome, perhaps for hours
//!         <------------------------ welcome  version, features, what the key is bound to,
//!                                            how far its events are durable
//!   or    <------------------------ refused  and the connection is closed
//!         <------------------------ masters  all masters of the cluster, if there is one, and
//!                                            again when they change
//!   event 7, event 8 ------------->
//!         <------------------------ ack 8    everything up to 8 is on the master's disk
//!   bye   <-----------------------> bye      the connection is closed after open exchanges end
//! ```
//!
//! Every other exchange has a separate stream, which the requesting side opens. It begins with a
//! [`Request`], and [`Answer`] frames follow: any number of `data`, then one `done` or `error`. A
//! stream that ends without either is an error for the requesting side, never an empty answer.
//!
//! - Minion to master: `pillar`, `grains`, `options`, `list`, `stat`, `file`, `push`, `mine_*`,
//!   `return`, `publish`, `runner`.
//! - Master to minion: `job` (`done` means that the minion accepted it), `find_job`, `running`,
//!   `signal_job`, `refresh`, `ping`.
//!
//! ## Once, and in order
//!
//! Events and returns share one series of sequence numbers, from 1, within a spool. Each spool has
//! a number, its `epoch`. A minion drops what is acknowledged: an `ack` covers events and returns
//! up to its number; the `done` of a `return` covers that return. The minion sends in order: a
//! return when everything before it is acknowledged, and an event after a return when that return
//! is done. A number that is not above the highest received one was therefore sent twice, and the
//! master drops it by (key, epoch, sequence). Numbers that are left out never arrive later. After a
//! lost connection the minion sends again everything after the welcome's `durable`. An event with
//! sequence 0 is neither stored nor acknowledged.
//!
//! ## Permissions
//!
//! [`rule::check`] checks every received frame, with the [`Way`] that follows from the connection.
//! Its table is made from the declarations of the frames. A kind that names no way may not be sent,
//! and only `hello` and `bye` are allowed before acceptance. A minion may send events with its own
//! tags and with tags that are not reserved: [`tag::may_send`].
//!
//! ## On one machine
//!
//! Commands and job processes send the same frames over a Unix socket. There is no hello, because
//! the kernel identifies the peer. The whole socket is one stream: a request follows when the
//! answer to the previous one has ended, and `event` frames may precede a request.
//!
//! # For programs
//!
//! [`Frame::encode`] appends to a buffer; [`Decoder`] takes received bytes and returns frames. Both
//! apply the same limits, so a frame that is too large fails at its sender. `Debug` of a frame
//! shows its kind only, so pillar and tokens never get into a log that way.

mod answer;
mod control;
mod error;
mod fields;
mod frame;
mod id;
mod kinds;
mod limits;
pub mod msgpack;
pub mod payload;
mod request;
pub mod rule;
mod secret;
pub mod tag;

pub use answer::{Answer, Data, Done, Failed};
pub use control::{Ack, Bye, Control, Event, Hello, Masters, Pending, Refused, Welcome};
pub use error::Error;
pub use frame::{Decoder, Frame};
pub use id::{Id, NotAnId};
pub use limits::{EVIDENCE_MAX, Limits};
pub use request::{
    Backup, Beacons, File, FindJob, Fire, Grains, Job, List, Listen, Login, MineDelete, MineGet,
    MinePut, NextKey, Options, Pillar, Ping, Publish, Push, Refresh, Request, Return, Runner,
    Running, Schedule, SignalJob, Stat, Tops, Wheel,
};
pub use rule::{Rule, Way};
pub use secret::Secret;

use value::{Map, Value};

/// The oldest protocol version that this program supports.
pub const VERSION_MIN: u64 = 1;
/// The newest protocol version that this program supports.
pub const VERSION_MAX: u64 = 1;
/// The name of the protocol in QUIC's handshake.
pub const ALPN: &[u8] = b"pinch/1";

/// The name under which the answer to [`Options`], and a job for its process, contains the grains
/// that the minion's key is bound to.
pub const BOUND_GRAINS: &str = "bound_grains";

/// The name of a job's option for `no_log`: the step of an orchestration that the job belongs to
/// has it, so its whole return is hidden.
pub const NO_LOG: &str = "no_log";

/// The name of a job's option that lists its secret arguments (`value::secret::marks`). A program
/// that does not know the option prints them.
pub const SECRETS: &str = "secrets";

/// The name of a job's option that contains the minion that asked for the job. Only the master
/// writes it, because a minion may allow one peer more than another.
pub const PEER: &str = "id";

/// The feature of a hello whose session belongs to a command. Such a session sends events and
/// returns, and accepts no jobs.
pub const CALL: &str = "call";

/// The feature of a hello whose sender understands [`Masters`].
pub const MASTERS: &str = "masters";

/// The reason of a [`Bye`] of a master that has lost the majority of its cluster. The minion tries
/// the other masters at once.
pub const NO_MAJORITY: &str = "no_majority";

/// Returns the grains that a key is bound to (`Welcome::bound`); its role is one of them.
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

/// Returns the newest version that both this program and the range contain.
#[must_use]
pub fn common_version(min: u64, max: u64) -> Option<u64> {
    let newest = max.min(VERSION_MAX);
    (newest >= min.max(VERSION_MIN)).then_some(newest)
}

#[cfg(test)]
mod golden;
