//! [`Keeper`]: records the old and the new state of each path that a run changes, and keeps
//! contents that are about to be lost.
//!
//! Each line is written before the change, so that a run that is killed can be undone as well. The
//! old state of a path is recorded once, the new state at every change. Neither the line nor a kept
//! copy is flushed alone: the next barrier flushes both, together with the change. A failure to
//! keep a copy does not fail the run: it is recorded as lost, with the reason.
#![expect(
    clippy::disallowed_methods,
    reason = "the kept copies are files of this program"
)]

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use sha2::{Digest, Sha256};
use state::exec::Exec;
use state::facts::Inverse;
use state::record::{self, Place, Record};
use value::python::hex;
use value::{Map, Value, remove, secret};

use super::image::{self, Image, absent};

/// The defaults without `undo_quota`: the maximum number of bytes that all runs keep, and the
/// divisor for the maximum part of the file system. The smaller limit applies.
const QUOTA: (u64, u64) = (32 << 20, 16);

/// The divisor for the part of the quota that one file may take.
const LARGE_PART: u64 = 4;

/// The maximum size, in bytes, of a file whose diff is shown and that is searched for secrets.
pub const SHOWN_BYTES_MAX: u64 = 1 << 20;

/// The divisor for the part of the file system's free space that one file may take.
const ROOM_PART: u64 = 4;

/// The maximum number of entries that are recorded for a folder that is removed or moved.
const ENTRIES_MAX: usize = 20_000;

/// The details to record about a path that is about to be changed.
#[derive(Clone, Copy, Default)]
struct Was {
    /// True to keep the contents too.
    whole: bool,
    /// True to record the times too.
    touch: bool,
    /// True if the new contents hold a secret. Then the old contents may hold an earlier secret,
    /// which can no longer be recognized.
    secret: bool,
}

/// A recorder of the changes of one run.
#[derive(Clone, Copy)]
pub(super) struct Keeper<'a> {
    cx: &'a Exec,
    record: &'a Record,
}

/// Returns the recorder for this call; `None` in test mode, without a record, and where
/// `undo_quota` is 0.
pub(super) fn keeper(cx: &Exec) -> Option<Keeper<'_>> {
    let record = cx.run.as_ref()?.record.noted()?;
    let off = || cx.opts().int("undo_quota") == Some(0);
    (!cx.test && !off()).then_some(Keeper { cx, record })
}

/// Returns true if changes are recorded.
#[must_use]
pub fn is_noted(cx: &Exec) -> bool {
    keeper(cx).is_some()
}

/// Records how to undo a change that is not to a file: its inverse, the name of the resource, its
/// old and its new state.
pub fn inverse(
    cx: &Exec,
    inverse: &Inverse,
    name: &str,
    was: impl Into<Value>,
    is: impl Into<Value>,
) {
    if let Some(keeper) = keeper(cx) {
        let entry = Map::new().with("changed", name);
        let entry = entry.with("inverse", inverse.word);
        keeper.tell(entry.with("was", was.into()).with("is", is.into()));
    }
}

/// Runs a function that changes a path, and records the change before. If the function fails, the
/// actual state is recorded afterwards.
pub(super) fn noted<T>(
    cx: &Exec,
    path: &Path,
    is: impl FnOnce() -> Image,
    act: impl FnOnce() -> std::io::Result<T>,
) -> std::io::Result<T> {
    let Some(keeper) = keeper(cx) else {
        return act();
    };
    keeper.becomes(path, is());
    let done = act();
    if done.is_err() {
        keeper.is_now(path);
    }
    done
}

/// A reader that hashes the contents as they are read.
pub(super) struct Hashed<'a> {
    contents: &'a mut dyn Read,
    hash: Option<Sha256>,
}

impl<'a> Hashed<'a> {
    /// Wraps a reader. It computes the hash only if changes are recorded.
    pub(super) fn new(contents: &'a mut dyn Read, is_noted: bool) -> Self {
        let hash = is_noted.then(Sha256::new);
        Self { contents, hash }
    }

    /// Returns the hash of the bytes read.
    pub(super) fn hash(self) -> String {
        self.hash
            .map(|hash| hex(&hash.finalize()))
            .unwrap_or_default()
    }
}

