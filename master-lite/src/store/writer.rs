//! The only thread that writes: it takes all queued commands, applies them as one batch, syncs
//! once, and answers every caller.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use smol::channel::{Receiver, Sender};

use super::apply::apply;
use super::batch::{Batch, Counts};
use super::command::{Applied, Command};
use super::disk::{self, Disk};
use super::elsewhere::{self, Moves};
use super::error::{Error, words};
use super::holders::Sizes;
use super::rows::{Key, Log, Table, at, holder, holder_in_jobs};
use super::waiting::Waiting;
use super::{Limits, Shared};

/// The interval between two attempts to repair a broken store.
const RETRY: Duration = Duration::from_secs(1);
/// The maximum time for which readers may hold tables that are to be reopened.
const READERS_MAX: Duration = Duration::from_secs(2);

pub(super) type Answer = Result<Applied, Error>;

/// Something for the writer to do.
pub(super) enum Call {
    /// Applies a command of this master alone, and answers when it is on the disk.
    Own(OwnCommand),
    /// Follows a log on which several masters have agreed.
    OfLog(OfLog),
}

/// A step of a store that follows a log.
pub(super) enum OfLog {
    /// Applies commands, and writes the control row together with their changes; `None` removes that
    /// row. The answer does not wait for the disk.
    Apply {
        commands: Vec<Command>,
        control: Option<Vec<u8>>,
        answer: Sender<Result<Vec<Applied>, Error>>,
    },
    /// Waits until all changes are on the disk.
    Sync(Sender<Result<(), Error>>),
    /// Removes or restores data that other masters have, on this master alone. The answer is the
    /// number of changed rows, and does not wait for the disk.
    Move {
        moves: Moves,
        answer: Sender<Result<u64, Error>>,
    },
    /// Replaces all tables by those of another folder.
    Replace {
        from: std::path::PathBuf,
        answer: Sender<Result<(), Error>>,
    },
}

/// A command, and the channel for its result.
pub(super) struct OwnCommand {
    pub(super) command: Command,
    pub(super) answer: Option<Sender<Answer>>,
}

/// The next work of the writer.
enum Work {
    Own(Vec<OwnCommand>),
    OfLog(OfLog),
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    queue: Receiver<Call>,
    limits: Limits,
    counts: Counts,
    /// True if the last batch was written but not synced.
    unsynced: bool,
    broken: Option<Broken>,
    /// The call after the last commands that were taken from the queue.
    next: Option<Call>,
}

