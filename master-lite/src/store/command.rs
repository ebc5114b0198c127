//! [`Command`]: every change of the master's state is one of its values.

use link::key::PublicKey;
use reactor::Place;
use value::Map;
use wire::Id;

/// A change. What it does follows from it and from the store alone: time comes inside it.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// A minion showed a key: it is pending from now on, or denied when the id has another.
    KeyOffered {
        /// What the minion wants to be called.
        id: Id,
        /// Its key.
        key: PublicKey,
        /// When, in milliseconds since 1970.
        at_ms: u64,
        /// From where it was shown: an address, or a network of IPv6. None for one that an administrator put there.
        from: Option<String>,
        /// How many keys may be pending, and how many of one address. When there are too many, the oldest one of the address that has
        /// most goes.
        pending_max: u64,
        pending_per_address: u64,
        /// What it claims.
        claim: Claim,
    },
    /// A key that waits for a decision waits no longer. One that was decided on stays as it is.
    KeyWithdrawn {
        /// The id.
        id: Id,
        /// Its key.
        key: PublicKey,
    },
    /// A key is let in.
    KeyAccepted {
        /// The id.
        id: Id,
        /// Its key.
        key: PublicKey,
        /// When.
        at_ms: u64,
        /// What it is bound to: `role`, `grains`, `pillar`.
        bound: Map,
        /// Whether the key may be one that was never offered, and take the place of another one of this id.
        replace: bool,
    },
    /// A key that was offered is not let in.
    KeyRejected {
        /// The id.
        id: Id,
        /// Its key.
        key: PublicKey,
        /// When.
        at_ms: u64,
    },
    /// A key is not the one that this id has.
    KeyDenied {
        /// The id.
        id: Id,
        /// The wrong key.
        key: PublicKey,
        /// When.
        at_ms: u64,
    },
    /// A key is forgotten, and all that was kept for it: grains, pillar, mine, how far its events came.
    KeyDeleted {
        /// The id.
        id: Id,
        /// Its key.
        key: PublicKey,
        /// When: one that was accepted may be refused for a while.
        at_ms: u64,
    },
    /// The files that show an id's keys are these now.
    KeyShown {
        /// The id.
        id: Id,
        /// The folder of each, and the key in it.
        files: Vec<(KeyState, PublicKey)>,
    },
    /// An event for the log.
    Event {
        /// Its tag.
        tag: String,
        /// What it says.
        data: Map,
        /// When it was made, as `_stamp` has it.
        stamp: String,
        /// When it came to this master.
        at_ms: u64,
        /// Where it came from; none for the master's own and for commands'.
        origin: Option<Origin>,
    },
    /// A job that is about to be sent.
    Job {
        /// Its number.
        jid: String,
        /// What is asked.
        load: Map,
        /// Who is expected to answer.
        minions: Vec<Id>,
        /// When.
        at_ms: u64,
    },
    /// An answer to a job. The first one of a minion is kept.
    Return {
        /// The job.
        jid: String,
        /// Whose answer it is.
        id: Id,
        /// The answer.
        data: Map,
        /// When it came to this master.
        at_ms: u64,
        /// Where it came from.
        origin: Option<Origin>,
    },
    /// What is remembered of an accepted minion.
    Cached {
        /// The minion.
        id: Id,
        /// The key that it has.
        key: PublicKey,
        /// Which of the three.
        what: Cache,
        /// What happens to it.
        change: Change,
    },
    /// How far somebody has read in the event log.
    Cursor {
        /// Who.
        name: String,
        /// The last event that is done with; none when nobody reads under this name any more.
        sequence: Option<u64>,
    },
    /// What a rule of the reactor makes of an event.
    Reaction {
        /// Which rule, and which event.
        place: Place,
        /// What is known of it; none forgets it.
        row: Option<Map>,
    },
    /// An enrolment token or another thing with a name.
    Token {
        /// Its name.
        name: String,
        /// What belongs to it; none takes it away.
        data: Option<Map>,
        /// What must have been there before, if that matters; nothing is done when it was not.
        expected: Option<Map>,
    },
    /// The oldest events go.
    EventsDropped {
        /// Those before this one.
        before: u64,
        /// At most so many at once.
        limit: u64,
    },
    /// The oldest jobs go, with their returns.
    JobsDropped {
        /// Those from before this time.
        before_ms: u64,
        /// At most so many rows at once.
        limit: u64,
    },
    /// Events go until no more than these are left: the oldest ones of whoever has most.
    EventsTrimmed {
        /// How many may stay.
        events: u64,
        /// How many bytes of them.
        bytes: u64,
        /// At most so many go at once.
        limit: u64,
    },
    /// Jobs and returns go until no more than these are left: the oldest ones of whoever has most.
    JobsTrimmed {
        /// How many bytes may stay.
        bytes: u64,
        /// At most so many rows go at once.
        limit: u64,
    },
    /// Several that become durable together, in order; the first one that is refused or was there already is the last.
    All(Vec<Self>),
}

