//! [`Medium`]: where the rows of logs are, and [`Disk`], which is a folder of fjall.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use smol::channel::{Receiver, Sender, bounded};

use super::damage::{self, Acknowledged, Unfinished};

/// A change of the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The row gets this value.
    Put(Vec<u8>, Vec<u8>),
    /// The rows from a key up to, and without, another one are removed.
    Remove(Vec<u8>, Vec<u8>),
}

/// Is called once, when changes are on the disk or cannot be written.
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// The rows of all logs of a master. Changes reach the disk in the order in which they were given.
pub trait Medium: Clone + Send + Sync + 'static {
    /// Returns a row that is on the disk.
    ///
    /// # Errors
    /// When it cannot be read.
    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>>;

    /// Returns the rows from a key up to, and without, another one, until they have `bytes` in all:
    /// at least one, if there is one.
    ///
    /// # Errors
    /// When they cannot be read.
    fn rows(&self, from: &[u8], to: &[u8], bytes: usize) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>>;

    /// Returns the last row between two keys.
    ///
    /// # Errors
    /// When it cannot be read.
    fn last(&self, from: &[u8], to: &[u8]) -> io::Result<Option<(Vec<u8>, Vec<u8>)>>;

    /// Writes changes at once, and calls `done` when they are on the disk. Changes that were given
    /// one after the other can become durable together. After a failure, all further changes fail.
    fn write(&self, changes: Vec<Change>, done: Done);
}

/// The maximum number of writes that wait for the disk.
const WRITES_MAX: usize = 1024;
/// The row with the number of the last batch. Rows of groups have longer keys.
const NUMBER: &[u8] = b"n";
/// The maximum number of writes with one sync.
const TOGETHER_MAX: usize = 256;

struct Write {
    changes: Vec<Change>,
    done: Done,
}

/// A folder of fjall, and the thread that writes it.
#[derive(Clone)]
pub struct Disk {
    rows: Keyspace,
    queue: Sender<Write>,
    _writer: Arc<Writer>,
}

/// The thread that writes. Dropping this joins it.
struct Writer {
    queue: Sender<Write>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}

fn io(error: fjall::Error) -> io::Error {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => error,
        fjall::Error::Locked | fjall::Error::Poisoned => io::Error::other(error.to_string()),
        damage => io::Error::new(io::ErrorKind::InvalidData, damage.to_string()),
    }
}

impl Disk {
    /// Opens the logs in a folder, and creates it if it does not exist. Only one process may use it.
    ///
    /// # Errors
    /// When it cannot be used, or is damaged.
    pub fn open(folder: &Path) -> io::Result<Self> {
        // A batch is acknowledged after its sync, so one that is lost is missed by its number.
        damage::check(folder, Unfinished::Remove)?;
        let database = Database::builder(folder)
            .cache_size(1 << 20)
            .worker_threads(1)
            .max_cached_files(Some(16))
            .max_journaling_size(64 << 20)
            .manual_journal_persist(true)
            .open()
            .map_err(|error| damage::in_folder(folder, io(error)))?;
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(4 << 20)
                .manual_journal_persist(true)
        };
        let rows = database.keyspace("log", options).map_err(io)?;
        let number = rows.get(NUMBER).map_err(io)?;
        let number = number.and_then(|row| row.as_ref().try_into().ok());
        let mut acknowledged = Acknowledged::open(folder, number.map_or(0, u64::from_be_bytes))?;
        let (queue, writes) = bounded(WRITES_MAX);
        let own = rows.clone();
        let thread = std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_all(&database, &own, &mut acknowledged, &writes))?;
        let writer = Writer {
            queue: queue.clone(),
            thread: Some(thread),
        };
        Ok(Self {
            rows,
            queue,
            _writer: Arc::new(writer),
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            #[expect(
                clippy::let_underscore_must_use,
                reason = "a panic in the thread has been reported already"
            )]
            let _ = thread.join();
        }
    }
}

impl Medium for Disk {
    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let row = self.rows.get(key).map_err(io)?;
        Ok(row.map(|row| row.to_vec()))
    }

    fn rows(&self, from: &[u8], to: &[u8], bytes: usize) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let (mut rows, mut size) = (Vec::new(), 0);
        for row in self.rows.range(from..to) {
            let (key, value) = row.into_inner().map_err(io)?;
            size += value.len();
            rows.push((key.to_vec(), value.to_vec()));
            if size >= bytes {
                break;
            }
        }
        Ok(rows)
    }

    fn last(&self, from: &[u8], to: &[u8]) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        let last = self.rows.range(from..to).next_back();
        let last = last.map(|row| row.into_inner().map_err(io)).transpose()?;
        Ok(last.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }

    fn write(&self, changes: Vec<Change>, done: Done) {
        // The writer never waits for the sender, so this waits for the disk at most.
        if let Err(refused) = self.queue.send_blocking(Write { changes, done }) {
            let Write { done, .. } = refused.0;
            done(Err(io::Error::other("the log is closed")));
        }
    }
}

/// Writes until all senders are gone.
fn write_all(
    database: &Database,
    rows: &Keyspace,
    acknowledged: &mut Acknowledged,
    queue: &Receiver<Write>,
) {
    let mut failed: Option<String> = None;
    // No deadline: writes arrive at any time.
    while let Ok(first) = queue.recv_blocking() {
        let mut writes = vec![first];
        while writes.len() < TOGETHER_MAX
            && let Ok(next) = queue.try_recv()
        {
            writes.push(next);
        }
        let (changes, dones): (Vec<_>, Vec<_>) = writes
            .into_iter()
            .map(|write| (write.changes, write.done))
            .unzip();
        if failed.is_none() {
            let changes = changes.into_iter().flatten();
            let written = write_together(database, rows, acknowledged.next(), changes);
            let written = written.and_then(|()| acknowledged.acknowledge());
            failed = written.err().map(|error| error.to_string());
        }
        for done in dones {
            done(match &failed {
                None => Ok(()),
                Some(why) => Err(io::Error::other(why.clone())),
            });
        }
    }
}

/// Writes changes with one sync, and the number of this batch.
fn write_together(
    database: &Database,
    rows: &Keyspace,
    number: u64,
    changes: impl Iterator<Item = Change>,
) -> io::Result<()> {
    let mut values: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
    for change in changes {
        match change {
            Change::Put(key, value) => {
                values.insert(key, Some(value));
            }
            Change::Remove(from, to) => {
                for row in rows.range(from.clone()..to.clone()) {
                    let (key, _) = row.into_inner().map_err(io)?;
                    values.insert(key.to_vec(), None);
                }
                for (_, value) in values.range_mut(from..to) {
                    *value = None;
                }
            }
        }
    }
    let mut batch = database.batch().durability(Some(PersistMode::SyncAll));
    for (key, value) in values {
        match value {
            Some(value) => batch.insert(rows, key, value),
            None => batch.remove(rows, key),
        }
    }
    batch.insert(rows, NUMBER, number.to_be_bytes());
    batch.commit().map_err(io)
}
