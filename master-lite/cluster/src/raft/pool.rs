//! The messages of groups over the connections of [`link::pool::Pool`]. The first byte of a message
//! is the number of its group.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use link::PublicKey;
use link::pool::{NotAnswered, Pool, Request};
use value::log;

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
        let message = [&[self.group], message.as_slice()].concat();
        let key = PublicKey::from_bytes(key);
        let answer = self.pool.ask(address, &key, &message, within).await;
        answer.map_err(|error| match error {
            NotAnswered::Unreachable { .. } => LinkError::Unreachable(error.to_string()),
            NotAnswered::NoAnswer { .. } => LinkError::NoAnswer(error.to_string()),
        })
    }
}

/// Returns the first address of a name with a port.
async fn address(name: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = name.parse() {
        return Ok(address);
    }
    let asked = name.to_owned();
    let found = smol::unblock(move || asked.to_socket_addrs()).await;
    let found = found.map_err(|error| format!("cannot look up {name}: {error}"))?;
    let mut found = found;
    found.next().ok_or_else(|| format!("{name} has no address"))
}

/// Answers the requests of other masters until the pool is closed.
pub async fn serve<M: Machine>(pool: Arc<Pool>, groups: BTreeMap<u8, Group<Smol, M>>) {
    let groups = Arc::new(groups);
    // No deadline: masters ask at any time.
    while let Some(request) = pool.next().await {
        smol::spawn(answer(request, groups.clone())).detach();
    }
}

async fn answer<M: Machine>(request: Request, groups: Arc<BTreeMap<u8, Group<Smol, M>>>) {
    let Some((number, message)) = request.bytes.split_first() else {
        return log::warning(format_args!("the master {} asks nothing", request.key));
    };
    let Some(group) = groups.get(number) else {
        return log::warning(format_args!(
            "the master {} asks for the group {number}, which this one does not have",
            request.key
        ));
    };
    match group.answer(message).await {
        Ok(answer) => request.answer(&answer).await,
        Err(error) => log::warning(format_args!(
            "cannot answer the master {}: {error}",
            request.key
        )),
    }
}
