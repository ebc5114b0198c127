//! Frames on a stream of QUIC or a Unix socket: reads them with deadlines and checks them against
//! the rules; writes them with deadlines.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use quinn::{RecvStream, SendStream};
use smol::Async;
use smol::future::{FutureExt, pending};
use value::log::Level;
use wire::{Decoder, Frame, Way, rule};

use crate::error::{Error, PeerInfo, Wait};
use crate::room::{Capacity, Reservation, SMALL, Sender};
use crate::shares::Full;
use crate::wait::pause;
pub(crate) use crate::wait::within;

/// The maximum number of bytes that are read from a socket at once.
const PIECE: usize = 8 << 10;
/// The interval between two attempts to get room for a large frame.
const ROOM_AGAIN: Duration = Duration::from_millis(50);

/// Logs a message about a peer.
pub(crate) fn note(level: Level, message: std::fmt::Arguments<'_>) {
    value::log::log(level, "link", message);
}

#[derive(Debug)]
pub(crate) enum Source {
    Quic(RecvStream),
    Unix(Arc<Async<UnixStream>>),
}

impl Source {
    /// Moves received bytes into the decoder. Returns false at the end of the stream. Dropping the
    /// future loses nothing.
    async fn more(&mut self, decoder: &mut Decoder) -> Result<bool, String> {
        match self {
            Self::Quic(stream) => {
                let chunk = stream
                    .read_chunk(PIECE, true)
                    .await
                    .map_err(|error| error.to_string())?;
                if let Some(chunk) = &chunk {
                    decoder.push(&chunk.bytes);
                }
                Ok(chunk.is_some())
            }
            Self::Unix(stream) => {
                // The buffer exists only while bytes are copied, not while the task waits for them.
                let mut take = |mut stream: &UnixStream| {
                    let mut piece = [0; PIECE];
                    let length = io::Read::read(&mut stream, &mut piece)?;
                    decoder.push(piece.get(..length).unwrap_or_default());
                    Ok(length > 0)
                };
                let taken = stream.read_with(|stream| take(stream)).await;
                taken.map_err(|error| error.to_string())
            }
        }
    }
}

/// The progress of a frame that has begun.
#[derive(Clone, Copy, Debug)]
struct PartialFrame {
    since: Instant,
    /// The beginning of the window over which its rate is checked.
    window: Instant,
    /// The number of its bytes that had been received by then.
    had: usize,
}

impl PartialFrame {
    fn now() -> Self {
        let since = Instant::now();
        Self {
            since,
            window: since,
            had: 0,
        }
    }
}

/// Reads the frames of a stream.
#[derive(Debug)]
pub(crate) struct Reader {
    source: Source,
    decoder: Decoder,
    pub(crate) who: Arc<PeerInfo>,
    way: Way,
    /// True if the sender's key is accepted.
    pub(crate) accepted: bool,
    capacity: Arc<Capacity>,
    /// The frame that has begun and not ended.
    begun: Option<PartialFrame>,
    /// The room that is set aside for the frame that has begun, if it is a large one.
    reservation: Option<Reservation>,
    /// The number of bad frames of the connection.
    pub(crate) bad: Arc<AtomicU32>,
    /// True if a bad frame ends the stream at once.
    pub(crate) strict: bool,
}

impl Reader {
    pub(crate) fn new(
        source: Source,
        sizes: wire::Limits,
        who: Arc<PeerInfo>,
        way: Way,
        capacity: Arc<Capacity>,
    ) -> Self {
        Self {
            source,
            decoder: Decoder::new(sizes),
            who,
            way,
            accepted: true,
            capacity,
            begun: None,
            reservation: None,
            bad: Arc::default(),
            strict: false,
        }
    }

    pub(crate) fn set_sizes(&mut self, sizes: wire::Limits) {
        self.decoder.set_limits(sizes);
    }

    /// Returns whether a part of a frame was received that no one has read.
    pub(crate) fn has_begun(&self) -> bool {
        !self.decoder.is_empty()
    }

