//! What Salt's loader does: it finds the modules of users, decides which functions this machine has,
//! and calls them.

pub mod absent;
pub mod call;
pub mod custom;
pub(crate) mod needs;
