//! The layer between the user and a run: options, configuration files, outputters, errors and exit
//! codes.
//!
//! This crate knows no module. It reads and writes YAML through a trait.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        clippy::let_underscore_must_use,
        reason = "tests make what they need in folders of their own"
    )
)]

pub mod background;
pub mod binary;
#[cfg(any(test, target_env = "musl"))]
pub mod compare;
pub mod completion;
pub mod config;
pub mod failure;
pub mod heap;
pub mod log;
pub mod options;
pub mod output;
pub mod progress;
pub mod resident;
