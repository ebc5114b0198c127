//! The store's folder: its format, its lock, its tables, and its repair after a write failed.
//!
//! ```text
//! FOLDER/lock       locked by the process that uses the store
//! FOLDER/format     the number of the format, as text
//! FOLDER/tables/    the files of fjall
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

/// The format that this program writes, and the newest one that it can read.
pub(super) const FORMAT: u64 = 1;

/// The interval between attempts to lock while another process holds the lock, and the time after
/// which the wait is logged.
const LOCK_AGAIN: Duration = Duration::from_millis(5);
const LOCK_TOLD: Duration = Duration::from_secs(1);
/// The maximum time of a flush during a repair.
const FLUSH_MAX: Duration = Duration::from_secs(30);
/// The number of bytes that must be writable before a broken store is repaired.
const PROBE: usize = 1 << 20;
/// The maximum number of a table's sealed memtables. Above it, writes wait for the disk. (From 4
/// on, fjall waits without end, even for a thread that is dead.)
const SEALED_MAX: usize = 2;
/// The maximum number of a table's runs that wait for compaction. Above it, writes wait. fjall
/// begins to wait at 20.
const RUNS_MAX: usize = 16;

/// The lock of a store's folder. The kernel releases it however its holder ends.
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Without this call, a child process that has not called `exec` yet would still hold the lock.
        if let Err(error) = self.0.unlock() {
            value::log::warning(format_args!("cannot unlock the store: {error}"));
        }
    }
}

/// The open tables.
pub(super) struct Disk {
    database: Database,
    tables: [Keyspace; 4],
    memtable_bytes: u64,
}

