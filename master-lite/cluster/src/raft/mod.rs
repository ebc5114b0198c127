//! The library openraft, with our log, state and messages.

mod bytes;
pub mod channels;
pub mod damage;
mod group;
mod heartbeat;
pub mod log;
pub mod machine;
pub mod medium;
mod members;
pub mod network;
pub mod pool;
mod proposer;
pub mod runtime;
mod status;
mod types;
mod waiting;

pub use group::{Group, NotAgreed, Settings};
pub use machine::{Machine, members_of};
pub use members::NotChanged;
pub use network::{Link, LinkError};
pub use runtime::{Runtime, Smol};
pub use status::{Follower, Status};
pub use types::{Entry, LogId, Members, Types};
pub use waiting::PENDING_MAX;

/// The times of a runtime.
pub(crate) type InstantOf<R> = <R as openraft::AsyncRuntime>::Instant;

#[cfg(test)]
mod tests;
