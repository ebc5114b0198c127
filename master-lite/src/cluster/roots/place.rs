//! Files below a root of this master, which another master sends. The root is opened once, and each
//! folder below it by its handle, without following a link.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use machine::fs::handle::{Folder, Links};
use ring::digest::{Context, SHA256};
use rustix::fs::OFlags;
use value::remove;

use super::message::{Entry, Hash};
use super::{DEPTH_MAX, FILE_MAX, NAME_MAX, PATH_MAX, PIECE_MAX};

/// The permission bits, without the setuid, setgid and sticky bits.
pub(super) const MODE: u32 = 0o777;

/// Returns the names of a path below a root. All of them must be plain.
pub(super) fn names(path: &str) -> Result<Vec<&OsStr>, String> {
    let names: Vec<&str> = path.split('/').collect();
    let is_plain = |name: &&str| {
        !name.is_empty()
            && *name != "."
            && *name != ".."
            && name.len() <= NAME_MAX
            && !name.chars().any(char::is_control)
            && !machine::fs::is_temporary(OsStr::new(name))
    };
    match path.len() <= PATH_MAX && names.len() <= DEPTH_MAX && names.iter().all(is_plain) {
        true => Ok(names.into_iter().map(OsStr::new).collect()),
        false => Err("invalid path".to_owned()),
    }
}

