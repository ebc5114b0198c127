//! [`Store::retain`]: the oldest events and jobs go, a few at a time.

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
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            events: 1_000_000,
            events_bytes: 256 << 20,
            events_seconds: 7 * 86_400,
            jobs_seconds: 86_400,
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
        if keep.jobs_seconds > 0 {
            let before_ms = now_ms.saturating_sub(keep.jobs_seconds.saturating_mul(1000));
            let jobs = self.apply(Command::JobsDropped { before_ms, limit });
            more |= before_more(&jobs.await?);
        }
        Ok(more)
    }

    /// The event before which the next step's events end, and one more when there are more.
    fn events_before(&self, keep: Retention, now_ms: u64) -> Result<u64, Error> {
        let log = self.log_row()?;
        let too_many = (log.next - log.first).saturating_sub(keep.events);
        let mut before = log.first + too_many;
        let mut bytes = log.bytes;
        let oldest_ms = now_ms.saturating_sub(keep.events_seconds.saturating_mul(1000));
        // What must go for its number alone needs no look.
        if too_many > STEP {
            return Ok(before);
        }
        for event in self.sized_events(log.first)?.take(STEP as usize + 1) {
            let (event, length) = event?;
            let is_old = event.at_ms < oldest_ms;
            if !is_old && bytes <= keep.events_bytes {
                break;
            }
            bytes = bytes.saturating_sub(length as u64);
            before = before.max(event.sequence + 1);
        }
        Ok(before)
    }
}

fn before_more(applied: &Applied) -> bool {
    matches!(applied, Applied::Dropped { more: true, .. })
}
