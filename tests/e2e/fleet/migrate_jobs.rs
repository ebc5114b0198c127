//! `cluster.migrate_jobs_to_cache`: the jobs of a Salt master, whose cache Salt itself has written
//! (`tests/corpus/job_cache/record.py`), appear in Pinch's store.

use std::fs;
use std::path::Path;

use tests::scratch::corpus;

use super::Fleet;
use super::cluster::{Masters, SECRET};

const PING: &str = "20261119100843468059";
const STATES: &str = "20261119101055879502";

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

impl Fleet {
    /// Copies the jobs of a Salt master into the master's folder.
    fn inherit_jobs(&self) {
        let to = self.path("master/cache/jobs");
        copy(&corpus().join("job_cache/jobs"), &to);
    }

    fn migrate(&self, words: &[&str]) -> serde_json::Value {
        let all = ["salt-run", "--out=json", "cluster.migrate_jobs_to_cache"];
        let answer = self.run(&[&all, words].concat());
        assert_eq!(answer.rc, Some(0), "{}", answer.out);
        serde_json::from_str(&answer.out).unwrap()
    }

    fn runner(&self, words: &[&str]) -> serde_json::Value {
        let answer = self.run(&[&["salt-run", "--out=json"], words].concat());
        serde_json::from_str(&answer.out).unwrap_or_default()
    }
}

#[test]
fn jobs_of_a_salt_master_are_listed_after_they_were_copied() {
    let fleet = Fleet::with("keep_jobs_seconds: 0\n");
    let nothing = fleet.migrate(&[]);
    assert_eq!(nothing["status"], "skipped", "{nothing}");
    fleet.inherit_jobs();
    let damaged = fleet.path("master/cache/jobs/00/damaged");
    fs::create_dir_all(&damaged).unwrap();
    fs::write(damaged.join(".load.p"), b"\x81").unwrap();
    let answer = |dry_run: bool| {
        serde_json::json!({
            "status": "ok", "scanned": 8, "migrated": 6, "skipped": 2, "returns_migrated": 6,
            "dry_run": dry_run, "jobs_root": fleet.path("master/cache/jobs"),
        })
    };
    assert_eq!(fleet.migrate(&["dry_run=True"]), answer(true));
    assert_eq!(fleet.runner(&["jobs.list_jobs"]), serde_json::json!({}));
    let damage = format!("ignoring {}: cannot read its .load.p", damaged.display());
    assert!(fleet.logs().contains(&damage), "{}", fleet.logs());
    for _ in 0..2 {
        assert_eq!(fleet.migrate(&[]), answer(false));
        let jobs = fleet.runner(&["jobs.list_jobs"]);
        assert_eq!(jobs.as_object().unwrap().len(), 6, "{jobs}");
        assert_eq!(jobs[PING]["StartTime"], "2026, Nov 19 10:08:43.468059");
        assert_eq!(jobs[PING]["Metadata"]["ticket"], "T-1");
    }
    let returned = fleet.runner(&["jobs.lookup_jid", PING, "missing=True"]);
    let expected = serde_json::json!({
        "m1": true, "m2": "not available", "m3": "Minion did not return",
    });
    assert_eq!(returned, expected);
    // The outputter of the job is used.
    let shown = fleet.run(&["salt-run", "jobs.lookup_jid", STATES]).out;
    assert!(shown.contains("Größe geändert"), "{shown}");
    assert!(shown.contains("Summary for m1"), "{shown}");
}

#[test]
fn each_master_of_a_cluster_has_the_jobs_that_one_has_copied() {
    let mut masters = Masters::with(2, &format!("{SECRET}keep_jobs_seconds: 0\n"));
    masters.all[1].inherit_jobs();
    let answer = masters.all[1].migrate(&[]);
    assert_eq!(
        (
            answer["migrated"].as_u64(),
            answer["returns_migrated"].as_u64()
        ),
        (Some(6), Some(6)),
        "{answer}"
    );
    masters.soon("the other master has the jobs", |masters| {
        masters.all[0].runner(&["jobs.lookup_jid", PING])["m1"] == true
    });
    // A master in a minority refuses what is new.
    masters.all[0].kill_master();
    let new = masters.all[1].path("master/cache/jobs/00/new");
    fs::create_dir_all(&new).unwrap();
    let load = b"\x82\xa3jid\xb420261119110000000000\xa3fun\xa1x";
    fs::write(new.join(".load.p"), load).unwrap();
    masters.soon("the refusal is passed on", |masters| {
        let words = ["salt-run", "cluster.migrate_jobs_to_cache"];
        let refused = masters.all[1].run(&words);
        refused.rc == Some(1) && refused.out.contains("in a minority of the cluster prod")
    });
}
