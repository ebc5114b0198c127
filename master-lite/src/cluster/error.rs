//! [`Error`]: the reason why a master cannot be part of its cluster.

use std::path::{Path, PathBuf};

use crate::store;

/// The reason why a master cannot be part of its cluster.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// An option that cannot be used.
    #[error("the option `{option}`: {problem}")]
    Option {
        /// The option.
        option: &'static str,
        /// The problem with it.
        problem: String,
    },
    /// A file or folder cannot be used.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The log is gone, but the state that followed from it is not.
    #[error(
        "{store} is the state of a master of a cluster, but its log ({log}) is missing: move both away to join the cluster again as a new master"
    )]
    LostLog {
        /// The folder of the store.
        store: PathBuf,
        /// The folder of the log.
        log: PathBuf,
    },
    /// The state is gone, but the log from which it followed is not.
    #[error(
        "{log} is the log of a master of a cluster, but {store} is not the state that followed from it (was it removed, damaged, or restored from a backup?): move {log} away to join the cluster again as a new master, or to found it from this state"
    )]
    LostStore {
        /// The folder of the store.
        store: PathBuf,
        /// The folder of the cluster.
        log: PathBuf,
    },
    /// The log or the identity is not as it was written.
    #[error(
        "this master of a cluster is damaged ({what}): remove {log} and {store}, and start it: it joins the cluster again as a new master, and receives everything from the others"
    )]
    Damaged {
        /// The damage that was found, with its file.
        what: String,
        /// The folder of the store.
        store: PathBuf,
        /// The folder of the cluster.
        log: PathBuf,
    },
    /// The options do not fit to the state.
    #[error("{0}")]
    State(String),
    /// The cluster did not let this master join.
    #[error("cannot join the cluster {cluster}: {why}")]
    Refused {
        /// The name of the cluster.
        cluster: String,
        /// The reason.
        why: String,
    },
    /// The log has failed.
    #[error("the log of the cluster has failed: {0}")]
    Log(String),
}

impl Error {
    pub(super) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}
