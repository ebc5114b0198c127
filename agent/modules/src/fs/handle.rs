//! Opening what a path names once, and acting on what was opened.
//!
//! Whoever owns a folder can put something else under a name between two calls that take a path. So
//! nothing here acts on a path: a folder is opened, everything in it is made, renamed, removed and
//! given owner and mode relative to that handle, and the last name of a path is never followed
//! unless [`place`] was asked to.
//!
//! Folders are opened one component at a time where links matter (`openat` with `O_NOFOLLOW`) and not
//! by `openat2`: old kernels lack it, old container runtimes forbid it, and one way is simpler than two.
#![expect(
    clippy::disallowed_methods,
    reason = "the calls that must not take a path elsewhere take a handle here"
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

use crate::users;

/// How many symlinks a path may lead through, as in the kernel.
const LINKS_MAX: usize = 40;

/// The option that decides which symlinks are followed.
pub const OPTION: &str = "follow_user_symlinks";

/// Which symlinks a path may lead through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// All, as in Salt.
    Followed,
    /// Those of root and of the user that runs this.
    Trusted,
}

impl Links {
    /// Returns what the configuration says.
    #[must_use]
    pub fn of(cx: &Exec) -> Self {
        match cx.opts().get(OPTION).is_some_and(|given| !given.is_true()) {
            true => Self::Trusted,
            false => Self::Followed,
        }
    }

    /// Checks that the symlink of this path may be followed.
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

/// What is meant by a path whose last name is a symlink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// The link.
    Itself,
    /// What it leads to, whether that is there or not.
    Led,
}

/// Checks that a path leads through no symlink that must not be followed; what is not there leads nowhere.
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

/// A folder that is held open.
#[derive(Debug)]
pub struct Folder {
    handle: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder.
    ///
    /// # Errors
    /// When it is not there, is no folder, or a symlink on the way must not be followed.
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

    /// Opens a folder that is no symlink itself; those above it are as they are for [`Folder::open`].
    ///
    /// # Errors
    /// When it is not there, is a symlink or no folder.
    pub fn open_itself(path: &Path, links: Links) -> io::Result<Self> {
        let place = place(path, links, Last::Itself)?;
        place.folder.below(Path::new(&place.name))
    }

    /// Opens a folder below this one; no name on the way may be a symlink.
    ///
    /// # Errors
    /// When one is, or is no folder, or is not there.
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

    /// Returns the names in it.
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

    /// Holds what has a name in it; a symlink itself.
    ///
    /// # Errors
    /// When it is not there.
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

    /// Looks at what a name leads to, through symlinks; none where that is not there.
    #[must_use]
    pub fn led_to(&self, name: &OsStr) -> Option<Metadata> {
        let handle = opened(&self.handle, name, OFlags::empty()).ok()?;
        File::from(handle).metadata().ok()
    }

    /// Makes a file for writing that nobody had under this name.
    ///
    /// # Errors
    /// When something has the name or the system refuses.
    pub fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        self.file(name, flags, mode)
    }

    /// Opens a file that is no symlink, without waiting for whoever has the other end of a pipe.
    ///
    /// # Errors
    /// When it is not there, is a symlink or the system refuses.
    pub fn file(&self, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = fs::openat(&self.handle, name, flags, Mode::from_raw_mode(mode))?;
        Ok(opened.into())
    }

    /// Makes a folder in it.
    ///
    /// # Errors
    /// When something has the name or the system refuses.
    pub fn mkdir(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        Ok(fs::mkdirat(&self.handle, name, Mode::from_raw_mode(mode))?)
    }

    /// Makes a symlink in it.
    ///
    /// # Errors
    /// When something has the name or the system refuses.
    pub fn symlink(&self, target: &Path, name: &OsStr) -> io::Result<()> {
        Ok(fs::symlinkat(target, &self.handle, name)?)
    }

    /// Makes a device node or a pipe in it.
    ///
    /// # Errors
    /// When something has the name or the system refuses.
    pub fn node(&self, name: &OsStr, kind: FileType, mode: u32, device: fs::Dev) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode);
        Ok(fs::mknodat(&self.handle, name, kind, mode, device)?)
    }

    /// Gives what has a name in it another one, there or in another folder.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn rename(&self, name: &OsStr, to: &Self, new: &OsStr) -> io::Result<()> {
        Ok(fs::renameat(&self.handle, name, &to.handle, new)?)
    }

    /// Gives a file one more name.
    ///
    /// # Errors
    /// When something has that name or the system refuses.
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

    /// Removes what has a name in it, a folder with all that is in it. No symlink is followed.
    ///
    /// # Errors
    /// When it is not there or the system refuses.
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

