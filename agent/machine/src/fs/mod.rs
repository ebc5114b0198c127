//! Changes to files that survive a power failure at any instruction.
//!
//! A file is written under a temporary name in its target's folder, given owner and mode, and
//! renamed. An existing file is only ever replaced by data that is already on the disk. A new file
//! is made durable by the next barrier ([`Exec::barrier`]), unless `file_sync: always` is set.

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
use value::{Map, remove, trust};

pub mod handle;
pub mod image;
mod keep;
pub mod no_links;
mod read;
mod temporary;
mod walk;

use handle::{Folder, Last, Links, Place};
use keep::{Hashed, keeper, noted};
pub use keep::{SHOWN_BYTES_MAX, inverse, is_noted};
pub use read::{
    is_missing, is_text_file, link_target, link_target_or_none, list, list_or_none, names, open,
    raw, read, read_or_none, text, text_or_none,
};
pub use temporary::Temporary;
pub use walk::{Walked, here, here_if_readable, walk, walk_links, walk_readable};

/// The owner and mode of a file that is written. A part that is `None` is taken from the replaced
/// file, or is the default of a new file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The permission bits, set-id and sticky bits included.
    pub mode: Option<u32>,
    /// The user's number.
    pub uid: Option<u32>,
    /// The group's number.
    pub gid: Option<u32>,
}

/// Writes a whole file. At any moment the path has either the old or the new contents.
///
/// # Errors
/// When the folder is missing or the disk is full. The old file is then untouched, and no temporary
/// file remains.
pub fn write(cx: &Exec, path: &Path, contents: &[u8], owner: Owner) -> Result<(), Error> {
    write_from(cx, path, &mut &*contents, owner)
}

/// Like [`write()`], but copies from a reader, so a large file is never held in memory.
///
/// # Errors
/// When the folder is missing, the disk is full or the contents cannot be read. The old file is
/// then untouched.
pub fn write_from(
    cx: &Exec,
    path: &Path,
    contents: &mut dyn Read,
    owner: Owner,
) -> Result<(), Error> {
    let led = at(cx, path, Last::Led).map_err(Error::io(path))?;
    match led.exists() {
        true => put(cx, &led, contents, owner),
        false => replace_from(cx, path, contents, owner),
    }
}

/// Opens the folder of a path. Follows only symlinks that the configuration permits.
fn at(cx: &Exec, path: &Path, last: Last) -> std::io::Result<Place> {
    handle::place(path, Links::from_config(cx), last)
}

/// Like [`write_from`], but replaces a link at `path` instead of the file that it points to.
///
/// # Errors
/// When the folder is missing, the disk is full or the contents cannot be read. The old file is
/// then untouched.
pub fn replace_from(
    cx: &Exec,
    path: &Path,
    contents: &mut dyn Read,
    owner: Owner,
) -> Result<(), Error> {
    let place = at(cx, path, Last::Itself).map_err(Error::io(path))?;
    put(cx, &place, contents, owner)
}

/// Writes a file under a temporary name and renames it to the name of the place. Both happen in the
/// folder that the place holds open, so another change of the path has no effect.
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
    let mut contents = Hashed::new(contents, keeper.is_some());
    let placed = fill(folder, &name, &mut contents, owner, sync)
        .and_then(|()| as_foreseen(cx, &target, &temporary))
        .and_then(|()| {
            if let Some(keeper) = keeper {
                keeper.becomes_file(&target, &temporary, contents.hash());
            }
            folder.rename(&name, folder, &place.name)
        });
    if let Err(error) = placed {
        remove::or_log(folder.path().join(&name), folder.unlink(&name));
        return Err(Error::io(&target)(error));
    }
    note(cx, &target);
    Ok(())
}

/// Checks with the preview of the run, if there is one, that a file may be replaced by the new
/// file.
fn as_foreseen(cx: &Exec, path: &Path, new: &Path) -> std::io::Result<()> {
    let previewer = cx.previewer.as_ref();
    previewer.map_or(Ok(()), |previewer| previewer.may_place(cx, path, new))
}

