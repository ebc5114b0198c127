//! [`Plan`]: the chunks to run, in order.

use std::sync::Arc;

use value::{Map, Value};

use super::chunk::Disabled;
use super::documents::Documents;
use crate::low::{LowChunk, RequisiteKind, When};

/// The chunks in the order in which they run. The requisites of each are resolved to chunks.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The chunks, shared with the run.
    pub(crate) chunks: Vec<Arc<LowChunk>>,
    pub(crate) steps: Vec<Step>,
    pub(crate) groups: Vec<Vec<usize>>,
    pub(crate) disabled: Vec<Disabled>,
    pub(crate) documents: Documents,
}

/// One step of a run: a chunk, or the test run of a chunk that a prereq requests before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The chunk, as an index into [`Plan::chunks`].
    pub chunk: usize,
    /// True for a test run.
    pub test: bool,
    /// The chunks whose returns decide whether it runs. A `Prereq` depends on the test run of its
    /// chunk. The target of a prereq has a `Require` on the chunk that declares the prereq.
    pub needs: Vec<(RequisiteKind, usize)>,
}

impl Plan {
    /// Returns the plan of one chunk that belongs to no SLS.
    pub(crate) fn of_one(low: LowChunk) -> Self {
        let step = Step::default();
        Self {
            chunks: vec![Arc::new(low)],
            steps: vec![step],
            ..Self::default()
        }
    }

    /// Adds the chunks that do not run because they are disabled.
    pub(crate) fn with_disabled(self, disabled: Vec<Disabled>) -> Self {
        Self { disabled, ..self }
    }

    /// Returns the rendered SLS files that the chunks come from.
    pub(crate) fn documents(&self) -> &Documents {
        &self.documents
    }

    /// Returns the place of a chunk in the templates, or of one of its arguments.
    #[must_use]
    pub fn place(&self, low: &LowChunk, argument: Option<&str>) -> Option<render::Place> {
        super::check::place(low, &self.documents, argument)
    }

    /// Returns the chunks in the order in which they run.
    #[must_use]
    pub fn chunks(&self) -> &[Arc<LowChunk>] {
        &self.chunks
    }

    /// Returns the steps in order. Every chunk occurs once, and before that its test run if a
    /// prereq requests one.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the groups of chunks that may be combined (`aggregate`). Each group has at least two
    /// chunks.
    #[must_use]
    pub fn groups(&self) -> &[Vec<usize>] {
        &self.groups
    }

    /// Returns the chunks that do not run because their function is disabled.
    #[must_use]
    pub fn disabled(&self) -> &[Disabled] {
        &self.disabled
    }

    /// Returns the low data of all steps as `state.show_lowstate` prints it. As in Salt, the target
    /// of a prereq occurs twice.
    #[must_use]
    pub fn lowstate(&self) -> Vec<Map> {
        let low = |step: &Step| self.chunks.get(step.chunk).map(|low| low.data.clone());
        self.steps.iter().filter_map(low).collect()
    }

    /// Returns the plan of one id: its chunks, and those that their requisites name.
    #[must_use]
    pub fn of_id(self, id: &str) -> Self {
        let mut wanted: Vec<usize> = Vec::new();
        let mut next: Vec<usize> = (0..self.chunks.len())
            .filter(|&at| self.chunks.get(at).is_some_and(|low| low.id == id))
            .collect();
        while let Some(at) = next.pop() {
            if !wanted.contains(&at) {
                wanted.push(at);
                let requisites = self.chunks.get(at).map(|low| low.requisites.as_slice());
                next.extend(
                    requisites
                        .unwrap_or_default()
                        .iter()
                        .flat_map(|r| r.chunks.iter().copied()),
                );
            }
        }
        wanted.sort_unstable();
        let place = |at: usize| wanted.binary_search(&at).ok();
        let mut chunks: Vec<LowChunk> = wanted
            .iter()
            .filter_map(|&at| self.chunks.get(at).map(|low| (**low).clone()))
            .collect();
        // A compensating chunk runs if the user requests it by its id.
        let asked = chunks.iter_mut().filter(|low| low.id == id);
        asked.for_each(|low| low.when = When::Ordinary);
        for requisite in chunks.iter_mut().flat_map(|low| low.requisites.iter_mut()) {
            requisite.chunks = requisite
                .chunks
                .iter()
                .filter_map(|&at| place(at))
                .collect();
        }
        let steps = self.steps.into_iter().filter_map(|step| {
            let needs = step
                .needs
                .into_iter()
                .filter_map(|(kind, at)| Some((kind, place(at)?)));
            Some(Step {
                chunk: place(step.chunk)?,
                test: step.test,
                needs: needs.collect(),
            })
        });
        let steps = steps.collect();
        Self {
            chunks: chunks.into_iter().map(Arc::new).collect(),
            steps,
            groups: Vec::new(),
            disabled: self.disabled,
            documents: self.documents,
        }
    }

    /// Returns the SLS files that declare the chunks, in the order in which they run
    /// (`state.show_states`).
    #[must_use]
    pub fn states(&self) -> Vec<Value> {
        let mut states = Map::new();
        for low in self
            .steps
            .iter()
            .filter_map(|step| self.chunks.get(step.chunk))
        {
            states.entry(low.sls.as_str(), || true.into());
        }
        states.keys().cloned().collect()
    }
}

#[cfg(test)]
impl Plan {
    /// Returns a plan of chunks whose requisites are already resolved.
    pub(crate) fn of_chunks(chunks: Vec<LowChunk>) -> Self {
        let step = |chunk| Step {
            chunk,
            ..Step::default()
        };
        Self {
            steps: (0..chunks.len()).map(step).collect(),
            chunks: chunks.into_iter().map(Arc::new).collect(),
            ..Self::default()
        }
    }
}
