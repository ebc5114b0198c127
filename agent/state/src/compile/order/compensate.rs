//! `compensate` and `finally`: the chunks that run after the ordinary phase.

use value::{Map, Value};

use super::{Order, item_of};
use crate::compile::Fault;
use crate::low::{RequisiteKind, When};
use value::glob::is_glob;

/// Returns the items that a chunk names in `compensate`. Returns `None` if the value cannot name
/// states.
pub(crate) fn compensating(chunk: &Map) -> Option<Vec<Value>> {
    match chunk.get("compensate") {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(one @ Value::Str(_)) => Some(vec![one.clone()]),
        Some(Value::List(items)) => Some(items.to_vec()),
        Some(Value::Map(named)) => {
            let single = |(state, name): (&Value, &Value)| {
                [(state.clone(), name.clone())].into_iter().collect()
            };
            Some(named.iter().map(single).collect())
        }
        Some(_) => None,
    }
}

impl Order<'_> {
    /// Determines the phase of each node. This happens before requisites are resolved, because they
    /// depend on it.
    pub(super) fn turns(&mut self, left_out: &[Value]) {
        self.when = vec![When::Ordinary; self.graph.nodes().len()];
        for chunk in 0..self.chunks.len() {
            if self.says(chunk, "finally") {
                self.has_turn(self.node(chunk), When::Finally);
            }
        }
        for (group, name) in left_out.iter().filter_map(item_of) {
            for node in self.find(&group, &name.to_text()).unwrap_or_default() {
                self.has_turn(node, When::Compensating);
            }
        }
        let faults: Vec<_> = (0..self.chunks.len())
            .filter_map(|chunk| self.compensation(chunk).err())
            .collect();
        self.faults.extend(faults);
        for chunk in 0..self.chunks.len() {
            let fault = self.chain(chunk);
            self.faults.extend(fault);
        }
    }

    fn says(&self, chunk: usize, key: &str) -> bool {
        let chunk = self.chunks.get(chunk);
        chunk.is_some_and(|chunk| chunk.get(key).is_some_and(Value::is_true))
    }

    fn node(&self, chunk: usize) -> usize {
        self.node_of.get(chunk).copied().unwrap_or_default()
    }

    fn has_turn(&mut self, node: usize, when: When) {
        if let Some(slot) = self.when.get_mut(node) {
            *slot = when;
        }
    }

    /// Returns the phase of a node. The test run of a chunk has the phase of the chunk.
    pub(super) fn turn_of(&self, node: usize) -> When {
        let chunk = self.graph.nodes().get(node).map(|node| node.chunk);
        let node = chunk.map(|chunk| self.node(chunk));
        let when = node.and_then(|node| self.when.get(node));
        when.copied().unwrap_or_default()
    }

    /// Adds the compensating chunks of a chunk.
    fn compensation(&mut self, chunk: usize) -> Result<(), Fault> {
        const KIND: RequisiteKind = RequisiteKind::Compensate;
        let Some(items) = self.chunks.get(chunk).and_then(compensating) else {
            return Err(self.fault(chunk, KIND, 0, |low| {
                format!("compensate {low} names no state: give the ID of one, or a list of IDs")
            }));
        };
        let node = self.node(chunk);
        for (place, item) in items.iter().enumerate() {
            let Some((group, name, found)) = self.named_by(chunk, KIND, place, item)? else {
                continue;
            };
            let head = format!("Requisite [compensate: ({group}: {name})]");
            let wrong = |tail: &str| {
                let text = |low: &str| format!("{head} {low} {tail}");
                self.fault(chunk, KIND, place, text)
            };
            if found.contains(&node) {
                return Err(wrong("names the state itself: it cannot undo itself"));
            }
            let when = |target: &usize| self.when.get(*target).copied();
            if found
                .iter()
                .any(|target| when(target) == Some(When::Finally))
            {
                return Err(wrong(
                    "names a state with finally: True, which runs at the end in any case",
                ));
            }
            for target in &found {
                self.has_turn(*target, When::Compensating);
            }
            self.declare(chunk, KIND, group, &name, found);
        }
        Ok(())
    }

    /// Returns the fault of a chunk that names others in `compensate` but does not run in the
    /// ordinary phase itself.
    fn chain(&self, chunk: usize) -> Option<Fault> {
        const KIND: RequisiteKind = RequisiteKind::Compensate;
        let why = match self.turn_of(self.node(chunk)) {
            When::Ordinary => return None,
            When::Compensating => {
                "is on a state that compensates another: a compensating state cannot be compensated itself"
            }
            When::Finally => {
                "is on a state with finally: True, which runs at the end: no later state can fail"
            }
        };
        let items = self.chunks.get(chunk).and_then(compensating)?;
        let (group, name) = items.first().and_then(item_of)?;
        let head = format!("Requisite [compensate: ({group}: {})]", name.to_text());
        Some(self.fault(chunk, KIND, 0, |low| format!("{head} {low} {why}")))
    }

    /// Returns those nodes of a requisite that run early enough. For `sls` and globs, later ones
    /// are ignored; otherwise a later one is a fault.
    pub(super) fn in_turn(
        &self,
        chunk: usize,
        kind: RequisiteKind,
        place: usize,
        (group, name): (&str, &str),
        mut found: Vec<usize>,
    ) -> Result<Vec<usize>, Fault> {
        let own = self.turn_of(self.node(chunk));
        let late = |target: &usize| {
            let when = self.turn_of(*target);
            let before = when == When::Ordinary && kind != RequisiteKind::Prereq;
            (when != own && !before).then_some(when)
        };
        let first = found.iter().find_map(late);
        let (Some(when), false) = (first, group == "sls" || is_glob(name)) else {
            found.retain(|target| late(target).is_none());
            return Ok(found);
        };
        let head = format!("Requisite [{}: ({group}: {name})]", kind.word());
        let tail = match when {
            When::Ordinary => "names a state that has already run by then",
            When::Compensating => {
                "names a state that runs only when a later one fails: another state lists it in compensate"
            }
            When::Finally => "names a state that runs at the end: it has finally: True",
        };
        Err(self.fault(chunk, kind, place, |low| format!("{head} {low} {tail}")))
    }

    /// Checks the listeners of a chunk. Listeners are called before the later phases, so neither
    /// side may run in one of them.
    pub(super) fn heard_in_time(&self, chunk: usize) -> Result<(), Fault> {
        let own = self.turn_of(self.node(chunk));
        let listened = ["listen", "listen_in"].map(|key| self.items(chunk, key));
        for (place, item) in listened.iter().flat_map(|items| items.iter().enumerate()) {
            let Some((group, name)) = item_of(item) else {
                continue;
            };
            let name = name.to_text();
            let mut found = self.listed(&group, &name);
            found.extend((own != When::Ordinary).then(|| self.node(chunk)));
            if found
                .iter()
                .any(|node| self.turn_of(*node) != When::Ordinary)
            {
                let kind = RequisiteKind::Listen;
                return Err(self.fault(chunk, kind, place, |low| {
                    format!(
                        "Requisite [listen: ({group}: {name})] {low} has no effect: listeners are called before compensating states and states with finally: True"
                    )
                }));
            }
        }
        Ok(())
    }
}
