//! The store of a spool: fjall, configured for a small machine.
//!
//! It has one table, with each record under its sequence number. Number 0, which no record has,
//! holds the progress of the spool. Writes go to fjall's journal, which fjall does not shorten
//! before it has 64 MB. [`Store::written`] returns how much the journal has taken, so that the
//! spool can begin a new store before that.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fjall::config::{BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, PinningPolicy};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode, UserValue};

use super::{Error, Mark};
use value::read::or_log;

/// True if records outlive the daemon.
pub(super) const LASTS: bool = true;
/// The maximum number of bytes that are kept in memory before they are written to a table file.
const MEMORY: u64 = 256 << 10;
/// The bytes of table blocks that are kept in memory.
const CACHE: u64 = 64 << 10;
/// The number of table files that are kept open.
const FILES: usize = 16;

impl Mark {
    fn bytes(self) -> [u8; 16] {
        (u128::from(self.acked) << 64 | u128::from(self.last)).to_be_bytes()
    }

    fn read(value: &[u8]) -> Option<Self> {
        let both = u128::from_be_bytes(value.try_into().ok()?);
        Some(Self {
            acked: (both >> 64) as u64,
            last: both as u64,
        })
    }
}

/// An open store.
pub(super) struct Store {
    /// The spool's folder, for error messages.
    folder: PathBuf,
    table: Keyspace,
    database: Database,
    written: u64,
}

/// Returns the disk space that a store's journals take, in bytes. Their lengths do not show it: each
/// is created with 64 MB that are empty.
fn journals(path: &Path) -> u64 {
    let journal = |entry: std::fs::DirEntry| {
        let is_one = entry.file_name().to_string_lossy().ends_with(".jnl");
        is_one.then(|| entry.metadata().ok()).flatten()
    };
    let entries = or_log(path, machine::fs::raw::entries(path));
    let entries = entries.into_iter().flatten();
    entries
        .filter_map(journal)
        .map(|found| found.blocks() * 512)
        .sum()
}

/// Records to write and remove at once.
pub(super) struct Batch {
    batch: OwnedWriteBatch,
    table: Keyspace,
    bytes: u64,
}

/// The bytes that a record takes in the journal in addition to its value: markers, key, checksum.
const OVERHEAD: u64 = 64;

impl Batch {
    /// Writes a record.
    pub(super) fn put(&mut self, sequence: u64, value: Vec<u8>) {
        self.bytes += value.len() as u64 + OVERHEAD;
        self.batch
            .insert(&self.table, sequence.to_be_bytes(), value);
    }

    /// Removes a record.
    pub(super) fn remove(&mut self, sequence: u64) {
        self.bytes += OVERHEAD;
        self.batch.remove(&self.table, sequence.to_be_bytes());
    }

    /// Returns its approximate size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the progress of the spool.
    pub(super) fn mark(&mut self, mark: Mark) {
        self.put(0, mark.bytes().to_vec());
    }
}

fn database(path: &Path) -> fjall::Result<Database> {
    Database::builder(path)
        .worker_threads(1)
        .cache_size(CACHE)
        .max_cached_files(Some(FILES))
        .manual_journal_persist(true)
        .open()
}

fn options() -> KeyspaceCreateOptions {
    // Records are only read in order: filters would waste memory.
    let none = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(0.0));
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMORY)
        .manual_journal_persist(true)
        .filter_policy(FilterPolicy::all(none))
        .index_block_pinning_policy(PinningPolicy::all(false))
        .filter_block_pinning_policy(PinningPolicy::all(false))
}

impl Store {
    /// Returns true if a store was created there.
    pub(super) fn is_at(path: &Path) -> bool {
        path.join("version").is_file()
    }

    /// Opens the store at `path`, or creates it there.
    pub(super) fn open(folder: &Path, path: &Path) -> Result<Self, Error> {
        let database = database(path).map_err(Error::store(folder))?;
        let table = database.keyspace("records", options);
        Ok(Self {
            folder: folder.to_owned(),
            table: table.map_err(Error::store(folder))?,
            database,
            written: journals(path),
        })
    }

    /// Returns approximately how many bytes went into the journal.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Returns the progress of the spool, or `None` if it was never written.
    pub(super) fn marked(&self) -> Result<Option<Mark>, Error> {
        let value = self.table.get(0_u64.to_be_bytes());
        let Some(value) = value.map_err(Error::store(&self.folder))? else {
            return Ok(None);
        };
        match Mark::read(&value) {
            None => Err(Error::damaged(
                &self.folder,
                "the record of its progress is invalid",
            )),
            mark => Ok(mark),
        }
    }

    /// Returns the records from a number on, in order.
    pub(super) fn records(
        &self,
        from: u64,
    ) -> impl Iterator<Item = Result<(u64, UserValue), Error>> + '_ {
        let found = self.table.range(from.max(1).to_be_bytes()..);
        found.map(|record| {
            let (key, value) = record.into_inner().map_err(Error::store(&self.folder))?;
            let key = key.as_ref().try_into();
            let key =
                key.map_err(|_| Error::damaged(&self.folder, "a record has an invalid number"))?;
            Ok((u64::from_be_bytes(key), value))
        })
    }

    /// Returns an empty batch.
    pub(super) fn batch(&self) -> Batch {
        Batch {
            batch: self.database.batch(),
            table: self.table.clone(),
            bytes: 0,
        }
    }

    /// Writes all of a batch or nothing. If `synced` is true, the batch is on disk when this
    /// returns.
    pub(super) fn write(&mut self, batch: Batch, synced: bool) -> Result<(), Error> {
        self.written += batch.bytes;
        let durability = match synced {
            true => PersistMode::SyncData,
            false => PersistMode::Buffer,
        };
        let written = batch.batch.durability(Some(durability)).commit();
        written.map_err(Error::store(&self.folder))
    }
}
