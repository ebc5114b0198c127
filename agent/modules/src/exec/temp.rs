//! The `temp` execution module.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use state::exec::Exec;
use state::module::Error;
use tempfile::Builder;
use value::Value;

state::exec_module! {
    /// Files and folders that are there until somebody removes them.
    mod temp;

    /// Make a folder that only its owner may enter; return its path.
    fn dir(Dir {
        /// What its name ends with.
        suffix: String = String::new(),
        /// What its name begins with.
        prefix: String = "tmp".into(),
        /// The folder that it lies in; that of the machine for such things where this is none.
        parent: Option<String> = None,
    });

    /// Make an empty file that only its owner may read; return its path.
    fn file(File {
        /// What its name ends with.
        suffix: String = String::new(),
        /// What its name begins with.
        prefix: String = "tmp".into(),
        /// The folder that it lies in; that of the machine for such things where this is none.
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
