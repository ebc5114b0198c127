//! Compares the program with the recorded answers of Salt in `tests/corpus`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::let_underscore_must_use,
    clippy::panic,
    reason = "a failing test panics with the difference"
)]

mod command;
mod states;
