//! The errors of a connection. Each names the peer that it happened with.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use wire::Id;

use crate::key::PublicKey;
use crate::pki;

/// A peer, as errors and logs name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// The id of the peer: a minion's comes from its hello. `None` before the hello and for local
    /// processes.
    pub id: Option<Id>,
    /// The key that it has proved.
    pub key: Option<PublicKey>,
    /// The address of the peer when the connection began.
    pub address: Option<SocketAddr>,
    /// The user id and process id of a local peer.
    pub process: Option<(u32, i32)>,
}

impl PeerInfo {
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

impl fmt::Display for PeerInfo {
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

/// The event that did not happen before a deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The addresses of a name.
    Lookup,
    /// The end of the handshake.
    Handshake,
    /// The first frame of a session, or the first answer to it.
    Hello,
    /// The acceptance of a minion's key, if the minion can show fresh documents on another try.
    Acceptance,
    /// The rest of a frame.
    Frame,
    /// The next frame of an answer.
    Answer,
    /// The acceptance of a frame by the other side.
    Take,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lookup => "the lookup of its name",
            Self::Handshake => "the end of the handshake",
            Self::Hello => "the hello or its answer",
            Self::Acceptance => "acceptance; the minion reconnects with fresh documents",
            Self::Frame => "the rest of a frame",
            Self::Answer => "the next part of an answer",
            Self::Take => "the peer to accept a frame",
        })
    }
}

/// The reason why a connection or a message failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A name without an address.
    #[error("cannot resolve {host}: {source}")]
    Lookup {
        /// The name.
        host: String,
        /// The reason.
        source: Arc<io::Error>,
    },
    /// A socket that cannot be opened.
    #[error("{place}: {source}")]
    Socket {
        /// The address or path of the socket.
        place: String,
        /// The reason.
        source: Arc<io::Error>,
    },
    /// A key or setting that TLS rejects.
    #[error("the key cannot be used: {0}")]
    Tls(#[from] rustls::Error),
    /// Key files that cannot be used.
    #[error(transparent)]
    Pki(Arc<pki::Error>),
    /// A master with another key than the expected one.
    #[error(
        "the master at {address} has the key {seen}, but {} is expected: if the master's key was replaced, remove the remembered key ({file}) or change master_finger; otherwise this may be a man-in-the-middle attack",
        .expected.join(" or ")
    )]
    WrongMaster {
        /// The address of the master.
        address: SocketAddr,
        /// The fingerprints that are expected.
        expected: Vec<String>,
        /// The fingerprint of the master's key.
        seen: String,
        /// The file or option that contains the expected fingerprint.
        file: String,
    },
    /// A connection that ended or could not be established.
    #[error("{who}: {reason}")]
    Lost {
        /// The peer.
        who: Arc<PeerInfo>,
        /// The reason.
        reason: String,
    },
    /// A master that has not answered the first packets.
    #[error(
        "no answer from {address} (UDP) within {} s: check that the master runs there, and that the port is open for UDP",
        .after.as_secs_f64()
    )]
    NoAnswer {
        /// The address and port of the master.
        address: SocketAddr,
        /// The length of the wait.
        after: Duration,
    },
    /// A wait that exceeded its deadline.
    #[error("{who}: waited {} s for {wait}", .after.as_secs_f64())]
    Deadline {
        /// The peer.
        who: Arc<PeerInfo>,
        /// The event that did not happen in time.
        wait: Wait,
        /// The length of the wait.
        after: Duration,
    },
    /// A frame that cannot be read or written.
    #[error("{who}: {source}")]
    Frame {
        /// The peer.
        who: Arc<PeerInfo>,
        /// The defect of the frame.
        source: wire::Error,
    },
    /// A frame that its sender, the peer or this side, may not send.
    #[error("{who}: {source}")]
    NotAllowed {
        /// The peer.
        who: Arc<PeerInfo>,
        /// The violated rule.
        source: wire::rule::NotAllowed,
    },
    /// A frame of another kind than the expected one.
    #[error("{who}: expected {wanted}, received {found}")]
    Unexpected {
        /// The peer.
        who: Arc<PeerInfo>,
        /// The frame that was received.
        found: String,
        /// The frame that was expected.
        wanted: &'static str,
    },
    /// Too many frames that were malformed or not allowed.
    #[error("{who}: more than {limit} bad frames (bad_frames_max)")]
    TooManyBad {
        /// The peer.
        who: Arc<PeerInfo>,
        /// The number of bad frames that are tolerated.
        limit: u32,
    },
    /// A limit of this end that is reached.
    #[error("{who}: limit reached: {limit} {what} ({name})")]
    Full {
        /// The peer.
        who: Arc<PeerInfo>,
        /// The maximum number.
        limit: usize,
        /// The things that are counted.
        what: &'static str,
        /// The name of the setting.
        name: &'static str,
    },
    /// A refusal of this minion by the master.
    #[error("{who} refuses this minion: {text} ({reason})")]
    Refused {
        /// The master.
        who: Arc<PeerInfo>,
        /// The word for programs.
        reason: String,
        /// The sentence for people.
        text: String,
        /// The time after which the minion may ask again.
        retry: Option<Duration>,
    },
    /// A peer that has no protocol version in common with this side.
    #[error(
        "{who} supports the protocol versions {min} to {max}, but this side supports {} to {}",
        wire::VERSION_MIN,
        wire::VERSION_MAX
    )]
    Version {
        /// The peer.
        who: Arc<PeerInfo>,
        /// The oldest version of the peer.
        min: u64,
        /// The newest version of the peer.
        max: u64,
    },
    /// A request that the peer reported as failed.
    #[error("{text}")]
    Failed {
        /// The peer.
        who: Arc<PeerInfo>,
        /// The word for programs: `missing`, `refused`, `invalid`, `busy`, `failed`, `unsupported`.
        reason: String,
        /// The sentence for people.
        text: String,
    },
    /// A stream that ended without an answer to its request.
    #[error("{who}: the stream ended without an answer")]
    Unanswered {
        /// The peer.
        who: Arc<PeerInfo>,
    },
}