impl Disk {
    /// Opens the tables of a folder whose format has been checked.
    pub(super) fn open(folder: &Path, limits: &Limits) -> Result<Self, Error> {
        let fail = |error: fjall::Error| Error::from_fjall(folder, &error);
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

    /// Waits until there is room for the next batch. fjall waits as well, but does not notice when
    /// its own thread has failed.
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

    /// Passes tables that have grown large in memory to fjall's thread. Otherwise fjall would send
    /// that request to itself, and its requests can fill the queue that its thread reads.
    pub(super) fn rotate(&self) -> Result<(), fjall::Error> {
        for table in &self.tables {
            if table.tree.active_memtable().size() > self.memtable_bytes {
                table.rotate_memtable()?;
            }
        }
        Ok(())
    }

    /// Writes all data in memory to table files, so that the journals are not needed any more. Fails
    /// as soon as `is_closed` returns true.
    fn flush(&self, is_closed: impl Fn() -> bool) -> Result<(), String> {
        let until = Instant::now() + FLUSH_MAX;
        for table in &self.tables {
            table.rotate_memtable().map_err(|error| words(&error))?;
        }
        let waits = |table: &Keyspace| table.tree.get_highest_memtable_seqno().is_some();
        loop {
            if is_closed() {
                return Err("the store is closed".to_owned());
            }
            if !self.tables.iter().any(waits) {
                return Ok(());
            }
            let alive = self.database.persist(PersistMode::Buffer);
            alive.map_err(|error| words(&error))?;
            if Instant::now() > until {
                return Err("writing takes too long".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn table_options(limits: &Limits) -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        // Twice the size at which `rotate` acts.
        .max_memtable_size(2 * limits.memtable_bytes)
        .manual_journal_persist(true)
        .compaction_strategy(Arc::new(
            Leveled::default().with_table_target_size(limits.table_bytes),
        ))
}

/// Creates the folder if it does not exist, readable by its owner only, takes its lock, and checks
/// its format. A folder of a newer format is not changed. Nothing is read before the lock is held:
/// files that another process is just creating look like leftovers.
pub(super) fn prepare(folder: &Path, wait: Duration) -> Result<Lock, Error> {
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

/// Takes the lock. Waits for another holder no longer than `wait`.
pub(super) fn take_lock(folder: &Path, wait: Duration) -> Result<Lock, Error> {
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
    // The process id only helps users who wait for the lock. Nothing depends on it.
    let process = format!("{}\n", std::process::id());
    let told = lock
        .set_len(0)
        .and_then(|()| lock.write_all(process.as_bytes()));
    if let Err(error) = told {
        value::log::warning(format_args!("cannot write to {}: {error}", path.display()));
    }
    Ok(Lock(lock))
}

/// Logs which process holds the store.
fn tell_holder(folder: &Path, lock: &Path, wait: Duration) {
    let read = value::read::or_log(lock, std::fs::read_to_string(lock)).unwrap_or_default();
    let process = read.trim().parse::<u32>();
    let who = process.map_or_else(
        |_| "another process".to_owned(),
        |process| format!("the process {process}"),
    );
    value::log::warning(format_args!(
        "{}: {who} has this store open; waiting for it for up to {} s",
        folder.display(),
        wait.as_secs()
    ));
}

/// Returns the format of the store in the folder, or `None` if there is no store.
fn format_of(folder: &Path) -> Result<Option<u64>, Error> {
    let path = folder.join("format");
    let mut text = String::new();
    let read = File::open(&path).and_then(|file| file.take(32).read_to_string(&mut text));
    match read {
        Ok(_) => {}
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            return match folder.join("tables").exists() {
                true => Err(damaged(folder, "the file `format` is missing".to_owned())),
                false => Ok(None),
            };
        }
        Err(source) => return Err(Error::io(&path, &source)),
    }
    let format = text.trim_end().parse();
    let what = || format!("the file `format` contains {text:?}");
    format.map(Some).map_err(|_| damaged(folder, what()))
}

fn damaged(folder: &Path, what: String) -> Error {
    Error::Damaged {
        folder: folder.to_owned(),
        what,
    }
}

/// Restricts the permissions of a path, and of everything below it, to the owner. Files may have
/// been created under another umask, or restored from a copy.
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

/// Writes a small file completely or not at all.
pub(super) fn place(folder: &Path, name: &str, text: &[u8]) -> io::Result<()> {
    let beside = folder.join(format!("{name}.new"));
    let mut file = fresh(&beside)?;
    file.write_all(text)?;
    file.sync_all()?;
    rustix::fs::rename(&beside, folder.join(name))?;
    File::open(folder)?.sync_all()
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn fresh(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

/// The length in bytes of fjall's marker file: its magic bytes, and the version, which fjall writes
/// separately.
const MARK: u64 = 4;

/// Removes the files of a process that was killed while it created the tables. fjall writes its
/// marker last, and cannot open tables without it.
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

/// Gives this thread, and the threads that it starts, a separate umask: only the owner can access
/// the files that they create.
pub(super) fn own_mask() {
    #[expect(
        deprecated,
        reason = "it is unsafe for descriptors, and these are not unshared"
    )]
    let own = rustix::thread::unshare(rustix::thread::UnshareFlags::FS);
    // If a container forbids `unshare`, the folder's mode alone keeps other users out.
    if own.is_ok() {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    }
}

/// Tests whether the folder can be written again.
pub(super) fn probe(folder: &Path) -> Result<(), String> {
    let path = folder.join("probe");
    let written = fresh(&path).and_then(|mut file| {
        file.write_all(&vec![1; PROBE])?;
        file.sync_all()
    });
    value::remove::or_log(&path, rustix::fs::unlink(&path));
    written.map_err(|source| source.to_string())
}

/// Opens the tables after a write failed. Pages that a failed `fsync` left in the kernel's cache
/// may never reach the disk, and no later call would report it. Therefore all data is written
/// again, as tables, and a new journal replaces the old ones. Fails as soon as `is_closed` returns
/// true: a full disk delays the end of the master no longer than necessary.
pub(super) fn mend(
    folder: &Path,
    limits: &Limits,
    is_closed: impl Fn() -> bool,
) -> Result<Disk, String> {
    let text = |error: Error| error.to_string();
    Disk::open(folder, limits).map_err(text)?.flush(is_closed)?;
    renew_journal(&folder.join("tables")).map_err(|source| source.to_string())?;
    Disk::open(folder, limits).map_err(text)
}

/// Replaces the journals by a new one. The new one must exist before the old ones are removed:
/// without any journal, fjall would restart its sequence numbers.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_released_although_a_new_process_still_has_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let lock = take_lock(folder.path(), Duration::ZERO).unwrap();
        let inherited = lock.0.try_clone().unwrap();
        drop(lock);
        take_lock(folder.path(), Duration::ZERO).unwrap();
        drop(inherited);
    }

    #[test]
    fn a_closed_store_is_not_repaired_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits::default();
        drop(Disk::open(folder.path(), &limits).unwrap());
        let closed = mend(folder.path(), &limits, || true).err();
        assert_eq!(closed.as_deref(), Some("the store is closed"));
        assert!(mend(folder.path(), &limits, || false).is_ok());
    }
}