impl Read for Hashed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.contents.read(buffer)?;
        if let Some(hash) = &mut self.hash {
            hash.update(buffer.get(..count).unwrap_or_default());
        }
        Ok(count)
    }
}

impl Keeper<'_> {
    /// Records what a path is about to become. An image without `kind` names only the properties
    /// that change.
    pub(super) fn becomes(self, path: &Path, is: Image) {
        self.note(path, is, false);
    }

    /// Records that the new file, written under a temporary name, is about to replace a path.
    pub(super) fn becomes_file(self, path: &Path, new: &Path, hash: String) {
        let is = image::read(new).unwrap_or_default();
        let was = Was {
            whole: true,
            secret: holds_secret(new),
            ..Was::default()
        };
        let entry = |place: &Path| self.was(place, was).with("is", is.with("sha256", hash));
        self.note_as(path, entry);
    }

    /// Records that a path is about to be opened and written to. Its future contents are unknown.
    pub(super) fn is_written_in_place(self, path: &Path) {
        let lost = "it was modified in place";
        self.note_as(path, |_| {
            Map::new().with("is", Map::new()).with("lost", lost)
        });
    }

    /// Records that the copy, made under a temporary name, is about to replace a path.
    pub(super) fn becomes_copy(self, path: &Path, new: &Path) {
        let is = self.image_with_hash(new);
        self.becomes(path, is);
    }

    /// Records that a path was created that did not exist before.
    pub(super) fn was_made(self, path: &Path) {
        let is = self.image_with_hash(path);
        self.note_as(path, |place| {
            let noted = place.to_path_buf();
            self.record.keeping().places.insert(noted, Place::Whole);
            Map::new().with("was", absent()).with("is", is)
        });
    }

    /// Records the mode of a path after a change of owner, which may have cleared bits of it.
    pub(super) fn has_mode(self, path: &Path) {
        if let Ok(found) = path.symlink_metadata()
            && found.is_file()
            && found.mode() & 0o111 != 0
        {
            let is = Map::new().with("mode", found.mode() & 0o7777);
            self.becomes(path, is);
        }
    }

    /// Records the present state of a path after a change.
    pub(super) fn is_now(self, path: &Path) {
        let is = self.image_with_hash(path);
        self.becomes(path, is);
    }

    /// Records that only the times of a path are about to be set.
    pub(super) fn is_touched(self, path: &Path) {
        self.note(path, Map::new().with("times", Value::Null), true);
    }

    /// Records that the times of a path have been set.
    pub(super) fn was_touched(self, path: &Path) {
        if let Ok(found) = path.metadata() {
            self.becomes(path, Map::new().with("times", image::times(&found)));
        }
    }

    /// Records that a path is about to be removed with its contents.
    pub(super) fn is_removed(self, path: &Path) {
        self.each_below(path, &mut |inside| self.becomes(inside, absent()));
    }

    /// Records that a path is about to be moved with its contents. An existing target is lost.
    pub(super) fn is_moved(self, from: &Path, to: &Path) {
        self.each_below(from, &mut |inside| {
            let rest = inside.strip_prefix(from).unwrap_or_else(|_| Path::new(""));
            let place = match rest.as_os_str().is_empty() {
                true => to.to_path_buf(),
                false => to.join(rest),
            };
            let is = self.image_with_hash(inside);
            self.becomes(&place, is);
            self.becomes(inside, absent());
        });
    }

    /// Calls a function for each path below a path, and then for the path itself. If there are too
    /// many, or they cannot be listed, only the path itself is recorded, as lost.
    fn each_below(self, path: &Path, work: &mut dyn FnMut(&Path)) {
        let mut all = Vec::new();
        let lost = match below(path, &mut all) {
            Ok(true) => None,
            Ok(false) => Some(format!("it has more than {ENTRIES_MAX} entries")),
            Err(error) => Some(format!("its entries cannot be listed: {error}")),
        };
        let Some(lost) = lost else {
            all.iter().for_each(|inside| work(inside));
            return;
        };
        self.note_as(path, |_| Map::new().with("is", absent()).with("lost", lost));
    }

    /// Returns the state of a path, with the hash of a file's contents.
    fn image_with_hash(self, path: &Path) -> Image {
        let is = image::read(path).unwrap_or_default();
        match image::hash(path) {
            Ok(hash) if image::kind(&is) == "file" => is.with("sha256", hash),
            _ => is,
        }
    }

    fn note(self, path: &Path, is: Image, touch: bool) {
        let moves = !matches!(image::kind(&is), "" | "file");
        let was = Was {
            whole: is.contains("kind"),
            touch,
            secret: false,
        };
        self.note_as(path, |place| self.was(place, was).with("is", is));
        if moves {
            // The real paths of folders below a moved folder or link may have changed.
            self.record.keeping().folders.clear();
        }
    }

    /// Writes a line about a path, if the path is one that is recorded.
    fn note_as(self, path: &Path, entry: impl FnOnce(&Path) -> Map) {
        let Some(place) = self.place(path) else {
            return;
        };
        let mut line = Map::new().with("changed", place.to_string_lossy().into_owned());
        line.update(entry(&place));
        if place.to_str().is_none() {
            line.insert("lost", "its name is not UTF-8");
        }
        self.tell(line);
    }

    fn tell(self, mut entry: Map) {
        if let Some(low) = &self.cx.chunk {
            entry.insert("by", low.tag());
        }
        // A value that the record masks as a secret cannot be restored from it.
        let covered = |key: &str| {
            let value = entry.get(key).filter(|_| secret::is_any());
            value.is_some_and(|value| secret::at(&[key], value) != *value)
        };
        if ["changed", "was", "is"].into_iter().any(covered) {
            entry.insert("lost", "its record would have to contain a secret");
        }
        self.record.change(self.cx, &entry);
    }

    /// Returns the real path, so that each file has one name. Returns `None` for the program's own
    /// files and for files that are not on a disk.
    fn place(self, path: &Path) -> Option<PathBuf> {
        let path = std::path::absolute(path).ok()?;
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Some(path);
        };
        let mut keeping = self.record.keeping();
        let mut real = |folder: &Path| match keeping.folders.get(folder) {
            Some(real) => real.clone(),
            None => match folder.canonicalize() {
                Ok(real) => {
                    keeping.folders.insert(folder.to_path_buf(), real.clone());
                    real
                }
                Err(_) => really(folder),
            },
        };
        let place = real(folder).join(name);
        let own = real(&self.cx.opts().cachedir());
        let other = ["/proc", "/sys"].iter().any(|root| place.starts_with(root));
        (!other && !place.starts_with(own)).then_some(place)
    }

    /// Returns the old state of a path if it is not recorded yet: `was`, and `lost` where its
    /// contents could not be kept.
    fn was(self, place: &Path, asked: Was) -> Map {
        let wanted = if asked.whole {
            Place::Whole
        } else {
            Place::Looks
        };
        let known = self.record.keeping().places.get(place).copied();
        if known == Some(Place::Whole) || known == Some(wanted) {
            return Map::new();
        }
        let mut was = match image::read(place) {
            Ok(was) => was,
            Err(error) => return Map::new().with("lost", error.to_string()),
        };
        if asked.touch
            && let Ok(found) = place.symlink_metadata()
        {
            was.insert("times", image::times(&found));
        }
        let is_file = image::kind(&was) == "file";
        let settled = if is_file { wanted } else { Place::Whole };
        let noted = place.to_path_buf();
        self.record.keeping().places.insert(noted, settled);
        if !(is_file && asked.whole) {
            return Map::new().with("was", was);
        }
        let kept = match asked.secret || holds_secret(place) {
            true => Err(
                "it contains or contained a secret, and files with secrets are not copied"
                    .to_owned(),
            ),
            false => self.kept(place),
        };
        match kept {
            Ok(hash) => Map::new().with("was", was.with("sha256", hash)),
            Err(lost) => Map::new().with("was", was).with("lost", lost),
        }
    }

    /// Keeps the contents of a file. Returns their hash, or the reason why they are not kept.
    fn kept(self, place: &Path) -> Result<String, String> {
        let folder = record::kept(self.record.path());
        let said = |error: std::io::Error| error.to_string();
        let mut file = File::open(place).map_err(said)?;
        let size = file.metadata().map_err(said)?.len();
        if !folder.is_dir() {
            let made = DirBuilder::new().mode(0o700).create(&folder);
            made.map_err(said)?;
            self.cx.changed(self.record.path());
        }
        self.make_room(&folder, size)?;
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let new = folder.join(format!("new.{}.{count}", std::process::id()));
        let kept = copied(&mut file, &new).and_then(|hash| {
            let place = folder.join(&hash);
            std::fs::rename(&new, &place)?;
            self.cx.changed(&place);
            Ok(hash)
        });
        if kept.is_err() {
            remove::or_log(&new, std::fs::remove_file(&new));
        }
        self.cx.changed(&folder);
        let mut keeping = self.record.keeping();
        keeping.bytes = keeping.bytes.map(|bytes| bytes + size);
        kept.map_err(|error| format!("its contents could not be copied: {error}"))
    }

    /// Makes room for `size` more kept bytes. If necessary, the kept files of the oldest runs are
    /// dropped.
    fn make_room(self, folder: &Path, size: u64) -> Result<(), String> {
        let disk = rustix::fs::statvfs(folder).map_err(|error| error.to_string())?;
        let quota = match self.cx.opts().int("undo_quota") {
            Some(quota) => u64::try_from(quota).unwrap_or(0),
            None => QUOTA
                .0
                .min(disk.f_blocks.saturating_mul(disk.f_frsize) / QUOTA.1),
        };
        let large = quota / LARGE_PART;
        if size > large {
            return Err(format!(
                "its {size} bytes exceeded the limit of {large} for one file (undo_quota)"
            ));
        }
        if size > disk.f_bavail.saturating_mul(disk.f_frsize) / ROOM_PART {
            return Err("there was too little free disk space to copy its contents".to_owned());
        }
        let known = self.record.keeping().bytes;
        let mut bytes = known.unwrap_or_else(|| {
            let all = record::kept_of(self.cx.opts());
            all.iter().map(|(_, size)| size).sum()
        });
        if bytes + size > quota {
            bytes = self.dropped(bytes, quota - size);
        }
        self.record.keeping().bytes = Some(bytes);
        match bytes + size <= quota {
            true => Ok(()),
            false => Err(format!("undo_quota ({quota} bytes) was used up")),
        }
    }

    /// Drops the kept files of the oldest runs until at most `most` bytes are left. Skips this run
    /// and any that is being undone. Returns the number of bytes left.
    fn dropped(self, mut bytes: u64, most: u64) -> u64 {
        for (record, size) in record::kept_of(self.cx.opts()) {
            if bytes <= most {
                break;
            }
            if !record::is_alive(&record) && record::drop_kept(&record).is_ok() {
                bytes = bytes.saturating_sub(size);
            }
        }
        bytes
    }
}

