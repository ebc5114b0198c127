//! [`Link`]: an accepted session, at either end.

use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use quinn::{Connection, ConnectionError, RecvStream, SendStream};
use smol::future::FutureExt;
use value::log::Level;
use wire::{Ack, Answer, Bye, Control, Event, Failed, Frame, Masters, Request, Way};

use crate::error::{Error, PeerInfo, Wait};
use crate::exchange::{PendingRequest, Question};
use crate::outgoing::Outgoing;
use crate::room::Capacity;
use crate::silence;
use crate::slot::Slot;
use crate::stream::{Reader, Sink, Source, Writer, note, within};

/// A message from the peer.
#[derive(Debug)]
pub enum Incoming {
    /// An event from the minion.
    Event(Event),
    /// The sequence number up to which the master has all events on its disk.
    Ack(u64),
    /// A request, to be answered.
    Question(Box<Question>),
    /// All masters of the cluster that the master belongs to.
    Masters(Masters),
    /// An announcement that the peer is about to close the connection.
    Bye(Bye),
}

/// An accepted session. One task reads it ([`next`](Self::next)); any number of tasks send through
/// its [`Handle`].
#[derive(Debug)]
pub struct Link {
    control: Reader,
    handle: Handle,
    opened: Opened,
    way: Way,
    /// A task that is cancelled when this link is dropped.
    task: Option<smol::Task<()>>,
}

/// The end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The peer was silent for too long.
    TimedOut,
    /// The peer closed the connection, with this reason, which may be empty.
    ByPeer(String),
    /// This side closed the connection.
    Here,
    /// The connection failed for this reason.
    Failed(String),
}

/// A future that reads the first frame of a stream that the peer opened. It returns `None` if that
/// frame is not a request.
type First = Pin<Box<dyn Future<Output = Option<Question>> + Send>>;

/// The streams that the peer has opened and whose first frame is still being read. There are at
/// most `streams_max`. All of them are read concurrently, so a slow one does not delay others.
#[derive(Default)]
struct Opened(Vec<First>);

impl Opened {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Box<Question>> {
        let mut at = 0;
        while let Some(first) = self.0.get_mut(at) {
            let Poll::Ready(question) = first.as_mut().poll(cx) else {
                at += 1;
                continue;
            };
            drop(self.0.swap_remove(at));
            if let Some(question) = question {
                return Poll::Ready(Box::new(question));
            }
        }
        Poll::Pending
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opened").field(&self.0.len()).finish()
    }
}

/// The sending side of a session; clones are cheap. The connection closes when the last handle is
/// dropped, or by [`close`](Self::close).
#[derive(Clone, Debug)]
pub struct Handle(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    connection: Connection,
    outgoing: Arc<Outgoing>,
    who: Arc<PeerInfo>,
    capacity: Arc<Capacity>,
    way: Way,
    bad: Arc<AtomicU32>,
    takes_masters: bool,
    _slot: Option<Slot>,
}

/// The parts that make up a [`Link`]: both ends of the control stream, and what they belong to.
pub(crate) struct Admitted {
    pub(crate) connection: Connection,
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) who: Arc<PeerInfo>,
    pub(crate) capacity: Arc<Capacity>,
    /// The direction of incoming frames.
    pub(crate) way: Way,
    /// True if the peer understands [`Masters`].
    pub(crate) takes_masters: bool,
    pub(crate) slot: Option<Slot>,
}

/// Returns the direction of answers to frames of this direction.
fn back(way: Way) -> Way {
    match way {
        Way::MinionToMaster => Way::MasterToMinion,
        _ => Way::MinionToMaster,
    }
}

impl Link {
    pub(crate) fn new(let_in: Admitted) -> Self {
        let Admitted {
            connection,
            reader,
            writer,
            who,
            capacity,
            way,
            takes_masters,
            slot,
        } = let_in;
        let outgoing = Outgoing::new(writer, capacity.limits.queue, connection.clone());
        let inner = Inner {
            connection,
            outgoing,
            who,
            capacity,
            way: back(way),
            bad: reader.bad.clone(),
            takes_masters,
            _slot: slot,
        };
        Self {
            control: reader,
            handle: Handle(Arc::new(inner)),
            opened: Opened::default(),
            way,
            task: None,
        }
    }

    /// Keeps a task that is cancelled when this link is dropped.
    pub(crate) fn keep(&mut self, task: smol::Task<()>) {
        self.task = Some(task);
    }

