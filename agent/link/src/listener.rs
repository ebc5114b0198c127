//! [`Listener`]: the master's end. Peers arrive with a proved key and their hello; what becomes of them is the master's decision.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quinn::{
    Connection, ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, SendStream,
};
use ring::digest::{SHA256, digest};
use ring::hmac::{HMAC_SHA256, Key};
use ring::rand::{SecureRandom, SystemRandom};
use smol::channel::{Receiver, Sender, bounded};
use smol::future::poll_once;
use value::log::Level;
use wire::{Control, Frame, Hello, Pending, Refused, Way, Welcome};

use crate::connection::{Let, Link, word};
use crate::error::{Error, Wait, Who};
use crate::key::{KeyPair, PublicKey};
use crate::limits::{Budget, Limits};
use crate::socket::OnSmol;
use crate::stream::{Reader, Sink, Source, Writer, note, within};
use crate::tls;

/// Peers that have said hello and that the master has not looked at yet.
const ARRIVALS: usize = 256;
/// The kernel's buffers of the one socket that all minions send to.
const SOCKET_BUFFER: usize = 4 << 20;
/// How soon after one another strangers are told that their connection is none of ours: all of a fleet, after a restart.
const RESET_INTERVAL: Duration = Duration::from_millis(1);
/// How long a refused peer has to read why.
const REFUSED_STAYS: Duration = Duration::from_secs(2);

/// A master's socket.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    arrivals: Receiver<Peer>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    budget: Arc<Budget>,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Handshakes under way, to the hello.
    handshakes: usize,
    /// Those of addresses that have not proved themselves.
    unproved: usize,
    connections: usize,
    pending: usize,
    addresses: HashMap<IpAddr, OfAddress>,
    keys: HashMap<PublicKey, Vec<(usize, Connection)>>,
}

#[derive(Debug, Default)]
struct OfAddress {
    connections: usize,
    pending: usize,
}

/// A connection's place in the counts; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    shared: Arc<Shared>,
    address: IpAddr,
    is_proved: bool,
    greeting: bool,
    pending: bool,
    key: Option<(PublicKey, usize)>,
}

enum Admission {
    Yes(Slot),
    /// It must send a token back first.
    Prove,
    No(Error),
}

/// Neighbours of one IPv6 network are one customer.
fn customer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}

impl Shared {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(self: &Arc<Self>, from: SocketAddr, is_proved: bool) -> Admission {
        let limits = &self.budget.limits;
        let address = customer(from.ip());
        let mut counts = self.counts();
        let of_address = counts
            .addresses
            .get(&address)
            .map_or(0, |of| of.connections);
        let full = |limit: usize, what, name| {
            Admission::No(Error::Full {
                who: Arc::new(Who::at(from)),
                limit,
                what,
                name,
            })
        };
        if counts.handshakes >= limits.handshakes_max {
            return full(
                limits.handshakes_max,
                "handshakes are under way",
                "handshakes_max",
            );
        }
        if !is_proved && counts.unproved >= limits.unproved_max {
            return Admission::Prove;
        }
        if counts.connections >= limits.connections_max {
            return full(limits.connections_max, "connections", "connections_max");
        }
        if of_address >= limits.connections_per_address {
            let limit = limits.connections_per_address;
            return full(
                limit,
                "connections of this address",
                "connections_per_address",
            );
        }
        counts.handshakes += 1;
        counts.unproved += usize::from(!is_proved);
        counts.connections += 1;
        counts.addresses.entry(address).or_default().connections += 1;
        Admission::Yes(Slot {
            shared: self.clone(),
            address,
            is_proved,
            greeting: true,
            pending: false,
            key: None,
        })
    }
}

impl Slot {
    /// The handshake has proved a key: from here on a revocation finds it.
    fn proved(&mut self, key: PublicKey, connection: &Connection) {
        let place = connection.stable_id();
        let mut counts = self.shared.counts();
        counts
            .keys
            .entry(key)
            .or_default()
            .push((place, connection.clone()));
        drop(counts);
        self.key = Some((key, place));
    }

    /// The hello is there.
    fn greeted(&mut self) {
        if std::mem::take(&mut self.greeting) {
            let mut counts = self.shared.counts();
            counts.handshakes -= 1;
            counts.unproved -= usize::from(!self.is_proved);
        }
    }

