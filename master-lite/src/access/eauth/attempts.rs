//! [`Attempts`]: slows down those who guess passwords.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Credentials;

/// The failures that cost nothing: of one user from one origin, and of one origin or user in all.
const FREE_EACH: u32 = 3;
const FREE_ALL: u32 = 20;
/// The longest delay in seconds of a user from one origin, or of an origin.
const DELAY_MAX_S: u64 = 60;
/// The longest delay in seconds of a user from all origins. It is short, so that others cannot keep a
/// user away.
const DELAY_OF_USER_MAX_S: u64 = 4;
/// The time after which failures are forgotten.
const MEMORY: Duration = Duration::from_secs(600);
/// The maximum number of counters. Beyond it, the oldest is forgotten.
const COUNTERS_MAX: usize = 4096;
/// The number of passwords of one user from one origin that may be checked at the same time. Each more
/// counts as a failure.
const FREE_AT_ONCE: u32 = 8;

/// The failures by user and origin.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<HashMap<Key, Counter>>);

/// The thing that is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Both(String, String),
    Origin(String),
    User(String),
}

impl Key {
    /// Returns the delay in seconds after a number of failures.
    fn delay_s(&self, failures: u32) -> u64 {
        let (free, max) = match self {
            Self::Both(..) => (FREE_EACH, DELAY_MAX_S),
            Self::Origin(_) => (FREE_ALL, DELAY_MAX_S),
            Self::User(_) => (FREE_ALL, DELAY_OF_USER_MAX_S),
        };
        match failures.checked_sub(free) {
            None => 0,
            Some(more) => 1_u64.checked_shl(more.min(30)).unwrap_or(max).min(max),
        }
    }
}

#[derive(Debug)]
struct Counter {
    failures: u32,
    running: u32,
    at: Instant,
}

/// A password that is being checked.
pub(super) struct Attempt<'a> {
    attempts: &'a Attempts,
    keys: [Key; 3],
}

impl Attempts {
    fn counters(&self) -> MutexGuard<'_, HashMap<Key, Counter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to check a password, or returns the number of seconds until it may be checked.
    pub(super) fn begin(
        &self,
        shown: &Credentials,
        from: &str,
        now: Instant,
    ) -> Result<Attempt<'_>, u64> {
        let user = format!("{}/{}", shown.eauth, shown.username);
        let keys = [
            Key::Both(user.clone(), from.to_owned()),
            Key::Origin(from.to_owned()),
            Key::User(user),
        ];
        let mut counters = self.counters();
        let left = keys.iter().map(|key| left_s(&counters, key, now)).max();
        if let Some(left) = left.filter(|left| *left > 0) {
            return Err(left);
        }
        make_room(&mut counters, now);
        for key in &keys {
            let counter = counters.entry(key.clone()).or_insert(Counter {
                failures: 0,
                running: 0,
                at: now,
            });
            counter.running = counter.running.saturating_add(1);
        }
        Ok(Attempt {
            attempts: self,
            keys,
        })
    }
}

/// Returns the number of seconds for which a key must wait.
fn left_s(counters: &HashMap<Key, Counter>, key: &Key, now: Instant) -> u64 {
    let Some(counter) = counters.get(key) else {
        return 0;
    };
    let at_once = match key {
        Key::Both(..) => counter.running.saturating_sub(FREE_AT_ONCE),
        Key::Origin(_) | Key::User(_) => 0,
    };
    let since = now.saturating_duration_since(counter.at);
    if at_once == 0 && since >= MEMORY {
        return 0;
    }
    let delay = key.delay_s(counter.failures.saturating_add(at_once));
    Duration::from_secs(delay)
        .saturating_sub(since)
        .as_millis()
        .div_ceil(1000) as u64
}

/// Forgets old counters, and the oldest if there are too many.
fn make_room(counters: &mut HashMap<Key, Counter>, now: Instant) {
    if counters.len() < COUNTERS_MAX {
        return;
    }
    counters.retain(|_, counter| {
        counter.running > 0 || now.saturating_duration_since(counter.at) < MEMORY
    });
    while counters.len() >= COUNTERS_MAX {
        let idle = counters.iter().filter(|(_, counter)| counter.running == 0);
        let oldest = idle.min_by_key(|(_, counter)| counter.at);
        let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
            return;
        };
        counters.remove(&oldest);
    }
}

