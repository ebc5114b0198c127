//! [`run`]: a story by seeds, on all threads, and the sabotages that must be found.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::site::{self, Sabotage};

const THREADS: usize = 2;
/// The number of seeds that run twice, to compare the outcomes.
const TWICE: u64 = 5;

/// A story of a seed. It returns what does not hold, or a hash of all that happened.
type Story = fn(u64, Option<Sabotage>) -> Result<u64, String>;

/// Returns the number in an environment variable.
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs seeds until one does not hold, and returns that one with the reason.
fn first_failure(
    story: Story,
    first: u64,
    count: u64,
    sabotage: Option<Sabotage>,
) -> Option<(u64, String)> {
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
                    if let Err(why) = outcome(story, seed, sabotage) {
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
fn outcome(story: Story, seed: u64, sabotage: Option<Sabotage>) -> Result<u64, String> {
    let told = std::panic::catch_unwind(|| story(seed, sabotage)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    });
    site::end();
    told
}

/// Runs a story with as many seeds as `PINCH_SEEDS` says, and with each sabotage, until one of the
/// given number of seeds finds it. `package` has the test.
pub fn run(
    package: &str,
    story: Story,
    seeds: u64,
    (sabotages, sabotage_seeds): (&[Sabotage], u64),
) -> ExitCode {
    let first = number("PINCH_SEED").unwrap_or(0);
    let count = number("PINCH_SEEDS").unwrap_or(seeds);
    let sabotage = number("PINCH_SABOTAGE").map(|number| sabotages[number as usize - 1]);
    if sabotage.is_none() && count != 1 {
        // The panics of sabotaged clusters are outcomes.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let began = std::time::Instant::now();
    let failure = first_failure(story, first, count, sabotage);
    let took = began.elapsed().as_secs_f64();
    if let Some((seed, why)) = failure {
        println!("seed {seed}: {why}");
        println!(
            "again with: PINCH_SEED={seed} PINCH_SEEDS=1 cargo test --package {package} --test simulation"
        );
        return ExitCode::FAILURE;
    }
    println!("{count} seeds hold ({took:.1} s)");
    if sabotage.is_some() || count == 1 {
        return ExitCode::SUCCESS;
    }
    for sabotage in sabotages {
        match first_failure(story, 0, sabotage_seeds, Some(*sabotage)) {
            Some((seed, why)) => println!("{sabotage:?} is found by seed {seed}: {why}"),
            None => {
                println!("{sabotage:?} is not found by {sabotage_seeds} seeds");
                return ExitCode::FAILURE;
            }
        }
    }
    for seed in first..first + TWICE {
        let twice = [outcome(story, seed, None), outcome(story, seed, None)];
        if twice[0] != twice[1] {
            println!("seed {seed} has two outcomes: {twice:?}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
