//! The bytes of entries, votes and messages: msgpack maps whose fields are named. A field that a
//! release does not know is an error, because masters that understand an entry in different ways
//! would have different states.

use std::collections::{BTreeMap, BTreeSet};

use openraft::EntryPayload;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse,
};
use value::{Map, Value};
use wire::msgpack;

use super::Runtime;
use super::types::{Content, Entry, LogId, Members, StoredMembers, Types, Vote, log_id, place};
use crate::core::{Member, Proposal};

/// The limits of a message: the entries of an append, or a piece of a snapshot.
const MESSAGE: wire::Limits = wire::Limits {
    bytes: 64 << 20,
    depth: 12,
    items: 1 << 20,
};

/// Bytes that are no message, or no entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {0}")]
pub(crate) struct Unreadable(pub(crate) String);

/// A request of one master to another.
pub(crate) enum Ask<R: Runtime> {
    Append(AppendEntriesRequest<Types<R>>),
    Vote(VoteRequest<Types<R>>),
    PreVote(VoteRequest<Types<R>>),
    Transfer(TransferLeaderRequest<Types<R>>),
    Snapshot(Piece),
    Propose(Vec<Proposal>),
}

/// A piece of a snapshot. Pieces are sent in order, from number 0.
pub(crate) struct Piece {
    pub(crate) vote: Vote,
    /// The last entry of the snapshot, and the members.
    pub(crate) last: LogId,
    pub(crate) members: StoredMembers,
    /// The number of the transfer, and of the piece in it.
    pub(crate) transfer: u64,
    pub(crate) number: u64,
    /// The data; `None` ends the transfer.
    pub(crate) data: Option<Vec<u8>>,
}

/// The answer to a request.
pub(crate) enum Answer<R: Runtime> {
    Append(AppendEntriesResponse<Types<R>>),
    Vote(VoteResponse<Types<R>>),
    /// The request was obeyed.
    Done,
    /// The vote of the master that got a snapshot.
    Voted(Vote),
    /// The request was refused, with the reason.
    Refused(String),
}

