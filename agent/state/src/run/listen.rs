//! `listen` and `beacon`: calls after all chunks have run.

use value::Map;

use super::engine::Run;
use crate::low::{LowChunk, RequisiteKind};

impl Run<'_> {
    /// Calls `mod_watch` for each chunk with a listener whose target has changes, in the order of
    /// the listeners.
    pub(super) fn listen(&mut self) {
        if self.disabled_requisites.contains(&RequisiteKind::Listen) {
            return;
        }
        let (mut calls, mut errors) = (Vec::new(), Vec::new());
        for chunk in &self.chunks {
            let low = &chunk.low;
            let listens = low
                .requisites
                .iter()
                .filter(|r| r.kind == RequisiteKind::Listen);
            for requisite in listens {
                if requisite.chunks.is_empty() {
                    errors.push((requisite.state.clone(), requisite.name.clone()));
                }
                let outcomes = requisite.chunks.iter().map(|target| self.outcome(*target));
                if outcomes.flatten().any(|outcome| outcome.changed) {
                    calls.push(called_as(low, "listener", "mod_watch"));
                }
            }
        }
        self.run_added(calls);
        for (state, name) in errors {
            let ret = Map::new()
                .with(
                    "comment",
                    format!("Referenced state {state}: {name} does not exist"),
                )
                .with("name", format!("listen_{state}:{name}"))
                .with("result", false)
                .with("changes", Map::new())
                .with("__run_num__", self.number());
            let tag = format!("Listen_Error_|-listen_{name}_|-listen_{state}_|-Listen_Error");
            self.returned_as(tag, ret);
        }
    }

    /// Calls `mod_beacon` for each chunk that has `beacon`.
    pub(super) fn beacons(&mut self) {
        let with_beacon = self
            .chunks
            .iter()
            .filter(|c| c.low.data.contains("beacon") && c.low.fun != "mod_watch");
        let calls = with_beacon
            .map(|chunk| called_as(&chunk.low, "beacon", "mod_beacon"))
            .collect();
        self.run_added(calls);
    }

    fn run_added(&mut self, calls: Vec<LowChunk>) {
        let added: Vec<usize> = calls.into_iter().map(|low| self.add(low)).collect();
        self.run_steps(added.into_iter().map(|index| (index, false)));
    }
}

/// Returns the chunk as a call of another function of its module, without its requisites.
fn called_as(low: &LowChunk, prefix: &str, fun: &str) -> LowChunk {
    let id = format!("{prefix}_{}", low.id);
    let mut data = low
        .data
        .clone()
        .with("sfun", low.fun.as_str())
        .with("fun", fun)
        .with("__id__", id.as_str());
    data.retain(|key, _| key.as_str().and_then(RequisiteKind::from_word).is_none());
    LowChunk {
        fun: fun.to_owned(),
        id,
        data,
        requisites: Vec::new(),
        ..low.clone()
    }
}
