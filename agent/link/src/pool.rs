//! [`Pool`]: the connections between the masters of a cluster.
//!
//! A master has a connection for each [`Lane`] to each other one that it asks, and accepts the
//! connections of those that ask it. A request has its own stream: its bytes up to the
//! end, then those of the answer. Both sides prove their keys in the handshake; the caller names the
//! key that it expects, and a master decides by the key of a caller whether it is a member. A
//! stranger, which may want to join, has one short request.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, Incoming, ReadToEndError,
    RecvStream, SendStream, ServerConfig, TransportConfig, VarInt,
};
use smol::channel::{Receiver, Sender, bounded};
use smol::lock::Semaphore;
use value::log;

use crate::key::{KeyPair, PublicKey};
use crate::masters_thread;
use crate::socket::OnSmol;
use crate::tls::{self, Pinned};
use crate::wait::within;

/// The name of the protocol in QUIC's handshake.
const ALPN: &[u8] = b"pinch-cluster/1";
/// TLS's alert of a server that does not speak the protocol of the caller.
const NO_PROTOCOL: u8 = 120;
/// The maximum size of a request or an answer in bytes.
pub const MESSAGE_MAX: usize = 64 << 20;
/// The maximum time for a handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(3);
/// The maximum time to receive a request after its stream has begun.
const REQUEST_MAX: Duration = Duration::from_secs(30);
/// The time after which a silent connection is lost, and between two packets that keep it.
const IDLE_MAX: Duration = Duration::from_secs(4);
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// The maximum size of a stranger's request in bytes.
pub const STRANGER_MAX: usize = 16 << 10;
/// The maximum time for a stranger's request and its answer.
const STRANGER_TIME: Duration = Duration::from_secs(10);
/// The maximum number of connections of strangers at a time.
const STRANGERS_MAX: usize = 16;
/// The maximum number of connections of other masters, and of their requests at a time.
const CALLERS_MAX: usize = 64;
const REQUESTS_MAX: usize = 256;
/// The maximum number of requests of one connection at a time.
const STREAMS_MAX: u32 = 64;
/// The receive window of a stream in bytes.
const WINDOW: u32 = 1 << 20;

/// A master that did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnswered {
    /// There is no connection, so that the request was not sent.
    #[error("cannot connect to the master at {address}: {reason}")]
    Unreachable {
        /// Its address.
        address: SocketAddr,
        /// The reason.
        reason: String,
    },
    /// The connection was lost or the time is over. The request may have arrived.
    #[error("the master at {address} did not answer: {reason}")]
    NoAnswer {
        /// Its address.
        address: SocketAddr,
        /// The reason.
        reason: String,
    },
}

/// Decides by a proved key whether a caller is a member.
pub type IsMember = Arc<dyn Fn(&PublicKey) -> bool + Send + Sync>;

/// Bytes that only the two ends of a connection know, which a proof can be made of.
pub type Exported = [u8; 32];

/// The label of the exported bytes in TLS.
const EXPORT: &[u8] = b"EXPORTER-pinch-cluster-join";

/// The answer of a master whose key was not known before.
#[derive(Debug)]
pub struct Answered {
    /// The key that the master has proved.
    pub key: PublicKey,
    /// The answer.
    pub bytes: Vec<u8>,
}

/// The use of a connection to another master. Each use has a separate connection, so that requests of
/// one use do not wait for those of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Messages on which the masters' agreement depends. If one is not answered in time, the connection
    /// is closed, and those of other uses get no more requests: a master that was started again does not
    /// know them.
    Log,
    /// Requests to minions of the other master, of which there may be thousands at a time.
    Minions,
    /// Requests with large contents or answers.
    Bulk,
}

/// A connection to another master: its address, its key, and the use.
type To = (SocketAddr, PublicKey, Lane);

/// The place of a connection. It is locked while the connection is made, so that requests that come
/// together make one.
type Slot = Arc<smol::lock::Mutex<Option<Connection>>>;