fn number(value: &Value) -> Option<u64> {
    value.as_int().and_then(|number| u64::try_from(number).ok())
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn binary(bytes: &[u8]) -> Value {
    Value::Bytes(bytes.into())
}

fn list<T>(items: impl IntoIterator<Item = T>, written: impl Fn(T) -> Value) -> Value {
    Value::list(items.into_iter().map(written))
}

/// The fields of a map. Each is taken once, and none may be left.
struct Fields(Map);

impl Fields {
    fn of(value: &Value) -> Option<Self> {
        value.as_map().cloned().map(Self)
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    fn number(&mut self, name: &str) -> Option<u64> {
        number(&self.take(name)?)
    }

    fn text(&mut self, name: &str) -> Option<String> {
        self.take(name)?.as_str().map(str::to_owned)
    }

    fn bytes(&mut self, name: &str) -> Option<Vec<u8>> {
        bytes(&self.take(name)?).map(<[u8]>::to_vec)
    }

    /// Reads a field that may be missing.
    fn optional<T>(&mut self, name: &str, read: impl Fn(&Value) -> Option<T>) -> Option<Option<T>> {
        match self.take(name) {
            Some(value) => read(&value).map(Some),
            None => Some(None),
        }
    }

    fn end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

fn with_place(map: Map, name: &str, id: Option<&LogId>) -> Map {
    match id {
        Some(id) => map.with(name, place_value(id)),
        None => map,
    }
}

fn place_value(id: &LogId) -> Value {
    let (term, index) = place(id);
    Value::list([term.into(), index.into()])
}

fn read_place(value: &Value) -> Option<LogId> {
    match value.as_list()? {
        [term, index] => Some(log_id((number(term)?, number(index)?))),
        _ => None,
    }
}

fn vote_value(vote: &Vote) -> Value {
    let leader = vote.leader_id;
    Value::list([
        leader.term.into(),
        leader.voted_for.into(),
        vote.committed.into(),
    ])
}

fn read_vote_value(value: &Value) -> Option<Vote> {
    let [term, node, Value::Bool(is_committed)] = value.as_list()? else {
        return None;
    };
    let (term, node) = (number(term)?, number(node)?);
    Some(match is_committed {
        true => Vote::new_committed(term, node),
        false => Vote::new(term, node),
    })
}

/// Returns members as a value.
pub(crate) fn members_value(members: &Members) -> Value {
    let configs = list(members.get_joint_config(), |voters| {
        list(voters, |id| (*id).into())
    });
    let nodes = list(members.nodes(), |(id, member)| {
        let map = Map::new()
            .with("id", *id)
            .with("name", member.name.as_str())
            .with("address", member.address.as_str())
            .with("minions", member.minions.as_str())
            .with("key", binary(&member.key))
            .with("level", member.level);
        map.into()
    });
    Map::new()
        .with("voters", configs)
        .with("nodes", nodes)
        .into()
}

/// Reads members.
pub(crate) fn read_members(value: &Value) -> Option<Members> {
    let mut fields = Fields::of(value)?;
    let mut configs = Vec::new();
    for config in fields.take("voters")?.as_list()? {
        let voters = config.as_list()?.iter().map(number);
        configs.push(voters.collect::<Option<BTreeSet<u64>>>()?);
    }
    let mut nodes = BTreeMap::new();
    for node in fields.take("nodes")?.as_list()? {
        let mut node = Fields::of(node)?;
        let id = node.number("id")?;
        let member = Member {
            name: node.text("name")?,
            address: node.text("address")?,
            minions: node.text("minions")?,
            key: node.bytes("key")?,
            level: node.number("level")?,
        };
        nodes.insert(id, node.end(member)?);
    }
    fields.end(Members::new(configs, nodes).ok()?)
}

/// Returns the members of an entry, for the state.
pub(crate) fn stored_members(at: Option<(u64, u64)>, value: &Value) -> Option<StoredMembers> {
    Some(StoredMembers::new(at.map(log_id), read_members(value)?))
}

fn proposal_value(proposal: &Proposal) -> Value {
    let map = Map::new()
        .with("node", proposal.node)
        .with("boot", proposal.boot)
        .with("number", proposal.number)
        .with("level", proposal.level)
        .with("command", binary(&proposal.command));
    let map = match proposal.fence {
        Some(fence) => map.with("fence", fence),
        None => map,
    };
    map.into()
}

fn read_proposal(value: &Value) -> Option<Proposal> {
    let mut fields = Fields::of(value)?;
    let proposal = Proposal {
        node: fields.number("node")?,
        boot: fields.number("boot")?,
        number: fields.number("number")?,
        level: fields.number("level")?,
        fence: fields.optional("fence", number)?,
        command: fields.bytes("command")?.into(),
    };
    fields.end(proposal)
}

fn entry_value(entry: &Entry) -> Value {
    let map = Map::new().with("at", place_value(&entry.log_id));
    let map = match &entry.payload {
        EntryPayload::Blank => map,
        EntryPayload::Normal(proposal) => map.with("proposal", proposal_value(proposal)),
        EntryPayload::Membership(members) => map.with("members", members_value(members)),
    };
    map.into()
}

fn read_entry_value(value: &Value) -> Option<Entry> {
    let mut fields = Fields::of(value)?;
    let id = read_place(&fields.take("at")?)?;
    let proposal = fields.optional("proposal", read_proposal)?;
    let members = fields.optional("members", read_members)?;
    let payload = match (proposal, members) {
        (None, None) => Content::Blank,
        (Some(proposal), None) => Content::Normal(proposal),
        (None, Some(members)) => Content::Membership(members),
        _ => return None,
    };
    fields.end(Entry {
        log_id: id,
        payload,
    })
}

fn written(value: &Value) -> Result<Vec<u8>, wire::Error> {
    let mut bytes = Vec::new();
    msgpack::encode(value, MESSAGE, &mut bytes)?;
    Ok(bytes)
}

fn read<T>(what: &str, bytes: &[u8], read: impl Fn(&Value) -> Option<T>) -> Result<T, Unreadable> {
    let value = msgpack::decode(bytes, MESSAGE);
    let value = value.map_err(|error| Unreadable(format!("{what}: {error}")))?;
    read(&value).ok_or_else(|| Unreadable(format!("{what}: it has an unknown form")))
}

/// Encodes an entry of the log.
///
/// # Errors
/// When it exceeds the limits.
pub(crate) fn entry(entry: &Entry) -> Result<Vec<u8>, wire::Error> {
    written(&entry_value(entry))
}

/// Decodes an entry of the log.
///
/// # Errors
/// When the bytes are not exactly one entry.
pub(crate) fn read_entry(bytes: &[u8]) -> Result<Entry, Unreadable> {
    read("an entry of the log", bytes, read_entry_value)
}

/// Encodes a vote.
///
/// # Errors
/// When it exceeds the limits.
pub(crate) fn vote(vote: &Vote) -> Result<Vec<u8>, wire::Error> {
    written(&vote_value(vote))
}

/// Decodes a vote.
///
/// # Errors
/// When the bytes are not exactly one vote.
pub(crate) fn read_vote(bytes: &[u8]) -> Result<Vote, Unreadable> {
    read("the vote", bytes, read_vote_value)
}

/// Encodes a place in the log.
///
/// # Errors
/// When it exceeds the limits.
pub(crate) fn log_place(id: &LogId) -> Result<Vec<u8>, wire::Error> {
    written(&place_value(id))
}

/// Decodes a place in the log.
///
/// # Errors
/// When the bytes are not exactly one place.
pub(crate) fn read_log_place(bytes: &[u8]) -> Result<LogId, Unreadable> {
    read("a place in the log", bytes, read_place)
}

fn vote_request<R: Runtime>(kind: &str, asked: &VoteRequest<Types<R>>) -> Map {
    let map = Map::new()
        .with("kind", kind)
        .with("vote", vote_value(&asked.vote))
        .with("transfer", asked.leadership_transfer);
    with_place(map, "last", asked.last_log_id.as_ref())
}

fn read_vote_request<R: Runtime>(fields: &mut Fields) -> Option<VoteRequest<Types<R>>> {
    let vote = read_vote_value(&fields.take("vote")?)?;
    let last = fields.optional("last", read_place)?;
    let mut request = VoteRequest::new(vote, last);
    request.leadership_transfer = fields.take("transfer")?.is_true();
    Some(request)
}

impl Piece {
    fn value(&self) -> Map {
        let map = Map::new()
            .with("kind", "snapshot")
            .with("vote", vote_value(&self.vote))
            .with("last", place_value(&self.last))
            .with("members", members_value(self.members.membership()))
            .with("transfer", self.transfer)
            .with("number", self.number);
        let map = with_place(map, "members_at", self.members.log_id().as_ref());
        match &self.data {
            Some(data) => map.with("data", binary(data)),
            None => map,
        }
    }

    fn of(fields: &mut Fields) -> Option<Self> {
        let members_at = fields.optional("members_at", read_place)?;
        let members = read_members(&fields.take("members")?)?;
        Some(Self {
            vote: read_vote_value(&fields.take("vote")?)?,
            last: read_place(&fields.take("last")?)?,
            members: StoredMembers::new(members_at, members),
            transfer: fields.number("transfer")?,
            number: fields.number("number")?,
            data: fields.optional("data", |data| bytes(data).map(<[u8]>::to_vec))?,
        })
    }
}

impl<R: Runtime> Ask<R> {
    fn value(&self) -> Map {
        match self {
            Self::Append(asked) => {
                let map = Map::new()
                    .with("kind", "append")
                    .with("vote", vote_value(&asked.vote))
                    .with("entries", list(&asked.entries, entry_value));
                let map = with_place(map, "previous", asked.prev_log_id.as_ref());
                with_place(map, "committed", asked.leader_commit.as_ref())
            }
            Self::Vote(asked) => vote_request("vote", asked),
            Self::PreVote(asked) => vote_request("pre_vote", asked),
            Self::Transfer(asked) => {
                let map = Map::new()
                    .with("kind", "transfer")
                    .with("from", vote_value(asked.from_leader()))
                    .with("to", *asked.to_node_id());
                with_place(map, "last", asked.last_log_id())
            }
            Self::Snapshot(piece) => piece.value(),
            Self::Propose(proposals) => Map::new()
                .with("kind", "propose")
                .with("proposals", list(proposals, proposal_value)),
        }
    }

    fn of(value: &Value) -> Option<Self> {
        let mut fields = Fields::of(value)?;
        let asked = match fields.text("kind")?.as_str() {
            "append" => {
                let entries = fields.take("entries")?;
                let entries = entries.as_list()?.iter().map(read_entry_value);
                Self::Append(AppendEntriesRequest {
                    vote: read_vote_value(&fields.take("vote")?)?,
                    prev_log_id: fields.optional("previous", read_place)?,
                    entries: entries.collect::<Option<Vec<_>>>()?,
                    leader_commit: fields.optional("committed", read_place)?,
                })
            }
            "vote" => Self::Vote(read_vote_request(&mut fields)?),
            "pre_vote" => Self::PreVote(read_vote_request(&mut fields)?),
            "transfer" => Self::Transfer(TransferLeaderRequest::new(
                read_vote_value(&fields.take("from")?)?,
                fields.number("to")?,
                fields.optional("last", read_place)?,
            )),
            "snapshot" => Self::Snapshot(Piece::of(&mut fields)?),
            "propose" => {
                let proposals = fields.take("proposals")?;
                let proposals = proposals.as_list()?.iter().map(read_proposal);
                Self::Propose(proposals.collect::<Option<Vec<_>>>()?)
            }
            _ => return None,
        };
        fields.end(asked)
    }

    /// Encodes a request.
    ///
    /// # Errors
    /// When it exceeds the limits.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, wire::Error> {
        written(&self.value().into())
    }

    /// Decodes a request.
    ///
    /// # Errors
    /// When the bytes are not exactly one request.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        read("a request", bytes, Self::of)
    }
}

impl<R: Runtime> Answer<R> {
    fn value(&self) -> Map {
        let kind = |kind: &str| Map::new().with("kind", kind);
        match self {
            Self::Append(AppendEntriesResponse::Success) => kind("appended"),
            Self::Append(AppendEntriesResponse::PartialSuccess(upto)) => {
                with_place(kind("appended_in_part"), "upto", upto.as_ref())
            }
            Self::Append(AppendEntriesResponse::Conflict) => kind("conflict"),
            Self::Append(AppendEntriesResponse::HigherVote(vote)) => {
                kind("higher_vote").with("vote", vote_value(vote))
            }
            Self::Vote(answer) => {
                let map = kind("vote")
                    .with("vote", vote_value(&answer.vote))
                    .with("granted", answer.vote_granted);
                with_place(map, "last", answer.last_log_id.as_ref())
            }
            Self::Done => kind("done"),
            Self::Voted(vote) => kind("voted").with("vote", vote_value(vote)),
            Self::Refused(why) => kind("refused").with("why", why.as_str()),
        }
    }

    fn of(value: &Value) -> Option<Self> {
        let mut fields = Fields::of(value)?;
        let answer = match fields.text("kind")?.as_str() {
            "appended" => Self::Append(AppendEntriesResponse::Success),
            "appended_in_part" => Self::Append(AppendEntriesResponse::PartialSuccess(
                fields.optional("upto", read_place)?,
            )),
            "conflict" => Self::Append(AppendEntriesResponse::Conflict),
            "higher_vote" => Self::Append(AppendEntriesResponse::HigherVote(read_vote_value(
                &fields.take("vote")?,
            )?)),
            "vote" => {
                let vote = read_vote_value(&fields.take("vote")?)?;
                let is_granted = fields.take("granted")?.is_true();
                let last = fields.optional("last", read_place)?;
                Self::Vote(VoteResponse::new(vote, last, is_granted))
            }
            "done" => Self::Done,
            "voted" => Self::Voted(read_vote_value(&fields.take("vote")?)?),
            "refused" => Self::Refused(fields.text("why")?),
            _ => return None,
        };
        fields.end(answer)
    }

    /// Encodes an answer.
    ///
    /// # Errors
    /// When it exceeds the limits.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, wire::Error> {
        written(&self.value().into())
    }

    /// Decodes an answer.
    ///
    /// # Errors
    /// When the bytes are not exactly one answer.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        read("an answer", bytes, Self::of)
    }
}
