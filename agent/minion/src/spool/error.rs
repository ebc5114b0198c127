//! The errors of a spool, each with the spool's folder and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// A spool that cannot be opened, written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has the spool open.
    #[error("the spool {folder} is in use by another process{holder}")]
    Held {
        /// The spool's folder.
        folder: PathBuf,
        /// `, pid N` if the process is known, otherwise empty.
        holder: String,
    },
    /// A later release wrote the spool.
    #[error(
        "the spool {folder} has the format {format}, but this release supports only formats up to {known}: start the newer release again, or move the folder aside (its records are then not sent)"
    )]
    Newer {
        /// The spool's folder.
        folder: PathBuf,
        /// The spool's format.
        format: u64,
        /// The newest format that this release knows.
        known: u64,
    },
    /// The spool cannot be read. No new spool is begun in the same folder, because that would
    /// silently lose the records.
    #[error(
        "the spool {folder} is damaged ({what}): move the folder aside to start with a new spool (the old records are then not sent)"
    )]
    Damaged {
        /// The spool's folder.
        folder: PathBuf,
        /// The description of the damage.
        what: String,
    },
    /// The disk failed or is full. Nothing is written in part: records to be pushed are not in the
    /// spool, and can be pushed again.
    #[error("cannot use the spool {folder}: {source}")]
    Disk {
        /// The spool's folder.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The store refuses, for a reason that is neither the disk nor damage.
    #[error("cannot use the spool {folder}: {what}")]
    Store {
        /// The spool's folder.
        folder: PathBuf,
        /// The store's message.
        what: String,
    },
    /// A single record is larger than the spool's limit.
    #[error("a record of {bytes} bytes does not fit into the spool of {limit} bytes")]
    TooLarge {
        /// The record's size in bytes.
        bytes: u64,
        /// The spool's limit in bytes.
        limit: u64,
    },
    /// A new spool could not get a random epoch.
    #[error("cannot create a new spool: {0}")]
    Random(#[from] value::random::Error),
    /// The entry cannot be encoded as a frame.
    #[error("cannot encode the record as a frame: {0}")]
    Frame(#[from] wire::Error),
}

impl Error {
    /// Returns a function that turns a disk's error into an error of this folder.
    pub(super) fn disk(folder: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Disk {
            folder: folder.to_owned(),
            source,
        }
    }

    /// Returns an error about damage.
    pub(super) fn damaged(folder: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            folder: folder.to_owned(),
            what: what.into(),
        }
    }

    /// Returns a function that turns an error of fjall into an error of this folder.
    #[cfg(feature = "store")]
    pub(super) fn store(folder: &Path) -> impl Fn(fjall::Error) -> Self {
        move |error| match error {
            fjall::Error::Io(source) => Self::disk(folder)(source),
            fjall::Error::Storage(fjall::LsmError::Io(source)) => Self::disk(folder)(source),
            fjall::Error::Poisoned => {
                Self::disk(folder)(io::Error::other("an earlier write failed"))
            }
            fjall::Error::Locked => Self::Held {
                folder: folder.to_owned(),
                holder: String::new(),
            },
            fjall::Error::KeyspaceDeleted => Self::Store {
                folder: folder.to_owned(),
                what: "its table was deleted".to_owned(),
            },
            other => Self::damaged(folder, other.to_string()),
        }
    }

    /// Returns true if the disk is full: the record can be pushed again after other data was
    /// removed.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(self, Self::Disk { source, .. } if full.contains(&source.kind()))
    }
}