/// The connections of a master with the others.
pub struct Pool {
    endpoint: Endpoint,
    pair: KeyPair,
    connections: Mutex<HashMap<To, Slot>>,
    requests: Receiver<Request>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

/// A request of another master.
#[derive(Debug)]
pub struct Request {
    /// The key that the caller has proved.
    pub key: PublicKey,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// True if the key is one of a member.
    pub is_member: bool,
    /// The address of the caller.
    pub from: SocketAddr,
    /// The exported bytes of the connection.
    pub exported: Exported,
    answer: SendStream,
}

impl Request {
    /// Sends the answer. A caller that has gone needs none.
    pub async fn answer(mut self, bytes: &[u8]) {
        let sent = async {
            self.answer.write_all(bytes).await.ok()?;
            self.answer.finish().ok()
        };
        if within(REQUEST_MAX, sent).await.flatten().is_none() {
            log::debug(format_args!("a master did not take its answer"));
        }
    }
}

fn transport() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.max_idle_timeout(IDLE_MAX.try_into().ok());
    config.keep_alive_interval(Some(KEEP_ALIVE));
    config.max_concurrent_uni_streams(0_u32.into());
    config.max_concurrent_bidi_streams(STREAMS_MAX.into());
    config.stream_receive_window(WINDOW.into());
    config.receive_window(VarInt::from_u32(4 * WINDOW));
    config.datagram_receive_buffer_size(None);
    config
}

impl Pool {
    /// Opens the socket of a master. Port 0 picks any free port.
    ///
    /// # Errors
    /// When the address is in use or does not belong to this machine, or TLS cannot use the key.
    pub fn bind(address: SocketAddr, pair: &KeyPair, is_member: IsMember) -> std::io::Result<Self> {
        let other = |error: &dyn fmt::Display| std::io::Error::other(error.to_string());
        let crypto = tls::server(pair, ALPN).map_err(|error| other(&error))?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(Arc::new(transport()));
        let socket = crate::listener::socket(address)?;
        let runtime = Arc::new(OnSmol {
            is_of_masters: true,
            ..OnSmol::default()
        });
        let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime)?;
        let (sender, requests) = bounded(REQUESTS_MAX);
        masters_thread::spawn(accept_all(endpoint.clone(), is_member, sender)).detach();
        Ok(Self {
            endpoint,
            pair: pair.clone(),
            connections: Mutex::default(),
            requests,
        })
    }

    /// Returns the address of the socket.
    ///
    /// # Errors
    /// When the kernel does not return it.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    /// Waits for the next request; `None` after the pool was closed.
    pub async fn next(&self) -> Option<Request> {
        // No deadline: masters ask at any time.
        self.requests.recv().await.ok()
    }

    /// Closes all connections.
    pub fn close(&self) {
        self.endpoint
            .close(0_u32.into(), b"the master is shutting down");
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<To, Slot>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request to the master that has a key, and returns the answer.
    ///
    /// # Errors
    /// When there is none within the time.
    pub async fn ask(
        &self,
        to: (SocketAddr, PublicKey, Lane),
        request: &[u8],
        time: Duration,
    ) -> Result<Vec<u8>, NotAnswered> {
        let (address, key, lane) = to;
        let connection = self.connected(to, time).await;
        let connection =
            connection.map_err(|reason| NotAnswered::Unreachable { address, reason })?;
        let answered = within(time, exchange(&connection, request)).await;
        let reason = match answered {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(reason)) => reason,
            None => "the time is over".to_owned(),
        };
        if lane == Lane::Log {
            connection.close(1_u32.into(), b"no answer");
            // Requests of other uses that are under way may still be answered.
            let is_other = |to: &To| (to.0, to.1) != (address, key);
            self.connections().retain(|to, _| is_other(to));
        }
        Err(NotAnswered::NoAnswer { address, reason })
    }

    /// Sends a request to a master of which at most the fingerprint is known: one of `fingers`, or
    /// any if there are none. `request` makes the request from the exported bytes of the connection.
    ///
    /// # Errors
    /// When there is no answer within the time.
    pub async fn ask_unknown(
        &self,
        address: SocketAddr,
        fingers: &[String],
        request: impl FnOnce(&Exported) -> Vec<u8>,
    ) -> Result<(Answered, Exported), NotAnswered> {
        let connection = self.connect(address, fingers, STRANGER_TIME).await;
        let connection =
            connection.map_err(|reason| NotAnswered::Unreachable { address, reason })?;
        let no_answer = |reason: String| NotAnswered::NoAnswer { address, reason };
        let key = tls::identity(&connection).ok_or_else(|| no_answer("it has no key".to_owned()));
        let (key, exported) = (key?, exported(&connection).map_err(no_answer)?);
        let bytes = request(&exported);
        let answered = within(STRANGER_TIME, exchange(&connection, &bytes)).await;
        connection.close(0_u32.into(), b"done");
        let bytes = answered.unwrap_or_else(|| Err("the time is over".to_owned()));
        let bytes = bytes.map_err(no_answer)?;
        Ok((Answered { key, bytes }, exported))
    }

    /// Returns the connection to a master, which is made if there is none.
    async fn connected(&self, to: To, time: Duration) -> Result<Connection, String> {
        let slot = {
            let mut connections = self.connections();
            connections.retain(|_, slot| {
                let is_used = Arc::strong_count(slot) > 1;
                is_used
                    || slot
                        .try_lock()
                        .is_some_and(|known| known.as_ref().is_some_and(is_open))
            });
            connections.entry(to).or_default().clone()
        };
        let locked = within(time, slot.lock()).await;
        let mut known = locked.ok_or_else(|| "no connection in time".to_owned())?;
        if let Some(known) = known.as_ref().filter(|known| is_open(known)) {
            return Ok(known.clone());
        }
        let (address, key, _) = to;
        let connection = self.connect(address, &[key.finger()], time).await?;
        *known = Some(connection.clone());
        Ok(connection)
    }

    /// Connects to a master that has one of these keys, or any key if there are none.
    async fn connect(
        &self,
        address: SocketAddr,
        fingers: &[String],
        time: Duration,
    ) -> Result<Connection, String> {
        let pinned = Pinned::new(fingers.to_vec());
        let crypto = tls::client(&self.pair, ALPN, pinned.clone());
        let crypto = crypto.map_err(|error| error.to_string())?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport()));
        let connecting = self.endpoint.connect_with(config, address, "pinch");
        let connecting = connecting.map_err(|error| error.to_string())?;
        let connected = within(time.min(HANDSHAKE_MAX), connecting).await;
        let connected = connected.ok_or_else(|| "no answer to the handshake".to_owned())?;
        connected.map_err(|error| match pinned.refused() {
            Some(seen) => format!(
                "it has the key {}, not {}",
                seen.finger(),
                fingers.join(" or ")
            ),
            None if is_other_protocol(&error) => {
                let own = ALPN.escape_ascii();
                format!(
                    "it does not speak {own}: run the same release on all masters, and check that this is the port for masters"
                )
            }
            None => error.to_string(),
        })
    }
}

