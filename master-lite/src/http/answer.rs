//! [`Answer`]: the response to a request.

use std::convert::Infallible;
use std::fmt::{self, Debug, Formatter};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::Response;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use smol::stream::Stream;

use super::gate::Settled;
use super::refusal::Refusal;
use super::stream::Preceded;

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    kind: &'static str,
    /// Additional headers.
    headers: Vec<(&'static str, String)>,
    body: Payload,
    /// The protocol that continues on the connection, after status 101.
    upgrade: Option<Upgrade>,
}

/// A protocol that continues on a connection.
pub(super) struct Upgrade(Box<dyn FnOnce(Preceded) -> Continued + Send>);

/// The rest of a connection's work.
type Continued = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Upgrade {
    /// Continues on a connection.
    pub(super) async fn run(self, stream: Preceded) {
        (self.0)(stream).await;
    }
}

impl Debug for Upgrade {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("upgrade")
    }
}

/// Pieces of a body, which are sent as they become ready.
type Pieces = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The body of a response.
enum Payload {
    Whole(Bytes),
    Pieces(Pieces),
}

impl Debug for Payload {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(bytes) => bytes.fmt(f),
            Self::Pieces(_) => f.write_str("pieces"),
        }
    }
}

/// The body of a response while hyper sends it.
pub(super) struct Sent {
    /// `None` after the last piece.
    payload: Option<Payload>,
    /// The hold on the connection's slot, which ends with the response.
    _settled: Option<Settled>,
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.payload.take() {
            None => return Poll::Ready(None),
            Some(Payload::Whole(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Some(Payload::Pieces(mut pieces)) => {
                let next = pieces.as_mut().poll_next(context);
                self.payload = Some(Payload::Pieces(pieces));
                next
            }
        };
        if let Poll::Ready(None) = next {
            self.payload = None;
        }
        next.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.payload.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.payload {
            None => SizeHint::with_exact(0),
            Some(Payload::Whole(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            Some(Payload::Pieces(_)) => SizeHint::default(),
        }
    }
}

/// Returns the reason phrase of a status.
fn reason(status: u16) -> &'static str {
    let status = hyper::StatusCode::from_u16(status).ok();
    status
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Unknown")
}

impl Answer {
    /// Returns a response with status 200.
    pub(crate) fn good(kind: &'static str, body: impl Into<String>) -> Self {
        Self::new(200, kind, body.into())
    }

    /// Returns a response.
    pub(crate) fn new(status: u16, kind: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            kind,
            headers: Vec::new(),
            body: Payload::Whole(body.into()),
            upgrade: None,
        }
    }

    /// Continues with another protocol after the response.
    pub(crate) fn upgrade(
        mut self,
        work: impl FnOnce(Preceded) -> Continued + Send + 'static,
    ) -> Self {
        self.upgrade = Some(Upgrade(Box::new(work)));
        self
    }

    /// Takes the protocol that continues after the response.
    pub(super) fn take_upgrade(&mut self) -> Option<Upgrade> {
        self.upgrade.take()
    }

    /// Returns a response whose body is sent in pieces, as they become ready.
    pub(crate) fn pieces(
        kind: &'static str,
        pieces: impl Stream<Item: Into<Bytes>> + Send + 'static,
    ) -> Self {
        let pieces = smol::stream::StreamExt::map(pieces, Into::into);
        Self {
            body: Payload::Pieces(Box::pin(pieces)),
            ..Self::new(200, kind, Bytes::new())
        }
    }

    /// Returns the length of the body in bytes; 0 for one that is sent in pieces.
    pub(crate) fn length(&self) -> usize {
        match &self.body {
            Payload::Whole(bytes) => bytes.len(),
            Payload::Pieces(_) => 0,
        }
    }

    /// Adds a header.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Returns the response for hyper. A header that is not valid is left out.
    pub(super) fn response(self, settled: Option<Settled>) -> Response<Sent> {
        let payload = match self.body {
            Payload::Whole(bytes) if bytes.is_empty() => None,
            body => Some(body),
        };
        let mut response = Response::new(Sent {
            payload,
            _settled: settled,
        });
        if let Ok(status) = self.status.try_into() {
            *response.status_mut() = status;
        }
        if !self.kind.is_empty() {
            let kind = HeaderValue::from_static(self.kind);
            response.headers_mut().insert(CONTENT_TYPE, kind);
        }
        for (name, value) in self.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), value.try_into()) {
                response.headers_mut().append(name, value);
            }
        }
        response
    }

    /// Returns the bytes of the response to a peer whose request does not get to hyper.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let Self { status, kind, .. } = self;
        let body = match &self.body {
            Payload::Whole(bytes) => bytes.clone(),
            Payload::Pieces(_) => Bytes::new(),
        };
        let (reason, length) = (reason(*status), body.len());
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| format!("{name}: {value}\r\n"));
        let lines: String = headers.collect();
        let head = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{lines}Connection: close\r\n\r\n"
        );
        [head.as_bytes(), &body].concat()
    }
}

impl Refusal {
    /// Returns the response to the peer. It holds the status alone: a peer without access need not
    /// learn the reason.
    pub(crate) fn answer(&self) -> Answer {
        let body = format!("{} {}\n", self.status, reason(self.status));
        self.add_to(Answer::new(self.status, "text/plain; charset=utf-8", body))
    }

    /// Adds the headers of the refusal to a response.
    pub(crate) fn add_to(&self, answer: Answer) -> Answer {
        let headers = self.headers().iter();
        headers.fold(answer, |answer, (name, value)| answer.with(name, value))
    }
}
