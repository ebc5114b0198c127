//! The network: HTTP, and the interfaces of this machine.

pub mod http;
pub mod interfaces;
