//! [`Seen`]: the signatures that have been used, each kept for as long as it would be valid.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use value::Value;

use super::path::BASE;
use super::signature::{Mac, RequestSignature};
use crate::store::{Error, Event, Store};

/// The maximum number of signatures that are kept.
const SEEN_MAX: usize = 1 << 17;

/// The result of using a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignatureUse {
    /// The signature is used for the first time.
    First,
    /// The signature was used before.
    Again,
    /// Too many signatures are in use to keep another one, so a repetition of this one would not be
    /// noticed.
    Full,
}

/// The used signatures, each with the second after which it is no longer valid.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<HashMap<Mac, u64>>);

impl Seen {
    /// Reads the signatures of the events in the log, so that a request that was accepted before a
    /// restart is not accepted again. With `is_hub` it reads the whole log, since a signature of
    /// the body alone is kept as long as its event.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(super) fn restored(
        store: &Store,
        tolerance_s: u64,
        is_hub: bool,
        now_ms: u64,
    ) -> Result<Self, Error> {
        // A sender whose clock is ahead makes signatures that are valid for up to twice the
        // tolerance.
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

    /// Records the use of a signature that is valid until the second `until`.
    pub(super) fn take(&self, mac: Mac, until: u64, now_s: u64) -> SignatureUse {
        let mut all = self.all();
        if all.len() >= SEEN_MAX {
            all.retain(|_, until| *until >= now_s);
        }
        if all.get(&mac).is_some_and(|until| *until >= now_s) {
            return SignatureUse::Again;
        }
        if all.len() >= SEEN_MAX {
            return SignatureUse::Full;
        }
        all.insert(mac, until);
        SignatureUse::First
    }

    /// Makes a signature usable again, since its request failed.
    pub(super) fn forget(&self, mac: Mac) {
        self.all().remove(&mac);
    }
}

/// Returns the number of the first event at this time or later. The log is ordered by arrival.
fn first_since(store: &Store, at_ms: u64) -> Result<u64, Error> {
    let (mut low, mut high) = store.log()?;
    while low < high {
        let middle = low + (high - low) / 2;
        // The log has gaps, left by removed events of senders with too many.
        match store.events(middle)?.next().transpose()? {
            Some(event) if event.at_ms < at_ms => low = event.sequence + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// Returns the signatures in the headers of an event's request.
fn signatures(event: &Event) -> Vec<RequestSignature> {
    if !event.tag.starts_with(BASE) {
        return Vec::new();
    }
    let headers = event.data.get("headers").and_then(Value::as_map);
    let shown = headers.into_iter().flat_map(value::Map::iter);
    shown
        .filter_map(|(name, text)| RequestSignature::of_header(name.as_str()?, text.as_str()?))
        .collect()
}
