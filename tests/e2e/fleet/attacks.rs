//! Attacks A1 to A26: what is sent, what is refused, and that nothing changed. `tests/corpus/attacks.toml` says which test shows which.

mod api;
mod events;
mod files;
mod guests;
pub(crate) mod limits;
mod local;
mod peers;
mod templates;
mod waits;
