//! Checks which users can change a path: root must not use anything that another user can write or
//! replace.
//!
//! [`path`] is the check for configurations, custom modules and run records, and [`folder`] creates
//! the folders in which the program keeps its own state.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The maximum number of symlinks in a path, as in the kernel.
const LINKS_MAX: u32 = 40;

/// The reason why a path is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    /// Another user can write to the path or replace it.
    #[error("{path} is not trusted: it can be changed by {who} (owner {uid}, group {gid}, mode {mode:04o})", path = .path.display())]
    Changeable {
        /// The file, link or folder.
        path: PathBuf,
        /// A description of the users that can change it.
        who: String,
        /// The owner.
        uid: u32,
        /// The group.
        gid: u32,
        /// The permission bits.
        mode: u32,
    },
    /// The path cannot be inspected.
    #[error("{path}: {source}", path = .path.display())]
    Unreadable {
        /// The file, link or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl Untrusted {
    /// Returns the commands that make the path trusted.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Changeable { path, .. } => {
                let path = path.display();
                Some(format!("chown -h root {path}; chmod go-w {path}"))
            }
            Self::Unreadable { .. } => None,
        }
    }

    /// Returns the reason together with the commands that help.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self.hint() {
            Some(hint) => format!("{self}; to fix this, run: {hint}"),
            None => self.to_string(),
        }
    }
}

/// Returns the user of this process, whom it trusts in addition to root.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Checks that only root and `user` can write to a path or replace it: neither the path, nor a
/// folder above it, nor a link in it may belong to another user or be writable by others. Folders
/// above it may be writable by others if they are sticky, like `/tmp`.
///
/// # Errors
/// When another user can change something, with that user, or when something cannot be inspected.
pub fn path(path: &Path, user: u32) -> Result<(), Untrusted> {
    path_below(path, user, false)
}

fn path_below(path: &Path, user: u32, above: bool) -> Result<(), Untrusted> {
    let here = std::path::absolute(path).map_err(unreadable(path))?;
    let real = path.canonicalize().map_err(unreadable(path))?;
    chain(&real, user, above, LINKS_MAX)?;
    match real == here {
        true => Ok(()),
        false => chain(&here, user, above, LINKS_MAX),
    }
}

/// Checks that only root and `user` can replace what `user` creates in a folder. This is like
/// [`path`], but the folder itself may also be writable by all if it is sticky.
///
/// # Errors
/// When another user can change something, with that user, or when something cannot be inspected.
pub fn above(folder: &Path, user: u32) -> Result<(), Untrusted> {
    path_below(folder, user, true)
}

/// Checks a single file or folder; the caller has checked the folder above it.
///
/// # Errors
/// When another user can change it, with that user, or when it cannot be inspected.
pub fn entry(path: &Path, user: u32) -> Result<Metadata, Untrusted> {
    let found = path.metadata().map_err(unreadable(path))?;
    single(path, &found, user, false)?;
    Ok(found)
}

/// Checks a path and everything above it as written, and the target of each link in it.
fn chain(path: &Path, user: u32, above: bool, links: u32) -> Result<(), Untrusted> {
    for (depth, place) in path.ancestors().enumerate() {
        let found = place.symlink_metadata().map_err(unreadable(place))?;
        if !found.is_symlink() {
            single(place, &found, user, above || depth > 0)?;
            continue;
        }
        owned(place, &found, user)?;
        let left = links.checked_sub(1);
        let left = left.ok_or_else(|| unreadable(place)(io::ErrorKind::InvalidInput.into()))?;
        let target = place.read_link().map_err(unreadable(place))?;
        chain(
            &place.with_file_name(target),
            user,
            above || depth > 0,
            left,
        )?;
    }
    Ok(())
}

/// Checks a single file or folder. In a sticky folder, others cannot replace files that are not
/// theirs.
fn single(path: &Path, found: &Metadata, user: u32, above: bool) -> Result<(), Untrusted> {
    owned(path, found, user)?;
    if above && found.is_dir() && found.mode() & 0o1000 != 0 {
        return Ok(());
    }
    match others(found.uid(), found.gid(), found.mode(), user) {
        Some(who) => Err(changeable(path, found, who)),
        None => Ok(()),
    }
}

/// Checks the owner of a link, file or folder.
fn owned(path: &Path, found: &Metadata, user: u32) -> Result<(), Untrusted> {
    match others(found.uid(), 0, 0, user) {
        Some(who) => Err(changeable(path, found, who)),
        None => Ok(()),
    }
}

/// Describes who, other than root and `user`, may write to a file with this owner, group and mode.
#[must_use]
pub fn others(owner: u32, group: u32, mode: u32, user: u32) -> Option<String> {
    if owner != 0 && owner != user {
        return Some(format!("its owner, the user {owner}"));
    }
    if mode & 0o002 != 0 {
        return Some("everybody".to_owned());
    }
    // Root's group counts as root. A user's own group, which has the user's number on most systems,
    // counts as that user.
    let is_ours = group == 0 || (user != 0 && group == user);
    (mode & 0o020 != 0 && !is_ours).then(|| format!("the group {group}"))
}

fn changeable(path: &Path, found: &Metadata, who: String) -> Untrusted {
    Untrusted::Changeable {
        path: path.to_owned(),
        who,
        uid: found.uid(),
        gid: found.gid(),
        mode: found.mode() & 0o7777,
    }
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Untrusted {
    let path = path.to_owned();
    move |source| Untrusted::Unreadable { path, source }
}

/// Creates a folder for the program's own state, with missing parents, so that only its owner may
/// enter it, whatever the umask is. If the folder exists and belongs to this user, others lose
/// their write permission; a sticky folder such as `/tmp` is not changed.
///
/// # Errors
/// When the system refuses, or the folder belongs to another user.
pub fn folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path)?;
    let flags = OFlags::DIRECTORY | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(flags.bits().cast_signed());
    tightened(path, &opened.open(path)?)
}

fn tightened(path: &Path, folder: &File) -> io::Result<()> {
    let found = folder.metadata()?;
    let is_sticky = found.mode() & 0o1000 != 0;
    let Some(who) = others(found.uid(), found.gid(), found.mode(), user()) else {
        return Ok(());
    };
    if is_sticky && [0, user()].contains(&found.uid()) {
        return Ok(());
    }
    if found.uid() != user() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            changeable(path, &found, who).sentence(),
        ));
    }
    crate::log::warning(format_args!(
        "{} could be changed by {who}: removed the write permission of group and others",
        path.display()
    ));
    folder.set_permissions(Permissions::from_mode(found.mode() & 0o7755))
}

#[cfg(test)]
mod tests;
