//! [`Replica`]: the store as the state that follows from a log on which several masters agree.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cluster::core::{Control, Proposal};
use cluster::raft::{Group, Machine, NotAgreed, Smol};
use fjall::{Readable, Slice, Snapshot};
use link::wait::pause;
use smol::channel::{Sender, bounded};
use smol::lock::{RwLock, RwLockReadGuard};
use value::channel;

use super::backup::{Import, PIECE, ROW, put_row, read_row};
use super::command::{Applied, Command};
use super::disk;
use super::elsewhere;
use super::error::{Error, words};
use super::rows::{Table, at};
use super::writer::{Answer, Call, OfLog};
use super::{ChangedKeys, KeyState, Store, command_bytes};

/// The folder below the store's in which a received state is collected.
const INCOMING: &str = "incoming";

/// The interval of looks whether the masters agree again.
const UNDECIDED: Duration = Duration::from_millis(200);

/// The maximum time for the masters to agree on a command.
const AGREEMENT_MAX: Duration = Duration::from_secs(10);

/// The log from which the commands of a store come.
#[derive(Clone)]
pub(crate) struct Journal {
    pub(crate) group: Group<Smol, Replica>,
    /// Returns why no command can be agreed on at present, if so.
    pub(crate) minority: Arc<dyn Fn() -> Option<String> + Send + Sync>,
}

impl Journal {
    fn error(&self, why: NotAgreed) -> Error {
        let minority = (self.minority)().filter(|_| why == NotAgreed::NoMajority);
        minority.map_or(Error::NotAgreed(why), Error::Minority)
    }
}

/// A condition for commands: they are void unless they get into the log in this term and are
/// proposed before the fence is closed.
#[derive(Clone)]
pub(crate) struct Fence {
    pub(crate) term: u64,
    is_closed: Arc<RwLock<bool>>,
    /// True once a command of the term came too late.
    is_past: Arc<AtomicBool>,
    /// The number of commands that the masters did not agree on in time.
    undecided: Arc<AtomicU64>,
}

impl Fence {
    pub(crate) fn new(term: u64) -> Self {
        Self {
            term,
            is_closed: Arc::default(),
            is_past: Arc::default(),
            undecided: Arc::default(),
        }
    }

    /// Keeps the fence from being closed while a command is proposed.
    ///
    /// # Errors
    /// When it is closed.
    pub(crate) async fn enter(&self) -> Result<RwLockReadGuard<'_, bool>, NotAgreed> {
        let is_closed = self.is_closed.read().await;
        match *is_closed {
            true => Err(NotAgreed::Fenced),
            false => Ok(is_closed),
        }
    }

    fn is_closed(&self) -> bool {
        let is_closed = self.is_closed.try_read();
        self.is_past.load(Ordering::Acquire) || is_closed.is_none_or(|is_closed| *is_closed)
    }

    fn note(&self, error: &Error) {
        match error {
            Error::NotAgreed(NotAgreed::Fenced) => self.is_past.store(true, Ordering::Release),
            error if error.is_undecided() => {
                self.undecided.fetch_add(1, Ordering::AcqRel);
            }
            _ => {}
        }
    }

    /// Makes all further commands void, and waits for those that are proposed at present.
    pub(crate) async fn close(&self) {
        *self.is_closed.write().await = true;
    }
}

/// Returns a command in the form in which the log contains it.
///
/// # Errors
/// When it is larger or more deeply nested than the log allows.
pub(crate) fn encoded(command: &Command) -> Result<Vec<u8>, String> {
    command_bytes::encode(command).map_err(|error| error.to_string())
}

/// Proposes a command behind all earlier ones. The caller gets its result after it has been applied
/// here, which is after a majority of the masters has it on its disks.
pub(super) async fn propose(
    journal: &Journal,
    command: &Command,
    fence: Option<&Fence>,
    answer: Option<Sender<Answer>>,
) -> Result<(), Error> {
    let offered = offer(journal, command, fence, answer).await;
    if let (Some(fence), Err(error)) = (fence, &offered) {
        fence.note(error);
    }
    offered
}

