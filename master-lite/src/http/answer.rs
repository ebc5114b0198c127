//! [`Answer`] and [`Refusal`]: the responses to a request.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::Response;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};

/// An HTTP response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    kind: &'static str,
    /// Additional headers.
    headers: Vec<(&'static str, String)>,
    body: Bytes,
}

/// The reason why a request is refused. The peer receives the status; the reason is only logged.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) why: String,
    headers: Vec<(&'static str, String)>,
}

/// The body of a response.
pub(super) struct Sent(Option<Bytes>);

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, Bytes::len) as u64)
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
        Self {
            status: 200,
            kind,
            headers: Vec::new(),
            body: body.into().into(),
        }
    }

    /// Returns the response for hyper. A header that is not valid is left out.
    pub(super) fn response(self) -> Response<Sent> {
        let mut response = Response::new(Sent(Some(self.body)));
        if let Ok(status) = self.status.try_into() {
            *response.status_mut() = status;
        }
        let kind = HeaderValue::from_static(self.kind);
        response.headers_mut().insert(CONTENT_TYPE, kind);
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
        let (reason, length) = (reason(*status), self.body.len());
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| format!("{name}: {value}\r\n"));
        let lines: String = headers.collect();
        let head = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{lines}Connection: close\r\n\r\n"
        );
        [head.as_bytes(), &self.body].concat()
    }
}

impl Refusal {
    pub(crate) fn new(status: u16, why: impl Into<String>) -> Self {
        Self {
            status,
            why: why.into(),
            headers: Vec::new(),
        }
    }

    /// Returns the refusal of a method, with the allowed one.
    pub(crate) fn method(allowed: &str) -> Self {
        let why = format!("the method is not {allowed}");
        Self {
            headers: vec![("Allow", allowed.to_owned())],
            ..Self::new(405, why)
        }
    }

    /// Returns a refusal after which the peer may try again in this many seconds.
    pub(crate) fn later(status: u16, seconds: u64, why: impl Into<String>) -> Self {
        Self {
            headers: vec![("Retry-After", seconds.max(1).to_string())],
            ..Self::new(status, why)
        }
    }

    /// Returns the response to the peer. It holds the status alone: a peer without access need not
    /// learn the reason.
    pub(super) fn answer(&self) -> Answer {
        Answer {
            status: self.status,
            kind: "text/plain; charset=utf-8",
            headers: self.headers.clone(),
            body: format!("{} {}\n", self.status, reason(self.status)).into(),
        }
    }
}
