//! The clients during the storm, and the answers that they got.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tests::chance::Chance;
use tests::program::in_recorded_environment;

use super::super::{Fleet, PROGRAM, Turn};

/// The maximum time of a command in seconds.
const COMMAND_MAX: &str = "60";

/// A job that a master has accepted.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) jid: String,
    pub(super) minion: String,
    /// Whether `salt` has printed the return.
    pub(super) returned: bool,
}

/// All that was acknowledged.
#[derive(Default)]
pub(super) struct Acknowledged {
    /// The jobs by the number that they write.
    pub(super) jobs: BTreeMap<u64, Job>,
    /// The numbers of the events that have a reaction.
    pub(super) fired: BTreeSet<u64>,
    pub(super) accepted: BTreeSet<String>,
    pub(super) deleted: BTreeSet<String>,
    /// The last acknowledged event at a master without a fault, and the longest time without one.
    pub(super) last: Option<Instant>,
    pub(super) longest: Duration,
    /// The number of events of that measurement.
    pub(super) alive: u64,
    /// The number of calls to all minions, and the number of answers.
    pub(super) pings: (u64, u64),
}

/// The clients of all masters.
pub(super) struct Clients {
    /// The folders with the configuration of each master.
    pub(super) masters: Vec<PathBuf>,
    /// True for each master without a fault.
    pub(super) well: Vec<AtomicBool>,
    pub(super) minions: Vec<String>,
    /// The file to which jobs append their numbers.
    pub(super) ran: PathBuf,
    pub(super) acknowledged: Mutex<Acknowledged>,
    pub(super) ended: AtomicBool,
    pub(super) next: AtomicU64,
    pub(super) began: Instant,
    pub(super) seed: u64,
}

/// Ends the clients when it is dropped.
pub(super) struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Clients {
    pub(super) fn end_at_drop(&self) -> End<'_> {
        End(&self.ended)
    }

    /// Prints a line with the time, for a reader of a long run.
    #[expect(clippy::print_stdout, reason = "an hour without output would be long")]
    pub(super) fn say(&self, text: &str) {
        println!("{:7.1} {text}", self.began.elapsed().as_secs_f64());
    }

    pub(super) fn set_well(&self, master: usize, is_well: bool) {
        self.well[master].store(is_well, Ordering::Relaxed);
    }

    fn goes_on(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Runs a command at a master. Returns its output and whether it has succeeded.
    pub(super) fn call(&self, master: usize, words: &[&str]) -> (String, bool) {
        let (applet, rest) = words.split_first().unwrap();
        let mut command = Command::new("timeout");
        command
            .args(["--signal=KILL", COMMAND_MAX])
            .arg(&*PROGRAM)
            .arg(applet)
            .arg("-c")
            .arg(&self.masters[master])
            .args(rest);
        let output = in_recorded_environment(&mut command).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (text, output.status.success())
    }

    fn any(&self, chance: &mut Chance) -> usize {
        usize::try_from(chance.below(self.masters.len() as u64)).unwrap()
    }

    /// Publishes jobs, each for one minion, which appends the job's number to a file.
    pub(super) fn publish_jobs(&self) {
        let mut chance = Chance(self.seed + 1);
        while self.goes_on() {
            let (number, master) = (self.number(), self.any(&mut chance));
            let minion = chance.one(&self.minions).clone();
            let run = format!("echo {number} >> {}", self.ran.display());
            let words = ["salt", "-t", "15", "--show-jid", "--out=json"];
            let words = [&words[..], &[&minion, "cmd.run", &run]].concat();
            let (text, _) = self.call(master, &words);
            let Some(jid) = text.lines().find_map(|line| line.strip_prefix("jid: ")) else {
                continue;
            };
            let job = Job {
                jid: jid.to_owned(),
                returned: text.contains(&format!("\"{minion}\": \"\"")),
                minion,
            };
            self.acknowledged.lock().unwrap().jobs.insert(number, job);
        }
    }

    /// Fires events that have a reaction.
    pub(super) fn fire_events(&self) {
        let mut chance = Chance(self.seed + 2);
        while self.goes_on() {
            let (number, master) = (self.number(), self.any(&mut chance));
            let data = format!("{{\"n\": {number}}}");
            let (text, _) = self.call(master, &["salt-run", "event.send", "storm/count", &data]);
            if text.contains("True") {
                self.acknowledged.lock().unwrap().fired.insert(number);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Measures how long no master acknowledges a change. Each master has a client, because one may
    /// fail while a client waits for it.
    pub(super) fn measure(&self, master: usize) {
        while self.goes_on() {
            if self.well[master].load(Ordering::Relaxed) {
                let (text, _) = self.call(master, &["salt-run", "event.send", "storm/alive"]);
                if text.contains("True") {
                    self.is_alive();
                }
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn is_alive(&self) {
        let mut acknowledged = self.acknowledged.lock().unwrap();
        acknowledged.alive += 1;
        let now = Instant::now();
        let last = acknowledged.last.replace(now).unwrap_or(now);
        let time = now - last;
        if time > acknowledged.longest {
            acknowledged.longest = time;
            self.say(&format!("no change was acknowledged for {time:.1?}"));
        }
    }

    /// Calls all minions.
    pub(super) fn ping(&self) {
        let mut chance = Chance(self.seed + 4);
        while self.goes_on() {
            let master = self.any(&mut chance);
            let words = [
                "salt",
                "-t",
                "15",
                "--out=json",
                "--static",
                "*",
                "test.ping",
            ];
            let (text, _) = self.call(master, &words);
            let mut acknowledged = self.acknowledged.lock().unwrap();
            acknowledged.pings.0 += 1;
            acknowledged.pings.1 += text.matches(": true").count() as u64;
            drop(acknowledged);
            std::thread::sleep(Duration::from_secs(5));
        }
    }

    /// Accepts new minions, which have one of these configurations, and deletes the keys of some of them.
    pub(super) fn enrol(&self, configs: &[String]) {
        let mut newcomers = Fleet::prepared("", Turn::Lent);
        let mut chance = Chance(self.seed + 5);
        while self.goes_on() {
            let id = format!("new{}", self.number());
            newcomers.start_minion(&id, chance.one::<String>(configs));
            let mut is_accepted = false;
            while self.goes_on() && !is_accepted {
                let master = self.any(&mut chance);
                let (text, _) = self.call(master, &["salt-key", "-y", "-a", &id]);
                is_accepted = text.contains(&format!("Key for minion {id} accepted"));
                std::thread::sleep(Duration::from_millis(300));
            }
            newcomers.kill_minion(&id);
            if !is_accepted {
                continue;
            }
            self.acknowledged
                .lock()
                .unwrap()
                .accepted
                .insert(id.clone());
            if !chance.comes(30) {
                continue;
            }
            let master = self.any(&mut chance);
            let (text, _) = self.call(master, &["salt-key", "-y", "-d", &id]);
            let mut acknowledged = self.acknowledged.lock().unwrap();
            // Without an answer it is unknown whether the key is deleted.
            acknowledged.accepted.remove(&id);
            if text.contains(&format!("Key for minion {id} deleted")) {
                acknowledged.deleted.insert(id);
            }
        }
    }
}
