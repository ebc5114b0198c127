//! The machine that this program runs on: its files, processes, accounts and network. Modules reach
//! them through this crate alone, so that a write survives a power failure, a program has a
//! deadline, and data that cannot be read is an error.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests make what they need in folders of their own"
    )
)]

pub mod accounts;
pub mod durable;
pub mod fs;
pub mod hashes;
pub mod net;
pub mod process;
pub mod procfs;
pub mod systemd;
#[cfg(test)]
mod testing;
