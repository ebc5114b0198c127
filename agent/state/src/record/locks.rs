//! The lock of a record: the run that writes it has it, and whoever removes it takes it.

use std::fs::{File, TryLockError};
use std::path::Path;

use value::read::{is_missing, or_log};

use super::TRIES;

/// Locks a record for this run. Waits a moment if another process is just reading it.
pub(super) fn locked(file: &File) -> bool {
    let (times, pause) = TRIES;
    (0..times).any(|_| match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            std::thread::sleep(pause);
            false
        }
        // On file systems without file locks, the lock of all runs has to suffice.
        _ => true,
    })
}

/// Locks a record while the caller works with it, so that it is not removed. Returns `None` if
/// another process holds it.
#[must_use]
pub fn held(path: &Path) -> Option<File> {
    let file = or_log(path, File::open(path))?;
    locked(&file).then_some(file)
}

/// Returns whether the run of a record is under way, or another process works with the record. A
/// record that cannot be opened counts as one whose run is under way.
#[must_use]
pub fn is_alive(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)),
        Err(error) => !is_missing(&error),
    }
}
