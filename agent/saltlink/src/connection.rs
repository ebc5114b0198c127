//! [`Connection`]: a TCP connection with a master, which a task reads at all times, so that probes
//! are answered.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use link::wait::{unblock, within};
use rustix::net::{self, sockopt};
use smol::channel::{Receiver, Sender, bounded};
use smol::io::AsyncWriteExt;
use smol::lock::Mutex;
use smol::net::TcpStream;
use smol::{Async, Task};
use value::{Value, channel};

use crate::limits::{ADDRESSES_MAX, CONNECT, LOOKUP, WRITE};
use crate::{Error, Keepalive, Settings, Transport, tcp, zmtp};

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Requests, one after the other.
    Requests,
    /// Publications.
    Publications,
}

/// The half of a connection that sends. Probes and requests share it.
#[derive(Clone)]
pub(crate) struct Writer(Arc<Mutex<TcpStream>>);

impl Writer {
    fn new(stream: TcpStream) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    /// Sends all of the bytes.
    pub(crate) async fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let written = async {
            let mut stream = self.0.lock().await;
            stream.write_all(bytes).await
        };
        let written = within(WRITE, written).await;
        written.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// The reason why a connection has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It is closed, or the other side is silent.
    Lost(String),
    /// The other side sent something that is not of the protocol.
    Protocol(String),
}

impl From<io::Error> for Ending {
    fn from(error: io::Error) -> Self {
        Self::Lost(match error.kind() {
            io::ErrorKind::UnexpectedEof => "it was closed by the master".to_owned(),
            _ => error.to_string(),
        })
    }
}

impl From<wire::Error> for Ending {
    fn from(error: wire::Error) -> Self {
        Self::Protocol(error.to_string())
    }
}

/// Messages that have arrived, in order.
pub(crate) type Arrived = Sender<Result<Value, Ending>>;

/// A connection. When it is dropped it is closed.
pub(crate) struct Connection {
    master: Arc<str>,
    writer: Writer,
    messages: Receiver<Result<Value, Ending>>,
    transport: Transport,
    _reader: Task<()>,
}

impl Connection {
    /// Connects to a port of the master.
    pub(crate) async fn open(
        settings: &Settings,
        port: u16,
        purpose: Purpose,
    ) -> Result<Self, Error> {
        let master: Arc<str> = place(&settings.host, port).into();
        let opened = Self::opened(settings, port, purpose, &master).await;
        opened.map_err(|ending| Error::of_connection(&master, ending))
    }

    async fn opened(
        settings: &Settings,
        port: u16,
        purpose: Purpose,
        master: &Arc<str>,
    ) -> Result<Self, Ending> {
        let stream = connect(&settings.host, port, settings.source).await?;
        tune(&stream, settings.keepalive);
        let writer = Writer::new(stream.clone());
        let (arrived, messages) = bounded(match purpose {
            Purpose::Requests => 1,
            Purpose::Publications => crate::limits::PUBLICATIONS_WAITING,
        });
        let reader = match settings.transport {
            Transport::ZeroMq => {
                let id = settings.id.as_bytes();
                let input = zmtp::greet(stream, &writer, purpose, id).await?;
                smol::spawn(report(
                    zmtp::read(input, writer.clone(), arrived.clone()),
                    arrived,
                ))
            }
            Transport::Tcp => {
                let input = tcp::read(stream, purpose, arrived.clone());
                smol::spawn(report(input, arrived))
            }
        };
        Ok(Self {
            master: master.clone(),
            writer,
            messages,
            transport: settings.transport,
            _reader: reader,
        })
    }

    /// Returns whether the connection can be used: it is not closed, and no message has arrived that
    /// belongs to no request.
    pub(crate) fn is_idle(&self) -> bool {
        self.messages.is_empty() && !self.messages.is_closed()
    }

    /// Sends a message and waits for the answer. `was_sent` becomes true when all of the message is
    /// written. If the caller does not wait for the end, the connection can no longer be used.
    pub(crate) async fn request(
        &self,
        message: &Value,
        was_sent: &AtomicBool,
    ) -> Result<Value, Error> {
        match self.transport {
            Transport::ZeroMq => {
                self.send(zmtp::request(&self.encoded(message)?)).await?;
                was_sent.store(true, Ordering::Relaxed);
                // No deadline: the pool has one for the whole exchange.
                self.next().await
            }
            Transport::Tcp => {
                let mid = crate::random::nonce()?;
                self.send(self.encoded(&tcp::message(Some(&mid), message))?)
                    .await?;
                was_sent.store(true, Ordering::Relaxed);
                // No deadline: the pool has one for the whole exchange.
                let mut answer = self.next().await?;
                tcp::answer(&mut answer, &mid).ok_or_else(|| Error::Protocol {
                    master: self.master.to_string(),
                    what: "an answer to another request".to_owned(),
                })
            }
        }
    }

