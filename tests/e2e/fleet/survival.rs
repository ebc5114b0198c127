//! Kills daemons at random while jobs and events flow: everything acknowledged exists exactly once
//! afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime};

use tests::program::in_recorded_environment;

use super::{Fleet, PATIENCE, PROGRAM, Process};

/// The amounts of jobs and events: environment variable and default. The full test uses 1000 and
/// 10000.
const JOBS: (&str, u64) = ("PINCH_SURVIVAL_JOBS", 30);
const EVENTS: (&str, u64) = ("PINCH_SURVIVAL_EVENTS", 120);
const MINIONS: [&str; 2] = ["m1", "m2"];
/// The maximum duration, even on a slow machine.
const FLOW_MAX: Duration = Duration::from_secs(600);

fn number((name, default): (&str, u64)) -> u64 {
    let given = std::env::var(name).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn random(below: u64) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::from(now.unwrap().subsec_nanos()) / 7 % below
}

#[test]
fn what_was_acknowledged_outlives_every_kill_and_is_there_once() {
    let mut fleet = Fleet::alone("auto_accept: True\nkeep_jobs_seconds: 86400\n");
    for id in MINIONS {
        fleet.start_minion(id, "");
    }
    fleet.soon("both answer", || {
        let out = fleet
            .run(&["salt", "--out=json", "--static", "*", "test.ping"])
            .out;
        MINIONS
            .iter()
            .all(|id| out.contains(&format!("\"{id}\": true")))
    });
    let (asked, acked) = flow(&mut fleet);
    fleet.soon("all returns arrive", || all_returned(&fleet));
    // A minion's events come in order, so the last one comes after all others.
    let call = Caller::new(&fleet);
    for id in MINIONS {
        fleet.soon("the last event is accepted", || {
            call.event(id, &format!("my/{id}/end"))
        });
    }
    let events = events(&fleet);
    for name in &acked {
        assert_eq!(
            events.get(name),
            Some(&1),
            "{name} of {} acked",
            acked.len()
        );
    }
    for (name, times) in &events {
        assert_eq!(*times, 1, "{name}");
    }
    for id in MINIONS {
        let done = done(&fleet, id);
        let once: BTreeSet<_> = done.iter().collect();
        assert_eq!(
            once.len(),
            done.len(),
            "{id} has done a job twice: {done:?}"
        );
    }
    println!("{asked} jobs, {} events", acked.len());
}

/// Sends jobs and events while daemons are killed. Returns the number of accepted jobs, and the
/// accepted events.
fn flow(fleet: &mut Fleet) -> (usize, BTreeSet<String>) {
    let (jobs, events) = (number(JOBS), number(EVENTS));
    let call = Caller::new(fleet);
    let call = &call;
    thread::scope(|scope| {
        let asking = scope.spawn(move || (0..jobs).filter(|number| call.job(*number)).count());
        let firing = MINIONS.map(|id| {
            scope.spawn(move || {
                let tags = (0..events / 2).map(|number| format!("my/{id}/{number}"));
                tags.filter(|tag| call.event(id, tag)).collect::<Vec<_>>()
            })
        });
        let ended = || asking.is_finished() && firing.iter().all(|firing| firing.is_finished());
        let kills = kill_at_random(fleet, ended);
        assert!(kills > 0);
        let acked = firing.into_iter().flat_map(|firing| firing.join().unwrap());
        (asking.join().unwrap(), acked.collect())
    })
}

/// Kills and restarts a random daemon now and then. Returns the number of kills.
fn kill_at_random(fleet: &mut Fleet, ended: impl Fn() -> bool) -> usize {
    let began = Instant::now();
    let mut kills = 0;
    while !ended() && began.elapsed() < FLOW_MAX {
        sleep(Duration::from_millis(200 + random(600)));
        match random(3) {
            0 => {
                fleet.kill_master();
                fleet.start_master();
            }
            which => {
                let id = MINIONS[which as usize - 1];
                fleet.kill_minion(id);
                fleet.start_minion_again(id);
            }
        }
        kills += 1;
    }
    kills
}

