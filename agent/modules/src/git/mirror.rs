//! [`Mirror`]: a copy of a repository on this machine, and the trees of its commits as folders.
//!
//! ```text
//! CACHEDIR/gitfs/HASH/repository/   the bare repository, which only an update changes
//! CACHEDIR/gitfs/HASH/heads         the commits of branches and tags at the last update
//! CACHEDIR/gitfs/HASH/trees/COMMIT/ the files of a commit, which are never changed
//! CACHEDIR/gitfs/HASH/lock          is locked during an update
//! CACHEDIR/gitfs/HASH/update.lk     keeps updates from the repository, until it is removed
//! ```
//!
//! A reader takes the commits from `heads` once, and needs no lock: an update replaces that file after
//! all of its commits are on the disk.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use sha2::{Digest, Sha256};
use state::module::Error;
use state::opts::Opts;
use value::python::hex;
use value::{log, remove, trust};

use super::heads::Heads;
use super::objects::Objects;
use super::program::Git;
use super::remotes::{Kind, Remote, is_hex};
use super::signatures::Keys;

/// The maximum time of a fetch.
const FETCH_MAX: Duration = Duration::from_secs(600);
/// The maximum time of a command that only uses this machine.
pub(super) const LOCAL_MAX: Duration = Duration::from_secs(120);
/// The interval at which a process that waits for another one's update looks again.
const LOOK: Duration = Duration::from_millis(50);
/// The minimum length of an abbreviated number of a commit.
const ABBREVIATED_MIN: usize = 7;
/// Makes git write files as they are in the commit.
const ATTRIBUTES: &str = "* -text -filter -ident -working-tree-encoding -eol\n";

/// The copy of a repository.
#[derive(Clone, Debug)]
pub(super) struct Mirror {
    pub(super) remote: Remote,
    pub(super) folder: PathBuf,
}

/// The result of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Updated {
    /// A branch or tag has changed.
    Changed,
    /// Nothing has changed.
    Same,
    /// `update.lk` keeps updates away.
    Held,
}

fn now() -> u64 {
    value::clock::since_epoch().as_secs()
}

