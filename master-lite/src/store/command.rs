//! [`Command`]: every change of the master's state is one of its values.

use cluster::core::Keep;
use link::key::PublicKey;
use reactor::Place;
use value::Map;
use wire::Id;

/// A change of the store. Its effect depends only on the command and on the store: times are part
/// of the command.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// A minion presented a key. The key becomes pending, or denied if the id has another key.
    KeyOffered {
        /// The id that the minion claims.
        id: Id,
        /// Its key.
        key: PublicKey,
        /// The time, in milliseconds since 1970.
        at_ms: u64,
        /// The origin of the key: an address, or a network of IPv6. `None` for a key that an
        /// administrator put there.
        from: Option<String>,
        /// The maximum number of pending keys, in all and of one address. When there are too many,
        /// the oldest key of the address with most pending keys is removed.
        pending_max: u64,
        pending_per_address: u64,
        /// The claim that comes with the key.
        claim: Claim,
    },
    /// A pending key is withdrawn. A key that is not pending any more stays unchanged.
    KeyWithdrawn {
        /// The id.
        id: Id,
        /// Its key.
        key: PublicKey,
    },
    /// A key is accepted.
    KeyAccepted {
        /// The id.
        id: Id,
        /// Its key.
        key: PublicKey,
        /// The time, in milliseconds since 1970.
        at_ms: u64,
        /// The key's bindings: `role`, `grains`, `pillar`.
        bound: Map,
        /// True if the key may be one that was never offered, and may replace another key of this
        /// id.
        replace: bool,
    },
    /// A key that was offered is rejected.
    KeyRejected {
        /// The id.
        id: Id,
        /// Its key.
        key: PublicKey,
        /// The time, in milliseconds since 1970.
        at_ms: u64,
    },
    /// A key is denied because the id has another one.
    KeyDenied {
        /// The id.
        id: Id,
        /// The wrong key.
        key: PublicKey,
        /// The time, in milliseconds since 1970.
        at_ms: u64,
    },
    /// A key is deleted with everything that is stored for it: grains, pillar, mine and the
    /// progress of its spools.
    KeyDeleted {
        /// The id.
        id: Id,
        /// Its key.
        key: PublicKey,
        /// The time, in milliseconds since 1970. A deleted key that was accepted may be refused for
        /// a while after it.
        at_ms: u64,
    },
    /// The files that show an id's keys have changed to these.
    KeyShown {
        /// The id.
        id: Id,
        /// The state whose folder holds the file, and the key in the file.
        files: Vec<(KeyState, PublicKey)>,
    },
    /// An event for the log.
    Event {
        /// Its tag.
        tag: String,
        /// The event's data.
        data: Map,
        /// The time at which the event was made, as in `_stamp`.
        stamp: String,
        /// The time at which it arrived at this master, in milliseconds since 1970.
        at_ms: u64,
        /// The event's place in a minion's spool. `None` for events of the master itself and of
        /// commands.
        origin: Option<Origin>,
    },
    /// A job that is about to be published.
    Job {
        /// Its job id.
        jid: String,
        /// The job's load, which says what to run.
        load: Map,
        /// The minions that are expected to return.
        minions: Vec<Id>,
        /// The time, in milliseconds since 1970.
        at_ms: u64,
    },
    /// A return of a job. Only the first one of each minion is kept.
    Return {
        /// The job id.
        jid: String,
        /// The minion that returned.
        id: Id,
        /// The return's data.
        data: Map,
        /// The time at which it arrived at this master, in milliseconds since 1970.
        at_ms: u64,
        /// The return's place in a minion's spool, if it has one.
        origin: Option<Origin>,
    },
    /// A change of a cache of an accepted minion.
    Cached {
        /// The minion.
        id: Id,
        /// The minion's key.
        key: PublicKey,
        /// The cache: grains, pillar or mine.
        what: Cache,
        /// The change.
        change: Change,
    },
    /// The position up to which a reader has read the event log.
    Cursor {
        /// The reader's name.
        name: String,
        /// The last event that the reader has finished. `None` if there is no reader of this name
        /// any more.
        sequence: Option<u64>,
    },
    /// A change of the stored state of a reaction, which is a rule of the reactor applied to an
    /// event.
    Reaction {
        /// The rule and the event.
        place: Place,
        /// The new state. `None` removes the reaction.
        row: Option<Map>,
    },
    /// An enrolment token, or another named entry.
    Token {
        /// Its name.
        name: String,
        /// The new data. `None` removes the entry.
        data: Option<Map>,
        /// The data that the entry must have before the change, if that matters. Otherwise the
        /// command is refused.
        expected: Option<Map>,
    },
    /// The oldest events are removed.
    EventsDropped {
        /// The first event that stays.
        before: u64,
        /// The maximum number of events that one command removes.
        limit: u64,
    },
    /// The oldest jobs are removed, with their returns.
    JobsDropped {
        /// The time before which a job is old enough to be removed.
        before_ms: u64,
        /// The maximum number of rows that one command removes.
        limit: u64,
    },
    /// These events are removed, as far as the log still contains them. The sender has chosen them,
    /// because there are too many.
    EventsRemoved {
        /// The numbers of the events.
        sequences: Vec<u64>,
    },
    /// These jobs and returns are removed, as far as they still exist. The sender has chosen them,
    /// because there are too many.
    JobsRemoved {
        /// The rows of each job.
        jobs: Vec<JobRows>,
    },
    /// A ring of masters is added.
    RingCreated {
        /// The ring's name.
        name: String,
        /// The names of its masters.
        voters: Vec<String>,
    },
    /// A ring is destroyed.
    RingDestroyed {
        /// The ring's name.
        name: String,
    },
    /// The given properties of a ring are changed.
    RingSet {
        /// The ring's name.
        name: String,
        /// The masters of the ring that keep a row.
        keep: Option<Keep>,
        /// The number of masters that keep each row.
        replicas: Option<u64>,
    },
    /// A kind of data is routed to a ring.
    RouteSet {
        /// The kind of data.
        data_type: String,
        /// The ring's name. `None` routes the data to all masters again.
        ring: Option<String>,
        /// The time, in milliseconds since 1970.
        at_ms: u64,
    },
    /// The first lines of the record of an orchestration, from which another master can resume it.
    RunBegun {
        /// The job id of the orchestration.
        jid: String,
        /// The master that runs it.
        owner: RunOwner,
        /// The lines.
        lines: String,
    },
    /// More lines of the record of an orchestration.
    RunCopied {
        /// The job id of the orchestration.
        jid: String,
        /// The master that runs it.
        owner: RunOwner,
        /// The position of the lines in the record. Those at 0 replace all.
        offset: u64,
        /// The lines.
        lines: String,
    },
    /// The job of a step of an orchestration. A master that resumes the orchestration waits for this
    /// job.
    RunStep {
        /// The job id of the orchestration.
        jid: String,
        /// The master that runs it.
        owner: RunOwner,
        /// The step.
        step: String,
        /// The id of its job.
        job: String,
    },
    /// Another master takes over an orchestration.
    RunClaimed {
        /// The job id of the orchestration.
        jid: String,
        /// The master that has it from now on.
        owner: RunOwner,
        /// The master that had it. With another one, the command is refused.
        expected: RunOwner,
    },
    /// An orchestration has ended, or is not resumed.
    RunEnded {
        /// The job id of the orchestration.
        jid: String,
        /// The master that had it.
        owner: RunOwner,
    },
    /// Several commands that become durable together. They are applied in order, up to the first
    /// one that is refused or a duplicate.
    All(Vec<Self>),
}

