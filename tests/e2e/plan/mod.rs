//! `pinch plan` and `pinch apply`: what a plan says, what becomes of it, and when it is refused.

mod machine;
mod outcomes;
mod refusals;
pub(crate) mod schema;
mod seeds;
