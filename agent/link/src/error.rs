//! What can go wrong between two ends, always with the peer that it happened with.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use wire::Id;

use crate::key::PublicKey;
use crate::pki;

/// A peer as errors and logs name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// What it is called: of a minion what its hello says, of a local process its number.
    pub id: Option<Id>,
    /// The key that it has proved.
    pub key: Option<PublicKey>,
    /// Where it was when the connection began.
    pub address: Option<SocketAddr>,
    /// The user and the process, of a local one.
    pub process: Option<(u32, i32)>,
}

impl Who {
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self {
            id: None,
            key: None,
            address: Some(address),
            process: None,
        }
    }

    pub(crate) fn local(user: u32, process: i32) -> Self {
        Self {
            id: None,
            key: None,
            address: None,
            process: Some((user, process)),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.id.as_ref().map(ToString::to_string));
        parts.extend(self.address.map(|address| address.to_string()));
        parts.extend(self.key.map(|key| format!("key {key}")));
        parts.extend(
            self.process
                .map(|(user, process)| format!("process {process} of user {user}")),
        );
        f.write_str(&parts.join(", "))
    }
}

/// What was waited for when a deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A name's addresses.
    Lookup,
    /// The end of the handshake.
    Handshake,
    /// The first frame of a session, or its first answer.
    Hello,
    /// Acceptance, where there are documents that can be shown again.
    Acceptance,
    /// The rest of a frame.
    Frame,
    /// The next frame of an answer.
    Answer,
    /// That the other side takes a frame.
    Take,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lookup => "the addresses of its name",
            Self::Handshake => "the end of the handshake",
            Self::Hello => "the hello or its answer",
            Self::Acceptance => "acceptance, and comes back with fresh documents",
            Self::Frame => "the rest of a frame",
            Self::Answer => "the next part of an answer",
            Self::Take => "it to take a frame",
        })
    }
}

/// Why something did not work between two ends.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A name has no address.
    #[error("{host}: no address: {source}")]
    Lookup {
        /// The name.
        host: String,
        /// Why.
        source: Arc<io::Error>,
    },
    /// A socket cannot be opened.
    #[error("{place}: {source}")]
    Socket {
        /// Its address or path.
        place: String,
        /// Why.
        source: Arc<io::Error>,
    },
    /// A key or setting that TLS does not take.
    #[error("the key cannot be used: {0}")]
    Tls(#[from] rustls::Error),
    /// Key files that cannot be used.
    #[error(transparent)]
    Pki(Arc<pki::Error>),
    /// The master has another key than it should.
    #[error(
        "the master at {address} has the key {seen}, but {} is expected: if that is right, remove the remembered key ({file}) or change master_finger; otherwise somebody stands between",
        .expected.join(" or ")
    )]
    WrongMaster {
        /// Where it is.
        address: SocketAddr,
        /// The fingerprints that would be right.
        expected: Vec<String>,
        /// The one that it has.
        seen: String,
        /// Where the expected one is kept.
        file: String,
    },
    /// The connection ended, or never came to be.
    #[error("{who}: {reason}")]
    Lost {
        /// The peer.
        who: Arc<Who>,
        /// How.
        reason: String,
    },
    /// Something took too long.
    #[error("{who}: waited {} s for {wait}", .after.as_secs_f64())]
    Deadline {
        /// The peer.
        who: Arc<Who>,
        /// For what.
        wait: Wait,
        /// For how long.
        after: Duration,
    },
    /// A frame cannot be read or written.
    #[error("{who}: {source}")]
    Frame {
        /// The peer.
        who: Arc<Who>,
        /// What is wrong with it.
        source: wire::Error,
    },
    /// The peer sent what it may not, or this side tried to.
    #[error("{who}: {source}")]
    NotAllowed {
        /// The peer.
        who: Arc<Who>,
        /// What.
        source: wire::rule::NotAllowed,
    },
    /// A frame came where another kind belongs.
    #[error("{who}: {found} came instead of {wanted}")]
    Unexpected {
        /// The peer.
        who: Arc<Who>,
        /// What came.
        found: String,
        /// What belongs there.
        wanted: &'static str,
    },
    /// Too many frames were malformed or not allowed.
    #[error("{who}: more than {limit} bad frames (bad_frames_max)")]
    TooManyBad {
        /// The peer.
        who: Arc<Who>,
        /// How many are passed over.
        limit: u32,
    },
    /// A limit of this end is reached.
    #[error("{who}: {limit} {what}, which is the limit ({name})")]
    Full {
        /// The peer.
        who: Arc<Who>,
        /// How many there may be.
        limit: usize,
        /// Of what.
        what: &'static str,
        /// The setting.
        name: &'static str,
    },
    /// The master does not let this minion in.
    #[error("{who} refuses this minion: {text} ({reason})")]
    Refused {
        /// The master.
        who: Arc<Who>,
        /// The word for programs.
        reason: String,
        /// Its sentence.
        text: String,
        /// When to ask again.
        retry: Option<Duration>,
    },
    /// The two speak no common version.
    #[error(
        "{who} speaks the protocol's versions {min} to {max}, and this side {} to {}",
        wire::VERSION_MIN,
        wire::VERSION_MAX
    )]
    Version {
        /// The peer.
        who: Arc<Who>,
        /// Its oldest.
        min: u64,
        /// Its newest.
        max: u64,
    },
    /// The peer said that a request failed.
    #[error("{text}")]
    Failed {
        /// The peer.
        who: Arc<Who>,
        /// The word for programs: `missing`, `refused`, `invalid`, `busy`, `failed`, `unsupported`.
        reason: String,
        /// Its sentence.
        text: String,
    },
    /// A request's stream ended without an answer.
    #[error("{who}: ended without an answer")]
    Unanswered {
        /// The peer.
        who: Arc<Who>,
    },
}
