//! Running a plan.

mod aggregate;
mod call;
mod clock;
mod compensate;
mod engine;
mod event;
pub mod events;
mod guard;
mod listen;
mod parallel;
pub mod pause;
mod prereq;
mod requisite;
mod retry;
mod slots;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod tests_support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use value::watch::{self, Event};
use value::{Map, secret};

pub(crate) use call::{StateFunction, unavailable};

use crate::compile::Plan;
use crate::exec::Exec;
use crate::low::Low;
use crate::record::{Heard, Record};
use events::EventLog;

/// What the chunks of one state run know of it.
#[derive(Debug, Default)]
pub struct RunState {
    /// The run's job id.
    pub jid: String,
    /// The tag of the step that runs it, where it is inside another run.
    pub within: Option<String>,
    /// The low data of all chunks, in order (Salt's `__lowstate__`).
    pub lowstate: Vec<Map>,
    /// The returns so far, by tag (Salt's `__running__`).
    pub running: Mutex<Map>,
    /// Its record.
    pub kept: Kept,
}

/// What a run has of the record that it stands in.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The record; none where nobody keeps one.
    pub record: Option<Arc<Record>>,
    /// The record that is told of changes alone, where its returns stand in no record.
    pub notes: Option<Arc<Record>>,
    /// The part of the record that is this run's: empty for the outermost one.
    pub part: String,
    /// The returns that it had when it was cut short.
    pub returns: Map,
    /// Those of nested orchestrations, which take them when they begin.
    pub parts: Arc<Mutex<BTreeMap<String, Map>>>,
    /// What nested orchestrations had heard, which take it when they begin.
    pub heard: Arc<Mutex<BTreeMap<String, Heard>>>,
    /// The parts that were undoing what they had done when the run was cut short.
    pub compensating: Arc<Vec<String>>,
    /// The events that its steps wait for; none where no step waits.
    pub events: Option<Arc<EventLog>>,
}

impl Kept {
    /// The record that is told of each change before it is made.
    #[must_use]
    pub fn noted(&self) -> Option<&Arc<Record>> {
        self.record.as_ref().or(self.notes.as_ref())
    }

    /// Returns it with the log of the run's events, which is noted in its record.
    #[must_use]
    pub fn listening(self, events: Option<Arc<EventLog>>) -> Self {
        if let (Some(events), Some(record)) = (&events, &self.record) {
            events.note_in(record, &self.part);
        }
        Self { events, ..self }
    }
}

impl Observer for Kept {
    fn returned(&self, cx: &Exec, tag: &str, ret: &Map) {
        match &self.record {
            Some(record) if self.part.is_empty() => record.returned(cx, tag, ret),
            Some(record) => record.part_returned(cx, &self.part, tag, ret),
            None => {}
        }
    }
}

/// Who is told how a run goes on: its record, a progress display.
pub trait Observer {
    /// A chunk has its final return. The next one starts after this has come back.
    fn returned(&self, cx: &Exec, tag: &str, ret: &Map);
}

/// Looks away.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn returned(&self, _cx: &Exec, _tag: &str, _ret: &Map) {}
}

/// Runs a plan and gives Salt's `running`: the return of each chunk by its tag, in the order in which they ran.
///
/// A run inside another has a job id of its own; the outermost one has that of the program's call.
pub fn run(cx: &Exec, plan: &Plan, observer: &dyn Observer) -> Map {
    let jid = match cx.opts().text("jid") {
        Some(jid) if cx.run.is_none() => jid.to_owned(),
        _ => value::jid::new(),
    };
    run_as(cx, plan, observer, &jid)
}

/// The same under a given job id.
pub fn run_as(cx: &Exec, plan: &Plan, observer: &dyn Observer, jid: &str) -> Map {
    engine::Run::new(cx, plan, observer, jid, Kept::default()).finished()
}

/// The same for a run with a record, which is told of each return; it does not do again what has a return there.
pub fn run_kept(cx: &Exec, plan: &Plan, kept: Kept, jid: &str) -> Map {
    engine::Run::new(cx, plan, &kept.clone(), jid, kept).finished()
}

/// Tells whoever looks on that a chunk is called, or tried out.
fn tell_started(cx: &Exec, low: &Low, tried: bool) {
    if let (Some(run), true) = (&cx.run, watch::is_on()) {
        watch::tell(Event::StateStarted(watch::State {
            jid: &run.jid,
            tag: &low.tag(),
            id: &low.id,
            name: match low.options.no_log {
                true => secret::MASK,
                false => &low.name,
            },
            state: &low.state,
            fun: &low.fun,
            sls: &low.sls,
            tried,
        }));
    }
}
