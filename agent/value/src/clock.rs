//! The machine's clock.

use std::time::{Duration, SystemTime};

/// Returns the time since the Unix epoch; zero if the clock shows an earlier time.
#[must_use]
pub fn since_epoch() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}

/// Returns the time since the Unix epoch in milliseconds.
#[must_use]
pub fn now_ms() -> u64 {
    u64::try_from(since_epoch().as_millis()).unwrap_or(u64::MAX)
}
