//! [`Group`]: one log with its state, on one of the masters that have it.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openraft::errors::{InitializeError, RaftError};
use openraft::raft::AppendEntriesResponse;
use openraft::{Config, Instant, Raft, SnapshotPolicy};
use smol::channel::Receiver;
use smol::future::FutureExt;

use super::bytes::{Answer, Ask, Piece};
use super::log::Log;
use super::machine::{Applier, Machine, Meta, Snapshot};
use super::medium::Medium;
use super::network::{Addresses, Clients, Link};
use super::proposer::{Proposer, take_from_other};
use super::types::{Types, place};
use super::waiting::{PENDING_MAX, Room, Waiting};
use super::{InstantOf, Runtime, heartbeat};
use crate::core::{Control, FIRST_LEVEL, Member};

/// The timing of a group, and the size of its log.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The shortest and the longest time without a leader before an election.
    pub election: (Duration, Duration),
    /// The number of entries after which the state is made durable, so that the log before it can be
    /// removed.
    pub snapshot_every: u64,
    /// The number of entries that stay for masters that are behind.
    pub kept_entries: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            election: (Duration::from_millis(300), Duration::from_millis(600)),
            snapshot_every: 100_000,
            kept_entries: 10_000,
        }
    }
}

/// A proposal that was not agreed on, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAgreed {
    /// No leader took it in time. It is not in the log, and never will be.
    #[error("no majority of masters can be reached")]
    NoMajority,
    /// A leader took it, but no majority confirmed it in time. It may still be applied.
    #[error("no majority of masters has confirmed it: it may still happen")]
    Unknown,
    /// It was applied, but the result is not known.
    #[error("it was done, but its result is not known")]
    NoResult,
    /// It came too late: another master leads.
    #[error("another master leads by now")]
    Fenced,
    /// The release of a master cannot apply it.
    #[error(
        "the master {0} has an older release, which cannot apply this change: upgrade it first"
    )]
    Older(String),
    /// Too many proposals wait.
    #[error("{PENDING_MAX} changes wait already, and none of them was done in time")]
    Busy,
    /// The group has failed on this master.
    #[error("{0}")]
    Failed(String),
}

/// A group on this master. Clones share it.
pub struct Group<R: Runtime, M: Machine> {
    shared: Arc<Shared<R, M>>,
}

impl<R: Runtime, M: Machine> Clone for Group<R, M> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<R: Runtime, M: Machine> fmt::Debug for Group<R, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").finish_non_exhaustive()
    }
}

struct Shared<R: Runtime, M: Machine> {
    raft: Raft<Types<R>, Applier<M, InstantOf<R>>>,
    machine: Arc<M>,
    waiting: Arc<Waiting<M::Outcome, InstantOf<R>>>,
    addresses: Addresses,
    /// The snapshot that is received. Locked while a piece is taken and while the snapshot is
    /// installed, so that another transfer does not begin in the meantime.
    incoming: smol::lock::Mutex<Option<Incoming<M>>>,
    /// The last time at which the leader sent something.
    heard: Mutex<Option<InstantOf<R>>>,
}

struct Incoming<M: Machine> {
    transfer: u64,
    /// The number of the next piece.
    next: u64,
    rows: M::Rows,
}

impl Settings {
    /// Returns the configuration of openraft.
    #[must_use]
    pub fn config(&self) -> Config {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (min, max) = self.election;
        Config {
            cluster_name: "pinch".to_owned(),
            election_timeout_min: millis(min),
            election_timeout_max: millis(max),
            heartbeat_interval: heartbeat::interval_of_openraft(millis(min)),
            max_payload_entries: 512,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_every),
            max_in_snapshot_log_to_keep: self.kept_entries,
            // The channels reserve their room, 250 and 960 bytes for a message of the first two. The
            // defaults of openraft are 37 MB. Senders wait for room: they are a few tasks for each
            // other master, and the connections, which have 64 requests each.
            api_channel_size: Some(256),
            notification_channel_size: Some(256),
            state_machine_channel_size: Some(64),
            enable_pre_vote: Some(true),
            // A leader that was killed must not go on in its term: it may have lost entries that it had
            // sent and not yet synced, and would give their places to others.
            enable_leader_restore: Some(false),
            ..Config::default()
        }
    }
}