    /// Returns a handle that sends through this session.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns the name of the peer for errors and logs.
    #[must_use]
    pub fn who(&self) -> &Arc<PeerInfo> {
        &self.handle.0.who
    }

    /// Returns the current address of the peer, which may have changed since it connected.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.handle.address()
    }

    /// Waits for the next message from the peer. Dropping the future loses nothing, so it can be
    /// raced against another one.
    ///
    /// # Errors
    /// When the connection is lost, or the peer breaks the protocol too often. The connection is
    /// then closed.
    pub async fn next(&mut self) -> Result<Incoming, Error> {
        enum Arrival {
            Frame(Box<Result<Option<Frame>, Error>>),
            Stream(Box<Result<(SendStream, RecvStream), ConnectionError>>),
            Question(Box<Question>),
        }
        loop {
            let inner = &self.handle.0;
            // A flood on one of these sources does not delay the others. The futures are not bound
            // to names: a future that is moved still takes up its old space.
            // No deadline: QUIC closes a silent connection (`idle`); a frame that has begun has its
            // own.
            let came = async { Arrival::Frame(Box::new(self.control.next(None).await)) }
                .race(async { Arrival::Stream(Box::new(inner.connection.accept_bi().await)) })
                .race(async { Arrival::Question(poll_fn(|cx| self.opened.poll(cx)).await) })
                .await;
            match came {
                Arrival::Question(question) => return Ok(Incoming::Question(question)),
                Arrival::Stream(streams) => match *streams {
                    Ok(streams) => self.open(streams),
                    Err(error) => return Err(inner.lost(&error)),
                },
                Arrival::Frame(frame) => match *frame {
                    Ok(Some(frame)) => {
                        if let Some(incoming) = self.control_frame(frame)? {
                            return Ok(incoming);
                        }
                    }
                    Ok(None) => {
                        return Err(inner.ended("the peer closed its control stream".to_owned()));
                    }
                    Err(error) => return Err(inner.failed(error)),
                },
            }
        }
    }

    fn control_frame(&mut self, frame: Frame) -> Result<Option<Incoming>, Error> {
        let inner = &self.handle.0;
        match frame {
            Frame::Control(Control::Event(event)) => Ok(Some(Incoming::Event(event))),
            Frame::Control(Control::Ack(ack)) => Ok(Some(Incoming::Ack(ack.sequence))),
            Frame::Control(Control::Masters(masters)) => Ok(Some(Incoming::Masters(masters))),
            Frame::Control(Control::Bye(bye)) => Ok(Some(Incoming::Bye(bye))),
            Frame::Unknown { kind } => {
                note(
                    Level::Debug,
                    format_args!("{}: unknown frame kind {kind}", inner.who),
                );
                // If the queue is already full of such answers, another one is of no use.
                let mut bytes = Vec::new();
                let encoded = Frame::Unsupported { kind }.encode(wire::Limits::HELLO, &mut bytes);
                if encoded.is_ok() {
                    inner.outgoing.try_send(bytes);
                }
                Ok(None)
            }
            Frame::Unsupported { kind } => {
                note(
                    Level::Info,
                    format_args!("{} does not support frames of the kind {kind}", inner.who),
                );
                Ok(None)
            }
            other => {
                let (who, found) = (inner.who.clone(), format!("{other:?}"));
                let wanted = "an event, an ack or a bye";
                Err(inner.failed(Error::Unexpected { who, found, wanted }))
            }
        }
    }

    /// Reads the first request of a new stream concurrently with everything else.
    fn open(&mut self, (send, receive): (SendStream, RecvStream)) {
        let (handle, way) = (self.handle.clone(), self.way);
        self.opened.0.push(Box::pin(async move {
            let (reader, writer) = handle.0.exchange(send, receive, way);
            handle.0.first(reader, writer).await
        }));
    }
}

impl Inner {
    fn ended(&self, reason: String) -> Error {
        self.failed(Error::Lost {
            who: self.who.clone(),
            reason,
        })
    }

    fn lost(&self, error: &ConnectionError) -> Error {
        self.ended(error.to_string())
    }

    /// Closes the connection because of an error. If it was already lost, returns the reason for
    /// that instead.
    fn failed(&self, error: Error) -> Error {
        if let Some(reason) = self.connection.close_reason() {
            return Error::Lost {
                who: self.who.clone(),
                reason: reason.to_string(),
            };
        }
        self.connection.close(1_u32.into(), word(&error).as_bytes());
        error
    }

