//! [`Temporary`]: files for programs, which nobody can put another file in the place of.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;
use state::module::Error;
use value::{Value, python, random, trust};

use crate::accounts;
use crate::fs::handle::{Folder, Last, Links, place};

/// How many random bytes a name has.
const RANDOM: usize = 12;

/// Where folders are made if not in the usual folder for temporary files.
const OTHERS: [&str; 3] = ["/var/tmp", "/run", "/tmp"];

/// A file for the one who uses it alone; it goes when this does. It is in a folder of its own, which only
/// root (or the user of this process) can change and everybody can go through: never in a folder of the
/// user who runs it, who could put something else under its name.
#[derive(Debug)]
pub(crate) struct Temporary {
    path: PathBuf,
    name: String,
    within: Folder,
    above: Folder,
}

impl Temporary {
    /// Returns its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one, for a user where one is named.
    pub(crate) fn written(
        extension: &str,
        text: &[u8],
        runas: Option<&Value>,
    ) -> Result<Self, Error> {
        Self::made(extension, text, runas, false)
    }

    /// Writes one that can be run: where the usual folder for temporary files is mounted with `noexec`,
    /// in another one.
    pub(crate) fn script(
        extension: &str,
        text: &[u8],
        runas: Option<&Value>,
    ) -> Result<Self, Error> {
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

    /// Writes the file and gives it away by its handle.
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
        let _ = self.within.unlink(self.name.as_ref());
        let own = self.within.path().file_name().unwrap_or_default();
        let _ = self.above.rmdir(own);
    }
}

/// Makes a folder that others may go through and nothing more, whatever the umask is.
fn private(above: &Folder, name: &OsStr) -> io::Result<Folder> {
    above.mkdir(name, 0o700)?;
    above.entry(name)?.chmod(0o711)?;
    above.below(Path::new(name))
}

/// Returns where folders of temporary files are made: the usual folder, or another one where others could
/// replace what is in that, or where nothing in it can be run.
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
            "There is no folder for temporary files that other users cannot change: make {usual} a folder of root with the mode 1777"
        ))
    })
}

/// Whether nobody else can rename or remove what is made in a folder: root's with the sticky bit is fine.
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