struct Broken {
    why: String,
    tried: Instant,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        queue: Receiver<Call>,
        limits: Limits,
        counts: Counts,
    ) -> Self {
        Self {
            shared,
            queue,
            limits,
            counts,
            unsynced: false,
            broken: None,
            next: None,
        }
    }

    /// Runs until all senders are closed.
    pub(super) fn run(mut self) {
        while let Some(work) = self.work() {
            match work {
                Work::Own(calls) => self.take(calls),
                Work::OfLog(step) => self.follow_log(step),
            }
        }
        self.shared.watchers.close();
        self.shared.put_disk(None);
    }

    /// Returns the next work, in the order of the queue, or `None` when all senders are closed. Every
    /// command reaches the tables through this function, and through no other.
    fn work(&mut self) -> Option<Work> {
        let mut own = Vec::new();
        loop {
            let next = match self.next.take() {
                Some(next) => next,
                // No deadline: commands arrive at any time.
                None if own.is_empty() => self.queue.recv_blocking().ok()?,
                None => match self.queue.try_recv() {
                    Ok(next) => next,
                    Err(_) => return Some(Work::Own(own)),
                },
            };
            match next {
                Call::Own(call) => own.push(call),
                Call::OfLog(step) if own.is_empty() => return Some(Work::OfLog(step)),
                call => {
                    self.next = Some(call);
                    return Some(Work::Own(own));
                }
            }
            if own.len() >= self.limits.batch_max {
                return Some(Work::Own(own));
            }
        }
    }

    fn take(&mut self, calls: Vec<OwnCommand>) {
        let mut calls = calls.into_iter();
        while !calls.as_slice().is_empty() {
            if let Err(why) = self.mended() {
                return calls.for_each(|call| self.fail(call, &why));
            }
            let Some(disk) = self.shared.disk() else {
                return;
            };
            self.write(&disk, &mut calls);
        }
    }

    fn fail(&self, call: OwnCommand, why: &str) {
        answer(call.answer, Err(self.error(why)));
    }

    fn error(&self, why: &str) -> Error {
        Error::Broken {
            folder: self.shared.folder.clone(),
            why: why.to_owned(),
        }
    }

    /// Writes as many commands as fit into one batch.
    fn write(&mut self, disk: &Disk, calls: &mut std::vec::IntoIter<OwnCommand>) {
        // Any failure breaks the store. A broken store is counted again before the next write.
        let counts = std::mem::replace(&mut self.counts, Counts::empty());
        let mut batch = Batch::new(disk, counts);
        let mut answers = Vec::with_capacity(calls.as_slice().len());
        let mut why = None;
        while why.is_none()
            && batch.bytes() < self.limits.batch_bytes
            && let Some(call) = calls.next()
        {
            let applied = apply(&mut batch, call.command);
            why = applied.as_ref().err().cloned();
            answers.push((call.answer, applied.unwrap_or(Applied::Done)));
        }
        let events = std::mem::take(&mut batch.events);
        let is_durable = !events.is_empty() || answers.iter().any(|(answer, _)| answer.is_some());
        let written = match why {
            Some(why) => Err(why),
            None => {
                let has_more = is_durable && self.unsynced;
                let written = batch.commit(is_durable, has_more);
                written.map_err(|error| words(&error))
            }
        };
        match written {
            Ok((counts, changes)) => {
                self.shared.sizes().apply(&changes);
                self.counts = counts;
            }
            Err(why) => {
                for (waits, _) in answers {
                    answer(waits, Err(self.error(&why)));
                }
                return self.broke(why);
            }
        }
        self.unsynced = !is_durable;
        self.shared.watchers.tell(&events);
        for (waits, applied) in answers {
            answer(waits, Ok(applied));
        }
    }

    /// Does what a log of several masters wants.
    fn follow_log(&mut self, step: OfLog) {
        match step {
            OfLog::Apply {
                commands,
                control,
                answer,
            } => {
                let applied = self.apply_agreed(commands, control);
                let applied = applied.map_err(|why| self.error(&why));
                value::channel::if_open(answer.try_send(applied));
            }
            OfLog::Sync(answer) => {
                let synced = self.sync().map_err(|why| self.error(&why));
                value::channel::if_open(answer.try_send(synced));
            }
            OfLog::Move { moves, answer } => {
                let moved = self.moved(moves).map_err(|why| self.error(&why));
                value::channel::if_open(answer.try_send(moved));
            }
            OfLog::Replace { from, answer } => {
                let replaced = self.replace(&from).map_err(|why| self.error(&why));
                value::channel::if_open(answer.try_send(replaced));
            }
        }
    }

    /// Applies commands as one batch, with the control row.
    fn apply_agreed(
        &mut self,
        commands: Vec<Command>,
        control: Option<Vec<u8>>,
    ) -> Result<Vec<Applied>, String> {
        self.mended()?;
        let disk = self.shared.disk().ok_or("it is being reopened")?;
        let counts = std::mem::replace(&mut self.counts, Counts::empty());
        let mut batch = Batch::new(&disk, counts);
        let mut keys = Vec::new();
        let applied: Result<Vec<Applied>, String> = commands
            .into_iter()
            .map(|command| {
                keys.extend(command.keys());
                let applied = apply(&mut batch, command)?;
                keys.extend(applied.displaced());
                Ok(applied)
            })
            .collect();
        match control {
            Some(control) => batch.put(Table::Keys, at::CONTROL.to_vec(), control),
            None => batch.remove(Table::Keys, at::CONTROL.to_vec()),
        }
        let events = std::mem::take(&mut batch.events);
        let applied = self.written_behind(batch, applied)?;
        self.shared.watchers.tell(&events);
        self.shared.key_changes.add(keys);
        Ok(applied)
    }

    /// Writes a batch without waiting for the disk, unless its commands failed. Any failure breaks the
    /// store.
    fn written_behind<T>(
        &mut self,
        batch: Batch<'_>,
        applied: Result<T, String>,
    ) -> Result<T, String> {
        let written = applied.and_then(|applied| {
            let written = batch.commit(false, false).map_err(|error| words(&error))?;
            Ok((applied, written))
        });
        let (applied, (counts, changes)) = written.map_err(|why| self.still(why))?;
        self.shared.sizes().apply(&changes);
        self.counts = counts;
        self.unsynced = true;
        Ok(applied)
    }

    fn moved(&mut self, moves: Moves) -> Result<u64, String> {
        self.mended()?;
        let disk = self.shared.disk().ok_or("it is being reopened")?;
        let counts = std::mem::replace(&mut self.counts, Counts::empty());
        let mut batch = Batch::new(&disk, counts);
        let moved = elsewhere::moved(&mut batch, moves);
        self.written_behind(batch, moved)
    }

    fn sync(&mut self) -> Result<(), String> {
        self.mended()?;
        let disk = self.shared.disk().ok_or("it is being reopened")?;
        let synced = disk.database().persist(fjall::PersistMode::SyncAll);
        synced.map_err(|error| words(&error))?;
        self.unsynced = false;
        Ok(())
    }

    /// Replaces all tables. Readers wait meanwhile. If that fails, the next command repairs the store.
    fn replace(&mut self, from: &std::path::Path) -> Result<(), String> {
        let shared = self.shared.clone();
        shared.is_replaced.store(true, Ordering::Release);
        let replaced = self.replace_tables(from);
        shared.is_replaced.store(false, Ordering::Release);
        replaced.map_err(|why| self.still(why))
    }

    fn replace_tables(&mut self, from: &std::path::Path) -> Result<(), String> {
        let folder = &self.shared.folder;
        self.shared.free_disk(READERS_MAX)?;
        let replaced = super::replica::replace_tables(folder, from);
        replaced.map_err(|error| error.to_string())?;
        let disk = Disk::open(folder, &self.limits).map_err(|error| error.to_string())?;
        self.adopt(disk)
    }

    /// Counts the contents of reopened tables, and gives these to all readers. Events that were
    /// stored meanwhile are reported as missed.
    fn adopt(&mut self, disk: Disk) -> Result<(), String> {
        let (counts, sizes) = counts(&disk).map_err(|error| words(&error))?;
        self.counts = counts;
        *self.shared.sizes() = sizes;
        self.shared.put_disk(Some(Arc::new(disk)));
        self.shared.watchers.catch_up(self.counts.log.next);
        self.shared.key_changes.add_all();
        Ok(())
    }

    fn broke(&mut self, why: String) {
        let tried = Instant::now();
        self.broken = Some(Broken { why, tried });
    }

    /// Repairs a broken store if it is time to, but not one that is closed. Returns why nothing can be
    /// written, if so.
    fn mended(&mut self) -> Result<(), String> {
        let Some(broken) = &mut self.broken else {
            return Ok(());
        };
        if broken.tried.elapsed() < RETRY || self.queue.is_closed() {
            return Err(broken.why.clone());
        }
        broken.tried = Instant::now();
        match self.mend() {
            Ok(()) => {
                self.broken = None;
                Ok(())
            }
            Err(why) => Err(self.still(why)),
        }
    }

    /// Records the newest reason, and the time of this attempt.
    fn still(&mut self, why: String) -> String {
        self.broke(why.clone());
        why
    }

    fn mend(&mut self) -> Result<(), String> {
        let folder = &self.shared.folder;
        disk::probe(folder)?;
        self.shared.free_disk(READERS_MAX)?;
        let disk = disk::mend(folder, &self.limits, || self.queue.is_closed())?;
        self.adopt(disk)
    }
}

