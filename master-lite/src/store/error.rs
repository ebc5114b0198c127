//! Errors of the store, with advice in their messages.

use std::io;
use std::path::{Path, PathBuf};

/// A store that cannot be opened, read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Another process holds the store's lock.
    #[error(
        "{folder}: another process has this store open, and only one master can use it: stop that one, or set another cachedir"
    )]
    Locked {
        /// The store's folder.
        folder: PathBuf,
    },
    /// A later release wrote the store.
    #[error(
        "{folder}: the store has format {found}, and this program supports formats up to {known}: use the program that wrote it or a later one, or move the folder away to start with an empty store"
    )]
    Newer {
        /// The store's folder.
        folder: PathBuf,
        /// The format that it has.
        found: u64,
        /// The newest format that this program knows.
        known: u64,
    },
    /// The folder's contents cannot be read.
    #[error(
        "{folder}: the store is damaged ({what}): stop the master, move the folder away and restore a backup, or start with an empty store: keys are restored from the files in pki_dir, events and jobs are lost. A master of a cluster has all from the others: remove this folder and `cluster` beside it, and start the master, which joins as a new one"
    )]
    Damaged {
        /// The store's folder.
        folder: PathBuf,
        /// The damage that was found.
        what: String,
    },
    /// The folder cannot be used.
    #[error("{path}: {why}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The system's error message.
        why: String,
    },
    /// A write failed: no command is accepted until writes work again.
    #[error(
        "{folder}: cannot write the store ({why}): nothing is stored or acknowledged until it is writable again"
    )]
    Broken {
        /// The store's folder.
        folder: PathBuf,
        /// The first failure.
        why: String,
    },
    /// The masters of a cluster have not agreed on a command, as far as is known.
    #[error("{0}")]
    NotAgreed(cluster::raft::NotAgreed),
    /// This master is in a minority of its cluster.
    #[error("{0}")]
    Minority(String),
    /// Other masters keep the returns of a job, and did not give them.
    #[error(
        "the returns of the job {jid} are on other masters of the cluster, and cannot be read from there: {why}"
    )]
    Elsewhere {
        /// The job id.
        jid: String,
        /// The masters that were asked, and their answers.
        why: String,
    },
    /// The program is ending.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// Returns whether the masters did not agree on a command in time. It was not applied, or that is
    /// not known, and they may agree later.
    pub(crate) fn is_undecided(&self) -> bool {
        use cluster::raft::NotAgreed;
        let undecided = [
            NotAgreed::NoMajority,
            NotAgreed::Unknown,
            NotAgreed::NoResult,
            NotAgreed::Busy,
        ];
        match self {
            Self::Minority(_) => true,
            Self::NotAgreed(why) => undecided.contains(why),
            _ => false,
        }
    }

    /// Returns a word for the kind of error, without its place and time.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Locked { .. } => "locked",
            Self::Newer { .. } => "newer",
            Self::Damaged { .. } => "damaged",
            Self::Io { .. } => "io",
            Self::Broken { .. } => "broken",
            Self::NotAgreed(cluster::raft::NotAgreed::Failed(_)) => "failed",
            Self::NotAgreed(_) => "not agreed",
            Self::Minority(_) => "minority",
            Self::Elsewhere { .. } => "elsewhere",
            Self::Closed => "closed",
        }
    }

    pub(super) fn io(path: &Path, source: &io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            why: source.to_string(),
        }
    }

    /// Converts an error of the check of the files.
    pub(super) fn of_check(folder: &Path, source: &io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::InvalidData => Self::Damaged {
                folder: folder.to_owned(),
                what: source.to_string(),
            },
            _ => Self::io(folder, source),
        }
    }

    /// Converts an error of fjall that occurred while the store in this folder was opened or read.
    pub(super) fn from_fjall(folder: &Path, error: &fjall::Error) -> Self {
        let folder = folder.to_owned();
        match error {
            fjall::Error::Locked => Self::Locked { folder },
            fjall::Error::Io(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
                Self::io(&folder, source)
            }
            fjall::Error::Storage(fjall::LsmError::Io(source))
                if source.kind() != io::ErrorKind::UnexpectedEof =>
            {
                Self::io(&folder, source)
            }
            other => Self::Damaged {
                folder,
                what: words(other),
            },
        }
    }
}

/// Returns an error of fjall as text.
pub(super) fn words(error: &fjall::Error) -> String {
    match error {
        fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
            source.to_string()
        }
        fjall::Error::Poisoned => "an earlier write failed".to_owned(),
        other => format!("{other:?}"),
    }
}