impl Command {
    /// Returns the keys that the command is about, with their ids.
    pub(crate) fn keys(&self) -> Vec<(Id, PublicKey)> {
        match self {
            Self::KeyOffered { id, key, .. }
            | Self::KeyAccepted { id, key, .. }
            | Self::KeyRejected { id, key, .. }
            | Self::KeyDenied { id, key, .. }
            | Self::KeyWithdrawn { id, key, .. }
            | Self::KeyDeleted { id, key, .. } => vec![(id.clone(), *key)],
            Self::All(all) => all.iter().flat_map(Self::keys).collect(),
            _ => Vec::new(),
        }
    }
}

/// The rows of a job that are to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobRows {
    /// The job id.
    pub(crate) jid: String,
    /// The minions whose returns are removed.
    pub(crate) returns: Vec<Id>,
    /// The time at which the job arrived, if the job itself is removed after these returns. It stays
    /// if it has other returns.
    pub(crate) at_ms: Option<u64>,
}

/// The master that runs an orchestration, in one of its processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunOwner {
    /// The number of the master.
    pub(crate) node: u64,
    /// The number of its start.
    pub(crate) boot: u64,
    /// The number of masters that had the orchestration before. A master may get it back, and what it did
    /// before that has another number.
    pub(crate) claim: u64,
}

