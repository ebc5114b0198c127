//! [`Session`]: the minion's end. It finds a master, proves its key and verifies the master's,
//! sends the hello, waits while its key is pending, and reconnects after every loss.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quinn::{ClientConfig, Connection, Endpoint};
use smol::channel::{Receiver, Sender, bounded};
use value::Map;
use wire::{Control, Frame, Hello, Way, Welcome};

use crate::backoff::{Backoff, WAIT_MAX, Waits, lot};
use crate::connection::{Admitted, Link};
use crate::error::{Error, PeerInfo, Wait};
use crate::key::{KeyPair, PublicKey};
use crate::limits::Limits;
use crate::masters::{MasterList, Target, targets};
use crate::pki::Pki;
use crate::recall;
use crate::room::Capacity;
use crate::socket::OnSmol;
use crate::stream::{Reader, Sink, Source, Writer, within};
use crate::succession::{Trusted, has_finger};
use crate::tls::{self, Pinned};
use crate::wait::{pause, unblock};

/// The default port of a master, which is that of a Salt master.
pub const PORT: u16 = 4506;
/// The name under which the master's key is remembered.
pub const REMEMBERED: &str = "minion_master";

/// A master, by name or address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
    /// A name, which is resolved again at each try, or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Master {
    /// Parses `host`, `host:port`, `[address]:port` or a bare IPv6 address, the forms of the option
    /// `master`. `port` is the default.
    #[must_use]
    pub fn parse(text: &str, port: u16) -> Self {
        let host = |host: &str| host.trim_matches(['[', ']']).to_owned();
        if text.parse::<Ipv6Addr>().is_err()
            && let Some((name, number)) = text.rsplit_once(':')
            && let Ok(port) = number.parse()
        {
            return Self {
                host: host(name),
                port,
            };
        }
        Self {
            host: host(text),
            port,
        }
    }
}

impl fmt::Display for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The settings of a session.
#[derive(Clone, Debug)]
pub struct Options {
    /// The masters, in the order in which they are tried.
    pub masters: Vec<Master>,
    /// `random_master`: true to try the masters in random order instead.
    pub random: bool,
    /// `source_address`: the address of this machine to connect from.
    pub source: Option<IpAddr>,
    /// This minion's key.
    pub pair: KeyPair,
    /// The folder in which the master's key is remembered.
    pub pki: Pki,
    /// `master_finger`: fingerprints, of which the master's key must have one.
    pub fingers: Vec<String>,
    /// The hello. The session sets its versions and role.
    pub hello: Hello,
    /// The deadlines and sizes.
    pub limits: Limits,
    /// The waits before each new try.
    pub waits: Waits,
}

