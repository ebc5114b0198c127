//! Changing files so that power may fail at any instruction.
//!
//! A file is written beside its target, given owner and mode, and renamed. An existing file is only ever replaced by data that is
//! already on the disk; a new one is made durable by the next barrier ([`Exec::barrier`]), unless `file_sync: always` says otherwise.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::OFlags;
use rustix::process::Pid;
use state::exec::Exec;
use state::module::Error;
use value::{Map, trust};

pub mod handle;
pub mod image;
mod keep;
mod read;
mod walk;

use handle::{Folder, Last, Links, Place};
use keep::{Hashed, keeper, noted};
pub use keep::{SHOWN_BYTES_MAX, inverse, is_noted};
pub use read::{
    is_missing, link_target, link_target_or_none, list, list_or_none, names, open, raw, read,
    read_or_none, text, text_or_none,
};
pub use walk::{Walked, here, here_if_readable, is_text_file, walk, walk_links};

/// Owner and mode of a file that is written; what is none stays as the replaced file has it, or as a new file gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The permission bits, set-id and sticky bits included.
    pub mode: Option<u32>,
    /// The user's number.
    pub uid: Option<u32>,
    /// The group's number.
    pub gid: Option<u32>,
}

/// Writes a whole file: at any moment it is either old or new.
///
/// # Errors
/// When the folder is missing or the disk is full; the old file is then untouched and nothing is left beside it.
pub fn write(cx: &Exec, path: &Path, contents: &[u8], owner: Owner) -> Result<(), Error> {
    write_from(cx, path, &mut &*contents, owner)
}

/// The same with contents that are read on the way: a large file never lies in memory.
///
/// # Errors
/// When the folder is missing, the disk is full or the contents cannot be read; the old file is then untouched.
pub fn write_from(
    cx: &Exec,
    path: &Path,
    contents: &mut dyn Read,
    owner: Owner,
) -> Result<(), Error> {
    let led = at(cx, path, Last::Led).map_err(Error::io(path))?;
    match led.is_there() {
        true => put(cx, &led, contents, owner),
        false => replace_from(cx, path, contents, owner),
    }
}

/// Opens the folder that a path is in, as far as its symlinks may be followed.
fn at(cx: &Exec, path: &Path, last: Last) -> std::io::Result<Place> {
    handle::place(path, Links::of(cx), last)
}

/// The same, but a link at `path` is replaced and what it points to is left alone.
///
/// # Errors
/// When the folder is missing, the disk is full or the contents cannot be read; the old file is then untouched.
pub fn replace_from(
    cx: &Exec,
    path: &Path,
    contents: &mut dyn Read,
    owner: Owner,
) -> Result<(), Error> {
    let place = at(cx, path, Last::Itself).map_err(Error::io(path))?;
    put(cx, &place, contents, owner)
}

/// Writes a file under a name of its own and gives it the name of the place: all of it in the folder
/// that the place holds open, whatever happens to the path meanwhile.
fn put(cx: &Exec, place: &Place, contents: &mut dyn Read, owner: Owner) -> Result<(), Error> {
    let (folder, target) = (&place.folder, place.path());
    let old = folder.led_to(&place.name);
    let owner = Owner {
        mode: owner
            .mode
            .or_else(|| old.as_ref().map(|old| old.mode() & 0o7777)),
        uid: owner.uid.or_else(|| old.as_ref().map(MetadataExt::uid)),
        gid: owner.gid.or_else(|| old.as_ref().map(MetadataExt::gid)),
    };
    let name = beside(folder, &place.name);
    let temporary = folder.path().join(&name);
    let sync = old.is_some() || cx.opts().text("file_sync") == Some("always");
    let keeper = keeper(cx);
    let mut contents = Hashed::of(contents, keeper.is_some());
    let placed = fill(folder, &name, &mut contents, owner, sync)
        .and_then(|()| as_foreseen(cx, &target, &temporary))
        .and_then(|()| {
            if let Some(keeper) = keeper {
                keeper.becomes_file(&target, &temporary, contents.hash());
            }
            folder.rename(&name, folder, &place.name)
        });
    if let Err(error) = placed {
        let _ = folder.unlink(&name);
        return Err(Error::io(&target)(error));
    }
    note(cx, &target);
    Ok(())
}