async fn offer(
    journal: &Journal,
    command: &Command,
    fence: Option<&Fence>,
    answer: Option<Sender<Answer>>,
) -> Result<(), Error> {
    let (term, _open) = match fence {
        Some(fence) => (
            Some(fence.term),
            Some(fence.enter().await.map_err(Error::NotAgreed)?),
        ),
        None => (None, None),
    };
    if let Some(why) = (journal.minority)() {
        return Err(Error::Minority(why));
    }
    let bytes = encoded(command).map_err(|why| journal.error(NotAgreed::Failed(why)))?;
    let begun = journal.group.begin(bytes, term, AGREEMENT_MAX).await;
    let begun = begun.map_err(|why| journal.error(why))?;
    let Some(answer) = answer else { return Ok(()) };
    let (journal, fence) = (journal.clone(), fence.cloned());
    let pass_on = async move {
        // No deadline: the group answers at the end of the time.
        let result = match begun.recv().await {
            Ok(result) => result.map_err(|why| journal.error(why)),
            Err(_) => Err(Error::Closed),
        };
        if let (Some(fence), Err(error)) = (&fence, &result) {
            fence.note(error);
        }
        channel::if_open(answer.try_send(result));
    };
    smol::spawn(pass_on).detach();
    Ok(())
}

impl Store {
    /// Makes all further commands come from a log of several masters, which applies them to a
    /// [`Replica`] of this store. Returns false if there is a log already.
    pub(crate) fn follow(&self, journal: Journal) -> bool {
        self.journal.set(journal).is_ok()
    }

    /// Returns a handle whose commands are void unless they get into the log in this term.
    pub(super) fn fenced(&self, term: u64) -> Self {
        Self {
            fence: Some(Fence::new(term)),
            ..self.clone()
        }
    }

    /// Makes all further commands of a handle of [`Store::in_term`], and of its clones, void. A master
    /// may lose contact to the others and lead again in the same term: the commands of its first
    /// time must not come between those of the second one.
    pub(crate) async fn close_fence(&self) {
        if let Some(fence) = &self.fence {
            fence.close().await;
        }
    }

    /// Returns a number that changes when the masters do not agree in time on a command of a handle of
    /// [`Store::in_term`] or its clones, so that it is not known whether the command is applied.
    pub(crate) fn undecided(&self) -> u64 {
        let fence = self.fence.as_ref();
        fence.map_or(0, |fence| fence.undecided.load(Ordering::Acquire))
    }

    /// Waits until it is decided which of the earlier commands of this handle are applied: all of
    /// those are applied here when this returns, and no other one ever will be. This takes until a
    /// majority of masters is in contact again, or this one does not lead in its term any more.
    ///
    /// # Errors
    /// When this handle's commands are void, or the store has failed.
    pub(crate) async fn decided(&self) -> Result<(), Error> {
        self.apply_until_decided(Command::All(Vec::new()))
            .await
            .map(|_| ())
    }

    /// Applies a command that may be applied twice, and repeats it until it is known to be applied.
    ///
    /// # Errors
    /// As for [`Store::decided`].
    pub(crate) async fn apply_until_decided(&self, command: Command) -> Result<Applied, Error> {
        loop {
            match self.apply(command.clone()).await {
                Err(error) if error.is_undecided() => pause(UNDECIDED).await,
                other => return other,
            }
        }
    }

    /// Returns whether this handle's commands are void outside of one term of a leader.
    pub(crate) fn is_fenced(&self) -> bool {
        self.fence.is_some()
    }

    /// Returns whether the fence of this handle is closed, or just being closed, or its term is known
    /// to be over.
    pub(crate) fn is_fence_closed(&self) -> bool {
        self.fence.as_ref().is_some_and(Fence::is_closed)
    }

    /// Returns a handle for the leader of this term: its commands are void unless they get into the
    /// log in this term. A new leader has entries in its log that it has not applied yet, such as the
    /// last reactions of the leader before it. This function waits until all of them are applied here,
    /// so that the new leader does not repeat what they record.
    ///
    /// # Errors
    /// When this master does not lead in this term any more, or the masters do not agree in time.
    pub(crate) async fn in_term(&self, term: u64) -> Result<Self, Error> {
        let store = self.fenced(term);
        store.barrier().await?;
        Ok(store)
    }