/// Sends the result to the caller, which may have stopped waiting.
fn answer(waits: Option<Sender<Answer>>, answer: Answer) {
    if let Some(waits) = waits {
        value::channel::if_open(waits.try_send(answer));
    }
}

/// Counts the contents of the tables.
pub(super) fn counts(disk: &Disk) -> Result<(Counts, Sizes), fjall::Error> {
    let keys = disk.table(Table::Keys);
    let log = keys.get(at::LOG)?;
    let log = log.map_or(Some(Log::EMPTY), |bytes| Log::from_row(&bytes));
    let mut waiting = Waiting::default();
    for entry in keys.prefix(b"i") {
        let (key, value) = entry.into_inner()?;
        let key = at::id(&key, 1).and_then(|id| Key::from_row(id, &value));
        waiting.add(&key.ok_or(fjall::Error::Unrecoverable)?);
    }
    let log = log.ok_or(fjall::Error::Unrecoverable)?;
    let mut sizes = Sizes::default();
    for entry in disk.table(Table::Events).range(at::event(log.first)..) {
        let (_, value) = entry.into_inner()?;
        sizes.events.add(holder(&value), value.len());
    }
    for prefix in [b"j", b"r"] {
        for entry in disk.table(Table::Jobs).prefix(prefix) {
            let (key, value) = entry.into_inner()?;
            let holder = holder_in_jobs(&key, &value);
            sizes.jobs.add(holder, value.len());
        }
    }
    Ok((Counts { log, waiting }, sizes))
}