/// Asks who has foreseen the run whether a file is to hold what was written beside it.
fn as_foreseen(cx: &Exec, path: &Path, new: &Path) -> std::io::Result<()> {
    let foresight = cx.foresight.as_ref();
    foresight.map_or(Ok(()), |foresight| foresight.may_place(cx, path, new))
}

/// In test mode: tells who looks ahead what a file would hold. Contents that cannot be read are told by the run itself.
pub(crate) fn would_hold<C: AsRef<[u8]>>(
    cx: &Exec,
    path: &Path,
    contents: impl FnOnce() -> Result<C, Error>,
) {
    if let (true, Some(foresight)) = (cx.test, &cx.foresight)
        && let Ok(contents) = contents()
    {
        foresight.would_hold(cx, &resolved(path), contents.as_ref());
    }
}

/// A link is written through, as Salt does; the rename must happen where the link points.
fn resolved(path: &Path) -> PathBuf {
    let led = path.is_symlink().then(|| path.canonicalize().ok());
    led.flatten().unwrap_or_else(|| path.to_path_buf())
}

/// Returns the name under which something is made that will get the name of a target.
fn beside(folder: &Folder, target: &OsStr) -> OsString {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    sweep_once(folder);
    let name = target.to_string_lossy();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!(".{name:.200}.{}.{count}.pinch", std::process::id()).into()
}

/// Whether a name is that of what a run that was killed has left beside what it wrote.
#[must_use]
pub fn is_left(name: &OsStr) -> bool {
    writer(name).is_some_and(is_gone)
}

/// Removes from a folder what runs that were killed have left there; this program looks into each folder once.
pub fn sweep(folder: &Path) {
    if let Ok(folder) = Folder::open(folder, Links::Followed) {
        sweep_once(&folder);
    }
}

fn sweep_once(folder: &Folder) {
    static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if !swept.insert(folder.path().to_path_buf()) {
        return;
    }
    for name in folder.names().unwrap_or_default() {
        if is_left(&name) {
            // What cannot be removed is in nobody's way.
            let _ = folder.unlink(&name);
        }
    }
}

/// The process that a file made by [`beside`] belongs to.
fn writer(name: &OsStr) -> Option<Pid> {
    let name = name.to_str()?.strip_prefix('.')?.strip_suffix(".pinch")?;
    let (rest, _count) = name.rsplit_once('.')?;
    let (_target, pid) = rest.rsplit_once('.')?;
    Pid::from_raw(pid.parse().ok()?)
}

fn is_gone(pid: Pid) -> bool {
    rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
}

fn fill(
    folder: &Folder,
    name: &OsStr,
    contents: &mut dyn Read,
    owner: Owner,
    sync: bool,
) -> std::io::Result<()> {
    // Closed to others until it has its owner and mode.
    let private = if owner.mode.is_some() { 0o600 } else { 0o666 };
    let mut file = folder.create(name, private)?;
    std::io::copy(contents, &mut file)?;
    give(&file, owner)?;
    if sync { file.sync_all() } else { Ok(()) }
}

fn give(file: &File, owner: Owner) -> std::io::Result<()> {
    let now = file.metadata()?;
    let changed = |wanted: Option<u32>, has: u32| wanted.filter(|wanted| *wanted != has);
    let (uid, gid) = (changed(owner.uid, now.uid()), changed(owner.gid, now.gid()));
    if uid.is_some() || gid.is_some() {
        fchown(file, uid, gid)?;
    }
    // After the owner: changing that clears the set-id bits.
    match owner.mode {
        Some(mode) => file.set_permissions(std::fs::Permissions::from_mode(mode)),
        None => Ok(()),
    }
}

/// Notes a path and the folder that it is in.
fn note(cx: &Exec, path: &Path) {
    cx.changed(path);
    if let Some(folder) = path.parent() {
        cx.changed(folder);
    }
}

/// Removes a file or a link, or a folder with all that is in it.
///
/// # Errors
/// When it is not there or the system refuses.
pub fn remove(cx: &Exec, path: &Path) -> std::io::Result<()> {
    let place = at(cx, path, Last::Itself)?;
    place.entry()?;
    remove_at(cx, &place.folder, &place.name)
}

