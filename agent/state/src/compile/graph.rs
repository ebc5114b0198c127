//! [`Graph`]: the dependencies between chunks, their cycles, and the resulting order.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use indexmap::IndexMap;
use value::hash::Keyed;

use crate::low::RequisiteKind;

/// A chunk, or the test run of a chunk that a prereq requests.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Salt's tag of it: the last criterion of the order.
    pub(crate) tag: String,
    /// The chunk, as an index into the list from which the graph was built.
    pub(crate) chunk: usize,
    /// True for a test run.
    pub(crate) test: bool,
}

type Edges = IndexMap<usize, Vec<RequisiteKind>, Keyed>;

/// Nodes by number, with edges from each node to those that need it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    out: Vec<Edges>,
    into: Vec<Edges>,
    tests: Vec<Option<usize>>,
}

/// The sort key that decides which of the runnable nodes is first.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// The minimum of the orders of the node and of the nodes that need it.
    pub(crate) least: f64,
    /// The order of the node.
    pub(crate) order: f64,
    /// Module, name and function.
    pub(crate) label: String,
}

impl Graph {
    /// Adds a node and returns its number.
    pub(crate) fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.out.push(Edges::default());
        self.into.push(Edges::default());
        self.tests.push(None);
        self.nodes.len() - 1
    }

    /// Returns all nodes by number.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Assigns another chunk with the same tag to a node.
    pub(crate) fn stands_for(&mut self, node: usize, chunk: usize) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.chunk = chunk;
        }
    }

    /// Returns the nodes that a node needs, with the kind of requisite.
    pub(crate) fn needs(&self, node: usize) -> impl Iterator<Item = (usize, RequisiteKind)> {
        pairs(&self.into, node)
    }

    /// Returns the nodes that need a node, with the kind of requisite.
    pub(crate) fn needed_by(&self, node: usize) -> impl Iterator<Item = (usize, RequisiteKind)> {
        pairs(&self.out, node)
    }

    /// Adds the dependency of `node` on `needed`. If `node` has a test run, that depends on
    /// `needed`, too.
    pub(crate) fn require(&mut self, needed: usize, node: usize, kind: RequisiteKind) {
        if let Some(test) = self.test_of(node) {
            self.edge(needed, test, kind);
        }
        self.edge(needed, node, kind);
    }

    /// Adds a prereq: `node` runs before `target`, and only if a test run of `target` would change
    /// something.
    pub(crate) fn prereq(&mut self, node: usize, target: usize) {
        let test = self
            .test_of(target)
            .unwrap_or_else(|| self.add_test(target));
        self.edge(test, node, RequisiteKind::Prereq);
        self.edge(node, target, RequisiteKind::Require);
        if let Some(own) = self.test_of(node) {
            self.edge(test, own, RequisiteKind::Prereq);
        }
    }

    fn test_of(&self, node: usize) -> Option<usize> {
        self.tests.get(node).copied().flatten()
    }

    fn add_test(&mut self, target: usize) -> usize {
        let (tag, chunk) = self
            .nodes
            .get(target)
            .map(|node| (format!("{}_|-__prereq_test__", node.tag), node.chunk))
            .unwrap_or_default();
        let test = self.add(Node {
            tag,
            chunk,
            test: true,
        });
        if let Some(slot) = self.tests.get_mut(target) {
            *slot = Some(test);
        }
        let needs: Vec<_> = self.needs(target).collect();
        for (needed, kind) in needs {
            if kind != RequisiteKind::Prereq {
                self.edge(needed, test, kind);
            }
        }
        test
    }

    fn edge(&mut self, from: usize, to: usize, kind: RequisiteKind) {
        note(&mut self.out, from, to, kind);
        note(&mut self.into, to, from, kind);
    }

    /// Returns the nodes sorted so that each comes after all that it needs, the smallest key first.
    /// Returns `None` if there is a cycle.
    pub(crate) fn sorted(&self, mut key: impl FnMut(usize) -> Key) -> Option<Vec<usize>> {
        let mut waiting: Vec<usize> = self
            .into
            .iter()
            .map(|edges| edges.values().map(Vec::len).sum())
            .collect();
        let mut ready = BinaryHeap::new();
        let mut push = |ready: &mut BinaryHeap<_>, node: usize| {
            let tag = self.nodes.get(node).map_or("", |node| node.tag.as_str());
            ready.push(Reverse(Ready(key(node), tag, node)));
        };
        for (node, _) in waiting.iter().enumerate().filter(|(_, count)| **count == 0) {
            push(&mut ready, node);
        }
        let mut sorted = Vec::with_capacity(self.nodes.len());
        while let Some(Reverse(Ready(_, _, node))) = ready.pop() {
            sorted.push(node);
            for (target, kinds) in self.out.get(node).into_iter().flatten() {
                if let Some(count) = waiting.get_mut(*target) {
                    *count -= kinds.len();
                    if *count == 0 {
                        push(&mut ready, *target);
                    }
                }
            }
        }
        (sorted.len() == self.nodes.len()).then_some(sorted)
    }

    /// Returns the edges of one cycle, each from the needed to the needing node. Empty if there is
    /// no cycle.
    pub(crate) fn cycle(&self) -> Vec<(usize, usize, RequisiteKind)> {
        let mut seen = vec![Colour::White; self.nodes.len()];
        for root in 0..self.nodes.len() {
            if seen.get(root) == Some(&Colour::White) {
                let found = self.cycle_from(root, &mut seen);
                if !found.is_empty() {
                    return found;
                }
            }
        }
        Vec::new()
    }

    /// Searches depth first, without recursion, because a chain may be long.
    fn cycle_from(&self, root: usize, seen: &mut [Colour]) -> Vec<(usize, usize, RequisiteKind)> {
        let mut path: Vec<(usize, usize, RequisiteKind)> = Vec::new();
        let mut stack = vec![(root, self.needed_by(root).collect::<Vec<_>>().into_iter())];
        paint(seen, root, Colour::Grey);
        while let Some((node, rest)) = stack.last_mut() {
            let node = *node;
            let Some((target, kind)) = rest.next() else {
                paint(seen, node, Colour::Black);
                stack.pop();
                path.pop();
                continue;
            };
            match seen.get(target) {
                Some(Colour::Grey) => {
                    let start = path.iter().position(|(from, _, _)| *from == target);
                    let mut cycle = path.split_off(start.unwrap_or(path.len()));
                    cycle.push((node, target, kind));
                    return cycle;
                }
                Some(Colour::White) => {
                    paint(seen, target, Colour::Grey);
                    path.push((node, target, kind));
                    stack.push((
                        target,
                        self.needed_by(target).collect::<Vec<_>>().into_iter(),
                    ));
                }
                _ => {}
            }
        }
        Vec::new()
    }

    /// Returns true if `to` is one of these nodes, or needs one of them directly or indirectly.
    pub(crate) fn reaches(&self, from: &[usize], to: usize) -> bool {
        let mut seen = vec![false; self.nodes.len()];
        let mut stack = from.to_vec();
        while let Some(node) = stack.pop() {
            if node == to {
                return true;
            }
            if let Some(seen) = seen.get_mut(node).filter(|seen| !**seen) {
                *seen = true;
                stack.extend(
                    self.out
                        .get(node)
                        .into_iter()
                        .flat_map(|edges| edges.keys()),
                );
            }
        }
        false
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Colour {
    White,
    Grey,
    Black,
}

fn paint(seen: &mut [Colour], node: usize, colour: Colour) {
    if let Some(slot) = seen.get_mut(node) {
        *slot = colour;
    }
}

fn pairs(edges: &[Edges], node: usize) -> impl Iterator<Item = (usize, RequisiteKind)> {
    let edges = edges.get(node).into_iter().flatten();
    edges.flat_map(|(other, kinds)| kinds.iter().map(|kind| (*other, *kind)))
}

fn note(edges: &mut [Edges], node: usize, other: usize, kind: RequisiteKind) {
    if let Some(edges) = edges.get_mut(node) {
        let kinds = edges.entry(other).or_default();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
}

struct Ready<'a>(Key, &'a str, usize);

impl Ord for Ready<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (&self.0, &other.0);
        a.least
            .total_cmp(&b.least)
            .then_with(|| a.order.total_cmp(&b.order))
            .then_with(|| a.label.cmp(&b.label))
            .then_with(|| self.1.cmp(other.1))
    }
}

impl PartialOrd for Ready<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ready<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ready<'_> {}