/// Returns true if a file contains a text that is currently known as a secret, or cannot be read.
fn holds_secret(file: &Path) -> bool {
    let small = |found: std::fs::Metadata| found.len() <= SHOWN_BYTES_MAX;
    if !secret::is_any() || !file.metadata().is_ok_and(small) {
        return false;
    }
    match std::fs::read(file) {
        Ok(bytes) => secret::is_in(&String::from_utf8_lossy(&bytes)),
        Err(_) => true,
    }
}

/// Returns the real path of a folder that may not exist yet.
fn really(folder: &Path) -> PathBuf {
    match (folder.canonicalize(), folder.parent(), folder.file_name()) {
        (Ok(real), ..) => real,
        (Err(_), Some(above), Some(name)) => really(above).join(name),
        _ => folder.to_path_buf(),
    }
}

/// Lists every path below a path, each folder after its contents. Returns false if there are too
/// many.
fn below(path: &Path, all: &mut Vec<PathBuf>) -> std::io::Result<bool> {
    let is_dir = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    if is_dir {
        for entry in std::fs::read_dir(path)? {
            if !below(&entry?.path(), all)? {
                return Ok(false);
            }
        }
    }
    all.push(path.to_path_buf());
    Ok(all.len() <= ENTRIES_MAX)
}

/// Copies a file to a path that only its owner may read, and returns the hash of the contents.
fn copied(from: &mut File, to: &Path) -> std::io::Result<String> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(to)?;
    let mut contents = Hashed::new(from, true);
    std::io::copy(&mut contents, &mut file)?;
    Ok(contents.hash())
}
