//! The minion's daemon: its session with a master, the spool of events and returns that are not
//! delivered yet, its schedule, beacons, mine and job processes.
//!
//! [`Daemon::run`] connects, does what the master asks, and connects again after every loss. Each
//! job is a separate process ([`job::run`]) that speaks with the daemon over the socket pair that
//! it inherits. The daemon forwards the job's requests to the master over its own connection, and
//! writes the job's events and return to disk before it sends them.

mod beacon_loop;
pub mod beacons;
mod blackout;
pub mod daemon;
mod engines;
pub mod error;
mod functions;
pub mod job;
mod jobs;
mod last_highstate;
mod launcher;
mod local_socket;
mod master_session;
mod orphans;
mod own_requests;
mod reactor;
mod refresh;
pub mod schedule;
mod scheduled_jobs;
mod seen_jobs;
mod sources;
pub mod spool;
mod startup;
mod uplink;
mod wakeup;

pub use daemon::{Daemon, Settings};
pub use error::Error;
pub use functions::registry;
pub use local_socket::{OfMinion, Uplink};
pub use sources::OfMaster;
pub use uplink::{Takeover, know_token};
