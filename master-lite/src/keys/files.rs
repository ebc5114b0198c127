//! [`KeyFiles`]: keys as files in Salt's `pki_dir`, which administrators read, move, add and
//! remove.
//!
//! ```text
//! pki/master/minions/ID            accepted
//! pki/master/minions_pre/ID        pending
//! pki/master/minions_rejected/ID   rejected
//! pki/master/minions_denied/ID     one of the denied
//! ```
//!
//! The store is authoritative, and the files are a view of it. They are written after the store's
//! command. Then a mark in the store records which files exist. If the files differ from the mark,
//! an administrator has changed them, and that change is applied as a command. Files that the mark
//! has, but that do not fit the store's keys, were left by a crash. An RSA key of Salt in one of
//! the places is left alone.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use link::key::{NotAKey, PublicKey};
use link::pki::Pki;
use rustix::fs::OFlags;
use value::{Map, log};
use wire::Id;

use crate::store::{self, Applied, Claim, Command, Key, KeyState, PendingWrite, Store};

/// The maximum size of a key file in bytes. A key file has three lines, so a longer file is none.
const FILE_MAX: u64 = 16 << 10;
/// The order of precedence if an administrator leaves several files for one id: rejection wins.
const FIRST: [KeyState; 3] = [KeyState::Rejected, KeyState::Accepted, KeyState::Pending];

/// A failure of the key files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A folder belongs to another user, or others may write to it.
    #[error(transparent)]
    Pki(#[from] link::pki::Error),
    /// The store has failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A file or folder cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// A key whose state has changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Changed {
    /// The minion.
    pub(crate) id: Id,
    /// The key.
    pub(crate) key: PublicKey,
    /// The new state; `None` if the id no longer has the key.
    pub(crate) state: Option<KeyState>,
}

/// The result of applying commands.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The result of each command.
    pub(crate) applied: Vec<Applied>,
    /// The keys that have changed, by these commands or because administrators have changed the
    /// files.
    pub(crate) changed: Vec<Changed>,
}

/// The use of the key files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// They show the store's keys, and changes that administrators make to them change the store.
    Both,
    /// They only show the keys, which several masters share.
    View,
}

/// The folders of keys.
#[derive(Debug)]
pub(crate) struct KeyFiles {
    folder: PathBuf,
    use_of: Use,
    turn: Mutex<Turn>,
}

/// The state that only the holder of the lock may use.
#[derive(Debug, Default)]
struct Turn {
    /// The folders that did not exist at the start. Their files were lost, rather than removed one
    /// by one.
    lost: Vec<KeyState>,
    /// The modification times of the folders after our last change.
    times: Vec<Option<SystemTime>>,
    /// The ids whose files are written but may not be on the disk yet.
    unsettled: Vec<(Id, Files)>,
    /// The folders that these files are in, or were in.
    touched: BTreeSet<KeyState>,
    /// The files that are written under a temporary name.
    written: Vec<(KeyState, Id)>,
    /// The files to remove once those are in place.
    removed: Vec<(KeyState, Id)>,
}

impl Turn {
    /// Forgets incomplete changes. They are made again from the files that are found and the
    /// store's rows.
    fn drop_unfinished(&mut self) {
        self.unsettled.clear();
        self.touched.clear();
        self.written.clear();
        self.removed.clear();
    }
}

/// The key files of an id, by folder.
type Files = Vec<(KeyState, PublicKey)>;

/// The files found in an id's places.
#[derive(Debug, Default)]
struct Found {
    ours: Files,
    /// The folders with an RSA key of Salt.
    salts: Vec<KeyState>,
    /// The folders with a file that is no key, or an incomplete one.
    damaged: Vec<KeyState>,
}

impl KeyFiles {
    /// Returns whether the files in `pki_dir` are a view that a master of a cluster has written.
    pub(crate) fn are_view(pki_dir: &Path) -> bool {
        pki_dir.join(VIEW).exists()
    }

