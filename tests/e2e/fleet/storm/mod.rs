//! Five masters and their minions while masters are killed and paused, their network and their disks
//! fail, and their clocks jump. In the end nothing that was acknowledged is lost, and nothing was
//! done twice.
//!
//! `PINCH_STORM_SECONDS` says how long it lasts (15), `PINCH_STORM_MINIONS` how many minions there
//! are (5), and `PINCH_STORM_SEED` chooses the faults (1).

mod faults;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::cluster::{Masters, SECRET};
use super::network::{in_own_network, run};
use super::{Fleet, Turn};
use faults::{Faults, start_ended};
use work::Clients;

const MASTERS: usize = 5;
/// The size of the disk of each master.
const DISK: &str = "size=1g";
/// The maximum number of jobs that are looked up at each master.
const LOOKED_UP_MAX: usize = 100;
/// The time in which masters without faults have the same state, and all is done that they accepted.
const CALM_MAX: Duration = Duration::from_secs(90);

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn nothing_is_lost_or_done_twice_while_masters_links_disks_and_clocks_fail() {
    let name =
        "fleet::storm::nothing_is_lost_or_done_twice_while_masters_links_disks_and_clocks_fail";
    // It loads the machine.
    in_own_network(name, Turn::alone, storm);
}

/// Builds the library that shifts the clock of a program.
pub(super) fn clock_library(folder: &Path) -> std::path::PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/fleet/storm/clock.c");
    let library = folder.join("clock.so");
    let library_text = library.display().to_string();
    let source = source.display().to_string();
    run(&["cc", "-shared", "-fPIC", "-o", &library_text, &source]);
    library
}

/// Starts the masters, each with its own disk and clock.
fn start(shared: &Path) -> Masters {
    let sls = shared.join("count.sls");
    let reacted = shared.join("reacted");
    let text = format!(
        "count:\n  local.cmd.run:\n    - tgt: m0\n    - args:\n      - cmd: echo {{{{ data['n'] }}}} >> {}\n",
        reacted.display()
    );
    fs::write(&sls, text).unwrap();
    let config = format!(
        "{SECRET}pending_keys_per_address: 1000\nreactor:\n  - 'storm/count':\n    - {}\n",
        sls.display()
    );
    let library = clock_library(shared);
    let mut masters = Masters::new();
    for number in 1..=MASTERS {
        masters.prepare(number, MASTERS, &config);
        let fleet = &mut masters.all[number - 1];
        fs::create_dir_all(fleet.path("master/cache")).unwrap();
        let cache = fleet.path("master/cache").display().to_string();
        run(&["mount", "-t", "tmpfs", "-o", DISK, "storm", &cache]);
        fs::write(fleet.path("clock"), "0").unwrap();
        fleet.set_environment("LD_PRELOAD", &library);
        fleet.set_environment("PINCH_CLOCK", &fleet.path("clock"));
    }
    masters.start_all();
    masters
}

/// Returns how often each number is in a file.
fn counted(path: &Path) -> BTreeMap<u64, usize> {
    let mut counts = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap_or_default().lines() {
        *counts.entry(line.parse().unwrap()).or_default() += 1;
    }
    counts
}

fn storm() {
    let shared = tempfile::tempdir().unwrap();
    let seconds = number("PINCH_STORM_SECONDS", 15);
    let minions: Vec<String> = (0..number("PINCH_STORM_MINIONS", 5))
        .map(|number| format!("m{number}"))
        .collect();
    let mut masters = start(shared.path());
    let places = minions.iter().enumerate();
    let places: Vec<(&str, usize)> = places
        .map(|(at, id)| (id.as_str(), 1 + at % MASTERS))
        .collect();
    masters.minions(&places);
    let clients = Clients {
        masters: masters
            .all
            .iter()
            .map(|fleet| fleet.path("master/etc"))
            .collect(),
        well: (0..MASTERS).map(|_| AtomicBool::new(true)).collect(),
        minions,
        ran: shared.path().join("ran"),
        acknowledged: Mutex::default(),
        ended: AtomicBool::new(false),
        next: AtomicU64::new(0),
        began: Instant::now(),
        seed: number("PINCH_STORM_SEED", 1),
    };
    let configs: Vec<String> = (1..=MASTERS).map(|at| masters.minion_config(at)).collect();
    let was_full = std::thread::scope(|scope| {
        scope.spawn(|| clients.publish_jobs());
        scope.spawn(|| clients.fire_events());
        for master in 0..MASTERS {
            let clients = &clients;
            scope.spawn(move || clients.measure(master));
        }
        scope.spawn(|| clients.ping());
        scope.spawn(|| clients.enrol(&configs));
        // They end even if this thread panics.
        let _end = clients.end_at_drop();
        let mut faults = Faults::new(&mut masters, &clients, clients.seed);
        faults.run_for(Duration::from_secs(seconds));
        clients.say(&format!("{} faults", faults.count));
        faults.was_full
    });
    let mut calm = Calm { masters, was_full };
    check(&clients, &shared.path().join("reacted"), &mut calm);
}

