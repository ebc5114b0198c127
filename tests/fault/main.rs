//! Failures during a run: kills, full disks, mistakes in the tree, endless documents, two runs at
//! once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::let_underscore_must_use,
    clippy::panic,
    reason = "a failing test panics with the difference"
)]

mod crash;
mod environments;
mod git;
mod handles;
mod inject;
mod limits;
mod lock;
mod machines;
mod mistakes;
mod reads;
mod reboot;
mod resume;
mod system;