    /// Takes a place among those that wait for acceptance.
    fn pend(&mut self, who: &Arc<Who>) -> Result<(), Error> {
        if self.pending {
            return Ok(());
        }
        let limits = &self.shared.budget.limits;
        let mut counts = self.shared.counts();
        let of_address = counts
            .addresses
            .get(&self.address)
            .map_or(0, |of| of.pending);
        let full = |limit, what, name| {
            Err(Error::Full {
                who: who.clone(),
                limit,
                what,
                name,
            })
        };
        if counts.pending >= limits.pending_max {
            return full(
                limits.pending_max,
                "keys wait for acceptance",
                "pending_max",
            );
        }
        if of_address >= limits.pending_per_address {
            let limit = limits.pending_per_address;
            return full(
                limit,
                "keys of this address wait for acceptance",
                "pending_per_address",
            );
        }
        counts.pending += 1;
        counts.addresses.entry(self.address).or_default().pending += 1;
        drop(counts);
        self.pending = true;
        Ok(())
    }

    fn unpend(&mut self) {
        if std::mem::take(&mut self.pending) {
            let mut counts = self.shared.counts();
            counts.pending -= 1;
            counts.addresses.entry(self.address).or_default().pending -= 1;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.greeted();
        self.unpend();
        let mut counts = self.shared.counts();
        counts.connections -= 1;
        let of_address = counts.addresses.entry(self.address).or_default();
        of_address.connections -= 1;
        if of_address.connections == 0 {
            counts.addresses.remove(&self.address);
        }
        let Some((key, place)) = self.key else { return };
        if let Some(connections) = counts.keys.get_mut(&key) {
            connections.retain(|(other, _)| *other != place);
            if connections.is_empty() {
                counts.keys.remove(&key);
            }
        }
    }
}

/// Connection ids without a pattern: a master that was started again takes those of its last life for its own, and says that they are gone.
#[derive(Debug)]
struct RandomIds;

impl ConnectionIdGenerator for RandomIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; 8];
        let _ = SystemRandom::new().fill(&mut id);
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The key by which a master tells minions of a connection that it has forgotten: the same after each start.
fn endpoint_config(pair: &KeyPair) -> EndpointConfig {
    let secret = digest(
        &SHA256,
        &[b"pinch reset".as_slice(), &pair.pkcs8()].concat(),
    );
    let mut config = EndpointConfig::new(Arc::new(Key::new(HMAC_SHA256, secret.as_ref())));
    config.cid_generator(|| Box::new(RandomIds));
    config.min_reset_interval(RESET_INTERVAL);
    config
}

fn socket(address: SocketAddr) -> std::io::Result<UdpSocket> {
    use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
    let socket = UdpSocket::bind(address)?;
    // Root may have more than the system's limit; others get that.
    if set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER).is_err() {
        let _ = set_socket_recv_buffer_size(&socket, SOCKET_BUFFER);
    }
    Ok(socket)
}

impl Listener {
    /// Opens a master's socket. Port 0 is any.
    ///
    /// # Errors
    /// When the address is taken or is not this machine's.
    pub fn bind(address: SocketAddr, pair: &KeyPair, limits: Limits) -> Result<Self, Error> {
        let place = address.to_string();
        let failed = |source| Error::Socket {
            place: place.clone(),
            source: Arc::new(source),
        };
        let crypto = tls::server(pair, wire::ALPN)?;
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(Arc::new(limits.of_master()));
        config.max_incoming(limits.handshakes_max);
        let socket = socket(address).map_err(failed)?;
        let runtime = Arc::new(OnSmol);
        let endpoint = Endpoint::new(endpoint_config(pair), Some(config), socket, runtime);
        let endpoint = endpoint.map_err(failed)?;
        let budget = Budget::new(limits);
        let shared = Arc::new(Shared {
            budget,
            counts: Mutex::default(),
        });
        let (sender, arrivals) = bounded(ARRIVALS);
        smol::spawn(admit_all(endpoint.clone(), shared.clone(), sender)).detach();
        Ok(Self {
            endpoint,
            arrivals,
            shared,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.endpoint.local_addr().map_err(|source| Error::Socket {
            place: "the master's socket".to_owned(),
            source: Arc::new(source),
        })
    }

    /// The next peer that has proved a key and said hello; none when the listener was closed.
    pub async fn next(&self) -> Option<Peer> {
        // No deadline: peers come when they come.
        self.arrivals.recv().await.ok()
    }

    /// Closes every connection of a key, at whatever point it is; how many there were.
    pub fn revoke(&self, key: &PublicKey, reason: &str) -> usize {
        let found = self
            .shared
            .counts()
            .keys
            .get(key)
            .cloned()
            .unwrap_or_default();
        for (_, connection) in &found {
            connection.close(2_u32.into(), reason.as_bytes());
        }
        found.len()
    }

    /// How many connections there are, pending ones among them.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.counts().connections
    }

    /// How many keys wait for acceptance.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared.counts().pending
    }

    /// Closes everything; each peer reads the reason.
    pub async fn close(&self, reason: &str) {
        self.endpoint.close(0_u32.into(), reason.as_bytes());
        self.arrivals.close();
        self.endpoint.wait_idle().await;
    }
}

