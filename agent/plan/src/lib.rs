//! `pinch plan` and `pinch apply`: what a run would change, and a run that changes just that.
//!
//! There is one engine. A plan is what it compiles, run in test mode; [`Foreseen`] looks on and writes down what was read ([`Seen`]),
//! what lies there now ([`image`]), what would lie there, and which states nobody can tell the outcome of ([`depends`]). To apply a plan
//! is to compile again, run in test mode again, compare the two documents, and run the same compiled chunks for good when they are equal.
//!
//! What is guaranteed: nothing is changed when the tree, the pillar, the grains, a target or what a state would do has moved since the
//! plan was made. The run holds the lock of state runs from the comparison to its end, so no other state run comes between. Programs that
//! heed no lock may still change something meanwhile: so each state whose outcome the plan knows is tried once more just before it runs,
//! and what a file is about to be replaced by is compared with the plan before the rename. Where one of these differs the state fails, and
//! no state after it changes anything. What is left is the time between that last look and the change itself. States that depend on an
//! earlier change do what their SLS says.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests make what they need in folders of their own"
    )
)]

mod blind;
mod compare;
mod depends;
mod document;
mod footprint;
mod foreseen;
mod image;
mod look;
mod seen;
mod text;

pub use compare::moved;
pub use document::{Asked, Document, Problem, VERSION};
pub use foreseen::Foreseen;
pub use seen::{Seen, Watched};
pub use text::shown;

use value::json::{self, Layout};
use value::{Map, Value};

/// The hash of a text, in hexadecimal digits.
fn hash(data: &[u8]) -> String {
    modules::hashes::of_bytes(data, "sha256").unwrap_or_default()
}

/// The hash of a value as JSON.
fn hash_of(value: &Value) -> String {
    hash(json::write(value, Layout::default()).as_bytes())
}

/// A return without what differs each time: times, and the ids of jobs.
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
