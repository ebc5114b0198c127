//! [`Link`]: how a master reaches the others, and the clients that openraft calls for each of them.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{
    ErrorSubject, ErrorVerb, OptionalSend, RaftNetworkFactory, RaftNetworkV2, StorageError,
};
use smol::future::{FutureExt, poll_once};

use super::Runtime;
use super::bytes::{Answer, Ask, Piece};
use super::machine::{Machine, Snapshot};
use super::types::{Types, Vote};
use crate::core::Member;

/// The maximum time for one piece of a snapshot.
pub(super) const PIECE_MAX: Duration = Duration::from_secs(30);

/// A message that another master did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// There is no connection to it. The message was not sent.
    #[error("cannot reach {0}")]
    Unreachable(String),
    /// The connection was lost, or the answer is late.
    #[error("no answer from {0}")]
    NoAnswer(String),
}

/// The connections to the other masters. A connection that is lost is noticed soon, so that no
/// message waits for its whole time.
pub trait Link: Clone + Send + Sync + 'static {
    /// Sends a message for a group to a master, and returns the answer.
    ///
    /// # Errors
    /// When there is none within the time.
    fn ask(
        &self,
        to: u64,
        member: &Member,
        message: Vec<u8>,
        within: Duration,
    ) -> impl Future<Output = Result<Vec<u8>, LinkError>> + Send;
}

/// The members that have clients, by their numbers. openraft keeps a client when the member's address
/// changes.
#[derive(Clone, Default)]
pub(crate) struct Addresses(Arc<Mutex<BTreeMap<u64, Member>>>);

impl Addresses {
    pub(crate) fn set(&self, number: u64, member: Member) {
        let mut members = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        members.insert(number, member);
    }

    fn get(&self, number: u64) -> Member {
        let members = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        members.get(&number).cloned().unwrap_or_default()
    }
}

/// Makes clients.
pub(crate) struct Clients<M, L> {
    pub(crate) machine: Arc<M>,
    pub(crate) link: L,
    pub(crate) addresses: Addresses,
    pub(crate) transfers: Arc<AtomicU64>,
}

/// The client of one master.
pub(crate) struct Client<M, L> {
    machine: Arc<M>,
    link: L,
    to: u64,
    addresses: Addresses,
    transfers: Arc<AtomicU64>,
}

impl<M, L> fmt::Debug for Client<M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("to", &self.to).finish()
    }
}

impl<R: Runtime, M: Machine, L: Link> RaftNetworkFactory<Types<R>> for Clients<M, L> {
    type Network = Client<M, L>;

    async fn new_client(&mut self, to: u64, member: &Member) -> Client<M, L> {
        self.addresses.set(to, member.clone());
        Client {
            machine: self.machine.clone(),
            link: self.link.clone(),
            to,
            addresses: self.addresses.clone(),
            transfers: self.transfers.clone(),
        }
    }
}

fn rpc<R: Runtime>(error: LinkError) -> RPCError<Types<R>> {
    match error {
        LinkError::Unreachable(_) => RPCError::Unreachable(Unreachable::new(&error)),
        LinkError::NoAnswer(_) => RPCError::Network(NetworkError::new(&error)),
    }
}

fn other<R: Runtime>(error: impl fmt::Display) -> RPCError<Types<R>> {
    RPCError::Network(NetworkError::new(&io::Error::other(error.to_string())))
}

impl<M: Machine, L: Link> Client<M, L> {
    async fn ask<R: Runtime>(
        &self,
        asked: &Ask<R>,
        within: Duration,
    ) -> Result<Answer<R>, RPCError<Types<R>>> {
        let message = asked.encode().map_err(other)?;
        let member = self.addresses.get(self.to);
        let answer = self.link.ask(self.to, &member, message, within);
        let answer = answer.await.map_err(rpc)?;
        match Answer::decode(&answer).map_err(other)? {
            Answer::Refused(why) => Err(other(why)),
            answer => Ok(answer),
        }
    }

    async fn ask_vote<R: Runtime>(
        &self,
        asked: Ask<R>,
        option: &RPCOption,
    ) -> Result<VoteResponse<Types<R>>, RPCError<Types<R>>> {
        match self.ask(&asked, option.soft_ttl()).await? {
            Answer::Vote(answer) => Ok(answer),
            _ => Err(other(WRONG)),
        }
    }

    /// Sends a snapshot, and returns the vote of the receiver.
    async fn send_snapshot<R: Runtime>(
        &self,
        vote: Vote,
        snapshot: Snapshot<M>,
    ) -> Result<Vote, StreamingError<Types<R>>> {
        let Snapshot::<M> {
            meta,
            snapshot: mut rows,
        } = snapshot;
        let Some(last) = meta.last_log_id else {
            return Err(other("the snapshot is empty").into());
        };
        let transfer = self.transfers.fetch_add(1, Ordering::Relaxed);
        for number in 0.. {
            let data = self.machine.next_piece(&mut rows).await;
            let data = data.map_err(|error| {
                StorageError::from_io_error(ErrorSubject::Snapshot(None), ErrorVerb::Read, error)
            })?;
            let is_end = data.is_none();
            let piece = Piece {
                vote,
                last,
                members: meta.last_membership.clone(),
                transfer,
                number,
                data,
            };
            match self.ask(&Ask::<R>::Snapshot(piece), PIECE_MAX).await? {
                Answer::Voted(vote) => return Ok(vote),
                Answer::Done if !is_end => {}
                _ => break,
            }
        }
        Err(other(WRONG).into())
    }
}

/// The message about an answer that does not fit its request.
const WRONG: &str = "the answer does not fit the request";

impl<R: Runtime, M: Machine, L: Link> RaftNetworkV2<Types<R>> for Client<M, L> {
    type SnapshotData = M::Rows;

    async fn append_entries(
        &mut self,
        asked: AppendEntriesRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types<R>>, RPCError<Types<R>>> {
        match self.ask(&Ask::Append(asked), option.soft_ttl()).await? {
            Answer::Append(answer) => Ok(answer),
            _ => Err(other(WRONG)),
        }
    }

    async fn vote(
        &mut self,
        asked: VoteRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<R>>, RPCError<Types<R>>> {
        self.ask_vote(Ask::Vote(asked), &option).await
    }

    async fn pre_vote(
        &mut self,
        asked: VoteRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<R>>, RPCError<Types<R>>> {
        self.ask_vote(Ask::PreVote(asked), &option).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<M>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types<R>>, StreamingError<Types<R>>> {
        let mut cancel = pin!(cancel);
        if let Some(closed) = poll_once(cancel.as_mut()).await {
            return Err(closed.into());
        }
        let sent = async {
            let vote = self.send_snapshot(vote, snapshot).await?;
            Ok(SnapshotResponse::new(vote))
        };
        sent.or(async { Err(cancel.await.into()) }).await
    }

    async fn transfer_leader(
        &mut self,
        asked: TransferLeaderRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types<R>>, RPCError<Types<R>>> {
        match self.ask(&Ask::Transfer(asked), option.soft_ttl()).await? {
            Answer::Done => Ok(Ok(())),
            _ => Err(other(WRONG)),
        }
    }
}
