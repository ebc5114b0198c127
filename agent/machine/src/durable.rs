//! Writes small files of this program durably: after a power failure a file has either its old or its
//! new content.
#![expect(
    clippy::disallowed_methods,
    reason = "the file is synced here before it is renamed into place"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use value::trust;

/// The suffix of a file's name while the file is not complete yet.
pub const BESIDE: &str = ".new";

/// Writes a file durably into a folder that only its owner can read. The folder is created if it is
/// missing.
///
/// # Errors
/// When the folder is not trusted, or the file cannot be written.
pub fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    trust::folder(folder)?;
    let beside = folder.join(format!("{name}{BESIDE}"));
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, folder.join(name))?;
    File::open(folder)?.sync_all()
}
