//! [`Refusal`]: the reason why a request gets no answer.

/// The reason why a request is refused. The peer receives the status; the reason is only logged.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) why: String,
    headers: Vec<(&'static str, String)>,
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

    /// Returns the additional headers of the response.
    pub(super) fn headers(&self) -> &[(&'static str, String)] {
        &self.headers
    }
}
