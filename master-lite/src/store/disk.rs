//! The store's folder: its format, its lock, its tables, and making it whole again after a write failed.
//!
//! ```text
//! FOLDER/lock       held, by the system, by the process that has the store
//! FOLDER/format     the number of the format, as text
//! FOLDER/tables/    fjall's
//! ```

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fjall::compaction::Leveled;
use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::Limits;
use super::error::{Error, words};
use super::rows::Table;

/// The format that this program writes, and the newest one that it reads.
pub(super) const FORMAT: u64 = 1;

/// How often the lock is tried while another process has it, and after how long that is told.
const LOCK_AGAIN: Duration = Duration::from_millis(5);
const LOCK_TOLD: Duration = Duration::from_secs(1);
/// How long a flush may take while a store is made whole.
const FLUSH_MAX: Duration = Duration::from_secs(30);
/// How much must be writable again before a broken store is tried.
const PROBE: usize = 1 << 20;
/// How much of a table waits for the disk before writes wait too. (fjall waits for ever from 4 on, even for a thread that is dead.)
const SEALED_MAX: usize = 2;
/// The same for tables that wait to be joined; fjall begins to wait at 20.
const RUNS_MAX: usize = 16;

/// The open tables.
pub(super) struct Disk {
    database: Database,
    tables: [Keyspace; 4],
    memtable_bytes: u64,
}

impl Disk {
    /// Opens the tables of a folder whose format was looked at.
    pub(super) fn open(folder: &Path, limits: &Limits) -> Result<Self, Error> {
        let fail = |error: fjall::Error| Error::of(folder, &error);
        let tables = folder.join("tables");
        forget_unfinished(&tables).map_err(|source| Error::io(&tables, &source))?;
        let database = Database::builder(tables)
            .cache_size(limits.cache_bytes)
            .worker_threads(1)
            .max_cached_files(Some(64))
            .max_journaling_size(64 << 20)
            .manual_journal_persist(true)
            .open()
            .map_err(fail)?;
        let options = || table_options(limits);
        let table = |table: Table| database.keyspace(table.name(), options).map_err(fail);
        let [keys, caches, events, jobs] = Table::ALL.map(table);
        let tables = [keys?, caches?, events?, jobs?];
        Ok(Self {
            database,
            tables,
            memtable_bytes: limits.memtable_bytes,
        })
    }

