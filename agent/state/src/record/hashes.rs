//! Numbers that tell whether a plan has changed since its run was cut short.

use std::hash::{Hash as _, Hasher as _};
use std::mem::discriminant;

use value::hash::Folded;
use value::{Map, Value, secret};

use super::digits;
use crate::compile::Plan;

/// A number that changes when what will run changes.
#[must_use]
pub fn plan_hash(plan: &Plan) -> String {
    plan_hashes(plan).0
}

/// The hash of a plan, and eight digits for each of its chunks.
pub(super) fn plan_hashes(plan: &Plan) -> (String, String) {
    let mut sum = Folded::of_all_programs();
    let mut chunks = String::with_capacity(8 * plan.chunks().len());
    for low in plan.chunks() {
        let one = chunk_hash(&low.data);
        sum.write_u32(one);
        digits(&mut chunks, u64::from(one), 8);
    }
    (format!("{:016x}", sum.finish()), chunks)
}

/// A number for a chunk, wherever it stands in its plan. Secrets are left out: a short one could be guessed from it.
#[must_use]
pub fn chunk_hash(data: &Map) -> u32 {
    let mut sum = Folded::of_all_programs();
    for (key, value) in &secret::map(data.clone()) {
        if key.as_str() != Some("order") {
            fold(&mut sum, key);
            fold(&mut sum, value);
        }
    }
    let sum = sum.finish();
    (sum ^ (sum >> 32)) as u32
}

/// Adds all that is in a value, and of what kind it is, to a hash.
fn fold(sum: &mut Folded, value: &Value) {
    match value {
        Value::List(items) | Value::Tuple(items) => {
            sum.write_usize(items.len());
            items.iter().for_each(|item| fold(sum, item));
        }
        Value::Map(map) | Value::Set(map) => fold_map(sum, map),
        scalar => {
            discriminant(scalar).hash(sum);
            scalar.hash(sum);
        }
    }
}

fn fold_map(sum: &mut Folded, map: &Map) {
    sum.write_usize(map.len());
    for (key, value) in map {
        fold(sum, key);
        fold(sum, value);
    }
}
