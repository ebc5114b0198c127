//! [`Pool`]: the connections between the masters of a cluster.
//!
//! A master has one connection to each other one that it asks, and accepts the connections of those
//! that ask it. A request has its own stream: its bytes up to the end, then those of the answer. Both
//! sides prove their keys in the handshake; the caller names the key that it expects, and a master
//! decides by the key of a caller whether to serve it.

use std::collections::HashMap;
use std::fmt;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, Incoming, RecvStream, SendStream,
    ServerConfig, TransportConfig, VarInt,
};
use smol::channel::{Receiver, Sender, bounded};
use smol::lock::Semaphore;
use value::log;

use crate::key::{KeyPair, PublicKey};
use crate::socket::OnSmol;
use crate::tls::{self, Pinned};
use crate::wait::within;

/// The name of the protocol in QUIC's handshake.
const ALPN: &[u8] = b"pinch-cluster/1";
/// The maximum size of a request or an answer in bytes.
pub const MESSAGE_MAX: usize = 64 << 20;
/// The maximum time for a handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(3);
/// The maximum time to receive a request after its stream has begun.
const REQUEST_MAX: Duration = Duration::from_secs(30);
/// The time after which a silent connection is lost, and between two packets that keep it.
const IDLE_MAX: Duration = Duration::from_secs(4);
const KEEP_ALIVE: Duration = Duration::from_secs(1);
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

/// Decides by a proved key whether the requests of a caller are served.
pub type Serves = Arc<dyn Fn(&PublicKey) -> bool + Send + Sync>;

/// The connections of a master with the others.
pub struct Pool {
    endpoint: Endpoint,
    pair: KeyPair,
    connections: Mutex<HashMap<(SocketAddr, PublicKey), Connection>>,
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
    /// The key that the master has proved.
    pub key: PublicKey,
    /// The bytes.
    pub bytes: Vec<u8>,
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
    pub fn bind(address: SocketAddr, pair: &KeyPair, serves: Serves) -> std::io::Result<Self> {
        let other = |error: &dyn fmt::Display| std::io::Error::other(error.to_string());
        let crypto = tls::server(pair, ALPN).map_err(|error| other(&error))?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(Arc::new(transport()));
        let socket = UdpSocket::bind(address)?;
        let runtime = Arc::new(OnSmol::default());
        let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime)?;
        let (sender, requests) = bounded(REQUESTS_MAX);
        smol::spawn(accept_all(endpoint.clone(), serves, sender)).detach();
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

    fn connections(&self) -> MutexGuard<'_, HashMap<(SocketAddr, PublicKey), Connection>> {
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
        address: SocketAddr,
        key: &PublicKey,
        request: &[u8],
        time: Duration,
    ) -> Result<Vec<u8>, NotAnswered> {
        let connection = self.connected(address, key, time).await;
        let connection =
            connection.map_err(|reason| NotAnswered::Unreachable { address, reason })?;
        let answered = within(time, exchange(&connection, request)).await;
        let reason = match answered {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(reason)) => reason,
            None => "the time is over".to_owned(),
        };
        // A connection that does not answer is not used again: a restarted master would not know it.
        connection.close(1_u32.into(), b"no answer");
        self.connections().remove(&(address, *key));
        Err(NotAnswered::NoAnswer { address, reason })
    }

    /// Returns the connection to a master, which is made if there is none.
    async fn connected(
        &self,
        address: SocketAddr,
        key: &PublicKey,
        time: Duration,
    ) -> Result<Connection, String> {
        let known = self.connections().get(&(address, *key)).cloned();
        if let Some(known) = known.filter(|known| known.close_reason().is_none()) {
            return Ok(known);
        }
        let pinned = Pinned::new(vec![key.finger()]);
        let crypto = tls::client(&self.pair, ALPN, pinned.clone());
        let crypto = crypto.map_err(|error| error.to_string())?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport()));
        let connecting = self.endpoint.connect_with(config, address, "pinch");
        let connecting = connecting.map_err(|error| error.to_string())?;
        let connected = within(time.min(HANDSHAKE_MAX), connecting).await;
        let connected = connected.ok_or_else(|| "no answer to the handshake".to_owned())?;
        let connection = connected.map_err(|error| match pinned.refused() {
            Some(seen) => format!("it has the key {}, not {}", seen.finger(), key.finger()),
            None => error.to_string(),
        })?;
        let mut connections = self.connections();
        connections.retain(|_, known| known.close_reason().is_none());
        connections.insert((address, *key), connection.clone());
        Ok(connection)
    }
}

/// Sends a request over a connection, and receives the answer.
async fn exchange(connection: &Connection, request: &[u8]) -> Result<Vec<u8>, String> {
    let opened = connection.open_bi().await;
    let (mut send, mut receive) = opened.map_err(|error| error.to_string())?;
    let sent = send.write_all(request).await;
    sent.map_err(|error| error.to_string())?;
    send.finish().map_err(|error| error.to_string())?;
    let answer = receive.read_to_end(MESSAGE_MAX).await;
    answer.map_err(|error| error.to_string())
}

