//! Combines chunks that request the same kind of thing (`aggregate`, `state_aggregate`), so that
//! one call serves all of them.

use std::sync::Arc;

use value::Map;

use super::engine::Run;
use super::requisite::Status;
use crate::low::LowChunk;

impl Run<'_> {
    /// Returns the chunk, combined with the requests of other chunks of its group. The others still
    /// run in their turn, and find nothing left to do.
    pub(super) fn aggregated(&mut self, index: usize, low: &Arc<LowChunk>) -> Arc<LowChunk> {
        let groups = self.plan().groups().iter();
        let group = groups.clone().find(|group| group.contains(&index));
        let registry = self.cx.shared.registry;
        let (Some(group), Some(join)) = (group.cloned(), registry.aggregate(&low.state)) else {
            return Arc::clone(low);
        };
        if self.joined.contains(&index) {
            return Arc::clone(low);
        }
        let mut others: Vec<usize> = Vec::new();
        for other in group {
            if other != index && self.may_join(other) {
                others.push(other);
            }
        }
        let lows: Vec<Map> = others
            .iter()
            .filter_map(|other| Some(self.low(*other)?.data.clone()))
            .collect();
        let (data, taken) = join(&low.data, &lows);
        let taken = others.iter().zip(taken).filter(|(_, taken)| *taken);
        let taken: Vec<usize> = taken.map(|(other, _)| *other).collect();
        self.joined.push(index);
        self.joined.extend(&taken);
        match taken.is_empty() {
            true => Arc::clone(low),
            false => Arc::new(LowChunk {
                data,
                ..LowChunk::clone(low)
            }),
        }
    }

    /// Returns whether a chunk may be executed before its turn: it has not run, it has no guard,
    /// and its requisites are met.
    fn may_join(&mut self, index: usize) -> bool {
        if self.has_return(index) || self.joined.contains(&index) {
            return false;
        }
        let Some(low) = self.low(index) else {
            return false;
        };
        let options = &low.options;
        let guarded =
            options.unless.is_some() || options.onlyif.is_some() || options.creates.is_some();
        let apart = options.parallel || options.runas.is_some();
        let waits = self.dependencies(index, &low, false);
        let waits = waits.iter().any(|(_, target)| !self.has_return(*target));
        !guarded && !apart && !waits && self.status(index, &low, false) == Status::Met
    }
}
