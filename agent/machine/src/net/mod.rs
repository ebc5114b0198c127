//! The network: HTTP, TLS, and the interfaces of this machine.

pub mod http;
pub mod interfaces;
pub mod tls;