/// Accepts connections until the endpoint is closed.
async fn accept_all(endpoint: Endpoint, serves: Serves, sender: Sender<Request>) {
    let room = Arc::new(Semaphore::new(CALLERS_MAX));
    // No deadline: masters connect at any time.
    while let Some(incoming) = endpoint.accept().await {
        match room.try_acquire_arc() {
            Some(place) => {
                let (serves, sender) = (serves.clone(), sender.clone());
                smol::spawn(async move {
                    serve(incoming, &serves, sender).await;
                    drop(place);
                })
                .detach();
            }
            None => incoming.refuse(),
        }
    }
}

/// Serves a connection, if its key belongs to a master, until it ends.
async fn serve(incoming: Incoming, serves: &Serves, sender: Sender<Request>) {
    let address = incoming.remote_address();
    let connected = async { incoming.accept().ok()?.await.ok() };
    let Some(connection) = within(HANDSHAKE_MAX, connected).await.flatten() else {
        return;
    };
    let Some(key) = tls::identity(&connection).filter(|key| serves(key)) else {
        log::warning(format_args!(
            "refused the connection of {address} to the port of the cluster: its key is not one of a master"
        ));
        return connection.close(2_u32.into(), b"this key is not one of a master");
    };
    // No deadline: the connection ends when its master is silent (`IDLE_MAX`).
    while let Ok((answer, request)) = connection.accept_bi().await {
        // A master that was removed meanwhile is not served any more.
        if !serves(&key) {
            return connection.close(2_u32.into(), b"this key is not one of a master");
        }
        let sender = sender.clone();
        smol::spawn(receive(key, answer, request, sender)).detach();
    }
}

/// Receives a request, and passes it on.
async fn receive(key: PublicKey, answer: SendStream, mut request: RecvStream, to: Sender<Request>) {
    let received = within(REQUEST_MAX, request.read_to_end(MESSAGE_MAX)).await;
    let Some(Ok(bytes)) = received else {
        return log::debug(format_args!("a request of the master {key} is incomplete"));
    };
    let request = Request { key, bytes, answer };
    value::channel::if_open(to.try_send(request));
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(5);

    fn pool(
        pair: &KeyPair,
        serves: impl Fn(&PublicKey) -> bool + Send + Sync + 'static,
    ) -> Arc<Pool> {
        let address = "127.0.0.1:0".parse().unwrap();
        Arc::new(Pool::bind(address, pair, Arc::new(serves)).unwrap())
    }

    /// Answers each request with its bytes in reverse.
    fn answers(pool: &Arc<Pool>) {
        let pool = pool.clone();
        smol::spawn(async move {
            while let Some(request) = pool.next().await {
                let reversed: Vec<u8> = request.bytes.iter().rev().copied().collect();
                request.answer(&reversed).await;
            }
        })
        .detach();
    }

    #[test]
    fn masters_ask_each_other_and_a_stranger_is_refused() {
        let [one, other, stranger] = [(); 3].map(|()| KeyPair::generate().unwrap());
        let known = one.public();
        let server = pool(&other, move |key| *key == known);
        answers(&server);
        let address = server.address().unwrap();
        smol::block_on(async {
            let client = pool(&one, |_| false);
            for message in [b"abc".to_vec(), vec![7; 3 << 20], Vec::new()] {
                let answer = client.ask(address, &other.public(), &message, TIME).await;
                let wanted: Vec<u8> = message.iter().rev().copied().collect();
                assert_eq!(answer, Ok(wanted));
            }
            // Attack: another key of the caller, and another key of the master.
            let refused = pool(&stranger, |_| false);
            let refused = refused.ask(address, &other.public(), b"abc", TIME).await;
            assert!(refused.is_err(), "{refused:?}");
            let wrong = client.ask(address, &stranger.public(), b"abc", TIME).await;
            let wrong = wrong.unwrap_err().to_string();
            assert!(wrong.contains("it has the key"), "{wrong}");
        });
    }

    #[test]
    fn a_restarted_master_is_reached_again() {
        let [one, other] = [(); 2].map(|()| KeyPair::generate().unwrap());
        smol::block_on(async {
            let client = pool(&one, |_| false);
            let server = pool(&other, |_| true);
            answers(&server);
            let address = server.address().unwrap();
            let key = other.public();
            assert!(client.ask(address, &key, b"a", TIME).await.is_ok());
            server.close();
            server.endpoint.wait_idle().await;
            drop(server);
            let short = Duration::from_millis(300);
            assert!(client.ask(address, &key, b"b", short).await.is_err());
            let again = loop {
                match Pool::bind(address, &other, Arc::new(|_: &PublicKey| true)) {
                    Ok(again) => break Arc::new(again),
                    // The task that accepts connections still holds the socket.
                    Err(_) => crate::wait::pause(Duration::from_millis(10)).await,
                }
            };
            answers(&again);
            assert_eq!(
                client.ask(address, &key, b"cd", TIME).await,
                Ok(b"dc".to_vec())
            );
        });
    }
}