    /// Returns whether the store has nothing that an administrator would miss: no key and no token.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn is_empty(&self) -> Result<bool, Error> {
        for state in KeyState::ALL {
            if self.keys(state)?.next().transpose()?.is_some() {
                return Ok(false);
            }
        }
        Ok(self.tokens()?.next().transpose()?.is_none())
    }

    /// Waits until commands of the log may have changed keys, and returns those.
    pub(crate) async fn changed_keys(&self) -> ChangedKeys {
        // No deadline: keys change at any time.
        self.shared.key_changes.next().await
    }

    /// Returns the stored position in a log, if the state follows from one.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn control(&self) -> Result<Option<Control>, Error> {
        let Some(row) = self.row(Table::Keys, at::CONTROL)? else {
            return Ok(None);
        };
        let control = Control::decode(&row);
        control
            .map(Some)
            .map_err(|error| self.unreadable(error.to_string()))
    }

    /// Waits until all commands that are applied here are on the disk, whether or not other masters
    /// can be reached.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(crate) async fn sync(&self) -> Result<(), Error> {
        let (answer, synced) = bounded(1);
        let sent = self.queue.send(Call::OfLog(OfLog::Sync(answer))).await;
        sent.map_err(|_| Error::Closed)?;
        // No deadline: the writer answers each call.
        synced.recv().await.map_err(|_| Error::Closed)?
    }

    /// Makes the store that of a master alone: it does not follow from a log any more.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) async fn leave_log(&self) -> Result<(), Error> {
        let (answer, left) = bounded(1);
        let step = OfLog::Apply {
            commands: Vec::new(),
            control: None,
            answer,
        };
        let sent = self.queue.send(Call::OfLog(step)).await;
        sent.map_err(|_| Error::Closed)?;
        // No deadline: the writer answers each call.
        left.recv().await.map_err(|_| Error::Closed)??;
        self.sync().await
    }
}

/// A store whose commands come from a log of several masters.
#[derive(Clone)]
pub(crate) struct Replica {
    store: Store,
}

/// A whole state that is sent or received.
pub(crate) enum Rows {
    /// The state as it was at one moment, and the row to be sent next.
    Sent {
        state: Snapshot,
        table: usize,
        after: Option<Slice>,
    },
    /// The state that has been received so far.
    Received(Import),
}

