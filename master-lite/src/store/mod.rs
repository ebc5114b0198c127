//! The master's store: all durable state of the master, in one folder that only one process uses at
//! a time.
//!
//! Every change is a [`Command`]. One function applies the commands and one thread writes them,
//! with one sync for all commands that wait ([`Store::apply`]). Reads ([`Store::key`],
//! [`Store::events`], …) do not go through that queue. [`Store::watch`] delivers new events to
//! tasks that wait for them, and [`Store::retain`] removes the oldest events and jobs.
//!
//! When a write fails, every command that waits gets the error, and so does every later one:
//! nothing is written after a gap. A command that comes more than a second after the failure
//! triggers a new attempt.

mod apply;
mod apply_keys;
mod apply_removals;
mod apply_rings;
mod apply_runs;
pub(crate) mod backup;
mod batch;
pub(crate) mod clock;
mod command;
mod command_bytes;
mod disk;
pub(crate) mod elsewhere;
mod error;
mod expected;
mod holders;
mod key_changes;
mod read;
pub(crate) mod replica;
mod retention;
mod rows;
mod runs;
mod trim;
mod waiting;
mod watch;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cluster::raft::damage::{self, Unfinished};
use smol::channel::{self, Receiver, Sender};

pub(crate) use apply_keys::{DELETED, deleted_key};
pub(crate) use clock::{now_ms, now_s};
pub(crate) use command::{
    Applied, Cache, Change, Claim, Command, KeyState, Origin, Refusal, RunOwner,
};
pub(crate) use error::Error;
pub(crate) use key_changes::ChangedKeys;
pub(crate) use retention::Retention;
pub(crate) use rows::{Event, Job, Key, NAME_MAX, Returned};
pub(crate) use watch::{Seen, Watch};

use disk::Disk;
use expected::Recent;
use holders::Sizes;
use key_changes::KeyChanges;
use trim::Searched;
use watch::Watchers;
use writer::{Answer, Call, OwnCommand, Writer};

/// The limits of a store on memory, queues and waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The size at which a table's data in memory is written to a file. There are four tables.
    pub(crate) memtable_bytes: u64,
    /// The target size of one file of a table.
    pub(crate) table_bytes: u64,
    /// The maximum number of bytes read from tables that are cached in memory.
    pub(crate) cache_bytes: u64,
    /// The maximum number of commands that wait in the queue.
    pub(crate) queue_max: usize,
    /// The maximum number of commands in one batch.
    pub(crate) batch_max: usize,
    /// The size in bytes at which a batch takes no further command.
    pub(crate) batch_bytes: usize,
    /// The maximum number of events that wait for one watcher.
    pub(crate) watch_max: usize,
    /// The maximum total size of the events that wait for one watcher.
    pub(crate) watch_bytes: usize,
    /// The maximum time to wait for another process that holds the store's lock.
    pub(crate) lock_wait: Duration,
    /// The treatment of what follows the last batch that is complete.
    pub(crate) unfinished: Unfinished,
}

/// The maximum time that a starting master waits for a command that holds the store, and that a
/// command waits for a starting master.
pub(crate) const LOCK_MAX: Duration = Duration::from_secs(10);

/// The maximum number of commands that [`Store::apply_in_batches`] applies as one, so that no command
/// grows with the store and other commands are applied in between.
const TOGETHER_MAX: usize = 1024;

/// The maximum time for which a reader waits while the tables are being replaced.
const REPLACED_MAX: Duration = Duration::from_secs(10);

impl Default for Limits {
    fn default() -> Self {
        Self {
            memtable_bytes: 1 << 20,
            table_bytes: 4 << 20,
            cache_bytes: 2 << 20,
            queue_max: 1024,
            batch_max: 1024,
            batch_bytes: 1 << 20,
            watch_max: 1024,
            watch_bytes: 1 << 20,
            lock_wait: Duration::ZERO,
            unfinished: Unfinished::RemoveIfCut,
        }
    }
}

/// A handle of the store. Clones share one store. When the last one is dropped, the store is closed
/// and everything is on the disk.
#[derive(Clone)]
pub(crate) struct Store {
    queue: Sender<Call>,
    shared: Arc<Shared>,
    /// The log from which all commands come, if several masters have this state.
    journal: Arc<OnceLock<replica::Journal>>,
    /// The condition under which the commands of this handle count, if there is one.
    fence: Option<replica::Fence>,
    _writer: Arc<Thread>,
}

/// A command that is in the queue.
#[derive(Debug)]
pub(crate) struct PendingWrite(Receiver<Answer>);

