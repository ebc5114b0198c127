//! `pinch plan` and `pinch apply`: shows what a run would change, and makes exactly those changes.
//!
//! There is one engine. To make a plan, it compiles the states and runs them in test mode.
//! `Preview` observes this and records the files that were read (`Seen`), the current state of
//! the affected paths (`path_state`), their contents after the changes, and the states whose outcome
//! is unknown (`depends`). To apply a plan, the engine compiles again, runs in test mode again
//! and compares the two documents. If they are equal, it runs the same compiled chunks and applies
//! the changes.
//!
//! The guarantee: nothing is changed if the tree, the pillar, the grains, a target or what a state
//! would do differs from the plan. The run holds the lock of state runs from the comparison to its
//! end, so no other state run can interfere. Programs that ignore the lock may still change
//! something meanwhile. Therefore each state with a known outcome is run in test mode once more
//! just before it applies its changes, and the new contents of a file are compared with the plan
//! before the rename. If one of these differs, the state fails, and no state after it changes
//! anything. What remains is the time between that last check and the change itself. States that
//! depend on an earlier change do what their SLS says.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests make what they need in folders of their own"
    )
)]

mod compare;
mod depends;
mod document;
mod keyed_hash;
mod path_state;
mod preview;
mod providers;
mod scope;
mod sources_read;
mod text;

pub use compare::moved;
pub use document::{Document, Invocation, Problem, VERSION};
pub use preview::Preview;
pub use sources_read::{Seen, Watched};
pub use text::format_plan;

use value::json::{self, Layout};
use value::{Map, Value};

/// Returns the SHA-256 of a text, in hexadecimal digits.
fn hash(data: &[u8]) -> String {
    machine::hashes::of_bytes(data, "sha256").unwrap_or_default()
}

/// Returns the hash of a value's JSON.
fn hash_of(value: &Value) -> String {
    hash(json::write(value, Layout::default()).as_bytes())
}

/// Returns a return without the parts that differ in each run: times and job ids.
fn settled(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let is_ret = map.contains("__run_num__") || map.contains("result");
            let volatile = ["start_time", "duration", "__jid__"];
            let kept = map.iter().filter(|(key, _)| {
                !is_ret || !key.as_str().is_some_and(|key| volatile.contains(&key))
            });
            kept.map(|(key, value)| (key.clone(), settled(value)))
                .collect::<Map>()
                .into()
        }
        Value::List(items) => Value::list(items.iter().map(settled)),
        other => other.clone(),
    }
}
