//! [`Removal`]: removes files of this master that the master whose roots it receives does not have.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use machine::fs::handle::Folder;
use modules::fileserver::roots::Roots;

use super::DEPTH_MAX;

/// The number of a folder's file system, and of the folder in it.
pub(super) type Identity = (u64, u64);

pub(super) fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino())
}

/// Returns the identity of an open folder.
pub(super) fn identity_of(folder: &Folder) -> Result<Identity, String> {
    let found = folder.entry(OsStr::new("."));
    let found = found.map(|entry| identity(entry.found()));
    found.map_err(|error| format!("{}: {error}", folder.path().display()))
}

/// The removal of files below one root. Links, special files, and files that the file server ignores
/// stay, as a sync sends none of them.
pub(super) struct Removal<'a> {
    /// The paths of the sender's files.
    pub(super) keep: &'a BTreeSet<String>,
    pub(super) ignores: &'a Roots,
    /// All roots of this master. One below another one is not a part of it.
    pub(super) roots: &'a BTreeSet<Identity>,
    /// The number of files that were removed.
    pub(super) removed: u64,
}

impl Removal<'_> {
    /// Removes files below a folder, and folders that are empty then. `above` is the path of the
    /// folder below the root, with a slash at its end.
    pub(super) fn run(&mut self, folder: &Folder, above: &str, depth: usize) -> Result<(), String> {
        if depth >= DEPTH_MAX {
            return Ok(());
        }
        let failed = |error: std::io::Error| format!("{}: {error}", folder.path().display());
        for name in folder.names().map_err(failed)? {
            let Some(path) = name.to_str().map(|name| format!("{above}{name}")) else {
                continue;
            };
            let entry = match folder.entry(&name) {
                Ok(entry) => entry,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            let found = entry.found();
            if found.is_dir() && !self.roots.contains(&identity(found)) {
                let inside = folder.below(Path::new(&name)).map_err(failed)?;
                let before = self.removed;
                self.run(&inside, &format!("{path}/"), depth + 1)?;
                if self.removed > before && inside.names().map_err(failed)?.is_empty() {
                    folder.rmdir(&name).map_err(failed)?;
                }
            } else if found.is_file() && self.is_surplus(&name, &path) {
                folder.unlink(&name).map_err(failed)?;
                self.removed += 1;
            }
        }
        Ok(())
    }

    fn is_surplus(&self, name: &OsStr, path: &str) -> bool {
        !self.keep.contains(path) && !self.ignores.ignored(path) && !machine::fs::is_temporary(name)
    }
}
