//! [`EventLog`]: the events of one run, for its steps that wait for events.
//!
//! A run with such a step listens from its start, so that it does not miss an event that is fired
//! before the step runs. An event that one step has waited for does not end the wait of a later
//! step of the same run; steps that run in parallel share it. The log is a field of the run and is
//! dropped with it. Its events are also recorded in the run's record, so that a resumed run still
//! has them.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use value::glob::fnmatch;
use value::json::{self, Layout};
use value::{Map, log};

use crate::compile::Plan;
use crate::exec::Exec;
use crate::low::is_wait;
use crate::module::Error;
use crate::record::{Event, EventSource, ReceivedEvents, Record};
use crate::targets::Subscription;

/// The maximum number of events that a run keeps for its waiting steps.
const EVENTS_MAX: usize = 10_000;

/// The maximum total size of these events as JSON, in bytes.
const BYTES_MAX: usize = 32 << 20;

/// The prefix of a value that is only known when its step runs.
const SLOT: &str = "__slot__:";

/// The relevance of an event for a waiting step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The event does not matter.
    Other,
    /// The event is a part of what the step waits for.
    Part,
    /// The event completes what the step waits for.
    All,
}

/// The subscription of one run, and the events that its steps wait for.
pub struct EventLog {
    listener: Arc<Listener>,
    subscription: Box<dyn Subscription>,
}

/// The receiving end of a subscription.
struct Listener {
    /// The tag patterns that the run's steps wait for.
    wanted: Vec<String>,
    buffer: Mutex<Buffer>,
    arrived: Condvar,
}

#[derive(Default)]
struct Buffer {
    events: Vec<Event>,
    bytes: usize,
    /// The number of the next event, if the bus does not number events.
    next: u64,
    /// The numbers of the events that steps have waited for.
    taken: BTreeSet<u64>,
    is_full: bool,
    /// The number of events that the record contained from the start.
    noted: usize,
    /// The record that stores the events, and the part of it that belongs to this run.
    record: Option<(Arc<Record>, String)>,
}

/// Returns the tag patterns that the steps of a plan wait for.
fn wanted(plan: &Plan) -> Vec<String> {
    let chunks = plan.chunks().iter();
    let waits = chunks.filter(|low| is_wait(&low.state, &low.fun));
    let pattern = |name: &String| match name.starts_with(SLOT) {
        true => "*".to_owned(),
        false => name.clone(),
    };
    waits.map(|low| pattern(&low.name)).collect()
}

impl EventLog {
    /// Subscribes if a plan has steps that wait for events. The log starts with the events that an
    /// earlier call of the same run has received.
    ///
    /// # Errors
    /// When the subscription fails.
    pub fn open(cx: &Exec, plan: &Plan, heard: ReceivedEvents) -> Result<Option<Arc<Self>>, Error> {
        let wanted = wanted(plan);
        if wanted.is_empty() || cx.test {
            return Ok(None);
        }
        Self::subscribe(cx, wanted, heard).map(Arc::new).map(Some)
    }

    /// Subscribes for one step, if its run has no log.
    ///
    /// # Errors
    /// When the subscription fails.
    pub fn of_step(cx: &Exec, name: &str) -> Result<Self, Error> {
        Self::subscribe(cx, vec![name.to_owned()], ReceivedEvents::default())
    }

    fn subscribe(cx: &Exec, wanted: Vec<String>, heard: ReceivedEvents) -> Result<Self, Error> {
        let from = heard.next;
        let listener = Arc::new(Listener {
            wanted,
            buffer: Mutex::new(Buffer::from_received(heard)),
            arrived: Condvar::new(),
        });
        let sink = Arc::clone(&listener);
        let subscription = cx.shared.targets.subscribe(
            cx,
            from,
            Box::new(move |number, tag, data| sink.take(number, tag, data)),
        )?;
        Ok(Self {
            listener,
            subscription,
        })
    }

    /// Records the events received so far, and all later ones.
    pub fn note_in(self: &Arc<Self>, record: &Arc<Record>, part: &str) {
        let source: Arc<dyn EventSource> = self.clone();
        record.add_source(&source);
        let mut buffer = self.listener.lock();
        if let Some(start) = self.subscription.start() {
            record.hears(part, start);
        }
        let new = buffer.events.iter().skip(buffer.noted);
        new.for_each(|event| record.heard(part, event));
        buffer.record = Some((Arc::clone(record), part.to_owned()));
    }

