//! The master's store on several masters in one process, by seeds: the machines, network and clients
//! of the simulation of the log (`tests/simulation/cluster`), with the real store as the state. The
//! store's folders are in memory. A machine that loses its power loses the end of the store's journal
//! that was not synced, at any byte. Clients, minions and reactors use the store as the master does:
//! keys, tokens, jobs, returns, events, reactions, orchestrations and rings. In the end, everything
//! that was acknowledged is in the store of every master, nothing happened twice, all stores have the
//! same rows, and the clients have seen one order of what happened to each key, token, job,
//! orchestration and ring.
//!
//! To see that the checks find something, the cluster is broken in eight ways, and each must be found.
//!
//! usage: simulation; `PINCH_SEEDS` says how many (300), `PINCH_SEED` which one is the first (0),
//! `PINCH_SABOTAGE` breaks the cluster (1 to 8). With `PINCH_MINIONS`, that many minions enrol and
//! return one job instead ([`many`])
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

mod acts;
mod ends;
mod machine;
mod many;
mod minions;
mod reactions;
mod story;

#[path = "../cluster/check.rs"]
mod check;
#[path = "../dice.rs"]
mod dice;
#[path = "../cluster/disk.rs"]
mod disk;
#[path = "../cluster/net.rs"]
mod net;
#[path = "../cluster/seeds.rs"]
mod seeds;
#[path = "../cluster/site.rs"]
mod site;
#[path = "../cluster/world.rs"]
mod world;

#[allow(
    dead_code,
    unfulfilled_lint_expectations,
    unused_imports,
    reason = "this is the master's source file, of which the test uses only a part"
)]
#[path = "../../../master-lite/src/store/mod.rs"]
mod store;

use std::process::ExitCode;

use site::Sabotage;

/// The number of seeds if `PINCH_SEEDS` is not set.
const SEEDS: u64 = 300;
/// The number of seeds among which each sabotage must be found.
const SABOTAGE_SEEDS: u64 = 400;
const SABOTAGES: [Sabotage; 8] = [
    Sabotage::AcknowledgedBeforeSync,
    Sabotage::LeaderRestored,
    Sabotage::EmptyDiskUnderOldNumber,
    Sabotage::CutBeforeSync,
    Sabotage::NoDuplicatesFound,
    Sabotage::NoFence,
    Sabotage::NoBarrier,
    Sabotage::OpenFence,
];

fn main() -> ExitCode {
    if let Some(minions) = seeds::number("PINCH_MINIONS") {
        return match many::run(minions) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                println!("{why}");
                ExitCode::FAILURE
            }
        };
    }
    seeds::run(
        "simulation",
        site::run::<story::Fleet>,
        SEEDS,
        (&SABOTAGES, SABOTAGE_SEEDS),
    )
}
