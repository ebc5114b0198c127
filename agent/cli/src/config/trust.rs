//! Checks that no other user could change a configuration.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use value::trust::{self, Untrusted};

use super::{ConfigError, DEFAULT_DIR, Loaded};

/// The maximum depth of the check below `extension_modules`: one folder for each kind, its files,
/// and the folders of packages.
const DEPTH: usize = 4;

/// Checks that a program may use the configuration of a folder. Root refuses one that other users
/// can change. Other users take responsibility for a folder that they name, but the default folder
/// is checked for them too.
///
/// # Errors
/// If another user may write to one of its files.
pub fn obeyed(loaded: &Loaded, dir: &Path) -> Result<(), ConfigError> {
    let user = trust::user();
    if user != 0 && dir != Path::new(DEFAULT_DIR) {
        return Ok(());
    }
    present(trust::path(dir, user))?;
    present(trust::path(&dir.join("grains"), user))?;
    trusted(loaded, user)
}

/// Checks that only `user` and root can write to the files of a configuration, their folders and
/// the custom modules.
///
/// # Errors
/// If another user may write to one of them.
pub fn trusted(loaded: &Loaded, user: u32) -> Result<(), ConfigError> {
    for file in &loaded.files {
        // The folder is checked as well, because a file that is added to it is read too.
        for path in [Some(file.as_path()), file.parent()].into_iter().flatten() {
            present(trust::path(path, user))?;
        }
    }
    let modules = loaded.opts.get("extension_modules");
    match modules.map(value::Value::to_text) {
        Some(folder) if !folder.is_empty() => {
            present(trust::path(Path::new(&folder), user))?;
            below(Path::new(&folder), user, DEPTH)
        }
        _ => Ok(()),
    }
}

fn below(folder: &Path, user: u32, depth: usize) -> Result<(), ConfigError> {
    let found = present(trust::entry(folder, user))?;
    if !found.is_some_and(|found| found.is_dir()) || depth == 0 {
        return Ok(());
    }
    let read = |source| ConfigError::Read {
        path: folder.to_owned(),
        source,
    };
    for entry in fs::read_dir(folder).map_err(read)? {
        below(&entry.map_err(read)?.path(), user, depth - 1)?;
    }
    Ok(())
}

/// Returns `None` for a path that does not exist, because no user can change it.
fn present<T>(checked: Result<T, Untrusted>) -> Result<Option<T>, ConfigError> {
    match checked {
        Ok(found) => Ok(Some(found)),
        Err(Untrusted::Unreadable { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Ok(None)
        }
        Err(Untrusted::Unreadable { path, source }) => Err(ConfigError::Read { path, source }),
        Err(error) => Err(ConfigError::Untrusted(error)),
    }
}