/// Returns whether a handshake has failed because the other end speaks another protocol, or another
/// version.
fn is_other_protocol(error: &ConnectionError) -> bool {
    let alert = quinn::TransportErrorCode::crypto(NO_PROTOCOL);
    match error {
        ConnectionError::ConnectionClosed(closed) => closed.error_code == alert,
        ConnectionError::TransportError(failed) => failed.code == alert,
        _ => false,
    }
}

/// Returns the bytes that only the two ends of a connection know.
fn exported(connection: &Connection) -> Result<Exported, String> {
    let mut bytes = Exported::default();
    let exported = connection.export_keying_material(&mut bytes, EXPORT, b"");
    exported.map_err(|_| "the connection exports no key material".to_owned())?;
    Ok(bytes)
}

/// Sends a request over a connection, and receives the answer.
async fn exchange(connection: &Connection, request: &[u8]) -> Result<Vec<u8>, String> {
    let opened = connection.open_bi().await;
    let (mut send, mut receive) = opened.map_err(|error| error.to_string())?;
    let sent = send.write_all(request).await;
    sent.map_err(|error| error.to_string())?;
    send.finish().map_err(|error| error.to_string())?;
    let answer = receive.read_to_end(MESSAGE_MAX).await;
    match answer {
        // A stream without bytes is one that the master gave up.
        Ok(answer) if answer.is_empty() => Err("it refused the request".to_owned()),
        Ok(answer) => Ok(answer),
        Err(error) => Err(error.to_string()),
    }
}

fn is_open(connection: &Connection) -> bool {
    connection.close_reason().is_none()
}

/// The room for connections.
struct Room {
    members: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
}

/// Accepts connections until the endpoint is closed.
async fn accept_all(endpoint: Endpoint, is_member: IsMember, sender: Sender<Request>) {
    let room = Arc::new(Room {
        members: Arc::new(Semaphore::new(CALLERS_MAX)),
        strangers: Arc::new(Semaphore::new(STRANGERS_MAX)),
    });
    let handshakes = Arc::new(Semaphore::new(CALLERS_MAX));
    // No deadline: masters connect at any time.
    while let Some(incoming) = endpoint.accept().await {
        if !incoming.remote_address_validated() {
            // A packet with the address of another machine must not hold a place.
            if let Err(error) = incoming.retry() {
                log::debug(format_args!("{error}"));
            }
            continue;
        }
        let Some(place) = handshakes.try_acquire_arc() else {
            incoming.refuse();
            continue;
        };
        let (room, is_member, sender) = (room.clone(), is_member.clone(), sender.clone());
        masters_thread::spawn(async move {
            let address = incoming.remote_address();
            let connected = shown(incoming).await;
            drop(place);
            if let Some((connection, key)) = connected
                && let Ok(exported) = exported(&connection)
            {
                let caller = Caller {
                    connection,
                    key,
                    exported,
                    address,
                };
                caller.serve(&room, &is_member, sender).await;
            }
        })
        .detach();
    }
}

