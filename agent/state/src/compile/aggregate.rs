//! Determines which chunks may be combined with chunks of the same module (`aggregate`,
//! `state_aggregate`).

use std::collections::HashMap;

use value::{Map, Value};

use super::graph::Graph;
use super::order::Rules;

/// The maximum size of a group. Salt has the same limit.
const MOST: usize = 500;

/// Returns the groups of nodes that may run as one. All nodes of a group belong to one module, and
/// none needs another.
pub(crate) fn groups(
    graph: &Graph,
    chunks: &[Map],
    sorted: &[usize],
    rules: &Rules<'_>,
) -> Vec<Vec<usize>> {
    let mut by_state: HashMap<String, Vec<Vec<usize>>> = HashMap::new();
    for node in sorted {
        let Some(place) = graph.nodes().get(*node).filter(|node| !node.test) else {
            continue;
        };
        let Some(chunk) = chunks
            .get(place.chunk)
            .filter(|chunk| allowed(chunk, rules))
        else {
            continue;
        };
        let state = chunk.get("state").map(Value::to_text).unwrap_or_default();
        let groups = by_state.entry(state).or_default();
        let apart = |group: &&mut Vec<usize>| group.len() < MOST && !graph.reaches(group, *node);
        match groups.iter_mut().find(apart) {
            Some(group) => group.push(*node),
            None => groups.push(vec![*node]),
        }
    }
    let all = by_state.into_values().flatten();
    all.filter(|group| group.len() > 1).collect()
}

fn allowed(chunk: &Map, rules: &Rules<'_>) -> bool {
    let state = chunk.get("state").cloned().unwrap_or_default();
    let wanted = match chunk.get("aggregate").unwrap_or(rules.aggregate) {
        Value::Bool(truth) => *truth,
        Value::List(modules) => modules.contains(&state),
        Value::Map(modules) => modules.contains_value(&state),
        _ => false,
    };
    wanted && (rules.has)(&format!("{}.mod_aggregate", state.to_text()))
}
