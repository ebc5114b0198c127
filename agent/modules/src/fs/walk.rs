//! Walks of folders, as Python's `os.walk`.

use std::path::Path;

use python::path::{islink, join};
use state::module::Error;
use value::log;

use super::{list_or_none, read_or_none};

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
    let mut out = Vec::new();
    descend(top, false, max_depth.unwrap_or(usize::MAX), &mut out)?;
    Ok(out)
}

/// Like [`walk`], but follows links to folders.
///
/// # Errors
/// The same as those of [`walk`].
pub fn walk_links(top: &str) -> Result<Vec<Walked>, Error> {
    let mut out = Vec::new();
    descend(top, true, 64, &mut out)?;
    Ok(out)
}

/// Returns the folder itself, without those below it; `None` where it does not exist.
///
/// # Errors
/// The same as those of [`walk`].
pub fn here(folder: &str) -> Result<Option<Walked>, Error> {
    Ok(walk(folder, Some(1))?.into_iter().next())
}

/// Like [`here`], but logs a warning and returns `None` for a folder that cannot be read. This is
/// for searches.
pub fn here_if_readable(folder: &str) -> Option<Walked> {
    here(folder).unwrap_or_else(|error| {
        log::warning(error);
        None
    })
}

fn descend(root: &str, follow: bool, depth: usize, out: &mut Vec<Walked>) -> Result<(), Error> {
    if depth == 0 {
        return Ok(());
    }
    let Some(entries) = list_or_none(root)? else {
        return Ok(());
    };
    let mut here = Walked {
        root: root.to_owned(),
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
    let below: Vec<String> = here.dirs.iter().map(|name| join(root, name)).collect();
    out.push(here);
    for path in below.iter().filter(|path| follow || !islink(path)) {
        descend(path, follow, depth - 1, out)?;
    }
    Ok(())
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
        assert!(walk(&path("missing"), None).unwrap().is_empty());
        let top = folder.path().to_string_lossy();
        assert_eq!(here(&top).unwrap().unwrap().files, ["looped"]);
    }
}
