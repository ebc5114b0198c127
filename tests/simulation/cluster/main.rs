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
mod story;
mod world;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use story::Sabotage;

const SABOTAGES: [Sabotage; 5] = [
    Sabotage::AcknowledgedBeforeSync,
    Sabotage::LeaderRestored,
    Sabotage::EmptyDiskUnderOldNumber,
    Sabotage::CutBeforeSync,
    Sabotage::NoDuplicatesFound,
];
/// The number of seeds among which each sabotage must be found.
const SABOTAGE_SEEDS: u64 = 200;
const THREADS: usize = 2;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs seeds until one does not hold, and returns that one with the reason.
fn first_failure(first: u64, count: u64, sabotage: Option<Sabotage>) -> Option<(u64, String)> {
    let next = Arc::new(AtomicU64::new(first));
    let failure = Arc::new(Mutex::new(None));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (next, failure) = (next.clone(), failure.clone());
            std::thread::spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count || failure.lock().unwrap().is_some() {
                        return;
                    }
                    if let Err(why) = outcome(seed, sabotage) {
                        *failure.lock().unwrap() = Some((seed, why));
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    failure.lock().unwrap().take()
}

/// Runs a story. openraft panics where it finds that its log was lost.
fn outcome(seed: u64, sabotage: Option<Sabotage>) -> Result<u64, String> {
    let run = || story::run(seed, sabotage);
    let told = std::panic::catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    });
    story::end();
    told
}

fn main() -> ExitCode {
    let first = number("PINCH_SEED").unwrap_or(0);
    let count = number("PINCH_SEEDS").unwrap_or(2000);
    let sabotage = number("PINCH_SABOTAGE").map(|number| SABOTAGES[number as usize - 1]);
    if sabotage.is_none() && count != 1 {
        // The panics of sabotaged clusters are outcomes.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let began = std::time::Instant::now();
    let failure = first_failure(first, count, sabotage);
    let took = began.elapsed().as_secs_f64();
    if let Some((seed, why)) = failure {
        println!("seed {seed}: {why}");
        println!(
            "again with: PINCH_SEED={seed} PINCH_SEEDS=1 cargo test --package cluster --test simulation"
        );
        return ExitCode::FAILURE;
    }
    println!("{count} seeds hold ({took:.1} s)");
    if sabotage.is_some() || count == 1 {
        return ExitCode::SUCCESS;
    }
    for sabotage in SABOTAGES {
        match first_failure(0, SABOTAGE_SEEDS, Some(sabotage)) {
            Some((seed, why)) => println!("{sabotage:?} is found by seed {seed}: {why}"),
            None => {
                println!("{sabotage:?} is not found by {SABOTAGE_SEEDS} seeds");
                return ExitCode::FAILURE;
            }
        }
    }
    let twice = [outcome(first, None), outcome(first, None)];
    if twice[0] != twice[1] {
        println!("seed {first} has two outcomes: {twice:?}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
