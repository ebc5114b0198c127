//! [`Answer`] and [`Refusal`]: what a peer is told.

/// What a request is answered with.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    kind: &'static str,
    /// More lines of the head.
    lines: String,
    body: String,
}

/// Why a request is not done: its status for the peer, the reason for the log.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) why: String,
    lines: String,
}

/// What statuses are called.
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
    /// One that is good.
    pub(crate) fn good(kind: &'static str, body: impl Into<String>) -> Self {
        Self {
            status: 200,
            kind,
            lines: String::new(),
            body: body.into(),
        }
    }

    /// As it is sent.
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

    /// Another method would do.
    pub(crate) fn method(allowed: &str) -> Self {
        let lines = format!("Allow: {allowed}\r\n");
        let why = format!("the method is not {allowed}");
        Self {
            lines,
            ..Self::new(405, why)
        }
    }

    /// It may come again after so many seconds.
    pub(crate) fn later(status: u16, seconds: u64, why: impl Into<String>) -> Self {
        let lines = format!("Retry-After: {}\r\n", seconds.max(1));
        Self {
            lines,
            ..Self::new(status, why)
        }
    }

    /// The peer learns the status alone: who may not come in need not know why.
    pub(super) fn answer(&self) -> Answer {
        Answer {
            status: self.status,
            kind: "text/plain; charset=utf-8",
            lines: self.lines.clone(),
            body: format!("{} {}\n", self.status, reason(self.status)),
        }
    }
}