async fn admit_all(endpoint: Endpoint, shared: Arc<Shared>, arrivals: Sender<Peer>) {
    // No deadline: peers come when they come.
    while let Some(incoming) = endpoint.accept().await {
        let address = incoming.remote_address();
        match shared.admit(address, incoming.remote_address_validated()) {
            Admission::Yes(slot) => {
                let (shared, arrivals) = (shared.clone(), arrivals.clone());
                smol::spawn(async move {
                    match greet(incoming, slot, &shared.budget).await {
                        Ok(peer) => drop(arrivals.send(peer).await),
                        Err(error) => note(Level::Info, format_args!("not let in: {error}")),
                    }
                })
                .detach();
            }
            Admission::Prove => drop(incoming.retry()),
            Admission::No(error) => {
                // A flood is no reason to write a flood.
                note(Level::Info, format_args!("not let in: {error}"));
                incoming.refuse();
            }
        }
    }
}

/// Handshake and hello, each with its deadline.
async fn greet(
    incoming: quinn::Incoming,
    mut slot: Slot,
    budget: &Arc<Budget>,
) -> Result<Peer, Error> {
    let mut who = Who::at(incoming.remote_address());
    let (connection, key) = prove(incoming, &who, &budget.limits).await?;
    who.key = Some(key);
    slot.proved(key, &connection);
    let greeted = first_words(&connection, who.clone(), budget).await;
    let (hello, mut reader, send) = closing(&connection, greeted)?;
    slot.greeted();
    who.id = Some(hello.id.clone());
    let who = Arc::new(who);
    reader.who = who.clone();
    let (sizes, way) = (wire::Limits::CONTROL, Way::MasterToMinion);
    let writer = Writer::new(Sink::Quic(send), sizes, who.clone(), way, budget.clone());
    let budget = budget.clone();
    let peer = Peer {
        hello,
        who,
        key,
        connection,
        reader,
        writer,
        slot,
        budget,
    };
    peer.speaks_our_words()
}

async fn prove(
    incoming: quinn::Incoming,
    who: &Who,
    limits: &Limits,
) -> Result<(Connection, PublicKey), Error> {
    let who = || Arc::new(who.clone());
    let lost = |error: &dyn std::fmt::Display| Error::Lost {
        who: who(),
        reason: error.to_string(),
    };
    let connecting = incoming.accept().map_err(|error| lost(&error))?;
    let (wait, after) = (Wait::Handshake, limits.handshake);
    let connection = within(after, connecting).await;
    let connection = connection.ok_or_else(|| Error::Deadline {
        who: who(),
        wait,
        after,
    })?;
    let connection = connection.map_err(|error| lost(&error))?;
    let key = tls::identity(&connection).ok_or_else(|| lost(&"no key was proved"))?;
    Ok((connection, key))
}

/// The control stream with the hello that it begins with.
async fn first_words(
    connection: &Connection,
    who: Who,
    budget: &Arc<Budget>,
) -> Result<(Hello, Reader, SendStream), Error> {
    let who = Arc::new(who);
    let (wait, after) = (Wait::Hello, budget.limits.hello);
    let streams = within(after, connection.accept_bi()).await;
    let streams = streams.ok_or_else(|| Error::Deadline {
        who: who.clone(),
        wait,
        after,
    })?;
    let (send, receive) = streams.map_err(|error| Error::Lost {
        who: who.clone(),
        reason: error.to_string(),
    })?;
    let (source, sizes) = (Source::Quic(receive), wire::Limits::HELLO);
    let mut reader = Reader::new(
        source,
        sizes,
        who.clone(),
        Way::MinionToMaster,
        budget.clone(),
    );
    (reader.accepted, reader.strict) = (false, true);
    match reader.next(Some((wait, after))).await? {
        Some(Frame::Control(Control::Hello(hello))) => Ok((hello, reader, send)),
        other => {
            let found = other.map_or_else(|| "nothing".to_owned(), |frame| format!("{frame:?}"));
            let wanted = "a hello";
            Err(Error::Unexpected { who, found, wanted })
        }
    }
}

/// Closes a connection where something went wrong on it.
fn closing<T>(connection: &Connection, result: Result<T, Error>) -> Result<T, Error> {
    if let Err(error) = &result {
        connection.close(1_u32.into(), word(error).as_bytes());
    }
    result
}

/// A peer that has proved a key and said hello. It gets nothing until it is [accepted](Self::accept); dropped, it is disconnected.
#[derive(Debug)]
pub struct Peer {
    hello: Hello,
    who: Arc<Who>,
    key: PublicKey,
    connection: Connection,
    reader: Reader,
    writer: Writer,
    slot: Slot,
    budget: Arc<Budget>,
}

