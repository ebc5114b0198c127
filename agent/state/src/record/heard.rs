//! The events that a run has heard for its steps that wait, and which of them a step has waited for.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use value::{Map, Value};

use super::{Record, Recorded};
use crate::run::events::{self, Event, EventLog};

/// What a part of a run has heard.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heard {
    /// The number in the bus's log from which on it listens; none where the bus has no log, or what follows is to come anew.
    pub next: Option<u64>,
    /// The events.
    pub events: Vec<Event>,
    /// The numbers of those that each step has waited for.
    pub taken: BTreeMap<String, Vec<u64>>,
    /// The steps that have returned, in order.
    returned: Vec<String>,
    /// How many steps had returned when each event came.
    after: Vec<usize>,
}

impl Record {
    /// Has a log take in what was fired before each return is noted.
    pub(crate) fn add_log(&self, log: &Arc<EventLog>) {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        logs.retain(|log| log.strong_count() > 0);
        logs.push(Arc::downgrade(log));
    }

    /// Notes the events that a step has fired before its return is noted: it will not fire them again.
    pub(super) fn catch_up(&self) {
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let logs: Vec<_> = logs.iter().filter_map(std::sync::Weak::upgrade).collect();
        logs.iter().for_each(|log| log.catch_up());
    }

    /// Notes from which number in the bus's log on a run listens.
    pub(crate) fn hears(&self, part: &str, next: u64) {
        self.write(&Map::new().with("hears", next).with("in", part));
    }

    /// Notes an event.
    pub(crate) fn heard(&self, part: &str, event: &Event) {
        let entry = Map::new()
            .with("heard", event.number)
            .with("in", part)
            .with("tag", event.tag.as_str())
            .with("data", event.data.clone());
        self.write(&entry);
    }

    /// Notes which events a step has waited for.
    pub(crate) fn took(&self, part: &str, step: &str, numbers: &[u64]) {
        let numbers = Value::list(numbers.iter().map(|number| Value::from(*number)));
        let entry = Map::new()
            .with("took", numbers)
            .with("in", part)
            .with("step", self.shown(step));
        self.write(&entry);
    }
}

/// Returns whether an entry tells what was heard.
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

impl Heard {
    pub(super) fn returned(&mut self, tag: &str) {
        self.returned.push(tag.to_owned());
    }

    /// Forgets a step: what it has waited for, and what came since it began where it will come again.
    pub(super) fn forget(&mut self, tag: &str) {
        self.taken.remove(tag);
        let waits = events::is_wait_tag(tag);
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

    /// Returns it with what was waited for by steps that have their return alone.
    #[must_use]
    pub fn of_returns(mut self, returns: Option<&Map>) -> Self {
        let has = |step: &str| returns.is_some_and(|returns| returns.contains(step));
        self.taken.retain(|step, _| has(step));
        self
    }

    /// Calls its steps by their tags in the plan.
    pub(super) fn rename(&mut self, real: impl Fn(&str) -> String) {
        let taken = std::mem::take(&mut self.taken).into_iter();
        self.taken = taken.map(|(step, took)| (real(&step), took)).collect();
        for tag in &mut self.returned {
            *tag = real(tag);
        }
    }
}