/// Removes what has a name in a folder that is held open, with all that is in it.
///
/// # Errors
/// When it is not there or the system refuses.
pub fn remove_at(cx: &Exec, folder: &Folder, name: &OsStr) -> std::io::Result<()> {
    let path = &folder.path().join(name);
    if let Some(keeper) = keeper(cx) {
        keeper.is_removed(path);
    }
    folder.remove(name)?;
    note(cx, path);
    Ok(())
}

/// Removes an empty folder.
///
/// # Errors
/// When it is not empty or the system refuses.
pub fn rmdir(cx: &Exec, path: &Path) -> std::io::Result<()> {
    let place = at(cx, path, Last::Itself)?;
    noted(cx, path, image::absent, || place.folder.rmdir(&place.name))?;
    note(cx, path);
    Ok(())
}

/// Makes one folder.
///
/// # Errors
/// When its parent is missing or the system refuses.
pub fn mkdir(cx: &Exec, path: &Path) -> std::io::Result<()> {
    let place = at(cx, path, Last::Itself)?;
    noted(cx, path, directory, || {
        place.folder.mkdir(&place.name, 0o777)
    })?;
    note(cx, path);
    Ok(())
}

/// Makes a folder with those above it. Where the program keeps its own state, only its owner may enter.
///
/// # Errors
/// When the system refuses.
pub fn mkdirs(cx: &Exec, path: &Path) -> std::io::Result<()> {
    if path.starts_with(cx.opts().cachedir()) {
        return mkdirs_private(cx, path);
    }
    note_missing(cx, path);
    make_all(cx, path)?;
    note(cx, path);
    Ok(())
}

fn make_all(cx: &Exec, path: &Path) -> std::io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return handle::permitted(path, Links::of(cx));
    }
    path.parent().map_or(Ok(()), |above| make_all(cx, above))?;
    let place = at(cx, path, Last::Itself)?;
    match place.folder.mkdir(&place.name, 0o777) {
        // Another one made it meanwhile.
        Err(_) if path.is_dir() => Ok(()),
        made => made,
    }
}

/// Lets a program, or who writes in place for a purpose, change a file: what it was is noted before, what it is after.
pub fn changed_by<T>(cx: &Exec, path: &Path, act: impl FnOnce() -> T) -> T {
    let keeper = keeper(cx);
    let place = keeper.map(|keeper| {
        let place = resolved(path);
        keeper.becomes(&place, Map::new().with("kind", "file"));
        place
    });
    let done = act();
    if let (Some(keeper), Some(place)) = (keeper, place) {
        keeper.is_now(&place);
    }
    done
}

/// Makes a folder that only its owner may enter, with those above it.
///
/// # Errors
/// When the system refuses.
pub fn mkdirs_private(cx: &Exec, path: &Path) -> std::io::Result<()> {
    note_missing(cx, path);
    trust::folder(path)?;
    note(cx, path);
    Ok(())
}

/// A folder that is made now; which mode it gets is the system's choice.
fn directory() -> image::Image {
    Map::new().with("kind", "directory")
}

/// A link that is made now.
fn link(target: &Path) -> image::Image {
    let target = target.to_string_lossy().into_owned();
    Map::new().with("kind", "symlink").with("target", target)
}

/// Notes the folders that are about to be made, the uppermost first.
fn note_missing(cx: &Exec, path: &Path) {
    let Some(keeper) = keeper(cx) else {
        return;
    };
    let missing = path.ancestors().take_while(|folder| !folder.is_dir());
    let missing: Vec<&Path> = missing.collect();
    for folder in missing.into_iter().rev() {
        keeper.becomes(folder, directory());
    }
}

/// Makes a symbolic link.
///
/// # Errors
/// When something is there or the system refuses.
pub fn symlink(cx: &Exec, target: &Path, path: &Path) -> std::io::Result<()> {
    let place = at(cx, path, Last::Itself)?;
    let make = || place.folder.symlink(target, &place.name);
    noted(cx, path, || link(target), make)?;
    note(cx, path);
    Ok(())
}

