//! What the kernel tells in /proc and /sys. This is the one place where what cannot be read is empty: processes and devices go while
//! they are looked at, and kernels differ in what they tell. Nothing that is read here is written back.

#![expect(
    clippy::disallowed_methods,
    reason = "what cannot be read is empty here"
)]

use std::fs::DirEntry;
use std::path::{Path, PathBuf};

/// Returns the text of a file; empty where there is none.
#[must_use]
pub fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Returns what a file holds; empty where there is none.
#[must_use]
pub fn bytes(path: impl AsRef<Path>) -> Vec<u8> {
    std::fs::read(path).unwrap_or_default()
}

/// Returns the text of a file that goes with its process or device.
#[must_use]
pub fn text_or_none(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Returns what a file holds that goes with its process or device.
#[must_use]
pub fn bytes_or_none(path: impl AsRef<Path>) -> Option<Vec<u8>> {
    std::fs::read(path).ok()
}

/// Returns what is in a folder; nothing where there is none.
pub fn list(path: impl AsRef<Path>) -> impl Iterator<Item = DirEntry> {
    std::fs::read_dir(path).into_iter().flatten().flatten()
}

/// Returns what is in a folder that goes with its process or device.
pub fn list_or_none(path: impl AsRef<Path>) -> Option<impl Iterator<Item = DirEntry>> {
    Some(std::fs::read_dir(path).ok()?.flatten())
}

/// Returns where a link points that goes with its process or device.
#[must_use]
pub fn link_target(path: impl AsRef<Path>) -> Option<PathBuf> {
    std::fs::read_link(path).ok()
}
