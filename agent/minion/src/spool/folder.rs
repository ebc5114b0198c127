//! Manages a spool's folder: the lock of the process that has it open, and the file `current`,
//! which has the format, the epoch and the number of the store in use.
//!
//! A store is in a folder `store.N`. A new store is created as `new`. When it is complete, the file
//! `current` is changed to name `store.N+1`, then `new` is renamed to that, and then the old store
//! is removed. A crash between any two steps leaves one store that `current` names, under its final
//! name or still as `new`.
#![expect(
    clippy::disallowed_methods,
    reason = "machine::fs needs a run; these files belong to one daemon, and each step is synced here"
)]

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Error;

/// The newest format that this release knows.
const FORMAT: u64 = 1;
/// The first line of `current`.
const TITLE: &str = "pinch spool";
/// The maximum size of `current` in bytes.
const CURRENT_MAX: u64 = 1 << 10;

/// The contents of `current`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Current {
    /// The spool's epoch.
    pub epoch: u64,
    /// The number of the store in use.
    pub store: u64,
}

impl Current {
    fn text(self) -> String {
        let Self { epoch, store } = self;
        format!("{TITLE}\nformat {FORMAT}\nepoch {epoch}\nstore {store}\n")
    }

    fn read(folder: &Path, text: &str) -> Result<Self, Error> {
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().parse::<u64>().ok())
                .ok_or_else(|| Error::damaged(folder, format!("`current` has no {name}")))
        };
        if text.lines().next() != Some(TITLE) {
            return Err(Error::damaged(
                folder,
                "the first line of `current` is not `pinch spool`",
            ));
        }
        let format = number("format ")?;
        if format > FORMAT {
            return Err(Error::Newer {
                folder: folder.to_owned(),
                format,
                known: FORMAT,
            });
        }
        Ok(Self {
            epoch: number("epoch ")?,
            store: number("store ")?,
        })
    }
}

/// A spool's folder, locked by this process.
#[derive(Debug)]
pub(super) struct Folder {
    pub path: PathBuf,
    /// The lock file, which is locked while it is open.
    _lock: File,
}

impl Folder {
    /// Creates the folder if it is missing, gives it to its owner alone, and locks it.
    pub(super) fn held(path: &Path) -> Result<Self, Error> {
        let disk = Error::disk(path);
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(path).map_err(&disk)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(&disk)?;
        let lock = locked(path)?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Returns the path of a store.
    pub(super) fn store(&self, number: u64) -> PathBuf {
        self.path.join(format!("store.{number}"))
    }

    /// Returns the path at which the next store is created.
    pub(super) fn new_store(&self) -> PathBuf {
        self.path.join("new")
    }

    /// Returns the contents of `current`, or `None` if nothing has been spooled here yet. Removes
    /// what a crash has left over.
    pub(super) fn current(&self) -> Result<Option<Current>, Error> {
        let Some(text) = self.text()? else {
            if self.stores()?.is_empty() {
                self.remove(&self.new_store())?;
                return Ok(None);
            }
            return Err(Error::damaged(&self.path, "`current` is missing"));
        };
        let current = Current::read(&self.path, &text)?;
        let store = self.store(current.store);
        if !store.is_dir() {
            std::fs::rename(self.new_store(), &store).map_err(|_| {
                Error::damaged(&self.path, format!("`store.{}` is missing", current.store))
            })?;
        }
        self.sweep(current)?;
        Ok(Some(current))
    }

    fn text(&self) -> Result<Option<String>, Error> {
        let file = match File::open(self.path.join("current")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(Error::disk(&self.path))?,
        };
        let mut text = String::new();
        match file.take(CURRENT_MAX).read_to_string(&mut text) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Error::damaged(&self.path, "`current` is not valid UTF-8"))
            }
            read => read.map_err(Error::disk(&self.path)).map(|_| Some(text)),
        }
    }

    /// Returns the paths of all stores.
    fn stores(&self) -> Result<Vec<PathBuf>, Error> {
        let entries =
            std::fs::read_dir(&self.path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(Error::disk(&self.path))?.into_iter();
        let is_store = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| name.starts_with("store."))
        };
        Ok(entries.map(|entry| entry.path()).filter(is_store).collect())
    }

    /// Removes every store except the one in use.
    fn sweep(&self, current: Current) -> Result<(), Error> {
        let keep = self.store(current.store);
        let mut old = self.stores()?;
        old.push(self.new_store());
        let mut old = old.iter().filter(|store| **store != keep);
        old.try_for_each(|store| self.remove(store))
    }

    /// Removes a store, if it exists.
    pub(super) fn remove(&self, store: &Path) -> Result<(), Error> {
        match std::fs::remove_dir_all(store) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(Error::disk(&self.path)),
        }
    }

    /// Puts `new` into use, which must be complete and closed.
    pub(super) fn switch(&self, current: Current) -> Result<(), Error> {
        self.switched(current).map_err(Error::disk(&self.path))?;
        self.sweep(current)
    }

    fn switched(&self, current: Current) -> io::Result<()> {
        let beside = self.path.join("current.new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&beside)?;
        file.write_all(current.text().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, self.path.join("current"))?;
        self.synced()?;
        std::fs::rename(self.new_store(), self.store(current.store))?;
        self.synced()
    }

    fn synced(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// Restricts the store's files to their owner. The folder already keeps other users out; files
    /// that are created later have the mode of the umask.
    pub(super) fn close_to_others(&self, store: &Path) -> Result<(), Error> {
        private(store).map_err(Error::disk(&self.path))
    }
}

fn private(path: &Path) -> io::Result<()> {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    // The store's own thread may be removing old files meanwhile.
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            std::fs::set_permissions(path, Permissions::from_mode(0o700))?;
            for entry in std::fs::read_dir(path)? {
                private(&entry?.path())?;
            }
            Ok(())
        }
        Ok(_) => match std::fs::set_permissions(path, Permissions::from_mode(0o600)) {
            Err(error) if gone(&error) => Ok(()),
            set => set,
        },
        Err(error) if gone(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The time for the lock to become free: a process that the holder is starting has it, too, until
/// its program runs.
const FREE_MAX: Duration = Duration::from_secs(1);
/// The interval of looks for the lock.
const LOOK: Duration = Duration::from_millis(20);

/// Opens and locks the lock file, and writes the id of this process into it.
fn locked(folder: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let opened = options.mode(0o600).open(folder.join("lock"));
    let mut file = opened.map_err(Error::disk(folder))?;
    let until = Instant::now() + FREE_MAX;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if Instant::now() < until => sleep(LOOK),
            Err(TryLockError::WouldBlock) => return Err(held(folder, &mut file)),
            Err(TryLockError::Error(source)) => return Err(Error::disk(folder)(source)),
        }
    }
    // The lock is held. The id is only for the message of a process that finds the lock, so a full
    // disk is no error.
    let told = file.set_len(0).and_then(|()| file.rewind());
    if let Err(error) = told.and_then(|()| write!(file, "{}", std::process::id())) {
        value::log::warning(format_args!(
            "cannot write to {}/lock: {error}",
            folder.display()
        ));
    }
    Ok(file)
}

fn held(folder: &Path, file: &mut File) -> Error {
    let mut pid = String::new();
    #[expect(
        clippy::let_underscore_must_use,
        reason = "without its id, the holder is not named"
    )]
    let _ = file.take(32).read_to_string(&mut pid);
    let holder = match pid.trim().parse::<u32>() {
        Ok(pid) => format!(", pid {pid}"),
        Err(_) => String::new(),
    };
    Error::Held {
        folder: folder.to_owned(),
        holder,
    }
}
