//! [`Warnings`]: the warnings about requests that strangers, or damaged masters, may send at any rate.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use value::log;

use super::lock;

/// The maximum number of warnings in each interval.
const MOST: u64 = 20;
const INTERVAL: Duration = Duration::from_secs(60);

/// A limit for warnings, so that no sender can fill the log.
#[derive(Default)]
pub(super) struct Warnings(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    since: Option<Instant>,
    all: u64,
}

impl Warnings {
    /// Writes a warning, unless there were too many in this interval.
    pub(super) fn warn(&self, text: fmt::Arguments<'_>) {
        let Some(left_out) = self.left_out(Instant::now()) else {
            return;
        };
        if left_out > 0 {
            log::warning(format_args!(
                "{left_out} warnings about requests to the port of the cluster were left out"
            ));
        }
        log::warning(text);
    }

    /// Returns the number of warnings that were left out before one that is to be written; `None` if it
    /// is left out, too.
    fn left_out(&self, now: Instant) -> Option<u64> {
        let mut counts = lock(&self.0);
        let is_current = |since: &Instant| now.saturating_duration_since(*since) < INTERVAL;
        if counts.since.filter(is_current).is_none() {
            let before = counts.all.saturating_sub(MOST);
            *counts = Counts {
                since: Some(now),
                all: 1,
            };
            return Some(before);
        }
        counts.all += 1;
        (counts.all <= MOST).then_some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let (warnings, now) = (Warnings::default(), Instant::now());
        for _ in 0..MOST {
            assert_eq!(warnings.left_out(now), Some(0));
        }
        for _ in 0..1000 {
            assert_eq!(warnings.left_out(now + Duration::from_secs(1)), None);
        }
        assert_eq!(warnings.left_out(now + INTERVAL), Some(1000));
        assert_eq!(warnings.left_out(now + INTERVAL), Some(0));
    }
}