/// Completes the handshake of a connection, and returns it with the key that the caller proves.
async fn shown(incoming: Incoming) -> Option<(Connection, PublicKey)> {
    let connected = async { incoming.accept().ok()?.await.ok() };
    let connection = within(HANDSHAKE_MAX, connected).await.flatten()?;
    let key = tls::identity(&connection)?;
    Some((connection, key))
}

/// A connected caller.
struct Caller {
    connection: Connection,
    key: PublicKey,
    exported: Exported,
    address: SocketAddr,
}

impl Caller {
    /// Serves a connection until it ends.
    async fn serve(self, room: &Room, is_member: &IsMember, sender: Sender<Request>) {
        let all = match is_member(&self.key) {
            true => &room.members,
            false => &room.strangers,
        };
        let Some(place) = all.try_acquire_arc() else {
            return self.connection.close(3_u32.into(), b"too many connections");
        };
        match is_member(&self.key) {
            true => self.serve_member(is_member, sender).await,
            false => self.serve_stranger(sender).await,
        }
        drop(place);
    }

    async fn serve_member(&self, is_member: &IsMember, sender: Sender<Request>) {
        // No deadline: the connection ends when its master is silent (`IDLE_MAX`).
        while let Ok((answer, request)) = self.connection.accept_bi().await {
            if !is_member(&self.key) {
                // The master was removed meanwhile.
                let why = b"this key is not one of a member";
                return self.connection.close(2_u32.into(), why);
            }
            let (key, exported, from, sender) =
                (self.key, self.exported, self.address, sender.clone());
            let received = async move {
                match received(request, MESSAGE_MAX, REQUEST_MAX).await {
                    Ok(bytes) => {
                        // No deadline: the caller has one, and the connection has `STREAMS_MAX` of them.
                        let sent = sender.send(Request {
                            key,
                            bytes,
                            is_member: true,
                            from,
                            exported,
                            answer,
                        });
                        value::channel::if_open(sent.await);
                    }
                    Err(Cut::TooLong) => log::warning(format_args!(
                        "refused a request of the master at {from} with the key {}: it is longer than {MESSAGE_MAX} bytes",
                        key.finger()
                    )),
                    Err(Cut::Incomplete) => log::debug(format_args!(
                        "a request of the master at {from} is incomplete"
                    )),
                }
            };
            masters_thread::spawn(received).detach();
        }
    }

    /// Takes one request, and leaves the connection open for its answer.
    async fn serve_stranger(&self, sender: Sender<Request>) {
        log::debug(format_args!(
            "the key {} of {} is not one of a member",
            self.key.finger(),
            self.address
        ));
        let request = async {
            // No deadline: `within` below ends it.
            let (answer, request) = self.connection.accept_bi().await.ok()?;
            let bytes = received(request, STRANGER_MAX, STRANGER_TIME).await.ok()?;
            Some(Request {
                key: self.key,
                bytes,
                is_member: false,
                from: self.address,
                exported: self.exported,
                answer,
            })
        };
        match within(STRANGER_TIME, request).await.flatten() {
            Some(request) => value::channel::if_open(sender.try_send(request)),
            None => log::debug(format_args!(
                "a request of {}, which is no member, is incomplete or too long",
                self.address
            )),
        }
        if within(STRANGER_TIME, self.connection.closed())
            .await
            .is_none()
        {
            self.connection.close(2_u32.into(), b"the time is over");
        }
    }
}

/// The reason why a request has no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    TooLong,
    Incomplete,
}

/// Receives the bytes of a request.
async fn received(mut request: RecvStream, most: usize, time: Duration) -> Result<Vec<u8>, Cut> {
    match within(time, request.read_to_end(most)).await {
        Some(Ok(bytes)) => Ok(bytes),
        Some(Err(ReadToEndError::TooLong)) => Err(Cut::TooLong),
        _ => Err(Cut::Incomplete),
    }
}

#[cfg(test)]
mod tests;
