//! Opens a file at a path without links, so that the file that was checked is the file that is
//! read.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, open, openat};

/// Opens a regular file at an absolute path. No part of the path may be a symbolic link.
///
/// # Errors
/// When a part of the path has become a link, or the path is not a regular file.
pub fn open_real(path: &Path) -> io::Result<File> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = folder(path.parent().unwrap_or(path))?;
    // Opening a pipe would otherwise wait for its other end.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(&folder, name, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// Opens a folder component by component.
fn folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut here = open("/", flags, Mode::empty())?;
    for part in path.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(name) => here = openat(&here, name, flags, Mode::empty())?,
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    Ok(here)
}

#[expect(clippy::disallowed_methods, reason = "a test's own files")]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_with_a_link_in_it_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("a")).unwrap();
        std::fs::write(real.join("a/file"), "x").unwrap();
        symlink("a", real.join("b")).unwrap();
        symlink("file", real.join("a/link")).unwrap();
        assert!(open_real(&real.join("a/file")).is_ok());
        for refused in ["b/file", "a/link", "a", "a/../a/file"] {
            assert!(open_real(&real.join(refused)).is_err(), "{refused}");
        }
    }
}
