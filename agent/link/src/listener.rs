//! [`Listener`]: the master's end. Each peer arrives with a proved key and its hello; the master
//! decides whether to accept it.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quinn::{Connection, Endpoint, EndpointConfig, SendStream};
use ring::digest::{SHA256, digest};
use ring::hmac::{HMAC_SHA256, Key};
use smol::channel::{Receiver, Sender, bounded};
use smol::future::{FutureExt, poll_once};
use value::log::Level;
use value::{log, random};
use wire::{Control, Frame, Hello, Pending, Refused, Way, Welcome};

use crate::connection::{Admitted, Link, word};
use crate::error::{Error, PeerInfo, Wait};
use crate::ids::KeyedIds;
use crate::key::{KeyPair, PublicKey};
use crate::limits::Limits;
use crate::recall;
use crate::room::Capacity;
use crate::slot::{Admission, Shared, Slot};
use crate::socket::OnSmol;
use crate::stream::{Reader, Sink, Source, Writer, note, within};
use crate::tls;

/// The maximum number of peers that have sent their hello and that the master has not taken from
/// the queue yet.
const ARRIVALS: usize = 256;
/// The size in bytes of the kernel's buffer of a socket that receives from all minions or masters.
const SOCKET_BUFFER: usize = 4 << 20;
/// The minimum interval between two stateless resets. QUIC sends one to a peer whose connection is
/// unknown; after a restart, every minion of a fleet needs one.
const RESET_INTERVAL: Duration = Duration::from_millis(1);
/// The time that a refused peer has to read the reason.
const REFUSED_STAYS: Duration = Duration::from_secs(2);

/// A socket on which a master accepts minions.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    /// The endpoint's socket, for datagrams that are not QUIC.
    socket: UdpSocket,
    arrivals: Receiver<Peer>,
    shared: Arc<Shared>,
}

/// Returns the endpoint's settings. The key for stateless resets is derived from the master's key,
/// so it is the same after each start, and a restarted master can reset the connections of its
/// previous run.
fn endpoint_config(pair: &KeyPair) -> Result<EndpointConfig, random::Error> {
    let secret = digest(
        &SHA256,
        &[b"pinch reset".as_slice(), &pair.pkcs8()].concat(),
    );
    let mut config = EndpointConfig::new(Arc::new(Key::new(HMAC_SHA256, secret.as_ref())));
    let ids = KeyedIds::new()?;
    config.cid_generator(move || Box::new(ids.clone()));
    config.min_reset_interval(RESET_INTERVAL);
    Ok(config)
}

fn server_config(pair: &KeyPair, limits: &Limits) -> Result<quinn::ServerConfig, Error> {
    let crypto = tls::server(pair, wire::ALPN)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(limits.of_master()));
    config.max_incoming(limits.handshakes_max);
    Ok(config)
}

pub(crate) fn socket(address: SocketAddr) -> std::io::Result<UdpSocket> {
    use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
    let socket = UdpSocket::bind(address)?;
    // Root may exceed the system's limit; for other users the kernel applies the limit.
    if set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER).is_err()
        && let Err(error) = set_socket_recv_buffer_size(&socket, SOCKET_BUFFER)
    {
        log::warning(format_args!("cannot enlarge the socket's buffer: {error}"));
    }
    Ok(socket)
}

impl Listener {
    /// Opens a master's socket. Port 0 picks any free port.
    ///
    /// # Errors
    /// When the address is in use or does not belong to this machine.
    pub fn bind(address: SocketAddr, pair: &KeyPair, limits: Limits) -> Result<Self, Error> {
        let place = address.to_string();
        let failed = |source| Error::Socket {
            place: place.clone(),
            source: Arc::new(source),
        };
        let config = server_config(pair, &limits)?;
        let socket = socket(address).map_err(failed)?;
        let own = socket.try_clone().map_err(failed)?;
        let runtime = Arc::new(OnSmol::default());
        let endpoint =
            endpoint_config(pair).map_err(|error| failed(std::io::Error::other(error)))?;
        let endpoint = Endpoint::new(endpoint, Some(config), socket, runtime);
        let endpoint = endpoint.map_err(failed)?;
        let shared = Arc::new(Shared::new(Capacity::new(limits)));
        let (sender, arrivals) = bounded(ARRIVALS);
        smol::spawn(admit_all(endpoint.clone(), shared.clone(), sender)).detach();
        Ok(Self {
            endpoint,
            socket: own,
            arrivals,
            shared,
        })
    }