    /// Opens the folders in `pki_dir`, and creates missing ones.
    ///
    /// # Errors
    /// When others may write to a folder, or it cannot be created.
    pub(crate) fn open(pki_dir: &Path, use_of: Use) -> Result<Self, Error> {
        let mark = pki_dir.join(VIEW);
        match use_of {
            Use::View => {
                Pki::open(pki_dir)?;
                write(&mark, VIEW_TEXT).map_err(|source| failed(&mark, source))?;
            }
            Use::Both => unlink(&mark)?,
        }
        let mut turn = Turn::default();
        for state in KeyState::ALL {
            let folder = pki_dir.join(state.folder());
            if !folder.is_dir() {
                turn.lost.push(state);
            }
            Pki::open(&folder)?;
        }
        Ok(Self {
            folder: pki_dir.to_owned(),
            use_of,
            turn: Mutex::new(turn),
        })
    }

    /// Applies the changes that administrators made to the files since the last look, then makes
    /// the files match the store.
    ///
    /// # Errors
    /// When a folder or the store cannot be read or written.
    pub(crate) fn repair(&self, store: &Store, at_ms: u64) -> Result<Vec<Changed>, Error> {
        let mut turn = self.turn();
        turn.drop_unfinished();
        let mut changed = Vec::new();
        for id in self.all_ids(store)? {
            changed.extend(self.adopt(&turn, store, &id, at_ms)?);
            self.show(&mut turn, store, &id)?;
        }
        self.settle(&mut turn, store)?;
        turn.lost.clear();
        Ok(changed)
    }

    /// Makes the files of some ids match the store.
    ///
    /// # Errors
    /// When a folder or the store cannot be read or written.
    pub(crate) fn show_all(&self, store: &Store, ids: &BTreeSet<Id>) -> Result<(), Error> {
        let mut turn = self.turn();
        turn.drop_unfinished();
        for id in ids {
            self.show(&mut turn, store, id)?;
        }
        self.settle(&mut turn, store)
    }

    /// Like [`KeyFiles::repair`], but reads nothing if no other process has changed a folder since
    /// the last look.
    ///
    /// # Errors
    /// As [`KeyFiles::repair`].
    pub(crate) fn refresh(&self, store: &Store, at_ms: u64) -> Result<Vec<Changed>, Error> {
        match self.are_as_left() {
            true => Ok(Vec::new()),
            false => self.repair(store, at_ms),
        }
    }

    /// Returns true if the folders are certainly unchanged since the last look. Returns false,
    /// without waiting, while they are being changed.
    pub(crate) fn are_as_left(&self) -> bool {
        let turn = self.turn.try_lock();
        turn.is_ok_and(|turn| turn.times == self.times())
    }

    /// Applies commands about keys, and makes the files match. Changes that administrators made to
    /// these ids are applied first.
    ///
    /// # Errors
    /// When a file or the store cannot be read or written. The commands may have been applied by
    /// then.
    pub(crate) fn apply(
        &self,
        store: &Store,
        commands: Vec<Command>,
        at_ms: u64,
    ) -> Result<Outcome, Error> {
        let mut outcome = Outcome::default();
        self.apply_to(store, commands, at_ms, &mut outcome)?;
        Ok(outcome)
    }

    /// Like [`KeyFiles::apply`]. After an error, `outcome` has the changes made before it.
    pub(super) fn apply_to(
        &self,
        store: &Store,
        commands: Vec<Command>,
        at_ms: u64,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let mut turn = self.turn();
        turn.drop_unfinished();
        // Changes of another process must not be mistaken for those that are made here.
        let is_known = turn.times == self.times();
        let mut ids = BTreeSet::new();
        ids.extend(commands.iter().flat_map(Command::keys).map(|(id, _)| id));
        let mut before = Vec::new();
        for id in &ids {
            outcome.changed.extend(self.adopt(&turn, store, id, at_ms)?);
            before.push(store.key(id)?);
        }
        outcome.applied = smol::block_on(all(store, commands))?;
        for (id, before) in ids.iter().zip(before) {
            let after = store.key(id)?;
            outcome.changed.extend(difference(before, after));
        }
        for (id, key) in outcome.applied.iter().filter_map(Applied::displaced) {
            outcome
                .changed
                .extend(self.adopt(&turn, store, &id, at_ms)?);
            let state = None;
            let id_gone = id.clone();
            outcome.changed.push(Changed { id, key, state });
            ids.insert(id_gone);
        }
        for id in &ids {
            self.show(&mut turn, store, id)?;
        }
        self.settle(&mut turn, store)?;
        if !is_known {
            turn.times.clear();
        }
        Ok(())
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, state: KeyState, id: &Id) -> PathBuf {
        self.folder.join(state.folder()).join(id.as_str())
    }

