//! Running the cases of a corpus side by side, and judging them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::{differences, program};

/// How many cases run at once.
const SIDE_BY_SIDE: usize = 2;

/// One case: its name, and what to run.
pub trait Case: Sync {
    /// Its name: kind, group, case.
    fn name(&self) -> String;
    /// The first difference from what is recorded.
    fn check(&self) -> Result<(), String>;
}

/// Runs all cases (those with `PINCH_CASE` in their name, when it is set) and fails when one differs that is not
/// listed, or when a listed one does not differ.
pub fn check_all(kind: &str, cases: &[impl Case]) {
    let only = std::env::var("PINCH_CASE").unwrap_or_default();
    let chosen: Vec<_> = cases.iter().filter(|c| c.name().contains(&only)).collect();
    assert!(!cases.is_empty(), "no {kind} case found");
    program::make_ready();
    let (next, differing) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let slowest = Mutex::new((Duration::ZERO, String::new()));
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(case) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let start = Instant::now();
                    if let Err(why) = case.check() {
                        differing.lock().unwrap().push((case.name(), why));
                    }
                    let mut slowest = slowest.lock().unwrap();
                    if start.elapsed() > slowest.0 {
                        *slowest = (start.elapsed(), case.name());
                    }
                }
            });
        }
    });
    let mut differing = differing.into_inner().unwrap();
    differing.sort();
    let passed = chosen.len() - differing.len();
    let (time, name) = slowest.into_inner().unwrap();
    println!(
        "{kind}: {passed} of {} cases agree; the slowest took {:.1} s: {name}",
        chosen.len(),
        time.as_secs_f64()
    );
    let names: Vec<String> = chosen.iter().map(|c| c.name()).collect();
    assert!(
        judge(kind, &names, &differing),
        "{kind}: see the cases above"
    );
}

fn judge(kind: &str, names: &[String], differing: &[(String, String)]) -> bool {
    let listed = differences::of_kind(kind);
    let mut good = true;
    for (name, why) in differing {
        if !listed.iter().any(|d| d.covers(name)) {
            good = false;
            println!("differs  {name}\n         (recorded / here) {why}");
        }
    }
    for entry in &listed {
        let ran = names.iter().any(|name| entry.covers(name));
        if ran && !differing.iter().any(|(name, _)| entry.covers(name)) {
            good = false;
            println!(
                "differences.toml: {:?} is no longer needed: its cases agree",
                entry.case
            );
        }
        if !ran && std::env::var_os("PINCH_CASE").is_none() {
            good = false;
            println!("differences.toml: {:?} names no case", entry.case);
        }
    }
    good
}
