//! The faults of masters: each begins, lasts for a while, and ends.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tests::chance::Chance;

use super::super::cluster::Masters;
use super::super::network::drop_packets;
use super::work::Clients;

/// The maximum number of masters with a fault at a time: a majority has none.
const AT_ONCE: usize = 2;
/// The maximum time of a fault in milliseconds.
const LASTS_MAX_MS: u64 = 20_000;
/// The maximum time between faults in milliseconds.
const BETWEEN_MAX_MS: u64 = 5_000;
/// The time in which each master writes something.
const LAST_WRITE_MS: u64 = 2_000;
/// The maximum number of seconds by which a clock jumps: ten years.
const JUMP_MAX: u64 = 10 * 365 * 86_400;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// It is killed, and starts again.
    Killed,
    /// It is stopped by SIGSTOP.
    Paused,
    /// It reaches no other master.
    Apart,
    /// It gets no message of another master.
    Deaf,
    /// Its clock jumps.
    Clock,
    /// Its disk is full.
    Full,
}

const FAULTS: [Fault; 6] = [
    Fault::Killed,
    Fault::Paused,
    Fault::Apart,
    Fault::Deaf,
    Fault::Clock,
    Fault::Full,
];

/// A fault that a master has.
struct Open {
    master: usize,
    fault: Fault,
    end: Instant,
}

/// The masters, and their faults.
pub(super) struct Faults<'a> {
    masters: &'a mut Masters,
    clients: &'a Clients,
    chance: Chance,
    open: Vec<Open>,
    /// The masters whose disk was full: such a one ends, at the latest with its next write.
    pub(super) was_full: BTreeSet<usize>,
    /// The number of faults so far.
    pub(super) count: usize,
}

/// Fills a file system.
fn fill(folder: &Path) {
    let mut file = fs::File::create(folder.join("filler")).unwrap();
    let zeros = vec![0; 1 << 20];
    while file.write_all(&zeros).is_ok() {}
}

impl<'a> Faults<'a> {
    pub(super) fn new(masters: &'a mut Masters, clients: &'a Clients, seed: u64) -> Self {
        Self {
            masters,
            clients,
            chance: Chance(seed),
            open: Vec::new(),
            was_full: BTreeSet::new(),
            count: 0,
        }
    }

    /// Begins and ends faults for this time, and then ends all.
    pub(super) fn run_for(&mut self, time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            self.end_old();
            self.start_ended();
            if self.open.len() < AT_ONCE {
                self.begin();
            }
            let pause = self.chance.below(BETWEEN_MAX_MS);
            std::thread::sleep(Duration::from_millis(pause));
        }
        for open in std::mem::take(&mut self.open) {
            self.end(&open);
        }
        std::thread::sleep(Duration::from_millis(LAST_WRITE_MS));
        start_ended(self.masters, &self.was_full, self.clients);
    }

    fn end_old(&mut self) {
        let is_over = |open: &Open| open.end <= Instant::now();
        let (old, open) = std::mem::take(&mut self.open)
            .into_iter()
            .partition::<Vec<_>, _>(is_over);
        self.open = open;
        for open in &old {
            self.end(open);
        }
    }

    fn begin(&mut self) {
        let all = 0..self.masters.all.len();
        let well: Vec<usize> = all
            .filter(|number| self.open.iter().all(|open| open.master != *number))
            .collect();
        let (master, fault) = (*self.chance.one(&well), *self.chance.one(&FAULTS));
        let lasts = Duration::from_millis(self.chance.below(LASTS_MAX_MS));
        self.clients.set_well(master, fault == Fault::Clock);
        self.clients
            .say(&format!("master {}: {fault:?} for {lasts:.1?}", master + 1));
        self.open.push(Open {
            master,
            fault,
            end: Instant::now() + lasts,
        });
        self.count += 1;
        let fleet = &mut self.masters.all[master];
        match fault {
            Fault::Killed => fleet.kill_master(),
            Fault::Paused => self.masters.signal(master + 1, Signal::STOP),
            Fault::Apart | Fault::Deaf => self.divide(),
            Fault::Clock => {
                let far = i64::try_from(self.chance.below(2 * JUMP_MAX)).unwrap();
                let seconds = far - i64::try_from(JUMP_MAX).unwrap();
                fs::write(fleet.path("clock"), seconds.to_string()).unwrap();
            }
            Fault::Full => fill(&fleet.path("master/cache")),
        }
    }

    fn end(&mut self, open: &Open) {
        let fleet = &mut self.masters.all[open.master];
        match open.fault {
            Fault::Killed => fleet.begin_master(),
            Fault::Paused => self.masters.signal(open.master + 1, Signal::CONT),
            Fault::Apart | Fault::Deaf => self.divide(),
            Fault::Clock => fs::write(fleet.path("clock"), "0").unwrap(),
            Fault::Full => {
                fs::remove_file(fleet.path("master/cache/filler")).unwrap();
                self.was_full.insert(open.master);
            }
        }
        start_again(self.masters, open.master, &self.was_full, self.clients);
        self.clients.set_well(open.master, true);
        self.clients.say(&format!(
            "master {}: no longer {:?}",
            open.master + 1,
            open.fault
        ));
    }

    /// Starts the masters again that have ended after the time in which their disk was full.
    fn start_ended(&mut self) {
        let has_fault = |master: &usize| self.open.iter().any(|open| open.master == *master);
        for master in self.was_full.iter().filter(|master| !has_fault(master)) {
            start_again(self.masters, *master, &self.was_full, self.clients);
        }
    }

    /// Makes the network drop what the masters with such a fault do not send or get.
    fn divide(&self) {
        let mut rules = BTreeSet::new();
        for open in &self.open {
            let name = self.masters.name(open.master + 1);
            for other in (1..=self.masters.all.len()).map(|number| self.masters.name(number)) {
                if other == name {
                    continue;
                }
                if matches!(open.fault, Fault::Apart | Fault::Deaf) {
                    rules.insert(format!("ip saddr {other} ip daddr {name} drop\n"));
                }
                if open.fault == Fault::Apart {
                    rules.insert(format!("ip saddr {name} ip daddr {other} drop\n"));
                }
            }
        }
        drop_packets(&rules.into_iter().collect::<String>());
    }
}

/// Starts all masters again that have ended because their disk was full.
pub(super) fn start_ended(masters: &mut Masters, was_full: &BTreeSet<usize>, clients: &Clients) {
    for master in 0..masters.all.len() {
        start_again(masters, master, was_full, clients);
    }
}

/// Starts a master again that has ended because its disk was full, as a manager of services does.
/// Panics if it has ended for another reason.
fn start_again(
    masters: &mut Masters,
    master: usize,
    was_full: &BTreeSet<usize>,
    clients: &Clients,
) {
    let fleet = &mut masters.all[master];
    if !fleet.master_has_ended() {
        return;
    }
    let logs = fleet.logs();
    let end: String = logs.lines().rev().take(20).collect::<Vec<_>>().join("\n");
    assert!(
        was_full.contains(&master),
        "master {} has ended: {end}",
        master + 1
    );
    clients.say(&format!("master {}: has ended, and starts", master + 1));
    fleet.kill_master();
    fleet.begin_master();
}