impl<R: Runtime, M: Machine> Group<R, M> {
    /// Starts a group on a master. `boot` must be higher than at each earlier start of the master,
    /// and `config` is one of [`Settings::config`].
    ///
    /// # Errors
    /// When the log or the state cannot be read.
    pub async fn start<D: Medium, L: Link>(
        (node, boot): (u64, u64),
        config: Config,
        log: Log<D>,
        machine: Arc<M>,
        link: L,
    ) -> io::Result<Self> {
        let waiting = Waiting::new(node, boot);
        let applier = Applier::new(machine.clone(), waiting.clone())?;
        let addresses = Addresses::default();
        let clients = Clients {
            machine: machine.clone(),
            link: link.clone(),
            addresses: addresses.clone(),
            // Transfers of earlier starts have other numbers.
            transfers: Arc::new(AtomicU64::new(boot << 32)),
        };
        let every = heartbeat::every(config.election_timeout_min);
        let config = config.validate();
        let config = config.map_err(|error| io::Error::other(error.to_string()))?;
        let raft = Raft::new(node, Arc::new(config), clients, log, applier).await;
        let raft = raft.map_err(|error| io::Error::other(error.to_string()))?;
        let proposer = Proposer {
            raft: raft.clone(),
            link,
            waiting: waiting.clone(),
        };
        drop(R::spawn(proposer.run()));
        drop(R::spawn(heartbeat::send(raft.clone(), every)));
        Ok(Self {
            shared: Arc::new(Shared {
                raft,
                machine,
                waiting,
                addresses,
                incoming: smol::lock::Mutex::new(None),
                heard: Mutex::new(None),
            }),
        })
    }

    /// Returns openraft's handle of the group.
    #[must_use]
    pub fn raft(&self) -> &Raft<Types<R>, Applier<M, InstantOf<R>>> {
        &self.shared.raft
    }

