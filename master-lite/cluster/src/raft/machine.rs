//! [`Machine`]: the state that follows from a log, and [`Applier`], which applies the log to it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::vote::leader_id_std::CommittedLeaderId;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, SnapshotMeta};
use smol::stream::{Stream, StreamExt};

use super::types::{LogId, StoredMembers, Types, log_id, place};
use super::waiting::{Key, Waiting};
use super::{InstantOf, NotAgreed, Runtime, bytes};
use crate::core::{Control, FIRST_LEVEL, LEVEL, Member, Proposal, Verdict};

/// The maximum number of entries that are applied at once.
const TOGETHER_MAX: usize = 1024;

/// A state that changes only by the commands of a log.
pub trait Machine: Send + Sync + 'static {
    /// The result of a command.
    type Outcome: Send + 'static;
    /// The rows of a whole state, while they are sent or received.
    type Rows: Send + 'static;
    /// The newest level of commands that it can apply.
    const LEVEL: u64 = LEVEL;

    /// Returns the level of a command: that of the first release which can apply it.
    fn level(&self, _command: &[u8]) -> u64 {
        FIRST_LEVEL
    }

    /// Returns the control row that was stored with the last commands, or `None` for a new state.
    ///
    /// # Errors
    /// When it cannot be read.
    fn control(&self) -> io::Result<Option<Vec<u8>>>;

    /// Applies commands in order, and stores the control row together with them. The state may lose
    /// the newest ones of these changes in a power cut, but not one before another.
    ///
    /// # Errors
    /// When the state cannot be changed. It is not used any more.
    fn apply(
        &self,
        commands: Vec<Proposal>,
        control: Vec<u8>,
    ) -> impl Future<Output = io::Result<Vec<Self::Outcome>>> + Send;

    /// Waits until all changes are on the disk.
    ///
    /// # Errors
    /// When they cannot be written.
    fn sync(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Begins to read the present state with its control row.
    ///
    /// # Errors
    /// When it cannot be read.
    fn rows(&self) -> io::Result<Self::Rows>;

    /// Returns the next piece of the rows; `None` after the last one.
    ///
    /// # Errors
    /// When they cannot be read.
    fn next_piece(
        &self,
        rows: &mut Self::Rows,
    ) -> impl Future<Output = io::Result<Option<Vec<u8>>>> + Send;

    /// Begins to receive a whole state. The present one stays.
    ///
    /// # Errors
    /// When there is no room for it.
    fn receive(&self) -> io::Result<Self::Rows>;

    /// Adds a piece to a state that is received.
    ///
    /// # Errors
    /// When it is not well formed, or cannot be written.
    fn add_piece(
        &self,
        rows: &mut Self::Rows,
        piece: Vec<u8>,
    ) -> impl Future<Output = io::Result<()>> + Send;

    /// Returns the control row of a received state.
    ///
    /// # Errors
    /// When it cannot be read.
    fn received_control(&self, rows: &mut Self::Rows) -> io::Result<Option<Vec<u8>>>;

    /// Replaces the state by a received one, once that is on the disk.
    ///
    /// # Errors
    /// When it cannot be replaced.
    fn install(&self, rows: Self::Rows) -> impl Future<Output = io::Result<()>> + Send;
}

/// Applies the entries of a log to a machine.
pub struct Applier<M: Machine, I> {
    machine: Arc<M>,
    control: Control,
    waiting: Arc<Waiting<M::Outcome, I>>,
}

impl<M: Machine, I> fmt::Debug for Applier<M, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applier").finish_non_exhaustive()
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn read_control<M: Machine>(machine: &M) -> io::Result<Control> {
    match machine.control()? {
        Some(row) => Control::decode(&row).map_err(invalid),
        None => Ok(Control::default()),
    }
}

/// Returns the members in a stored position of a log, with their numbers. `None` if they have an
/// unknown form.
#[must_use]
pub fn members_of(control: &Control) -> Option<BTreeMap<u64, Member>> {
    let Some((_, members)) = &control.members else {
        return Some(BTreeMap::new());
    };
    let members = bytes::read_members(members)?;
    let members = members
        .nodes()
        .map(|(number, member)| (*number, member.clone()));
    Some(members.collect())
}

/// Returns the last applied entry, and the members.
fn applied(control: &Control) -> io::Result<(Option<LogId>, StoredMembers)> {
    let members = match &control.members {
        Some((at, members)) => bytes::stored_members(*at, members)
            .ok_or_else(|| invalid("the stored members have an unknown form"))?,
        None => StoredMembers::default(),
    };
    Ok((control.applied.map(log_id), members))
}

impl<M: Machine, I: Copy + Ord> Applier<M, I> {
    /// Connects a machine to a log.
    ///
    /// # Errors
    /// When its control row cannot be read.
    pub(super) fn new(machine: Arc<M>, waiting: Arc<Waiting<M::Outcome, I>>) -> io::Result<Self> {
        Ok(Self {
            control: read_control(&*machine)?,
            machine,
            waiting,
        })
    }