impl Attempt<'_> {
    /// Forgets the failures of the user.
    pub(super) fn succeeded(self) {
        let mut counters = self.attempts.counters();
        for key in &self.keys {
            if !matches!(key, Key::Origin(_))
                && let Some(counter) = counters.get_mut(key)
            {
                counter.failures = 0;
            }
        }
    }

    /// Counts a failure.
    pub(super) fn failed(self, now: Instant) {
        let mut counters = self.attempts.counters();
        for key in &self.keys {
            if let Some(counter) = counters.get_mut(key) {
                if now.saturating_duration_since(counter.at) >= MEMORY {
                    counter.failures = 0;
                }
                counter.failures = counter.failures.saturating_add(1);
                counter.at = now;
            }
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut counters = self.attempts.counters();
        for key in &self.keys {
            let Some(counter) = counters.get_mut(key) else {
                continue;
            };
            counter.running = counter.running.saturating_sub(1);
            if counter.running == 0 && counter.failures == 0 {
                counters.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Secret;

    fn shown(name: &str) -> Credentials {
        Credentials {
            eauth: "file".into(),
            username: name.into(),
            password: Secret::new("x"),
            expire_s: None,
        }
    }

    fn fail(attempts: &Attempts, name: &str, from: &str, now: Instant) -> Result<(), u64> {
        attempts
            .begin(&shown(name), from, now)
            .map(|attempt| attempt.failed(now))
    }

    #[test]
    fn the_delay_doubles_after_a_few_failures_and_ends_with_a_success() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        for _ in 0..FREE_EACH {
            assert_eq!(fail(&attempts, "joe", "a", start), Ok(()));
        }
        assert_eq!(fail(&attempts, "joe", "a", start), Err(1));
        let second = |number| start + Duration::from_secs(number);
        assert_eq!(fail(&attempts, "joe", "a", second(1)), Ok(()));
        assert_eq!(fail(&attempts, "joe", "a", second(2)), Err(1));
        assert_eq!(fail(&attempts, "joe", "b", second(2)), Ok(()));
        assert_eq!(fail(&attempts, "ann", "a", second(2)), Ok(()));
        let attempt = attempts.begin(&shown("joe"), "a", second(3));
        attempt.ok().unwrap().succeeded();
        assert_eq!(fail(&attempts, "joe", "a", second(3)), Ok(()));
    }

    #[test]
    fn an_origin_that_tries_many_users_is_slowed_down_for_all() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        for number in 0..FREE_ALL {
            assert_eq!(fail(&attempts, &format!("u{number}"), "a", start), Ok(()));
        }
        assert_eq!(fail(&attempts, "new", "a", start), Err(1));
        assert_eq!(fail(&attempts, "new", "b", start), Ok(()));
    }

    #[test]
    fn many_origins_can_delay_a_user_for_some_seconds_only() {
        let (attempts, mut now) = (Attempts::default(), Instant::now());
        for number in 0..100 {
            if let Err(left) = fail(&attempts, "joe", &format!("o{number}"), now) {
                assert!(left <= DELAY_OF_USER_MAX_S);
                now += Duration::from_secs(left);
            }
        }
        let left = fail(&attempts, "joe", "mine", now)
            .err()
            .unwrap_or_default();
        assert!(left <= DELAY_OF_USER_MAX_S, "{left}");
    }

    #[test]
    fn passwords_that_are_checked_at_the_same_time_count_before_they_fail() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        let mut running = Vec::new();
        while let Ok(attempt) = attempts.begin(&shown("joe"), "a", start) {
            running.push(attempt);
            assert!(running.len() < 100);
        }
        assert_eq!(running.len(), (FREE_AT_ONCE + FREE_EACH) as usize);
        drop(running);
        assert!(attempts.counters().is_empty());
    }

    #[test]
    fn counters_take_a_bounded_room() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        for number in 0..COUNTERS_MAX {
            let name = format!("u{number}");
            assert_eq!(fail(&attempts, &name, &name, start), Ok(()));
        }
        assert!(attempts.counters().len() <= COUNTERS_MAX + 2);
    }
}