impl Mirror {
    pub(super) fn new(remote: Remote, opts: &Opts) -> Self {
        let mut hash = Sha256::new();
        let name = remote.name.as_deref().unwrap_or_default();
        let depth = remote.depth.to_string();
        let parts = [remote.address.url.as_str(), name, depth.as_str()];
        for part in parts
            .into_iter()
            .chain(remote.refspecs.iter().map(String::as_str))
        {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let hash = hex(&hash.finalize());
        let folder = opts.cachedir().join(remote.role.name()).join(hash);
        Self { remote, folder }
    }

    /// Returns the commits of the last update. If there was none, or it is older than the interval of
    /// the repository, it is updated first. If that fails, a warning says how old the commits are.
    ///
    /// # Errors
    /// When there was no update yet and none is possible.
    pub(super) fn fresh(&self) -> Result<Heads, Error> {
        let known = self.last()?;
        if let Some(known) = known.as_ref().filter(|_| !self.is_due()) {
            return Ok(known.clone());
        }
        // While another process updates the mirror, the last commits are used.
        let lock = match &known {
            Some(known) => match self.try_lock()? {
                Some(lock) => lock,
                None => {
                    self.warn_of_age(known);
                    return Ok(known.clone());
                }
            },
            None => self.locked()?,
        };
        // Another process may have updated it meanwhile.
        let updated = match self.is_due() || self.last()?.is_none() {
            true => self.update_locked(&lock).map(drop),
            false => Ok(()),
        };
        let Err(error) = updated else {
            return self.heads();
        };
        let Some(known) = known else {
            return Err(error);
        };
        log::warning(format_args!(
            "{error}. Using what was fetched {} s ago",
            now().saturating_sub(known.updated)
        ));
        Ok(known)
    }

    /// Returns the commits of the last update; `None` if there was none with the present keys.
    fn last(&self) -> Result<Option<Heads>, Error> {
        let digest = self.digest()?;
        let heads = Heads::read(&self.folder)?;
        Ok(heads.filter(|heads| heads.keys == digest))
    }

    /// Returns the digest of the keys of `verify`; empty without keys.
    fn digest(&self) -> Result<String, Error> {
        let keys = self.remote.keys.as_ref();
        keys.map_or(Ok(String::new()), Keys::digest)
    }

    /// Logs a warning if the update of another process takes longer than it may.
    fn warn_of_age(&self, known: &Heads) {
        let age = now().saturating_sub(known.updated);
        if age > (self.remote.interval + FETCH_MAX).as_secs() {
            let late = format!(
                "another process has not updated it in time. Using what was fetched {age} s ago"
            );
            log::warning(self.error(late).sentence());
        }
    }

    /// Returns the commits of the last update.
    ///
    /// # Errors
    /// When there was none.
    fn heads(&self) -> Result<Heads, Error> {
        self.last()?.ok_or_else(|| {
            self.error("it was never fetched. Update it with: salt-run fileserver.update".into())
        })
    }

    /// Returns the inode and the time of the commits of the last update.
    pub(super) fn version(&self) -> Option<(u64, SystemTime)> {
        Heads::version(&self.folder)
    }

    /// Adds the name of the repository to a problem.
    pub(super) fn error(&self, problem: String) -> Error {
        Error::refused(format!(
            "The {} repository {}: {problem}",
            self.remote.role.name(),
            self.remote.shown()
        ))
    }

    /// Returns whether there was no update yet, or the last attempt of one is longer ago than the interval
    /// of the repository.
    pub(super) fn is_due(&self) -> bool {
        self.is_older_than(self.remote.interval)
    }

    /// Returns the same with a shorter interval, for a daemon that updates before readers do.
    pub(super) fn is_soon_due(&self) -> bool {
        self.is_older_than(self.remote.interval.mul_f64(0.9))
    }

    fn is_older_than(&self, interval: Duration) -> bool {
        if self.version().is_none() {
            return true;
        }
        let tried = fs::metadata(self.lock_path()).and_then(|metadata| metadata.modified());
        let elapsed = tried.map(|tried| tried.elapsed());
        // A clock that was set back makes an update due.
        !matches!(elapsed, Ok(Ok(elapsed)) if elapsed < interval)
    }

    fn lock_path(&self) -> PathBuf {
        self.folder.join("lock")
    }

    /// Returns the path of the file that keeps updates away while it exists.
    fn hold_path(&self) -> PathBuf {
        self.folder.join("update.lk")
    }

    /// Keeps updates away. Returns whether they were not kept away before.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub(super) fn hold(&self) -> Result<bool, Error> {
        trust::folder(&self.folder).map_err(Error::io(&self.folder))?;
        let path = self.hold_path();
        match File::create_new(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::io(&path)(error)),
        }
    }

    /// Permits updates again. Returns whether they were kept away before.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub(super) fn release(&self) -> Result<bool, Error> {
        let path = self.hold_path();
        match remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io(&path)(error)),
        }
    }

    /// Returns Salt's sentence about a lock that was set or removed.
    pub(super) fn sentence(&self, what: &str) -> String {
        format!(
            "{what} update lock for {} remote '{}'",
            self.remote.role.name(),
            self.remote.shown()
        )
    }

    /// Updates the mirror.
    ///
    /// # Errors
    /// When the repository cannot be reached, or the mirror cannot be changed.
    pub(super) fn update(&self) -> Result<Updated, Error> {
        let lock = self.locked()?;
        self.update_locked(&lock)
    }

    /// Waits until no other process updates the mirror.
    fn locked(&self) -> Result<File, Error> {
        let began = Instant::now();
        loop {
            if let Some(lock) = self.try_lock()? {
                return Ok(lock);
            }
            if began.elapsed() > FETCH_MAX {
                return Err(self.error(format!(
                    "another process has updated it for more than {} s",
                    FETCH_MAX.as_secs()
                )));
            }
            thread::sleep(LOOK);
        }
    }

    /// Locks the mirror. `None` if another process has locked it.
    fn try_lock(&self) -> Result<Option<File>, Error> {
        trust::folder(&self.folder).map_err(Error::io(&self.folder))?;
        let path = self.lock_path();
        let mut options = fs::OpenOptions::new();
        let options = options.create(true).truncate(false).read(true).write(true);
        let file = options.open(&path).map_err(Error::io(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(Error::io(&path)(error)),
        }
    }

    fn update_locked(&self, lock: &File) -> Result<Updated, Error> {
        if self.hold_path().exists() {
            log::warning(format_args!(
                "Not updating the {} repository {}: it is locked by {}",
                self.remote.role.name(),
                self.remote.shown(),
                self.hold_path().display()
            ));
            return Ok(Updated::Held);
        }
        // The time of the attempt: a remote that cannot be reached is not tried again at once.
        lock.set_modified(SystemTime::now())
            .map_err(Error::io(self.lock_path()))?;
        let before = self.last()?;
        let fetched = self.fetched(lock);
        let mut heads = fetched.map_err(|error| self.error(error.sentence()))?;
        if let Some(keys) = &self.remote.keys {
            self.keep_signed(keys, before.as_ref(), &mut heads)?;
        }
        heads.write(&self.folder)?;
        self.remove_old_trees(&heads);
        let is_same = before.is_some_and(|before| {
            Heads {
                updated: heads.updated,
                ..before
            } == heads
        });
        Ok(match is_same {
            true => Updated::Same,
            false => Updated::Changed,
        })
    }

    fn repository(&self) -> PathBuf {
        self.folder.join("repository")
    }

    pub(super) fn git(&self, patience: Duration) -> Git<'_> {
        Git {
            repository: self.repository(),
            address: &self.remote.address,
            options: Vec::new(),
            variables: Vec::new(),
            patience,
            size_max: u64::MAX,
            lock: None,
        }
    }

    /// Returns git for a command that changes the repository.
    fn fetching<'a>(&'a self, lock: &'a File) -> Git<'a> {
        Git {
            lock: Some(lock),
            size_max: self.remote.size_max,
            ..self.git(FETCH_MAX)
        }
    }

    /// Fetches what is new, and returns the commits.
    fn fetched(&self, lock: &File) -> Result<Heads, Error> {
        self.create()?;
        remove_locks(&self.repository())?;
        remove_parts(&self.repository().join("objects/pack"))?;
        let depth = self.remote.depth.to_string();
        let mut words = vec![
            "fetch",
            "--quiet",
            "--prune",
            "--force",
            "--no-auto-gc",
            "--no-write-fetch-head",
        ];
        if self.remote.depth > 0 {
            words.extend(["--depth", depth.as_str()]);
        }
        words.extend(["--", self.remote.address.url.as_str()]);
        let all = [
            words,
            self.remote.refspecs.iter().map(String::as_str).collect(),
        ]
        .concat();
        self.fetching(lock).run(&all, "")?;
        self.collect_garbage(lock);
        let names = self.git(LOCAL_MAX).run(
            &[
                "for-each-ref",
                "--format=%(refname)",
                "refs/remotes/origin",
                "refs/tags",
            ],
            "",
        )?;
        let mut heads = Heads {
            updated: now(),
            ..Heads::default()
        };
        for (name, commit) in self.commits(names.lines())? {
            if let Some(branch) = name.strip_prefix("refs/remotes/origin/") {
                heads.branches.insert(branch.to_owned(), commit);
            } else if let Some(tag) = name.strip_prefix("refs/tags/") {
                heads.tags.insert(tag.to_owned(), commit);
            }
        }
        for pin in self.remote.pins() {
            if let Some(commit) = self.pinned(pin, lock)? {
                heads.pins.insert(pin.to_owned(), commit);
            }
        }
        Ok(heads)
    }

    /// Combines many packs to one. For that time, the repository has twice its size.
    fn collect_garbage(&self, lock: &File) {
        let git = Git {
            size_max: u64::MAX,
            ..self.fetching(lock)
        };
        if let Err(error) = git.run(&["gc", "--auto", "--quiet"], "") {
            log::warning(self.error(error.sentence()).sentence());
        }
    }

    /// Creates the repository if it does not exist.
    fn create(&self) -> Result<(), Error> {
        let (path, new) = (self.repository(), self.folder.join("repository.new"));
        if path.exists() {
            return Ok(());
        }
        remove_folder(&new)?;
        let git = Git {
            repository: new.clone(),
            ..self.git(LOCAL_MAX)
        };
        git.run(&["init", "--quiet", "--bare"], "")?;
        let info = new.join("info");
        fs::create_dir_all(&info).map_err(Error::io(&info))?;
        let attributes = info.join("attributes");
        write_new(&attributes, ATTRIBUTES).map_err(Error::io(&attributes))?;
        publish(&new, &path)
    }

    /// Returns the commits of references, by the name of the reference. One that is of no commit is left
    /// out.
    fn commits<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<(String, String)>, Error> {
        let names: Vec<&str> = names.collect();
        let asked: String = names
            .iter()
            .map(|name| format!("{name}^{{commit}}\n"))
            .collect();
        let format = "--batch-check=%(objectname)";
        let answers = self.git(LOCAL_MAX).run(&["cat-file", format], &asked)?;
        let all: Vec<&str> = answers.lines().collect();
        if all.len() != names.len() {
            return Err("git cat-file has not answered for each reference".into());
        }
        let pairs = names.into_iter().zip(all);
        let found = pairs.filter(|(_, commit)| is_hex(commit));
        Ok(found
            .map(|(name, commit)| (name.to_owned(), commit.to_owned()))
            .collect())
    }

    /// Returns the commit with this number, which is fetched if the branches do not have it.
    fn pinned(&self, number: &str, lock: &File) -> Result<Option<String>, Error> {
        if let Some(commit) = self.known(number)? {
            return Ok(Some(commit));
        }
        if ![40, 64].contains(&number.len()) {
            return Ok(None);
        }
        let url = self.remote.address.url.as_str();
        let words = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--depth",
            "1",
            "--",
            url,
            number,
        ];
        if let Err(error) = self.fetching(lock).run(&words, "") {
            // It may be the name of a branch or tag.
            log::debug(format_args!("{}", self.error(error.sentence()).sentence()));
        }
        self.known(number)
    }

    /// Returns the commit with this number, perhaps abbreviated, that the mirror has.
    fn known(&self, number: &str) -> Result<Option<String>, Error> {
        if number.len() < ABBREVIATED_MIN {
            return Ok(None);
        }
        let found = self.commits([number].into_iter())?;
        Ok(found.into_iter().next().map(|(_, commit)| commit))
    }

    /// Returns the commit of an environment; `None` if the repository has none for it.
    ///
    /// # Errors
    /// When the mirror cannot be read.
    pub(super) fn commit(&self, heads: &Heads, env: &str) -> Result<Option<String>, Error> {
        match self
            .remote
            .reference(env)
            .filter(|_| self.remote.is_exposed(env))
        {
            Some(reference) => self.commit_of(heads, reference),
            None => Ok(None),
        }
    }

    /// Returns the commit of a reference, or else that of the fallback; `None` if there is neither.
    ///
    /// # Errors
    /// When the mirror cannot be read.
    pub(super) fn commit_of(
        &self,
        heads: &Heads,
        reference: &str,
    ) -> Result<Option<String>, Error> {
        let remote = &self.remote;
        for reference in [reference, remote.fallback.as_str()] {
            if let Some(commit) = heads.commit(&remote.kinds, reference) {
                return Ok(Some(commit.to_owned()));
            }
            if heads.is_refused(reference) {
                return Err(self.error(format!(
                    "no key of `verify` has signed {reference}; the log of the last update has the reason"
                )));
            }
            if is_hex(reference)
                && remote.kinds.contains(&Kind::Commit)
                && let Some(commit) = self.known(reference)?
            {
                self.check_signature(heads, &commit)?;
                return Ok(Some(commit));
            }
        }
        Ok(None)
    }

    /// Starts a process that looks up files in commits.
    ///
    /// # Errors
    /// When git cannot be started.
    pub(super) fn objects(&self) -> Result<Objects, Error> {
        Objects::start(&self.git(LOCAL_MAX))
    }

    /// Removes all of the mirror.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub(super) fn clear(&self) -> Result<(), Error> {
        let _lock = self.locked()?;
        remove_folder(&self.folder)
    }
}

