//! [`Answer`] and [`Refusal`]: the responses to a request.

/// An HTTP response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    kind: &'static str,
    /// Additional lines of the head.
    lines: String,
    body: String,
}

/// The reason why a request is refused. The peer receives the status; the reason is only logged.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) why: String,
    lines: String,
}

/// Returns the reason phrase of a status.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    }
}

impl Answer {
    /// Returns a response with status 200.
    pub(crate) fn good(kind: &'static str, body: impl Into<String>) -> Self {
        Self {
            status: 200,
            kind,
            lines: String::new(),
            body: body.into(),
        }
    }

    /// Returns the bytes to send.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let Self {
            status,
            kind,
            lines,
            body,
        } = self;
        let (reason, length) = (reason(*status), body.len());
        format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{lines}Connection: close\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

impl Refusal {
    pub(crate) fn new(status: u16, why: impl Into<String>) -> Self {
        Self {
            status,
            why: why.into(),
            lines: String::new(),
        }
    }

    /// Returns the refusal of a method, with the allowed one.
    pub(crate) fn method(allowed: &str) -> Self {
        let lines = format!("Allow: {allowed}\r\n");
        let why = format!("the method is not {allowed}");
        Self {
            lines,
            ..Self::new(405, why)
        }
    }

    /// Returns a refusal after which the peer may try again in this many seconds.
    pub(crate) fn later(status: u16, seconds: u64, why: impl Into<String>) -> Self {
        let lines = format!("Retry-After: {}\r\n", seconds.max(1));
        Self {
            lines,
            ..Self::new(status, why)
        }
    }

    /// Returns the response to the peer. It holds the status alone: a peer without access need not
    /// learn the reason.
    pub(super) fn answer(&self) -> Answer {
        Answer {
            status: self.status,
            kind: "text/plain; charset=utf-8",
            lines: self.lines.clone(),
            body: format!("{} {}\n", self.status, reason(self.status)),
        }
    }
}
