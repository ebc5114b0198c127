//! `prereq`: runs a chunk before its target if the target would change something.

use std::sync::Arc;

use value::{Map, Value};

use super::engine::{Run, Turn};
use super::requisite::Status;
use crate::low::{LowChunk, RequisiteKind};

impl Run<'_> {
    /// Stores, for each chunk, the chunks that name it in `prereq` and that it must wait for.
    pub(super) fn note_prerequired(&mut self) {
        for index in 0..self.chunks.len() {
            for target in self
                .low(index)
                .map(|low| self.prereqs(&low))
                .unwrap_or_default()
            {
                self.prerequired.entry(target).or_default().push(index);
            }
        }
    }

    fn prereqs(&self, low: &LowChunk) -> Vec<usize> {
        if self.disabled_requisites.contains(&RequisiteKind::Prereq) {
            return Vec::new();
        }
        let prereqs = low
            .requisites
            .iter()
            .filter(|r| r.kind == RequisiteKind::Prereq);
        prereqs.flat_map(|r| r.chunks.iter().copied()).collect()
    }

    /// Runs the targets of a chunk's `prereq` in test mode, each once, the innermost of a chain
    /// first.
    pub(super) fn try_prereqs(&mut self, low: &Arc<LowChunk>) -> Turn {
        for target in self.prereqs(low) {
            if self.try_one(target) == Turn::Pending {
                return Turn::Pending;
            }
        }
        Turn::Done
    }

    /// Runs a chunk in test mode as far as its own requisites allow.
    pub(super) fn try_one(&mut self, index: usize) -> Turn {
        if self.tried.contains_key(&index) {
            return Turn::Done;
        }
        let Some(low) = self.low(index) else {
            return Turn::Done;
        };
        // A chunk that already has its return, because it is disabled, keeps that return.
        if self.has_return(index) {
            return self.keep_return(index);
        }
        if self.try_prereqs(&low) == Turn::Pending {
            return Turn::Pending;
        }
        let was_unmet = match self.status(index, &low, true) {
            Status::Pending => return Turn::Pending,
            Status::Unmet if self.call_before_trying(index, &low) == Turn::Pending => {
                return Turn::Pending;
            }
            Status::Unmet => true,
            _ => false,
        };
        let status = self.status(index, &low, true);
        if let Some(comment) = status.skipped() {
            return self.not_tried(index, true, comment);
        }
        if status == Status::Fail {
            let comment = self.failure(index, &low);
            return self.not_tried(index, false, &comment);
        }
        let mut ret = self.called_to_try(&low);
        let unchanged = !ret.get("changes").is_some_and(Value::is_true);
        if was_unmet && unchanged && status == Status::Change {
            ret.insert("changes", Map::new().with("watch", "watch"));
            ret.insert("result", Value::Null);
        }
        self.tried.insert(index, ret);
        Turn::Done
    }

    fn call_before_trying(&mut self, index: usize, low: &Arc<LowChunk>) -> Turn {
        for (kind, target) in self.dependencies(index, low, true) {
            let there = kind == RequisiteKind::Prereq || self.has_return(target);
            if !there && self.call_chunk(target, 0) == Turn::Pending {
                return Turn::Pending;
            }
        }
        Turn::Done
    }

    /// Stores the return of a target that its own requisites forbid: it will not run later either.
    fn not_tried(&mut self, index: usize, result: bool, comment: &str) -> Turn {
        self.not_run(index, result, comment);
        self.keep_return(index)
    }

    fn keep_return(&mut self, index: usize) -> Turn {
        if let Some(ret) = self.return_of(index) {
            self.tried.insert(index, ret);
        }
        Turn::Done
    }
}