/// Reports the future contents of a file to the preview, in test mode only. Contents that cannot be
/// read are left to the run itself, which reports the error.
pub fn would_hold<C: AsRef<[u8]>>(
    cx: &Exec,
    path: &Path,
    contents: impl FnOnce() -> Result<C, Error>,
) {
    if let (true, Some(previewer)) = (cx.test, &cx.previewer)
        && let Ok(contents) = contents()
    {
        previewer.would_hold(cx, &resolved(path), contents.as_ref());
    }
}

/// Returns the path that a link points to. As in Salt, files are written through links, so the
/// rename must happen at the link's target.
fn resolved(path: &Path) -> PathBuf {
    let led = path.is_symlink().then(|| path.canonicalize().ok());
    led.flatten().unwrap_or_else(|| path.to_path_buf())
}

/// Returns a temporary name for a new file that will replace a target. Temporary files that killed
/// runs left in the folder are removed before.
pub fn beside(folder: &Folder, target: &OsStr) -> OsString {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    sweep_once(folder);
    let name = target.to_string_lossy();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!(".{name:.200}.{}.{count}.pinch", std::process::id()).into()
}

/// Returns true if a name is that of a temporary file, of a run in progress or of one that was killed.
#[must_use]
pub fn is_temporary(name: &OsStr) -> bool {
    writer(name).is_some()
}

/// Returns true if a name is that of a temporary file left by a run that was killed.
#[must_use]
pub fn is_left(name: &OsStr) -> bool {
    writer(name).is_some_and(is_gone)
}

/// Removes the temporary files that killed runs left in a folder. This program searches each folder
/// once.
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
            remove::or_log(folder.path().join(&name), folder.unlink(&name));
        }
    }
}

/// Returns the process that a file named by [`beside`] belongs to.
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
    // Other users cannot read it until it has its owner and mode.
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
    // This is after the change of owner, which clears the set-id bits.
    match owner.mode {
        Some(mode) => file.set_permissions(std::fs::Permissions::from_mode(mode)),
        None => Ok(()),
    }
}

/// Marks a path and its folder as changed.
fn note(cx: &Exec, path: &Path) {
    cx.changed(path);
    if let Some(folder) = path.parent() {
        cx.changed(folder);
    }
}

/// Removes a file, a link, or a folder with its contents.
///
/// # Errors
/// When it does not exist or the system refuses.
pub fn remove(cx: &Exec, path: &Path) -> std::io::Result<()> {
    let place = at(cx, path, Last::Itself)?;
    place.entry()?;
    remove_at(cx, &place.folder, &place.name)
}

/// Removes an entry of an open folder, with its contents.
///
/// # Errors
/// When it does not exist or the system refuses.
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

/// Creates one folder.
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

/// Creates a folder and its missing parents. Below the program's own `cachedir`, only the owner may
/// enter them.
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
        return handle::permitted(path, Links::from_config(cx));
    }
    path.parent().map_or(Ok(()), |above| make_all(cx, above))?;
    let place = at(cx, path, Last::Itself)?;
    match place.folder.mkdir(&place.name, 0o777) {
        // Another process has created it meanwhile.
        Err(_) if path.is_dir() => Ok(()),
        made => made,
    }
}

/// Runs a function that changes a file in place, for example by a program. The record gets the old
/// state before, and the new state after it.
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

/// Creates a folder that only its owner may enter, and its missing parents.
///
/// # Errors
/// When the system refuses.
pub fn mkdirs_private(cx: &Exec, path: &Path) -> std::io::Result<()> {
    note_missing(cx, path);
    trust::folder(path)?;
    note(cx, path);
    Ok(())
}

/// Returns the image of a new folder. The system chooses its mode.
fn directory() -> image::Image {
    Map::new().with("kind", "directory")
}

