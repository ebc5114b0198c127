//! [`Root`]: the machine's files, below a folder that is `/` but in tests.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use state::module::Error;
use value::log;

use crate::fs;

/// Where the machine's files are.
pub(super) struct Root {
    folder: PathBuf,
}

impl Root {
    /// The machine whose files stand below `folder`.
    pub(super) fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// A path of the machine, without its first slash.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// A file as text; what is not UTF-8 is replaced.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        let read = fs::read_or_none(self.path(path));
        // A sandbox may hide files of the kernel: what they would tell is not known then.
        let bytes = match path.split('/').next() {
            Some("proc" | "sys") => read.ok().flatten()?,
            _ => known(read)?,
        };
        Some(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// True when something has that name.
    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// True when it is a file.
    pub(super) fn is_file(&self, path: &str) -> bool {
        self.path(path).is_file()
    }

    /// True when it is a folder.
    pub(super) fn is_dir(&self, path: &str) -> bool {
        self.path(path).is_dir()
    }
}

/// Returns what was read for a grain; where that failed it is logged, and the grain is not there.
pub(super) fn known<T>(read: Result<Option<T>, Error>) -> Option<T> {
    read.unwrap_or_else(|error| {
        log::warning(format_args!("a grain is missing: {error}"));
        None
    })
}

/// The program that a name stands for: found in `PATH`, or the path itself.
pub(super) fn which(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_executable(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
