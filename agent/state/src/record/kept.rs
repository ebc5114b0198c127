//! What a run leaves to be undone: lines of its record that tell of each change before it is made, and a folder `kept.JID` beside it
//! with the contents that were replaced, each under its hash.
//!
//! A run has a folder of its own, so that what is forgotten with it can be seen without reading every other record.
#![expect(
    clippy::disallowed_methods,
    reason = "what is kept goes with its record"
)]

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

use value::Map;

use super::{Record, folder, jids};
use crate::exec::Exec;
use crate::module::Error;
use crate::opts::Opts;

/// What is known of a place that the run has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its owner, mode or times are noted, as they were.
    Looks,
    /// All of it is noted, as it was.
    Whole,
}

/// What a run under way knows of the places that it has changed.
#[derive(Debug, Default)]
pub struct Keeping {
    /// By path.
    pub places: HashMap<PathBuf, Place>,
    /// Where folders really are; forgotten when a link or a folder may have moved.
    pub folders: HashMap<PathBuf, PathBuf>,
    /// How many bytes all runs keep; none until it was counted.
    pub bytes: Option<u64>,
}

impl Record {
    /// Notes a change that is about to be made, or how to take one back.
    pub fn change(&self, cx: &Exec, entry: &Map) {
        self.write(entry);
        self.dirty(cx);
    }

    /// What is known of the places that the run has changed.
    pub fn keeping(&self) -> MutexGuard<'_, Keeping> {
        self.keeping.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The folder of the contents that the run of a record keeps.
#[must_use]
pub fn kept(record: &Path) -> PathBuf {
    let jid = record.file_name().unwrap_or_default().to_string_lossy();
    record.with_file_name(format!("kept.{jid}"))
}

/// The records of the runs that keep contents, each with how many bytes they are, that of the oldest run first.
#[must_use]
pub fn kept_of(opts: &Opts) -> Vec<(PathBuf, u64)> {
    let records = folder(opts);
    let records = jids(opts).into_iter().map(|jid| records.join(jid));
    records
        .filter_map(|record| Some((kept_bytes(&record)?, record)))
        .map(|(bytes, record)| (record, bytes))
        .collect()
}

/// How many bytes of contents the run of a record keeps; none where it keeps nothing.
#[must_use]
pub fn kept_bytes(record: &Path) -> Option<u64> {
    let entries = std::fs::read_dir(kept(record)).ok()?;
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