    fn times(&self) -> Vec<Option<SystemTime>> {
        let time = |state: KeyState| {
            let folder = self.folder.join(state.folder()).metadata();
            folder.and_then(|folder| folder.modified()).ok()
        };
        KeyState::ALL.into_iter().map(time).collect()
    }

    /// Applies the changes that an administrator made to an id's files.
    fn adopt(
        &self,
        turn: &Turn,
        store: &Store,
        id: &Id,
        at_ms: u64,
    ) -> Result<Vec<Changed>, Error> {
        if self.use_of == Use::View {
            return Ok(Vec::new());
        }
        let shown = store.key_files(id)?;
        let found = self.read(id)?;
        let new: Files = without(&found.ours, &shown);
        let mut gone: Files = without(&shown, &found.ours);
        gone.retain(|(state, _)| !turn.lost.contains(state) && !found.damaged.contains(state));
        if new.is_empty() && gone.is_empty() {
            return Ok(Vec::new());
        }
        let before = store.key(id)?;
        for command in commands(store, id, &new, &gone, at_ms)? {
            log::info(format_args!(
                "The key files of {id} were changed: updating its key"
            ));
            let applied = store.apply_blocking(command)?;
            if let Some(refusal) = applied.rejection() {
                log::warning(format_args!(
                    "ignoring the changed key files of {id}: {refusal}"
                ));
            }
        }
        Ok(difference(before, store.key(id)?))
    }

    /// Makes an id's files match the store.
    fn show(&self, turn: &mut Turn, store: &Store, id: &Id) -> Result<(), Error> {
        let found = self.read(id)?;
        let shown = match self.use_of {
            Use::Both => store.key_files(id)?,
            Use::View => found.ours.clone(),
        };
        let wanted = wanted(store, id)?;
        let mut files = Files::new();
        for (state, key) in &wanted {
            let is_there = found.ours.contains(&(*state, *key));
            let is_torn = found.damaged.contains(state);
            let was_ours = shown.iter().any(|(folder, _)| folder == state);
            if found.salts.contains(state) || is_torn && !was_ours {
                let path = self.path(*state, id);
                log::warning(format_args!(
                    "ignoring {}: not a key of Pinch; the {} key of {id} has no file",
                    path.display(),
                    state.as_str()
                ));
                continue;
            }
            if !is_there {
                let beside = self.beside(*state, turn.written.len());
                write(&beside, key.pem().as_bytes()).map_err(|source| failed(&beside, source))?;
                turn.written.push((*state, id.clone()));
            }
            files.push((*state, *key));
        }
        for (state, _) in &found.ours {
            if !wanted.iter().any(|(folder, _)| folder == state) {
                turn.removed.push((*state, id.clone()));
            }
        }
        if files != shown {
            let states = files.iter().chain(&shown).map(|(state, _)| *state);
            turn.touched.extend(states);
            turn.unsettled.push((id.clone(), files));
        }
        Ok(())
    }

    /// Syncs the written files and puts them in place, and only then records them in the store. If
    /// that fails, nothing is recorded, as after a crash.
    fn settle(&self, turn: &mut Turn, store: &Store) -> Result<(), Error> {
        turn.times.clear();
        self.put(turn)?;
        for (id, files) in turn.unsettled.drain(..) {
            // Each master has its own files, but all of them have one store.
            if self.use_of == Use::Both {
                smol::block_on(store.later(Command::KeyShown { id, files }))?;
            }
        }
        turn.drop_unfinished();
        turn.times = self.times();
        Ok(())
    }

