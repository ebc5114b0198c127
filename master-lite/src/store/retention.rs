//! [`Store::retain`]: old events and jobs go, a few at a time; where there are too many, the oldest ones of whoever has most.

use super::command::{Applied, Command};
use super::{Error, Store};

/// How many rows go in one step: others get their turn in between.
const STEP: u64 = 1024;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    /// How many events.
    pub(crate) events: u64,
    /// How much they may be together.
    pub(crate) events_bytes: u64,
    /// How old an event may be.
    pub(crate) events_seconds: u64,
    /// How old a job may be: Salt's `keep_jobs_seconds`. 0 keeps them for ever.
    pub(crate) jobs_seconds: u64,
    /// How much jobs and returns may be together.
    pub(crate) jobs_bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            events: 1_000_000,
            events_bytes: 256 << 20,
            events_seconds: 7 * 86_400,
            jobs_seconds: 86_400,
            jobs_bytes: 1 << 30,
        }
    }
}

impl Store {
    /// Lets one step of what is too old, or too much, go. True when there is more of it.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub(crate) async fn retain(&self, keep: Retention, now_ms: u64) -> Result<bool, Error> {
        let store = self.clone();
        let before = smol::unblock(move || store.events_before(keep, now_ms)).await?;
        let limit = STEP;
        let events = self.apply(Command::EventsDropped { before, limit }).await?;
        let mut more = before_more(&events);
        let trimmed = self.apply(Command::EventsTrimmed {
            events: keep.events,
            bytes: keep.events_bytes,
            limit,
        });
        more |= before_more(&trimmed.await?);
        if keep.jobs_seconds > 0 {
            let before_ms = now_ms.saturating_sub(keep.jobs_seconds.saturating_mul(1000));
            let jobs = self.apply(Command::JobsDropped { before_ms, limit });
            more |= before_more(&jobs.await?);
        }
        let bytes = keep.jobs_bytes;
        let trimmed = self.apply(Command::JobsTrimmed { bytes, limit });
        more |= before_more(&trimmed.await?);
        Ok(more)
    }

    /// The event before which the next step's events end that are too old, and one more when there are more.
    fn events_before(&self, keep: Retention, now_ms: u64) -> Result<u64, Error> {
        let mut before = self.log_row()?.first;
        let oldest_ms = now_ms.saturating_sub(keep.events_seconds.saturating_mul(1000));
        for event in self.events(before)?.take(STEP as usize + 1) {
            let event = event?;
            if event.at_ms >= oldest_ms {
                break;
            }
            before = before.max(event.sequence + 1);
        }
        Ok(before)
    }

    /// Returns whether there is more in the store than may stay, whatever its age.
    pub(crate) fn is_over(&self, keep: Retention) -> bool {
        let usage = *self.shared.usage();
        usage.events > keep.events
            || usage.events_bytes > keep.events_bytes
            || usage.jobs_bytes > keep.jobs_bytes
    }
}

fn before_more(applied: &Applied) -> bool {
    matches!(applied, Applied::Dropped { more: true, .. })
}
