//! Clusters of masters, as processes on loopback.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Fleet, PATIENCE, Turn};

pub(super) const SECRET: &str = "cluster_secret: correct horse battery staple\n";
/// The maximum time for the survivors to take changes again.
const FAILOVER: Duration = Duration::from_secs(15);

/// The masters of a cluster, each with its own address.
pub(super) struct Masters {
    pub(super) all: Vec<Fleet>,
    pub(super) network: String,
    pub(super) port: u16,
}

/// Returns a network of loopback and a port for its masters, which no other test uses. The port is none
/// that the kernel chooses for a client, which may listen on all addresses.
fn network() -> (String, u16) {
    static STEP: AtomicU16 = AtomicU16::new(0);
    let step = STEP.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    (
        format!("127.{}.{}", 1 + step % 250, 1 + process % 250),
        // Two tests of other processes may run with the same network.
        20_000 + (process as u16 % 100 * 100 + step * 2) % 10_000,
    )
}

impl Masters {
    /// Starts masters with these lines in the configuration of each.
    pub(super) fn with(count: usize, config: &str) -> Self {
        let mut masters = Self::prepared(count, config);
        masters.start_all();
        masters
    }

    /// Prepares masters with these lines in the configuration of each. They are not started.
    pub(super) fn prepared(count: usize, config: &str) -> Self {
        let mut masters = Self::new();
        for number in 1..=count {
            masters.prepare(number, count, config);
        }
        masters
    }

    /// Returns a cluster to which masters are added.
    pub(super) fn new() -> Self {
        let (network, port) = network();
        Self {
            all: Vec::new(),
            network,
            port,
        }
    }

    /// Starts the masters, and waits until they are one cluster.
    pub(super) fn start_all(&mut self) {
        for fleet in &mut self.all {
            fleet.begin_master();
        }
        self.soon("all masters are in the cluster", |masters| {
            let count = masters.all.len();
            masters.all.iter().all(|fleet| voters(fleet).len() == count)
        });
    }

    /// Adds a master that knows the first `known` ones. It is not started.
    pub(super) fn prepare(&mut self, number: usize, known: usize, config: &str) {
        let peers: Vec<String> = (1..=known).map(|number| self.name(number)).collect();
        let turn = match self.all.is_empty() {
            true => Turn::shared(),
            false => Turn::Lent,
        };
        let text = format!(
            "interface: {}\ncluster_id: prod\ncluster_pool_port: {}\ncluster_peers: [{}]\n{config}",
            self.name(number),
            self.port,
            peers.join(", ")
        );
        let mut fleet = Fleet::prepared(&text, turn);
        // Minions know one port.
        fleet.change_port(self.port - 10_000);
        self.all.push(fleet);
    }

    pub(super) fn name(&self, number: usize) -> String {
        format!("{}.{number}", self.network)
    }

