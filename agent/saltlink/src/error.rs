//! The errors. Each names the master, or the file, and the next step.

use std::path::PathBuf;
use std::time::Duration;

use value::{Value, random};

use crate::connection::Ending;
use crate::limits::ANSWER_SHOWN;

/// The reaction that an error calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The connection is lost, or the master does not answer: connect again later.
    Lost,
    /// The master has refused a request, or sent an answer that is none. The connection can be used
    /// on.
    Refused,
    /// The peer is not the remembered master. Only an administrator can decide what is right.
    Distrusted,
    /// A file of this machine, or a setting, is at fault.
    Local,
}

/// An error of the connection with a Salt master.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A master that cannot be reached.
    #[error("cannot connect to the Salt master {master}: {source}")]
    Connect {
        /// The master, as host and port.
        master: String,
        /// The reason.
        source: std::io::Error,
    },
    /// A connection that has ended.
    #[error("no connection with the Salt master {master}: {reason}")]
    Lost {
        /// The master, as host and port.
        master: String,
        /// The reason.
        reason: String,
    },
    /// An answer that did not come in time.
    #[error("the Salt master {master} did not answer within {} s: {what}", .limit.as_secs())]
    Silent {
        /// The master, as host and port.
        master: String,
        /// The request.
        what: String,
        /// The time that the master had.
        limit: Duration,
    },
    /// Bytes that are not of this protocol.
    #[error("the Salt master {master} sent data that is not of Salt's protocol: {what}")]
    Protocol {
        /// The master, as host and port.
        master: String,
        /// The defect.
        what: String,
    },
    /// A refusal in words.
    #[error("the Salt master {master} refused {what}: {answer}")]
    Refused {
        /// The master, as host and port.
        master: String,
        /// The request.
        what: String,
        /// The answer of the master, shortened.
        answer: String,
    },
    /// A master whose key is not the remembered one, or whose signature does not verify.
    #[error("the peer {master} is not the Salt master that this minion trusts: {why}")]
    Distrusted {
        /// The master, as host and port.
        master: String,
        /// The reason, and the next step.
        why: String,
    },
    /// A key or a file of keys that cannot be used.
    #[error("{path}: {why}")]
    Key {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A folder or file of keys that cannot be read or written.
    #[error(transparent)]
    Pki(#[from] link::pki::Error),
    /// A failure to get random numbers.
    #[error(transparent)]
    Random(#[from] random::Error),
    /// A setting or request that cannot be used.
    #[error("{0}")]
    Local(String),
}

impl Error {
    /// Returns the reaction that the error calls for.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Connect { .. } | Self::Lost { .. } | Self::Silent { .. } => Kind::Lost,
            Self::Protocol { .. } | Self::Refused { .. } => Kind::Refused,
            Self::Distrusted { .. } => Kind::Distrusted,
            Self::Key { .. } | Self::Pki(_) | Self::Random(_) | Self::Local(_) => Kind::Local,
        }
    }

    pub(crate) fn of_connection(master: &str, ending: Ending) -> Self {
        let master = master.to_owned();
        match ending {
            Ending::Lost(reason) => Self::Lost { master, reason },
            Ending::Protocol(what) => Self::Protocol { master, what },
        }
    }

    pub(crate) fn refused(master: &str, what: &str, answer: &Value) -> Self {
        let text = answer.to_text();
        Self::Refused {
            master: master.to_owned(),
            what: what.to_owned(),
            answer: value::visible::text(&text.chars().take(ANSWER_SHOWN).collect::<String>())
                .into_owned(),
        }
    }
}
