//! Opens a path once, and acts on the opened file or folder.
//!
//! The owner of a folder can replace an entry between two calls that take a path. So nothing here
//! acts on a path: a folder is opened, and everything in it is created, renamed, removed and given
//! owner and mode relative to that handle. The last name of a path is never followed unless
//! the caller of [`place`] requests it.
//!
//! Where links matter, folders are opened one component at a time (`openat` with `O_NOFOLLOW`) and
//! not by `openat2`: old kernels lack it, old container runtimes forbid it, and one implementation
//! is simpler than two.
#![expect(
    clippy::disallowed_methods,
    reason = "these calls act on handles here, not on paths"
)]

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use state::exec::Exec;
use value::trust;

use crate::accounts::users;

/// The maximum number of symlinks in a path, as in the kernel.
const LINKS_MAX: usize = 40;

/// The option that decides which symlinks are followed.
pub const OPTION: &str = "follow_user_symlinks";

/// The symlinks that a path may lead through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// All symlinks, as in Salt.
    Followed,
    /// Only symlinks of root and of the user that runs this program.
    Trusted,
}

impl Links {
    /// Returns the choice of the configuration.
    #[must_use]
    pub fn from_config(cx: &Exec) -> Self {
        match cx.opts().get(OPTION).is_some_and(|given| !given.is_true()) {
            true => Self::Trusted,
            false => Self::Followed,
        }
    }

    /// Checks that the symlink at this path may be followed.
    fn permit(self, path: &Path, owner: u32) -> io::Result<()> {
        if self == Self::Followed || owner == 0 || owner == trust::user() {
            return Ok(());
        }
        let name = users::of_uid(owner).to_text();
        let sentence = format!(
            "Refusing to follow the symlink {}, which belongs to {name} (option {OPTION})",
            path.display()
        );
        Err(io::Error::new(ErrorKind::PermissionDenied, sentence))
    }
}

/// The meaning of a path whose last name is a symlink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// The link itself.
    Itself,
    /// The target of the link, whether it exists or not.
    Led,
}

