//! The work of Salt's loader: finding the modules of users, deciding which functions this machine
//! has, and calling them.

pub mod absent;
pub mod call;
pub mod custom;
pub mod engines;
pub(crate) mod needs;
