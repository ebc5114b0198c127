//! Running a plan.

mod aggregate;
mod call;
mod clock;
mod engine;
mod event;
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

use std::sync::Mutex;

use value::Map;
use value::watch::{self, Event};

pub(crate) use call::{StateFunction, unavailable};

use crate::compile::Plan;
use crate::exec::Exec;
use crate::low::Low;

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
    engine::Run::new(cx, plan, observer, jid).finished()
}

/// Tells whoever looks on that a chunk is called, or tried out.
fn tell_started(cx: &Exec, low: &Low, tried: bool) {
    if let (Some(run), true) = (&cx.run, watch::is_on()) {
        watch::tell(Event::StateStarted(watch::State {
            jid: &run.jid,
            tag: &low.tag(),
            id: &low.id,
            name: &low.name,
            state: &low.state,
            fun: &low.fun,
            sls: &low.sls,
            tried,
        }));
    }
}
