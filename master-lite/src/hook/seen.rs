//! [`Seen`]: signatures that were used, for as long as they would be good.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use value::Value;

use super::path::BASE;
use super::signature::{Mac, Shown};
use crate::store::{Error, Event, Store};

/// How many are remembered.
const SEEN_MAX: usize = 1 << 17;

/// What is said of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is used now, for the first time.
    First,
    /// It was used before.
    Again,
    /// More are in use than are remembered, so that nothing could be said of the next.
    Full,
}

/// The signatures, each with the second after which it is good no more.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<HashMap<Mac, u64>>);

impl Seen {
    /// Reads back the signatures of the events in the log, so that a request that was accepted before a restart is not accepted again.
    /// With `is_hub` the whole log is read, because a signature of the body alone is remembered as long as its event is kept.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(super) fn restored(
        store: &Store,
        tolerance_s: u64,
        is_hub: bool,
        now_ms: u64,
    ) -> Result<Self, Error> {
        // A clock that is ahead may sign for twice the time.
        let timed = now_ms.saturating_sub(tolerance_s.saturating_mul(2000));
        let since = if is_hub { 0 } else { timed };
        let mut seen = HashMap::new();
        for event in store.events(first_since(store, since)?)? {
            let event = event?;
            for shown in signatures(&event) {
                let until = shown.until(tolerance_s, event.at_ms / 1000);
                if until >= now_ms / 1000 {
                    seen.insert(shown.mac(), until);
                }
            }
        }
        Ok(Self(Mutex::new(seen)))
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Mac, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses a signature that is good until then.
    pub(super) fn take(&self, mac: Mac, until: u64, now_s: u64) -> Taken {
        let mut all = self.all();
        if all.len() >= SEEN_MAX {
            all.retain(|_, until| *until >= now_s);
        }
        if all.get(&mac).is_some_and(|until| *until >= now_s) {
            return Taken::Again;
        }
        if all.len() >= SEEN_MAX {
            return Taken::Full;
        }
        all.insert(mac, until);
        Taken::First
    }

    /// What it was used for was not done.
    pub(super) fn forget(&self, mac: Mac) {
        self.all().remove(&mac);
    }
}

/// The number of the first event that came at this time or later: events stand in the log in the order in which they came.
fn first_since(store: &Store, at_ms: u64) -> Result<u64, Error> {
    let (mut low, mut high) = store.log()?;
    while low < high {
        let middle = low + (high - low) / 2;
        // The log has gaps, where events of a sender went that had too many.
        match store.events(middle)?.next().transpose()? {
            Some(event) if event.at_ms < at_ms => low = event.sequence + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The signatures of the request that an event was made of.
fn signatures(event: &Event) -> Vec<Shown> {
    if !event.tag.starts_with(BASE) {
        return Vec::new();
    }
    let headers = event.data.get("headers").and_then(Value::as_map);
    let shown = headers.into_iter().flat_map(value::Map::iter);
    shown
        .filter_map(|(name, text)| Shown::of_header(name.as_str()?, text.as_str()?))
        .collect()
}