/// Returns the image of a new link.
fn link(target: &Path) -> image::Image {
    let target = target.to_string_lossy().into_owned();
    Map::new().with("kind", "symlink").with("target", target)
}

/// Notes the folders that are about to be created, the uppermost first.
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

/// Creates a symbolic link.
///
/// # Errors
/// When the path exists or the system refuses.
pub fn symlink(cx: &Exec, target: &Path, path: &Path) -> std::io::Result<()> {
    let place = at(cx, path, Last::Itself)?;
    let make = || place.folder.symlink(target, &place.name);
    noted(cx, path, || link(target), make)?;
    note(cx, path);
    Ok(())
}

/// Replaces a file or link by a symbolic link, in one step.
///
/// # Errors
/// When the path is a folder or the system refuses.
pub fn replace_with_symlink(cx: &Exec, target: &Path, path: &Path) -> std::io::Result<()> {
    let Place { folder, name } = at(cx, path, Last::Itself)?;
    let temporary = beside(&folder, &name);
    folder.symlink(target, &temporary)?;
    let rename = || folder.rename(&temporary, &folder, &name);
    if let Err(error) = noted(cx, path, || link(target), rename) {
        remove::or_log(folder.path().join(&temporary), folder.unlink(&temporary));
        return Err(error);
    }
    note(cx, path);
    Ok(())
}

/// Creates another name for a file.
///
/// # Errors
/// When the path exists, it is on another file system, or the system refuses.
pub fn hard_link(cx: &Exec, source: &Path, path: &Path) -> std::io::Result<()> {
    let (from, to) = (at(cx, source, Last::Itself)?, at(cx, path, Last::Itself)?);
    from.folder.link(&from.name, &to.folder, &to.name)?;
    if let Some(keeper) = keeper(cx) {
        keeper.was_made(path);
    }
    note(cx, path);
    Ok(())
}

/// Renames a path on the same file system.
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

/// Moves a path. If the target is on another file system, it is copied and then removed.
///
/// # Errors
/// When the system refuses. The source then still exists.
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

/// Copies a file, link or folder with modes and times. The copies have the owner of a new file.
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

/// Copies a file's contents and mode to a new name, completely or not at all.
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
        remove::or_log(folder.path().join(&temporary), folder.unlink(&temporary));
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

/// Sets the permission bits of a path, or with `follow` those of its target. A symlink itself has
/// none.
///
/// # Errors
/// When the system refuses.
pub fn chmod(cx: &Exec, path: &Path, mode: u32, follow: bool) -> std::io::Result<()> {
    let last = if follow { Last::Led } else { Last::Itself };
    chmod_at(cx, &at(cx, path, last)?, mode)?;
    cx.changed(path);
    Ok(())
}

/// Sets the permission bits of an entry of an open folder.
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

/// Sets the owner of a path's target, or with `follow` false that of the link itself.
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

/// Sets the owner of an entry of an open folder. For a symlink, it is the owner of the link itself.
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

/// Sets the times of a path. If it does not exist, it is created as an empty file.
///
/// # Errors
/// When the system refuses.
pub fn touch(cx: &Exec, path: &Path, times: std::fs::FileTimes) -> std::io::Result<()> {
    let led = at(cx, path, Last::Led)?;
    let place = led.path();
    let keeper = keeper(cx);
    let file = if led.exists() {
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

/// Creates a device node or a pipe.
///
/// # Errors
/// When the path exists or the system refuses.
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

/// Opens a file to change it in place. This is only for files that must not be replaced.
///
/// # Errors
/// When it does not exist or the system refuses.
pub fn open_in_place(cx: &Exec, path: &Path) -> std::io::Result<File> {
    let led = at(cx, path, Last::Led)?;
    if let Some(keeper) = keeper(cx) {
        keeper.is_written_in_place(&led.path());
    }
    cx.changed(path);
    led.folder.file(&led.name, OFlags::WRONLY, 0)
}
