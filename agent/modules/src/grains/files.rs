//! [`Root`]: the machine's files, below a folder that is `/` except in tests.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use machine::fs;
use state::module::Error;
use value::log;

/// The folder that contains the machine's files.
pub(super) struct Root {
    folder: PathBuf,
}

impl Root {
    /// Uses the machine whose files are below `folder`.
    pub(super) fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Returns a path of the machine. `path` has no leading slash.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// Returns a file as text. Bytes that are not UTF-8 are replaced.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        let read = fs::read_or_none(self.path(path));
        // A sandbox may hide files of the kernel. Their contents then count as unknown.
        let bytes = match path.split('/').next() {
            Some("proc" | "sys") => read.ok().flatten()?,
            _ => ok_or_log(read)?,
        };
        Some(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// Returns true when the path exists.
    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Returns true for a file.
    pub(super) fn is_file(&self, path: &str) -> bool {
        self.path(path).is_file()
    }

    /// Returns true for a folder.
    pub(super) fn is_dir(&self, path: &str) -> bool {
        self.path(path).is_dir()
    }
}

/// Returns what was read for a grain. A failure is logged, and the grain is left out.
pub(super) fn ok_or_log<T>(read: Result<Option<T>, Error>) -> Option<T> {
    read.unwrap_or_else(|error| {
        log::warning(format_args!("cannot determine a grain: {error}"));
        None
    })
}

/// Returns the path of a program: the program of that name in `PATH`, or the given path itself if
/// it has a slash.
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
