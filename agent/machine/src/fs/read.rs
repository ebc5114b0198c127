//! Reading of files and folders. Each error names the path and the reason. Only a missing path may
//! be `None`.
//!
//! A file is read completely. For input that may be hostile or endless, use [`open`] with a limit.

use std::ffi::OsString;
use std::fs::{DirEntry, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use state::module::Error;
pub use value::read::is_missing;

/// Returns the contents of a file.
///
/// # Errors
/// When it cannot be read or does not exist.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<u8>, Error> {
    named(path.as_ref(), raw::read(&path))
}

/// Returns the contents of a file; `None` where it does not exist.
///
/// # Errors
/// When it exists and cannot be read.
pub fn read_or_none(path: impl AsRef<Path>) -> Result<Option<Vec<u8>>, Error> {
    or_none(path.as_ref(), raw::read(&path))
}

/// Returns the text of a file.
///
/// # Errors
/// When it cannot be read, does not exist or is not UTF-8.
pub fn text(path: impl AsRef<Path>) -> Result<String, Error> {
    named(path.as_ref(), raw::text(&path))
}

/// Returns the text of a file; `None` where it does not exist.
///
/// # Errors
/// When it exists and cannot be read, or is not UTF-8.
pub fn text_or_none(path: impl AsRef<Path>) -> Result<Option<String>, Error> {
    or_none(path.as_ref(), raw::text(&path))
}

/// Returns the entries of a folder, in no order.
///
/// # Errors
/// When it cannot be read or does not exist.
pub fn list(path: impl AsRef<Path>) -> Result<Vec<DirEntry>, Error> {
    named(path.as_ref(), raw::entries(&path))
}

/// Returns the entries of a folder, in no order; `None` where it does not exist.
///
/// # Errors
/// When it exists and cannot be read.
pub fn list_or_none(path: impl AsRef<Path>) -> Result<Option<Vec<DirEntry>>, Error> {
    or_none(path.as_ref(), raw::entries(&path))
}

/// Returns the names of the entries of a folder, sorted; none where it does not exist.
///
/// # Errors
/// When it exists and cannot be read.
pub fn names(path: impl AsRef<Path>) -> Result<Vec<OsString>, Error> {
    let entries = list_or_none(path)?.unwrap_or_default().into_iter();
    let mut names: Vec<OsString> = entries.map(|entry| entry.file_name()).collect();
    value::sorted::sort(&mut names);
    Ok(names)
}

/// Returns the target of a symbolic link.
///
/// # Errors
/// When it cannot be read, does not exist or is not a link.
pub fn link_target(path: impl AsRef<Path>) -> Result<PathBuf, Error> {
    named(path.as_ref(), raw::link_target(&path))
}

/// Returns the target of a symbolic link; `None` where there is no link.
///
/// # Errors
/// When it cannot be read.
pub fn link_target_or_none(path: impl AsRef<Path>) -> Result<Option<PathBuf>, Error> {
    match raw::link_target(&path) {
        // The path exists and is not a link.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(None),
        read => or_none(path.as_ref(), read),
    }
}

/// Opens a file for reading.
///
/// # Errors
/// When it cannot be opened or does not exist.
pub fn open(path: impl AsRef<Path>) -> Result<File, Error> {
    named(path.as_ref(), raw::open(&path))
}

/// Returns the result of Salt's `files.is_text` for a file, which examines its first 512 bytes.
/// Returns false where there is no file.
///
/// # Errors
/// When it cannot be read.
pub fn is_text_file(path: &Path) -> Result<bool, Error> {
    let data = read_or_none(path)?;
    Ok(data.is_some_and(|data| python::text::is_text(&data)))
}

/// The same functions with the system's errors, for a caller that names the path itself or acts on
/// the kind of error.
pub mod raw {
    #![expect(
        clippy::disallowed_methods,
        reason = "the rest of the crate reads through these"
    )]
    use super::{DirEntry, File, Path, PathBuf, io};

    /// Returns the contents of a file.
    ///
    /// # Errors
    /// The system's.
    pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    /// Returns the text of a file.
    ///
    /// # Errors
    /// The system's, and when the file is not UTF-8.
    pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
        std::fs::read_to_string(path)
    }

    /// Returns the entries of a folder, in no order.
    ///
    /// # Errors
    /// The system's.
    pub fn entries(path: impl AsRef<Path>) -> io::Result<Vec<DirEntry>> {
        std::fs::read_dir(path)?.collect()
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// The system's.
    pub fn link_target(path: impl AsRef<Path>) -> io::Result<PathBuf> {
        std::fs::read_link(path)
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
        File::open(path)
    }
}

fn named<T>(path: &Path, read: io::Result<T>) -> Result<T, Error> {
    read.map_err(Error::read(path))
}

fn or_none<T>(path: &Path, read: io::Result<T>) -> Result<Option<T>, Error> {
    value::read::or_none(read).map_err(Error::read(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "text").unwrap();
        let (missing, below) = (folder.path().join("missing"), file.join("below"));
        assert_eq!(text_or_none(&file).unwrap().as_deref(), Some("text"));
        for path in [&missing, &below] {
            assert!(read_or_none(path).unwrap().is_none());
            assert!(text_or_none(path).unwrap().is_none());
            assert!(list_or_none(path).unwrap().is_none());
            assert!(link_target_or_none(path).unwrap().is_none());
        }
        assert!(link_target_or_none(&file).unwrap().is_none());
        // A folder is not a file, but it exists.
        assert!(read_or_none(folder.path()).is_err());
        assert!(text_or_none(folder.path()).is_err());
        let looped = folder.path().join("looped");
        std::os::unix::fs::symlink(&looped, &looped).unwrap();
        assert!(read_or_none(&looped).is_err() && list_or_none(&looped).is_err());
        assert_eq!(link_target(&looped).unwrap(), looped);
    }

    #[test]
    fn an_error_names_the_path_and_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let expected = format!(
            "Cannot read {}: No such file or directory (os error 2)",
            missing.display()
        );
        assert_eq!(read(&missing).unwrap_err().to_string(), expected);
        assert_eq!(open(&missing).unwrap_err().to_string(), expected);
        let error = list(&missing).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let latin = folder.path().join("latin");
        std::fs::write(&latin, b"\xe9").unwrap();
        assert!(text_or_none(&latin).is_err());
        assert_eq!(read(&latin).unwrap(), b"\xe9");
    }

    #[test]
    fn the_names_of_a_folder_are_sorted() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b", "a"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(names(folder.path()).unwrap(), ["a", "b"]);
        assert!(names(folder.path().join("none")).unwrap().is_empty());
    }
}
