//! [`Period`]: the arguments `since` and `until` of runners.

use state::module::Error;
use value::{Value, jid, when};

/// A period of time, in microseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Period {
    first: u64,
    last: u64,
}

impl Period {
    /// Reads the arguments. Without one of them the period has no begin or end.
    pub(super) fn new(since: Option<&Value>, until: Option<&Value>) -> Result<Self, Error> {
        Ok(Self {
            first: span("since", since)?.map_or(0, |span| span.first),
            last: span("until", until)?.map_or(u64::MAX, |span| span.last),
        })
    }

    /// Returns whether a time is in the period.
    pub(super) fn has(self, micros: u64) -> bool {
        (self.first..=self.last).contains(&micros)
    }

    /// Returns the first millisecond.
    pub(super) fn first_ms(self) -> u64 {
        self.first / 1000
    }
}

fn span(name: &'static str, given: Option<&Value>) -> Result<Option<when::Span>, Error> {
    let given = given.filter(|given| !given.is_null());
    let now = jid::to_micros(&jid::new()).unwrap_or_default();
    let span = given.map(|given| when::parse(&given.to_text(), now));
    span.transpose()
        .map_err(|error| Error::argument(name, error.to_string()))
}
