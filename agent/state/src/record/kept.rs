//! The data that a run keeps for an undo: lines of its record that describe each change before it
//! is made, and a folder `kept.JID` next to the record with the contents that were replaced, each
//! named by its hash.
//!
//! Each run has a separate folder, so that removing a run can remove its contents without reading
//! all other records.
#![expect(
    clippy::disallowed_methods,
    reason = "kept contents are deleted together with their record"
)]

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

use value::Map;
use value::read::or_log;

use super::{Record, folder, jids};
use crate::exec::Exec;
use crate::module::Error;
use crate::opts::Opts;

/// The amount of data recorded about a path that the run has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its original owner, mode or times are recorded.
    Looks,
    /// Its complete original state is recorded.
    Whole,
}

/// The notes of a running run about the paths that it has changed.
#[derive(Debug, Default)]
pub struct Keeping {
    /// The amount of recorded data, by path.
    pub places: HashMap<PathBuf, Place>,
    /// The resolved paths of folders. They are dropped when a link or a folder may have moved.
    pub folders: HashMap<PathBuf, PathBuf>,
    /// The total size in bytes of the contents that all runs keep; `None` until it is computed.
    pub bytes: Option<u64>,
}

impl Record {
    /// Records a change that is about to be made, or how to revert one.
    pub fn change(&self, cx: &Exec, entry: &Map) {
        self.write(entry);
        self.dirty(cx);
    }

    /// Locks and returns the notes about the paths that the run has changed.
    pub fn keeping(&self) -> MutexGuard<'_, Keeping> {
        self.keeping.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the folder of the contents that the run of a record keeps.
#[must_use]
pub fn kept(record: &Path) -> PathBuf {
    let jid = record.file_name().unwrap_or_default().to_string_lossy();
    record.with_file_name(format!("kept.{jid}"))
}

/// Returns the records of the runs that keep contents, each with the size of the contents in bytes,
/// the oldest run first.
#[must_use]
pub fn kept_of(opts: &Opts) -> Vec<(PathBuf, u64)> {
    let records = folder(opts);
    let records = jids(opts).into_iter().map(|jid| records.join(jid));
    records
        .filter_map(|record| Some((kept_bytes(&record)?, record)))
        .map(|(bytes, record)| (record, bytes))
        .collect()
}

/// Returns the total size in bytes of the contents that the run of a record keeps; `None` if it
/// keeps none.
#[must_use]
pub fn kept_bytes(record: &Path) -> Option<u64> {
    let folder = kept(record);
    let entries = or_log(&folder, std::fs::read_dir(&folder))?;
    let sizes = entries
        .flatten()
        .filter_map(|entry| Some(entry.metadata().ok()?.len()));
    Some(sizes.sum())
}

/// Removes the contents that the run of a record keeps.
///
/// # Errors
/// When they cannot be removed.
pub fn drop_kept(record: &Path) -> Result<(), Error> {
    let folder = kept(record);
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io(&folder)(error)),
        _ => Ok(()),
    }
}
