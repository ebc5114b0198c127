//! [`Keeper`]: notes in the record of a run what each path was and what it becomes, and keeps what is about to be lost.
//!
//! A line is written before the change, so that a run that is killed can be undone as well. What a path was is noted the first time, what
//! it becomes every time. Neither the line nor what is kept is put on the disk by itself: both are at the next barrier, like the change.
//! Keeping is not worth failing a run: what cannot be kept is noted as lost, with the reason.
#![expect(
    clippy::disallowed_methods,
    reason = "what is kept is no file of the machine's"
)]

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use sha2::{Digest, Sha256};
use state::exec::Exec;
use state::record::{self, Place, Record};
use value::python::hex;
use value::{Map, Value, secret};

use super::image::{self, Image, absent};

/// How many bytes all runs keep where `undo_quota` does not say, and which part of its file system at most.
const QUOTA: (u64, u64) = (32 << 20, 16);

/// Which part of the quota one file may take.
const LARGE_PART: u64 = 4;

/// How large a file may be whose difference is shown, and that is searched for secrets.
pub const SHOWN_BYTES_MAX: u64 = 1 << 20;

/// Which part of the room that is left on its file system one file may take.
const ROOM_PART: u64 = 4;

/// How many entries of a folder that is removed or moved are noted.
const ENTRIES_MAX: usize = 20_000;

/// What is asked about a place that is about to be changed.
#[derive(Clone, Copy, Default)]
struct Was {
    /// Its contents too.
    whole: bool,
    /// Its times too.
    touch: bool,
    /// What it becomes holds a secret: so may what it was, which is known to nobody any more.
    secret: bool,
}

/// Notes the changes of one run.
#[derive(Clone, Copy)]
pub(super) struct Keeper<'a> {
    cx: &'a Exec,
    record: &'a Record,
}

/// Who notes the changes of this call; nobody in test mode, where no record is kept, and where `undo_quota` is 0.
pub(super) fn keeper(cx: &Exec) -> Option<Keeper<'_>> {
    let record = cx.run.as_ref()?.kept.noted()?;
    let off = || cx.opts().int("undo_quota") == Some(0);
    (!cx.test && !off()).then_some(Keeper { cx, record })
}

/// Whether changes are noted.
#[must_use]
pub fn is_noted(cx: &Exec) -> bool {
    keeper(cx).is_some()
}

/// Notes how what no file tells of is taken back: the word of an inverse, what it is about, how that was and becomes.
pub fn inverse(cx: &Exec, word: &str, name: &str, was: impl Into<Value>, is: impl Into<Value>) {
    if let Some(keeper) = keeper(cx) {
        let entry = Map::new().with("changed", name).with("inverse", word);
        keeper.tell(entry.with("was", was.into()).with("is", is.into()));
    }
}

/// Does what changes a path, which is noted before; where it fails, it is noted how things are after all.
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

/// Contents that are hashed on their way.
pub(super) struct Hashed<'a> {
    contents: &'a mut dyn Read,
    hash: Option<Sha256>,
}

impl<'a> Hashed<'a> {
    /// Hashes them where somebody notes it.
    pub(super) fn of(contents: &'a mut dyn Read, is_noted: bool) -> Self {
        let hash = is_noted.then(Sha256::new);
        Self { contents, hash }
    }

    /// The hash of what was read.
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
    /// A path is about to become this. What has no `kind` says only in what it looks different.
    pub(super) fn becomes(self, path: &Path, is: Image) {
        self.note(path, is, false);
    }

    /// The file that was written beside a path is about to be put there.
    pub(super) fn becomes_file(self, path: &Path, new: &Path, hash: String) {
        let is = image::of(new).unwrap_or_default();
        let was = Was {
            whole: true,
            secret: holds_secret(new),
            ..Was::default()
        };
        let entry = |place: &Path| self.was(place, was).with("is", is.with("sha256", hash));
        self.note_as(path, entry);
    }

    /// A path is about to be opened and written to: nobody knows what it will hold.
    pub(super) fn is_written_in_place(self, path: &Path) {
        let lost = "it was changed in place";
        self.note_as(path, |_| {
            Map::new().with("is", Map::new()).with("lost", lost)
        });
    }

    /// The copy that was made beside a path is about to be put there.
    pub(super) fn becomes_copy(self, path: &Path, new: &Path) {
        let is = self.whole(new);
        self.becomes(path, is);
    }

    /// A path was not there, and is now.
    pub(super) fn was_made(self, path: &Path) {
        let is = self.whole(path);
        self.note_as(path, |place| {
            let noted = place.to_path_buf();
            self.record.keeping().places.insert(noted, Place::Whole);
            Map::new().with("was", absent()).with("is", is)
        });
    }

    /// The owner of a path has been set, which may have cleared bits of its mode.
    pub(super) fn has_mode(self, path: &Path) {
        if let Ok(found) = path.symlink_metadata()
            && found.is_file()
            && found.mode() & 0o111 != 0
        {
            let is = Map::new().with("mode", found.mode() & 0o7777);
            self.becomes(path, is);
        }
    }

    /// A path has been changed: how it is now.
    pub(super) fn is_now(self, path: &Path) {
        let is = self.whole(path);
        self.becomes(path, is);
    }

