//! [`Temporary`]: files for programs that no other user can replace.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;
use state::module::Error;
use value::{Value, python, random, remove, trust};

use crate::accounts;
use crate::fs::handle::{Folder, Last, Links, place};

/// The number of random bytes in a name.
const RANDOM: usize = 12;

/// The folders that are tried after the usual folder for temporary files.
const OTHERS: [&str; 3] = ["/var/tmp", "/run", "/tmp"];

/// A file for the use of one process. It is removed when this value is dropped. It is in a separate
/// folder that only root (or the user of this process) can change and every user can traverse. The
/// folder never belongs to the user who runs the file, since that user could replace the file.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
    name: String,
    within: Folder,
    above: Folder,
}

impl Temporary {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file. If `runas` is given, the file belongs to that user.
    pub fn written(extension: &str, text: &[u8], runas: Option<&Value>) -> Result<Self, Error> {
        Self::made(extension, text, runas, false)
    }

    /// Writes a file that can be executed. If the usual folder for temporary files is mounted with
    /// `noexec`, the file is created in another folder.
    pub fn script(extension: &str, text: &[u8], runas: Option<&Value>) -> Result<Self, Error> {
        Self::made(extension, text, runas, true)
    }

    fn made(
        extension: &str,
        text: &[u8],
        runas: Option<&Value>,
        runs: bool,
    ) -> Result<Self, Error> {
        let place = base(runs)?;
        let failed = || Error::io(&place);
        let above = Folder::open(&place, Links::Followed).map_err(failed())?;
        let unique = || random::array::<RANDOM>().map(|bytes| python::hex(&bytes));
        let own = format!("pinch-{}", unique()?);
        let within = private(&above, own.as_ref()).map_err(failed())?;
        let name = format!("__salt.tmp.{}{extension}", unique()?);
        let path = within.path().join(&name);
        let owner = runas.and_then(|name| accounts::user(&name.to_text()));
        let temporary = Self {
            path,
            name,
            within,
            above,
        };
        let filled = temporary.fill(text, owner.map(|user| user.uid));
        filled.map_err(Error::io(&temporary.path))?;
        Ok(temporary)
    }

    /// Writes the file and sets its owner through the open handle.
    fn fill(&self, text: &[u8], owner: Option<u32>) -> io::Result<()> {
        let mut file = self.within.create(self.name.as_ref(), 0o500)?;
        file.write_all(text)?;
        file.set_permissions(PermissionsExt::from_mode(0o500))?;
        match owner {
            Some(uid) => std::os::unix::fs::fchown(&file, Some(uid), None),
            None => Ok(()),
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let own = self.within.path().file_name().unwrap_or_default();
        let removed = self.within.unlink(self.name.as_ref());
        let removed = removed.and_then(|()| self.above.rmdir(own));
        remove::or_log(self.within.path(), removed);
    }
}

/// Creates a folder that other users can only traverse, whatever the umask is.
fn private(above: &Folder, name: &OsStr) -> io::Result<Folder> {
    above.mkdir(name, 0o700)?;
    above.entry(name)?.chmod(0o711)?;
    above.below(Path::new(name))
}

/// Returns the folder for temporary files: the usual one, or another one if other users could
/// replace files there or if `runs` is set and it is mounted with `noexec`.
fn base(runs: bool) -> Result<PathBuf, Error> {
    let usual = std::env::temp_dir();
    let all = || std::iter::once(usual.clone()).chain(OTHERS.map(PathBuf::from));
    let mut safe = all().filter(|folder| keeps(folder)).peekable();
    let first = safe.peek().cloned();
    let found = match runs {
        true => safe.find(|folder| !is_noexec(folder)).or(first),
        false => first,
    };
    found.ok_or_else(|| {
        let usual = usual.display();
        Error::refused(format!(
            "No directory for temporary files is safe from other users: make {usual} a directory owned by root with mode 1777"
        ))
    })
}

/// Returns true if no other user can rename or remove entries of a folder. A folder of root with
/// the sticky bit is safe.
fn keeps(folder: &Path) -> bool {
    let entry = place(folder, Links::Followed, Last::Led);
    let entry = entry.and_then(|place| Ok(place.entry()?.found().clone()));
    let above = trust::above(folder, trust::user());
    entry.is_ok_and(|found| found.is_dir()) && above.is_ok()
}

fn is_noexec(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_temporary_file_is_in_a_folder_that_others_only_go_through() {
        let file = Temporary::script(".sh", b"#!/bin/sh\necho hello\n", None).unwrap();
        let path = file.path().to_owned();
        let folder = path.parent().unwrap().to_owned();
        let look = |path: &Path| {
            let found = path.symlink_metadata().unwrap();
            (found.uid(), found.mode() & 0o7777)
        };
        assert_eq!(look(&folder), (trust::user(), 0o711));
        assert_eq!(look(&path), (trust::user(), 0o500));
        let output = std::process::Command::new(&path).output().unwrap();
        assert_eq!(output.stdout, b"hello\n");
        drop(file);
        assert!(!folder.exists());
    }

    #[test]
    fn a_folder_that_others_could_change_keeps_no_temporary_files() {
        let folder = tempfile::tempdir().unwrap();
        let set = |mode| {
            let handle = std::fs::File::open(folder.path()).unwrap();
            handle
                .set_permissions(PermissionsExt::from_mode(mode))
                .unwrap();
            keeps(folder.path())
        };
        assert_eq!([0o700, 0o1777, 0o777].map(set), [true, true, false]);
    }
}
