//! Which configurations are obeyed: none that another user could change.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use value::trust::{self, Untrusted};

use super::{ConfigError, DEFAULT_DIR, Loaded};

/// How deep below `extension_modules` is looked: a folder a kind, its files, and the folders of packages.
const DEPTH: usize = 4;

/// Checks that a program may obey the configuration of a folder. Root obeys none that others can
/// change; other users vouch for a folder that they name, and the usual one is checked for them too.
///
/// # Errors
/// When another user may write to one of its files.
pub fn obeyed(loaded: &Loaded, dir: &Path) -> Result<(), ConfigError> {
    let user = trust::user();
    if user != 0 && dir != Path::new(DEFAULT_DIR) {
        return Ok(());
    }
    present(trust::path(dir, user))?;
    present(trust::path(&dir.join("grains"), user))?;
    trusted(loaded, user)
}

/// Holds the files of a configuration, their folders and the custom modules to be `user`'s and root's alone.
///
/// # Errors
/// When another user may write to one of them.
pub fn trusted(loaded: &Loaded, user: u32) -> Result<(), ConfigError> {
    for file in &loaded.files {
        // The folder itself as well: a file that is added to it is obeyed.
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

/// Returns nothing for what is not there: nobody can change it.
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
