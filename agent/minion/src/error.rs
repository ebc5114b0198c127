//! What keeps a minion's daemon from working.

use std::path::PathBuf;

/// Why the daemon does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option that cannot be used.
    #[error("the option `{option}`: {problem}")]
    Option {
        /// Which.
        option: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// The keys.
    #[error(transparent)]
    Pki(#[from] link::pki::Error),
    /// The connection or the socket of a job.
    #[error(transparent)]
    Link(#[from] link::Error),
    /// What is not delivered yet cannot be kept.
    #[error(transparent)]
    Spool(#[from] crate::spool::Error),
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// What it was about.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}