impl Peer {
    /// What it said.
    #[must_use]
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The key that it has proved.
    #[must_use]
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// Where it is now.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.connection.remote_address()
    }

    /// What logs call it.
    #[must_use]
    pub fn who(&self) -> &Arc<Who> {
        &self.who
    }

    fn speaks_our_words(self) -> Result<Self, Error> {
        let (min, max) = (self.hello.version_min, self.hello.version_max);
        let who = self.who.clone();
        if wire::common_version(min, max).is_none() {
            let error = Error::Version { who, min, max };
            self.refuse("version", &error.to_string(), None);
            return Err(error);
        }
        if self.hello.role != "minion" {
            let found = "a hello of another role".to_owned();
            self.refuse("role", "only minions are let in here", None);
            return Err(Error::Unexpected {
                who,
                found,
                wanted: "a minion",
            });
        }
        Ok(self)
    }

    /// Tells the peer that its key waits for acceptance. It stays connected; [`watch`](Self::watch) tells when it goes.
    ///
    /// # Errors
    /// When too many wait already (refuse it then: `full`), or the peer is gone.
    pub async fn pend(&mut self, reason: &str) -> Result<(), Error> {
        self.slot.pend(&self.who)?;
        let reason = reason.to_owned();
        self.writer.send(&Pending { reason }.into()).await
    }

    /// Waits until a pending peer is gone, or does what it may not, which closes the connection. It can stand in a race with the decision.
    pub async fn watch(&mut self) -> Error {
        // No deadline: QUIC ends a connection that is silent (`idle`).
        match self.reader.next(None).await {
            Ok(Some(Frame::Control(Control::Bye(bye)))) => Error::Lost {
                who: self.who.clone(),
                reason: bye.reason,
            },
            Ok(Some(frame)) => self.spoke_too_soon(&format!("{frame:?}")),
            Ok(None) => Error::Lost {
                who: self.who.clone(),
                reason: "it has gone".to_owned(),
            },
            Err(error) => {
                self.connection.close(1_u32.into(), word(&error).as_bytes());
                error
            }
        }
    }

    fn spoke_too_soon(&self, found: &str) -> Error {
        let (who, found) = (self.who.clone(), found.to_owned());
        let error = Error::Unexpected {
            who,
            found,
            wanted: "nothing, before it is accepted",
        };
        self.connection.close(1_u32.into(), word(&error).as_bytes());
        error
    }

    /// Lets the peer in. `version` of the welcome is set here.
    ///
    /// # Errors
    /// When it is gone, or has sent something before it was let in.
    pub async fn accept(mut self, mut welcome: Welcome) -> Result<Link, Error> {
        // No deadline: it does not wait.
        match poll_once(self.reader.next(None)).await {
            None if !self.reader.has_begun() => {}
            None => return Err(self.spoke_too_soon("a part of a frame")),
            Some(Ok(Some(frame))) => return Err(self.spoke_too_soon(&format!("{frame:?}"))),
            Some(Ok(None)) => return Err(self.spoke_too_soon("the end of its stream")),
            Some(Err(error)) => return closing(&self.connection, Err(error)),
        }
        let (min, max) = (self.hello.version_min, self.hello.version_max);
        welcome.version = wire::common_version(min, max).unwrap_or(wire::VERSION_MAX);
        self.slot.unpend();
        (self.reader.accepted, self.reader.strict) = (true, false);
        self.reader.set_sizes(wire::Limits::CONTROL);
        let limits = &self.budget.limits;
        self.connection
            .set_receive_window(limits.window_of_all().into());
        self.connection
            .set_max_concurrent_bi_streams(limits.streams_max.into());
        self.writer.send(&welcome.into()).await?;
        Ok(Link::new(Let {
            connection: self.connection,
            reader: self.reader,
            writer: self.writer,
            who: self.who,
            budget: self.budget,
            way: Way::MinionToMaster,
            slot: Some(self.slot),
        }))
    }

    /// Does not let the peer in: a word for programs (`rejected`, `denied`, `full`, `id`, `policy`), a sentence, and after how many
    /// seconds it may ask again. It has a moment to read that, and nobody waits for it.
    pub fn refuse(self, reason: &str, text: &str, retry_s: Option<u64>) {
        let (reason, text) = (reason.to_owned(), text.to_owned());
        let Self {
            connection,
            mut writer,
            slot,
            ..
        } = self;
        smol::spawn(async move {
            let refused = Refused {
                reason: reason.clone(),
                text,
                retry_s,
            };
            if writer.send(&refused.into()).await.is_ok() {
                writer.finish();
                let _ = within(REFUSED_STAYS, connection.closed()).await;
            }
            connection.close(3_u32.into(), reason.as_bytes());
            drop(slot);
        })
        .detach();
    }
}
