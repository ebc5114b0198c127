//! Tests with SIGKILL and full disks. The child processes run this test program with one of its
//! ignored tests, which do nothing unless the parent gives them a folder.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

/// The environment variable that gives a child its folder.
const FOLDER: &str = "PINCH_TEST_STORE";
const SENDERS: u8 = 8;
const ROUNDS: usize = 20;

fn child(test: &str, folder: &Path) -> Child {
    let mut process = Process::new("sh");
    // A write beyond the limit must fail, and must not end the process.
    process.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
    process.arg(std::env::current_exe().unwrap());
    process.args(["--exact", test, "--ignored", "--nocapture"]);
    process.env(FOLDER, folder).stdout(Stdio::piped());
    process.spawn().unwrap()
}

fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

fn print(line: &str) {
    // One write, so that a kill can cut only the last line.
    let line = format!("\n{line}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

#[test]
#[ignore = "the child of what_was_acknowledged_outlives_a_kill"]
fn numbered_events_until_killed() {
    let Some(folder) = folder() else {
        return;
    };
    let store = open(&folder).unwrap();
    let senders = (1..=SENDERS).map(|number| {
        let store = store.clone();
        std::thread::spawn(move || {
            let name = format!("m{number}");
            store.apply_blocking(accepted(&name, number)).unwrap();
            let durable = store.durable(&id(&name), &key(number), 1).unwrap();
            // Some earlier events are sent again, as by a minion that missed the acknowledgement.
            for sequence in durable.saturating_sub(3).max(1).. {
                let applied = store.apply_blocking(sent(&name, number, 1, sequence));
                let durable = match applied.unwrap() {
                    Applied::Event { durable, .. } | Applied::Duplicate { durable } => durable,
                    other => panic!("{other:?}"),
                };
                print(&format!("acked {name} {durable}"));
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.join().unwrap();
    }
}

#[test]
fn what_was_acknowledged_outlives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut acked = HashMap::new();
    for round in 0..ROUNDS {
        let test = "store::tests::faults::numbered_events_until_killed";
        let mut child = child(test, &path);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut kill_at = None;
        for line in lines.map_while(Result::ok) {
            let now = Instant::now();
            if now > *kill_at.get_or_insert_with(|| now + random(150)) {
                child.kill().unwrap();
            }
            if let Some((name, number)) = read(&line) {
                let known = acked.entry(name).or_insert(0);
                *known = number.max(*known);
            }
        }
        child.wait().unwrap();
        check(&path, &acked, round);
    }
    assert_eq!(acked.len(), usize::from(SENDERS));
}

#[test]
fn a_store_that_was_killed_while_it_was_made_opens() {
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let test = "store::tests::faults::numbered_events_until_killed";
        let mut child = child(test, &path);
        while !path.exists() {
            std::thread::sleep(Duration::from_micros(100));
        }
        std::thread::sleep(random(20));
        child.kill().unwrap();
        child.wait().unwrap();
        open(&path).unwrap();
    }
}

#[test]
fn what_the_making_left_unfinished_is_forgotten() {
    for mark in ["", "FJL"] {
        let folder = tempfile::tempdir().unwrap();
        let tables = folder.path().join("tables");
        fs::create_dir_all(tables.join("keyspaces")).unwrap();
        for (name, text) in [("lock", ""), ("0.jnl", ""), ("version", mark)] {
            fs::write(tables.join(name), text).unwrap();
        }
        fs::write(folder.path().join("format"), "1\n").unwrap();
        open(folder.path()).unwrap();
    }
}

#[test]
fn what_another_process_is_just_making_is_left_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let lock = File::create(folder.path().join("lock")).unwrap();
    lock.try_lock().unwrap();
    fs::create_dir_all(folder.path().join("tables/keyspaces")).unwrap();
    fs::write(folder.path().join("tables/0.jnl"), "").unwrap();
    fs::write(folder.path().join("format"), "1\n").unwrap();
    let error = open(folder.path()).err().unwrap();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    assert!(folder.path().join("tables/0.jnl").exists());
    drop(lock);
    // A process that another test starts at this moment inherits the lock until it calls `exec`.
    let until = Instant::now() + Duration::from_secs(60);
    while let Err(error) = open(folder.path()) {
        assert!(Instant::now() < until, "{error}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn random(below_ms: u64) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Duration::from_micros(u64::from(now.unwrap().subsec_nanos()) % (below_ms * 1000))
}

fn read(line: &str) -> Option<(String, u64)> {
    let (name, number) = line.strip_prefix("acked ")?.split_once(' ')?;
    Some((name.to_owned(), number.parse().ok()?))
}

/// Asserts that all acknowledged events are stored once, in order, and that their numbers have no
/// gap.
fn check(path: &Path, acked: &HashMap<String, u64>, round: usize) {
    let store = open(path).unwrap();
    let (first, next) = store.log().unwrap();
    let events: Vec<_> = store.events(0).unwrap().map(Result::unwrap).collect();
    let numbers: Vec<_> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(numbers, (first..next).collect::<Vec<_>>(), "round {round}");
    let total: u64 = (1..=SENDERS)
        .map(|number| {
            let name = format!("m{number}");
            let durable = store.durable(&id(&name), &key(number), 1).unwrap();
            assert!(
                durable >= acked.get(&name).copied().unwrap_or_default(),
                "round {round}"
            );
            durable
        })
        .sum();
    assert_eq!(events.len() as u64, total, "round {round}");
}

#[test]
#[ignore = "the child of a_full_disk_loses_nothing_and_is_left_behind"]
fn events_while_the_disk_is_full() {
    let Some(folder) = folder() else {
        return;
    };
    let store = open(&folder).unwrap();
    let watch = store.watch();
    let fire = |sequence| store.apply_blocking(sent("m1", 1, 1, sequence));
    store.apply_blocking(accepted("m1", 1)).unwrap();
    for sequence in 1..=50 {
        fire(sequence).unwrap();
    }
    let before = getrlimit(Resource::Fsize);
    let current = Some(1024);
    setrlimit(Resource::Fsize, Rlimit { current, ..before }).unwrap();
    for _ in 0..3 {
        let error = fire(51).unwrap_err();
        assert!(matches!(error, Error::Broken { .. }), "{error}");
        assert!(error.to_string().contains("File too large"), "{error}");
    }
    // Stored events can be read all the time.
    assert_eq!(store.events(1).unwrap().count(), 50);
    std::thread::sleep(Duration::from_millis(1100));
    fire(51).unwrap_err();
    setrlimit(Resource::Fsize, before).unwrap();
    fire(52).unwrap_err();
    std::thread::sleep(Duration::from_millis(1100));
    for sequence in 51..=60 {
        let applied = fire(sequence).unwrap();
        assert!(!matches!(applied, Applied::Refused(_)), "{applied:?}");
    }
    for sequence in 1..=50 {
        let seen = smol::block_on(watch.next());
        assert!(matches!(seen, Some(Seen::Event(event)) if event.sequence == sequence));
    }
    // Events that were stored although their batch failed still reach the watches.
    let mut next = 51;
    while next <= 60 {
        next = match smol::block_on(watch.next()) {
            Some(Seen::Event(event)) if event.sequence == next => next + 1,
            Some(Seen::Missed { from, to }) if from == next => to + 1,
            other => panic!("{other:?}"),
        };
    }
    drop(store);
    print("whole");
}

#[test]
fn a_full_disk_loses_nothing_and_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let child = child("store::tests::faults::events_while_the_disk_is_full", &path);
    let out = child.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&out.stdout);
    assert!(out.lines().any(|line| line == "whole"), "{out}");
    let store = open(&path).unwrap();
    let events = store.events(1).unwrap();
    let tags: Vec<_> = events.map(|event| event.unwrap().tag).collect();
    let sent: Vec<_> = (1..=60).map(|number| format!("my/{number}")).collect();
    assert_eq!(tags, sent);
}
