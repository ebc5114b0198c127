//! The log of refusals: one line per peer and interval, so that a peer that keeps asking cannot
//! fill the log.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use value::log;

/// The interval at which refusals of one peer are logged.
pub(crate) const EVERY: Duration = Duration::from_secs(60);
/// The maximum number of peers that are counted separately. The others share one line.
const PEERS_MAX: usize = 4096;
/// The name under which all other peers are counted.
const OTHERS: &str = "";
/// The maximum number of characters of a reason in the log. A part of it may come from the peer.
const REASON_MAX: usize = 500;

/// The refusal of a request: a word for programs and a sentence.
pub(crate) type NotServed = (&'static str, String);

/// A log of refusals, with at most one line per peer and interval.
#[derive(Debug)]
pub(crate) struct Refusals {
    every: Duration,
    logged: Mutex<HashMap<String, Logged>>,
}

/// The last line about a peer.
#[derive(Debug)]
struct Logged {
    at: Instant,
    /// The number of refusals since then that were not logged.
    more: u64,
}

impl Refusals {
    /// Returns a log of refusals with this interval.
    pub(crate) fn every(every: Duration) -> Self {
        Self {
            every,
            logged: Mutex::default(),
        }
    }

    /// Logs why a peer is refused, unless a refusal of it was logged within the interval.
    pub(crate) fn log(&self, who: &str, why: impl Display) {
        let Some(more) = self.is_due(who, Instant::now()) else {
            return;
        };
        let why: String = why.to_string().chars().take(REASON_MAX).collect();
        match more {
            0 => log::warning(format_args!("{who}: {why}")),
            _ => log::warning(format_args!(
                "{who}: {why} ({more} more since the last line)"
            )),
        }
    }

    /// Returns the number of refusals that were not logged since the last line, if another line is
    /// due.
    pub(crate) fn is_due(&self, who: &str, now: Instant) -> Option<u64> {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |last: &Logged| now.duration_since(last.at) < self.every;
        if logged.len() >= PEERS_MAX && !logged.contains_key(who) {
            logged.retain(|_, last| is_fresh(last));
        }
        let has_room = logged.len() < PEERS_MAX || logged.contains_key(who);
        let who = if has_room { who } else { OTHERS };
        if let Some(last) = logged.get_mut(who).filter(|last| is_fresh(last)) {
            last.more += 1;
            return None;
        }
        let first = Logged { at: now, more: 0 };
        let last = logged.insert(who.to_owned(), first);
        Some(last.map_or(0, |last| last.more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_logged_once_a_minute_and_the_others_are_counted() {
        let refusals = Refusals::every(EVERY);
        let start = Instant::now();
        assert_eq!(refusals.is_due("m1", start), Some(0));
        for second in 1..60 {
            let now = start + Duration::from_secs(second);
            assert_eq!(refusals.is_due("m1", now), None);
        }
        assert_eq!(refusals.is_due("m2", start), Some(0));
        assert_eq!(refusals.is_due("m1", start + EVERY), Some(59));
        assert_eq!(refusals.is_due("m1", start + EVERY), None);
    }

    #[test]
    fn many_peers_take_a_bounded_room() {
        let refusals = Refusals::every(EVERY);
        let start = Instant::now();
        let due = (0..2 * PEERS_MAX)
            .filter(|number| refusals.is_due(&format!("m{number}"), start).is_some())
            .count();
        assert_eq!(due, PEERS_MAX + 1);
        assert_eq!(refusals.logged.lock().unwrap().len(), PEERS_MAX + 1);
        assert_eq!(refusals.is_due("new", start + EVERY), Some(0));
        assert_eq!(refusals.logged.lock().unwrap().len(), 1);
    }
}