/// Panics with a reason and the file in which the logs of the masters are.
fn fail(masters: &Masters, why: &str) -> ! {
    let logs: String = masters.all.iter().map(Fleet::logs).collect();
    let path = std::env::temp_dir().join(format!("storm-{}.log", std::process::id()));
    fs::write(&path, logs).unwrap();
    panic!("{why}\nlogs of the masters: {}", path.display());
}

/// The masters after the last fault.
struct Calm {
    masters: Masters,
    /// The masters whose disk was full. They may still end, and are started again.
    was_full: BTreeSet<usize>,
}

impl Calm {
    /// Waits until nothing is missing, and panics with what is missing if that takes too long.
    fn soon(&mut self, clients: &Clients, mut missing: impl FnMut() -> Vec<String>) {
        let began = Instant::now();
        loop {
            let left = missing();
            if left.is_empty() {
                return;
            }
            let is_late = began.elapsed() > CALM_MAX;
            if is_late {
                fail(&self.masters, &format!("lost: {left:?}"));
            }
            start_ended(&mut self.masters, &self.was_full, clients);
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

fn check(clients: &Clients, reacted: &Path, calm: &mut Calm) {
    let done = clients.acknowledged.lock().unwrap();
    calm.soon(clients, || missing_keys(clients, &done));
    calm.soon(clients, || {
        let ran = counted(&clients.ran);
        let returned = done.jobs.iter().filter(|(_, job)| job.returned);
        let lost = returned.filter(|(number, _)| !ran.contains_key(number));
        lost.map(|(number, job)| format!("job {number} of {}", job.minion))
            .collect()
    });
    calm.soon(clients, || {
        let reacted = counted(reacted);
        let lost = done
            .fired
            .iter()
            .filter(|number| !reacted.contains_key(number));
        lost.map(|number| format!("event {number}")).collect()
    });
    calm.soon(clients, || missing_returns(clients, &done));
    for (what, path) in [("jobs", clients.ran.as_path()), ("reactions", reacted)] {
        let counts = counted(path).into_iter();
        let twice: Vec<_> = counts.filter(|(_, count)| *count > 1).collect();
        if !twice.is_empty() {
            fail(
                &calm.masters,
                &format!("{what} that were done twice: {twice:?}"),
            );
        }
    }
    let ran = counted(&clients.ran);
    let (pings, answers) = done.pings;
    let without = done.jobs.keys().filter(|number| !ran.contains_key(number));
    clients.say(&format!(
        "{} jobs ({} returned, {} did not reach their minion), {} reactions, {} accepted and {} deleted keys, {} changes: the longest time without one was {:.1?}; {pings} calls of all {} minions had {answers} answers",
        done.jobs.len(),
        done.jobs.values().filter(|job| job.returned).count(),
        without.count(),
        done.fired.len(),
        done.accepted.len(),
        done.deleted.len(),
        done.alive,
        done.longest,
        clients.minions.len(),
    ));
}

/// Returns the keys that a master does not have as it was acknowledged.
fn missing_keys(clients: &Clients, done: &work::Acknowledged) -> Vec<String> {
    let mut missing = Vec::new();
    for master in 0..MASTERS {
        let (text, _) = clients.call(master, &["salt-key", "-l", "acc", "--out=json"]);
        let listed: Value = serde_json::from_str(&text).unwrap_or_default();
        let listed = listed["minions"].as_array().cloned().unwrap_or_default();
        let has = |id: &&String| listed.iter().any(|key| key == id.as_str());
        let lost = done
            .accepted
            .iter()
            .chain(&clients.minions)
            .filter(|id| !has(id));
        missing.extend(lost.map(|id| format!("key {id} at master {}", master + 1)));
        let back = done.deleted.iter().filter(has);
        missing.extend(back.map(|id| format!("deletion of {id} at master {}", master + 1)));
    }
    missing
}

/// Returns the returns that `salt` has printed and a master does not know.
fn missing_returns(clients: &Clients, done: &work::Acknowledged) -> Vec<String> {
    let mut missing = Vec::new();
    let returned = done.jobs.iter().filter(|(_, job)| job.returned);
    let step = (returned.clone().count() / LOOKED_UP_MAX).max(1);
    for (number, job) in returned.step_by(step) {
        for master in 0..MASTERS {
            let words = ["salt-run", "--out=json", "jobs.lookup_jid", &job.jid];
            let (text, _) = clients.call(master, &words);
            let found: Value = serde_json::from_str(&text).unwrap_or_default();
            if found.get(&job.minion).is_none() {
                missing.push(format!("return of job {number} at master {}", master + 1));
            }
        }
    }
    missing
}