    /// Waits for the next frame that its sender may send; `None` at the end of the stream. Frames
    /// that are malformed or not allowed are logged, counted and skipped. A frame that has begun
    /// always has a deadline. The wait for the beginning of one has a deadline only if `wait` sets
    /// it. Dropping the future loses nothing.
    pub(crate) async fn next(
        &mut self,
        wait: Option<(Wait, Duration)>,
    ) -> Result<Option<Frame>, Error> {
        let asked = Instant::now();
        loop {
            match self.decoder.next_frame() {
                Ok(None) => {}
                Ok(Some(frame)) => {
                    (self.begun, self.reservation) = (None, None);
                    match rule::check(&frame, self.way, self.accepted) {
                        Ok(()) => return Ok(Some(frame)),
                        Err(source) => {
                            let who = self.who.clone();
                            self.count(Error::NotAllowed { who, source })?;
                        }
                    }
                    continue;
                }
                Err(source) => {
                    (self.begun, self.reservation) = (None, None);
                    let fatal = source.is_fatal();
                    let error = Error::Frame {
                        who: self.who.clone(),
                        source,
                    };
                    if fatal {
                        return Err(error);
                    }
                    self.count(error)?;
                    continue;
                }
            }
            if let Some(bytes) = self.decoder.expects().filter(|bytes| *bytes > SMALL) {
                Box::pin(self.make_room(bytes)).await?;
            }
            if !self.more(asked, wait).await? {
                return Ok(None);
            }
        }
    }

    /// Waits for room for a large frame that has begun, and charges the bytes that were received so
    /// far. A frame that gets no room in time is refused.
    async fn make_room(&mut self, bytes: usize) -> Result<(), Error> {
        let begun = self.begun.get_or_insert_with(PartialFrame::now).since;
        while self.reservation.is_none() {
            let limits = &self.capacity.limits;
            match self.capacity.begin(Sender::from_peer(&self.who), bytes) {
                Ok(reservation) => self.reservation = Some(reservation),
                Err(full) if begun.elapsed() > limits.frame => return Err(self.no_room(full)),
                Err(full) if bytes > limits.large_bytes_per_key => return Err(self.no_room(full)),
                Err(_) => {
                    pause(ROOM_AGAIN).await;
                }
            }
            if let Some(begun) = &mut self.begun {
                begun.window = Instant::now();
            }
        }
        if let Some(reservation) = &mut self.reservation {
            reservation.holds(self.decoder.len() + PIECE);
        }
        Ok(())
    }

    fn no_room(&self, full: Full) -> Error {
        let limits = &self.capacity.limits;
        let (limit, what, name) = match full {
            Full::Share => (
                limits.large_bytes_per_key,
                "bytes of large frames being read for its key",
                "large_bytes_per_key",
            ),
            Full::All => (
                limits.large_bytes_max,
                "bytes of large frames being read",
                "large_bytes_max",
            ),
        };
        Error::Full {
            who: self.who.clone(),
            limit,
            what,
            name,
        }
    }

    fn count(&mut self, error: Error) -> Result<(), Error> {
        note(Level::Warning, format_args!("{error}"));
        let (who, limit) = (self.who.clone(), self.capacity.limits.bad_frames_max);
        if self.bad.fetch_add(1, Ordering::Relaxed) >= limit {
            return Err(Error::TooManyBad { who, limit });
        }
        if self.strict { Err(error) } else { Ok(()) }
    }

    async fn more(
        &mut self,
        asked: Instant,
        wait: Option<(Wait, Duration)>,
    ) -> Result<bool, Error> {
        let came = if self.decoder.is_empty() {
            match wait {
                None => self.source.more(&mut self.decoder).await,
                Some((wait, after)) => {
                    let left = after.saturating_sub(asked.elapsed());
                    // The timer is allocated only when there is a deadline: thousands of streams
                    // wait without one.
                    let more = Box::pin(within(left, self.source.more(&mut self.decoder)));
                    more.await.ok_or_else(|| self.late(wait, after))?
                }
            }
        } else {
            Box::pin(self.rest_of_frame()).await?
        };
        let came = came.map_err(|reason| Error::Lost {
            who: self.who.clone(),
            reason,
        })?;
        if !came && !self.decoder.is_empty() {
            let source = wire::Error::Truncated;
            return Err(Error::Frame {
                who: self.who.clone(),
                source,
            });
        }
        Ok(came)
    }

    fn late(&self, wait: Wait, after: Duration) -> Error {
        let who = self.who.clone();
        Error::Deadline { who, wait, after }
    }

    /// Reads more of a frame that has begun. The frame has a deadline, a large one must keep its
    /// rate, and its room can be lost.
    async fn rest_of_frame(&mut self) -> Result<Result<bool, String>, Error> {
        self.begun.get_or_insert_with(PartialFrame::now);
        loop {
            let (after, left) = self.time_left();
            let more = async {
                let more = self.source.more(&mut self.decoder);
                Some(within(left, more).await)
            };
            let lost = async {
                match &self.reservation {
                    Some(reservation) => reservation.lost().await,
                    // No deadline: this branch only races against the other one.
                    None => pending().await,
                }
                None
            };
            match lost.or(more).await {
                None => return Err(self.no_room(Full::All)),
                Some(Some(came)) => return Ok(came),
                Some(None) if self.keeps_its_rate() => {}
                Some(None) => return Err(self.late(Wait::Frame, after)),
            }
        }
    }

