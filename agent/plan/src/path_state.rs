//! Describes a path: its content, mode and owner, or that it is absent.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use state::module::Error;
use value::{Map, Value, sorted};

/// The maximum number of entries of a folder that are read.
const ENTRIES_MAX: usize = 100_000;

/// Returns the description of a path. With `deep`, that of a folder includes everything in it.
///
/// # Errors
/// When the path cannot be examined, or is a folder with too many entries.
pub(crate) fn read(path: &Path, deep: bool) -> Result<Value, Error> {
    let mut left = ENTRIES_MAX;
    image(path, deep, &mut left).map(Value::Map)
}

fn image(path: &Path, deep: bool, left: &mut usize) -> Result<Map, Error> {
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Map::new().with("kind", "absent"));
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Ok(unreadable(Map::new(), &error));
        }
        Err(error) => return Err(Error::io(path)(error)),
    };
    if found.is_symlink() {
        let target = std::fs::read_link(path).map_err(Error::io(path))?;
        let target = target.to_string_lossy().into_owned();
        return Ok(owned("symlink", &found).with("target", target));
    }
    if found.is_file() {
        let map = with_mode("file", &found).with("size", found.len());
        return Ok(
            match machine::hashes::of_file(&path.to_string_lossy(), "sha256") {
                Ok(hash) => map.with("sha256", hash),
                Err(error) => unreadable(map, &error),
            },
        );
    }
    if found.is_dir() {
        let map = with_mode("directory", &found);
        return if deep { tree(path, map, left) } else { Ok(map) };
    }
    Ok(with_mode("other", &found).with("device", found.rdev()))
}

/// Adds that the path cannot be read, if this process lacks the permission.
fn unreadable(map: Map, error: &dyn std::fmt::Display) -> Map {
    map.with("unreadable", error.to_string())
}

fn owned(kind: &str, found: &Metadata) -> Map {
    Map::new()
        .with("kind", kind)
        .with("uid", found.uid())
        .with("gid", found.gid())
}

fn with_mode(kind: &str, found: &Metadata) -> Map {
    owned(kind, found).with("mode", format!("{:04o}", found.mode() & 0o7777))
}

fn tree(path: &Path, map: Map, left: &mut usize) -> Result<Map, Error> {
    let mut names = Vec::new();
    let entries = match std::fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Ok(unreadable(map, &error));
        }
        entries => entries.map_err(Error::io(path))?,
    };
    for entry in entries {
        names.push(entry.map_err(Error::io(path))?.file_name());
        *left = left.checked_sub(1).ok_or_else(|| {
            let shown = path.display();
            Error::refused(format!(
                "cannot plan {shown}: it has more than {ENTRIES_MAX} entries"
            ))
        })?;
    }
    sorted::sort(&mut names);
    let mut all = String::new();
    for name in &names {
        let inside = image(&path.join(name), true, left)?;
        all.push_str(&format!(
            "{} {}\n",
            name.to_string_lossy(),
            crate::hash_of(&inside.into())
        ));
    }
    Ok(map
        .with("entries", names.len())
        .with("sha256", crate::hash(all.as_bytes())))
}
