//! Whose word a configuration is: where another user could change what a daemon obeys, it does not start.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{ConfigError, Loaded};

/// How deep below `extension_modules` is looked: a folder a kind, its files, and the folders of packages.
const DEPTH: usize = 4;

/// Holds the files of a configuration, their folders and the custom modules to be `user`'s and root's alone.
///
/// # Errors
/// When another user may write to one of them.
pub fn trusted(loaded: &Loaded, user: u32) -> Result<(), ConfigError> {
    for file in &loaded.files {
        check(file, user)?;
        if let Some(folder) = file.parent() {
            check(folder, user)?;
        }
    }
    let modules = loaded.opts.get("extension_modules");
    match modules.map(value::Value::to_text) {
        Some(folder) if !folder.is_empty() => below(Path::new(&folder), user, DEPTH),
        _ => Ok(()),
    }
}

fn below(folder: &Path, user: u32, depth: usize) -> Result<(), ConfigError> {
    if !check(folder, user)?.is_some_and(|found| found.is_dir()) || depth == 0 {
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

/// What is not there can be changed by nobody.
fn check(path: &Path, user: u32) -> Result<Option<Metadata>, ConfigError> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            let path = PathBuf::from(path);
            return Err(ConfigError::Read { path, source });
        }
    };
    match others(found.uid(), found.gid(), found.mode(), user) {
        None => Ok(Some(found)),
        Some(who) => Err(ConfigError::Untrusted {
            path: path.to_owned(),
            who,
        }),
    }
}

/// Who else may write to what has this owner, group and mode.
fn others(owner: u32, group: u32, mode: u32, user: u32) -> Option<String> {
    if owner != 0 && owner != user {
        return Some(format!("the user {owner}, whose it is"));
    }
    if mode & 0o002 != 0 {
        return Some("everybody".to_owned());
    }
    // Root's group is root; and a user's own group, of the same number on most systems, is that user.
    let is_ours = group == 0 || (user != 0 && group == user);
    (mode & 0o020 != 0 && !is_ours).then(|| format!("the group {group}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_oneself_are_trusted_and_nobody_else() {
        let who = |owner, group, mode, user| others(owner, group, mode, user);
        for fine in [
            (0, 0, 0o644, 0),
            (0, 0, 0o664, 0),
            (0, 50, 0o644, 0),
            (0, 0, 0o755, 1000),
            (1000, 1000, 0o664, 1000),
            (1000, 100, 0o640, 1000),
        ] {
            assert_eq!(who(fine.0, fine.1, fine.2, fine.3), None, "{fine:?}");
        }
        for (owner, group, mode, user, said) in [
            (1000, 0, 0o600, 0, "the user 1000, whose it is"),
            (1001, 0, 0o600, 1000, "the user 1001, whose it is"),
            (0, 0, 0o646, 0, "everybody"),
            (0, 0, 0o1777, 0, "everybody"),
            (0, 50, 0o664, 0, "the group 50"),
            (1000, 100, 0o664, 1000, "the group 100"),
        ] {
            assert_eq!(who(owner, group, mode, user).as_deref(), Some(said));
        }
    }
}