/// What a key that is offered claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Nothing: it is denied where the id has another key.
    Nothing,
    /// The id of somebody who is new here: it is refused where the id has a key, as what was decided with the offer does not hold then.
    New,
    /// The id itself, with proof: another key of the id that is not accepted is denied from now on. An accepted one stays.
    Proved,
}

/// Where an event or a return came from: its place in a minion's spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The minion.
    pub(crate) id: Id,
    /// Its key.
    pub(crate) key: PublicKey,
    /// The number of its spool.
    pub(crate) epoch: u64,
    /// The place in it, from 1.
    pub(crate) sequence: u64,
}

/// What is remembered of a minion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Its grains.
    Grains,
    /// The pillar that it got last.
    Pillar,
    /// What it put into the mine.
    Mine,
}

/// What happens to a cache.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// It is this from now on.
    Set(Map),
    /// These entries are added or replaced.
    Update(Map),
    /// This entry goes.
    Without(String),
    /// All goes.
    Clear,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Applied {
    /// It is done.
    Done,
    /// The event has this place in the log.
    Event {
        /// Its sequence number.
        sequence: u64,
        /// How far its spool is durable now; 0 when it has no origin.
        durable: u64,
    },
    /// The return is kept.
    Returned {
        /// How far its spool is durable now; 0 when it has no origin.
        durable: u64,
    },
    /// The event or return was here already, and nothing was done.
    Duplicate {
        /// How far its spool is durable.
        durable: u64,
    },
    /// The key has this state.
    Key {
        /// The state now.
        state: Option<KeyState>,
        /// The state before.
        before: Option<KeyState>,
    },
    /// The key is pending, and took the place of another one that was pending.
    Displaced {
        /// The id that has no key any more.
        id: Id,
        /// The key that it had.
        key: PublicKey,
    },
    /// Old rows went.
    Dropped {
        /// How many.
        rows: u64,
        /// Whether there are more of them.
        more: bool,
    },
    /// It cannot be done, and nothing was.
    Refused(Refusal),
    /// What became of each of several, up to the last that was tried.
    All(Vec<Self>),
}

impl Applied {
    /// Why the command, or the last of several, was not done.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::All(all) => all.last()?.refusal(),
            _ => None,
        }
    }

    /// True when a return is kept that was not here before.
    pub(crate) fn has_return(&self) -> bool {
        match self {
            Self::Returned { .. } => true,
            Self::All(all) => all.iter().any(Self::has_return),
            _ => false,
        }
    }

    /// True when nothing was changed.
    pub(crate) fn is_void(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Duplicate { .. } => true,
            Self::All(all) => all.last().is_some_and(Self::is_void),
            _ => false,
        }
    }
}

/// Why a command is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The key is not known under this id.
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
    /// Too many keys wait.
    #[error(
        "{limit} keys are pending, and no more are taken (pending_keys_max): accept, reject or delete some"
    )]
    Full {
        /// How many may wait.
        limit: u64,
    },
    /// Too many keys of one address wait.
    #[error(
        "{limit} keys of {from} are pending, and no more are taken (pending_keys_per_address): accept, reject or delete some"
    )]
    FullOfAddress {
        /// How many may wait.
        limit: u64,
        /// The address.
        from: String,
    },
    /// A token is not what it was.
    #[error("the token {name} was used or changed meanwhile")]
    Changed {
        /// Its name.
        name: String,
    },
    /// A name or number that cannot be kept.
    #[error("{what} {text:?} cannot be kept: it is empty, longer than {limit} bytes or has a NUL")]
    Name {
        /// What it is.
        what: &'static str,
        /// How it begins.
        text: String,
        /// How long it may be.
        limit: usize,
    },
    /// A value that is too large or too deep.
    #[error("{what} cannot be kept: {why}")]
    Value {
        /// What it is.
        what: &'static str,
        /// The limit.
        why: wire::Error,
    },
}

/// Where a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum KeyState {
    /// It waits.
    Pending,
    /// It is let in.
    Accepted,
    /// It is not.
    Rejected,
    /// It is not the one that its id has.
    Denied,
}

impl KeyState {
    /// All of them, in the order in which Salt lists them.
    pub(crate) const ALL: [Self; 4] = [Self::Accepted, Self::Pending, Self::Rejected, Self::Denied];

    /// The word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Denied => "denied",
        }
    }

    /// The folder of Salt's `pki_dir` in which such keys lie, which is also what lists call them.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Pending => "minions_pre",
            Self::Accepted => "minions",
            Self::Rejected => "minions_rejected",
            Self::Denied => "minions_denied",
        }
    }

    /// The state that such a folder stands for.
    pub(crate) fn of_folder(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.folder() == name)
    }

    pub(super) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}