    /// Passes the events since the start of the run to `look`. Returns true when `look` reports
    /// that nothing is missing any more, or false at the deadline.
    ///
    /// # Errors
    /// When the run cannot keep more events.
    pub fn wait(
        &self,
        step: &str,
        deadline: Instant,
        look: &mut dyn FnMut(&Event) -> Seen,
    ) -> Result<bool, Error> {
        let mut buffer = self.listener.lock();
        let before = buffer.taken.clone();
        let (mut next, mut taken) = (0, Vec::new());
        let complete = loop {
            let complete = buffer.look(&mut next, &before, &mut taken, look);
            let left = deadline.saturating_duration_since(Instant::now());
            if complete || left.is_zero() {
                break complete;
            }
            if buffer.is_full {
                return Err(full());
            }
            let waited = self.listener.arrived.wait_timeout(buffer, left);
            buffer = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        buffer.took(step, &taken);
        Ok(complete)
    }
}

impl EventSource for EventLog {
    fn catch_up(&self) {
        self.subscription.catch_up();
    }
}

fn full() -> Error {
    Error::refused(format!(
        "this run keeps at most {EVENTS_MAX} events and {BYTES_MAX} bytes of those that its steps wait for, and more arrived: wait for more specific tags"
    ))
}

impl Listener {
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an event if a step waits for its tag.
    fn take(&self, number: Option<u64>, tag: String, data: Map) {
        if self.wanted.iter().any(|pattern| fnmatch(pattern, &tag)) {
            self.lock().add(number, tag, data);
            self.arrived.notify_all();
        }
    }
}

impl Buffer {
    fn from_received(heard: ReceivedEvents) -> Self {
        let taken = heard.taken.values().flatten().copied();
        let numbers = heard.events.iter().map(|event| event.number).chain(taken);
        Self {
            next: numbers.max().map_or(0, |last| last + 1),
            taken: heard.taken.into_values().flatten().collect(),
            noted: heard.events.len(),
            events: heard.events,
            ..Self::default()
        }
    }

    fn add(&mut self, number: Option<u64>, tag: String, data: Map) {
        let number = number.unwrap_or(self.next);
        if self.is_full || number < self.next {
            return;
        }
        let bytes = tag.len() + json::write(&data.clone().into(), Layout::default()).len();
        if self.events.len() >= EVENTS_MAX || self.bytes + bytes > BYTES_MAX {
            self.is_full = true;
            return log::error(full());
        }
        let event = Event { number, tag, data };
        if let Some((record, part)) = &self.record {
            record.heard(part, &event);
        }
        self.next = number + 1;
        self.bytes += bytes;
        self.events.push(event);
    }

    /// Passes the events from `next` on to `look`, except those that an earlier step has waited for.
    /// Returns true when nothing is missing any more.
    fn look(
        &self,
        next: &mut usize,
        before: &BTreeSet<u64>,
        taken: &mut Vec<u64>,
        look: &mut dyn FnMut(&Event) -> Seen,
    ) -> bool {
        while let Some(event) = self.events.get(*next) {
            *next += 1;
            let seen = match before.contains(&event.number) {
                true => Seen::Other,
                false => look(event),
            };
            if seen != Seen::Other {
                taken.push(event.number);
            }
            if seen == Seen::All {
                return true;
            }
        }
        false
    }

    /// Records which events a step has waited for.
    fn took(&mut self, step: &str, numbers: &[u64]) {
        self.taken.extend(numbers);
        if let (Some((record, part)), false) = (&self.record, numbers.is_empty()) {
            record.took(part, step, numbers);
        }
    }
}

impl std::fmt::Debug for EventLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventLog")
            .field("wanted", &self.listener.wanted)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct Quiet;

    impl Subscription for Quiet {}

    fn log_of(wanted: &str) -> Arc<EventLog> {
        let listener = Listener {
            wanted: vec![wanted.to_owned()],
            buffer: Mutex::default(),
            arrived: Condvar::new(),
        };
        Arc::new(EventLog {
            listener: Arc::new(listener),
            subscription: Box::new(Quiet),
        })
    }

    fn fire(log: &EventLog, tag: &str) {
        log.listener.take(None, tag.to_owned(), Map::new());
    }

    fn soon(milliseconds: u64) -> Instant {
        Instant::now() + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_step_that_waits_is_woken_by_its_event_and_a_later_one_waits_for_another() {
        let log = log_of("my/*");
        let firing = Arc::clone(&log);
        let fires = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            fire(&firing, "other");
            fire(&firing, "my/tag");
        });
        let started = Instant::now();
        let seen = log.wait("a", soon(10_000), &mut |_| Seen::All);
        assert!(seen.unwrap() && started.elapsed() < Duration::from_secs(5));
        fires.join().unwrap();
        assert!(!log.wait("b", soon(20), &mut |_| Seen::All).unwrap());
    }

    #[test]
    fn a_run_that_cannot_keep_more_events_fails_its_steps_that_wait() {
        let log = log_of("*");
        (0..=EVENTS_MAX).for_each(|_| fire(&log, "tag"));
        let error = log.wait("a", soon(10_000), &mut |_| Seen::Other);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("at most 10000 events"), "{error}");
        assert_eq!(log.listener.lock().events.len(), EVENTS_MAX);
    }
}