    /// The times of a path are about to be set, and of nothing else of it.
    pub(super) fn is_touched(self, path: &Path) {
        self.note(path, Map::new().with("times", Value::Null), true);
    }

    /// The times of a path have been set.
    pub(super) fn was_touched(self, path: &Path) {
        if let Ok(found) = path.metadata() {
            self.becomes(path, Map::new().with("times", image::times(&found)));
        }
    }

    /// A path is about to be removed with all that is in it.
    pub(super) fn is_removed(self, path: &Path) {
        self.each_below(path, &mut |inside| self.becomes(inside, absent()));
    }

    /// A path is about to be moved with all that is in it. What lies where it goes is lost.
    pub(super) fn is_moved(self, from: &Path, to: &Path) {
        self.each_below(from, &mut |inside| {
            let rest = inside.strip_prefix(from).unwrap_or_else(|_| Path::new(""));
            let place = match rest.as_os_str().is_empty() {
                true => to.to_path_buf(),
                false => to.join(rest),
            };
            let is = self.whole(inside);
            self.becomes(&place, is);
            self.becomes(inside, absent());
        });
    }

    /// Works on a path after all that is below it; on itself alone, as something lost, where that is too much.
    fn each_below(self, path: &Path, work: &mut dyn FnMut(&Path)) {
        let mut all = Vec::new();
        if below(path, &mut all) {
            all.iter().for_each(|inside| work(inside));
        } else {
            let lost = format!("it has more than {ENTRIES_MAX} entries");
            self.note_as(path, |_| Map::new().with("is", absent()).with("lost", lost));
        }
    }

    /// What lies at a path, with the hash of a file's contents.
    fn whole(self, path: &Path) -> Image {
        let is = image::of(path).unwrap_or_default();
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
            // What was below a folder or a link may be elsewhere now.
            self.record.keeping().folders.clear();
        }
    }

    /// Writes a line about a path, where it is one that is noted.
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
        if let Some(low) = &self.cx.low {
            entry.insert("by", low.tag());
        }
        // What stands covered in the record cannot be put back from it.
        let covered = |key: &str| {
            let value = entry.get(key).filter(|_| secret::is_any());
            value.is_some_and(|value| secret::at(&[key], value) != *value)
        };
        if ["changed", "was", "is"].into_iter().any(covered) {
            entry.insert("lost", "a secret would have to stand in the record for it");
        }
        self.record.change(self.cx, &entry);
    }

    /// Where a path really is, so that one file has one name; none for what is the program's own, and what no disk holds.
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

    /// What a place was, where that is not noted yet: `was`, and `lost` where it could not be kept.
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
        let mut was = match image::of(place) {
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
            true => Err("it holds or held a secret, of which no copy is kept".to_owned()),
            false => self.kept(place),
        };
        match kept {
            Ok(hash) => Map::new().with("was", was.with("sha256", hash)),
            Err(lost) => Map::new().with("was", was).with("lost", lost),
        }
    }

    /// Keeps the contents of a file; their hash, or why they are not kept.
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
            let _ = std::fs::remove_file(&new);
        }
        self.cx.changed(&folder);
        let mut keeping = self.record.keeping();
        keeping.bytes = keeping.bytes.map(|bytes| bytes + size);
        kept.map_err(|error| format!("its contents could not be kept: {error}"))
    }

    /// Sees to it that so many bytes may be kept: the oldest runs lose theirs first.
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
                "it had {size} bytes, and undo_quota lets one file have {large}"
            ));
        }
        if size > disk.f_bavail.saturating_mul(disk.f_frsize) / ROOM_PART {
            return Err("there was too little room to keep its contents".to_owned());
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

    /// Drops what the oldest runs keep, not this one and none that is being undone, until no more than so many bytes are left; how
    /// many are.
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

/// Whether a file holds something of what is known now as a secret.
fn holds_secret(file: &Path) -> bool {
    let small = |found: std::fs::Metadata| found.len() <= SHOWN_BYTES_MAX;
    if !secret::is_any() || !file.metadata().is_ok_and(small) {
        return false;
    }
    let bytes = std::fs::read(file).unwrap_or_default();
    secret::is_in(&String::from_utf8_lossy(&bytes))
}

/// Where a folder would be that is not there yet.
fn really(folder: &Path) -> PathBuf {
    match (folder.canonicalize(), folder.parent(), folder.file_name()) {
        (Ok(real), ..) => real,
        (Err(_), Some(above), Some(name)) => really(above).join(name),
        _ => folder.to_path_buf(),
    }
}

/// All that is below a path, each folder after what is in it; false where that is too much.
fn below(path: &Path, all: &mut Vec<PathBuf>) -> bool {
    let is_dir = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    if is_dir {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            if !below(&entry.path(), all) {
                return false;
            }
        }
    }
    all.push(path.to_path_buf());
    all.len() <= ENTRIES_MAX
}

/// Copies a file to where only its owner may read it, and hashes it on the way.
fn copied(from: &mut File, to: &Path) -> std::io::Result<String> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(to)?;
    let mut contents = Hashed::of(from, true);
    std::io::copy(&mut contents, &mut file)?;
    Ok(contents.hash())
}