    /// Puts new files in place, then removes old ones, so that an id with a file before and after
    /// is never without one.
    fn put(&self, turn: &Turn) -> Result<(), Error> {
        self.sync(turn)?;
        for (number, (state, id)) in turn.written.iter().enumerate() {
            let path = self.path(*state, id);
            let put = rustix::fs::rename(self.beside(*state, number), &path);
            put.map_err(|source| failed(&path, source.into()))?;
        }
        for (state, id) in &turn.removed {
            self.remove(*state, id)?;
        }
        for state in &turn.touched {
            let folder = self.folder.join(state.folder());
            let synced = File::open(&folder).and_then(|folder| folder.sync_all());
            synced.map_err(|source| failed(&folder, source))?;
        }
        Ok(())
    }

    /// Syncs the temporary files: each separately, or the whole file system if there are more than
    /// [`TOGETHER`].
    fn sync(&self, turn: &Turn) -> Result<(), Error> {
        if turn.written.len() > TOGETHER {
            let all = File::open(&self.folder).and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
            return all.map_err(|source| failed(&self.folder, source));
        }
        for (number, (state, _)) in turn.written.iter().enumerate() {
            let path = self.beside(*state, number);
            let synced = File::open(&path).and_then(|file| file.sync_all());
            synced.map_err(|source| failed(&path, source))?;
        }
        Ok(())
    }

    /// Returns the temporary path of a file. No id begins with a dot.
    fn beside(&self, state: KeyState, number: usize) -> PathBuf {
        self.folder
            .join(state.folder())
            .join(format!(".{number}{BESIDE}"))
    }

    fn read(&self, id: &Id) -> Result<Found, Error> {
        let mut found = Found::default();
        for state in KeyState::ALL {
            let path = self.path(state, id);
            match read(&path).map_err(|source| failed(&path, source))? {
                None => {}
                Some(Ok(key)) => found.ours.push((state, key)),
                Some(Err(NotAKey::Rsa)) => found.salts.push(state),
                Some(Err(_)) => found.damaged.push(state),
            }
        }
        Ok(found)
    }

    fn remove(&self, state: KeyState, id: &Id) -> Result<(), Error> {
        unlink(&self.path(state, id))
    }

    /// Returns the ids that have files, are known to the store, or had files.
    fn all_ids(&self, store: &Store) -> Result<BTreeSet<Id>, Error> {
        let mut ids: BTreeSet<Id> = store.all_shown()?.collect::<Result<_, _>>()?;
        for state in KeyState::ALL {
            for key in store.keys(state)? {
                ids.insert(key?.id);
            }
            let folder = self.folder.join(state.folder());
            let listed = listed(&folder, &mut ids);
            listed.map_err(|source| failed(&folder, source))?;
        }
        Ok(ids)
    }
}

/// The file in `pki_dir` that marks the key files as a view, and its text.
const VIEW: &str = "of_cluster";
const VIEW_TEXT: &[u8] =
    b"The key files here only show the keys of a cluster of masters. Use salt-key to change them.\n";
/// The maximum number of files that are synced separately.
const TOGETHER: usize = 4;
/// The suffix of a temporary file.
const BESIDE: &str = ".new";

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Io {
        path: path.to_owned(),
        source,
    }
}

/// Removes a file, if there is one.
fn unlink(path: &Path) -> Result<(), Error> {
    match rustix::fs::unlink(path) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(source) => Err(failed(path, source.into())),
    }
}

/// Adds the ids that have a file in a folder. Removes temporary files that a killed process has
/// left.
fn listed(folder: &Path, ids: &mut BTreeSet<Id>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') && name.ends_with(BESIDE) {
            rustix::fs::unlink(entry.path())?;
        } else if let Ok(id) = name.parse() {
            ids.insert(id);
        }
    }
    Ok(())
}

/// Reads the key in a file. Returns `None` if there is no file, or a folder, a symbolic link or a
/// pipe.
fn read(path: &Path) -> io::Result<Option<Result<PublicKey, NotAKey>>> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut text)?;
    Ok(Some(PublicKey::from_pem(&text)))
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(text)
}

fn without(these: &Files, those: &Files) -> Files {
    let these = these.iter().filter(|file| !those.contains(file));
    these.copied().collect()
}

