//! Computes the sort keys of chunks, which decide the order of chunks that do not need each other.

use value::{Map, Value};

use super::graph::{Graph, Key};
use crate::low::RequisiteKind;

/// The distance from the highest order at which `last`, and negative orders, begin.
const BEHIND: i64 = 1_000_000;

/// Returns the sort key of a node. As in Salt, this also replaces the `order` of the chunk, and of
/// those that need it, by the final number.
pub(crate) fn key(graph: &Graph, chunks: &mut [Map], cap: i64, node: usize) -> Key {
    let chunk_of = |node: usize| graph.nodes().get(node).map(|node| node.chunk);
    let Some(chunk) = chunk_of(node).and_then(|chunk| chunks.get_mut(chunk)) else {
        return Key {
            least: f64::INFINITY,
            order: f64::INFINITY,
            label: String::new(),
        };
    };
    let order = settled(chunk, cap);
    let text = |key| chunk.get(key).map(Value::as_text).unwrap_or_default();
    let label = ["state", "name", "fun"].map(text).concat();
    let mut least = f64::INFINITY;
    let mut weight = 0;
    for (child, kind) in graph.needed_by(node) {
        if weight <= weight_of(kind) {
            weight = weight_of(kind);
            let child = chunk_of(child).and_then(|child| chunks.get_mut(child));
            least = least.min(child.map_or(f64::INFINITY, |child| child_order(child, cap)));
        }
    }
    Key {
        least: order.min(least),
        order,
        label,
    }
}

/// Returns the weight of a requisite kind. Only the needing chunks of the heaviest kind move a
/// chunk forward.
fn weight_of(kind: RequisiteKind) -> usize {
    const RISING: [RequisiteKind; 11] = [
        RequisiteKind::Onfail,
        RequisiteKind::OnfailAny,
        RequisiteKind::OnfailAll,
        RequisiteKind::Require,
        RequisiteKind::RequireAny,
        RequisiteKind::Onchanges,
        RequisiteKind::OnchangesAny,
        RequisiteKind::Watch,
        RequisiteKind::WatchAny,
        RequisiteKind::Prereq,
        RequisiteKind::Listen,
    ];
    RISING
        .iter()
        .position(|other| *other == kind)
        .unwrap_or_default()
}

/// Returns the order of a chunk as a number. Stores it in the chunk if the order was a word or
/// negative, or if the chunk is one of several names.
fn settled(chunk: &mut Map, cap: i64) -> f64 {
    let mut order = match chunk.get("order").and_then(number) {
        Some(order) => order,
        None => {
            let order = word_order(chunk.get("order"), cap);
            chunk.insert("order", order);
            order as f64
        }
    };
    let name_order = chunk.remove("name_order").and_then(|order| order.as_int());
    if let Some(place) = name_order.filter(|place| *place != 0) {
        order += place as f64 / 10000.0;
        chunk.insert("order", order);
    }
    if order < 0.0 {
        order += (cap + BEHIND) as f64;
        match chunk.get("order") {
            Some(Value::Int(own)) => {
                let own = own + cap + BEHIND;
                chunk.insert("order", own);
            }
            _ => {
                chunk.insert("order", order);
            }
        }
    }
    order
}

fn child_order(chunk: &mut Map, cap: i64) -> f64 {
    let Some(order) = chunk.get("order") else {
        return f64::INFINITY;
    };
    if let Some(order) = number(order) {
        return order;
    }
    let order = word_order(Some(order), cap);
    chunk.insert("order", order);
    order as f64
}

fn word_order(order: Option<&Value>, cap: i64) -> i64 {
    match order.and_then(Value::as_str) {
        Some("last") => cap + BEHIND,
        Some("first") => 0,
        _ => cap,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        other => other.as_float(),
    }
}