    pub(super) fn table(&self, table: Table) -> &Keyspace {
        let [keys, caches, events, jobs] = &self.tables;
        match table {
            Table::Keys => keys,
            Table::Caches => caches,
            Table::Events => events,
            Table::Jobs => jobs,
        }
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// Waits until the next batch finds room, which fjall would do as well, but without noticing that its own thread has failed.
    pub(super) fn wait_for_room(&self) -> Result<(), fjall::Error> {
        for table in &self.tables {
            while table.sealed_memtable_count() > SEALED_MAX || table.tree.l0_run_count() > RUNS_MAX
            {
                self.database.persist(PersistMode::Buffer)?;
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    }

    /// Hands what has grown large in memory to fjall's thread, so that fjall need not ask itself to: its questions can fill the queue
    /// that it reads them from.
    pub(super) fn rotate(&self) -> Result<(), fjall::Error> {
        for table in &self.tables {
            if table.tree.active_memtable().size() > self.memtable_bytes {
                table.rotate_memtable()?;
            }
        }
        Ok(())
    }

    /// Puts all that is in memory into tables, so that the journals are not needed any more.
    fn flush(&self) -> Result<(), String> {
        let until = Instant::now() + FLUSH_MAX;
        for table in &self.tables {
            table.rotate_memtable().map_err(|error| words(&error))?;
        }
        let waits = |table: &Keyspace| table.tree.get_highest_memtable_seqno().is_some();
        while self.tables.iter().any(waits) {
            let alive = self.database.persist(PersistMode::Buffer);
            alive.map_err(|error| words(&error))?;
            if Instant::now() > until {
                return Err("writing takes too long".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

fn table_options(limits: &Limits) -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        // Twice what we rotate at ourselves.
        .max_memtable_size(2 * limits.memtable_bytes)
        .manual_journal_persist(true)
        .compaction_strategy(Arc::new(
            Leveled::default().with_table_target_size(limits.table_bytes),
        ))
}

/// Makes the folder if it is not there, for its owner alone, takes its lock, and looks at its format. Nothing is changed in a newer one.
/// Before the lock is held nothing is read: what another process is just making looks like something that it left.
pub(super) fn prepare(folder: &Path, wait: Duration) -> Result<File, Error> {
    let fail = |source: &io::Error| Error::io(folder, source);
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(|source| fail(&source))?;
    let lock = take_lock(folder, wait)?;
    let found = format_of(folder)?;
    if let Some(found) = found
        && found > FORMAT
    {
        return Err(Error::Newer {
            folder: folder.to_owned(),
            found,
            known: FORMAT,
        });
    }
    restrict(folder).map_err(|source| fail(&source))?;
    if found.is_none() {
        let new = place(folder, "format", format!("{FORMAT}\n").as_bytes());
        new.map_err(|source| fail(&source))?;
    }
    Ok(lock)
}

/// Takes the lock, which goes with its holder, however that ends. Another holder is waited for no longer than `wait`.
fn take_lock(folder: &Path, wait: Duration) -> Result<File, Error> {
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    let opened = options.open(&path);
    let mut lock = opened.map_err(|source| Error::io(&path, &source))?;
    let began = Instant::now();
    let mut is_told = false;
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(source)) => return Err(Error::io(&path, &source)),
            Err(TryLockError::WouldBlock) if began.elapsed() >= wait => {
                let folder = folder.to_owned();
                return Err(Error::Locked { folder });
            }
            Err(TryLockError::WouldBlock) => {}
        }
        if began.elapsed() >= LOCK_TOLD && !std::mem::replace(&mut is_told, true) {
            tell_holder(folder, &path, wait);
        }
        std::thread::sleep(LOCK_AGAIN);
    }
    // Who has it is a help for who waits, and nothing depends on it.
    let process = format!("{}\n", std::process::id());
    let _ = lock
        .set_len(0)
        .and_then(|()| lock.write_all(process.as_bytes()));
    Ok(lock)
}

/// Says who has the store that is waited for.
fn tell_holder(folder: &Path, lock: &Path, wait: Duration) {
    let read = std::fs::read_to_string(lock).unwrap_or_default();
    let process = read.trim().parse::<u32>();
    let who = process.map_or_else(
        |_| "another process".to_owned(),
        |process| format!("the process {process}"),
    );
    value::log::warning(format_args!(
        "{}: {who} has this store open; it is waited for, for {} s at most",
        folder.display(),
        wait.as_secs()
    ));
}

/// The format of what lies in the folder, if anything does.
fn format_of(folder: &Path) -> Result<Option<u64>, Error> {
    let path = folder.join("format");
    let mut text = String::new();
    let read = File::open(&path).and_then(|file| file.take(32).read_to_string(&mut text));
    match read {
        Ok(_) => {}
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            return match folder.join("tables").exists() {
                true => Err(damaged(folder, "the file format is missing".to_owned())),
                false => Ok(None),
            };
        }
        Err(source) => return Err(Error::io(&path, &source)),
    }
    let format = text.trim_end().parse();
    let what = || format!("the file format says {text:?}");
    format.map(Some).map_err(|_| damaged(folder, what()))
}

fn damaged(folder: &Path, what: String) -> Error {
    Error::Damaged {
        folder: folder.to_owned(),
        what,
    }
}

/// What was made by a program with another mask, or copied back from somewhere.
#[expect(
    clippy::disallowed_methods,
    reason = "only this daemon can change what is in the folder"
)]
fn restrict(path: &Path) -> io::Result<()> {
    let metadata = path.symlink_metadata()?;
    let right = if metadata.is_dir() { 0o700 } else { 0o600 };
    if !metadata.is_symlink() && metadata.permissions().mode() & 0o7777 != right {
        std::fs::set_permissions(path, Permissions::from_mode(right))?;
    }
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path)? {
            restrict(&entry?.path())?;
        }
    }
    Ok(())
}

