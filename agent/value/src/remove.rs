//! Results of removing a file that is no longer needed.

use std::io;
use std::path::Path;

use crate::log;
use crate::read::is_missing;

/// Logs a file that could not be removed. A missing file needs no removal. This is for callers that
/// can leave the file behind.
pub fn or_log<E: Into<io::Error>>(path: impl AsRef<Path>, removed: Result<(), E>) {
    if let Err(error) = removed.map_err(Into::into)
        && !is_missing(&error)
    {
        let path = path.as_ref().display();
        log::warning(format_args!("cannot remove {path}: {error}"));
    }
}