/// The claim of a minion that offers a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// No claim: the key is denied if the id has another key.
    Nothing,
    /// A claim that the id is new. It is refused if the id has a key, because the decision that was
    /// made with the offer is void in that case.
    New,
    /// A claim to the id with proof. Another key of the id is denied from now on if it is not
    /// accepted. An accepted one stays.
    Proved,
}

/// The origin of an event or a return: its place in a minion's spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The minion.
    pub(crate) id: Id,
    /// Its key.
    pub(crate) key: PublicKey,
    /// The number of the minion's spool.
    pub(crate) epoch: u64,
    /// The position in the spool, which counts from 1.
    pub(crate) sequence: u64,
}

/// A kind of data that is cached for a minion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Its grains.
    Grains,
    /// The pillar that the minion received last.
    Pillar,
    /// The minion's entries in the mine.
    Mine,
    /// The minion's last connection and the result of its last highstate.
    Status,
}

impl Cache {
    /// All kinds.
    pub(crate) const ALL: [Self; 4] = [Self::Grains, Self::Pillar, Self::Mine, Self::Status];
}

/// A change of a cache.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Replaces the whole cache.
    Set(Map),
    /// Adds or replaces these entries.
    Update(Map),
    /// Removes this entry.
    Without(String),
    /// Removes the whole cache.
    Clear,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Applied {
    /// The command was applied.
    Done,
    /// The event was appended to the log.
    Event {
        /// Its sequence number.
        sequence: u64,
        /// The highest durable position of its spool; 0 if it has no origin.
        durable: u64,
    },
    /// The return was stored.
    Returned {
        /// The highest durable position of its spool; 0 if it has no origin.
        durable: u64,
    },
    /// The event or return is a duplicate, and nothing was changed.
    Duplicate {
        /// The highest durable position of its spool; 0 if it has no origin.
        durable: u64,
    },
    /// The state of the key, after a command that may have changed it.
    Key {
        /// The state after the command.
        state: Option<KeyState>,
        /// The state before the command.
        before: Option<KeyState>,
    },
    /// The key is pending, and replaced another pending key.
    Displaced {
        /// The id that lost its key.
        id: Id,
        /// The key that was removed.
        key: PublicKey,
    },
    /// Old rows were removed.
    Dropped {
        /// The number of removed rows.
        rows: u64,
    },
    /// The command was refused, and nothing was changed.
    Refused(Refusal),
    /// The results of several commands, up to the last one that was tried.
    All(Vec<Self>),
}

