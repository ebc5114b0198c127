//! The minion's daemon: its session with a master, the spool of what it has not delivered yet, its schedule, beacons, mine and job
//! processes.
//!
//! [`Daemon::run`] connects, does what the master asks, and comes back after every loss. Each job is a process of its own
//! ([`job::run`]) that speaks with the daemon over the socket pair it was started with: what it asks of the master goes through the
//! daemon's connection, and its events and its return are on the disk before they are sent.

pub mod beacons;
pub mod daemon;
mod deliver;
mod durable;
mod enroll;
pub mod error;
mod functions;
pub mod job;
mod jobs;
mod local;
mod orphans;
mod own;
mod planned;
mod reactor;
pub mod schedule;
mod settings;
mod sources;
pub mod spool;
mod taken;
mod upstream;
mod watch;

pub use daemon::{Daemon, Settings};
pub use error::Error;
pub use functions::registry;
pub use local::{OfMinion, Uplink};
pub use settings::know_token;
pub use sources::OfMaster;