    /// Proves another key to the peers that connect from now on. Existing connections continue.
    ///
    /// # Errors
    /// When TLS cannot use the key.
    pub fn set_key(&self, pair: &KeyPair) -> Result<(), Error> {
        let config = server_config(pair, &self.shared.capacity.limits)?;
        self.endpoint.set_server_config(Some(config));
        Ok(())
    }

    /// Returns the address of the socket.
    ///
    /// # Errors
    /// When the kernel does not return it.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.endpoint.local_addr().map_err(|source| Error::Socket {
            place: "the master's socket".to_owned(),
            source: Arc::new(source),
        })
    }

    /// Waits for the next peer that has proved a key and sent its hello; `None` after the listener
    /// was closed.
    pub async fn next(&self) -> Option<Peer> {
        // No deadline: peers arrive at any time.
        self.arrivals.recv().await.ok()
    }

    /// Closes every connection of a key, at whatever stage it is, and returns their number.
    pub fn revoke(&self, key: &PublicKey, reason: &str) -> usize {
        let found = self.shared.take_key(key);
        for connection in &found {
            connection.close(2_u32.into(), reason.as_bytes());
        }
        found.len()
    }

    /// Adds keys that are already accepted, so that a flood of strangers does not keep them out.
    /// Keys that are accepted later are added automatically.
    pub fn know(&self, keys: impl IntoIterator<Item = PublicKey>) {
        self.shared.know(keys);
    }

    /// Returns the addresses of all peers that have proved a key.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.shared.addresses()
    }

    /// Makes the minions at these addresses check at once whether their connections still exist,
    /// after a master was killed and restarted. Without it, they would only notice with their next
    /// packet.
    pub async fn recall(&self, addresses: &[SocketAddr]) {
        recall::send(&self.socket, addresses).await;
    }

    /// Returns the number of connections, including pending ones.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections()
    }

    /// Returns the number of keys that wait for acceptance.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared.pending()
    }

    /// Closes all connections; each peer receives the reason.
    pub async fn close(&self, reason: &str) {
        self.endpoint.close(0_u32.into(), reason.as_bytes());
        self.arrivals.close();
        self.endpoint.wait_idle().await;
    }
}

async fn admit_all(endpoint: Endpoint, shared: Arc<Shared>, arrivals: Sender<Peer>) {
    // No deadline: peers arrive at any time.
    while let Some(incoming) = endpoint.accept().await {
        let address = incoming.remote_address();
        match shared.admit(address, incoming.remote_address_validated()) {
            Admission::Yes(slot) => {
                let (shared, arrivals) = (shared.clone(), arrivals.clone());
                smol::spawn(async move {
                    match greet(incoming, slot, &shared.capacity).await {
                        Ok(peer) => drop(arrivals.send(peer).await),
                        Err(error) => tell(&shared, address, &error),
                    }
                })
                .detach();
            }
            Admission::Prove => drop(incoming.retry()),
            Admission::Later(error) => {
                tell(&shared, address, &error);
                incoming.ignore();
            }
            Admission::No(error) => {
                tell(&shared, address, &error);
                incoming.refuse();
            }
        }
    }
}

/// Logs why a peer is not accepted. A flood of refusals is logged at a lower level, so that it does
/// not flood the log.
fn tell(shared: &Shared, address: SocketAddr, error: &Error) {
    let level = match error {
        Error::Full { .. } if shared.may_tell(address.ip()) => Level::Warning,
        Error::Full { .. } => Level::Debug,
        _ => Level::Info,
    };
    note(level, format_args!("refusing a connection: {error}"));
}