/// Puts a symbolic link in the place of whatever file or link is there, in one step.
///
/// # Errors
/// When a folder is there or the system refuses.
pub fn replace_with_symlink(cx: &Exec, target: &Path, path: &Path) -> std::io::Result<()> {
    let Place { folder, name } = at(cx, path, Last::Itself)?;
    let temporary = beside(&folder, &name);
    folder.symlink(target, &temporary)?;
    let rename = || folder.rename(&temporary, &folder, &name);
    if let Err(error) = noted(cx, path, || link(target), rename) {
        let _ = folder.unlink(&temporary);
        return Err(error);
    }
    note(cx, path);
    Ok(())
}

/// Makes another name for a file.
///
/// # Errors
/// When something is there, it is on another file system, or the system refuses.
pub fn hard_link(cx: &Exec, source: &Path, path: &Path) -> std::io::Result<()> {
    let (from, to) = (at(cx, source, Last::Itself)?, at(cx, path, Last::Itself)?);
    from.folder.link(&from.name, &to.folder, &to.name)?;
    if let Some(keeper) = keeper(cx) {
        keeper.was_made(path);
    }
    note(cx, path);
    Ok(())
}

/// Gives a path another name on the same file system.
///
/// # Errors
/// When the system refuses.
pub fn rename(cx: &Exec, from: &Path, to: &Path) -> std::io::Result<()> {
    moved(cx, from, to)?;
    note(cx, from);
    note(cx, to);
    Ok(())
}

fn moved(cx: &Exec, from: &Path, to: &Path) -> std::io::Result<()> {
    let (old, new) = (at(cx, from, Last::Itself)?, at(cx, to, Last::Itself)?);
    if let Some(keeper) = keeper(cx) {
        keeper.is_moved(from, to);
    }
    old.folder.rename(&old.name, &new.folder, &new.name)
}

/// Moves a path; where it goes to another file system it is copied and then removed.
///
/// # Errors
/// When the system refuses; the source is then still there.
pub fn move_path(cx: &Exec, from: &Path, to: &Path) -> std::io::Result<()> {
    match moved(cx, from, to) {
        Err(error) if error.kind() == std::io::ErrorKind::CrossesDevices => {
            copy_tree(cx, from, to)?;
            cx.barrier();
            remove(cx, from)
        }
        other => {
            other?;
            note(cx, from);
            note(cx, to);
            Ok(())
        }
    }
}

/// Copies a file, link or folder with modes and times; owners are those of a new file.
///
/// # Errors
/// When the system refuses.
pub fn copy_tree(cx: &Exec, from: &Path, to: &Path) -> std::io::Result<()> {
    let found = from.symlink_metadata()?;
    if found.is_symlink() {
        return symlink(cx, &raw::link_target(from)?, to);
    }
    if !found.is_dir() {
        return copy_file(cx, from, to);
    }
    mkdirs(cx, to)?;
    for entry in raw::entries(from)? {
        copy_tree(cx, &entry.path(), &to.join(entry.file_name()))?;
    }
    chmod(cx, to, found.mode() & 0o7777, true)?;
    note(cx, to);
    Ok(())
}

/// Copies a file's contents and mode to a new name, whole or not at all.
///
/// # Errors
/// When the system refuses.
pub fn copy_file(cx: &Exec, from: &Path, to: &Path) -> std::io::Result<()> {
    let Place { folder, name } = at(cx, to, Last::Itself)?;
    let temporary = beside(&folder, &name);
    let copied = copied(from, &folder, &temporary, to.exists()).and_then(|()| {
        if let Some(keeper) = keeper(cx) {
            keeper.becomes_copy(to, &folder.path().join(&temporary));
        }
        folder.rename(&temporary, &folder, &name)
    });
    if let Err(error) = copied {
        let _ = folder.unlink(&temporary);
        return Err(error);
    }
    note(cx, to);
    Ok(())
}

fn copied(from: &Path, folder: &Folder, name: &OsStr, sync: bool) -> std::io::Result<()> {
    let mut source = raw::open(from)?;
    let found = source.metadata()?;
    if !found.is_file() {
        let sentence = "the source path is not a regular file";
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            sentence,
        ));
    }
    let mut file = folder.create(name, 0o600)?;
    std::io::copy(&mut source, &mut file)?;
    file.set_permissions(found.permissions())?;
    if sync { file.sync_all() } else { Ok(()) }
}

