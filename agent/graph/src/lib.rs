//! Draws requisite graphs: turns states and their requisites into SVG, DOT or Mermaid. Reads no
//! files and runs no states.
//!
//! The states of one SLS are in one frame. Inside a frame, and among frames, a state or frame is to
//! the left of those that need it ([`layout`]). Lines run in the gaps between boxes ([`route`]), so
//! none crosses a box.

mod bundle;
mod layout;
mod route;
mod svg;
mod text;

use std::fmt::{Arguments, Write as _};

pub use svg::svg;
pub use text::{dot, mermaid};

/// Appends formatted text to a `String`.
trait PushFmt {
    fn push_fmt(&mut self, text: Arguments<'_>);
}

impl PushFmt for String {
    #[expect(
        clippy::let_underscore_must_use,
        reason = "writing to a String does not fail"
    )]
    fn push_fmt(&mut self, text: Arguments<'_>) {
        let _ = self.write_fmt(text);
    }
}

/// The result of a state in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The state succeeded and changed nothing.
    Ok,
    /// The state changed something.
    Changed,
    /// The state would change something.
    Would,
    /// The state did not run because of its requisites.
    Skipped,
    /// The state failed.
    Failed,
    /// The state has no return.
    Unknown,
}

impl Outcome {
    /// Returns the word for the outcome in the picture.
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
    /// The id of the state.
    pub id: String,
    /// The name of the state, if it differs from the id.
    pub name: String,
    /// The module: `file`.
    pub module: String,
    /// The function: `managed`.
    pub function: String,
    /// The SLS.
    pub group: String,
    /// The outcome of the state, in the picture of a run.
    pub outcome: Option<Outcome>,
}

/// A requisite. Both ends are indexes into [`Graph::nodes`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The state that runs first.
    pub from: usize,
    /// The state that waits for it.
    pub to: usize,
    /// The kind of requisite: `require`.
    pub kind: &'static str,
}

/// States in the order in which they run, and their requisites.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The title of the picture.
    pub title: String,
    /// The states.
    pub nodes: Vec<Node>,
    /// The requisites.
    pub edges: Vec<Edge>,
}

impl Graph {
    /// Returns the SLS in the order of their first states, each with the indexes of its states.
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