/// Removes the lock files of git that a process has left which was killed. The caller holds the lock of
/// the mirror, so no process uses them.
///
/// # Errors
/// When a folder cannot be listed.
fn remove_locks(folder: &Path) -> Result<(), Error> {
    let entries = machine::fs::list(folder)?.into_iter();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() && !path.ends_with("objects") {
            remove_locks(&path)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "lock")
        {
            remove::or_log(&path, remove_file(&path));
        }
    }
    Ok(())
}

/// Removes packs that a process has not completed. The caller holds the lock of the mirror.
///
/// # Errors
/// When the folder cannot be listed.
fn remove_parts(packs: &Path) -> Result<(), Error> {
    for entry in machine::fs::list(packs)? {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("tmp_") || name.starts_with(".tmp-") {
            remove::or_log(entry.path(), remove_file(&entry.path()));
        }
    }
    Ok(())
}

/// Gives a folder its name once all of it is on the disk.
#[expect(
    clippy::disallowed_methods,
    reason = "the folder is synced before it is renamed"
)]
pub(super) fn publish(part: &Path, name: &Path) -> Result<(), Error> {
    let folder = File::open(part).map_err(Error::io(part))?;
    rustix::fs::syncfs(&folder).map_err(|error| Error::io(part)(error.into()))?;
    fs::rename(part, name).map_err(Error::io(name))?;
    let above = name.parent().unwrap_or(name);
    let synced = File::open(above).and_then(|above| above.sync_all());
    synced.map_err(Error::io(above))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the folder is synced before it is used"
)]
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a power cut may bring the file back"
)]
pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// Removes a folder of the cache, if it exists.
#[expect(
    clippy::disallowed_methods,
    reason = "a power cut may bring the folder back"
)]
pub(super) fn remove_folder(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(path)(error)),
        _ => Ok(()),
    }
}
