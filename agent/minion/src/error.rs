//! The errors that keep a minion's daemon from working.

use std::path::PathBuf;

/// The reason why the daemon does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option that cannot be used.
    #[error("the option `{option}`: {problem}")]
    Option {
        /// The name of the option.
        option: &'static str,
        /// The problem with its value, and what would be valid.
        problem: String,
    },
    /// The keys, or the connection to a master, cannot be used.
    #[error(transparent)]
    Uplink(#[from] crate::uplink::ConnectionError),
    /// The socket for the processes of this machine failed.
    #[error(transparent)]
    Local(#[from] crate::local_socket::Error),
    /// The spool, which keeps what is not delivered yet, cannot be used.
    #[error(transparent)]
    Spool(#[from] crate::spool::Error),
    /// An operation of the system failed.
    #[error("{path}: {source}")]
    Io {
        /// The path that the operation was about.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}
