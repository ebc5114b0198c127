//! Pictures of requisite graphs: states and what they need go in, SVG, DOT or Mermaid comes out. Nothing is read and nothing is run.
//!
//! States of one SLS stand in one frame. Inside a frame, and among frames, what is needed stands left of what needs it
//! ([`layout`]); lines run in the gaps between boxes ([`route`]), so that none crosses one.

mod bundle;
mod layout;
mod route;
mod svg;
mod text;

pub use svg::svg;
pub use text::{dot, mermaid};

/// What came of a state in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It succeeded and changed nothing.
    Ok,
    /// It changed something.
    Changed,
    /// It would change something.
    Would,
    /// Its requisites kept it from running.
    Skipped,
    /// It failed.
    Failed,
    /// It has no return.
    Unknown,
}

impl Outcome {
    /// The word in the picture.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Changed => "changed",
            Self::Would => "would change",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Unknown => "no return",
        }
    }
}

/// A state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: String,
    /// Its name, where that is another.
    pub name: String,
    /// The module: `file`.
    pub module: String,
    /// The function: `managed`.
    pub function: String,
    /// The SLS.
    pub group: String,
    /// What came of it, in the picture of a run.
    pub outcome: Option<Outcome>,
}

/// A requisite: what must come first, and what it is for. Both are places in [`Graph::nodes`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// What comes first.
    pub from: usize,
    /// What waits for it.
    pub to: usize,
    /// The requisite: `require`.
    pub kind: &'static str,
}

/// States in the order in which they run, and their requisites.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// What the picture is of.
    pub title: String,
    /// The states.
    pub nodes: Vec<Node>,
    /// The requisites.
    pub edges: Vec<Edge>,
}

impl Graph {
    /// The SLS in the order of their first states, each with its states.
    fn groups(&self) -> Vec<(&str, Vec<usize>)> {
        let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let next = groups.len();
            let at = *known.entry(node.group.as_str()).or_insert(next);
            if at == next {
                groups.push((&node.group, Vec::new()));
            }
            if let Some((_, members)) = groups.get_mut(at) {
                members.push(index);
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests;
