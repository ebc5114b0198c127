//! The events that are handed over in one call: which ones they are, how many, and when.

use std::time::{Duration, Instant};

use modules::returners::follow::Record;
use value::glob::fnmatch;
use value::{Map, secret};

use crate::store::{Error, Event};

/// The maximum number of events in one call of a returner. It also limits `event_return_queue`.
pub(super) const EVENTS_MAX: usize = 1000;
/// The size in bytes at which a batch takes no further event.
pub(super) const BYTES_MAX: usize = 4 << 20;
/// The maximum number of events that one read of the log examines.
pub(super) const READ_MAX: usize = 1000;

/// The tags whose events are handed over.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    /// Globs of which one must match, if there are any (`event_return_whitelist`).
    pub(super) only: Vec<String>,
    /// Globs of which none may match (`event_return_blacklist`).
    pub(super) never: Vec<String>,
}

impl Filter {
    /// Returns whether events with this tag are handed over.
    pub(super) fn is_wanted(&self, tag: &str) -> bool {
        let has = |globs: &[String]| globs.iter().any(|glob| fnmatch(glob, tag));
        (self.only.is_empty() || has(&self.only)) && !has(&self.never)
    }
}

/// The number of events that wait for each other, and the time for which they wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    least: usize,
    longest: Option<Duration>,
}

impl Queue {
    /// Returns the queue of the options `event_return_queue` and `event_return_queue_max_seconds`. A
    /// number of seconds below 1 is no limit.
    pub(super) fn new(least: Option<i64>, seconds: Option<i64>) -> Self {
        let least = usize::try_from(least.unwrap_or(0)).unwrap_or(0);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            least: least.clamp(1, EVENTS_MAX),
            longest: seconds
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
        }
    }
}

/// The events that were read and not handed over yet.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) records: Vec<Record>,
    bytes: usize,
    since: Option<Instant>,
}

impl Batch {
    /// Returns the number of events that the batch can still take.
    pub(super) fn room(&self) -> usize {
        match self.bytes < BYTES_MAX {
            true => EVENTS_MAX.saturating_sub(self.records.len()),
            false => 0,
        }
    }

    /// Adds the events of a page.
    pub(super) fn add(&mut self, page: Page) {
        if page.events.is_empty() {
            return;
        }
        self.since.get_or_insert_with(Instant::now);
        self.bytes += page.bytes;
        self.records.extend(page.events);
    }

    /// Returns the time at which the events are handed over even if no more arrive; `None` if there
    /// is no such time.
    pub(super) fn due(&self, queue: Queue) -> Option<Instant> {
        let since = self.since?;
        match self.records.len() >= queue.least || self.room() == 0 {
            true => Some(since),
            false => queue.longest.map(|longest| since + longest),
        }
    }
}

/// Events that were dropped from the log before they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) count: u64,
    pub(super) first: u64,
    pub(super) last: u64,
}

/// A part of the log, from which one read returns the wanted events.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The wanted events.
    pub(super) events: Vec<Record>,
    bytes: usize,
    /// The number of the first event after the page.
    pub(super) next: u64,
    /// The events that the log does not have any more. Events are dropped by their holder, so there
    /// may be gaps anywhere.
    pub(super) lost: Option<Lost>,
}

impl Page {
    /// Reads events from the number `from` on and before `end`, at most `room` wanted ones.
    pub(super) fn read(
        log: impl Iterator<Item = Result<(Event, usize), Error>>,
        (from, end): (u64, u64),
        filter: &Filter,
        room: usize,
    ) -> Result<Self, Error> {
        let mut page = Self {
            next: from,
            ..Self::default()
        };
        for (examined, event) in log.enumerate() {
            if page.events.len() >= room || page.bytes >= BYTES_MAX || examined >= READ_MAX {
                return Ok(page);
            }
            let (event, bytes) = event?;
            if event.sequence >= end {
                break;
            }
            page.lose(event.sequence);
            page.next = event.sequence + 1;
            if filter.is_wanted(&event.tag) {
                page.bytes += bytes;
                page.events.push(handed(&event));
            }
        }
        page.lose(end);
        page.next = end;
        Ok(page)
    }

    /// Notes that the log has no events from the page's end to the number `upto`.
    fn lose(&mut self, upto: u64) {
        let missing = upto.saturating_sub(self.next);
        if missing == 0 {
            return;
        }
        let (count, first) = match self.lost {
            Some(lost) => (lost.count, lost.first),
            None => (0, self.next),
        };
        self.lost = Some(Lost {
            count: count + missing,
            first,
            last: upto - 1,
        });
    }
}

/// Returns an event in the form that returners get, with secrets masked.
fn handed(event: &Event) -> Record {
    let data = secret::event(event.stamped());
    let tag = secret::text(&event.tag).into_owned();
    Record {
        sequence: event.sequence,
        event: Map::new().with("data", data).with("tag", tag).into(),
    }
}
