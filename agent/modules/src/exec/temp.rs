//! The `temp` execution module.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use state::exec::Exec;
use state::module::Error;
use tempfile::Builder;
use value::Value;

state::exec_module! {
    /// Create files and folders that stay until they are removed.
    mod temp;

    /// Create a folder that only its owner can access, and return its path.
    ///
    ///     salt-call temp.dir prefix=app-
    fn dir(Dir {
        /// The end of the name.
        suffix: String = String::new(),
        /// The beginning of the name.
        prefix: String = "tmp".into(),
        /// The parent folder; the machine's folder for temporary files if not given.
        parent: Option<String> = None,
    });

    /// Create an empty file that only its owner can access, and return its path.
    ///
    ///     salt-call temp.file suffix=.conf
    fn file(File {
        /// The end of the name.
        suffix: String = String::new(),
        /// The beginning of the name.
        prefix: String = "tmp".into(),
        /// The parent folder; the machine's folder for temporary files if not given.
        parent: Option<String> = None,
    });
}

fn inside(parent: Option<String>) -> PathBuf {
    parent.map_or_else(std::env::temp_dir, PathBuf::from)
}

fn named(path: &Path) -> Value {
    path.to_string_lossy().as_ref().into()
}

fn dir(_cx: &Exec, args: Dir) -> Result<Value, Error> {
    let parent = inside(args.parent);
    let mut how = Builder::new();
    how.prefix(&args.prefix).suffix(&args.suffix);
    how.permissions(Permissions::from_mode(0o700));
    let made = how.tempdir_in(&parent).map_err(Error::io(&parent))?;
    Ok(named(&made.keep()))
}

fn file(_cx: &Exec, args: File) -> Result<Value, Error> {
    let parent = inside(args.parent);
    let mut how = Builder::new();
    how.prefix(&args.prefix).suffix(&args.suffix);
    let made = how.tempfile_in(&parent).map_err(Error::io(&parent))?;
    let (_, path) = made
        .keep()
        .map_err(|error| Error::io(&parent)(error.error))?;
    Ok(named(&path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{exec, json};

    #[test]
    fn what_is_made_stays_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path().to_str().unwrap();
        let cx = exec();
        let given = json(&format!(
            r#"{{"prefix": "a-", "suffix": ".z", "parent": "{parent}"}}"#
        ));
        for (function, mode) in [("temp.dir", 0o40700), ("temp.file", 0o100_600)] {
            let made = cx.call(function, Vec::new(), given.clone()).unwrap();
            let path = made.as_str().unwrap();
            let name = path.strip_prefix(&format!("{parent}/")).unwrap();
            assert!(name.starts_with("a-") && name.ends_with(".z"), "{name}");
            let about = std::fs::metadata(path).unwrap();
            assert_eq!(about.permissions().mode(), mode);
        }
    }
}