/// The client that starts jobs and fires events meanwhile.
struct Caller {
    folder: std::path::PathBuf,
}

impl Caller {
    fn new(fleet: &Fleet) -> Self {
        Self {
            folder: fleet.dir.path().to_owned(),
        }
    }

    /// Starts a job that writes a line. Returns whether the master accepted it.
    fn job(&self, number: u64) -> bool {
        let line = format!("echo {number} >> {}/done-$PINCH_ID", self.folder.display());
        let words = [
            "--async",
            "*",
            "cmd.run",
            &line.replace("$PINCH_ID", "{{ grains.id }}"),
            "template=jinja",
        ];
        let master = self.folder.join("master/etc");
        let mut command = Command::new(&*PROGRAM);
        command.arg("salt").arg("-c").arg(master).args(words);
        succeeds(&mut command)
    }

    /// Fires an event on a minion. Returns whether it was accepted.
    fn event(&self, id: &str, tag: &str) -> bool {
        let etc = self.folder.join(id).join("etc");
        let mut command = Command::new(&*PROGRAM);
        command
            .arg("salt-call")
            .arg("-c")
            .arg(etc)
            .args(["--out=json", "event.send", tag]);
        let output = in_recorded_environment(&mut command)
            .stderr(Stdio::null())
            .output()
            .unwrap();
        output.status.success()
            && String::from_utf8_lossy(&output.stdout).contains("\"local\": true")
    }
}

fn succeeds(command: &mut Command) -> bool {
    let command = in_recorded_environment(command)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command.stderr(Stdio::null()).status().unwrap().success()
}

/// Returns the jobs that a minion has done, in order.
fn done(fleet: &Fleet, id: &str) -> Vec<String> {
    let text = fs::read_to_string(fleet.dir.path().join(format!("done-{id}"))).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Returns whether the master has a return for every job that wrote its line.
fn all_returned(fleet: &Fleet) -> bool {
    let listed = fleet.run(&["salt-run", "--out=json", "jobs.list_jobs"]).out;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap_or_default();
    let Some(jobs) = listed.as_object() else {
        return false;
    };
    let mut returned: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (jid, job) in jobs {
        let words = job["Arguments"][0].as_str().unwrap_or_default();
        let Some(number) = words
            .strip_prefix("echo ")
            .and_then(|rest| rest.split(' ').next())
        else {
            continue;
        };
        let looked_up = fleet
            .run(&["salt-run", "--out=json", "jobs.lookup_jid", jid])
            .out;
        for id in MINIONS {
            if looked_up.contains(&format!("\"{id}\":")) {
                returned.entry(id).or_default().insert(number.to_owned());
            }
        }
    }
    MINIONS.iter().all(|id| {
        let has = returned.get(id);
        done(fleet, id)
            .iter()
            .all(|number| has.is_some_and(|has| has.contains(number)))
    })
}

/// Returns the test's events in the log, each with its number of occurrences.
fn events(fleet: &Fleet) -> BTreeMap<String, usize> {
    let words = [
        "salt-run",
        "-c",
        &fleet.dir.path().join("master/etc").display().to_string(),
        "state.event",
        "tagmatch=my/*",
        "from=1",
    ]
    .map(str::to_owned);
    let mut child = Command::new(&*PROGRAM);
    let child = in_recorded_environment(child.args(words))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = Process(child.unwrap());
    let stdout = child.0.stdout.take().unwrap();
    let mut seen = BTreeMap::new();
    let (began, mut ends) = (Instant::now(), 0);
    for line in BufReader::new(stdout).lines() {
        let line = line.unwrap();
        let tag = line.split('\t').next().unwrap_or_default().to_owned();
        ends += usize::from(tag.ends_with("/end"));
        *seen.entry(tag).or_insert(0) += 1;
        if ends == MINIONS.len() || began.elapsed() > PATIENCE {
            break;
        }
    }
    seen
}