impl PendingWrite {
    /// Returns the command's result, after its changes are on the disk.
    pub(crate) async fn done(&self) -> Result<Applied, Error> {
        // No deadline: the writer answers each call, and fails those that are left when it ends.
        self.0.recv().await.map_err(|_| Error::Closed)?
    }
}

/// The state that the writer and the readers share.
struct Shared {
    folder: PathBuf,
    disk: RwLock<Option<Arc<Disk>>>,
    /// True while the tables are being replaced.
    is_replaced: AtomicBool,
    watchers: Watchers,
    recent: Recent,
    /// The sizes of the holders' rows on the disk.
    sizes: Mutex<Sizes>,
    searched: Mutex<Searched>,
    key_changes: KeyChanges,
    /// The number of times that this master has removed tokens.
    tokens_removed: AtomicU64,
    /// The source of returns whose data is not here.
    elsewhere: OnceLock<Arc<dyn elsewhere::Elsewhere>>,
}

/// The writer's thread. Dropping this joins it.
struct Thread {
    queue: Sender<Call>,
    handle: Mutex<Option<JoinHandle<()>>>,
    /// The store's lock, which is released after the writer has ended.
    _lock: disk::Lock,
}

impl Store {
    /// Opens the store in a folder, and creates it if it does not exist.
    ///
    /// # Errors
    /// Returns an error if another process holds the store, a later release wrote it, it is
    /// damaged, or the folder cannot be used.
    pub(crate) fn open(folder: &Path, limits: Limits) -> Result<Self, Error> {
        let lock = disk::prepare(folder, limits.lock_wait)?;
        replica::recover_tables(folder).map_err(|source| Error::io(folder, &source))?;
        let checked = damage::check(&folder.join("tables"), limits.unfinished);
        checked.map_err(|source| Error::of_check(folder, &source))?;
        let (queue, calls) = channel::bounded(limits.queue_max);
        let (opened, wait) = std::sync::mpsc::sync_channel(1);
        let of = folder.to_owned();
        let handle = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || match Shared::open(of, &limits) {
                Ok((shared, counts)) => {
                    value::channel::if_open(opened.send(Ok(shared.clone())));
                    Writer::new(shared, calls, limits, counts).run();
                }
                Err(error) => value::channel::if_open(opened.send(Err(error))),
            })
            .map_err(|source| Error::io(folder, &source))?;
        // No deadline: the thread sends one result, and the channel closes if it ends without one.
        let shared = wait.recv().map_err(|_| Error::Closed)??;
        let handle = Mutex::new(Some(handle));
        let _writer = Arc::new(Thread {
            queue: queue.clone(),
            handle,
            _lock: lock,
        });
        Ok(Self {
            queue,
            shared,
            journal: Arc::default(),
            fence: None,
            _writer,
        })
    }

    /// Applies a command. When this returns, the changes are on the disk. The command is applied
    /// even if the caller stops waiting for the result.
    pub(crate) async fn apply(&self, command: Command) -> Result<Applied, Error> {
        self.begin(command).await?.done().await
    }

    /// Applies changes as one, and waits until they are durable. Returns an error if they are
    /// refused.
    pub(crate) async fn apply_all(&self, commands: Vec<Command>) -> Result<(), String> {
        let applied = self.apply(Command::All(commands)).await;
        let applied = applied.map_err(|error| error.to_string())?;
        let refusal = applied.rejection();
        refusal.map_or(Ok(()), |refusal| Err(refusal.to_string()))
    }

    /// Applies changes that are independent of each other, at most [`TOGETHER_MAX`] as one, and waits
    /// until they are durable. If one is refused, those after it are not applied, and the error is
    /// returned.
    pub(crate) async fn apply_in_batches(&self, commands: Vec<Command>) -> Result<(), String> {
        for batch in batches(commands) {
            self.apply_all(batch).await?;
        }
        Ok(())
    }

    /// Queues a command behind all earlier ones. The returned value waits for its result. This
    /// function waits only for room in the queue.
    pub(crate) async fn begin(&self, command: Command) -> Result<PendingWrite, Error> {
        let (answer, wait) = channel::bounded(1);
        self.send(command, Some(answer)).await?;
        Ok(PendingWrite(wait))
    }

    /// Like [`Store::apply`], for a thread that may block.
    pub(crate) fn apply_blocking(&self, command: Command) -> Result<Applied, Error> {
        smol::block_on(self.apply(command))
    }

    /// Queues a command whose result no caller needs. Once written, it survives the end of the
    /// process; it survives a power cut only after the next sync. This function waits only for room
    /// in the queue.
    pub(crate) async fn later(&self, command: Command) -> Result<(), Error> {
        self.send(command, None).await
    }

    /// Waits until all earlier commands of this handle are applied here and durable. In a cluster,
    /// a majority of the masters has them too.
    ///
    /// # Errors
    /// When that did not happen in time, or the handle's commands are void.
    pub(crate) async fn barrier(&self) -> Result<(), Error> {
        self.apply(Command::All(Vec::new())).await.map(|_| ())
    }

    async fn send(&self, command: Command, answer: Option<Sender<Answer>>) -> Result<(), Error> {
        if let Some(journal) = self.journal.get() {
            return replica::propose(journal, &command, self.fence.as_ref(), answer).await;
        }
        let call = Call::Own(OwnCommand { command, answer });
        let sent = self.queue.send(call).await;
        sent.map_err(|_| Error::Closed)
    }

    /// Returns a watch that receives all new events from now on.
    pub(crate) fn watch(&self) -> Watch {
        self.shared.watchers.watch()
    }

    /// Returns a number that changes whenever this master removes tokens.
    pub(crate) fn tokens_removed(&self) -> u64 {
        self.shared.tokens_removed.load(Ordering::Acquire)
    }

    /// Notes that this master has removed a token.
    pub(crate) fn note_removed_token(&self) {
        self.shared.tokens_removed.fetch_add(1, Ordering::AcqRel);
    }

    fn disk(&self) -> Result<Arc<Disk>, Error> {
        let why = || "it is being reopened".to_owned();
        self.shared.disk().ok_or_else(|| Error::Broken {
            folder: self.shared.folder.clone(),
            why: why(),
        })
    }

    fn unreadable(&self, what: String) -> Error {
        Error::Damaged {
            folder: self.shared.folder.clone(),
            what,
        }
    }
}

