//! [`Run`]: the loop over the chunks, and the state of each chunk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use value::watch::{self, Event};
use value::{Map, Value, log};

use super::clock::Stamp;
use super::parallel::Parallel;
use super::requisite::Status;
use super::{Observer, RunRecord, RunState, call, event, pause};
use crate::compile::Plan;
use crate::exec::Exec;
use crate::low::{LowChunk, RequisiteKind, When};
use crate::resume::next_number;

/// The parts of a return that requisites depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) result: Option<bool>,
    pub(super) changed: bool,
    pub(super) skip_req: bool,
    pub(super) ran: bool,
}

impl Outcome {
    /// Extracts them from a return.
    pub(super) fn from_return(ret: &Map) -> Self {
        let truth = |key| ret.get(key).is_some_and(Value::is_true);
        Self {
            result: ret.get("result").and_then(Value::as_bool),
            changed: truth("changes"),
            skip_req: truth("skip_req"),
            ran: ret.get("__state_ran__").is_none_or(Value::is_true),
        }
    }
}

/// A chunk and its outcome.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) low: Arc<LowChunk>,
    pub(super) tag: Value,
    pub(super) outcome: Option<Outcome>,
}

impl Chunk {
    fn new(low: Arc<LowChunk>) -> Self {
        Self {
            tag: low.tag().into(),
            low,
            outcome: None,
        }
    }
}

/// The result of trying to run a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The chunk has a return.
    Done,
    /// The chunk waits for a parallel one.
    Pending,
}

/// A run that is under way.
pub(super) struct Run<'a> {
    pub(super) cx: Exec,
    pub(super) chunks: Vec<Chunk>,
    /// The returns of the test-mode calls for `prereq`.
    pub(super) tried: HashMap<usize, Map>,
    /// For each chunk, the chunks that name it in `prereq` and must run before it.
    pub(super) prerequired: HashMap<usize, Vec<usize>>,
    pub(super) disabled_requisites: Vec<RequisiteKind>,
    pub(super) parallel: Parallel,
    /// The chunks that were combined with others.
    pub(super) joined: Vec<usize>,
    plan: &'a Plan,
    state: Arc<RunState>,
    observer: &'a dyn Observer,
    pause: pause::Pause,
    next_number: i64,
    length: usize,
    /// True if the run resumes one that was cut short.
    resumed: bool,
    /// The chunks in the order of their final returns.
    pub(super) finished: Vec<usize>,
    /// True after the ordinary phase: the remaining chunks run even if some fail.
    pub(super) is_ending: bool,
    stopped: bool,
}