    pub(super) fn soon(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(
                began.elapsed() < PATIENCE,
                "{}timed out, expected: {what}",
                self.all.iter().map(Fleet::logs).collect::<String>()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts minions that know these masters, by number, and accepts their keys at the first one.
    pub(super) fn minions(&mut self, known: &[(&str, usize)]) {
        for (id, number) in known {
            let config = self.minion_config(*number);
            self.all[0].start_minion(id, &config);
        }
        self.soon("the keys are offered", |masters| {
            let listed = masters.all[0].run(&["salt-key", "-l", "un"]).out;
            known
                .iter()
                .all(|(id, _)| listed.lines().any(|line| line == *id))
        });
        assert_eq!(self.all[0].run(&["salt-key", "-y", "-A"]).rc, Some(0));
        for number in 1..=self.all.len() {
            self.soon("the minions answer each master", |masters| {
                let answered = masters.ping(number);
                known
                    .iter()
                    .all(|(id, _)| answered.contains(&format!("\"{id}\": true")))
            });
        }
    }

    /// Returns the lines of the configuration of a minion that knows a master.
    pub(super) fn minion_config(&self, number: usize) -> String {
        let (name, port) = (self.name(number), self.all[0].port);
        format!("master: {name}\nmaster_port: {port}\nmaster_alive_interval: 1\n")
    }

    pub(super) fn ping(&self, number: usize) -> String {
        let words = [
            "salt",
            "-t",
            "20",
            "--out=json",
            "--static",
            "*",
            "test.ping",
        ];
        self.all[number - 1].run(&words).out
    }

    /// Returns the place of the leader.
    fn leader(&self) -> usize {
        let mut found = None;
        let leads = |fleet: &Fleet| {
            let members = members(fleet);
            members["leader_id"].is_string() && members["leader_id"] == members["node_id"]
        };
        let began = Instant::now();
        while found.is_none() {
            assert!(began.elapsed() < PATIENCE, "there is no leader");
            found = self.all.iter().position(leads);
        }
        found.unwrap()
    }

    /// Makes a master the leader.
    pub(super) fn led_by(&self, number: usize) {
        let name = self.name(number);
        let leads = |fleet: &Fleet| members(fleet)["leader_id"] == name.as_str();
        self.soon("the master leads", |masters| {
            let words = ["salt-run", "cluster.transfer_leader", &name];
            masters.all.iter().all(leads) || {
                masters.all[number - 1].run(&words);
                false
            }
        });
    }

    /// Sends a signal to a master.
    pub(super) fn signal(&self, number: usize, signal: Signal) {
        let pid = self.all[number - 1].master_pid();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Waits until a master accepts a change, and asserts that this is soon.
    pub(super) fn takes_changes(&self, number: usize) {
        let began = Instant::now();
        self.soon("the master takes changes", |masters| {
            let fired = ["salt-run", "event.send", "test/alive"];
            masters.all[number - 1].run(&fired).out.contains("True")
        });
        assert!(began.elapsed() < FAILOVER, "{:?}", began.elapsed());
    }
}

pub(super) fn members(fleet: &Fleet) -> serde_json::Value {
    let answer = fleet.run(&["salt-run", "--out=json", "cluster.members"]);
    serde_json::from_str(&answer.out).unwrap_or_default()
}

pub(super) fn voters(fleet: &Fleet) -> Vec<String> {
    let members = members(fleet);
    let voters = members["voters"].as_array().cloned().unwrap_or_default();
    voters
        .iter()
        .filter_map(|voter| voter.as_str().map(str::to_owned))
        .collect()
}

#[test]
fn a_minion_of_any_master_is_managed_at_each_of_them() {
    let mut masters = Masters::with(3, SECRET);
    masters.minions(&[("m1", 1), ("m2", 2), ("m3", 3)]);
    // A key that is accepted or deleted at one master is so at all.
    masters.soon("each master shows the key as a file", |masters| {
        let mut all = masters.all.iter();
        all.all(|fleet| fleet.path("master/pki/minions/m2").exists())
    });
    // A job and its returns can be asked for at each master.
    let words = ["salt", "--out=json", "--static", "*", "test.echo", "here"];
    let answered = masters.all[1].run(&words).out;
    assert_eq!(answered.matches("\"here\"").count(), 3, "{answered}");
    masters.soon("each master has the job", |masters| {
        masters.all.iter().all(|fleet| {
            let jobs = fleet.run(&["salt-run", "--out=json", "jobs.list_jobs"]).out;
            let jobs: serde_json::Value = serde_json::from_str(&jobs).unwrap_or_default();
            let jobs = jobs.as_object().cloned().unwrap_or_default();
            let found = jobs.iter().find(|(_, job)| job["Function"] == "test.echo");
            found.is_some_and(|(jid, _)| {
                let words = ["salt-run", "--out=json", "jobs.lookup_jid", jid];
                fleet.run(&words).out.matches("\"here\"").count() == 3
            })
        })
    });
    assert_eq!(
        masters.all[2].run(&["salt-key", "-y", "-d", "m1"]).rc,
        Some(0)
    );
    masters.soon("a deleted minion is cut off everywhere", |masters| {
        (1..=3).all(|number| {
            let answered = masters.ping(number);
            !answered.contains("\"m1\"") && answered.contains("\"m2\": true")
        })
    });
}

#[test]
fn minions_go_on_with_another_master_when_theirs_dies() {
    let mut masters = Masters::with(3, SECRET);
    masters.minions(&[("m1", 1), ("m2", 1), ("m3", 1)]);
    // A job whose master dies has its returns at the other masters.
    let pid = masters.all[0].master.as_ref().unwrap().0.id().to_string();
    let interrupted = std::thread::scope(|scope| {
        let words = ["salt", "*", "test.sleep", "4"];
        let first = &masters.all[0];
        let job = scope.spawn(move || first.run(&words));
        std::thread::sleep(Duration::from_secs(2));
        let killed = Command::new("kill").args(["-9", &pid]).status().unwrap();
        assert!(killed.success());
        job.join().unwrap()
    });
    let (_, jid) = interrupted.out.split_once("jobs.lookup_jid ").unwrap();
    let jid = jid.split('`').next().unwrap();
    assert_eq!(interrupted.rc, Some(1), "{}", interrupted.out);
    masters.soon("all returns are at another master", |masters| {
        let words = ["salt-run", "--out=json", "jobs.lookup_jid", jid];
        masters.all[2].run(&words).out.matches("true").count() == 3
    });
    masters.all[0].kill_master();
    masters.takes_changes(2);
    masters.soon("all minions answer the other masters", |masters| {
        (2..=3).all(|number| masters.ping(number).matches("true").count() == 3)
    });
    assert_eq!(voters(&masters.all[1]).len(), 3);
    masters.all[0].start_master();
    masters.soon("the master is back, and has what it missed", |masters| {
        masters.ping(1).matches("true").count() == 3
    });
}

#[test]
fn a_master_in_a_minority_refuses_changes_and_says_why() {
    let config = format!("{SECRET}metrics_listen: 127.0.0.1:0\n");
    let mut masters = Masters::with(3, &config);
    let of_all = |masters: &Masters, name: &str| -> f64 {
        let all = masters.all.iter();
        all.map(|fleet| fleet.measured()[name]).sum()
    };
    assert_eq!(of_all(&masters, "pinch_cluster_leader"), 1.0);
    assert_eq!(of_all(&masters, "pinch_cluster_majority"), 3.0);
    assert_eq!(of_all(&masters, "pinch_cluster_voters"), 9.0);
    masters.minions(&[("m1", 1)]);
    for number in [1, 2] {
        masters.all[number].kill_master();
    }
    let refusal = format!(
        "This master is in a minority of the cluster prod: it reaches 1 of 3 voters (missing: {}, {})",
        masters.name(2),
        masters.name(3)
    );
    masters.soon("the survivor notices", |masters| {
        masters.all[0]
            .run(&["salt", "*", "test.ping"])
            .out
            .contains(&refusal)
    });
    assert_eq!(masters.all[0].measured()["pinch_cluster_majority"], 0.0);
    let keys = masters.all[0].run(&["salt-key", "-y", "-d", "m1"]);
    assert_eq!(keys.rc, Some(1), "{}", keys.out);
    assert!(keys.out.contains(&refusal), "{}", keys.out);
    let present = masters.all[0].run(&["salt-run", "--out=json", "manage.present"]);
    assert_eq!(present.rc, Some(0), "{}", present.out);
    masters.all[1].start_master();
    masters.takes_changes(1);
    masters.soon("the minion answers again", |masters| {
        masters.ping(1).contains("\"m1\": true")
    });
}

/// Returns a number from the status of a process or of one of its threads.
fn number(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let first = line.unwrap().split_whitespace().next();
    first.unwrap().parse().unwrap()
}

/// Returns how often the threads of a process have waited.
fn waits(process: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let statuses =
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
    statuses
        .map(|status| number(&status, "voluntary_ctxt_switches:"))
        .sum()
}

#[test]
fn an_idle_master_has_little_memory_and_seldom_wakes_up() {
    // A master had 31 MB and 470 waits a second, and has 8 MB and 290.
    const MEMORY_MAX_KB: u64 = 16 << 10;
    const WAITS_MAX: u64 = 450;
    const SECONDS: u64 = 5;
    let masters = Masters::with(3, SECRET);
    std::thread::sleep(Duration::from_secs(3));
    let processes = masters.all.iter();
    let processes: Vec<u32> = processes
        .map(|fleet| fleet.master.as_ref().unwrap().0.id())
        .collect();
    let before: Vec<u64> = processes.iter().map(|process| waits(*process)).collect();
    std::thread::sleep(Duration::from_secs(SECONDS));
    for (process, before) in processes.iter().zip(before) {
        let rate = (waits(*process) - before) / SECONDS;
        assert!(rate < WAITS_MAX, "{rate} waits a second");
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let memory = number(&status, "RssAnon:");
        assert!(memory < MEMORY_MAX_KB, "{memory} kB");
    }
}

#[test]
fn one_master_becomes_three_and_one_again_with_its_minions() {
    let mut masters = Masters::new();
    masters.prepare(1, 1, "");
    let etc = masters.all[0].path("master/etc/master");
    let clustered = fs::read_to_string(&etc).unwrap();
    let single: String = clustered
        .lines()
        .filter(|line| !line.starts_with("cluster_"))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&etc, &single).unwrap();
    masters.all[0].start_master();
    masters.minions(&[("m1", 1)]);
    // The same store is that of a cluster, to which two masters are added.
    end_master(&mut masters, 1);
    fs::write(&etc, clustered + SECRET).unwrap();
    masters.all[0].start_master();
    for number in [2, 3] {
        masters.prepare(number, 1, SECRET);
        masters.all[number - 1].start_master();
    }
    masters.soon("three masters have a vote", |masters| {
        masters.all.iter().all(|fleet| voters(fleet).len() == 3)
    });
    masters.soon("the minion answers all masters", |masters| {
        (1..=3).all(|number| masters.ping(number).contains("\"m1\": true"))
    });
    // A store of a cluster is not that of a master alone.
    end_master(&mut masters, 1);
    let clustered = fs::read_to_string(&etc).unwrap();
    fs::write(&etc, &single).unwrap();
    masters.all[0].begin_master();
    masters.soon("the master refuses to be alone", |masters| {
        masters.all[0]
            .logs()
            .contains("is the state of a cluster of")
    });
    masters.all[0].kill_master();
    fs::write(&etc, clustered).unwrap();
    masters.all[0].start_master();
    masters.takes_changes(1);
    let transferred =
        masters.all[1].run(&["salt-run", "cluster.transfer_leader", &masters.name(1)]);
    assert_eq!(transferred.rc, Some(0), "{}", transferred.out);
    masters.soon("the first master leads", |masters| {
        members(&masters.all[0])["leader_id"] == masters.name(1)
    });
    for number in [2, 3] {
        let removed = masters.all[0].run(&["salt-run", "cluster.remove", &masters.name(number)]);
        assert_eq!((removed.rc, removed.out.trim()), (Some(0), "True"));
        masters.all[number - 1].kill_master();
    }
    end_master(&mut masters, 1);
    fs::write(&etc, &single).unwrap();
    masters.all[0].start_master();
    masters.soon("the minion answers the master alone", |masters| {
        masters.ping(1).contains("\"m1\": true")
    });
    let words = ["salt-run", "--out=json", "cluster.members"];
    assert!(
        masters.all[0]
            .run(&words)
            .out
            .contains("no cluster_id configured")
    );
}

/// Ends a master as a service manager does.
fn end_master(masters: &mut Masters, number: usize) {
    super::masters::end_master(&mut masters.all[number - 1]);
}

#[test]
fn a_master_with_a_new_disk_joins_again_and_takes_its_place() {
    let mut masters = Masters::with(3, SECRET);
    masters.minions(&[("m1", 1)]);
    let before = members(&masters.all[0])["membership_version"].as_u64();
    masters.all[2].kill_master();
    fs::remove_dir_all(masters.all[2].path("master/cache")).unwrap();
    masters.all[2].start_master();
    masters.soon(
        "the new master has a vote in place of the old one",
        |masters| {
            masters.all.iter().all(|fleet| {
                let members = members(fleet);
                members["membership_version"].as_u64() > before
                    && members["voter_count"] == 3
                    && members["learner_count"] == 0
            })
        },
    );
    assert!(masters.ping(3).contains("\"m1\": true"));
}

#[test]
fn a_master_without_the_secret_waits_for_an_administrator_and_one_with_another_is_refused() {
    let mut masters = Masters::with(1, SECRET);
    masters.prepare(2, 1, "cluster_secret: another secret than that\n");
    masters.all[1].begin_master();
    masters.soon("the wrong secret is named", |masters| {
        masters.all[1]
            .logs()
            .contains("its `cluster_secret` is not that of the cluster")
    });
    let finger = masters.all[0]
        .run(&["salt-key", "--out=json", "-F", "master"])
        .out;
    let finger: serde_json::Value = serde_json::from_str(&finger).unwrap();
    let finger = finger["local"]["master.pub"].as_str().unwrap().to_owned();
    masters.prepare(
        3,
        1,
        &format!("cluster_pub_fingerprint: '{finger}'\nauto_accept: True\n"),
    );
    masters.all[2].begin_master();
    let name = masters.name(3);
    masters.soon("the master waits", |masters| {
        masters.all[2]
            .logs()
            .contains(&format!("salt-run cluster.accept {name}"))
    });
    let unknown = masters.all[0].run(&["salt-run", "cluster.accept", "10.9.9.9"]);
    assert!(
        unknown.out.contains(&format!("these wait: {name}")),
        "{}",
        unknown.out
    );
    let accepted = masters.all[0].run(&["salt-run", "cluster.accept", &name]);
    assert_eq!(accepted.rc, Some(0), "{}", accepted.out);
    masters.soon("the accepted master has a vote", |masters| {
        voters(&masters.all[0]).contains(&name)
    });
    // It has another option that must be the same on all.
    masters.soon("the difference is named", |masters| {
        members(&masters.all[0])["differs"] == serde_json::json!({&name: ["auto_accept"]})
    });
    let log = masters.all[0].logs();
    assert!(log.contains(&format!("{name} has other values of auto_accept")));
    assert_eq!(voters(&masters.all[0]).len(), 2);
}

#[test]
fn a_master_that_starts_with_another_port_is_reached_there() {
    let mut masters = Masters::with(3, SECRET);
    let fleet = &mut masters.all[2];
    fleet.kill_master();
    let path = fleet.path("master/etc/master");
    let text = fs::read_to_string(&path).unwrap();
    let (before, after) = (masters.port, masters.port + 1);
    let text = text.replace(
        &format!("cluster_pool_port: {before}"),
        &format!("cluster_pool_port: {after}"),
    );
    fs::write(&path, text).unwrap();
    fleet.start_master();
    let name = masters.name(3);
    masters.soon("the others know the address, and reach it", |masters| {
        masters.all.iter().all(|fleet| {
            let status = fleet.run(&["salt-run", "--out=json", "cluster.status"]).out;
            let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
            let row = &status["masters"][&name];
            row["address"] == format!("{name}:{after}") && row["up"] == true
        })
    });
    masters.takes_changes(3);
}

#[test]
fn each_reaction_happens_once_whichever_master_dies() {
    let shared = tempfile::tempdir().unwrap();
    let (sls, counted) = (
        shared.path().join("count.sls"),
        shared.path().join("counted"),
    );
    let text = format!(
        "count:\n  local.cmd.run:\n    - tgt: m1\n    - args:\n      - cmd: echo {{{{ data['n'] }}}} >> {}\n",
        counted.display()
    );
    fs::write(&sls, text).unwrap();
    let rules = format!(
        "{SECRET}reactor:\n  - 'test/count':\n    - {}\n",
        sls.display()
    );
    let mut masters = Masters::with(3, &rules);
    masters.minions(&[("m1", 1)]);
    let mut fired = Vec::new();
    for round in 0..4 {
        let leader = masters.leader();
        for step in 0..6 {
            let number = round * 6 + step;
            if step == 3 {
                masters.all[leader].kill_master();
            }
            let at = (leader + 1 + step % 2) % 3;
            let data = format!("{{\"n\": {number}}}");
            let words = ["salt-run", "event.send", "test/count", &data];
            if masters.all[at].run(&words).out.contains("True") {
                fired.push(number);
            }
        }
        masters.all[leader].start_master();
    }
    assert!(fired.len() > 20, "{fired:?}");
    let done = || -> Vec<usize> {
        let text = fs::read_to_string(&counted).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    masters.soon("each event has its reaction", |_| {
        let done = done();
        fired.iter().all(|number| done.contains(number))
    });
    std::thread::sleep(Duration::from_secs(3));
    let mut all = done();
    all.sort_unstable();
    let twice = all.windows(2).any(|pair| pair[0] == pair[1]);
    assert!(!twice, "{all:?}");
}
