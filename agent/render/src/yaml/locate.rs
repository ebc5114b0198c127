//! Finds the place of a value in its document.

use value::Value;

use super::compose::{Content, Graph, NodeId, compose};
use super::resolve::Tag;
use super::scalar;

/// Returns the line and column, both from 1, of the value at `path`: map keys and, for lists, `Int`
/// indexes. For an entry of a map this is the place of the key. Returns `None` if the document has
/// no such value or does not load.
#[must_use]
pub fn locate(text: &str, path: &[Value]) -> Option<(u32, u32)> {
    let (graph, root) = compose(text).ok()?;
    let mut here = root?;
    let mut mark = graph.node(here).mark;
    for step in path {
        let (at, next) = follow(&graph, here, step, &mut Vec::new())?;
        mark = graph.node(at).mark;
        here = next;
    }
    Some((mark.line, mark.column))
}

/// Returns the node whose place counts, and the node from which to continue. `seen` contains the
/// mappings that were visited: a merge may name its own mapping, and several may name the same one.
fn follow(
    graph: &Graph,
    here: NodeId,
    step: &Value,
    seen: &mut Vec<NodeId>,
) -> Option<(NodeId, NodeId)> {
    match &graph.node(here).content {
        Content::Sequence(items) => {
            let item = *items.get(usize::try_from(step.as_int()?).ok()?)?;
            Some((item, item))
        }
        Content::Mapping(pairs) => {
            seen.push(here);
            let own = pairs.iter().find(|(key, _)| is(graph, *key, step));
            own.copied().or_else(|| merged(graph, pairs, step, seen))
        }
        Content::Scalar(_) => None,
    }
}

fn merged(
    graph: &Graph,
    pairs: &[(NodeId, NodeId)],
    step: &Value,
    seen: &mut Vec<NodeId>,
) -> Option<(NodeId, NodeId)> {
    let sources = pairs
        .iter()
        .filter(|(key, _)| graph.node(*key).tag == Tag::Merge);
    let mut maps = sources.flat_map(|(_, source)| match &graph.node(*source).content {
        Content::Sequence(items) => items.clone(),
        _ => vec![*source],
    });
    let is_map = |id: &NodeId| matches!(graph.node(*id).content, Content::Mapping(_));
    maps.find_map(|map| {
        let new = is_map(&map) && !seen.contains(&map);
        new.then(|| follow(graph, map, step, seen))?
    })
}

fn is(graph: &Graph, key: NodeId, step: &Value) -> bool {
    let node = graph.node(key);
    match &node.content {
        Content::Scalar(text) if node.tag == Tag::Value => step.as_str() == Some(text),
        Content::Scalar(text) => {
            matches!(scalar::construct(&node.tag, text, node.mark), Ok(Some(value)) if value == *step)
        }
        _ => false,
    }
}