/// A change in the state of a session, for the log and for observers.
#[derive(Debug)]
pub enum Status<'a> {
    /// A master is tried at one of its addresses.
    Trying(&'a Master, SocketAddr),
    /// The master's key was seen for the first time and is now remembered.
    Remembered(&'a PeerInfo),
    /// The master has the key that its old one announced. The remembered key is replaced.
    Succeeded(&'a PeerInfo),
    /// The master has the key that its old one announced, but `master_finger` names the old one.
    OldFinger(&'a PeerInfo),
    /// The master can be reached, and this minion's key waits for acceptance. The text is the
    /// reason.
    Pending(&'a PeerInfo, &'a str),
    /// A try failed.
    Failed(&'a Error),
    /// The next round of tries begins after this time.
    Waiting(Duration),
}

/// A callback that receives each change of the session's status.
pub type Tell<'a> = &'a mut (dyn FnMut(Status<'_>) + Send);

/// A source of documents, which a hello shows in addition to its token. It may block, but the hello
/// waits only within `Limits::hello`.
#[derive(Clone)]
pub struct Evidence(Arc<dyn Fn() -> Map + Send + Sync>);

impl Evidence {
    /// Creates a source that calls this function for each hello.
    pub fn from(get: impl Fn() -> Map + Send + Sync + 'static) -> Self {
        Self(Arc::new(get))
    }

    /// Returns the documents; an empty map when they take longer than a master waits for a hello.
    async fn documents(&self, limits: &Limits) -> Map {
        let get = self.0.clone();
        let got = unblock(move || get());
        within(limits.hello * 3 / 4, got).await.unwrap_or_default()
    }
}

impl fmt::Debug for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Evidence")
    }
}

/// A minion's connection to its masters, across losses.
#[derive(Debug)]
pub struct Session {
    options: Options,
    evidence: Option<Evidence>,
    /// True if the master accepted this key last time; no evidence is needed then.
    is_known: bool,
    capacity: Arc<Capacity>,
    backoff: Backoff,
    /// The masters of the cluster, if they are known.
    list: Option<Arc<MasterList>>,
    /// The masters in the order in which they are tried.
    targets: Vec<Target>,
    /// The position of the master that is tried first, which is that of the last connection.
    first: usize,
    /// The key of the master of the last connection.
    key: Option<PublicKey>,
    /// True if the last connection was of no use.
    was_useless: bool,
    /// True after the first connection.
    was_connected: bool,
    endpoint: Option<Endpoint>,
    /// True if the endpoint belongs to another session.
    is_shared: bool,
    /// A channel that signals each [`recall`] that the endpoint's socket receives.
    recalls: (Sender<()>, Receiver<()>),
    pub(crate) lookup: Lookup,
}

/// A function that resolves a name to addresses. It may block.
pub(crate) type Lookup = fn(&str, u16) -> std::io::Result<Vec<SocketAddr>>;

fn system_lookup(host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

impl Session {
    /// Returns a session that has tried nothing yet.
    #[must_use]
    pub fn new(mut options: Options) -> Self {
        options.hello.version_min = wire::VERSION_MIN;
        options.hello.version_max = wire::VERSION_MAX;
        "minion".clone_into(&mut options.hello.role);
        if options.random {
            shuffle(&mut options.masters);
        }
        // There is only one master, so its frames need no separate share.
        let capacity = Capacity::new(Limits {
            large_bytes_per_key: options.limits.large_bytes_max,
            ..options.limits.clone()
        });
        Self {
            targets: targets(None, "", &options.masters, &options.fingers),
            options,
            evidence: None,
            is_known: false,
            capacity,
            backoff: Backoff::default(),
            list: None,
            first: 0,
            key: None,
            was_useless: false,
            was_connected: false,
            endpoint: None,
            is_shared: false,
            recalls: bounded(1),
            lookup: system_lookup,
        }
    }

    /// Returns the hello of the next try, to be changed.
    pub fn hello_mut(&mut self) -> &mut Hello {
        &mut self.options.hello
    }

    /// Sets the documents to show in addition, for as long as the key is not accepted.
    pub fn show(&mut self, evidence: Option<Evidence>) {
        self.evidence = evidence;
    }

    /// Sets the masters of the cluster, which are tried before the configured ones, and whose keys
    /// are accepted. With several masters, no new try waits before each of them was tried once. An
    /// existing connection continues.
    pub fn know(&mut self, list: Option<Arc<MasterList>>) {
        if self.list == list {
            return;
        }
        let Options { hello, masters, .. } = &self.options;
        let targets = targets(
            list.as_deref(),
            hello.id.as_str(),
            masters,
            &self.options.fingers,
        );
        let last = self.targets.get(self.first).map(|target| &target.master);
        let is_last = |target: &Target| match &self.key {
            Some(key) if target.is_listed => has_finger(&target.fingers, key),
            Some(_) => Some(&target.master) == last,
            None => false,
        };
        // A connection with a master that is none of these comes before the first one.
        let none = match self.key {
            Some(_) => targets.len().saturating_sub(1),
            None => 0,
        };
        self.first = targets.iter().position(is_last).unwrap_or(none);
        (self.list, self.targets) = (list, targets);
    }

    /// Returns whether the masters are those of a cluster with several of them.
    #[must_use]
    pub fn has_others(&self) -> bool {
        self.list.is_some() && self.targets.len() > 1
    }

    /// Makes the next round begin with another master than this one, for a caller that knows that
    /// this one is of no use.
    pub fn skip_master(&mut self) {
        self.first = (self.first + 1) % self.targets.len().max(1);
    }

    /// Makes the next round wait as after a failed one: the last connection was of no use, and the
    /// other masters have been tried.
    pub fn was_useless(&mut self) {
        self.was_useless = true;
    }

    /// Returns whether the last connection was with the first of the masters.
    #[must_use]
    pub fn is_with_first(&self) -> bool {
        self.first == 0
    }

    /// Makes the next round begin with the first of the masters again.
    pub fn begin_with_first(&mut self) {
        self.first = 0;
    }

    /// Returns whether the first of the masters can be reached and proves its key now. No hello is
    /// sent to it, and an existing connection continues.
    pub async fn first_answers(&mut self) -> bool {
        let Some(target) = self.targets.first().cloned() else {
            return false;
        };
        let addresses = self.lookup(&target.master).await;
        let (Ok(addresses), Ok(trusted)) = (addresses, self.trusted(&target)) else {
            return false;
        };
        let endpoint = self.endpoint.clone();
        let mut answers = false;
        for address in addresses {
            if let Ok(connection) = self.handshake(address, &trusted).await {
                connection.close(0_u32.into(), b"probe");
                answers = true;
                break;
            }
        }
        self.endpoint = endpoint;
        answers
    }

    /// Uses the socket of another session of this process, if that session has one open. Many
    /// sessions need only one socket.
    pub fn share_socket(&mut self, other: &Self) {
        self.endpoint.clone_from(&other.endpoint);
        self.is_shared = self.endpoint.is_some();
    }

    /// Switches to another socket without a new handshake, for a caller that knows that the
    /// machine's addresses have changed. QUIC itself notices other address changes.
    ///
    /// # Errors
    /// When no socket can be opened.
    pub fn rebind(&self) -> Result<(), Error> {
        let Some(endpoint) = &self.endpoint else {
            return Ok(());
        };
        let family = endpoint
            .local_addr()
            .map_or_else(|_| Ipv4Addr::UNSPECIFIED.into(), |old| old.ip());
        let bound = self
            .socket(family)
            .and_then(|socket| endpoint.rebind(socket));
        bound.map_err(|source| Error::Socket {
            place: "a new socket".to_owned(),
            source: Arc::new(source),
        })
    }

    /// Tries until a master accepts this minion: all masters, all their addresses, for as long as
    /// it takes. `tell` receives each change of the status.
    pub async fn connect(&mut self, tell: Tell<'_>) -> (Link, Welcome) {
        if std::mem::take(&mut self.was_connected) {
            let wait = self.wait_after_connection();
            self.wait(wait, tell).await;
        }
        loop {
            let error = match self.round(tell).await {
                Ok(connected) => {
                    self.was_connected = true;
                    return connected;
                }
                Err(error) => error,
            };
            let waits = &self.options.waits;
            let wait = match error {
                Some(Error::Refused { retry, .. }) => self.backoff.refused(waits, retry, lot()),
                _ => self.backoff.lost(waits, lot()),
            };
            self.wait(wait, tell).await;
        }
    }

    /// Returns the wait before the first try after a connection.
    fn wait_after_connection(&mut self) -> Duration {
        if std::mem::take(&mut self.was_useless) {
            return self.backoff.lost(&self.options.waits, lot());
        }
        self.backoff.reset();
        if self.has_others() {
            return Duration::ZERO;
        }
        let longest = self.options.waits.random_reauth_delay.min(WAIT_MAX);
        longest.mul_f64(f64::from(lot()) / f64::from(u32::MAX))
    }

    async fn wait(&self, wait: Duration, tell: Tell<'_>) {
        if !wait.is_zero() {
            tell(Status::Waiting(wait));
            pause(wait).await;
        }
    }

    /// Tries each master once. Returns the last error if none accepts this minion.
    async fn round(&mut self, tell: Tell<'_>) -> Result<(Link, Welcome), Option<Error>> {
        let count = self.targets.len();
        let mut last = None;
        for turn in 0..count {
            let at = (self.first + turn) % count;
            let Some(target) = self.targets.get(at).cloned() else {
                continue;
            };
            match self.master(&target, tell).await {
                Ok(connected) => {
                    (self.first, self.key) = (at, connected.0.who().key);
                    return Ok(connected);
                }
                Err(error) => {
                    tell(Status::Failed(&error));
                    last = Some(error);
                }
            }
        }
        Err(last)
    }

    /// Tries each address of a master. Returns the error of the last address if none accepts this
    /// minion.
    async fn master(&mut self, target: &Target, tell: Tell<'_>) -> Result<(Link, Welcome), Error> {
        let (mut last, master) = (None, &target.master);
        for address in self.lookup(master).await? {
            if let Some(error) = last.replace(Error::Unanswered {
                who: Arc::new(PeerInfo::at(address)),
            }) && !matches!(error, Error::Unanswered { .. })
            {
                tell(Status::Failed(&error));
            }
            tell(Status::Trying(master, address));
            match self.address(address, target, tell).await {
                // The master's other addresses would give the same answer.
                Err(error @ Error::Refused { .. }) => return Err(error),
                Err(error) => last = Some(error),
                Ok(connected) => return Ok(connected),
            }
        }
        Err(last.unwrap_or_else(|| no_address(master)))
    }

    async fn lookup(&self, master: &Master) -> Result<Vec<SocketAddr>, Error> {
        let (host, port) = (master.host.clone(), master.port);
        let after = self.options.limits.hello;
        let lookup = self.lookup;
        let found = unblock(move || lookup(&host, port));
        let found = within(after, found).await.ok_or_else(|| Error::Lookup {
            host: master.host.clone(),
            source: Arc::new(std::io::ErrorKind::TimedOut.into()),
        })?;
        let found = found.map_err(|source| Error::Lookup {
            host: master.host.clone(),
            source: Arc::new(source),
        })?;
        let source = self.options.source;
        let fits =
            |address: &SocketAddr| source.is_none_or(|own| own.is_ipv4() == address.is_ipv4());
        Ok(found.into_iter().filter(fits).collect())
    }

    fn socket(&self, to: IpAddr) -> std::io::Result<UdpSocket> {
        let any: IpAddr = match to {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        UdpSocket::bind((self.options.source.unwrap_or(any), 0))
    }

    /// Returns a new endpoint with a separate socket for each try, unless the endpoint of another
    /// session is shared.
    fn endpoint_to(&self, to: IpAddr) -> std::io::Result<Endpoint> {
        if self.is_shared
            && let Some(endpoint) = &self.endpoint
        {
            return Ok(endpoint.clone());
        }
        let runtime = Arc::new(OnSmol {
            recalls: Some(self.recalls.0.clone()),
            ..OnSmol::default()
        });
        Endpoint::new(
            quinn::EndpointConfig::default(),
            None,
            self.socket(to)?,
            runtime,
        )
    }

    /// Returns the keys that are accepted from a master.
    fn trusted(&self, target: &Target) -> Result<Trusted, Error> {
        let trusted = self.options.pki.trusted(&target.fingers);
        let mut trusted = trusted.map_err(|error| Error::Pki(Arc::new(error)))?;
        if let Some(place) = &target.place {
            trusted.place.clone_from(place);
        }
        Ok(trusted)
    }

    async fn address(
        &mut self,
        address: SocketAddr,
        target: &Target,
        tell: Tell<'_>,
    ) -> Result<(Link, Welcome), Error> {
        let trusted = self.trusted(target)?;
        let connection = self.handshake(address, &trusted).await?;
        let key = tls::identity(&connection);
        let who = Arc::new(PeerInfo {
            key,
            ..PeerInfo::at(address)
        });
        if let Some(key) = key.filter(|_| !target.is_listed) {
            self.proved(&key, &trusted, &who, tell)?;
        }
        self.greet(connection, &who, tell).await
    }

    /// Remembers the key that the master has proved, if it is the first one or follows another one.
    fn proved(
        &self,
        key: &PublicKey,
        trusted: &Trusted,
        who: &PeerInfo,
        tell: Tell<'_>,
    ) -> Result<(), Error> {
        let pki = &self.options.pki;
        let (remembered, status) = match trusted.is_successor(key) {
            _ if trusted.fingers.is_empty() => {
                (pki.remember(REMEMBERED, key), Status::Remembered(who))
            }
            false => return Ok(()),
            true if self.options.fingers.is_empty() => (pki.succeed(key), Status::Succeeded(who)),
            true => (Ok(()), Status::OldFinger(who)),
        };
        remembered.map_err(|error| Error::Pki(Arc::new(error)))?;
        tell(status);
        Ok(())
    }

    async fn handshake(
        &mut self,
        address: SocketAddr,
        trusted: &Trusted,
    ) -> Result<Connection, Error> {
        let pinned = Pinned::new(trusted.fingers.clone());
        let who = Arc::new(PeerInfo::at(address));
        let limits = &self.options.limits;
        let lost = |error: &dyn fmt::Display| Error::Lost {
            who: who.clone(),
            reason: error.to_string(),
        };
        let crypto = tls::client(&self.options.pair, wire::ALPN, pinned.clone())?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(limits.of_minion()));
        let failed = |source| Error::Socket {
            place: address.to_string(),
            source: Arc::new(source),
        };
        let endpoint = self.endpoint_to(address.ip()).map_err(failed)?;
        // No name is sent or checked, because the key identifies the master.
        let connecting = endpoint.connect_with(config, address, "pinch");
        let connecting = connecting.map_err(|error| lost(&error))?;
        self.endpoint = Some(endpoint);
        let connected = within(limits.handshake, connecting).await;
        let connected = connected.ok_or(Error::NoAnswer {
            address,
            after: limits.handshake,
        })?;
        connected.map_err(|error| match pinned.refused() {
            Some(seen) => Error::WrongMaster {
                address,
                expected: pinned.fingers.clone(),
                seen: seen.finger(),
                file: trusted.place.clone(),
            },
            None => lost(&error),
        })
    }

    /// Sends the hello on the control stream, and waits until the minion is accepted.
    async fn greet(
        &mut self,
        connection: Connection,
        who: &Arc<PeerInfo>,
        tell: Tell<'_>,
    ) -> Result<(Link, Welcome), Error> {
        let opened = connection.open_bi().await;
        let (send, receive) = opened.map_err(|error| lost(&connection, who, &error.to_string()))?;
        let (out, way) = (Way::MinionToMaster, Way::MasterToMinion);
        let (sizes, capacity) = (wire::Limits::CONTROL, &self.capacity);
        let mut writer = Writer::new(Sink::Quic(send), sizes, who.clone(), out, capacity.clone());
        let source = Source::Quic(receive);
        let mut reader = Reader::new(source, sizes, who.clone(), way, capacity.clone());
        let evidence = self.evidence.as_ref();
        let is_held_back = evidence.is_some() && std::mem::take(&mut self.is_known);
        let mut hello = self.options.hello.clone();
        if let Some(evidence) = evidence.filter(|_| !is_held_back) {
            hello.evidence = evidence.documents(&self.options.limits).await;
        }
        writer.send(&hello.into()).await?;
        let mut wait = Some((Wait::Hello, self.options.limits.hello));
        let welcome = loop {
            let frame = reader.next(wait).await?;
            if is_held_back && matches!(frame, Some(Frame::Control(Control::Pending(_)))) {
                let why = "this minion's key is no longer accepted: reconnecting with documents";
                let error = lost(&connection, who, why);
                connection.close(0_u32.into(), b"evidence");
                return Err(error);
            }
            if let Some(welcome) = let_in(frame, &connection, who, tell)? {
                break welcome;
            }
            // From here on there is no deadline, unless fresh documents might help. QUIC reports
            // when the master is gone.
            let again = (Wait::Acceptance, self.options.limits.evidence);
            wait = self.evidence.as_ref().map(|_| again);
        };
        self.is_known = true;
        let mut link = Link::new(Admitted {
            connection,
            reader,
            writer,
            who: who.clone(),
            capacity: capacity.clone(),
            way,
            takes_masters: false,
            slot: None,
        });
        let answering = recall::answer(self.recalls.1.clone(), link.handle());
        link.keep(smol::spawn(answering));
        Ok((link, welcome))
    }
}

fn lost(connection: &Connection, who: &Arc<PeerInfo>, error: &str) -> Error {
    let reason = connection.close_reason();
    let reason = reason.map_or_else(|| error.to_owned(), |reason| reason.to_string());
    Error::Lost {
        who: who.clone(),
        reason,
    }
}

/// Returns the welcome if the master's answer is one; `None` if another frame will follow.
fn let_in(
    frame: Option<Frame>,
    connection: &Connection,
    who: &Arc<PeerInfo>,
    tell: Tell<'_>,
) -> Result<Option<Welcome>, Error> {
    match frame {
        Some(Frame::Control(Control::Pending(pending))) => {
            tell(Status::Pending(who, &pending.reason));
            Ok(None)
        }
        Some(Frame::Control(Control::Welcome(welcome))) => {
            let (min, max) = (welcome.version, welcome.version);
            match wire::common_version(min, max) {
                Some(_) => Ok(Some(welcome)),
                None => Err(Error::Version {
                    who: who.clone(),
                    min,
                    max,
                }),
            }
        }
        Some(Frame::Control(Control::Refused(refused))) => {
            connection.close(0_u32.into(), b"refused");
            Err(Error::Refused {
                who: who.clone(),
                reason: refused.reason,
                text: refused.text,
                retry: refused.retry_s.map(Duration::from_secs),
            })
        }
        Some(Frame::Control(Control::Bye(bye))) => Err(lost(connection, who, &bye.reason)),
        Some(Frame::Unknown { .. } | Frame::Unsupported { .. }) => Ok(None),
        Some(other) => {
            let (who, found) = (who.clone(), format!("{other:?}"));
            let wanted = "a welcome";
            Err(Error::Unexpected { who, found, wanted })
        }
        None => Err(lost(connection, who, "the peer ended the session")),
    }
}

fn no_address(master: &Master) -> Error {
    Error::Lookup {
        host: master.host.clone(),
        source: Arc::new(std::io::ErrorKind::AddrNotAvailable.into()),
    }
}

fn shuffle(masters: &mut [Master]) {
    for place in (1..masters.len()).rev() {
        let other = (u64::from(lot()) % (place as u64 + 1)) as usize;
        masters.swap(place, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masters_are_names_and_addresses_with_and_without_ports() {
        let cases = [
            ("salt", "salt", 4506),
            ("salt:4510", "salt", 4510),
            ("10.0.0.1", "10.0.0.1", 4506),
            ("10.0.0.1:1", "10.0.0.1", 1),
            ("::1", "::1", 4506),
            ("[::1]", "::1", 4506),
            ("[fe80::1]:4600", "fe80::1", 4600),
            ("2001:db8::4506", "2001:db8::4506", 4506),
        ];
        for (text, host, port) in cases {
            let master = Master::parse(text, PORT);
            assert_eq!((master.host.as_str(), master.port), (host, port), "{text}");
        }
    }
}
