//! Hashes that show whether a plan has changed since its run was cut short.

use std::hash::{Hash as _, Hasher as _};
use std::mem::discriminant;

use value::hash::Folded;
use value::{Map, Value, secret};

use super::lines::digits;
use crate::compile::Plan;

/// Returns a hash of a plan. It changes if the chunks that will run change.
#[must_use]
pub fn plan_hash(plan: &Plan) -> String {
    plan_hashes(plan).0
}

/// Returns the hash of a plan, and eight hexadecimal digits for each of its chunks.
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

/// Returns a hash of a chunk that does not depend on its position in the plan. Secrets are left
/// out, because a short one could be guessed from the hash.
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

/// Adds the kind of a value and its whole contents to a hash.
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