/// Splits commands into batches of at most [`TOGETHER_MAX`], in order.
fn batches(commands: Vec<Command>) -> impl Iterator<Item = Vec<Command>> {
    let mut commands = commands.into_iter();
    std::iter::from_fn(move || {
        let batch: Vec<Command> = commands.by_ref().take(TOGETHER_MAX).collect();
        (!batch.is_empty()).then_some(batch)
    })
}

impl Shared {
    fn open(folder: PathBuf, limits: &Limits) -> Result<(Arc<Self>, batch::Counts), Error> {
        disk::own_mask();
        let disk = Disk::open(&folder, limits)?;
        let counted = writer::counts(&disk);
        let (counts, sizes) = counted.map_err(|error| Error::from_fjall(&folder, &error))?;
        let watchers = Watchers::new(counts.log.next, limits.watch_max, limits.watch_bytes);
        let shared = Self {
            folder,
            disk: RwLock::new(Some(Arc::new(disk))),
            is_replaced: AtomicBool::new(false),
            watchers,
            recent: Recent::default(),
            sizes: Mutex::new(sizes),
            searched: Mutex::default(),
            key_changes: KeyChanges::default(),
            tokens_removed: AtomicU64::new(0),
            elsewhere: OnceLock::new(),
        };
        Ok((Arc::new(shared), counts))
    }

    /// Returns the tables. While they are being replaced, waits until they are readable again, since
    /// that takes a moment only. Returns `None` if the store is closed or cannot be read.
    fn disk(&self) -> Option<Arc<Disk>> {
        let until = Instant::now() + REPLACED_MAX;
        loop {
            let disk = self.disk.read().unwrap_or_else(PoisonError::into_inner);
            let is_final = disk.is_some() || !self.is_replaced.load(Ordering::Acquire);
            if is_final || Instant::now() > until {
                return disk.clone();
            }
            drop(disk);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Locks the sizes, which the writer changes after each batch: hold them for a moment only.
    fn sizes(&self) -> MutexGuard<'_, Sizes> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_disk(&self, disk: Option<Arc<Disk>>) -> Option<Arc<Disk>> {
        let mut place = self.disk.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut place, disk)
    }

    /// Closes the tables as soon as no reader uses them. Fails if readers use them longer than
    /// `wait`.
    fn free_disk(&self, wait: Duration) -> Result<(), String> {
        let until = Instant::now() + wait;
        let Some(mut disk) = self.put_disk(None) else {
            return Ok(());
        };
        loop {
            match Arc::try_unwrap(disk) {
                Ok(disk) => {
                    drop(disk);
                    return Ok(());
                }
                Err(held) if Instant::now() > until => {
                    self.put_disk(Some(held));
                    return Err("it has open readers all the time".to_owned());
                }
                Err(held) => disk = held,
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.queue.close();
        let mut handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = handle.take() {
            #[expect(
                clippy::let_underscore_must_use,
                reason = "a panic in the thread has been reported already"
            )]
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests;
