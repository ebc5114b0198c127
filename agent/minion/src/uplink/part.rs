//! [`Part`]: the masters of a session that are tried together, in one protocol.

use std::time::Duration;

#[cfg(feature = "salt-master")]
use link::wait::{pause, within};
use link::{Master, Status};
use smol::channel::bounded;
use smol::future::FutureExt;
#[cfg(feature = "salt-master")]
use smol::net::TcpStream;
use value::channel;
use wire::Welcome;

use super::connection::Link;
use super::protocol::{Protocol, Protocols};
#[cfg(feature = "salt-master")]
use super::salt;

/// The time limit of a look whether a port accepts connections over TCP.
#[cfg(feature = "salt-master")]
const TCP: Duration = Duration::from_secs(5);

/// A change in the state of a session, for the log and for commands.
pub(super) enum News<'a> {
    /// A change in a session of Pinch's protocol.
    Pinch(Status<'a>),
    /// A Salt master has not accepted this minion's key yet.
    #[cfg(feature = "salt-master")]
    Pending(&'a str),
    /// A try with a Salt master failed.
    #[cfg(feature = "salt-master")]
    Failed(&'a str),
    /// The next round of tries begins after this time, if ever.
    Waiting(Option<Duration>),
}

/// A callback that receives the news.
pub(super) type Tell<'a> = &'a mut (dyn FnMut(News<'_>) + Send);

/// The result of a try.
pub(super) enum Tried {
    /// A master has accepted this minion.
    Connected(Box<(Link, Welcome)>),
    /// No master has, and another try makes sense after this time, or not at all.
    Failed(Option<Duration>),
}

/// Masters that are tried together.
#[derive(Debug)]
pub(super) enum Part {
    /// Masters in Pinch's protocol.
    Pinch(Box<Pinch>),
    /// A master in Salt's protocol.
    #[cfg(feature = "salt-master")]
    Salt(Box<Salt>),
}

/// Masters in Pinch's protocol.
#[derive(Debug)]
pub(super) struct Pinch {
    pub(super) session: link::Session,
    pub(super) masters: Vec<Master>,
    /// The masters that may be Salt's, because nothing has decided their protocol yet.
    pub(super) maybe_salts: Vec<MaybeSalt>,
}

/// A master in Salt's protocol.
#[derive(Debug)]
#[cfg(feature = "salt-master")]
pub(super) struct Salt {
    pub(super) session: salt::Session,
    pub(super) master: Master,
}

/// A master whose protocol is not decided: without the feature, there is none.
#[cfg(feature = "salt-master")]
pub(super) type MaybeSalt = Salt;
/// A master whose protocol is not decided: without the feature, there is none.
#[cfg(not(feature = "salt-master"))]
pub(super) type MaybeSalt = std::convert::Infallible;

impl Part {
    /// Returns the session of Pinch's protocol.
    pub(super) fn pinch(&mut self) -> Option<&mut link::Session> {
        match self {
            Self::Pinch(pinch) => Some(&mut pinch.session),
            #[cfg(feature = "salt-master")]
            Self::Salt(_) => None,
        }
    }

    /// Returns whether the first of the masters can be reached now.
    pub(super) async fn first_answers(&mut self) -> bool {
        match self {
            Self::Pinch(pinch) => pinch.session.first_answers().await,
            #[cfg(feature = "salt-master")]
            Self::Salt(salt) => accepts_tcp(&salt.master).await,
        }
    }

    /// Tries each master once. With `is_only`, a part whose protocol is decided tries for as long as
    /// it takes.
    pub(super) async fn attempt(
        &mut self,
        protocols: &Protocols,
        is_only: bool,
        tell: Tell<'_>,
    ) -> Tried {
        match self {
            Self::Pinch(pinch) if is_only && pinch.maybe_salts.is_empty() => {
                let mut tell = |status: Status<'_>| tell(News::Pinch(status));
                let (link, welcome) = pinch.session.connect(&mut tell).await;
                pinch.reached(protocols);
                Tried::Connected(Box::new((Link::Pinch(Box::new(link)), welcome)))
            }
            Self::Pinch(pinch) => pinch.round(protocols, tell).await,
            #[cfg(feature = "salt-master")]
            Self::Salt(salt) => salt.attempt(protocols, tell).await,
        }
    }

    /// Returns the master that turned out to be Salt's, if there is one.
    #[cfg(feature = "salt-master")]
    pub(super) fn take_salt(&mut self, protocols: &Protocols) -> Option<Box<Salt>> {
        let Self::Pinch(pinch) = self else {
            return None;
        };
        let is_salt = |salt: &MaybeSalt| protocols.is_salt(&salt.master);
        let at = pinch.maybe_salts.iter().position(is_salt)?;
        Some(Box::new(pinch.maybe_salts.swap_remove(at)))
    }
}

/// Returns whether the port of a master accepts connections over TCP.
#[cfg(feature = "salt-master")]
async fn accepts_tcp(master: &Master) -> bool {
    let connected = TcpStream::connect((master.host.as_str(), master.port));
    within(TCP, connected)
        .await
        .is_some_and(|stream| stream.is_ok())
}

impl Pinch {
    /// Remembers that the masters speak Pinch's protocol.
    fn reached(&mut self, protocols: &Protocols) {
        self.maybe_salts.clear();
        for master in &self.masters {
            protocols.reached(master, Protocol::Pinch);
        }
    }

    /// Tries each master once, in Pinch's protocol. Then tries those that may be Salt's in that.
    async fn round(&mut self, protocols: &Protocols, tell: Tell<'_>) -> Tried {
        let (over, is_over) = bounded(1);
        let mut is_pinch = false;
        let connected = {
            let mut tell = |status: Status<'_>| {
                match &status {
                    // Only a master of Pinch has a key that is remembered, or makes a minion wait.
                    Status::Remembered(_)
                    | Status::Succeeded(_)
                    | Status::OldFinger(_)
                    | Status::Pending(..) => is_pinch = true,
                    Status::Waiting(wait) => return channel::if_open(over.try_send(*wait)),
                    Status::Trying(..) | Status::Failed(_) => {}
                }
                tell(News::Pinch(status));
            };
            let connect = async { Ok(self.session.connect(&mut tell).await) };
            // No deadline: each try has one, and the session reports when all have failed.
            let ends = async { Err(is_over.recv().await.unwrap_or_default()) };
            connect.or(ends).await
        };
        match connected {
            Ok((link, welcome)) => {
                self.reached(protocols);
                Tried::Connected(Box::new((Link::Pinch(Box::new(link)), welcome)))
            }
            Err(wait) if is_pinch => {
                self.maybe_salts.clear();
                Tried::Failed(Some(wait))
            }
            Err(wait) => self.salts(protocols, wait, tell).await,
        }
    }

    /// Tries the masters that may be Salt's, if their ports accept connections over TCP.
    #[cfg(feature = "salt-master")]
    async fn salts(&mut self, protocols: &Protocols, wait: Duration, tell: Tell<'_>) -> Tried {
        for salt in &mut self.maybe_salts {
            if accepts_tcp(&salt.master).await {
                value::log::info(format_args!(
                    "The master {} does not answer over UDP, and accepts connections over TCP: trying Salt's protocol (master_protocol)",
                    salt.master
                ));
                let tried = salt.attempt(protocols, tell).await;
                if protocols.is_salt(&salt.master) {
                    return tried;
                }
            }
        }
        Tried::Failed(Some(wait))
    }

    #[cfg(not(feature = "salt-master"))]
    #[expect(clippy::unused_async, reason = "the other build tries masters here")]
    async fn salts(&mut self, _: &Protocols, wait: Duration, _: Tell<'_>) -> Tried {
        Tried::Failed(Some(wait))
    }
}

#[cfg(feature = "salt-master")]
impl Salt {
    async fn attempt(&mut self, protocols: &Protocols, tell: Tell<'_>) -> Tried {
        let delay = self.session.delay();
        if !delay.is_zero() {
            pause(delay).await;
        }
        match self.session.attempt().await {
            salt::Outcome::Connected(link) => {
                protocols.reached(&self.master, Protocol::Salt);
                Tried::Connected(Box::new((Link::Salt(link), welcome())))
            }
            salt::Outcome::Pending(text, wait) => {
                protocols.is_now_salt(&self.master);
                tell(News::Pending(&text));
                Tried::Failed(Some(wait))
            }
            salt::Outcome::Failed(text, wait) => {
                tell(News::Failed(&text));
                Tried::Failed(wait)
            }
        }
    }
}

/// Returns the welcome of a master that has none: it knows nothing of the spool.
#[cfg(feature = "salt-master")]
fn welcome() -> Welcome {
    Welcome {
        version: wire::VERSION_MAX,
        features: Vec::new(),
        bound: value::Map::new(),
        epoch: 0,
        durable: 0,
        program: String::new(),
        stamp: value::jid::stamp(),
    }
}