    /// Sends a message that has no answer.
    pub(crate) async fn tell(&self, message: &Value) -> Result<(), Error> {
        let bytes = match self.transport {
            Transport::ZeroMq => zmtp::request(&self.encoded(message)?),
            Transport::Tcp => self.encoded(&tcp::message(None, message))?,
        };
        self.send(bytes).await
    }

    /// Subscribes to the publications with one of these topics.
    pub(crate) async fn subscribe(&self, topics: &[&str]) -> Result<(), Error> {
        for topic in topics {
            self.send(zmtp::subscription(topic)).await?;
        }
        Ok(())
    }

    /// Waits for the next message.
    pub(crate) async fn next(&self) -> Result<Value, Error> {
        // No deadline: callers that want an answer have one, and publications may never come.
        let ending = match self.messages.recv().await {
            Ok(Ok(message)) => return Ok(message),
            Ok(Err(ending)) => ending,
            Err(_) => Ending::Lost("it was closed before".to_owned()),
        };
        Err(Error::of_connection(&self.master, ending))
    }

    fn encoded(&self, message: &Value) -> Result<Vec<u8>, Error> {
        let encoded = wire::payload::encode(message);
        encoded.map_err(|error| Error::Local(format!("cannot send a request: {error}")))
    }

    async fn send(&self, bytes: Vec<u8>) -> Result<(), Error> {
        let sent = self.writer.send(&bytes).await;
        sent.map_err(|error| Error::of_connection(&self.master, error.into()))
    }
}

/// Reads until the connection ends, and reports the reason.
async fn report(read: impl Future<Output = Ending>, arrived: Arrived) {
    let ending = read.await;
    channel::if_open(arrived.send(Err(ending)).await);
    arrived.close();
}

/// Returns a master as errors name it.
pub(crate) fn place(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

async fn connect(host: &str, port: u16, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let name = host.to_owned();
    let lookup = unblock(move || -> io::Result<Vec<SocketAddr>> {
        Ok((name.as_str(), port).to_socket_addrs()?.collect())
    });
    let addresses = within(LOOKUP, lookup).await;
    let addresses = addresses.unwrap_or_else(|| Err(late("the name was not resolved", LOOKUP)))?;
    let mut last = io::Error::other(match source {
        None => "the name has no address".to_owned(),
        Some(source) => format!("the name has no address of the kind of source_address {source}"),
    });
    let is_reachable = |address: &SocketAddr| match source {
        None => true,
        Some(source) => source.is_ipv4() == address.is_ipv4(),
    };
    let reachable = addresses.into_iter().filter(is_reachable);
    for address in reachable.take(ADDRESSES_MAX) {
        match within(CONNECT, dial(address, source)).await {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(error)) => last = error,
            None => last = late("there is no answer", CONNECT),
        }
    }
    Err(last)
}

/// Connects to an address, from an address of this machine if one is given.
async fn dial(address: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let Some(source) = source else {
        return TcpStream::connect(address).await;
    };
    let family = match source {
        IpAddr::V4(_) => net::AddressFamily::INET,
        IpAddr::V6(_) => net::AddressFamily::INET6,
    };
    let flags = net::SocketFlags::CLOEXEC | net::SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, net::SocketType::STREAM, flags, None)?;
    net::bind(&socket, &SocketAddr::new(source, 0)).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::other(format!(
            "cannot connect from {source} (source_address): {error}"
        ))
    })?;
    match net::connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = Async::new(std::net::TcpStream::from(socket))?;
    // No deadline: the caller has one.
    stream.writable().await?;
    match stream.get_ref().take_error()? {
        Some(error) => Err(error),
        None => Ok(stream.into()),
    }
}

fn late(what: &str, limit: std::time::Duration) -> io::Error {
    io::Error::other(format!("{what} within {} s", limit.as_secs()))
}

/// Sets the options of a socket. A kernel that refuses one is no reason not to connect.
fn tune(stream: &TcpStream, keepalive: Option<Keepalive>) {
    let set = |done: rustix::io::Result<()>| {
        if let Err(error) = done {
            value::log::debug(format_args!("cannot set an option of a socket: {error}"));
        }
    };
    set(sockopt::set_tcp_nodelay(stream, true));
    let Some(keepalive) = keepalive else {
        return;
    };
    set(sockopt::set_socket_keepalive(stream, true));
    set(sockopt::set_tcp_keepidle(stream, keepalive.idle));
    if let Some(interval) = keepalive.interval {
        set(sockopt::set_tcp_keepintvl(stream, interval));
    }
    if let Some(count) = keepalive.count {
        set(sockopt::set_tcp_keepcnt(stream, count));
    }
}
