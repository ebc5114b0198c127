//! An HTTP/1.1 server for programs written by others: hyper, with limits on everything.
//!
//! [`Server`] accepts the connections that its [`Gate`] allows, reads one [`Request`] of each within
//! its deadline, and passes it to a [`Service`]. Each refusal is one line in the log, with the peer's
//! address and the reason but nothing that the peer sent.

mod answer;
mod body;
mod gate;
mod head;
mod io;
pub(crate) mod quoted;
mod refusal;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use hyper::body::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use link::wait::pause;
pub(crate) use link::wait::within;
use smol::future::FutureExt;
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::{TcpListener, TcpStream};
use value::log;

pub(crate) use answer::Answer;
pub(crate) use body::Request;
pub(crate) use gate::{Connections, Gate, Rates};
pub(crate) use head::Head;
pub(crate) use refusal::Refusal;
pub(crate) use tls::{Tls, TlsError};

use gate::{Entered, Place};
use io::{Clock, Io, SEND};
use stream::{Preceded, Stream};

/// The maximum length of a head in bytes, and the maximum number of its header lines.
const HEAD_MAX: usize = 16 << 10;
const LINES_MAX: usize = 64;
/// The number of bytes that are still read after the answer, so that the answer arrives, and the
/// time for that.
const DRAIN_MAX: usize = 1 << 20;
const DRAIN: Duration = Duration::from_secs(2);
/// The pause after a connection could not be accepted, most likely for lack of file descriptors.
const BREATH: Duration = Duration::from_millis(200);

/// The limits of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The maximum size of a body in bytes, and the option that sets it.
    pub(crate) body_max: usize,
    pub(crate) body_option: &'static str,
    /// The maximum time until the head of a request has arrived, and then until its body has.
    pub(crate) timeout: Duration,
    pub(crate) rates: Rates,
    pub(crate) connections: Connections,
}

/// A service that answers requests.
pub(crate) trait Service: Send + Sync + 'static {
    /// The name in the log.
    const NAME: &'static str;
    /// True if a connection may carry more than one request.
    const KEEPS_ALIVE: bool = false;

    /// Checks a request before its body is read.
    fn check(&self, head: &Head) -> Result<(), Refusal>;

    /// Answers a request.
    fn answer(&self, request: Request) -> impl Future<Output = Result<Answer, Refusal>> + Send;

    /// Returns the response to a refused request.
    fn refused(&self, _: &Head, refusal: &Refusal) -> Answer {
        refusal.answer()
    }

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
    tls: Option<Tls>,
}

