//! Runs a plan.

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

use crate::compile::Plan;
use crate::exec::Exec;
use crate::low::LowChunk;
use crate::record::{ReceivedEvents, Record};
use events::EventLog;

/// The data of one state run that its chunks can access.
#[derive(Debug, Default)]
pub struct RunState {
    /// The run's job id.
    pub jid: String,
    /// The tag of the step that runs it, if it is inside another run.
    pub within: Option<String>,
    /// The low data of all chunks, in order (Salt's `__lowstate__`).
    pub lowstate: Vec<Map>,
    /// The returns so far, by tag (Salt's `__running__`).
    pub running: Mutex<Map>,
    /// The run's part of a record.
    pub record: RunRecord,
}

/// The part of a record that belongs to a run.
#[derive(Clone, Debug, Default)]
pub struct RunRecord {
    /// The record; `None` if none is kept.
    pub record: Option<Arc<Record>>,
    /// A record that only receives changes, for a run whose returns are not recorded.
    pub notes: Option<Arc<Record>>,
    /// The name of this run's part of the record. The outermost run has an empty name.
    pub part: String,
    /// The returns that the run had when it was cut short.
    pub returns: Map,
    /// The returns of nested orchestrations. Each orchestration takes its own when it begins.
    pub parts: Arc<Mutex<BTreeMap<String, Map>>>,
    /// The events of nested orchestrations. Each orchestration takes its own when it begins.
    pub heard: Arc<Mutex<BTreeMap<String, ReceivedEvents>>>,
    /// The parts whose compensation had started when the run was cut short.
    pub compensating: Arc<Vec<String>>,
    /// The events that its steps wait for; `None` if no step waits.
    pub events: Option<Arc<EventLog>>,
}

impl RunRecord {
    /// Returns the record that receives each change before it is made.
    #[must_use]
    pub fn noted(&self) -> Option<&Arc<Record>> {
        self.record.as_ref().or(self.notes.as_ref())
    }

    /// Adds the log of the run's events, and connects the log to the run's record.
    #[must_use]
    pub fn with_events(self, events: Option<Arc<EventLog>>) -> Self {
        if let (Some(events), Some(record)) = (&events, &self.record) {
            events.note_in(record, &self.part);
        }
        Self { events, ..self }
    }
}

impl Observer for RunRecord {
    fn returned(&self, cx: &Exec, tag: &str, ret: &Map) {
        match &self.record {
            Some(record) if self.part.is_empty() => record.returned(cx, tag, ret),
            Some(record) => record.part_returned(cx, &self.part, tag, ret),
            None => {}
        }
    }
}

/// An observer of a run: its record, a progress display.
pub trait Observer {
    /// Called when a chunk has its final return. The next chunk starts after this function has
    /// returned.
    fn returned(&self, cx: &Exec, tag: &str, ret: &Map);
}

impl Observer for Record {
    fn returned(&self, cx: &Exec, tag: &str, ret: &Map) {
        Self::returned(self, cx, tag, ret);
    }
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn returned(&self, _cx: &Exec, _tag: &str, _ret: &Map) {}
}

/// Runs a plan and returns Salt's `running`: the return of each chunk by its tag, in the order of
/// execution.
///
/// A run inside another one has a separate job id. The outermost one has that of the program's
/// call.
pub fn run(cx: &Exec, plan: &Plan, observer: &dyn Observer) -> Map {
    let jid = match cx.opts().text("jid") {
        Some(jid) if cx.run.is_none() => jid.to_owned(),
        _ => value::jid::new(),
    };
    run_as(cx, plan, observer, &jid)
}

/// Like [`run`], under a given job id.
pub fn run_as(cx: &Exec, plan: &Plan, observer: &dyn Observer, jid: &str) -> Map {
    engine::Run::new(cx, plan, observer, jid, RunRecord::default()).finished()
}

/// Like [`run_as`], for a run with a record. The record receives each return, and chunks that
/// already have a return in it are not executed again.
pub fn run_recorded(cx: &Exec, plan: &Plan, record: RunRecord, jid: &str) -> Map {
    engine::Run::new(cx, plan, &record.clone(), jid, record).finished()
}

/// Reports to watchers that a chunk is called, or called in test mode for `prereq`.
fn tell_started(cx: &Exec, low: &LowChunk, tried: bool) {
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
