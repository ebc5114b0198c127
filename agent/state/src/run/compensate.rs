//! `compensate`: undoes chunks that had succeeded if something fails later.

use std::collections::HashMap;

use value::{Value, log};

use super::engine::Run;
use crate::low::{RequisiteKind, When};

impl Run<'_> {
    /// Stores the chunks that were finished when the run was cut short, in their order.
    pub(super) fn note_finished(&mut self, tags: &[Value]) {
        if tags.is_empty() {
            return;
        }
        let chunks = self.chunks.iter().enumerate();
        let places: HashMap<&Value, usize> = chunks.map(|(at, chunk)| (&chunk.tag, at)).collect();
        let known = tags.iter().filter_map(|tag| places.get(tag).copied());
        self.finished = known.collect();
    }

    /// Returns whether the run that this one resumes had started to compensate.
    pub(super) fn was_compensating(&self) -> bool {
        let own = self.record();
        own.compensating.contains(&own.part)
    }

    /// Runs the compensating chunks of those that had succeeded, the last first, if something
    /// failed in the ordinary phase. A compensating chunk that fails does not stop the others.
    pub(super) fn compensate(&mut self) {
        if self.cx.test || !self.failed() {
            return;
        }
        let owed = self.owed();
        if owed.is_empty() {
            return;
        }
        log::warning(format_args!(
            "The run has failed: running {} compensating states",
            owed.len()
        ));
        let own = self.record();
        if let Some(record) = own.record.as_ref().filter(|_| !self.was_compensating()) {
            record.compensates(&self.cx, &own.part);
        }
        self.run_steps(owed.into_iter().map(|index| (index, false)));
    }

    /// Returns whether something failed in the ordinary phase.
    fn failed(&self) -> bool {
        let later: Vec<&Value> = self
            .chunks
            .iter()
            .filter(|chunk| chunk.low.when != When::Ordinary)
            .map(|chunk| &chunk.tag)
            .collect();
        self.has_failed(|tag| !later.contains(&tag))
    }

    /// Returns the compensating chunks of those that succeeded and changed something, in the order
    /// of execution, each once.
    fn owed(&mut self) -> Vec<usize> {
        let mut owed = Vec::new();
        for index in std::mem::take(&mut self.finished).into_iter().rev() {
            self.has_return(index);
            let outcome = self.outcome(index);
            let did = outcome.is_some_and(|one| one.result == Some(true) && one.changed && one.ran);
            for target in self.compensations(index) {
                if did && !owed.contains(&target) {
                    owed.push(target);
                }
            }
        }
        owed
    }

    fn compensations(&self, index: usize) -> Vec<usize> {
        let Some(low) = self.low(index) else {
            return Vec::new();
        };
        let all = low.requisites.iter();
        let all = all.filter(|one| one.kind == RequisiteKind::Compensate);
        all.flat_map(|one| one.chunks.iter().copied()).collect()
    }

    /// Adds the returns of compensating chunks that had nothing to undo.
    pub(super) fn spare(&mut self) {
        for index in 0..self.plan().chunks().len() {
            let compensates = self
                .low(index)
                .is_some_and(|low| low.when == When::Compensating);
            if !compensates || self.has_return(index) {
                continue;
            }
            let what = self.compensated_by(index);
            if self.cx.test {
                let comment =
                    format!("Would run only if a later state failed: it compensates {what}");
                self.not_run(index, None, &comment);
            } else if self.failed() {
                let comment = format!(
                    "State was not run because the states it compensates changed nothing or failed: {what}"
                );
                self.not_run(index, true, &comment);
            } else {
                let comment =
                    format!("State was not run because no state failed: it compensates {what}");
                self.not_run(index, true, &comment);
            }
        }
    }

    /// Returns the ids of the chunks that a chunk compensates.
    fn compensated_by(&self, index: usize) -> String {
        let mut ids: Vec<&str> = Vec::new();
        for (at, chunk) in self.chunks.iter().enumerate() {
            if self.compensations(at).contains(&index) && !ids.contains(&chunk.low.id.as_str()) {
                ids.push(&chunk.low.id);
            }
        }
        match ids.is_empty() {
            true => "states that are not part of this run".to_owned(),
            false => ids.join(", "),
        }
    }

    /// Returns whether a chunk of the ordinary phase has not run and will not run, because the run
    /// stopped before it.
    pub(super) fn is_past(&self, index: usize) -> bool {
        let low = self.low(index);
        self.is_ending && low.is_some_and(|low| low.when == When::Ordinary)
    }

    /// Adds the return of a chunk with a requisite that has not run and will not run. If the chunk
    /// needs the requisite's success, it failed; otherwise it has nothing to do.
    pub(super) fn miss(&mut self, index: usize, kind: RequisiteKind, target: usize) {
        use RequisiteKind::{Require, RequireAny, Watch, WatchAny};
        let Some(low) = self.low(target) else { return };
        let comment = format!(
            "One or more requisite has not run: {}.{}; the run stopped before it",
            low.sls, low.id
        );
        let fails = matches!(kind, Require | RequireAny | Watch | WatchAny);
        self.not_run(index, !fails, &comment);
    }
}
