//! Runs the cases of a corpus in parallel, and compares their results.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::differences::{self, Difference};
use crate::program;

/// The number of cases that run at once for each processor. With more, servers start too slowly.
const CASES_PER_PROCESSOR: usize = 1;

/// The result of a case that does not differ.
pub enum Outcome {
    /// The results agree with the recorded ones.
    Agrees,
    /// This machine cannot run the case, for this reason.
    NotRun(&'static str),
}

/// A case of a corpus.
pub trait Case: Sync {
    /// Its name: kind, group, case.
    fn name(&self) -> String;
    /// Fails with the first difference from the recorded answer.
    fn check(&self) -> Result<Outcome, String>;
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

/// The results of the cases that ran.
#[derive(Default)]
struct Results {
    differing: Vec<Differing>,
    /// The names of the cases that did not run.
    not_run: Vec<String>,
    /// The number of these cases by reason.
    reasons: BTreeMap<&'static str, usize>,
    slowest: (Duration, String),
}

impl Results {
    fn add(
        &mut self,
        name: String,
        time: Duration,
        outcome: Result<Outcome, String>,
        ours: Option<Result<(), String>>,
    ) {
        if time > self.slowest.0 {
            self.slowest = (time, name.clone());
        }
        match outcome {
            Ok(Outcome::Agrees) => {}
            Ok(Outcome::NotRun(reason)) => {
                self.not_run.push(name);
                *self.reasons.entry(reason).or_default() += 1;
            }
            Err(why) => self.differing.push(Differing { name, why, ours }),
        }
    }

    fn summary(&self, cases: usize) -> String {
        let agree = cases - self.differing.len() - self.not_run.len();
        let mut text = format!("{agree} of {cases} cases agree");
        if !self.not_run.is_empty() {
            let reasons = self
                .reasons
                .iter()
                .map(|(why, count)| format!("{why} {count}"));
            let reasons = reasons.collect::<Vec<_>>().join(", ");
            text += &format!("; {} not run ({reasons})", self.not_run.len());
        }
        let (time, name) = &self.slowest;
        text + &format!("; the slowest took {:.1} s: {name}", time.as_secs_f64())
    }
}

/// Runs all cases, or those with `PINCH_CASE` in their name if it is set. Fails if a case differs
/// that is not listed, if a listed case does not differ, or if its answer is not the intended one.
/// With `PINCH_ALL`, it also fails if a case cannot run on this machine.
pub fn check_all(kind: &str, cases: &[impl Case]) {
    let only = std::env::var("PINCH_CASE").unwrap_or_default();
    let chosen: Vec<_> = cases.iter().filter(|c| c.name().contains(&only)).collect();
    assert!(!cases.is_empty(), "no {kind} case found");
    program::make_ready();
    let listed = differences::of_kind(kind);
    let results = run(&chosen, &listed);
    println!("{kind}: {}", results.summary(chosen.len()));
    let names: Vec<String> = chosen.iter().map(|c| c.name()).collect();
    assert!(
        judge(&listed, &names, &results),
        "{kind}: see the cases above"
    );
    assert!(
        results.not_run.is_empty() || std::env::var_os("PINCH_ALL").is_none(),
        "PINCH_ALL is set, but these cases cannot run here: {}",
        results.not_run.join(" ")
    );
}

/// Runs the cases, several at once.
fn run(cases: &[&impl Case], listed: &[Difference]) -> Results {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Results::default()));
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..processors * CASES_PER_PROCESSOR {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (start, name) = (Instant::now(), case.name());
                    let outcome = case.check();
                    let ours = (outcome.is_err() && listed.iter().any(|d| d.covers(&name)))
                        .then(|| case.check_ours());
                    let mut results = results.lock().unwrap();
                    results.add(name, start.elapsed(), outcome, ours);
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.differing.sort_by(|a, b| a.name.cmp(&b.name));
    results
}

fn judge(listed: &[Difference], names: &[String], results: &Results) -> bool {
    let mut good = true;
    for Differing { name, why, ours } in &results.differing {
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
        let not_run = results.not_run.iter().any(|name| entry.covers(name));
        let differs = results.differing.iter().any(|d| entry.covers(&d.name));
        if ran && !differs && !not_run {
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