/// Checks that a path leads through no symlink that must not be followed. A missing component leads
/// nowhere and is accepted.
///
/// # Errors
/// Names the link that is refused.
pub fn permitted(path: &Path, links: Links) -> io::Result<()> {
    if links == Links::Followed {
        return Ok(());
    }
    let missing = [ErrorKind::NotFound, ErrorKind::NotADirectory];
    match place(path, links, Last::Led) {
        Err(error) if !missing.contains(&error.kind()) => Err(error),
        _ => Ok(()),
    }
}

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    handle: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder.
    ///
    /// # Errors
    /// When it does not exist, is not a folder, or a symlink in the path must not be followed.
    pub fn open(path: &Path, links: Links) -> io::Result<Self> {
        let shown = match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        };
        let handle = match links {
            Links::Followed => opened(CWD, shown, OFlags::DIRECTORY)?,
            Links::Trusted => walked(shown, links)?,
        };
        let path = path.to_owned();
        Ok(Self { handle, path })
    }

    /// Opens a folder that is not a symlink itself. The folders above it are treated as by
    /// [`Folder::open`].
    ///
    /// # Errors
    /// When it does not exist, is a symlink or is not a folder.
    pub fn open_itself(path: &Path, links: Links) -> io::Result<Self> {
        let place = place(path, links, Last::Itself)?;
        place.folder.below(Path::new(&place.name))
    }

    /// Opens a folder below this one. No component may be a symlink.
    ///
    /// # Errors
    /// When a component is a symlink, is not a folder, or does not exist.
    pub fn below(&self, rest: &Path) -> io::Result<Self> {
        let mut handle = self.handle.try_clone()?;
        for name in rest.components() {
            match name {
                Component::Normal(name) => {
                    handle = opened(&handle, name, OFlags::DIRECTORY | OFlags::NOFOLLOW)?;
                }
                Component::CurDir => {}
                _ => return Err(ErrorKind::InvalidInput.into()),
            }
        }
        let path = self.path.join(rest);
        Ok(Self { handle, path })
    }

    /// Returns the path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the names of its entries.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let readable = fs::openat(&self.handle, ".", flags, Mode::empty())?;
        for entry in Dir::new(readable)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Opens an entry; a symlink itself and not its target.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn entry<'a>(&'a self, name: &'a OsStr) -> io::Result<Entry<'a>> {
        let handle = File::from(opened(&self.handle, name, OFlags::NOFOLLOW)?);
        let found = handle.metadata()?;
        Ok(Entry {
            folder: self,
            name,
            handle,
            found,
        })
    }

    /// Returns the metadata of an entry's target, through symlinks; `None` where the target does
    /// not exist.
    #[must_use]
    pub fn led_to(&self, name: &OsStr) -> Option<Metadata> {
        let handle = opened(&self.handle, name, OFlags::empty()).ok()?;
        File::from(handle).metadata().ok()
    }

    /// Creates a file under an unused name, open for writing.
    ///
    /// # Errors
    /// When the name is used or the system refuses.
    pub fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        self.file(name, flags, mode)
    }

    /// Opens a file that is not a symlink. Does not wait for the process at the other end of a
    /// pipe.
    ///
    /// # Errors
    /// When it does not exist, is a symlink or the system refuses.
    pub fn file(&self, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = fs::openat(&self.handle, name, flags, Mode::from_raw_mode(mode))?;
        Ok(opened.into())
    }

    /// Creates a folder in it.
    ///
    /// # Errors
    /// When the name is used or the system refuses.
    pub fn mkdir(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        Ok(fs::mkdirat(&self.handle, name, Mode::from_raw_mode(mode))?)
    }

    /// Creates a symlink in it.
    ///
    /// # Errors
    /// When the name is used or the system refuses.
    pub fn symlink(&self, target: &Path, name: &OsStr) -> io::Result<()> {
        Ok(fs::symlinkat(target, &self.handle, name)?)
    }

    /// Creates a device node or a pipe in it.
    ///
    /// # Errors
    /// When the name is used or the system refuses.
    pub fn node(&self, name: &OsStr, kind: FileType, mode: u32, device: fs::Dev) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode);
        Ok(fs::mknodat(&self.handle, name, kind, mode, device)?)
    }

    /// Renames an entry, within this folder or to another one.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn rename(&self, name: &OsStr, to: &Self, new: &OsStr) -> io::Result<()> {
        Ok(fs::renameat(&self.handle, name, &to.handle, new)?)
    }

    /// Gives a file one more name.
    ///
    /// # Errors
    /// When that name is used or the system refuses.
    pub fn link(&self, name: &OsStr, to: &Self, new: &OsStr) -> io::Result<()> {
        let flags = AtFlags::empty();
        Ok(fs::linkat(&self.handle, name, &to.handle, new, flags)?)
    }

    /// Removes a file or a symlink.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn unlink(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// When it is not empty or the system refuses.
    pub fn rmdir(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.handle, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes an entry, a folder with its contents. No symlink is followed.
    ///
    /// # Errors
    /// When it does not exist or the system refuses.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        if !self.entry(name)?.found.is_dir() {
            return self.unlink(name);
        }
        let inside = self.below(Path::new(name))?;
        for name in inside.names()? {
            inside.remove(&name)?;
        }
        self.rmdir(name)
    }
}

/// A name in an open folder.
#[derive(Debug)]
pub struct Place {
    /// The folder.
    pub folder: Folder,
    /// The name. It may be used or not.
    pub name: OsString,
}

impl Place {
    fn open(path: &Path, links: Links) -> io::Result<Self> {
        let (above, name) = match (path.parent(), path.file_name()) {
            (Some(above), Some(name)) => (above, name.to_owned()),
            // The path is `/` or ends with `..`.
            _ => (path, ".".into()),
        };
        let folder = Folder::open(above, links)?;
        Ok(Self { folder, name })
    }

    /// Returns the requested path, or the target of a symlink.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match self.name == "." {
            true => self.folder.path.clone(),
            false => self.folder.path.join(&self.name),
        }
    }

    /// Opens the entry of this name.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn entry(&self) -> io::Result<Entry<'_>> {
        self.folder.entry(&self.name)
    }

    /// Returns true if the name is used.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.entry().is_ok()
    }

    /// Returns the target of the symlink of this name; `None` where it is not a symlink.
    fn target(&self, links: Links) -> io::Result<Option<PathBuf>> {
        match self.entry() {
            Ok(entry) if entry.found.is_symlink() => {
                links.permit(&self.path(), entry.found.uid())?;
                entry.target().map(Some)
            }
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(None),
        }
    }
}