/// Opens a root; `None` if it does not exist. The configured path itself may lead through links.
pub(super) fn root(path: &Path) -> Result<Option<Folder>, String> {
    match Folder::open(path, Links::Followed) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// Opens a root. A missing one is created for this program's user only, as it may contain secrets.
pub(super) fn root_or_new(path: &Path) -> Result<Folder, String> {
    if let Some(folder) = root(path)? {
        return Ok(folder);
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| format!("cannot create {}: {error}", path.display()))?;
    root(path)?.ok_or_else(|| format!("{} was removed meanwhile", path.display()))
}

/// Returns why an entry of a folder cannot be used, with its path.
fn shown(folder: &Folder, name: &OsStr) -> impl Fn(std::io::Error) -> String {
    let path = folder.path().join(name);
    move |error| format!("{}: {error}", path.display())
}

fn refused(folder: &Folder, name: &OsStr, why: &str) -> String {
    format!("{} {why}", folder.path().join(name).display())
}

/// Opens a folder in a folder; `None` if it does not exist.
fn step(folder: &Folder, name: &OsStr) -> Result<Option<Folder>, String> {
    match folder.below(Path::new(name)) {
        Ok(below) => Ok(Some(below)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotADirectory => Err(refused(
            folder,
            name,
            "is not a folder, or a symbolic link to one, which is not followed",
        )),
        Err(error) => Err(shown(folder, name)(error)),
    }
}

/// Opens a folder in a folder. A missing one is created with the permission bits of the outer one,
/// but only its owner may write to it.
fn step_or_new(folder: &Folder, name: &OsStr) -> Result<Folder, String> {
    if let Some(below) = step(folder, name)? {
        return Ok(below);
    }
    let make = || {
        let above = folder.entry(OsStr::new("."))?;
        folder.mkdir(name, 0o700)?;
        folder.entry(name)?.chmod(above.found().mode() & 0o755)
    };
    make().map_err(shown(folder, name))?;
    step(folder, name)?.ok_or_else(|| refused(folder, name, "was removed meanwhile"))
}

/// Checks that a name is unused, or is that of a regular file. Returns whether it is used.
fn is_file(folder: &Folder, name: &OsStr) -> Result<bool, String> {
    match folder.entry(name) {
        Ok(entry) if entry.found().is_file() => Ok(true),
        Ok(entry) if entry.found().is_symlink() => Err(refused(
            folder,
            name,
            "is a symbolic link, which is not replaced",
        )),
        Ok(_) => Err(refused(
            folder,
            name,
            "is not a regular file, and is not replaced",
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(shown(folder, name)(error)),
    }
}

/// Returns the size and hash of the rest of a file.
pub(super) fn hashed(file: &mut File) -> std::io::Result<(u64, Hash)> {
    let mut context = Context::new(&SHA256);
    let (mut size, mut buffer) = (0, vec![0; PIECE_MAX]);
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return Ok((size, finished(context)));
        }
        context.update(buffer.get(..length).unwrap_or_default());
        size += length as u64;
    }
}

fn finished(context: Context) -> Hash {
    let mut hash = Hash::default();
    for (to, from) in hash.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    hash
}

/// Checks a file of another master.
///
/// # Errors
/// When its path, size or mode is not one that this master takes.
pub(super) fn check(entry: &Entry) -> Result<(), String> {
    names(&entry.path)?;
    if entry.size > FILE_MAX {
        let size = entry.size;
        return Err(format!("it has {size} bytes; the limit is {FILE_MAX}"));
    }
    if entry.mode & !MODE != 0 {
        return Err(format!("invalid mode {:o}", entry.mode));
    }
    Ok(())
}

/// Returns whether a file below a root is the same as that of another master.
///
/// # Errors
/// When it cannot be read, or a link or special file is in its place or in place of its folder.
pub(super) fn is_same(root: &Folder, entry: &Entry) -> Result<bool, String> {
    let names = names(&entry.path)?;
    let Some((name, folders)) = names.split_last() else {
        return Ok(false);
    };
    let mut folder = root.below(Path::new("")).map_err(shown(root, name))?;
    for name in folders {
        let Some(below) = step(&folder, name)? else {
            return Ok(false);
        };
        folder = below;
    }
    if !is_file(&folder, name)? {
        return Ok(false);
    }
    let failed = shown(&folder, name);
    let mut file = folder.file(name, OFlags::RDONLY, 0).map_err(&failed)?;
    let found = file.metadata().map_err(&failed)?;
    let looks_same =
        found.is_file() && found.len() == entry.size && found.mode() & MODE == entry.mode;
    Ok(looks_same && hashed(&mut file).map_err(&failed)? == (entry.size, entry.hash))
}

/// A file that is being received. It has a temporary name in its folder until it is complete.
pub(super) struct Coming {
    entry: Entry,
    folder: Folder,
    name: OsString,
    temporary: OsString,
    file: File,
    context: Context,
    written: u64,
}

impl Coming {
    /// Begins a file below a root. Missing folders are created.
    pub(super) fn begin(root: &Folder, entry: Entry) -> Result<Self, String> {
        check(&entry)?;
        let names = names(&entry.path)?;
        let (name, folders) = names.split_last().ok_or("invalid path")?;
        let mut folder = root.below(Path::new("")).map_err(shown(root, name))?;
        for name in folders {
            folder = step_or_new(&folder, name)?;
        }
        is_file(&folder, name)?;
        let temporary = machine::fs::beside(&folder, name);
        let file = folder.create(&temporary, 0o600);
        Ok(Self {
            file: file.map_err(shown(&folder, name))?,
            name: (*name).to_owned(),
            temporary,
            folder,
            entry,
            context: Context::new(&SHA256),
            written: 0,
        })
    }

    /// Replaces the file that is written by a device that is full.
    #[cfg(test)]
    pub(super) fn use_full_disk(&mut self) {
        if let Ok(full) = File::options().write(true).open("/dev/full") {
            self.file = full;
        }
    }

    /// Writes a piece. Returns whether the file has its size now.
    pub(super) fn take(&mut self, offset: u64, bytes: &[u8]) -> Result<bool, String> {
        let end = offset.checked_add(bytes.len() as u64);
        let end = end.filter(|end| offset == self.written && *end <= self.entry.size);
        let end = end.ok_or("a piece that does not belong there")?;
        let written = self.file.write_all(bytes);
        written.map_err(shown(&self.folder, &self.name))?;
        self.context.update(bytes);
        self.written = end;
        Ok(end == self.entry.size)
    }

    /// Puts the file in its place if its size and hash are as announced.
    pub(super) fn settle(self) -> Result<(), String> {
        let failed = shown(&self.folder, &self.name);
        if self.written != self.entry.size || finished(self.context.clone()) != self.entry.hash {
            return Err("it has changed during the sync".to_owned());
        }
        let mode = Permissions::from_mode(self.entry.mode & MODE);
        self.file.set_permissions(mode).map_err(&failed)?;
        self.file.sync_all().map_err(&failed)?;
        is_file(&self.folder, &self.name)?;
        let folder = &self.folder;
        let placed = folder.rename(&self.temporary, folder, &self.name);
        placed.map_err(&failed)
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        // The file is missing if it is in its place.
        remove::or_log(
            self.folder.path().join(&self.temporary),
            self.folder.unlink(&self.temporary),
        );
    }
}
