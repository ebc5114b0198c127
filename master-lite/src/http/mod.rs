//! A small HTTP/1.1 server for programs written by others: one request per connection, with limits
//! on everything.
//!
//! [`Server`] accepts the connections that its [`Gate`] allows, reads a [`Request`] within its
//! deadline, and passes it to a [`Service`]. Each refusal is one line in the log, with the peer's
//! address and the reason but nothing that the peer sent.

mod answer;
mod gate;
mod head;
mod read;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use link::wait::pause;
pub(crate) use link::wait::within;
use smol::future::FutureExt;
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::{TcpListener, TcpStream};
use value::log;

pub(crate) use answer::{Answer, Refusal};
pub(crate) use gate::{Gate, Rates};
pub(crate) use head::Head;
pub(crate) use read::Request;

use gate::{Entered, Place};

/// The number of bytes that are still read after the answer, so that the answer arrives, and the
/// time for that.
const DRAIN_MAX: usize = 1 << 20;
const DRAIN: Duration = Duration::from_secs(2);
/// The maximum time to send an answer.
const SEND: Duration = Duration::from_secs(5);
/// The pause after a connection could not be accepted, most likely for lack of file descriptors.
const BREATH: Duration = Duration::from_millis(200);

/// The limits of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The maximum size of a body in bytes.
    pub(crate) body_max: usize,
    /// The maximum time until a request has arrived.
    pub(crate) timeout: Duration,
    pub(crate) rates: Rates,
}

/// A service that answers requests.
pub(crate) trait Service: Send + Sync + 'static {
    /// The name in the log.
    const NAME: &'static str;

    /// Checks a request before its body is read.
    fn check(&self, head: &Head) -> Result<(), Refusal>;

    /// Answers a request.
    fn answer(&self, request: Request) -> impl Future<Output = Result<Answer, Refusal>> + Send;

    /// Receives the status of each answer.
    fn answered(&self, status: u16);
}

/// A listener with its service.
pub(crate) struct Server<S> {
    listener: TcpListener,
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    service: S,
    gate: Arc<Gate>,
    limits: Limits,
}

impl<S: Service> Server<S> {
    /// Listens on an address.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub(crate) async fn bind(
        address: SocketAddr,
        service: S,
        limits: Limits,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        // If the configuration gives port 0, the kernel has chosen the port.
        let address = listener.local_addr()?;
        log::info(format_args!("{}: listening on {address}", S::NAME));
        let gate = Arc::new(Gate::new(limits.rates));
        let shared = Arc::new(Shared {
            service,
            gate,
            limits,
        });
        Ok(Self { listener, shared })
    }

    /// Answers requests until it is dropped.
    pub(crate) async fn run(self) {
        loop {
            // No deadline: peers connect at any time.
            match self.listener.accept().await {
                Ok((stream, from)) => self.shared.clone().take(stream, from),
                Err(error) => {
                    log::error(format_args!(
                        "{}: cannot accept a connection: {error}",
                        S::NAME
                    ));
                    pause(BREATH).await;
                }
            }
        }
    }
}

impl<S: Service> Shared<S> {
    /// Serves a connection, answers it with a refusal, or drops it if too many are being refused.
    fn take(self: Arc<Self>, stream: TcpStream, from: SocketAddr) {
        let entered = self.gate.enter(from.ip(), Instant::now());
        match entered {
            Entered::In(place) => smol::spawn(async move {
                self.serve(stream, from, &place).await;
                drop(place);
            })
            .detach(),
            Entered::Away(place, refusal) => smol::spawn(async move {
                self.finish(stream, from, Err(refusal)).await;
                drop(place);
            })
            .detach(),
            Entered::Dropped(why) => self.tell(from, 429, why),
        }
    }

    async fn serve(&self, mut stream: TcpStream, from: SocketAddr, place: &Place) {
        let lost = async { Err(place.lost().await) };
        let request = self.request(&mut stream, from).or(lost);
        let answered = match within(self.limits.timeout, request).await {
            Some(Ok(request)) => {
                place.settle();
                self.service.answer(request).await
            }
            Some(Err(refusal)) => Err(refusal),
            None => {
                let seconds = self.limits.timeout.as_secs_f64();
                let why = format!("the request was not complete after {seconds} s");
                Err(Refusal::new(408, why))
            }
        };
        self.finish(stream, from, answered).await;
    }

    async fn request(&self, stream: &mut TcpStream, from: SocketAddr) -> Result<Request, Refusal> {
        let (head, rest) = read::head(stream, from).await?;
        self.service.check(&head)?;
        let most = self.limits.body_max;
        let body = read::body(stream, &head, rest, most, &self.gate).await?;
        Ok(Request { head, body })
    }

    /// Sends the answer, and waits until the peer has received it or its time is over.
    async fn finish(
        &self,
        mut stream: TcpStream,
        from: SocketAddr,
        answered: Result<Answer, Refusal>,
    ) {
        let answer = answered.unwrap_or_else(|refusal| {
            self.tell(from, refusal.status, &refusal.why);
            refusal.answer()
        });
        self.service.answered(answer.status);
        let bytes = answer.bytes();
        let sent = within(SEND, stream.write_all(&bytes)).await;
        let is_sent = matches!(sent, Some(Ok(())));
        if is_sent && stream.shutdown(std::net::Shutdown::Write).is_ok() {
            within(DRAIN, drain(&mut stream)).await;
        }
    }

    fn tell(&self, from: SocketAddr, status: u16, why: &str) {
        log::warning(format_args!(
            "{}: request from {from} refused ({status}): {why}",
            S::NAME
        ));
    }
}

/// Reads the rest of what the peer sends: if unread data is left when a connection is closed, the
/// kernel discards the answer.
async fn drain(stream: &mut TcpStream) {
    let mut piece = [0; 4096];
    let mut left = DRAIN_MAX;
    while left > 0 {
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(count) => left = left.saturating_sub(count),
        }
    }
}