/// Opens the folder of a path.
///
/// # Errors
/// When the folder does not exist, or a symlink in the path must not be followed.
pub fn place(path: &Path, links: Links, last: Last) -> io::Result<Place> {
    let mut place = Place::open(path, links)?;
    if last == Last::Itself {
        return Ok(place);
    }
    for _ in 0..LINKS_MAX {
        let Some(target) = place.target(links)? else {
            return Ok(place);
        };
        place = Place::open(&place.folder.path.join(target), links)?;
    }
    Err(Errno::LOOP.into())
}

/// An open entry of a folder.
#[derive(Debug)]
pub struct Entry<'a> {
    folder: &'a Folder,
    name: &'a OsStr,
    handle: File,
    found: Metadata,
}

impl Entry<'_> {
    /// Returns the metadata from the time when it was opened.
    #[must_use]
    pub fn found(&self) -> &Metadata {
        &self.found
    }

    /// Returns the target of a symlink.
    fn target(&self) -> io::Result<PathBuf> {
        let target = fs::readlinkat(&self.handle, "", Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Sets the owner; for a symlink, that of the link itself.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn chown(&self, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        let flags = AtFlags::EMPTY_PATH;
        Ok(fs::chownat(&self.handle, "", uid, gid, flags)?)
    }

    /// Sets the permission bits. `/proc` gives access to the open entry, whatever its kind, without
    /// opening it again. Where `/proc` is not mounted, as in a chroot, files and folders are opened
    /// and compared with the open entry.
    ///
    /// # Errors
    /// When it is a symlink, or a device, pipe or socket and `/proc` is not mounted, or the system
    /// refuses.
    pub fn chmod(&self, mode: u32) -> io::Result<()> {
        if self.found.is_symlink() {
            return Err(Errno::LOOP.into());
        }
        let held = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        match fs::chmod(held, Mode::from_raw_mode(mode)) {
            Err(Errno::NOENT | Errno::NOTDIR) => self.chmod_opened(mode),
            done => Ok(done?),
        }
    }

    fn chmod_opened(&self, mode: u32) -> io::Result<()> {
        if !self.found.is_file() && !self.found.is_dir() {
            let sentence =
                "the mode of a device, pipe or socket can only be set if /proc is mounted";
            return Err(io::Error::new(ErrorKind::Unsupported, sentence));
        }
        let file = self.folder.file(self.name, OFlags::RDONLY, 0)?;
        let now = file.metadata()?;
        if (now.dev(), now.ino()) != (self.found.dev(), self.found.ino()) {
            let sentence = "it was replaced by another process meanwhile; nothing was changed";
            return Err(io::Error::other(sentence));
        }
        file.set_permissions(Permissions::from_mode(mode))
    }
}

/// Opens a name without reading or writing its file (`O_PATH`).
fn opened(folder: impl AsFd, name: impl AsRef<OsStr>, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | flags;
    let name = name.as_ref().as_bytes();
    Ok(fs::openat(folder, name, flags, Mode::empty())?)
}

/// Opens a folder, and checks each symlink in the path before following it.
fn walked(path: &Path, links: Links) -> io::Result<OwnedFd> {
    let start = |path: &Path| -> PathBuf {
        let is_absolute = path.is_absolute();
        if is_absolute { "/".into() } else { ".".into() }
    };
    let names = |path: &Path| -> Vec<OsString> {
        let named =
            |name: &Component<'_>| matches!(name, Component::Normal(_) | Component::ParentDir);
        let names = path.components().filter(named).rev();
        names.map(|name| name.as_os_str().to_owned()).collect()
    };
    let mut shown = start(path);
    let mut here = opened(CWD, &shown, OFlags::DIRECTORY)?;
    let mut rest = names(path);
    let mut left = LINKS_MAX;
    while let Some(name) = rest.pop() {
        let next = Folder {
            handle: here,
            path: shown.clone(),
        };
        let entry = next.entry(&name)?;
        if !entry.found.is_symlink() {
            shown.push(&name);
            here = opened(&next.handle, &name, OFlags::DIRECTORY | OFlags::NOFOLLOW)?;
            continue;
        }
        links.permit(&shown.join(&name), entry.found.uid())?;
        left = left.checked_sub(1).ok_or(Errno::LOOP)?;
        let target = entry.target()?;
        rest.extend(names(&target));
        here = match target.is_absolute() {
            true => opened(CWD, "/", OFlags::DIRECTORY)?,
            false => opened(&next.handle, ".", OFlags::DIRECTORY)?,
        };
        if target.is_absolute() {
            shown = "/".into();
        }
    }
    Ok(here)
}

#[cfg(test)]
mod tests;