    /// Applies some entries at once, and answers the callers of this master.
    async fn apply_together<R: Runtime>(
        &mut self,
        entries: Vec<EntryResponder<Types<R>>>,
    ) -> io::Result<()> {
        let (mut commands, mut judged, mut responders) = (Vec::new(), Vec::new(), Vec::new());
        for (entry, responder) in entries {
            responders.extend(responder);
            let (term, index) = place(&entry.log_id);
            self.control.applied = Some((term, index));
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Membership(members) => {
                    let members = bytes::members_value(&members);
                    self.control.members = Some((Some((term, index)), members));
                }
                EntryPayload::Normal(proposal) => {
                    let of = Key::from(&proposal);
                    match self.control.judge(term, M::LEVEL, &proposal) {
                        Verdict::Apply => {
                            commands.push(proposal);
                            judged.push((of, true));
                        }
                        Verdict::Fenced => judged.push((of, false)),
                        Verdict::Duplicate => {}
                        Verdict::Newer => {
                            return Err(invalid(format!(
                                "entry {index} of the log needs a later release: {proposal}"
                            )));
                        }
                    }
                }
            }
        }
        let control = self.control.encode().map_err(invalid)?;
        let mut outcomes = self.machine.apply(commands, control).await?.into_iter();
        for (of, is_applied) in judged {
            let result = match is_applied {
                true => outcomes.next().ok_or(NotAgreed::NoResult),
                false => Err(NotAgreed::Fenced),
            };
            self.waiting.answer(&of, result);
        }
        for responder in responders {
            responder.send(());
        }
        Ok(())
    }
}

/// A state with its position in the log.
type State<M> = (Control, <M as Machine>::Rows);

/// A snapshot of a machine, before it is on the disk.
pub struct Builder<M: Machine> {
    machine: Arc<M>,
    /// The state, which the first use takes. openraft requires that the builder can be shared, hence
    /// the lock.
    read: Mutex<Option<io::Result<State<M>>>>,
}

impl<M: Machine> fmt::Debug for Builder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

/// A snapshot with the rows of a machine.
pub(crate) type Snapshot<M> =
    openraft::Snapshot<CommittedLeaderId<u64>, u64, Member, <M as Machine>::Rows>;
/// The place and the members of a snapshot.
pub(crate) type Meta = SnapshotMeta<CommittedLeaderId<u64>, u64, Member>;

impl<M: Machine> Builder<M> {
    /// Makes what was read durable, so that the log before it is not needed any more.
    async fn built(&mut self) -> io::Result<Snapshot<M>> {
        self.machine.sync().await?;
        let read = self.read.get_mut().unwrap_or_else(PoisonError::into_inner);
        let read = read.take();
        let (control, rows) =
            read.ok_or_else(|| io::Error::other("the snapshot was used before"))??;
        let (last_log_id, last_membership) = applied(&control)?;
        Ok(Snapshot::<M> {
            meta: SnapshotMeta {
                last_log_id,
                last_membership,
            },
            snapshot: rows,
        })
    }
}

impl<R: Runtime, M: Machine> RaftSnapshotBuilder<Types<R>> for Builder<M> {
    type SnapshotData = M::Rows;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot<M>> {
        self.built().await
    }
}

impl<R: Runtime, M: Machine> RaftStateMachine<Types<R>> for Applier<M, InstantOf<R>> {
    type SnapshotData = M::Rows;
    type SnapshotBuilder = Builder<M>;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembers)> {
        applied(&self.control)
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types<R>>>> + Unpin + OptionalSend,
    {
        let mut together = Vec::new();
        // No deadline: openraft ends the stream after the last committed entry.
        while let Some(entry) = entries.next().await {
            together.push(entry?);
            if together.len() == TOGETHER_MAX {
                self.apply_together::<R>(std::mem::take(&mut together))
                    .await?;
            }
        }
        match together.is_empty() {
            true => Ok(()),
            false => self.apply_together::<R>(together).await,
        }
    }

    async fn get_snapshot_builder(&mut self) -> Builder<M> {
        let rows = self.machine.rows();
        Builder {
            machine: self.machine.clone(),
            read: Mutex::new(Some(rows.map(|rows| (self.control.clone(), rows)))),
        }
    }

    async fn install_snapshot(&mut self, meta: &Meta, snapshot: M::Rows) -> io::Result<()> {
        self.machine.install(snapshot).await?;
        let control = read_control(&*self.machine)?;
        let (last, _) = applied(&control)?;
        if last != meta.last_log_id {
            return Err(invalid("the snapshot is of another place in the log"));
        }
        self.waiting.skip(control.numbers(self.waiting.node));
        self.control = control;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot<M>>> {
        if self.control.applied.is_none() {
            return Ok(None);
        }
        let builder = RaftStateMachine::<Types<R>>::get_snapshot_builder(self);
        builder.await.built().await.map(Some)
    }
}