/// Runs a step of the greeting. Fails if the peer's place is given to another peer meanwhile.
async fn in_place<T>(
    slot: &Slot,
    who: &PeerInfo,
    greeting: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let lost = async {
        slot.lost().await;
        Err(slot.pushed_out(&Arc::new(who.clone())))
    };
    greeting.or(lost).await
}

/// Completes the handshake and reads the hello, each with its deadline.
async fn greet(
    incoming: quinn::Incoming,
    mut slot: Slot,
    capacity: &Arc<Capacity>,
) -> Result<Peer, Error> {
    let mut who = PeerInfo::at(incoming.remote_address());
    let proving = prove(incoming, &who, &capacity.limits);
    let (connection, key) = in_place(&slot, &who, proving).await?;
    who.key = Some(key);
    slot.proved(key, &connection);
    let greeting = first_words(&connection, who.clone(), capacity);
    let greeted = in_place(&slot, &who, greeting).await;
    let (hello, mut reader, send) = closing(&connection, greeted)?;
    slot.greeted();
    who.id = Some(hello.id.clone());
    let who = Arc::new(who);
    reader.who = who.clone();
    let (sizes, way) = (wire::Limits::CONTROL, Way::MasterToMinion);
    let writer = Writer::new(Sink::Quic(send), sizes, who.clone(), way, capacity.clone());
    let capacity = capacity.clone();
    let peer = Peer {
        hello,
        who,
        key,
        connection,
        reader,
        writer,
        slot,
        capacity,
    };
    peer.speaks_our_words()
}

async fn prove(
    incoming: quinn::Incoming,
    who: &PeerInfo,
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
    let key = tls::identity(&connection).ok_or_else(|| lost(&"the peer did not prove a key"))?;
    Ok((connection, key))
}

/// Accepts the control stream and reads the hello that it begins with. One deadline covers both; a
/// hello that has begun gets no extra time.
async fn first_words(
    connection: &Connection,
    who: PeerInfo,
    capacity: &Arc<Capacity>,
) -> Result<(Hello, Reader, SendStream), Error> {
    let who = Arc::new(who);
    let (wait, after) = (Wait::Hello, capacity.limits.hello);
    let words = within(after, hello(connection, who.clone(), capacity));
    let late = || Error::Deadline { who, wait, after };
    words.await.ok_or_else(late)?
}

async fn hello(
    connection: &Connection,
    who: Arc<PeerInfo>,
    capacity: &Arc<Capacity>,
) -> Result<(Hello, Reader, SendStream), Error> {
    // No deadline: the caller applies one.
    let (send, receive) = connection.accept_bi().await.map_err(|error| Error::Lost {
        who: who.clone(),
        reason: error.to_string(),
    })?;
    let (source, sizes) = (Source::Quic(receive), wire::Limits::HELLO);
    let mut reader = Reader::new(
        source,
        sizes,
        who.clone(),
        Way::MinionToMaster,
        capacity.clone(),
    );
    (reader.accepted, reader.strict) = (false, true);
    // No deadline: the caller applies one to the whole hello.
    match reader.next(None).await? {
        Some(Frame::Control(Control::Hello(hello))) => Ok((hello, reader, send)),
        other => {
            let found = other.map_or_else(|| "nothing".to_owned(), |frame| format!("{frame:?}"));
            let wanted = "a hello";
            Err(Error::Unexpected { who, found, wanted })
        }
    }
}

/// Closes the connection if the result is an error, and returns the result.
fn closing<T>(connection: &Connection, result: Result<T, Error>) -> Result<T, Error> {
    if let Err(error) = &result {
        connection.close(1_u32.into(), word(error).as_bytes());
    }
    result
}

/// A peer that has proved a key and sent its hello. It receives nothing until it is
/// [accepted](Self::accept). If it is dropped, it is disconnected.
#[derive(Debug)]
pub struct Peer {
    hello: Hello,
    who: Arc<PeerInfo>,
    key: PublicKey,
    connection: Connection,
    reader: Reader,
    writer: Writer,
    slot: Slot,
    capacity: Arc<Capacity>,
}