impl<S: Service> Server<S> {
    /// Listens on an address. With a certificate, each connection begins with TLS.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub(crate) async fn bind(
        address: SocketAddr,
        service: S,
        limits: Limits,
        tls: Option<Tls>,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        // If the configuration gives port 0, the kernel has chosen the port.
        let address = listener.local_addr()?;
        log::info(format_args!("{}: listening on {address}", S::NAME));
        let gate = Arc::new(Gate::new(limits.rates, limits.connections));
        let shared = Arc::new(Shared {
            service,
            gate,
            limits,
            tls,
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
                if let Some(stream) = self.begun(stream, from, &place).await {
                    self.serve(stream, from, &place).await;
                }
                drop(place);
            })
            .detach(),
            // A peer that expects TLS could not read the refusal.
            Entered::Away(_, refusal) if self.tls.is_some() => {
                self.tell(from, refusal.status, &refusal.why);
            }
            Entered::Away(place, refusal) => smol::spawn(async move {
                self.send_away(Stream::Plain(stream), from, &refusal).await;
                drop(place);
            })
            .detach(),
            Entered::Dropped(why) => self.tell(from, 429, why),
        }
    }

    /// Does the handshake of TLS, if there is a certificate.
    async fn begun(&self, stream: TcpStream, from: SocketAddr, place: &Place) -> Option<Stream> {
        let Some(tls) = &self.tls else {
            return Some(Stream::Plain(stream));
        };
        let accepted = within(self.limits.timeout, tls.accept(stream));
        let lost = async { Some(Err(std::io::Error::other(place.lost().await.why))) };
        match accepted.or(lost).await {
            Some(Ok(stream)) => Some(Stream::Tls(stream)),
            Some(Err(error)) => {
                self.tell(from, 400, &format!("no TLS: {error}"));
                None
            }
            None => {
                self.tell(from, 408, &self.late().why);
                None
            }
        }
    }

    async fn serve(&self, stream: Stream, from: SocketAddr, place: &Place) {
        let (has_request, next) = (AtomicBool::new(false), Mutex::new(None));
        let answer = |request| {
            let is_next = has_request.swap(true, Ordering::Relaxed);
            let (answered, next) = (self.exchange(request, from, place, is_next), &next);
            Box::pin(async move {
                let mut answer = answered.await;
                *next.lock().unwrap_or_else(PoisonError::into_inner) = answer.take_upgrade();
                let settled = if S::KEEPS_ALIVE { place.settle() } else { None };
                Ok::<_, Infallible>(answer.response(settled))
            })
        };
        let mut connection = Builder::new()
            .timer(Clock)
            .header_read_timeout(self.limits.timeout)
            .max_headers(LINES_MAX)
            .max_header_size(HEAD_MAX)
            .keep_alive(S::KEEPS_ALIVE)
            .title_case_headers(true)
            .serve_connection(Io::new(stream), service_fn(answer));
        let served = poll_fn(|context| connection.poll_without_shutdown(context));
        let lost = async { Err(place.lost().await) };
        let ended = async { Ok(served.await) }.or(lost).await;
        let parts = connection.into_parts();
        let stream = parts.io.stream;
        let next = next.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Ok(Ok(())), Some(upgrade)) = (&ended, next) {
            place.keep();
            let stream = Preceded::new(parts.read_buf.to_vec(), stream);
            return upgrade.run(stream).await;
        }
        match ended {
            // A connection that waits for its next request may be closed at any time.
            Ok(Ok(())) => close(stream).await,
            _ if has_request.load(Ordering::Relaxed) => close(stream).await,
            Ok(Err(error)) => self.fail(stream, from, &error).await,
            Err(refusal) => self.send_away(stream, from, &refusal).await,
        }
    }

    /// Ends a connection on which no request has arrived. hyper has answered to one that is not valid.
    async fn fail(&self, stream: Stream, from: SocketAddr, error: &hyper::Error) {
        if error.is_timeout() {
            return self.send_away(stream, from, &self.late()).await;
        }
        let status = match error.is_parse_too_large() {
            true => 431,
            false => 400,
        };
        self.tell(from, status, &format!("invalid request: {error}"));
        self.service.answered(status);
        close(stream).await;
    }

    /// Returns the refusal of a request that has not arrived in time.
    fn late(&self) -> Refusal {
        let seconds = self.limits.timeout.as_secs_f64();
        let why = format!("the request was not complete after {seconds} s");
        Refusal::new(408, why)
    }

    /// Answers a request. `is_next` says that it is not the first one of its connection.
    async fn exchange(
        &self,
        request: hyper::Request<Incoming>,
        from: SocketAddr,
        place: &Place,
        is_next: bool,
    ) -> Answer {
        let _settled = S::KEEPS_ALIVE.then(|| place.settle());
        let (parts, incoming) = request.into_parts();
        let head = Head::new(&parts, from.ip());
        let counted = match is_next {
            true => self.gate.count(from.ip(), Instant::now()),
            false => Ok(()),
        };
        let answered = match counted {
            Ok(()) => self.answer(head.clone(), incoming, place).await,
            Err(refusal) => Err(refusal),
        };
        let answer = answered.unwrap_or_else(|refusal| {
            self.tell(from, refusal.status, &refusal.why);
            self.service.refused(&head, &refusal)
        });
        self.service.answered(answer.status);
        answer
    }

    /// Reads the rest of a request whose head has arrived, and answers it.
    async fn answer(
        &self,
        head: Head,
        incoming: Incoming,
        place: &Place,
    ) -> Result<Answer, Refusal> {
        let arrived = async {
            self.service.check(&head)?;
            body::read(incoming, &self.limits, &self.gate).await
        };
        let body = within(self.limits.timeout, arrived).await;
        let body = body.unwrap_or_else(|| Err(self.late()))?;
        if !S::KEEPS_ALIVE {
            place.keep();
        }
        self.service.answer(Request { head, body }).await
    }

    /// Answers a peer whose request is not read.
    async fn send_away(&self, mut stream: Stream, from: SocketAddr, refusal: &Refusal) {
        self.tell(from, refusal.status, &refusal.why);
        self.service.answered(refusal.status);
        let bytes = refusal.answer().bytes();
        if let Some(Ok(())) = within(SEND, stream.write_all(&bytes)).await {
            close(stream).await;
        }
    }

    fn tell(&self, from: SocketAddr, status: u16, why: &str) {
        log::warning(format_args!(
            "{}: request from {from} refused ({status}): {why}",
            S::NAME
        ));
    }
}

/// Closes a connection once the peer has received the answer, or its time is over. If unread data is
/// left when a connection is closed, the kernel discards the answer.
async fn close(mut stream: Stream) {
    if let Some(Ok(())) = within(DRAIN, stream.close()).await {
        within(DRAIN, drain(&mut stream)).await;
    }
}

/// Reads the rest of what the peer sends.
async fn drain(stream: &mut Stream) {
    let mut piece = [0; 4096];
    let mut left = DRAIN_MAX;
    while left > 0 {
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(count) => left = left.saturating_sub(count),
        }
    }
}