    fn exchange(&self, send: SendStream, receive: RecvStream, way: Way) -> (Reader, Writer) {
        let sizes = wire::Limits::STREAM;
        let (who, capacity) = (&self.who, &self.capacity);
        let mut reader = Reader::new(
            Source::Quic(receive),
            sizes,
            who.clone(),
            way,
            capacity.clone(),
        );
        reader.strict = true;
        reader.bad = self.bad.clone();
        let writer = Writer::new(
            Sink::Quic(send),
            sizes,
            who.clone(),
            back(way),
            capacity.clone(),
        );
        (reader, writer)
    }

    /// Returns the question that a stream begins with. Any other beginning is answered here.
    async fn first(&self, mut reader: Reader, mut writer: Writer) -> Option<Question> {
        let limits = &self.capacity.limits;
        let answer: Frame = match reader.next(Some((Wait::Frame, limits.frame))).await {
            Ok(Some(Frame::Request(request))) => {
                return Some(Question {
                    request,
                    reader,
                    writer,
                    wait: limits.answer,
                });
            }
            Ok(None) => return None,
            Ok(Some(Frame::Unknown { kind })) => Frame::Unsupported { kind },
            Ok(Some(other)) => {
                rejection("invalid", format!("expected a request, received {other:?}"))
            }
            Err(error @ Error::TooManyBad { .. }) => {
                self.failed(error);
                return None;
            }
            Err(Error::NotAllowed { source, .. }) => rejection("refused", source.to_string()),
            Err(Error::Frame { source, .. }) => rejection("invalid", source.to_string()),
            Err(error @ Error::Full { .. }) => {
                note(Level::Info, format_args!("{error}"));
                rejection("busy", error.to_string())
            }
            Err(error) => {
                note(Level::Info, format_args!("{error}"));
                rejection("invalid", "the request was not received in time".to_owned())
            }
        };
        #[expect(
            clippy::let_underscore_must_use,
            reason = "a peer that has gone needs no answer, and the connection reports its end"
        )]
        let _ = writer.send(&answer).await;
        writer.finish();
        None
    }
}

fn rejection(reason: &str, text: String) -> Frame {
    let reason = reason.to_owned();
    Failed { reason, text }.into()
}

/// Returns the word that the other side reads when a connection is closed because of an error.
pub(crate) fn word(error: &Error) -> &'static str {
    match error {
        Error::Deadline { .. } => "deadline",
        Error::TooManyBad { .. } => "bad_frames_max",
        Error::Frame { .. } => "frame",
        Error::NotAllowed { .. } | Error::Unexpected { .. } => "not allowed",
        Error::Full { name, .. } => name,
        Error::Version { .. } => "version",
        _ => "error",
    }
}

/// The time limit for the peer's answer on a stream that it has already refused.
const REFUSAL: Duration = Duration::from_secs(5);

/// Returns the peer's answer to a request that it did not read completely, or else the error with
/// which sending the request ended.
async fn why_not_taken(reader: &mut Reader, error: Error) -> Error {
    if !matches!(error, Error::Lost { .. }) {
        return error;
    }
    let who = reader.who.clone();
    match within(REFUSAL, reader.next(None)).await {
        Some(Ok(Some(Frame::Answer(Answer::Failed(Failed { reason, text }))))) => {
            Error::Failed { who, reason, text }
        }
        _ => error,
    }
}

impl Handle {
    /// Returns the name of the peer for errors and logs.
    #[must_use]
    pub fn who(&self) -> &Arc<PeerInfo> {
        &self.0.who
    }

    /// Sends an event, on a minion. The event is safe once its sequence number is acknowledged
    /// ([`Incoming::Ack`]). Waits for room in the queue, which a slow reader keeps full.
    ///
    /// # Errors
    /// When the connection is lost, the event is too large, or this side may not send events.
    pub async fn event(&self, event: Event) -> Result<(), Error> {
        self.send(event.into()).await
    }

    /// Acknowledges that all events up to this one are durable, on a master. If the reader is slow,
    /// acks wait in the queue.
    ///
    /// # Errors
    /// When the connection is lost, or this side may not send acks.
    pub async fn ack(&self, sequence: u64) -> Result<(), Error> {
        self.send(Ack { sequence }.into()).await
    }

    /// Returns whether the peer is a minion that understands [`masters`](Self::masters).
    #[must_use]
    pub fn takes_masters(&self) -> bool {
        self.0.takes_masters
    }