impl Peer {
    /// Returns the hello of the peer.
    #[must_use]
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Returns the key that the peer has proved.
    #[must_use]
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// Returns the current address of the peer.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.connection.remote_address()
    }

    /// Returns the name of the peer for errors and logs.
    #[must_use]
    pub fn who(&self) -> &Arc<PeerInfo> {
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
            let found = "a hello with another role".to_owned();
            self.refuse("role", "only minions may connect here", None);
            return Err(Error::Unexpected {
                who,
                found,
                wanted: "a minion",
            });
        }
        Ok(self)
    }

    /// Notifies the peer that its key waits for acceptance. The peer stays connected;
    /// [`watch`](Self::watch) returns when it is gone.
    ///
    /// # Errors
    /// When too many keys wait already (refuse the peer then, with `full`), or the peer is gone.
    pub async fn pend(&mut self, reason: &str) -> Result<(), Error> {
        self.slot.pend(&self.who)?;
        let reason = reason.to_owned();
        self.writer.send(&Pending { reason }.into()).await
    }

    /// Waits until a pending peer is gone, or sends something it may not, which closes the
    /// connection. This can be raced against the decision.
    pub async fn watch(&mut self) -> Error {
        let (slot, who) = (&self.slot, &self.who);
        let pushed_out = async {
            slot.lost().await;
            Err(slot.pushed_out(who))
        };
        // No deadline: QUIC closes a silent connection (`idle`).
        match self.reader.next(None).or(pushed_out).await {
            Ok(Some(Frame::Control(Control::Bye(bye)))) => Error::Lost {
                who: self.who.clone(),
                reason: bye.reason,
            },
            Ok(Some(frame)) => self.spoke_too_soon(&format!("{frame:?}")),
            Ok(None) => Error::Lost {
                who: self.who.clone(),
                reason: "the peer has closed the connection".to_owned(),
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
            wanted: "nothing before its key is accepted",
        };
        self.connection.close(1_u32.into(), word(&error).as_bytes());
        error
    }

    /// Accepts the peer. This sets the `version` of the welcome.
    ///
    /// # Errors
    /// When the peer is gone, or has sent something before it was accepted.
    pub async fn accept(mut self, mut welcome: Welcome) -> Result<Link, Error> {
        // No deadline: the future is polled once.
        match poll_once(self.reader.next(None)).await {
            None if !self.reader.has_begun() => {}
            None => return Err(self.spoke_too_soon("a part of a frame")),
            Some(Ok(Some(frame))) => return Err(self.spoke_too_soon(&format!("{frame:?}"))),
            Some(Ok(None)) => return Err(self.spoke_too_soon("the end of its stream")),
            Some(Err(error)) => return closing(&self.connection, Err(error)),
        }
        let (min, max) = (self.hello.version_min, self.hello.version_max);
        welcome.version = wire::common_version(min, max).unwrap_or(wire::VERSION_MAX);
        self.slot.accepted();
        (self.reader.accepted, self.reader.strict) = (true, false);
        self.reader.set_sizes(wire::Limits::CONTROL);
        let limits = &self.capacity.limits;
        self.connection
            .set_receive_window(limits.window_of_all().into());
        self.connection
            .set_max_concurrent_bi_streams(limits.streams_max.into());
        self.writer.send(&welcome.into()).await?;
        Ok(Link::new(Admitted {
            connection: self.connection,
            reader: self.reader,
            writer: self.writer,
            who: self.who,
            capacity: self.capacity,
            way: Way::MinionToMaster,
            takes_masters: self.hello.has(wire::MASTERS),
            slot: Some(self.slot),
        }))
    }

    /// Refuses the peer, with a word for programs (`rejected`, `denied`, `full`, `id`, `policy`), a
    /// sentence, and the number of seconds after which it may ask again. The peer gets a moment to
    /// read that, in the background.
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
