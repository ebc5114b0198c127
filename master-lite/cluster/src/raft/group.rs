//! [`Group`]: one log with its state, on one of the masters that have it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::{AsyncRuntime, Config, Instant, Raft, SnapshotPolicy};
use smol::channel::bounded;
use smol::future::FutureExt;

use super::bytes::{Answer, Ask, Piece};
use super::log::Log;
use super::machine::{Applier, Judged, Machine, Meta, Snapshot, Waiting};
use super::medium::Medium;
use super::network::{Clients, Link};
use super::types::Types;
use super::Runtime;
use crate::core::{LEVEL, Member, PENDING_MAX, Proposal};

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
    /// Too many proposals wait.
    #[error("{PENDING_MAX} changes wait already")]
    Busy,
    /// The group has failed on this master.
    #[error("{0}")]
    Failed(String),
}

/// The time after which a proposal whose leader may have gone is proposed again.
const AGAIN: Duration = Duration::from_millis(200);
/// The maximum time for a leader to take a proposal.
const TAKE_MAX: Duration = Duration::from_secs(2);

/// A group on this master. Clones share it.
pub struct Group<R: Runtime, M: Machine, L> {
    shared: Arc<Shared<R, M, L>>,
}

impl<R: Runtime, M: Machine, L> Clone for Group<R, M, L> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<R: Runtime, M: Machine, L> fmt::Debug for Group<R, M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").finish_non_exhaustive()
    }
}

struct Shared<R: Runtime, M: Machine, L> {
    node: u64,
    boot: u64,
    next: AtomicU64,
    raft: Raft<Types<R>, Applier<M>>,
    machine: Arc<M>,
    link: L,
    waiting: Arc<Waiting<M::Outcome>>,
    /// The snapshot that is received.
    incoming: Mutex<Option<Incoming<M>>>,
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
            heartbeat_interval: (millis(min) / 3).max(1),
            max_payload_entries: 512,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_every),
            max_in_snapshot_log_to_keep: self.kept_entries,
            // The channels reserve their room; the defaults of openraft are 37 MB.
            api_channel_size: Some(1024),
            notification_channel_size: Some(1024),
            state_machine_channel_size: Some(64),
            enable_pre_vote: Some(true),
            // A leader that was killed must not go on in its term: it may have lost entries that it had
            // sent and not yet synced, and would give their places to others.
            enable_leader_restore: Some(false),
            ..Config::default()
        }
    }
}

