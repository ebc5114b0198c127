//! [`Store::retain`] removes old events and jobs, a few at a time. When there are too many, it
//! removes the oldest ones of the holders with most.

use super::command::{Applied, Command};
use super::holders::{Holders, Size};
use super::trim::Excess;
use super::{Error, Store};

/// The maximum number of rows that one command of a step removes, so that other commands run in
/// between.
const STEP: u64 = 1024;

/// The limits of the stored events and jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    /// The maximum number of events.
    pub(crate) events: u64,
    /// The maximum total size of the events in bytes.
    pub(crate) events_bytes: u64,
    /// The maximum age of an event in seconds.
    pub(crate) events_seconds: u64,
    /// The maximum age of a job in seconds: Salt's `keep_jobs_seconds`. 0 keeps jobs without end.
    pub(crate) jobs_seconds: u64,
    /// The maximum total size of jobs and returns in bytes.
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
    /// Removes, in one step, events and jobs that are too old or too many. Returns true if more of
    /// them are left.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read or written.
    pub(crate) async fn retain(&self, keep: Retention, now_ms: u64) -> Result<bool, Error> {
        let store = self.clone();
        let before = smol::unblock(move || store.events_before(keep, now_ms)).await?;
        let limit = STEP;
        let events = self.apply(Command::EventsDropped { before, limit }).await?;
        let mut more = is_whole_step(&events);
        more |= self.trim(move |store| store.excess_events(keep)).await?;
        if keep.jobs_seconds > 0 {
            let before_ms = now_ms.saturating_sub(keep.jobs_seconds.saturating_mul(1000));
            let jobs = self.apply(Command::JobsDropped { before_ms, limit });
            more |= is_whole_step(&jobs.await?);
        }
        more |= self.trim(move |store| store.excess_jobs(keep)).await?;
        Ok(more)
    }

    /// Removes the rows that `choose` chooses. Returns true if more rows are to be removed.
    async fn trim(
        &self,
        choose: impl FnOnce(&Self) -> Result<Excess, Error> + Send + 'static,
    ) -> Result<bool, Error> {
        let store = self.clone();
        let excess = smol::unblock(move || choose(&store)).await?;
        if let Some(removal) = excess.removal
            && let Err(error) = self.apply(removal).await
        {
            self.shared.forget_searched();
            return Err(error);
        }
        Ok(excess.has_more)
    }

    /// Returns the number of the first event that is not too old, or of one that a step does not
    /// reach.
    fn events_before(&self, keep: Retention, now_ms: u64) -> Result<u64, Error> {
        let mut before = self.log_row()?.first;
        let oldest_ms = now_ms.saturating_sub(keep.events_seconds.saturating_mul(1000));
        for event in self.events(before)?.take(STEP as usize) {
            let event = event?;
            if event.at_ms >= oldest_ms {
                break;
            }
            before = before.max(event.sequence + 1);
        }
        Ok(before)
    }

    /// Returns whether the store holds more than may stay, apart from limits on age.
    pub(crate) fn is_over(&self, keep: Retention) -> bool {
        let sizes = self.shared.sizes();
        let is_over = |holders: &Holders, most| holders.all().is_over(most);
        is_over(&sizes.events, keep.most_events()) || is_over(&sizes.jobs, keep.most_jobs())
    }
}

impl Retention {
    pub(super) fn most_events(self) -> Size {
        Size {
            rows: self.events,
            bytes: self.events_bytes,
        }
    }

    pub(super) fn most_jobs(self) -> Size {
        Size {
            rows: u64::MAX,
            bytes: self.jobs_bytes,
        }
    }
}

/// Returns whether a command removed as many rows as it may, so that more of them can be left.
fn is_whole_step(applied: &Applied) -> bool {
    matches!(applied, Applied::Dropped { rows } if *rows >= STEP)
}
