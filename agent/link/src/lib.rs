//! The connection between minions and masters: QUIC with raw public keys, sessions, streams, deadlines and limits; and the same frames
//! over Unix sockets on one machine. What is said, and by whom, is the crate `wire`'s business; what it means is that of the daemons.
//!
//! A minion makes a [`Session`], whose [`connect`](Session::connect) comes back with a [`Link`] when a master has let it in, however
//! long that takes. A master makes a [`Listener`], whose [`next`](Listener::next) gives a [`Peer`] with a proved key and its hello;
//! [`pend`](Peer::pend), [`refuse`](Peer::refuse) or [`accept`](Peer::accept) it, which gives a [`Link`] as well.
//!
//! One task reads a link ([`Link::next`]): events, acks and [`Question`]s, each of which has a stream of its own and can be answered by
//! another task. Any number speak through its [`Handle`]s: [`event`](Handle::event), [`ack`](Handle::ack), [`ask`](Handle::ask).
//!
//! Everything runs on smol's own executor, one thread unless `SMOL_THREADS` says more: a task that waits for a disk or computes for long
//! holds up every connection, and belongs in `smol::unblock`. The same key may be connected twice, when a minion came back before the
//! loss of its old connection was noticed: the master keeps the newer link and closes the older.
//!
//! Every frame that comes in is checked against `wire`'s table; every wait has a deadline from
//! the [`Limits`]; every error names its peer.

mod backoff;
mod connection;
mod error;
mod exchange;
mod ids;
pub mod key;
mod limits;
mod listener;
mod notify;
mod outgoing;
pub mod pki;
mod pulse;
mod recall;
mod room;
mod session;
mod shares;
mod silence;
mod slot;
mod socket;
mod stream;
mod tls;
pub mod unix;
pub mod wait;

pub use backoff::{WAIT_MAX, Waits};
pub use connection::{Handle, Incoming, Link};
pub use error::{Error, Wait, Who};
pub use exchange::{Asked, Part, Question};
pub use key::{KeyPair, PublicKey};
pub use limits::Limits;
pub use listener::{Listener, Peer};
pub use notify::Notify;
pub use pulse::{EVERY, Pulse};
pub use session::{Evidence, Master, Options, PORT, REMEMBERED, Session, Status, Tell};
pub use shares::{Full, Places, Shares, Ticket};
pub use slot::customer;

#[cfg(test)]
mod tests;