/// A name in a folder that is held open.
#[derive(Debug)]
pub struct Place {
    /// The folder.
    pub folder: Folder,
    /// The name, which something may have or not.
    pub name: OsString,
}

impl Place {
    fn of(path: &Path, links: Links) -> io::Result<Self> {
        let (above, name) = match (path.parent(), path.file_name()) {
            (Some(above), Some(name)) => (above, name.to_owned()),
            // `/`, and what ends with `..`.
            _ => (path, ".".into()),
        };
        let folder = Folder::open(above, links)?;
        Ok(Self { folder, name })
    }

    /// Returns the path as it was asked for, or where a symlink led.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match self.name == "." {
            true => self.folder.path.clone(),
            false => self.folder.path.join(&self.name),
        }
    }

    /// Holds what has the name.
    ///
    /// # Errors
    /// When it is not there.
    pub fn entry(&self) -> io::Result<Entry<'_>> {
        self.folder.entry(&self.name)
    }

    /// Whether something has the name.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.entry().is_ok()
    }

    /// Returns where the symlink of this name leads; none where it is no symlink.
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

/// Opens the folder that a path is in.
///
/// # Errors
/// When the folder is not there, or a symlink on the way must not be followed.
pub fn place(path: &Path, links: Links, last: Last) -> io::Result<Place> {
    let mut place = Place::of(path, links)?;
    if last == Last::Itself {
        return Ok(place);
    }
    for _ in 0..LINKS_MAX {
        let Some(target) = place.target(links)? else {
            return Ok(place);
        };
        place = Place::of(&place.folder.path.join(target), links)?;
    }
    Err(Errno::LOOP.into())
}

/// What has a name in a folder, held open.
#[derive(Debug)]
pub struct Entry<'a> {
    folder: &'a Folder,
    name: &'a OsStr,
    handle: File,
    found: Metadata,
}

impl Entry<'_> {
    /// Returns what it was when it was opened.
    #[must_use]
    pub fn found(&self) -> &Metadata {
        &self.found
    }

    /// Returns where a symlink leads.
    fn target(&self) -> io::Result<PathBuf> {
        let target = fs::readlinkat(&self.handle, "", Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Sets the owner, of a symlink itself.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn chown(&self, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        let flags = AtFlags::EMPTY_PATH;
        Ok(fs::chownat(&self.handle, "", uid, gid, flags)?)
    }

    /// Sets the permission bits. `/proc` leads to what is held here, of whatever kind, and opens nothing;
    /// where there is none, as in a chroot, files and folders are opened and compared with what is held.
    ///
    /// # Errors
    /// When it is a symlink, or a device, pipe or socket and `/proc` is not mounted, or the system refuses.
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
                "the mode of a device, pipe or socket is only set where /proc is mounted";
            return Err(io::Error::new(ErrorKind::Unsupported, sentence));
        }
        let file = self.folder.file(self.name, OFlags::RDONLY, 0)?;
        let now = file.metadata()?;
        if (now.dev(), now.ino()) != (self.found.dev(), self.found.ino()) {
            let sentence = "something else was put in its place meanwhile; nothing was changed";
            return Err(io::Error::other(sentence));
        }
        file.set_permissions(Permissions::from_mode(mode))
    }
}

/// Opens a name without reading or writing what has it.
fn opened(folder: impl AsFd, name: impl AsRef<OsStr>, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | flags;
    let name = name.as_ref().as_bytes();
    Ok(fs::openat(folder, name, flags, Mode::empty())?)
}

/// Opens a folder, and looks at each symlink on the way before it follows it.
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