fn lock(running: &Mutex<Map>) -> MutexGuard<'_, Map> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Run<'a> {
    pub(super) fn new(
        cx: &Exec,
        plan: &'a Plan,
        observer: &'a dyn Observer,
        jid: &str,
        mut record: RunRecord,
    ) -> Self {
        let lows = plan.chunks();
        let earlier = std::mem::take(&mut record.returns);
        let (resumed, next_number) = (!earlier.is_empty(), next_number(&earlier));
        let before: Vec<Value> = earlier.keys().cloned().collect();
        let state = Arc::new(RunState {
            jid: jid.to_owned(),
            within: cx
                .run
                .as_ref()
                .and(cx.chunk.as_ref())
                .map(|step| step.tag()),
            lowstate: lows.iter().map(|low| low.data.clone()).collect(),
            // A chunk that has a return is not called.
            running: Mutex::new(earlier),
            record,
        });
        let disabled = cx.opts().texts("disabled_requisites");
        let mut cx = cx.clone();
        cx.run = Some(Arc::clone(&state));
        let most = cx.opts().int("state_max_parallel");
        let mut run = Self {
            cx,
            chunks: lows.iter().map(|low| Chunk::new(Arc::clone(low))).collect(),
            tried: HashMap::new(),
            prerequired: HashMap::new(),
            disabled_requisites: disabled
                .iter()
                .filter_map(|word| RequisiteKind::from_word(word))
                .collect(),
            parallel: Parallel::new(most),
            joined: Vec::new(),
            plan,
            state,
            observer,
            pause: pause::Pause::default(),
            next_number,
            length: lows.len(),
            resumed,
            finished: Vec::new(),
            is_ending: false,
            stopped: false,
        };
        run.note_finished(&before);
        run.note_prerequired();
        run
    }

    pub(super) fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// Runs everything and returns the returns by tag.
    pub(super) fn finished(mut self) -> Map {
        self.refuse_disabled();
        if !self.was_compensating() {
            self.run_turn(When::Ordinary);
            self.listen();
            self.beacons();
        }
        self.is_ending = true;
        self.compensate();
        self.run_turn(When::Finally);
        self.spare();
        pause::forget(self.cx.opts(), &self.state.jid);
        self.cx.barrier();
        std::mem::take(&mut *lock(&self.state.running))
    }

    /// Runs the chunks of one phase.
    fn run_turn(&mut self, when: When) {
        let (steps, chunks) = (self.plan.steps().iter(), self.plan.chunks());
        let steps = steps.filter(|step| chunks.get(step.chunk).is_some_and(|low| low.when == when));
        self.run_steps(steps.map(|step| (step.chunk, step.test)));
    }

    /// Adds the returns of chunks whose function is disabled by `state.disable`.
    fn refuse_disabled(&mut self) {
        for disabled in self.plan.disabled() {
            let low = LowChunk::from_map(disabled.data.clone());
            let ret = Map::new()
                .with("changes", Map::new())
                .with("result", false)
                .with("comment", disabled.comment.as_str())
                .with("__run_num__", self.number())
                .with("__sls__", low.sls.as_str());
            self.returned_as(low.tag(), ret);
        }
    }

    /// Adds a chunk that is not in the plan (for `listen`) and returns its index.
    pub(super) fn add(&mut self, low: LowChunk) -> usize {
        self.chunks.push(Chunk::new(Arc::new(low)));
        self.chunks.len() - 1
    }

    /// Returns the run's part of its record.
    pub(super) fn record(&self) -> &RunRecord {
        &self.state.record
    }

    /// Returns whether a return so far is a failure. Only tags for which `counts` is true are
    /// considered.
    pub(super) fn has_failed(&self, counts: impl Fn(&Value) -> bool) -> bool {
        let running = lock(&self.state.running);
        let failed = |ret: &Value| ret.get("result") == Some(&Value::Bool(false));
        running.iter().any(|(tag, ret)| failed(ret) && counts(tag))
    }

    /// Returns the next `__run_num__`.
    pub(super) fn number(&mut self) -> i64 {
        self.next_number += 1;
        self.next_number - 1
    }

    pub(super) fn outcome(&self, index: usize) -> Option<Outcome> {
        self.chunks.get(index)?.outcome
    }

    /// Returns a chunk's return so far.
    pub(super) fn return_of(&self, index: usize) -> Option<Map> {
        let tag = &self.chunks.get(index)?.tag;
        let running = lock(&self.state.running);
        running.get_value(tag)?.as_map().cloned()
    }

    pub(super) fn low(&self, index: usize) -> Option<Arc<LowChunk>> {
        self.chunks.get(index).map(|chunk| Arc::clone(&chunk.low))
    }

    /// Runs these chunks, or calls them in test mode if the flag is true. When this returns,
    /// parallel chunks are finished, too.
    pub(super) fn run_steps(&mut self, steps: impl Iterator<Item = (usize, bool)>) {
        self.stopped = false;
        let mut pending = Vec::new();
        for (index, test) in steps {
            self.collect_parallel();
            if !self.call_pending(&mut pending) {
                break;
            }
            if test {
                // A chunk that must wait is tried later, when it is needed.
                let _ = self.try_one(index);
            } else if self.is_ended_before(index) || !self.step(index, &mut pending) {
                break;
            }
        }
        self.finish(pending);
    }

    /// Waits if the run is paused before a chunk. Returns true if the run shall end there. The
    /// pause file is read at most once within a moment.
    fn is_ended_before(&mut self, index: usize) -> bool {
        if self.is_ending {
            return false;
        }
        let Some(low) = self.low(index).filter(|_| !self.has_return(index)) else {
            return false;
        };
        self.pause.ends(&self.cx, &self.state.jid, &low.id)
    }

    /// Runs the chunks that have waited for parallel ones, and waits for all parallel ones.
    fn finish(&mut self, mut pending: Vec<usize>) {
        while !self.stopped && !pending.is_empty() {
            let before = pending.len();
            let stuck = self.parallel.is_idle();
            if !self.call_pending(&mut pending) || stuck && pending.len() == before {
                break;
            }
            self.wait_for_one();
        }
        while !self.parallel.is_idle() {
            self.wait_for_one();
        }
    }

    /// Runs one chunk. Returns false if the run must stop.
    fn step(&mut self, index: usize, pending: &mut Vec<usize>) -> bool {
        if self.has_return(index) {
            // The run with this failure was cut short before it could stop.
            self.stopped |= self.resumed && self.fails_hard(index);
            return !self.stopped;
        }
        if self.call_chunk(index, 0) == Turn::Pending {
            pending.push(index);
        }
        self.stopped |= self.fails_hard(index);
        !self.stopped
    }

    /// Tries again to run the chunks that have waited. Returns false if the run must stop.
    fn call_pending(&mut self, pending: &mut Vec<usize>) -> bool {
        for index in std::mem::take(pending) {
            if !self.step(index, pending) {
                return false;
            }
        }
        true
    }

    /// Returns true if the chunk, or another one with the same tag, has a return.
    pub(super) fn has_return(&mut self, index: usize) -> bool {
        let Some(chunk) = self.chunks.get_mut(index) else {
            return true;
        };
        if chunk.outcome.is_none() {
            let running = lock(&self.state.running);
            let same = running.get_value(&chunk.tag).and_then(Value::as_map);
            chunk.outcome = same.map(Outcome::from_return);
        }
        chunk.outcome.is_some()
    }

    /// Runs a chunk as far as its requisites allow.
    pub(super) fn call_chunk(&mut self, index: usize, depth: usize) -> Turn {
        let Some(low) = self.low(index) else {
            return Turn::Done;
        };
        if self.try_prereqs(&low) == Turn::Pending {
            return Turn::Pending;
        }
        let status = self.status(index, &low, false);
        self.log_decision(index, &low, status);
        match status {
            Status::Pending => return Turn::Pending,
            Status::Unmet => return self.call_unmet(index, &low, depth),
            Status::Met => self.call(index, &low),
            Status::Change => self.call_watching(index, &low),
            Status::SkipWatch => self.call_unwatching(index, &low),
            Status::Fail => self.fail(index, &low),
            status => {
                let comment = status.skipped().unwrap_or_default();
                self.not_run(index, true, comment);
            }
        }
        Turn::Done
    }

    /// Logs whether a chunk runs, and the requisites that decide it.
    fn log_decision(&mut self, index: usize, low: &LowChunk, status: Status) {
        if !log::is_wanted(log::Level::Debug) {
            return;
        }
        let decision = match status {
            Status::Unmet | Status::Pending => return,
            Status::Met => "runs".to_owned(),
            Status::Change => {
                "runs, and then its mod_watch, because a watched state changed".to_owned()
            }
            Status::SkipWatch => "runs without its mod_watch".to_owned(),
            Status::Fail => "does not run, because a requisite failed".to_owned(),
            other => format!("is skipped: {}", other.skipped().unwrap_or_default()),
        };
        let requisites = self.dependencies(index, low, false).into_iter();
        let requisites: Vec<String> = requisites
            .filter_map(|(kind, target)| {
                let (of, outcome) = (self.low(target)?, self.outcome(target)?);
                let result = match (outcome.result, outcome.changed) {
                    (Some(false), _) => "failed",
                    (_, true) => "changed",
                    (None, _) => "would change",
                    (Some(true), false) => "unchanged",
                };
                Some(format!("{} {}: {} {result}", kind.word(), of.state, of.id))
            })
            .collect();
        let because = match requisites.is_empty() {
            true => String::new(),
            false => format!(" ({})", requisites.join(", ")),
        };
        let (id, full) = (&low.id, low.function());
        log::debug(format_args!("state {id} ({full}) {decision}{because}"));
    }

    /// Runs the requisites that have not run yet, then the chunk.
    fn call_unmet(&mut self, index: usize, low: &Arc<LowChunk>, depth: usize) -> Turn {
        for (kind, target) in self.dependencies(index, low, false) {
            if self.has_return(target) {
                continue;
            }
            if self.is_past(target) {
                self.miss(index, kind, target);
                return Turn::Done;
            }
            if self.call_chunk(target, depth + 1) == Turn::Pending {
                return Turn::Pending;
            }
            self.stopped |= self.fails_hard(target);
            if self.stopped {
                return Turn::Done;
            }
        }
        if depth >= 20 {
            let mut ret = Map::new()
                .with("changes", Map::new())
                .with("result", false)
                .with("comment", "Recursive requisite found")
                .with("__run_num__", self.number());
            call::sign(&mut ret, low);
            self.returned(index, ret);
            return Turn::Done;
        }
        self.call_chunk(index, depth + 1)
    }

    fn call(&mut self, index: usize, low: &Arc<LowChunk>) {
        self.tell_started(low);
        let ret = self.called(index, low);
        self.returned(index, ret);
    }

    /// Calls the function, and adds to the comment that `mod_watch` was not called.
    fn call_unwatching(&mut self, index: usize, low: &Arc<LowChunk>) {
        self.tell_started(low);
        let mut ret = self.called(index, low);
        let comment = ret.get("comment").map(Value::to_text).unwrap_or_default();
        let why = "mod_watch was not run because requisites were skipped by another state";
        ret.insert("comment", format!("{comment} {why}"));
        self.returned(index, ret);
    }

    /// Calls the function, and then `mod_watch` if the function itself made no changes.
    fn call_watching(&mut self, index: usize, low: &Arc<LowChunk>) {
        self.tell_started(low);
        let ret = self.called(index, low);
        let truth = |key| ret.get(key).is_some_and(Value::is_true);
        if truth("changes") || truth("skip_watch") || self.parallel.holds(index) {
            return self.returned(index, ret);
        }
        let watching = Arc::new(self.watching(index, low));
        let ret = self.called(index, &watching);
        self.returned(index, ret);
    }

    /// Returns the chunk as a call of `mod_watch`.
    fn watching(&self, index: usize, low: &Arc<LowChunk>) -> LowChunk {
        let mut requisites = Map::new();
        for (kind, target) in self.dependencies(index, low, false) {
            let list = requisites.entry(kind.word(), || Value::list([]));
            if let (Some(list), Some(chunk)) = (list.as_list_mut(), self.chunks.get(target)) {
                list.push(chunk.low.data.clone().into());
            }
        }
        let data = low
            .data
            .clone()
            .with("sfun", low.fun.as_str())
            .with("fun", "mod_watch")
            .with("__reqs__", requisites);
        LowChunk {
            fun: "mod_watch".to_owned(),
            data,
            ..LowChunk::clone(low)
        }
    }

    /// Adds the return of a chunk with failed requisites, which names them.
    fn fail(&mut self, index: usize, low: &Arc<LowChunk>) {
        let Some(mut ret) = self.tried.get(&index).cloned() else {
            let comment = self.failure(index, low);
            return self.not_run(index, false, &comment);
        };
        // The changes that the test-mode call predicted will not be made.
        ret.insert("changes", Map::new());
        ret.insert("__run_num__", self.number());
        call::sign(&mut ret, low);
        self.returned(index, ret);
    }

    /// Adds the return of a chunk that its requisites prevented from running.
    pub(super) fn not_run(&mut self, index: usize, result: impl Into<Option<bool>>, comment: &str) {
        let stamp = Stamp::now();
        let number = self.number();
        let Some(low) = self.low(index) else { return };
        let mut ret = Map::new()
            .with("changes", Map::new())
            .with("result", result.into())
            .with("duration", stamp.duration())
            .with("start_time", stamp.start_time())
            .with("comment", comment)
            .with("__state_ran__", false)
            .with("__run_num__", number);
        call::sign(&mut ret, &low);
        self.returned(index, ret);
    }

    /// Stores a return, for the requisites of other chunks and for the result of the run, and
    /// reports it to observers if it is final.
    pub(super) fn returned(&mut self, index: usize, mut ret: Map) {
        let Some(chunk) = self.chunks.get_mut(index) else {
            return;
        };
        let parts = ret.remove("sub_state_run");
        chunk.outcome = Some(Outcome::from_return(&ret));
        let (tag, low) = (chunk.tag.clone(), Arc::clone(&chunk.low));
        lock(&self.state.running).insert(tag.clone(), ret.clone());
        if !self.parallel.holds(index) {
            self.finished.push(index);
            self.tell(&tag, &low, &ret);
        }
        for part in parts.as_ref().and_then(Value::as_list).unwrap_or_default() {
            self.part_returned(&low, part);
        }
    }

    /// Stores the return of one part of a state with several parts (`sub_state_run`).
    fn part_returned(&mut self, low: &LowChunk, part: &Value) {
        let stamp = Stamp::now();
        self.next_number += 1;
        let Some(data) = part.get("low").and_then(Value::as_map) else {
            return;
        };
        let given = |key| part.get(key).cloned();
        let mut ret = Map::new()
            .with("name", data.get("name").cloned())
            .with("changes", given("changes"))
            .with("result", given("result"))
            .with(
                "duration",
                given("duration").unwrap_or_else(|| stamp.duration().into()),
            )
            .with(
                "start_time",
                given("start_time").unwrap_or_else(|| stamp.start_time()),
            )
            .with("comment", given("comment").unwrap_or_else(|| "".into()))
            .with("__state_ran__", true)
            .with("__run_num__", self.next_number);
        call::sign(&mut ret, low);
        let tag = LowChunk::from_map(data.clone()).tag();
        self.tell_returned(&tag, &ret);
        lock(&self.state.running).insert(tag, ret);
    }

    /// Stores a return that belongs to no chunk.
    pub(super) fn returned_as(&mut self, tag: String, ret: Map) {
        self.tell_returned(&tag, &ret);
        lock(&self.state.running).insert(tag, ret);
    }

    /// Merges the final return of a parallel chunk into its first one.
    pub(super) fn parallel_returned(&mut self, index: usize, ret: Map) {
        let Some(chunk) = self.chunks.get_mut(index) else {
            return;
        };
        let whole = {
            let mut running = lock(&self.state.running);
            let Some(first) = running
                .get_value_mut(&chunk.tag)
                .and_then(Value::as_map_mut)
            else {
                return;
            };
            first.update(ret);
            if chunk.low.options.no_log {
                call::mask(first);
            }
            first.clone()
        };
        chunk.outcome = Some(Outcome::from_return(&whole));
        let (tag, low) = (chunk.tag.clone(), Arc::clone(&chunk.low));
        self.finished.push(index);
        call::refresh(&self.cx, &low);
        self.tell(&tag, &low, &whole);
    }

    /// Reports to watchers that a chunk is called. A parallel chunk reports this itself when it
    /// starts.
    fn tell_started(&self, low: &LowChunk) {
        if !low.options.parallel {
            super::tell_started(&self.cx, low, false);
        }
    }

    /// Reports a final return to the observers.
    fn tell(&self, tag: &Value, low: &LowChunk, ret: &Map) {
        event::fire(&self.cx, &self.state.jid, low, ret, self.length);
        if let Some(previewer) = &self.cx.previewer {
            previewer.returned(&self.cx, low, ret);
        }
        self.tell_returned(tag.as_str().unwrap_or_default(), ret);
    }

    fn tell_returned(&self, tag: &str, ret: &Map) {
        let jid = &self.state.jid;
        watch::tell(Event::StateFinished { jid, tag, ret });
        self.observer.returned(&self.cx, tag, ret);
    }

    /// Changes the comment of a return that is not final.
    pub(super) fn comment(&mut self, index: usize, comment: &str) {
        let Some(chunk) = self.chunks.get(index) else {
            return;
        };
        let mut running = lock(&self.state.running);
        if let Some(ret) = running
            .get_value_mut(&chunk.tag)
            .and_then(Value::as_map_mut)
        {
            ret.insert("comment", comment);
        }
    }

    /// Returns whether the run must stop because this chunk failed.
    fn fails_hard(&self, index: usize) -> bool {
        let (Some(low), Some(outcome)) = (self.low(index), self.outcome(index)) else {
            return false;
        };
        let failhard = low.options.failhard;
        !self.cx.test
            && !self.is_ending
            && outcome.result == Some(false)
            && failhard.unwrap_or_else(|| self.cx.opts().flag("failhard"))
    }
}