/// Sets the permission bits of a path, or with `follow` of what it leads to. A symlink has none.
///
/// # Errors
/// When the system refuses.
pub fn chmod(cx: &Exec, path: &Path, mode: u32, follow: bool) -> std::io::Result<()> {
    let last = if follow { Last::Led } else { Last::Itself };
    chmod_at(cx, &at(cx, path, last)?, mode)?;
    cx.changed(path);
    Ok(())
}

/// Sets the permission bits of what has a name in a folder that is held open.
///
/// # Errors
/// When it is a symlink or the system refuses.
pub fn chmod_at(cx: &Exec, place: &Place, mode: u32) -> std::io::Result<()> {
    let entry = place.entry()?;
    let path = &place.path();
    let looks = || Map::new().with("mode", mode & 0o7777);
    noted(cx, path, looks, || entry.chmod(mode))?;
    cx.changed(path);
    Ok(())
}

/// Sets the owner of what a path leads to, or with `follow` false of the link itself.
///
/// # Errors
/// When the system refuses.
pub fn chown(
    cx: &Exec,
    path: &Path,
    uid: Option<u32>,
    gid: Option<u32>,
    follow: bool,
) -> std::io::Result<()> {
    let last = if follow { Last::Led } else { Last::Itself };
    chown_at(cx, &at(cx, path, last)?, uid, gid)?;
    cx.changed(path);
    Ok(())
}

/// Sets the owner of what has a name in a folder that is held open, of a symlink itself.
///
/// # Errors
/// When the system refuses.
pub fn chown_at(
    cx: &Exec,
    place: &Place,
    uid: Option<u32>,
    gid: Option<u32>,
) -> std::io::Result<()> {
    let entry = place.entry()?;
    let path = &place.path();
    let owner = || {
        let given = [("uid", uid), ("gid", gid)].into_iter();
        let given = given.filter_map(|(key, id)| Some((key, id?)));
        given.fold(Map::new(), |map, (key, id)| map.with(key, id))
    };
    noted(cx, path, owner, || entry.chown(uid, gid))?;
    if let Some(keeper) = keeper(cx) {
        keeper.has_mode(path);
    }
    cx.changed(path);
    Ok(())
}

/// Sets the times of a path, which is made as an empty file if it is not there.
///
/// # Errors
/// When the system refuses.
pub fn touch(cx: &Exec, path: &Path, times: std::fs::FileTimes) -> std::io::Result<()> {
    let led = at(cx, path, Last::Led)?;
    let place = led.path();
    let keeper = keeper(cx);
    let file = if led.is_there() {
        if let Some(keeper) = keeper {
            keeper.is_touched(&place);
        }
        led.folder.file(&led.name, OFlags::RDONLY, 0)?
    } else {
        let made = || led.folder.create(&led.name, 0o666);
        let new = || Map::new().with("kind", "file").with("size", 0);
        noted(cx, &place, new, made).inspect(|_| note(cx, path))?
    };
    file.set_times(times)?;
    if let Some(keeper) = keeper {
        keeper.was_touched(&place);
    }
    cx.changed(path);
    Ok(())
}

/// Makes a device node or a pipe.
///
/// # Errors
/// When something is there or the system refuses.
pub fn mknod(
    cx: &Exec,
    path: &Path,
    kind: rustix::fs::FileType,
    mode: u32,
    device: (u32, u32),
) -> std::io::Result<()> {
    let device = rustix::fs::makedev(device.0, device.1);
    let node = || Map::new().with("kind", "node");
    let place = at(cx, path, Last::Itself)?;
    noted(cx, path, node, || {
        place.folder.node(&place.name, kind, mode, device)
    })?;
    note(cx, path);
    Ok(())
}

/// Opens a file to change it in place, which only what is written in place for a purpose may do.
///
/// # Errors
/// When it is not there or the system refuses.
pub fn open_in_place(cx: &Exec, path: &Path) -> std::io::Result<File> {
    let led = at(cx, path, Last::Led)?;
    if let Some(keeper) = keeper(cx) {
        keeper.is_written_in_place(&led.path());
    }
    cx.changed(path);
    led.folder.file(&led.name, OFlags::WRONLY, 0)
}