    /// Returns the time limit that expires next for the frame that has begun, and the rest of it.
    fn time_left(&self) -> (Duration, Duration) {
        let limits = &self.capacity.limits;
        let bytes = self.decoder.expects().unwrap_or_default();
        let begun = self.begun.unwrap_or_else(PartialFrame::now);
        let whole = limits.frame_of(bytes);
        let left = whole.saturating_sub(begun.since.elapsed());
        if bytes <= SMALL {
            return (whole, left);
        }
        let of_window = limits.rate_window.saturating_sub(begun.window.elapsed());
        if of_window < left {
            (limits.rate_window, of_window)
        } else {
            (whole, left)
        }
    }

    /// Begins another window for a large frame. Returns false if too few bytes arrived in the last
    /// window, or the frame's whole time is over.
    fn keeps_its_rate(&mut self) -> bool {
        let (limits, has) = (&self.capacity.limits, self.decoder.len());
        let is_large = self.decoder.expects().is_some_and(|bytes| bytes > SMALL);
        let Some(begun) = self.begun.as_mut().filter(|_| is_large) else {
            return false;
        };
        let whole = limits.frame_of(self.decoder.expects().unwrap_or_default());
        let enough = has.saturating_sub(begun.had) >= limits.window_bytes();
        (begun.window, begun.had) = (Instant::now(), has);
        enough && begun.since.elapsed() < whole
    }
}

#[derive(Debug)]
pub(crate) enum Sink {
    Quic(SendStream),
    Unix(Arc<Async<UnixStream>>),
}

impl Sink {
    async fn write(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        match self {
            Self::Quic(stream) => stream
                .write_all(bytes)
                .await
                .map_err(|error| error.to_string()),
            Self::Unix(stream) => {
                while !bytes.is_empty() {
                    let write = |mut stream: &UnixStream| io::Write::write(&mut stream, bytes);
                    let written = stream.write_with(|stream| write(stream)).await;
                    let written = written.map_err(|error| error.to_string())?;
                    bytes = bytes.get(written..).unwrap_or_default();
                }
                Ok(())
            }
        }
    }
}

/// Writes frames to a stream.
#[derive(Debug)]
pub(crate) struct Writer {
    sink: Sink,
    sizes: wire::Limits,
    pub(crate) who: Arc<PeerInfo>,
    way: Way,
    capacity: Arc<Capacity>,
}

impl Writer {
    pub(crate) fn new(
        sink: Sink,
        sizes: wire::Limits,
        who: Arc<PeerInfo>,
        way: Way,
        capacity: Arc<Capacity>,
    ) -> Self {
        Self {
            sink,
            sizes,
            who,
            way,
            capacity,
        }
    }

    /// Sends a frame. Fails when this side may not send it, it is too large, or the other side
    /// takes too long to accept it.
    pub(crate) async fn send(&mut self, frame: &Frame) -> Result<(), Error> {
        let mut bytes = Vec::new();
        self.encode(frame, &mut bytes)?;
        self.write(&bytes).await
    }

    /// Sends an encoded frame or several of them.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let after = self.capacity.limits.frame_of(bytes.len());
        let written = within(after, self.sink.write(bytes)).await;
        let who = || self.who.clone();
        let late = || Error::Deadline {
            who: who(),
            wait: Wait::Take,
            after,
        };
        written
            .ok_or_else(late)?
            .map_err(|reason| Error::Lost { who: who(), reason })
    }

    /// Encodes a frame, if this side may send it.
    pub(crate) fn encode(&self, frame: &Frame, out: &mut Vec<u8>) -> Result<(), Error> {
        let who = || self.who.clone();
        let allowed = rule::check(frame, self.way, true);
        allowed.map_err(|source| Error::NotAllowed { who: who(), source })?;
        let encoded = frame.encode(self.sizes, out);
        encoded.map_err(|source| Error::Frame { who: who(), source })
    }

    /// Ends the stream after everything that was sent.
    pub(crate) fn finish(&mut self) {
        if let Sink::Quic(stream) = &mut self.sink {
            #[expect(
                clippy::let_underscore_must_use,
                reason = "a stream that is closed already has ended"
            )]
            let _ = stream.finish();
        }
    }
}
