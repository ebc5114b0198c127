//! The connection between minions and masters: QUIC with raw public keys, sessions, streams,
//! deadlines and limits. The same frames also run over Unix sockets on one machine. The crate
//! `wire` defines the frames and which side may send them; the daemons define what they mean.
//!
//! A minion creates a [`Session`]. Its [`connect`](Session::connect) returns a [`Link`] once a
//! master has accepted the minion, however long that takes. A master creates a [`Listener`]. Its
//! [`next`](Listener::next) returns a [`Peer`] with a proved key and its hello. The master then
//! calls [`pend`](Peer::pend), [`refuse`](Peer::refuse) or [`accept`](Peer::accept); `accept`
//! returns a [`Link`] as well.
//!
//! One task reads a link ([`Link::next`]) and gets events, acks and [`Question`]s. Each question
//! has a separate stream, so another task can answer it. Any number of tasks can send through
//! [`Handle`]s: [`event`](Handle::event), [`ack`](Handle::ack), [`ask`](Handle::ask).
//!
//! Everything for minions runs on smol's global executor, which has one thread unless `SMOL_THREADS`
//! sets more. A task that waits for a disk or computes for long therefore blocks every connection,
//! and belongs in `smol::unblock`. Masters of a cluster have a second thread for each other
//! ([`masters_thread`]), and a connection for each [`pool::Lane`]. The same key may be connected
//! twice, when a minion reconnects before the loss of its old connection is noticed: the master
//! keeps the newer link and closes the older one.
//!
//! Every frame that is received is checked against `wire`'s table. Every wait has a deadline from
//! the [`Limits`]. Every error names its peer.

mod backoff;
mod connection;
mod error;
mod exchange;
mod ids;
pub mod key;
mod limits;
mod listener;
mod masters;
pub mod masters_thread;
mod notify;
mod outgoing;
pub mod pki;
pub mod pool;
mod pulse;
mod recall;
mod room;
mod session;
mod shares;
mod silence;
mod slot;
mod socket;
mod stream;
mod succession;
mod tls;
pub mod unix;
pub mod wait;

pub use backoff::{Backoff, WAIT_MAX, Waits, lot};
pub use connection::{Ending, Handle, Incoming, Link};
pub use error::{Error, PeerInfo, Wait};
pub use exchange::{Part, PendingRequest, Question};
pub use key::{KeyPair, PublicKey};
pub use limits::Limits;
pub use listener::{Listener, Peer};
pub use masters::{BadList, MasterList};
pub use notify::Notify;
pub use pulse::{EVERY, Pulse};
pub use session::{Evidence, Master, Options, PORT, REMEMBERED, Session, Status, Tell};
pub use shares::{Full, Places, Shares, Ticket};
pub use slot::customer;
pub use succession::{NotASuccession, Refused, Succession};

#[cfg(test)]
mod tests;