impl<R: Runtime, M: Machine, L: Link> Group<R, M, L> {
    /// Starts a group on a master. `boot` must be higher than at each earlier start of the master,
    /// and `config` is one of [`Settings::config`].
    ///
    /// # Errors
    /// When the log or the state cannot be read.
    pub async fn start<D: Medium>(
        (node, boot): (u64, u64),
        config: Config,
        log: Log<D>,
        machine: Arc<M>,
        link: L,
    ) -> io::Result<Self> {
        let waiting = Arc::new(Waiting::new(node, boot));
        let applier = Applier::new(machine.clone(), waiting.clone())?;
        let clients = Clients {
            machine: machine.clone(),
            link: link.clone(),
            // Transfers of earlier starts have other numbers.
            transfers: Arc::new(AtomicU64::new(boot << 32)),
        };
        let config = config.validate();
        let config = config.map_err(|error| io::Error::other(error.to_string()))?;
        let raft = Raft::new(node, Arc::new(config), clients, log, applier).await;
        let raft = raft.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self {
            shared: Arc::new(Shared {
                node,
                boot,
                next: AtomicU64::new(1),
                raft,
                machine,
                link,
                waiting,
                incoming: Mutex::new(None),
            }),
        })
    }

    /// Returns openraft's handle of the group.
    #[must_use]
    pub fn raft(&self) -> &Raft<Types<R>, Applier<M>> {
        &self.shared.raft
    }

    /// Founds a cluster with these masters, all with a vote. All of them may do so, with the same
    /// masters. Nothing happens if the group has a log.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn found(&self, members: BTreeMap<u64, Member>) -> io::Result<()> {
        let raft = &self.shared.raft;
        let failed = |error: &dyn fmt::Display| io::Error::other(error.to_string());
        if raft
            .is_initialized()
            .await
            .map_err(|error| failed(&error))?
        {
            return Ok(());
        }
        raft.initialize(members)
            .await
            .map_err(|error| failed(&error))
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
        let shared = &self.shared;
        if shared.waiting.len() >= PENDING_MAX {
            return Err(NotAgreed::Busy);
        }
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let proposal = Proposal {
            node: shared.node,
            boot: shared.boot,
            number,
            level: LEVEL,
            fence,
            command: command.into(),
        };
        let (caller, judged) = bounded(1);
        shared.waiting.add(number, caller);
        let end = R::Instant::now() + within;
        let mut was_taken = false;
        let result = loop {
            let left = end.saturating_duration_since(R::Instant::now());
            if left.is_zero() {
                break Err(match was_taken {
                    true => NotAgreed::Unknown,
                    false => NotAgreed::NoMajority,
                });
            }
            match self.offer(&proposal, left.min(TAKE_MAX)).await {
                Offered::Taken | Offered::Unknown => was_taken = true,
                Offered::Refused => {}
                Offered::Failed(why) => break Err(NotAgreed::Failed(why)),
            }
            let came = async { judged.recv().await.ok() };
            let late = async {
                R::sleep(left.min(AGAIN)).await;
                None
            };
            match came.or(late).await {
                Some(Judged::Applied(outcome)) => break Ok(outcome),
                Some(Judged::Fenced) => break Err(NotAgreed::Fenced),
                Some(Judged::Skipped) if was_taken => break Err(NotAgreed::NoResult),
                Some(Judged::Skipped) => break Err(NotAgreed::NoMajority),
                None => {}
            }
        };
        shared.waiting.take(number);
        result
    }

    /// Offers a proposal to the leader.
    async fn offer(&self, proposal: &Proposal, within: Duration) -> Offered {
        let metrics = self.shared.raft.metrics();
        let (leader, member) = {
            let metrics = metrics.borrow_watched();
            let leader = metrics.current_leader;
            let members = metrics.membership_config.membership();
            (
                leader,
                leader.and_then(|id| members.get_node(&id).cloned()),
            )
        };
        match (leader, member) {
            (Some(leader), _) if leader == self.shared.node => self.take(proposal.clone()).await,
            (Some(leader), Some(member)) => {
                let Ok(message) = Ask::<R>::Propose(proposal.clone()).encode() else {
                    return Offered::Failed("the command is too large".to_owned());
                };
                let asked = self.shared.link.ask(leader, &member, message, within);
                match asked.await.map(|answer| Answer::<R>::decode(&answer)) {
                    Ok(Ok(Answer::Done)) => Offered::Taken,
                    Ok(Ok(_)) | Err(super::LinkError::Unreachable(_)) => Offered::Refused,
                    Ok(Err(_)) | Err(super::LinkError::NoAnswer(_)) => Offered::Unknown,
                }
            }
            _ => Offered::Refused,
        }
    }

    /// Puts a proposal into the log, if this master is the leader.
    async fn take(&self, proposal: Proposal) -> Offered {
        match self.shared.raft.client_write_ff(proposal, None).await {
            Ok(()) => Offered::Taken,
            Err(error) => Offered::Failed(error.to_string()),
        }
    }

    /// Answers a message of another master. The caller has checked that it is one.
    ///
    /// # Errors
    /// When the answer cannot be written.
    pub async fn answer(&self, message: &[u8]) -> io::Result<Vec<u8>> {
        let answer = match Ask::<R>::decode(message) {
            Ok(asked) => self.answered(asked).await,
            Err(error) => Answer::Refused(error.to_string()),
        };
        let answer = answer.encode();
        answer.map_err(|error| io::Error::other(error.to_string()))
    }

    async fn answered(&self, asked: Ask<R>) -> Answer<R> {
        let raft = &self.shared.raft;
        let refused = |error: &dyn fmt::Display| Answer::Refused(error.to_string());
        match asked {
            Ask::Append(asked) => match raft.append_entries(asked).await {
                Ok(answer) => Answer::Append(answer),
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
            Ask::Propose(proposal) => {
                if raft.current_leader().await != Some(self.shared.node) {
                    return Answer::Refused("this master does not lead".to_owned());
                }
                match self.take(proposal).await {
                    Offered::Failed(why) => Answer::Refused(why),
                    _ => Answer::Done,
                }
            }
            Ask::Snapshot(piece) => match self.received(piece).await {
                Ok(answer) => answer,
                Err(error) => refused(&error),
            },
        }
    }

    /// Takes a piece of a snapshot, and installs the snapshot after the last one.
    async fn received(&self, piece: Piece) -> io::Result<Answer<R>> {
        let shared = &self.shared;
        let take = || {
            let mut incoming = shared
                .incoming
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            incoming.take()
        };
        let put = |known: Incoming<M>| {
            let mut incoming = shared
                .incoming
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *incoming = Some(known);
        };
        let is_next = |known: &Incoming<M>| {
            known.transfer == piece.transfer && known.next == piece.number
        };
        let mut known = match take() {
            _ if piece.number == 0 => Incoming {
                transfer: piece.transfer,
                next: 0,
                rows: shared.machine.receive()?,
            },
            Some(known) if is_next(&known) => known,
            _ => return Err(io::Error::other("a piece of the snapshot is missing")),
        };
        if let Some(data) = piece.data {
            shared.machine.add_piece(&mut known.rows, data).await?;
            known.next += 1;
            put(known);
            return Ok(Answer::Done);
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
            value::log::error(format_args!("the cluster's log ended with an error: {error}"));
        }
    }
}

/// What became of the offer of a proposal.
enum Offered {
    /// The leader has put it into its log.
    Taken,
    /// There is no leader, or another one.
    Refused,
    /// The leader may have put it into its log.
    Unknown,
    /// The group has failed.
    Failed(String),
}
