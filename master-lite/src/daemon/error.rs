//! [`Error`]: the reason why the master does not start, or ends.

use std::path::PathBuf;

use crate::{api, cluster, hook, keys, store};

/// The reason why the master does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// An option that cannot be used.
    #[error("the option `{option}`: {problem}")]
    Option {
        option: &'static str,
        problem: String,
    },
    #[error(transparent)]
    Api(#[from] api::Error),
    #[error(transparent)]
    Hook(#[from] hook::Error),
    #[error(transparent)]
    Pki(#[from] link::pki::Error),
    #[error(transparent)]
    Link(#[from] link::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    #[error(transparent)]
    Keys(#[from] keys::Error),
    /// A failure that a wheel function reports.
    #[error("{0}")]
    Wheel(String),
    /// A git repository that is configured in a wrong way.
    #[error("{0}")]
    Repository(String),
    /// The master of a cluster does not run.
    #[error(
        "The master does not run, and only a running master of a cluster can list and change keys"
    )]
    NotRunning,
    #[error("{path}: {source}")]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
}

impl Error {
    /// Returns a function that makes an error of the problem with an option.
    pub(super) fn option(option: &'static str) -> impl Fn(String) -> Self {
        move |problem| Self::Option { option, problem }
    }

    /// Returns whether another process holds the store.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self, Self::Store(store::Error::Locked { .. }))
    }
}
