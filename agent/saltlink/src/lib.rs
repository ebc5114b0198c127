//! The minion's side of the protocol that Salt's master speaks (3006 and later), over ZeroMQ and
//! TCP.
//!
//! [`Identity::load`] reads or creates the minion's RSA key. [`join`] connects, authenticates and
//! opens the channel of publications. The [`Session`] that it returns sends requests, any number of
//! them at the same time, and one task reads its publications.
//!
//! The order of checks is stricter than that of Salt's minion: the master's key is compared with the
//! remembered one, and its signature is verified, before anything is decrypted or written.
//!
//! Everything runs on smol's global executor. Every wait has a deadline, and every size a limit. No
//! text of a master is used before its type is known.

mod auth;
mod connection;
mod der;
mod error;
mod identity;
mod limits;
mod pool;
mod publication;
mod random;
mod rsa_keys;
mod scan;
mod seal;
mod session;
mod settings;
mod tcp;
mod trust;
mod zmtp;

pub use error::{Error, Kind};
pub use identity::Identity;
pub use publication::Publication;
pub use session::{Joined, Session, join};
pub use settings::{EncAlgo, Keepalive, Settings, SigAlgo, Transport};
pub use trust::remembered;

use value::Value;

/// Returns the bytes of a value that Salt may have written as a text or as bytes.
fn raw(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Str(text) => Some(text.as_bytes()),
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
