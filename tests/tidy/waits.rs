//! R18: where a daemon waits without a deadline, a comment next to the wait gives the reason.

use super::none;
use super::source::below;

/// The folders in which daemons wait for others.
const FOLDERS: [&str; 6] = [
    "agent/link/src",
    "agent/saltlink/src",
    "agent/minion/src",
    "agent/reactor/src",
    "master-lite/src",
    "master-lite/cluster/src",
];

/// Calls that wait for an unlimited time.
const WAITS: [&str; 10] = [
    ".recv()",
    ".next().await",
    ".next(None)",
    ".rung().await",
    ".accept().await",
    ".accept_bi()",
    ".acquire().await",
    ".closed().await",
    ".status().await",
    ".changed().await",
];

/// Calls that wait on the clock and may be ready at once. A loop around such a wait would never let
/// another task run.
const CLOCKS: [&str; 5] = [
    "Timer::after(",
    "Timer::at(",
    "Timer::interval",
    "smol::Timer",
    "async_io::Timer",
];

/// The files whose functions use the clock for all others: one suspends its task at least once, and
/// the other is the runtime of a library.
const CLOCK: [&str; 2] = [
    "agent/link/src/wait.rs",
    "master-lite/cluster/src/raft/runtime.rs",
];

/// The beginning of a reason, which is at most `ABOVE` lines above the wait.
const REASON: &str = "// No deadline: ";
const ABOVE: usize = 3;

#[test]
fn every_wait_without_a_deadline_says_why() {
    let mut silent = Vec::new();
    let mut found = 0;
    for source in FOLDERS.iter().flat_map(|folder| below(folder)) {
        if source.is_test() {
            continue;
        }
        let lines: Vec<&str> = source.text.lines().collect();
        for (at, code) in source.code().iter().enumerate() {
            let waits = WAITS.iter().any(|wait| code.contains(wait));
            if !waits || code.contains("within(") {
                continue;
            }
            found += 1;
            let above = &lines[at.saturating_sub(ABOVE)..=at];
            if !above.iter().any(|line| line.contains(REASON)) {
                silent.push(format!("{}:{}: {}", source.path, at + 1, code.trim()));
            }
        }
    }
    assert!(
        found > 20,
        "found only {found} waits: the search no longer matches the sources"
    );
    none(
        &silent,
        "waits without a deadline: add one, or give the reason in a comment above (`// No deadline: …`)",
    );
}

#[test]
fn every_wait_on_the_clock_suspends_its_task() {
    let mut found = Vec::new();
    for source in FOLDERS.iter().flat_map(|folder| below(folder)) {
        if source.is_test() || CLOCK.contains(&&*source.path) {
            continue;
        }
        for (at, code) in source.code().iter().enumerate() {
            if CLOCKS.iter().any(|clock| code.contains(clock)) {
                found.push(format!("{}:{}: {}", source.path, at + 1, code.trim()));
            }
        }
    }
    none(
        &found,
        "use `pause`, `until` or `within` of `link::wait`: they let other tasks run even if the time is short",
    );
}
