//! Walks of folders, as Python's `os.walk`.

use std::convert::Infallible;

use python::path::{islink, join};
use state::module::Error;
use value::log;

use super::list_or_none;

/// One folder of a walk: its path, the names of its folders (including links to folders), the names
/// of all other entries.
#[derive(Clone, Debug, Default)]
pub struct Walked {
    /// The folder.
    pub root: String,
    /// The names of folders.
    pub dirs: Vec<String>,
    /// The names of files and all other entries.
    pub files: Vec<String>,
}

/// Walks a folder as `os.walk` does, without following links. The names in each folder are sorted.
/// A path that is not a folder, or does not exist, has no entries.
///
/// # Errors
/// When a folder exists and cannot be read. Python takes such a folder for empty.
pub fn walk(top: &str, max_depth: Option<usize>) -> Result<Vec<Walked>, Error> {
    walked(top, false, max_depth.unwrap_or(usize::MAX), &here)
}

/// Like [`walk`], but follows links to folders.
///
/// # Errors
/// The same as those of [`walk`].
pub fn walk_links(top: &str) -> Result<Vec<Walked>, Error> {
    walked(top, true, 64, &here)
}

/// Like [`walk`], but logs a warning for a folder that cannot be read, and skips it.
pub fn walk_readable(top: &str) -> Vec<Walked> {
    let read = |folder: &str| Ok::<_, Infallible>(here_if_readable(folder));
    let Ok(out) = walked(top, false, usize::MAX, &read);
    out
}

/// Returns the folder itself, without those below it; `None` where it does not exist.
///
/// # Errors
/// The same as those of [`walk`].
pub fn here(folder: &str) -> Result<Option<Walked>, Error> {
    let Some(entries) = list_or_none(folder)? else {
        return Ok(None);
    };
    let mut here = Walked {
        root: folder.to_owned(),
        ..Walked::default()
    };
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            here.dirs.push(name);
        } else {
            here.files.push(name);
        }
    }
    here.dirs.sort();
    here.files.sort();
    Ok(Some(here))
}

/// Like [`here`], but logs a warning and returns `None` for a folder that cannot be read. This is
/// for searches.
pub fn here_if_readable(folder: &str) -> Option<Walked> {
    here(folder).unwrap_or_else(|error| {
        log::warning(error);
        None
    })
}

/// Reads one folder.
type Read<'a, E> = &'a dyn Fn(&str) -> Result<Option<Walked>, E>;

fn walked<E>(top: &str, follow: bool, depth: usize, read: Read<'_, E>) -> Result<Vec<Walked>, E> {
    let mut out = Vec::new();
    descend(top, follow, depth, read, &mut out)?;
    Ok(out)
}

fn descend<E>(
    folder: &str,
    follow: bool,
    depth: usize,
    read: Read<'_, E>,
    out: &mut Vec<Walked>,
) -> Result<(), E> {
    if depth == 0 {
        return Ok(());
    }
    let Some(here) = read(folder)? else {
        return Ok(());
    };
    let below: Vec<String> = here.dirs.iter().map(|name| join(folder, name)).collect();
    out.push(here);
    for path in below.iter().filter(|path| follow || !islink(path)) {
        descend(path, follow, depth - 1, read, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_read_is_no_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        std::os::unix::fs::symlink(path("looped"), path("looped")).unwrap();
        let error = walk(&path("looped"), None).unwrap_err().to_string();
        assert!(error.starts_with("Cannot read "), "{error}");
        assert!(here_if_readable(&path("looped")).is_none());
        assert!(walk_readable(&path("looped")).is_empty());
        assert!(walk(&path("missing"), None).unwrap().is_empty());
        let top = folder.path().to_string_lossy();
        assert_eq!(here(&top).unwrap().unwrap().files, ["looped"]);
    }
}
