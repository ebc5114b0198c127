//! The limits of messages and waits.

use std::time::Duration;

/// The maximum size of an answer in bytes, with the seals and envelopes around its value.
pub(crate) const ANSWER_MAX: usize = wire::payload::LIMITS.bytes;
/// The maximum size of a publication in bytes.
pub(crate) const PUBLICATION_MAX: usize = 4 << 20;
/// The maximum number of publications that wait for the minion. When there are more, the connection
/// is not read for a while.
pub(crate) const PUBLICATIONS_WAITING: usize = 8;
/// The maximum number of parts of a message; Salt's messages have one or two.
pub(crate) const PARTS_MAX: usize = 4;
/// The maximum size in bytes of a command of ZMTP.
pub(crate) const COMMAND_MAX: usize = 1 << 10;
/// The maximum number of requests that are under way at the same time, each on its connection.
pub(crate) const REQUESTS_MAX: usize = 8;
/// The maximum number of connections for requests that are kept while there is no request.
pub(crate) const IDLE_MAX: usize = 2;
/// The maximum number of addresses of a master that are tried.
pub(crate) const ADDRESSES_MAX: usize = 8;
/// The maximum number of functions in a publication.
pub(crate) const FUNCTIONS_MAX: usize = 256;
/// The maximum number of keys of the fleet whose last publication is remembered.
pub(crate) const SERIALS_MAX: usize = 16;
/// The maximum number of publications that did not open which are remembered.
pub(crate) const UNOPENED_MAX: usize = 64;
/// The shortest time between two authentications because of publications that did not open.
pub(crate) const REAUTH: Duration = Duration::from_secs(1);
/// The maximum length in characters of the part of a master's answer that an error shows.
pub(crate) const ANSWER_SHOWN: usize = 200;

/// The time in which a name must be resolved.
pub(crate) const LOOKUP: Duration = Duration::from_secs(10);
/// The time in which an address must accept a connection, and then finish the greeting.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);
/// The time in which a message must arrive once its first byte has.
pub(crate) const MESSAGE: Duration = Duration::from_secs(120);
/// The time in which the other side must accept a message.
pub(crate) const WRITE: Duration = Duration::from_secs(60);
/// The silence after which the other side is probed, and after which it is lost if it does not
/// answer. Only ZMTP has probes.
pub(crate) const PROBE: Duration = Duration::from_secs(30);
