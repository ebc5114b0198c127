//! [`Image`]: the state of a path, in the form that runs record and later compare.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use value::{Map, Value};

use super::raw;
use crate::hashes;

/// The state of a path: `kind` (`absent`, `directory`, `file`, `symlink`, `node`), `mode`, `uid`,
/// `gid`, and for a file `size` and `sha256`, for a link `target`, for a device node or a pipe
/// `type` and `device`.
pub type Image = Map;

/// Returns the image of a path that does not exist.
#[must_use]
pub fn absent() -> Image {
    Map::new().with("kind", "absent")
}

/// Returns the state of a path, without the hash of a file.
///
/// # Errors
/// When the path cannot be examined.
pub fn read(path: &Path) -> std::io::Result<Image> {
    match path.symlink_metadata() {
        Ok(found) => read_found(path, &found),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(absent())
        }
        Err(error) => Err(error),
    }
}

/// Like [`read`], from metadata that was read already.
pub(super) fn read_found(path: &Path, found: &Metadata) -> std::io::Result<Image> {
    let owned = |kind: &str| {
        Map::new()
            .with("kind", kind)
            .with("uid", found.uid())
            .with("gid", found.gid())
    };
    let with_mode = |kind| owned(kind).with("mode", found.mode() & 0o7777);
    if found.is_symlink() {
        let target = raw::link_target(path)?;
        return Ok(owned("symlink").with("target", target.to_string_lossy().into_owned()));
    }
    if found.is_file() {
        return Ok(with_mode("file").with("size", found.len()));
    }
    if found.is_dir() {
        return Ok(with_mode("directory"));
    }
    let node = with_mode("node").with("type", found.mode() & 0o170_000);
    Ok(node.with("device", found.rdev()))
}

/// Returns the hash of a file's contents.
///
/// # Errors
/// When it cannot be read.
pub fn hash(path: &Path) -> Result<String, state::module::Error> {
    hashes::of_file(&path.to_string_lossy(), "sha256")
}

/// Returns the times of a path as numbers: seconds and nanoseconds of the last access, and of the
/// last modification.
#[must_use]
pub fn times(found: &Metadata) -> Value {
    let times = [
        found.atime(),
        found.atime_nsec(),
        found.mtime(),
        found.mtime_nsec(),
    ];
    Value::list(times.map(Value::from))
}

/// Returns the kind of an image.
#[must_use]
pub fn kind(image: &Image) -> &str {
    image
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
}
