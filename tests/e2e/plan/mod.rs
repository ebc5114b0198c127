//! `pinch plan` and `pinch apply`: the contents of a plan, its application, and its refusal.

mod machine;
mod outcomes;
mod refusals;
pub(crate) mod schema;
mod seeds;
