//! The folder that custom modules are synced to: its modules, and whether it may be trusted.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use state::module::Error;
use value::trust::{self, Untrusted};

/// The file of a custom module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    /// The name of the module, unless the module declares another one.
    pub(super) stem: String,
    /// The path of the file that is loaded or started.
    pub(super) path: PathBuf,
    /// True for Python, false for a program.
    pub(super) python: bool,
}

/// Returns the modules of a folder, sorted by name; none when the folder does not exist.
///
/// # Errors
/// When a user other than root and the current one could have written the folder or one of its
/// files.
pub(super) fn files(folder: &Path) -> Result<Vec<File>, Error> {
    let Some(entries) = machine::fs::list_or_none(folder)? else {
        return Ok(Vec::new());
    };
    trusted(folder)?;
    let mut files: Vec<File> = entries
        .into_iter()
        .filter_map(|entry| file(entry.path()))
        .collect();
    files.iter().try_for_each(|file| trusted(&file.path))?;
    value::sorted::sort_by(&mut files, |one, other| one.stem.cmp(&other.stem));
    // If a program and a Python file have the same name, the first one is used.
    files.dedup_by(|second, first| second.stem == first.stem);
    Ok(files)
}

/// Recognizes a Python file, a Python package, or a program without an extension.
fn file(path: PathBuf) -> Option<File> {
    let name = path.file_name()?.to_str()?.to_owned();
    if name.starts_with(['_', '.']) {
        return None;
    }
    let package = path.join("__init__.py");
    let python = |stem: &str, path| File {
        stem: stem.to_owned(),
        path,
        python: true,
    };
    if let Some(stem) = name.strip_suffix(".py") {
        return Some(python(stem, path));
    }
    if package.is_file() {
        return Some(python(&name, package));
    }
    let program = !name.contains('.') && is_program(&path);
    program.then_some(File {
        stem: name,
        path,
        python: false,
    })
}

/// Returns true for a file that its owner may execute.
pub(super) fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.mode() & 0o100 != 0)
}

/// Refuses a path that a user other than root and the current one could have written or replaced.
pub(super) fn trusted(path: &Path) -> Result<(), Error> {
    let refused = |error: Untrusted| {
        let (path, why) = (path.display(), error.sentence());
        Error::refused(format!("Custom modules of {path} are not loaded: {why}"))
    };
    trust::path(path, trust::user()).map_err(refused)
}

/// Returns the `python3` of the `PATH`. Folders that every user may write to are skipped.
pub(super) fn python() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("python3"))
        .find(|python| is_program(python) && trusted(python).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn nothing_is_loaded_that_a_group_of_others_can_write() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.py");
        fs::write(&file, "").unwrap();
        for path in [file.as_path(), folder.path()] {
            if chown(path, None, Some(12345)).is_err() {
                return;
            }
            fs::set_permissions(path, fs::Permissions::from_mode(0o775)).unwrap();
            let problem = files(folder.path()).unwrap_err().to_string();
            assert!(problem.contains("changed by the group 12345"), "{problem}");
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(files(folder.path()).unwrap().len(), 1);
        }
    }

    #[test]
    fn python_files_packages_and_programs_are_modules() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.py", "_private.py", "readme", "x.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("pack")).unwrap();
        fs::write(folder.path().join("pack/__init__.py"), "").unwrap();
        let program = folder.path().join("tool");
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let found = files(folder.path()).unwrap();
        let found: Vec<(&str, bool)> = found
            .iter()
            .map(|file| (file.stem.as_str(), file.python))
            .collect();
        assert_eq!(found, [("b", true), ("pack", true), ("tool", false)]);
    }

    #[test]
    fn nothing_is_loaded_that_anybody_can_write() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.py");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        let problem = files(folder.path()).unwrap_err().to_string();
        assert!(
            problem.contains("it can be changed by everybody"),
            "{problem}"
        );
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(files(folder.path()).unwrap().len(), 1);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(files(folder.path()).is_err());
    }
}
