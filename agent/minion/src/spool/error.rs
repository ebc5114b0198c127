//! What can be wrong with a spool, each with its folder and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// A spool that cannot be opened, written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has it open.
    #[error("the spool {folder} is in use by another process{holder}")]
    Held {
        /// Its folder.
        folder: PathBuf,
        /// `, pid N`, where it is known.
        holder: String,
    },
    /// A later release has written it.
    #[error(
        "the spool {folder} has the format {format}, and this release knows up to {known}: start the newer release again, or move the folder aside, and what it holds is not sent"
    )]
    Newer {
        /// Its folder.
        folder: PathBuf,
        /// Its format.
        format: u64,
        /// The newest one that is known here.
        known: u64,
    },
    /// What is there cannot be read. Nothing is begun anew beside it: that would lose what it holds without a word.
    #[error(
        "the spool {folder} is damaged ({what}): move the folder aside, and a new one is begun; what it holds is not sent then"
    )]
    Damaged {
        /// Its folder.
        folder: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The disk failed or is full. Nothing is half there: what was to be pushed is not in the spool, and can be pushed again.
    #[error("the spool {folder} cannot be used: {source}")]
    Disk {
        /// Its folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The store refuses, for a reason that is neither the disk's nor damage.
    #[error("the spool {folder} cannot be used: {what}")]
    Store {
        /// Its folder.
        folder: PathBuf,
        /// Its words.
        what: String,
    },
    /// One record is larger than the whole spool may be.
    #[error("{bytes} bytes do not fit into a spool of {limit}")]
    TooLarge {
        /// The record's size.
        bytes: u64,
        /// The spool's limit.
        limit: u64,
    },
    /// A new spool needs a number that no other has.
    #[error("a new spool cannot be made: {0}")]
    Random(#[from] value::random::Error),
    /// The frame cannot be written as one.
    #[error("not a frame that could be sent: {0}")]
    Frame(#[from] wire::Error),
}

impl Error {
    /// A disk's error.
    pub(super) fn disk(folder: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Disk {
            folder: folder.to_owned(),
            source,
        }
    }

    /// Damage.
    pub(super) fn damaged(folder: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            folder: folder.to_owned(),
            what: what.into(),
        }
    }

    /// An error of the store.
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
                what: "its table is gone".to_owned(),
            },
            other => Self::damaged(folder, other.to_string()),
        }
    }

    /// True where the disk is full: what was refused fits again when something else went.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(self, Self::Disk { source, .. } if full.contains(&source.kind()))
    }
}
