//! Combines lines of the picture: `require: [{sls: X}]` is a requisite on every state of X, and is
//! drawn as one line from X's frame.

use std::collections::{BTreeMap, BTreeSet};

use crate::Graph;

/// The beginning or end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// A state.
    Node(usize),
    /// A frame.
    Group(usize),
}

/// A line of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line {
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) kind: &'static str,
}

/// Returns the lines for all requisites. `group_of` contains the frame of each state, `sizes` the
/// number of states in each frame.
pub(crate) fn lines(graph: &Graph, group_of: &[usize], sizes: &[usize]) -> Vec<Line> {
    let group = |node: usize| group_of.get(node).copied().unwrap_or_default();
    let size = |group: usize| sizes.get(group).copied().unwrap_or_default();
    // A line begins at a frame if its state needs all states of that other frame.
    let mut sources: BTreeMap<(usize, usize, &'static str), BTreeSet<usize>> = BTreeMap::new();
    for edge in &graph.edges {
        let key = (group(edge.from), edge.to, edge.kind);
        sources.entry(key).or_default().insert(edge.from);
    }
    let mut lines = BTreeSet::new();
    let mut targets: BTreeMap<(usize, usize, &'static str), BTreeSet<usize>> = BTreeMap::new();
    for ((from, to, kind), nodes) in sources {
        let whole = from != group(to) && nodes.len() > 1 && nodes.len() == size(from);
        if whole {
            targets
                .entry((from, group(to), kind))
                .or_default()
                .insert(to);
        } else {
            let to = End::Node(to);
            lines.extend(nodes.into_iter().map(|node| Line {
                from: End::Node(node),
                to,
                kind,
            }));
        }
    }
    // A line also ends at a frame if all states of the frame need the other frame.
    for ((from, to, kind), nodes) in targets {
        let from = End::Group(from);
        match nodes.len() > 1 && nodes.len() == size(to) {
            true => {
                let to = End::Group(to);
                lines.insert(Line { from, to, kind });
            }
            false => lines.extend(nodes.into_iter().map(|node| Line {
                from,
                to: End::Node(node),
                kind,
            })),
        }
    }
    lines.into_iter().collect()
}