fn failed(error: Error) -> io::Error {
    io::Error::other(error.to_string())
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

impl Replica {
    /// Makes a store apply nothing but the commands of a log.
    pub(crate) fn new(store: &Store) -> Self {
        // Its own handle of the store must not hold the log that holds it.
        let store = Store {
            journal: Arc::default(),
            ..store.clone()
        };
        Self { store }
    }

    fn incoming(&self) -> PathBuf {
        self.store.shared.folder.join(INCOMING)
    }

    async fn send(&self, step: OfLog) -> io::Result<()> {
        let sent = self.store.queue.send(Call::OfLog(step)).await;
        sent.map_err(|_| failed(Error::Closed))
    }

    /// Returns the next rows of a state.
    fn piece(
        &self,
        state: &Snapshot,
        table: &mut usize,
        after: &mut Option<Slice>,
    ) -> io::Result<Option<Vec<u8>>> {
        let disk = self.store.disk().map_err(failed)?;
        let mut piece = Vec::new();
        while let Some(of) = Table::ALL.get(*table) {
            let from = after.as_ref().map_or_else(Vec::new, |key| {
                // The first key after this one.
                [key.as_ref(), &[0]].concat()
            });
            for row in state.range(disk.table(*of), from..) {
                let (key, value) = row.into_inner().map_err(|error| invalid(words(&error)))?;
                let number = u8::try_from(*table).unwrap_or(u8::MAX);
                put_row(&mut piece, number, &key, &value)
                    .ok_or_else(|| invalid("a row is longer than any that the store writes"))?;
                *after = Some(key);
                if piece.len() >= PIECE {
                    return Ok(Some(piece));
                }
            }
            *table += 1;
            *after = None;
        }
        Ok((!piece.is_empty()).then_some(piece))
    }
}

/// Adds the rows of a piece to a received state.
fn add(import: &mut Import, piece: &[u8]) -> io::Result<()> {
    let mut rest = piece;
    while let Some((mark, row)) = rest.split_first() {
        if *mark != ROW {
            return Err(invalid("a piece of a state has an unknown form"));
        }
        rest = row;
        let row = read_row(&mut |count| {
            let (part, left) = rest
                .split_at_checked(count)
                .ok_or_else(|| invalid("a piece of a state is cut"))?;
            rest = left;
            Ok(part.to_vec())
        })?;
        import.add(row).map_err(failed)?;
    }
    Ok(())
}

/// Removes what is left of a state that was not received completely.
fn clear(folder: &Path) -> io::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "only this daemon can change what is in the folder"
    )]
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Machine for Replica {
    type Outcome = Applied;
    type Rows = Rows;

    fn control(&self) -> io::Result<Option<Vec<u8>>> {
        let row = self.store.row(Table::Keys, at::CONTROL).map_err(failed)?;
        Ok(row.map(|row| row.to_vec()))
    }

    async fn apply(&self, commands: Vec<Proposal>, control: Vec<u8>) -> io::Result<Vec<Applied>> {
        let decoded = commands.iter().map(|proposal| {
            command_bytes::decode(&proposal.command).map_err(|error| invalid(error.to_string()))
        });
        let commands = decoded.collect::<io::Result<Vec<Command>>>()?;
        let (answer, applied) = bounded(1);
        self.send(OfLog::Apply {
            commands,
            control: Some(control),
            answer,
        })
        .await?;
        // No deadline: the writer answers each call, and fails those that are left when it ends.
        let applied = applied.recv().await.map_err(|_| failed(Error::Closed))?;
        applied.map_err(failed)
    }

    async fn sync(&self) -> io::Result<()> {
        self.store.sync().await.map_err(failed)
    }

    fn rows(&self) -> io::Result<Rows> {
        let disk = self.store.disk().map_err(failed)?;
        Ok(Rows::Sent {
            state: disk.database().snapshot(),
            table: 0,
            after: None,
        })
    }

    async fn next_piece(&self, rows: &mut Rows) -> io::Result<Option<Vec<u8>>> {
        match rows {
            Rows::Sent {
                state,
                table,
                after,
            } => self.piece(state, table, after),
            Rows::Received(_) => Err(invalid("a received state cannot be sent")),
        }
    }

    fn receive(&self) -> io::Result<Rows> {
        clear(&self.incoming())?;
        let import = Import::create(&self.incoming()).map_err(failed)?;
        Ok(Rows::Received(import))
    }

    async fn add_piece(&self, rows: &mut Rows, piece: Vec<u8>) -> io::Result<()> {
        match rows {
            Rows::Received(import) => add(import, &piece),
            Rows::Sent { .. } => Err(invalid("a state that is sent cannot receive rows")),
        }
    }

    fn received_control(&self, rows: &mut Rows) -> io::Result<Option<Vec<u8>>> {
        let Rows::Received(import) = rows else {
            return Err(invalid("a state that is sent was not received"));
        };
        import.flush().map_err(failed)?;
        let row = import.row(Table::Keys, at::CONTROL).map_err(failed)?;
        Ok(row.map(|row| row.to_vec()))
    }

    async fn install(&self, rows: Rows) -> io::Result<()> {
        let Rows::Received(mut import) = rows else {
            return Err(invalid("a state that is sent cannot be installed"));
        };
        elsewhere::keep_in(&self.store, &mut import).map_err(failed)?;
        import.finish().map_err(failed)?;
        let (answer, replaced) = bounded(1);
        self.send(OfLog::Replace {
            from: self.incoming(),
            answer,
        })
        .await?;
        // No deadline: as above.
        let replaced = replaced.recv().await.map_err(|_| failed(Error::Closed))?;
        replaced.map_err(failed)
    }
}

/// Puts the tables of a complete state in the place of those of a store. The old ones are kept until
/// the new ones have their name, so that a power cut leaves one of both.
pub(super) fn replace_tables(folder: &Path, from: &Path) -> io::Result<()> {
    let (tables, old) = (folder.join("tables"), folder.join("tables.old"));
    clear(&old)?;
    rustix::fs::rename(&tables, &old)?;
    rustix::fs::rename(from.join("tables"), &tables)?;
    disk::sync_folder(folder)?;
    clear(&old)?;
    clear(from)
}

/// Completes or undoes a replacement of tables that a power cut has interrupted.
pub(super) fn recover_tables(folder: &Path) -> io::Result<()> {
    let (tables, old) = (folder.join("tables"), folder.join("tables.old"));
    if old.exists() {
        match tables.exists() {
            true => clear(&old)?,
            false => rustix::fs::rename(&old, &tables)?,
        }
        disk::sync_folder(folder)?;
    }
    clear(&folder.join(INCOMING))
}