    /// Founds a cluster with these masters, all with a vote. All of them may do so, with the same
    /// masters. Nothing happens if the group has a log.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn found(&self, members: BTreeMap<u64, Member>) -> io::Result<()> {
        match self.shared.raft.initialize(members).await {
            // Another founder was faster, or the group has a log.
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
            Err(error) => Err(io::Error::other(error.to_string())),
        }
    }

    /// Proposes a command, and waits until it is applied on this master, which is after a majority
    /// has it on its disks. A proposal with a fence is void in all terms but that one.
    ///
    /// # Errors
    /// When that is not known to have happened within the time.
    pub async fn propose(
        &self,
        command: Vec<u8>,
        fence: Option<u64>,
        within: Duration,
    ) -> Result<M::Outcome, NotAgreed> {
        let result = self.begin(command, fence, within).await?;
        // No deadline: the proposer answers at the end of the time.
        let ended = NotAgreed::Failed("the group has ended".to_owned());
        result.recv().await.unwrap_or(Err(ended))
    }

    /// Proposes a command behind all earlier ones of this master, and returns the channel for its
    /// result, as [`Group::propose`] returns it. Waits only for room among the proposals.
    ///
    /// # Errors
    /// When there is no room and no proposal is done within the time, or the group has failed.
    pub async fn begin(
        &self,
        command: Vec<u8>,
        fence: Option<u64>,
        within: Duration,
    ) -> Result<Receiver<Result<M::Outcome, NotAgreed>>, NotAgreed> {
        let level = self.shared.machine.level(&command);
        if let Some(older) = self.older_than(level) {
            return Err(NotAgreed::Older(older));
        }
        let room = self.room(within).await?;
        let end = InstantOf::<R>::now() + within;
        self.shared.waiting.add(room, command, level, fence, end)
    }

    /// Waits for room among the proposals, for as long as they are done: a master may have more minions
    /// with events than the others confirm within the time.
    async fn room(&self, within: Duration) -> Result<Room, NotAgreed> {
        let waiting = &self.shared.waiting;
        let mut room = pin!(waiting.room());
        loop {
            let done = waiting.done();
            let free = async { Some(room.as_mut().await) };
            let is_late = async {
                R::sleep(within).await;
                None
            };
            match free.or(is_late).await {
                Some(room) => return Ok(room),
                None if waiting.done() > done => {}
                None => return Err(NotAgreed::Busy),
            }
        }
    }

    /// Returns the name of a member that cannot apply commands of a level.
    fn older_than(&self, level: u64) -> Option<String> {
        if level == FIRST_LEVEL {
            return None;
        }
        let members = self.status().members.into_values();
        let mut older = members.filter(|member| member.level < level);
        older.next().map(|member| member.name)
    }

    /// Makes later messages to a master go to its new address.
    pub(super) fn moved(&self, number: u64, member: Member) {
        self.shared.addresses.set(number, member);
    }

    /// Answers a message of another master. The caller has checked that it is one.
    ///
    /// # Errors
    /// When no master of this release sends such a message, or the answer cannot be written.
    pub async fn answer(&self, message: &[u8]) -> io::Result<Vec<u8>> {
        let asked = Ask::<R>::decode(message);
        let asked = asked.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        let answer = self.answered(asked).await.encode();
        answer.map_err(|error| io::Error::other(error.to_string()))
    }

    async fn answered(&self, asked: Ask<R>) -> Answer<R> {
        let raft = &self.shared.raft;
        let refused = |error: &dyn fmt::Display| Answer::Refused(error.to_string());
        match asked {
            Ask::Append(asked) => match raft.append_entries(asked).await {
                Ok(answer) => {
                    if !matches!(answer, AppendEntriesResponse::HigherVote(_)) {
                        self.hears();
                    }
                    Answer::Append(answer)
                }
                Err(error) => refused(&error),
            },
            Ask::Vote(asked) => match raft.vote(asked).await {
                Ok(answer) => Answer::Vote(answer),
                Err(error) => refused(&error),
            },
            Ask::PreVote(asked) => match raft.pre_vote(asked).await {
                Ok(answer) => Answer::Vote(answer),
                Err(error) => refused(&error),
            },
            Ask::Transfer(asked) => match raft.handle_transfer_leader(asked).await {
                Ok(_) => Answer::Done,
                Err(error) => refused(&error),
            },
            Ask::Propose(proposals) => match take_from_other(raft, proposals).await {
                true => Answer::Done,
                false => Answer::Refused("this master does not lead".to_owned()),
            },
            Ask::Snapshot(piece) => match self.received(piece).await {
                Ok(answer) => answer,
                Err(error) => refused(&error),
            },
        }
    }

    /// Returns the last time at which the leader sent something.
    pub(super) fn heard(&self) -> Option<InstantOf<R>> {
        *self
            .shared
            .heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn hears(&self) {
        let heard = &self.shared.heard;
        *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(InstantOf::<R>::now());
    }

    /// Takes a piece of a snapshot, and installs the snapshot after the last one.
    async fn received(&self, piece: Piece) -> io::Result<Answer<R>> {
        let shared = &self.shared;
        let is_next =
            |known: &Incoming<M>| known.transfer == piece.transfer && known.next == piece.number;
        let mut incoming = shared.incoming.lock().await;
        let before = incoming.take().filter(is_next);
        let mut known = match before {
            Some(known) => known,
            // The rest of an earlier transfer, which is in the same folder, was dropped above.
            None if piece.number == 0 => Incoming {
                transfer: piece.transfer,
                next: 0,
                rows: shared.machine.receive()?,
            },
            None => return Err(io::Error::other("a piece of the snapshot is missing")),
        };
        if let Some(data) = piece.data {
            self.hears();
            shared.machine.add_piece(&mut known.rows, data).await?;
            known.next += 1;
            *incoming = Some(known);
            return Ok(Answer::Done);
        }
        // openraft would stop this master after the state was replaced by a wrong one.
        let control = shared.machine.received_control(&mut known.rows)?;
        let control = control.map(|row| Control::decode(&row)).transpose();
        let control = control.map_err(io::Error::other)?;
        if control.and_then(|control| control.applied) != Some(place(&piece.last)) {
            let wrong = "the state that was received is of another place in the log";
            return Err(io::Error::other(wrong));
        }
        let snapshot = Snapshot::<M> {
            meta: Meta {
                last_log_id: Some(piece.last),
                last_membership: piece.members,
            },
            snapshot: known.rows,
        };
        let installed = shared.raft.install_full_snapshot(piece.vote, snapshot);
        match installed.await {
            Ok(answer) => Ok(Answer::Voted(answer.vote)),
            Err(error) => Err(io::Error::other(error.to_string())),
        }
    }

    /// Stops the group on this master.
    pub async fn stop(&self) {
        if let Err(error) = self.shared.raft.shutdown().await {
            value::log::error(format_args!(
                "the cluster's log ended with an error: {error}"
            ));
        }
    }
}
