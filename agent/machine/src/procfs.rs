//! Reads the kernel's data in /proc and /sys. Unlike elsewhere, a path that cannot be read counts
//! as empty here: processes and devices may disappear meanwhile, and kernels differ in their files.
//! Data that is read here is never written back.

#![expect(
    clippy::disallowed_methods,
    reason = "a file that cannot be read counts as empty here"
)]

use std::fs::DirEntry;
use std::path::{Path, PathBuf};

/// Returns the text of a file; empty where there is none.
#[must_use]
pub fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Returns the contents of a file; empty where there is none.
#[must_use]
pub fn bytes(path: impl AsRef<Path>) -> Vec<u8> {
    std::fs::read(path).unwrap_or_default()
}

/// Returns the text of a file; `None` if its process or device no longer exists.
#[must_use]
pub fn text_or_none(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Returns the contents of a file; `None` if its process or device no longer exists.
#[must_use]
pub fn bytes_or_none(path: impl AsRef<Path>) -> Option<Vec<u8>> {
    std::fs::read(path).ok()
}

/// Returns the entries of a folder; none where it does not exist.
pub fn list(path: impl AsRef<Path>) -> impl Iterator<Item = DirEntry> {
    std::fs::read_dir(path).into_iter().flatten().flatten()
}

/// Returns the entries of a folder; `None` if its process or device no longer exists.
pub fn list_or_none(path: impl AsRef<Path>) -> Option<impl Iterator<Item = DirEntry>> {
    Some(std::fs::read_dir(path).ok()?.flatten())
}

/// Returns the target of a link; `None` if its process or device no longer exists.
#[must_use]
pub fn link_target(path: impl AsRef<Path>) -> Option<PathBuf> {
    std::fs::read_link(path).ok()
}
