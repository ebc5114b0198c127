//! `pinch backup` of a working master, and `pinch restore` elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use link::unix::Pipe;
use tests::program::in_recorded_environment;
use wire::Publish;

use super::{Fleet, PATIENCE, PROGRAM, Turn};

/// The number of jobs that are published, from several threads at a time.
const JOBS: usize = 1000;
const THREADS: usize = 8;

impl Fleet {
    /// Runs a command of the program itself with the master's configuration. Returns what it printed.
    fn pinch(&self, words: &[&str]) -> (bool, String) {
        let (command, rest) = words.split_first().unwrap();
        let output = in_recorded_environment(&mut Command::new(&*PROGRAM))
            .arg(command)
            .arg("-c")
            .arg(self.path("master/etc"))
            .args(rest)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        (output.status.success(), text)
    }

    /// Publishes a job that no answer is awaited of. Returns its id once the master has it.
    fn published(&self, pipe: &mut Pipe) -> String {
        let publish = Publish {
            tgt: "*".into(),
            tgt_type: "glob".into(),
            fun: "test.ping".into(),
            arg: Vec::new(),
            ret: String::new(),
            jid: None,
            timeout_s: Some(0.0),
            options: value::Map::new(),
        };
        pipe.ask(publish).unwrap();
        let mut jid = None;
        loop {
            match pipe.next(Some(PATIENCE)).unwrap() {
                link::Part::Data(first) => {
                    let found = first.get("jid").map(value::Value::to_text);
                    jid = jid.or(found);
                }
                link::Part::Done(_) => return jid.unwrap(),
            }
        }
    }
}

/// Publishes all jobs, and calls `meanwhile` once with a half of them. Returns the jobs that the
/// master had by then, and all jobs.
fn publish_all(fleet: &Fleet, meanwhile: impl Fn() + Sync) -> (BTreeSet<String>, BTreeSet<String>) {
    let jids = Mutex::new(BTreeSet::new());
    let begun = AtomicUsize::new(0);
    let before = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let way = wire::Way::ClientToMaster;
                let limits = link::Limits::default();
                let mut pipe = Pipe::connect(&fleet.master_socket(), way, limits).unwrap();
                while begun.fetch_add(1, Ordering::Relaxed) < JOBS {
                    let jid = fleet.published(&mut pipe);
                    jids.lock().unwrap().insert(jid);
                }
            });
        }
        fleet.soon("half of the jobs are published", || {
            jids.lock().unwrap().len() >= JOBS / 2
        });
        *before.lock().unwrap() = jids.lock().unwrap().clone();
        meanwhile();
    });
    (before.into_inner().unwrap(), jids.into_inner().unwrap())
}

#[test]
fn a_backup_under_load_has_every_acknowledged_job_and_key() {
    let mut fleet = Fleet::alone("");
    fleet.accepted(&["m1"]);
    let file = fleet.path("backup").display().to_string();
    let (before, all) = publish_all(&fleet, || {
        let (is_good, said) = fleet.pinch(&["backup", &file]);
        assert!(is_good, "{said}");
    });
    assert!(before.len() >= JOBS / 2);
    assert_eq!(all.len(), JOBS);
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );

    // Another machine: nothing is restored over a master, nor from a damaged file.
    let mut other = Fleet::prepared("", Turn::Lent);
    let etc = other.path("master/etc/master");
    let port = |fleet: &Fleet| format!("ret_port: {}\n", fleet.port);
    let config = fs::read_to_string(&etc).unwrap();
    fs::write(&etc, config.replace(&port(&other), &port(&fleet))).unwrap();
    let (is_good, said) = fleet.pinch(&["restore", &file]);
    assert!(!is_good && said.contains("another process"), "{said}");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged = other.path("damaged").display().to_string();
    for bad in [&bytes[..], &bytes[..middle], b"pinch backup 1\n", b"x"] {
        fs::write(&damaged, bad).unwrap();
        let (is_good, said) = other.pinch(&["restore", &damaged]);
        assert!(!is_good, "{said}");
        assert!(!other.path("master/pki/master.pem").exists());
        assert!(!other.path("master/cache/store").exists());
    }
    let (is_good, said) = other.pinch(&["restore", &file]);
    assert!(is_good && said.contains("configuration files: "), "{said}");
    let (is_good, said) = other.pinch(&["restore", &file]);
    assert!(!is_good && said.contains("--force"), "{said}");
    let (is_good, said) = other.pinch(&["restore", "--force", &file]);
    assert!(is_good, "{said}");

    // The minion finds the same master at the same address.
    fleet.kill_master();
    other.start_master();
    let listed = other.run(&["salt-run", "--out=json", "jobs.list_jobs"]).out;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let listed = listed.as_object().unwrap();
    let missing: Vec<&String> = before
        .iter()
        .filter(|jid| !listed.contains_key(*jid))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(other.run(&["salt-key", "-l", "acc"]).out.contains("m1"));
    other.soon("the minion answers the restored master", || {
        other.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
}

#[test]
fn a_backup_without_a_running_master_reads_the_files() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1"]);
    fleet.kill_master();
    let file = fleet.path("backup").display().to_string();
    let (is_good, said) = fleet.pinch(&["backup", &file]);
    assert!(is_good && said.contains(" rows, "), "{said}");
    let (is_good, said) = fleet.pinch(&["restore", "--force", &file]);
    assert!(is_good, "{said}");
    fleet.start_master();
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
    let empty = Fleet::prepared("", Turn::Lent);
    let (is_good, said) = empty.pinch(&["backup", &file]);
    assert!(!is_good, "{said}");
    assert!(
        fs::metadata(&file).unwrap().len() > 100,
        "the old backup stays"
    );
}
