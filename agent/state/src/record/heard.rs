//! The events that a run has received for its steps that wait for events, and which of them each
//! step has consumed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use value::{Map, Value};

use super::{Record, Recorded};
use crate::low::is_wait_tag;

/// One event that a run keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its number: in the event bus's own log, or else in this run.
    pub number: u64,
    /// Its tag.
    pub tag: String,
    /// Its data.
    pub data: Map,
}

/// The events that a run receives for its steps.
pub(crate) trait EventSource: Send + Sync {
    /// Receives every event that was fired before this call.
    fn catch_up(&self);
}

/// The sources of the events that are recorded.
#[derive(Default)]
pub(super) struct EventSources(Mutex<Vec<Weak<dyn EventSource>>>);

impl std::fmt::Debug for EventSources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventSources").finish_non_exhaustive()
    }
}

/// The events that a part of a run has received.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReceivedEvents {
    /// The number in the event bus's log from which the part continues to listen. `None` if the bus
    /// has no log, or if the events that follow will be fired again.
    pub next: Option<u64>,
    /// The received events.
    pub events: Vec<Event>,
    /// The numbers of the events that each step has waited for, by step.
    pub taken: BTreeMap<String, Vec<u64>>,
    /// The tags of the steps that have returned, in order.
    returned: Vec<String>,
    /// The number of steps that had returned when each event arrived.
    after: Vec<usize>,
}

impl Record {
    /// Registers a source of events. Before each return is recorded, the source receives the events
    /// that were fired so far.
    pub(crate) fn add_source(&self, source: &Arc<dyn EventSource>) {
        let mut sources = self
            .sources
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        sources.retain(|source| source.strong_count() > 0);
        sources.push(Arc::downgrade(source));
    }

    /// Records the events that a step has fired, before its return is recorded: the step will not
    /// fire them again.
    pub(super) fn catch_up(&self) {
        let sources = self
            .sources
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let sources: Vec<_> = sources.iter().filter_map(Weak::upgrade).collect();
        sources.iter().for_each(|source| source.catch_up());
    }

    /// Records the number in the event bus's log from which a part listens.
    pub(crate) fn hears(&self, part: &str, next: u64) {
        self.write(&Map::new().with("hears", next).with("in", part));
    }

    /// Records an event.
    pub(crate) fn heard(&self, part: &str, event: &Event) {
        let entry = Map::new()
            .with("heard", event.number)
            .with("in", part)
            .with("tag", event.tag.as_str())
            .with("data", event.data.clone());
        self.write(&entry);
    }

    /// Records which events a step has waited for.
    pub(crate) fn took(&self, part: &str, step: &str, numbers: &[u64]) {
        let numbers = Value::list(numbers.iter().map(|number| Value::from(*number)));
        let entry = Map::new()
            .with("took", numbers)
            .with("in", part)
            .with("step", self.stored_tag(step));
        self.write(&entry);
    }
}

/// Returns whether an entry is about received events.
pub(super) fn is_heard(entry: &Map) -> bool {
    ["heard", "hears", "took"]
        .iter()
        .any(|key| entry.contains(key))
}

fn number(value: &Value) -> Option<u64> {
    u64::try_from(value.as_int()?).ok()
}

impl Recorded {
    pub(super) fn add_heard(&mut self, mut entry: Map) {
        let mut text = |key| entry.remove(key).map(|value| value.to_text());
        let part = self.heard.entry(text("in").unwrap_or_default());
        let (part, step) = (part.or_default(), text("step"));
        if let Some(next) = entry.get("hears").and_then(number) {
            part.next = Some(next);
        } else if let Some(number) = entry.get("heard").and_then(number) {
            part.next = part.next.map(|_| number + 1);
            part.after.push(part.returned.len());
            part.events.push(Event {
                number,
                tag: entry.get("tag").map(Value::to_text).unwrap_or_default(),
                data: entry
                    .get("data")
                    .and_then(Value::as_map)
                    .cloned()
                    .unwrap_or_default(),
            });
        } else if let (Some(took), Some(step)) = (entry.get("took"), step) {
            let numbers = took.as_list().unwrap_or_default().iter();
            part.taken
                .insert(step, numbers.filter_map(number).collect());
        }
    }
}

impl ReceivedEvents {
    pub(super) fn returned(&mut self, tag: &str) {
        self.returned.push(tag.to_owned());
    }

    /// Removes a step: the events that it waited for, and, unless it is itself a wait step, the
    /// events since it began, because they will be fired again.
    pub(super) fn forget(&mut self, tag: &str) {
        self.taken.remove(tag);
        let waits = is_wait_tag(tag);
        let at = self.returned.iter().rposition(|returned| returned == tag);
        let Some(at) = at.filter(|_| !waits) else {
            return;
        };
        let stays: Vec<bool> = self.after.iter().map(|after| *after < at).collect();
        let mut each = stays.iter();
        self.events.retain(|_| each.next() == Some(&true));
        self.after.retain(|after| *after < at);
        self.next = None;
    }

    /// Returns the same data, but keeps the waited-for events only of those steps that have a
    /// return.
    #[must_use]
    pub fn of_returns(mut self, returns: Option<&Map>) -> Self {
        let has = |step: &str| returns.is_some_and(|returns| returns.contains(step));
        self.taken.retain(|step, _| has(step));
        self
    }

    /// Replaces the aliases of steps by their tags in the plan.
    pub(super) fn rename(&mut self, real: impl Fn(&str) -> String) {
        let taken = std::mem::take(&mut self.taken).into_iter();
        self.taken = taken.map(|(step, took)| (real(&step), took)).collect();
        for tag in &mut self.returned {
            *tag = real(tag);
        }
    }
}
