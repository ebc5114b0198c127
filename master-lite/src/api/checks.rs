//! [`Checks`]: whether the tokens of streams are still valid. The streams of one token share its check,
//! so that an event for a thousand streams does not read the token a thousand times.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use value::log;
use wire::Secret;

use crate::access::Access;
use crate::access::eauth::sessions;
use crate::store::Store;

/// The time for which a check counts. If a token has expired, its account is locked, or another master
/// has removed it, its streams end with the first event after this time, or with the next pulse. A
/// token that this master removes ends them at the next event.
const COUNTS: Duration = Duration::from_secs(1);

/// The tokens that streams have.
#[derive(Default)]
pub(super) struct Checks(Mutex<HashMap<String, Weak<Checked>>>);

/// A token, and the result of its last check.
pub(super) struct Checked {
    access: Access,
    store: Store,
    token: Secret,
    peer: String,
    last: smol::lock::Mutex<Last>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    is_valid: bool,
    at: Instant,
    /// The number of tokens that this master had removed.
    removed: u64,
}

impl Last {
    /// Returns true if the check still counts.
    fn counts(&self, now: Instant, removed: u64) -> bool {
        // A token that was removed does not come back.
        !self.is_valid
            || (self.removed == removed && now.saturating_duration_since(self.at) < COUNTS)
    }
}

impl Checks {
    /// Returns the check of a token, which the request has just shown to be valid. Returns `None` if the
    /// token has no name in the store: without one, it would share the check of another token.
    pub(super) fn of(&self, access: &Access, token: &Secret, peer: &str) -> Option<Arc<Checked>> {
        let name = sessions::name_of(token.reveal())?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&name).and_then(Weak::upgrade) {
            return Some(known);
        }
        all.retain(|_, check| check.strong_count() > 0);
        let check = Arc::new(Checked::new(access, token, peer));
        all.insert(name, Arc::downgrade(&check));
        Some(check)
    }
}

impl Checked {
    fn new(access: &Access, token: &Secret, peer: &str) -> Self {
        // A token may have been removed since the request has shown it, so the first event checks it.
        let last = Last {
            is_valid: true,
            at: Instant::now(),
            removed: u64::MAX,
        };
        Self {
            access: access.clone(),
            store: access.store.clone(),
            token: token.clone(),
            peer: peer.to_owned(),
            last: smol::lock::Mutex::new(last),
        }
    }

    /// Returns true if the token is valid.
    pub(super) async fn is_valid(&self) -> bool {
        let removed = self.store.tokens_removed();
        // No deadline: a check reads a row and, for PAM, a file.
        let mut last = self.last.lock().await;
        if !last.counts(Instant::now(), removed) {
            let is_valid = self.access.user_of(&self.token, &self.peer).await.is_ok();
            if !is_valid {
                log::debug(format_args!("{}: a token is no longer valid", self.peer));
            }
            *last = Last {
                is_valid,
                at: Instant::now(),
                removed,
            };
        }
        last.is_valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_counts_for_a_second_unless_a_token_was_removed() {
        let at = Instant::now();
        let last = |is_valid| Last {
            is_valid,
            at,
            removed: 3,
        };
        let soon = at + COUNTS - Duration::from_millis(1);
        assert!(last(true).counts(soon, 3));
        assert!(!last(true).counts(soon, 4));
        assert!(!last(true).counts(at + COUNTS, 3));
        assert!(last(false).counts(at + COUNTS * 9, 4));
    }
}
