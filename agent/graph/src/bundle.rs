//! Lines that stand for many: `require: [{sls: X}]` is a requisite on every state of X, and one line from its frame says so.

use std::collections::{BTreeMap, BTreeSet};

use crate::Graph;

/// Where a line begins or ends.
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

/// The lines for all requisites; `group_of` is the frame of each state, `sizes` how many states a frame has.
pub(crate) fn lines(graph: &Graph, group_of: &[usize], sizes: &[usize]) -> Vec<Line> {
    let group = |node: usize| group_of.get(node).copied().unwrap_or_default();
    let size = |group: usize| sizes.get(group).copied().unwrap_or_default();
    // From the frame as a whole, where a state needs all that is in another frame.
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
    // And to the frame as a whole, where all that is in it needs the other frame.
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