/// Writes a small file whole, or not at all.
fn place(folder: &Path, name: &str, text: &[u8]) -> io::Result<()> {
    let beside = folder.join(format!("{name}.new"));
    let mut file = fresh(&beside)?;
    file.write_all(text)?;
    file.sync_all()?;
    rustix::fs::rename(&beside, folder.join(name))?;
    File::open(folder)?.sync_all()
}

fn fresh(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

/// How long fjall's mark is: its name, and the version in a write of its own.
const MARK: u64 = 4;

/// Takes away what a process left that was killed while it made the tables: fjall writes its mark last, and stumbles over the rest.
fn forget_unfinished(tables: &Path) -> io::Result<()> {
    let mark = tables.join("version");
    let keyspaces = std::fs::read_dir(tables.join("keyspaces"));
    let is_marked = mark.metadata().is_ok_and(|mark| mark.len() >= MARK);
    let is_used = keyspaces.is_ok_and(|mut entries| entries.next().is_some());
    let journal = tables.join("0.jnl");
    if is_marked || is_used || !journal.exists() {
        return Ok(());
    }
    for path in [journal, mark] {
        match rustix::fs::unlink(&path) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(source) => return Err(source.into()),
        }
    }
    Ok(())
}

/// Gives this thread, and those that it starts, a mask of their own: what they make is for its owner alone.
pub(super) fn own_mask() {
    #[expect(
        deprecated,
        reason = "it is unsafe for descriptors, and these are not unshared"
    )]
    let own = rustix::thread::unshare(rustix::thread::UnshareFlags::FS);
    // Where a container forbids that, the folder's mode alone keeps others out.
    if own.is_ok() {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    }
}

/// Tries whether the folder can be written again.
pub(super) fn probe(folder: &Path) -> Result<(), String> {
    let path = folder.join("probe");
    let written = fresh(&path).and_then(|mut file| {
        file.write_all(&vec![1; PROBE])?;
        file.sync_all()
    });
    let _ = rustix::fs::unlink(&path);
    written.map_err(|source| source.to_string())
}

/// Opens the tables after a write failed. What a failed `fsync` left in the system's memory may never reach the disk, and nothing
/// would tell: so everything is written again, as tables, and a new journal takes the place of the old ones.
pub(super) fn mend(folder: &Path, limits: &Limits) -> Result<Disk, String> {
    let text = |error: Error| error.to_string();
    Disk::open(folder, limits).map_err(text)?.flush()?;
    renew_journal(&folder.join("tables")).map_err(|source| source.to_string())?;
    Disk::open(folder, limits).map_err(text)
}

/// The new one must be there before the old ones go: without any, fjall would count from the beginning again.
fn renew_journal(tables: &Path) -> io::Result<()> {
    let mut old: Vec<(u64, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(tables)? {
        let path = entry?.path();
        let is_journal = path.extension().is_some_and(|name| name == "jnl");
        let number = path
            .file_stem()
            .and_then(|name| name.to_str()?.parse().ok());
        if let Some(number) = number.filter(|_| is_journal) {
            old.push((number, path));
        }
    }
    let newest = old.iter().map(|(number, _)| *number).max().unwrap_or(0);
    fresh(&tables.join(format!("{}.jnl", newest + 1)))?.sync_all()?;
    let synced = || File::open(tables)?.sync_all();
    synced()?;
    for (_, path) in old {
        rustix::fs::unlink(&path)?;
    }
    synced()
}
