//! The messages of groups over the connections of [`link::pool::Pool`].
//!
//! ```text
//! GROUP TO MESSAGE
//! ```
//! GROUP is one byte, and TO the number of the receiver, in eight bytes. A master that
//! came back with an empty disk has another number, and must not answer in the name of the old one.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use link::PublicKey;
use link::pool::{Lane, NotAnswered, Pool, Request};
use value::log;

use super::bytes::Answer;
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
        let lane = match within < PIECE_MAX {
            true => Lane::Log,
            false => Lane::Bulk,
        };
        let answer = self.pool.ask((address, key, lane), &message, within).await;
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
/// with this number. Other requests are not answered.
///
/// # Errors
/// When no master of this release sends such a request.
pub async fn answer<M: Machine>(
    request: Request,
    number: u64,
    groups: &BTreeMap<u8, Group<Smol, M>>,
) -> Result<(), String> {
    let Some((group, message)) = message(&request.bytes, number)? else {
        // The sender does not know yet that this master has come back with an empty disk.
        log::debug(format_args!(
            "{} asks for another master than number {number}",
            request.key.finger()
        ));
        return Ok(());
    };
    let known = groups.get(&group);
    let known = known.ok_or_else(|| format!("this master does not have the group {group}"))?;
    match known.answer(message).await {
        Ok(answer) => request.answer(&answer).await,
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            let why = error.to_string();
            if let Ok(refusal) = Answer::<Smol>::Refused(why.clone()).encode() {
                request.answer(&refusal).await;
            }
            return Err(why);
        }
        Err(error) => log::debug(format_args!(
            "cannot answer the master {}: {error}",
            request.key.finger()
        )),
    }
    Ok(())
}

/// Returns the number of the group, and the message; `None` for one to another master.
fn message(bytes: &[u8], number: u64) -> Result<Option<(u8, &[u8])>, String> {
    let short = || "the message is too short".to_owned();
    let (group, rest) = bytes.split_first().ok_or_else(short)?;
    let (to, message) = rest.split_first_chunk().ok_or_else(short)?;
    let is_own = u64::from_be_bytes(*to) == number;
    Ok(is_own.then_some((*group, message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_with_an_empty_disk_does_not_answer_in_the_name_of_the_old_one() {
        let of = |number: u64| [&[0], number.to_be_bytes().as_slice(), b"vote"].concat();
        assert_eq!(message(&of(7), 7), Ok(Some((0, b"vote".as_slice()))));
        assert_eq!(message(&of(3), 7), Ok(None));
        for cut in 0..9 {
            let why = message(&of(7)[..cut], 7).unwrap_err();
            assert!(why.contains("too short"), "{why}");
        }
    }
}
