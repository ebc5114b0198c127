//! The messages of groups over the connections of [`link::pool::Pool`].
//!
//! ```text
//! GROUP TO MESSAGE
//! ```
//! GROUP is one byte, and TO the number of the receiver, in eight bytes. A master that
//! came back with an empty disk has another number, and must not answer in the name of the old one.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use link::PublicKey;
use link::pool::{NotAnswered, Pool, Request};
use value::log;

use super::network::PIECE_MAX;
use super::{Group, Link, LinkError, Machine, Smol};
use crate::core::Member;

/// The connections of one group.
#[derive(Clone, Debug)]
pub struct GroupLink {
    /// The connections of this master.
    pub pool: Arc<Pool>,
    /// The number of the group.
    pub group: u8,
}

impl Link for GroupLink {
    async fn ask(
        &self,
        to: u64,
        member: &Member,
        message: Vec<u8>,
        within: Duration,
    ) -> Result<Vec<u8>, LinkError> {
        let unreachable = |why: &str| {
            let name = &member.name;
            LinkError::Unreachable(format!("master {to} ({name}): {why}"))
        };
        let key = <[u8; 32]>::try_from(member.key.as_slice());
        let key = key.map_err(|_| unreachable("its key is not known"))?;
        let address = address(&member.address).await;
        let address = address.map_err(|why| unreachable(&why))?;
        let message = [&[self.group], to.to_be_bytes().as_slice(), &message].concat();
        let key = PublicKey::from_bytes(key);
        // Pieces of a snapshot have another connection: that of the log is closed when an answer is
        // late, and it is late while the receiver writes a piece.
        let answer = match within < PIECE_MAX {
            true => self.pool.ask(address, &key, &message, within).await,
            false => self.pool.ask_long(address, &key, &message, within).await,
        };
        answer.map_err(|error| match error {
            NotAnswered::Unreachable { .. } => LinkError::Unreachable(error.to_string()),
            NotAnswered::NoAnswer { .. } => LinkError::NoAnswer(error.to_string()),
        })
    }
}

/// Returns the first address of a name with a port.
///
/// # Errors
/// When it has none.
pub async fn address(name: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = name.parse() {
        return Ok(address);
    }
    let asked = name.to_owned();
    let found = smol::unblock(move || asked.to_socket_addrs()).await;
    let found = found.map_err(|error| format!("cannot look up {name}: {error}"))?;
    let mut found = found;
    found.next().ok_or_else(|| format!("{name} has no address"))
}

/// Answers a request of another master, if it is a message for one of these groups of the master
/// with this number. Other requests are logged, and refused.
pub async fn answer<M: Machine>(
    request: Request,
    number: u64,
    groups: &BTreeMap<u8, Group<Smol, M>>,
) {
    let answer = match message(&request.bytes, number, groups) {
        Ok((group, message)) => group.answer(message).await,
        Err(why) => Err(std::io::Error::other(why)),
    };
    match answer {
        Ok(answer) => request.answer(&answer).await,
        Err(error) => log::debug(format_args!(
            "cannot answer the master {}: {error}",
            request.key.finger()
        )),
    }
}

fn message<'a, M: Machine>(
    bytes: &'a [u8],
    number: u64,
    groups: &'a BTreeMap<u8, Group<Smol, M>>,
) -> Result<(&'a Group<Smol, M>, &'a [u8]), String> {
    let short = || "the message is too short".to_owned();
    let (group, rest) = bytes.split_first().ok_or_else(short)?;
    let (to, message) = rest.split_first_chunk().ok_or_else(short)?;
    let to = u64::from_be_bytes(*to);
    if to != number {
        return Err(format!("it asks the master {to}, and this one is {number}"));
    }
    let known = groups.get(group);
    let known = known.ok_or_else(|| format!("this master does not have the group {group}"))?;
    Ok((known, message))
}
