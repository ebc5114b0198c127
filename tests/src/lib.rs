//! Helpers for the tests of the whole program: they run the built program in a scratch folder and
//! compare its results.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::let_underscore_must_use,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failing test panics with the difference"
)]

pub mod answer;
pub mod chance;
pub mod corpus;
pub mod differences;
pub mod folder;
pub mod git;
pub mod hypervisor;
pub mod program;
pub mod scratch;
pub mod server;
pub mod skip;
pub mod terminal;
