//! Connects hyper with the streams and clocks of smol.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Read, ReadBufCursor, Sleep, Timer, Write};
use link::wait::{pause, until};
use smol::io::{AsyncRead, AsyncWrite};

/// The number of bytes per read.
const PIECE: usize = 8 << 10;
/// The maximum time in which a peer must take some of an answer.
pub(super) const SEND: Duration = Duration::from_secs(5);

/// A wait for a time.
struct Wait(Pin<Box<dyn Future<Output = ()> + Send + Sync>>);

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }
}

impl Sleep for Wait {}

/// The clock of this machine.
pub(super) struct Clock;

impl Timer for Clock {
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Wait(Box::pin(pause(time))))
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Wait(Box::pin(until(at))))
    }
}

/// A stream whose peer must not stop to take what is sent.
pub(super) struct Io<S> {
    pub(super) stream: S,
    /// The end of the time in which the peer must take something. `None` while it does.
    stalled: Option<Wait>,
}

impl<S> Io<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            stalled: None,
        }
    }

    /// Returns the outcome of a write, which is an error if the peer has taken nothing for too long.
    fn within<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self
            .stalled
            .get_or_insert_with(|| Wait(Box::pin(pause(SEND))));
        ready!(Pin::new(stalled).poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> Read for Io<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut piece = [0; PIECE];
        let most = buffer.remaining().min(PIECE);
        let piece = piece.get_mut(..most).unwrap_or_default();
        let count = ready!(Pin::new(&mut self.stream).poll_read(context, piece))?;
        buffer.put_slice(piece.get(..count).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Write for Io<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.within(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_close(context);
        self.within(context, closed)
    }
}