    /// Sends a minion all masters of the cluster, on a master. Sends nothing to a minion that does
    /// not understand it.
    ///
    /// # Errors
    /// When the connection is lost, or the list is too large for a frame.
    pub async fn masters(&self, masters: Masters) -> Result<(), Error> {
        match self.takes_masters() {
            true => self.send(masters.into()).await,
            false => Ok(()),
        }
    }

    /// Announces that this side is about to close, and after how many seconds the peer may return.
    ///
    /// # Errors
    /// When the connection is lost.
    pub async fn bye(&self, reason: &str, retry_s: Option<u64>) -> Result<(), Error> {
        let reason = reason.to_owned();
        self.send(Bye { reason, retry_s }.into()).await
    }

    async fn send(&self, frame: Frame) -> Result<(), Error> {
        let inner = &self.0;
        let who = || inner.who.clone();
        let allowed = wire::rule::check(&frame, inner.way, true);
        allowed.map_err(|source| Error::NotAllowed { who: who(), source })?;
        let mut bytes = Vec::new();
        let encoded = frame.encode(wire::Limits::CONTROL, &mut bytes);
        encoded.map_err(|source| Error::Frame { who: who(), source })?;
        match inner.outgoing.send(bytes).await {
            true => Ok(()),
            false => Err(Error::Lost {
                who: who(),
                reason: self.reason(),
            }),
        }
    }

    fn reason(&self) -> String {
        let reason = self.0.connection.close_reason();
        reason.map_or_else(
            || "the connection is closed".to_owned(),
            |reason| reason.to_string(),
        )
    }

    /// Sends a request to the peer on a separate stream.
    ///
    /// # Errors
    /// When the connection is lost, this side may not send that request, or the peer has had too
    /// many streams open for too long.
    pub async fn ask(&self, request: impl Into<Request>) -> Result<PendingRequest, Error> {
        let inner = &self.0;
        let (who, after) = (inner.who.clone(), inner.capacity.limits.answer);
        let late = Error::Deadline {
            who,
            wait: Wait::Take,
            after,
        };
        let opened = within(after, inner.connection.open_bi())
            .await
            .ok_or(late)?;
        let (send, receive) = opened.map_err(|error| inner.lost(&error))?;
        let (mut reader, mut writer) = inner.exchange(send, receive, back(inner.way));
        if let Err(error) = writer.send(&request.into().into()).await {
            return Err(why_not_taken(&mut reader, error).await);
        }
        Ok(PendingRequest {
            reader,
            writer,
            wait: Some(after),
        })
    }

    #[cfg(test)]
    pub(crate) fn connection(&self) -> &Connection {
        &self.0.connection
    }

    /// Closes the connection at once; messages in transit are lost. The peer receives the reason.
    pub fn close(&self, reason: &str) {
        self.0.connection.close(0_u32.into(), reason.as_bytes());
    }

    /// Returns the current address of the peer.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.connection.remote_address()
    }

    /// Returns how the connection ended, or `None` while it is open.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some(match self.0.connection.close_reason()? {
            ConnectionError::TimedOut => Ending::TimedOut,
            ConnectionError::ApplicationClosed(close) => Ending::ByPeer(text(&close.reason)),
            ConnectionError::ConnectionClosed(close) => Ending::ByPeer(text(&close.reason)),
            ConnectionError::Reset => Ending::ByPeer(String::new()),
            ConnectionError::LocallyClosed => Ending::Here,
            other => Ending::Failed(other.to_string()),
        })
    }

    /// Waits until the connection is closed, and returns the reason.
    pub async fn closed(&self) -> Error {
        // No deadline: QUIC closes a silent connection (`idle`).
        let error = self.0.connection.closed().await;
        Error::Lost {
            who: self.0.who.clone(),
            reason: error.to_string(),
        }
    }

    /// Waits until the peer has left all packets unanswered for about two seconds. The connection
    /// stays open, because the peer may respond again.
    pub async fn silence(&self) -> Error {
        silence::wait_until_lost(&self.0.connection).await;
        Error::Lost {
            who: self.0.who.clone(),
            reason: "the peer does not answer".to_owned(),
        }
    }

    /// Returns the estimated round-trip time of the connection.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        self.0.connection.rtt()
    }

    /// Returns the number of frames of this connection that were malformed or not allowed.
    #[must_use]
    pub fn bad_frames(&self) -> u32 {
        self.0.bad.load(Ordering::Relaxed)
    }
}
