//! Masters of a cluster in one process, by seeds: the log and the groups of the crate `cluster` with
//! a simulated clock, network and disk. Machines lose their power, disks and connections; clients
//! write and read meanwhile. In the end, everything that was acknowledged is there, nothing happened
//! twice, all masters have the same state, and the clients have seen one order of events.
//!
//! To see that the checks find something, the cluster is broken in five ways, and each must be
//! found.
//!
//! usage: simulation; `PINCH_SEEDS` says how many (2000), `PINCH_SEED` which one is the first (0),
//! `PINCH_SABOTAGE` breaks the cluster (1 to 5)
#![allow(
    clippy::indexing_slicing,
    clippy::let_underscore_must_use,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "this test is a separate program"
)]

mod book;
mod check;
#[path = "../dice.rs"]
mod dice;
mod disk;
mod net;
mod seeds;
mod site;
mod story;
mod world;

use std::process::ExitCode;

use site::Sabotage;

/// The number of seeds if `PINCH_SEEDS` is not set.
const SEEDS: u64 = 2000;
/// The number of seeds among which each sabotage must be found.
const SABOTAGE_SEEDS: u64 = 200;
const SABOTAGES: [Sabotage; 5] = [
    Sabotage::AcknowledgedBeforeSync,
    Sabotage::LeaderRestored,
    Sabotage::EmptyDiskUnderOldNumber,
    Sabotage::CutBeforeSync,
    Sabotage::NoDuplicatesFound,
];

fn main() -> ExitCode {
    seeds::run(
        "cluster",
        site::run::<story::Registers>,
        SEEDS,
        (&SABOTAGES, SABOTAGE_SEEDS),
    )
}