impl Applied {
    /// Returns why the command, or the last of several, was refused.
    pub(crate) fn rejection(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::All(all) => all.last()?.rejection(),
            _ => None,
        }
    }

    /// Returns the pending key that was removed to make room for another one.
    pub(crate) fn displaced(&self) -> Option<(Id, PublicKey)> {
        match self {
            Self::Displaced { id, key } => Some((id.clone(), *key)),
            Self::All(all) => all.iter().find_map(Self::displaced),
            _ => None,
        }
    }

    /// True if a return was stored that is not a duplicate.
    pub(crate) fn has_return(&self) -> bool {
        match self {
            Self::Returned { .. } => true,
            Self::All(all) => all.iter().any(Self::has_return),
            _ => false,
        }
    }

    /// True if the command, or the last of several, was refused or a duplicate.
    pub(crate) fn is_void(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Duplicate { .. } => true,
            Self::All(all) => all.last().is_some_and(Self::is_void),
            _ => false,
        }
    }
}

/// The reason why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The id has no such key.
    #[error("{id} has no key {key}")]
    Unknown {
        /// The id.
        id: Id,
        /// The key.
        key: PublicKey,
    },
    /// The id has another key that is accepted.
    #[error("{id} has another key, {key}: delete that one first")]
    Taken {
        /// The id.
        id: Id,
        /// The key that it has.
        key: PublicKey,
    },
    /// The minion's key is not accepted.
    #[error("the key of {id} is not accepted")]
    NotAccepted {
        /// The id.
        id: Id,
    },
    /// The number is that of another job.
    #[error("{jid} is the number of another job")]
    JobExists {
        /// The job id.
        jid: String,
    },
    /// The job was sent to other minions.
    #[error("the job {jid} was not sent to this minion")]
    NotSent {
        /// The job id.
        jid: String,
    },
    /// Too many keys are pending.
    #[error(
        "{limit} keys are pending, the maximum (pending_keys_max): accept, reject or delete some"
    )]
    Full {
        /// The maximum number of pending keys.
        limit: u64,
    },
    /// Too many keys of one address are pending.
    #[error(
        "{limit} keys of {from} are pending, the maximum (pending_keys_per_address): accept, reject or delete some"
    )]
    FullOfAddress {
        /// The maximum number of pending keys of one address.
        limit: u64,
        /// The address.
        from: String,
    },
    /// A token does not have the expected data any more.
    #[error("the token {name} was used or changed in the meantime")]
    Changed {
        /// Its name.
        name: String,
    },
    /// Another master has the orchestration.
    #[error("another master has taken over the orchestration {jid}")]
    RunTaken {
        /// The job id of the orchestration.
        jid: String,
    },
    /// A ring or route that cannot be changed this way.
    #[error("{why}")]
    Ring {
        /// The reason.
        why: String,
    },
    /// A name or number that cannot be stored.
    #[error("cannot store {what} {text:?}: it is empty, longer than {limit} bytes or contains NUL")]
    Name {
        /// The kind of name.
        what: &'static str,
        /// The beginning of the text.
        text: String,
        /// The maximum length in bytes.
        limit: usize,
    },
    /// A value that is too large or too deep.
    #[error("cannot store {what}: {why}")]
    Value {
        /// The kind of value.
        what: &'static str,
        /// The error with the limit that the value exceeds.
        why: wire::Error,
    },
}

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum KeyState {
    /// The key waits for a decision.
    Pending,
    /// The key is accepted.
    Accepted,
    /// The key is rejected.
    Rejected,
    /// The key was presented for an id that has another key.
    Denied,
}

impl KeyState {
    /// All states, in the order in which Salt lists them.
    pub(crate) const ALL: [Self; 4] = [Self::Accepted, Self::Pending, Self::Rejected, Self::Denied];

    /// Returns the name of the state.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Denied => "denied",
        }
    }

    /// Returns the folder of Salt's `pki_dir` that holds keys of this state. Lists use the same
    /// name.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Pending => "minions_pre",
            Self::Accepted => "minions",
            Self::Rejected => "minions_rejected",
            Self::Denied => "minions_denied",
        }
    }

    /// Returns the state that belongs to such a folder.
    pub(crate) fn of_folder(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.folder() == name)
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}