/// Returns the files that an id should have: one for its key, and one for a denied key.
fn wanted(store: &Store, id: &Id) -> Result<Files, Error> {
    let mut wanted = Files::new();
    if let Some(key) = store.key(id)? {
        wanted.push((key.state, key.key));
    }
    if let Some(denied) = store.denied(id)?.first() {
        wanted.push((KeyState::Denied, denied.key));
    }
    Ok(wanted)
}

/// Returns the commands that match an administrator's change: the files `new` were added, the files
/// `gone` removed.
fn commands(
    store: &Store,
    id: &Id,
    new: &Files,
    gone: &Files,
    at_ms: u64,
) -> Result<Vec<Command>, Error> {
    let known = store.key(id)?;
    let mut commands = Vec::new();
    let put = FIRST
        .iter()
        .find_map(|first| new.iter().find(|(state, _)| state == first));
    match (put, &known) {
        (Some((state, key)), Some(known)) if known.key == *key && known.state == *state => {}
        (Some((state, key)), known) => {
            commands.push(becomes(id, *key, *state, known.as_ref(), at_ms));
        }
        (None, Some(known))
            if gone
                .iter()
                .any(|(state, key)| is_main(*state) && *key == known.key) =>
        {
            commands.push(deleted(id, known.key, at_ms));
        }
        (None, _) => {}
    }
    for (_, key) in new.iter().filter(|(state, _)| !is_main(*state)) {
        let id = id.clone();
        commands.push(Command::KeyDenied {
            id,
            key: *key,
            at_ms,
        });
    }
    if gone.iter().any(|(state, _)| !is_main(*state)) {
        for denied in store.denied(id)? {
            commands.push(deleted(id, denied.key, at_ms));
        }
    }
    Ok(commands)
}

fn is_main(state: KeyState) -> bool {
    state != KeyState::Denied
}

fn deleted(id: &Id, key: PublicKey, at_ms: u64) -> Command {
    Command::KeyDeleted {
        id: id.clone(),
        key,
        at_ms,
    }
}

/// Returns the command that gives an id this key in this state, whatever key it has.
fn becomes(id: &Id, key: PublicKey, state: KeyState, known: Option<&Key>, at_ms: u64) -> Command {
    let same = known.filter(|known| known.key == key);
    let id = id.clone();
    if state == KeyState::Accepted {
        return Command::KeyAccepted {
            id,
            key,
            at_ms,
            bound: same.map_or_else(Map::new, |known| known.bound.clone()),
            replace: true,
        };
    }
    let mut steps = Vec::new();
    if let Some(known) = known.filter(|_| state == KeyState::Pending || same.is_none()) {
        steps.push(deleted(&id, known.key, at_ms));
    }
    steps.push(Command::KeyOffered {
        id: id.clone(),
        key,
        at_ms,
        pending_max: u64::MAX,
        pending_per_address: u64::MAX,
        from: None,
        claim: Claim::Nothing,
    });
    if state == KeyState::Rejected {
        steps.push(Command::KeyRejected { id, key, at_ms });
    }
    Command::All(steps)
}

/// Applies commands with as few syncs as possible.
async fn all(store: &Store, commands: Vec<Command>) -> Result<Vec<Applied>, store::Error> {
    let mut begun: Vec<PendingWrite> = Vec::with_capacity(commands.len());
    for command in commands {
        begun.push(store.begin(command).await?);
    }
    let mut applied = Vec::with_capacity(begun.len());
    for begun in begun {
        applied.push(begun.done().await?);
    }
    Ok(applied)
}

/// Returns the changes from the key that an id had to the one that it has.
fn difference(before: Option<Key>, after: Option<Key>) -> Vec<Changed> {
    let mut changed = Vec::new();
    if let Some(before) = &before
        && after.as_ref().is_none_or(|after| after.key != before.key)
    {
        changed.push(Changed {
            id: before.id.clone(),
            key: before.key,
            state: None,
        });
    }
    if let Some(after) = after {
        let same = |before: &Key| before.key == after.key && before.state == after.state;
        if !before.as_ref().is_some_and(same) {
            changed.push(Changed {
                id: after.id,
                key: after.key,
                state: Some(after.state),
            });
        }
    }
    changed
}

#[cfg(test)]
mod tests;
