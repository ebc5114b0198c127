//! Runs the cases of a corpus in parallel, and compares their results.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::differences::{self, Difference};
use crate::program;

/// The number of cases that run at once.
const SIDE_BY_SIDE: usize = 2;

/// A case of a corpus.
pub trait Case: Sync {
    /// Its name: kind, group, case.
    fn name(&self) -> String;
    /// Fails with the first difference from the recorded answer.
    fn check(&self) -> Result<(), String>;
    /// Fails with the first difference from the answer that Pinch intends to give, in a case where
    /// it differs from Salt on purpose. With `PINCH_RECORD`, the answer is recorded.
    fn check_ours(&self) -> Result<(), String> {
        Err("no intended answer can be recorded for this kind of case".to_owned())
    }
}

/// A case that differs from its recording. If `differences.toml` lists it, `ours` is the result of
/// the comparison with the answer that Pinch intends to give.
struct Differing {
    name: String,
    why: String,
    ours: Option<Result<(), String>>,
}

/// Runs all cases, or those with `PINCH_CASE` in their name if it is set. Fails if a case differs
/// that is not listed, if a listed case does not differ, or if its answer is not the intended one.
pub fn check_all(kind: &str, cases: &[impl Case]) {
    let only = std::env::var("PINCH_CASE").unwrap_or_default();
    let chosen: Vec<_> = cases.iter().filter(|c| c.name().contains(&only)).collect();
    assert!(!cases.is_empty(), "no {kind} case found");
    program::make_ready();
    let listed = differences::of_kind(kind);
    let (next, differing) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let slowest = Mutex::new((Duration::ZERO, String::new()));
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(case) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let start = Instant::now();
                    if let Err(why) = case.check() {
                        let name = case.name();
                        let covered = listed.iter().any(|d| d.covers(&name));
                        let ours = covered.then(|| case.check_ours());
                        differing
                            .lock()
                            .unwrap()
                            .push(Differing { name, why, ours });
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
    differing.sort_by(|a, b| a.name.cmp(&b.name));
    let passed = chosen.len() - differing.len();
    let (time, name) = slowest.into_inner().unwrap();
    println!(
        "{kind}: {passed} of {} cases agree; the slowest took {:.1} s: {name}",
        chosen.len(),
        time.as_secs_f64()
    );
    let names: Vec<String> = chosen.iter().map(|c| c.name()).collect();
    assert!(
        judge(&listed, &names, &differing),
        "{kind}: see the cases above"
    );
}

fn judge(listed: &[Difference], names: &[String], differing: &[Differing]) -> bool {
    let mut good = true;
    for Differing { name, why, ours } in differing {
        let (whose, why) = match ours {
            Some(Ok(())) => continue,
            Some(Err(why)) => ("ours", why),
            None => ("recorded", why),
        };
        good = false;
        println!("differs  {name}\n         ({whose} / here) {why}");
    }
    for entry in listed {
        let ran = names.iter().any(|name| entry.covers(name));
        if ran && !differing.iter().any(|d| entry.covers(&d.name)) {
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
