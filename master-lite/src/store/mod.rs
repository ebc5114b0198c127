//! The master's store: everything that it must not lose, in one folder that one process has.
//!
//! Every change is a [`Command`], applied by one function and written by one thread, which syncs once for all that wait
//! ([`Store::apply`]). Reading ([`Store::key`], [`Store::events`], …) needs no turn. [`Store::watch`] gives new events to who waits for
//! them, and [`Store::retain`] lets the oldest go.
//!
//! When a write fails, whoever waited gets the error, and so does everybody after: nothing is written behind a gap. A command later than
//! a second after that tries again.

mod apply;
mod apply_keys;
mod batch;
mod command;
mod disk;
mod error;
mod expected;
mod holders;
mod read;
mod retention;
mod rows;
mod trim;
mod waiting;
mod watch;
mod writer;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use smol::channel::{self, Receiver, Sender};

pub(crate) use apply_keys::{DELETED, deleted_key};
pub(crate) use command::{Applied, Cache, Change, Claim, Command, KeyState, Origin, Refusal};
pub(crate) use error::Error;
pub(crate) use retention::Retention;
pub(crate) use rows::{Event, Job, Key};
pub(crate) use watch::{Seen, Watch};

use disk::Disk;
use expected::Recent;
use watch::Watchers;
use writer::{Answer, Call, Writer};

/// How much of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// How much of a table is held in memory before it is written as one; there are four tables.
    pub(crate) memtable_bytes: u64,
    /// How large a file of a table becomes.
    pub(crate) table_bytes: u64,
    /// How much of what was read from tables is kept in memory.
    pub(crate) cache_bytes: u64,
    /// How many commands may wait.
    pub(crate) queue_max: usize,
    /// How many commands are written at once.
    pub(crate) batch_max: usize,
    /// How much is written at once: another command is not added beyond this.
    pub(crate) batch_bytes: usize,
    /// How many events wait for one who watches.
    pub(crate) watch_max: usize,
    /// How large they may be together.
    pub(crate) watch_bytes: usize,
    /// How long to wait for another process that has the store.
    pub(crate) lock_wait: Duration,
}

/// How long a starting master waits for a command that has the store, and a command for a master that starts.
pub(crate) const LOCK_MAX: Duration = Duration::from_secs(10);

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
        }
    }
}

/// The store. A clone is another hand on the same one; it is closed, and on the disk, when the last one is dropped.
#[derive(Clone)]
pub(crate) struct Store {
    queue: Sender<Call>,
    shared: Arc<Shared>,
    _writer: Arc<Thread>,
}

/// A command that has its place in the queue.
#[derive(Debug)]
pub(crate) struct Begun(Receiver<Answer>);

impl Begun {
    /// What became of it: it is on the disk then.
    pub(crate) async fn done(&self) -> Result<Applied, Error> {
        // No deadline: the writer answers each call, and ends them all when it ends.
        self.0.recv().await.map_err(|_| Error::Closed)?
    }
}

/// What the writer and the readers have together.
struct Shared {
    folder: PathBuf,
    disk: RwLock<Option<Arc<Disk>>>,
    watchers: Watchers,
    recent: Recent,
    usage: Mutex<Usage>,
}

/// How much the store holds of what has a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    events: u64,
    events_bytes: u64,
    jobs_bytes: u64,
}

impl Usage {
    fn of(counts: &batch::Counts) -> Self {
        let (events, events_bytes) = counts.events.all();
        let (_, jobs_bytes) = counts.jobs.all();
        Self {
            events,
            events_bytes,
            jobs_bytes,
        }
    }
}

/// The writer's thread, which is waited for at the end.
struct Thread {
    queue: Sender<Call>,
    handle: Mutex<Option<JoinHandle<()>>>,
    /// Freed when the writer has ended.
    _lock: File,
}

impl Store {
    /// Opens the store in a folder, and makes it when it is not there.
    ///
    /// # Errors
    /// When another process has it, a later release wrote it, it is damaged, or the folder cannot be used.
    pub(crate) fn open(folder: &Path, limits: Limits) -> Result<Self, Error> {
        let lock = disk::prepare(folder, limits.lock_wait)?;
        let (queue, calls) = channel::bounded(limits.queue_max);
        let (opened, wait) = std::sync::mpsc::sync_channel(1);
        let of = folder.to_owned();
        let handle = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || match Shared::open(of, &limits) {
                Ok((shared, counts)) => {
                    let _ = opened.send(Ok(shared.clone()));
                    Writer::new(shared, limits, counts).run(&calls);
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                }
            })
            .map_err(|source| Error::io(folder, &source))?;
        // No deadline: the writer answers each call, and ends them all when it ends.
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
            _writer,
        })
    }

    /// Applies a command: when it answers, what was done is on the disk. A command whose answer nobody waits for any more is done all
    /// the same.
    pub(crate) async fn apply(&self, command: Command) -> Result<Applied, Error> {
        self.begin(command).await?.done().await
    }

    /// Puts a command in its place behind those before it; what becomes of it is asked for later. Only room in the queue is waited for.
    pub(crate) async fn begin(&self, command: Command) -> Result<Begun, Error> {
        let (answer, wait) = channel::bounded(1);
        self.send(command, Some(answer)).await?;
        Ok(Begun(wait))
    }

    /// The same for a thread that may wait.
    pub(crate) fn apply_blocking(&self, command: Command) -> Result<Applied, Error> {
        smol::block_on(self.apply(command))
    }

    /// Takes a command that nobody needs to wait for: it survives the end of the process at once, and a power cut soon. Only room in
    /// the queue is waited for.
    pub(crate) async fn later(&self, command: Command) -> Result<(), Error> {
        self.send(command, None).await
    }

    async fn send(&self, command: Command, answer: Option<Sender<Answer>>) -> Result<(), Error> {
        let sent = self.queue.send(Call { command, answer }).await;
        sent.map_err(|_| Error::Closed)
    }

    /// A place where new events arrive from now on.
    pub(crate) fn watch(&self) -> Watch {
        self.shared.watchers.watch()
    }

    fn disk(&self) -> Result<Arc<Disk>, Error> {
        let why = || "it is being opened again".to_owned();
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

impl Shared {
    fn open(folder: PathBuf, limits: &Limits) -> Result<(Arc<Self>, batch::Counts), Error> {
        disk::own_mask();
        let disk = Disk::open(&folder, limits)?;
        let counts = writer::counts(&disk).map_err(|error| Error::of(&folder, &error))?;
        let watchers = Watchers::new(counts.log.next, limits.watch_max, limits.watch_bytes);
        let shared = Self {
            usage: Mutex::new(Usage::of(&counts)),
            folder,
            disk: RwLock::new(Some(Arc::new(disk))),
            watchers,
            recent: Recent::default(),
        };
        Ok((Arc::new(shared), counts))
    }

    fn disk(&self) -> Option<Arc<Disk>> {
        let disk = self.disk.read().unwrap_or_else(PoisonError::into_inner);
        disk.clone()
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_disk(&self, disk: Option<Arc<Disk>>) -> Option<Arc<Disk>> {
        let mut place = self.disk.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut place, disk)
    }

    /// Closes the tables, once no reader has them.
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
                    return Err("it is being read all the time".to_owned());
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
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests;
