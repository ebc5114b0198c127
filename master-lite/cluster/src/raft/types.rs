//! The types of openraft, as we use it.

use std::error::Error;
use std::marker::PhantomData;

use openraft::errors::ErrorSource;
use openraft::impls::{InlineBatch, ProgressResponder};
use openraft::vote::leader_id_std::{CommittedLeaderId, LeaderId};
use openraft::{EntryPayload, OptionalSend, RaftTypeConfig};

use super::Runtime;
use crate::core::{Member, Proposal};

/// The configuration of openraft: which types it uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Types<R>(PhantomData<R>);

/// The leader of a term: each term has at most one.
pub(crate) type Leader = LeaderId<u64, u64>;
/// A vote for a leader.
pub(crate) type Vote = openraft::Vote<Leader>;
/// The place of an entry: its term and its index.
pub type LogId = openraft::LogId<CommittedLeaderId<u64>>;
/// The content of an entry.
pub(crate) type Content = EntryPayload<Proposal, u64, Member>;
/// An entry of the log.
pub type Entry = openraft::Entry<CommittedLeaderId<u64>, Content>;
/// The masters with and without a vote.
pub type Members = openraft::Membership<u64, Member>;
/// The masters, and the entry that has them.
pub(crate) type StoredMembers = openraft::StoredMembership<CommittedLeaderId<u64>, u64, Member>;

impl<R: Runtime> RaftTypeConfig for Types<R> {
    type D = Proposal;
    type R = ();
    type NodeId = u64;
    type Node = Member;
    type Term = u64;
    type LeaderId = Leader;
    type Vote = Vote;
    type Payload = Content;
    type Entry = Entry;
    type AsyncRuntime = R;
    type Responder<T>
        = ProgressResponder<Self, T>
    where
        T: OptionalSend + 'static;
    type Batch<T>
        = InlineBatch<T>
    where
        T: OptionalSend + 'static;
    type ErrorSource = Reason;
}

/// The reason of a failure of the log or the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Reason(String);

impl ErrorSource for Reason {
    fn from_error<E: Error + 'static>(error: &E) -> Self {
        Self(error.to_string())
    }

    fn from_string(text: impl ToString) -> Self {
        Self(text.to_string())
    }
}

impl Reason {
    /// Returns the text of a failure, without openraft's words about the place in its code.
    pub(super) fn of(failure: &(dyn Error + 'static)) -> String {
        let mut reason = failure;
        while let Some(source) = reason.source() {
            reason = source;
        }
        reason.to_string()
    }
}

/// Returns the place of an entry.
pub(crate) fn log_id((term, index): (u64, u64)) -> LogId {
    LogId::new_term_index(term, index)
}

/// Returns the term and the index of a place.
pub(crate) fn place(id: &LogId) -> (u64, u64) {
    (id.leader_id.term, id.index)
}
