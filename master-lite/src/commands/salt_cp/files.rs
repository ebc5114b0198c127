//! The files and folders that `salt-cp --chunked` sends, and their places on the minions.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use machine::fs;
use python::path;

/// The maximum number of files and empty folders.
const ENTRIES_MAX: usize = 100_000;

/// The maximum depth of nested folders. Symbolic links are followed, as in Salt, and may form a
/// circle.
const DEPTH_MAX: usize = 64;

/// A file or an empty folder.
pub(super) struct Entry {
    /// The source of the command line that it belongs to.
    top: String,
    /// Its path on this machine.
    pub(super) source: String,
    /// Its path on the minions.
    pub(super) place: String,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    File {
        /// The permission bits.
        mode: u32,
    },
    EmptyFolder,
}

/// The reason why a source cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum Wrong {
    #[error("{0} does not exist")]
    Missing(String),
    #[error("Cannot read {0}: {1}")]
    Unreadable(String, io::Error),
    #[error("Cannot send {0}: it is not a regular file and not a folder")]
    NoFile(String),
    #[error("Cannot send {0}: more than {DEPTH_MAX} nested folders, or a circle of symbolic links")]
    Deep(String),
    #[error("Cannot send more than {ENTRIES_MAX} files at a time")]
    Many,
    #[error("Cannot send {0:?}: the name is not UTF-8")]
    Name(PathBuf),
}

impl Wrong {
    /// Returns the exit code.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Missing(_) => crate::commands::salt::INCOMPLETE,
            _ => 1,
        }
    }
}

/// Returns the files of these sources and of the folders among them, sorted.
///
/// # Errors
/// When a source or something below it cannot be sent.
pub(super) fn below(sources: &[String]) -> Result<Vec<Entry>, Wrong> {
    let mut found = Vec::new();
    for source in sources {
        collect(source, Path::new(source), DEPTH_MAX, &mut found)?;
    }
    Ok(found)
}

fn collect(top: &str, here: &Path, depth: usize, found: &mut Vec<Entry>) -> Result<(), Wrong> {
    let shown = || here.display().to_string();
    let text = here.to_str().ok_or_else(|| Wrong::Name(here.to_owned()))?;
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Wrong::Missing(shown()),
        _ => Wrong::Unreadable(shown(), error),
    };
    let metadata = here.metadata().map_err(unreadable)?;
    let mut add = |kind| {
        if found.len() >= ENTRIES_MAX {
            return Err(Wrong::Many);
        }
        found.push(Entry {
            top: top.to_owned(),
            source: text.to_owned(),
            place: String::new(),
            kind,
        });
        Ok(())
    };
    if metadata.is_file() {
        let mode = metadata.permissions().mode() & 0o7777;
        return add(Kind::File { mode });
    }
    if !metadata.is_dir() {
        return Err(Wrong::NoFile(shown()));
    }
    let below = depth.checked_sub(1).ok_or_else(|| Wrong::Deep(shown()))?;
    let entries = fs::raw::entries(here).map_err(unreadable)?;
    if entries.is_empty() {
        return add(Kind::EmptyFolder);
    }
    let mut paths: Vec<PathBuf> = entries.iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        collect(top, &path, below, found)?;
    }
    Ok(())
}

/// Gives each entry its place at the destination. The destination is a folder if it ends with a
/// slash, or if there are several files or an empty folder.
pub(super) fn placed(mut entries: Vec<Entry>, dest: &str) -> Vec<Entry> {
    let several = entries.len() > 1;
    let is_folder = several
        || dest.ends_with(['/', '\\'])
        || entries
            .iter()
            .any(|entry| matches!(entry.kind, Kind::EmptyFolder));
    for entry in &mut entries {
        let name = path::basename(&entry.top);
        let below = entry
            .source
            .strip_prefix(entry.top.as_str())
            .unwrap_or_default();
        let below = below.trim_start_matches('/');
        entry.place = match (below.is_empty(), is_folder) {
            (true, false) => dest.to_owned(),
            (true, true) => path::join(dest, name),
            (false, _) => path::join(&path::join(dest, name), below),
        };
    }
    entries
}

#[expect(clippy::disallowed_methods, reason = "a test's own files")]
#[cfg(test)]
mod tests {
    use super::*;
    use std::fs as files;

    fn places(sources: &[&Path], dest: &str) -> Vec<String> {
        let sources: Vec<String> = sources
            .iter()
            .map(|path| path.to_str().unwrap().to_owned())
            .collect();
        let placed = placed(below(&sources).unwrap(), dest);
        placed.into_iter().map(|entry| entry.place).collect()
    }

    #[test]
    fn places_are_those_of_salt() {
        let folder = tempfile::tempdir().unwrap();
        let here = |name: &str| folder.path().join(name);
        files::create_dir_all(here("dir/sub")).unwrap();
        files::create_dir_all(here("dir/empty")).unwrap();
        for name in ["one", "dir/f", "dir/sub/g"] {
            files::write(here(name), name).unwrap();
        }
        assert_eq!(places(&[&here("one")], "/d"), ["/d"]);
        assert_eq!(places(&[&here("one")], "/d/"), ["/d/one"]);
        assert_eq!(
            places(&[&here("dir"), &here("one")], "/d"),
            ["/d/dir/empty", "/d/dir/f", "/d/dir/sub/g", "/d/one"]
        );
        assert_eq!(places(&[&here("dir/empty")], "/d"), ["/d/empty"]);
        assert_eq!(places(&[&here("dir/sub")], "/d"), ["/d/sub/g"]);
    }

    #[test]
    fn a_circle_of_links_ends_and_a_pipe_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().to_str().unwrap().to_owned();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("again")).unwrap();
        let error = below(std::slice::from_ref(&top)).err().unwrap();
        assert!(
            error.to_string().contains("circle") || error.to_string().contains("symbolic"),
            "{error}"
        );
        let gone = below(&[format!("{top}/gone")]).err().unwrap();
        assert_eq!(
            (gone.to_string(), gone.code()),
            (format!("{top}/gone does not exist"), 42)
        );
        let device = below(&["/dev/null".to_owned()]).err().unwrap();
        assert!(
            device.to_string().contains("not a regular file"),
            "{device}"
        );
    }
}
