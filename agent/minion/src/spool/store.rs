//! The store of a spool: fjall, set for a small machine.
//!
//! One table: a record under its sequence number, and under number 0, which no record has, how far the spool is. What comes in goes
//! to fjall's journal, which is not made shorter before it has 64 MB: [`Store::written`] tells how much it has taken, so that the
//! spool can begin another before.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fjall::config::{BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, PinningPolicy};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode, UserValue};

use super::{Error, Mark};

/// Whether what is written outlives the daemon.
pub(super) const LASTS: bool = true;
/// What is written is kept in memory up to this size before it goes into a table of its own.
const MEMORY: u64 = 256 << 10;
/// Blocks of tables that are kept in memory.
const CACHE: u64 = 64 << 10;
/// Tables that are kept open.
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

/// One open store.
pub(super) struct Store {
    /// The spool's folder, for what is said of errors.
    folder: PathBuf,
    table: Keyspace,
    database: Database,
    written: u64,
}

/// How much of the disk the journals of a store take. They are made with 64 MB of nothing.
fn journals(path: &Path) -> u64 {
    let journal = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let is_one = entry.file_name().to_string_lossy().ends_with(".jnl");
        is_one.then(|| entry.metadata().ok()).flatten()
    };
    let entries = std::fs::read_dir(path).into_iter().flatten();
    entries
        .filter_map(journal)
        .map(|found| found.blocks() * 512)
        .sum()
}

/// Records to be written and removed at once.
pub(super) struct Batch {
    batch: OwnedWriteBatch,
    table: Keyspace,
    bytes: u64,
}

/// What the journal has beside a record's bytes: marks, key, checksum.
const OVERHEAD: u64 = 64;

impl Batch {
    /// Writes a record.
    pub(super) fn put(&mut self, sequence: u64, value: Vec<u8>) {
        self.bytes += value.len() as u64 + OVERHEAD;
        self.batch
            .insert(&self.table, sequence.to_be_bytes(), value);
    }

    /// Takes a record out.
    pub(super) fn remove(&mut self, sequence: u64) {
        self.bytes += OVERHEAD;
        self.batch.remove(&self.table, sequence.to_be_bytes());
    }

    /// About how large it is.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Says how far the spool is.
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
    // Records are found by their order: filters would only take memory.
    let none = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(0.0));
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMORY)
        .manual_journal_persist(true)
        .filter_policy(FilterPolicy::all(none))
        .index_block_pinning_policy(PinningPolicy::all(false))
        .filter_block_pinning_policy(PinningPolicy::all(false))
}

impl Store {
    /// True where a store was made.
    pub(super) fn is_at(path: &Path) -> bool {
        path.join("version").is_file()
    }

    /// Opens the store at `path`, or makes it there.
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

    /// About how many bytes went into the journal.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// How far the spool is; none in a store that was never told.
    pub(super) fn marked(&self) -> Result<Option<Mark>, Error> {
        let value = self.table.get(0_u64.to_be_bytes());
        let Some(value) = value.map_err(Error::store(&self.folder))? else {
            return Ok(None);
        };
        match Mark::read(&value) {
            None => Err(Error::damaged(&self.folder, "its mark is none")),
            mark => Ok(mark),
        }
    }

    /// The records from a number on, in their order.
    pub(super) fn records(
        &self,
        from: u64,
    ) -> impl Iterator<Item = Result<(u64, UserValue), Error>> + '_ {
        let found = self.table.range(from.max(1).to_be_bytes()..);
        found.map(|record| {
            let (key, value) = record.into_inner().map_err(Error::store(&self.folder))?;
            let key = key.as_ref().try_into();
            let key = key.map_err(|_| Error::damaged(&self.folder, "a record has no number"))?;
            Ok((u64::from_be_bytes(key), value))
        })
    }

    /// An empty batch.
    pub(super) fn batch(&self) -> Batch {
        Batch {
            batch: self.database.batch(),
            table: self.table.clone(),
            bytes: 0,
        }
    }

    /// Writes all of a batch or nothing; where it must be on the disk, it is when this returns.
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
