//! Walks of folders, as Python's `os.walk`.

use std::path::Path;

use python::path::{islink, join};
use state::module::Error;
use value::log;

use super::{list_or_none, read_or_none};

/// One folder of a walk: its path, the names of the folders in it (links to folders too), the names of everything else.
#[derive(Clone, Debug, Default)]
pub struct Walked {
    /// The folder.
    pub root: String,
    /// Names of folders.
    pub dirs: Vec<String>,
    /// Names of files and whatever else.
    pub files: Vec<String>,
}

/// `os.walk`, links not followed, each folder's names sorted. What is no folder, or is not there, has nothing in it.
///
/// # Errors
/// When a folder is there and cannot be read; Python's takes it for empty.
pub fn walk(top: &str, max_depth: Option<usize>) -> Result<Vec<Walked>, Error> {
    let mut out = Vec::new();
    descend(top, false, max_depth.unwrap_or(usize::MAX), &mut out)?;
    Ok(out)
}

/// The same, links to folders followed.
///
/// # Errors
/// As of [`walk`].
pub fn walk_links(top: &str) -> Result<Vec<Walked>, Error> {
    let mut out = Vec::new();
    descend(top, true, 64, &mut out)?;
    Ok(out)
}

/// The folder itself, without those below it; none where it is not there.
///
/// # Errors
/// As of [`walk`].
pub fn here(folder: &str) -> Result<Option<Walked>, Error> {
    Ok(walk(folder, Some(1))?.into_iter().next())
}

/// The same for a search, which passes over a folder that cannot be read, with a warning.
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

/// Returns Salt's `files.is_text` of a file, by its first 512 bytes; false where there is no file.
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
