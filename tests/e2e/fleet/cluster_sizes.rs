//! Clusters that grow and shrink while jobs run.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Fleet;
use super::cluster::{Masters, SECRET, members, voters};

/// Runs jobs at a master until they are to end. Returns the number of jobs, each of which must be
/// answered by both minions.
fn ping_until(master: &Fleet, end: &AtomicBool) -> usize {
    let words = [
        "salt",
        "-t",
        "30",
        "--out=json",
        "--static",
        "*",
        "test.ping",
    ];
    let mut count = 0;
    while !end.load(Ordering::Relaxed) {
        let answer = master.run(&words);
        let all = answer.out.matches("true").count();
        assert_eq!(
            (answer.rc, all),
            (Some(0), 2),
            "job {count}: {}",
            answer.out
        );
        count += 1;
    }
    count
}

/// Does something while jobs run at a master that stays.
pub(super) fn while_jobs_run(master: &Fleet, change: impl FnOnce()) {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let jobs = scope.spawn(|| ping_until(master, &end));
        change();
        end.store(true, Ordering::Relaxed);
        assert!(jobs.join().unwrap() > 0);
    });
}

#[test]
fn three_masters_become_five_and_three_again_while_jobs_run() {
    let mut masters = Masters::with(3, SECRET);
    masters.minions(&[("m1", 1), ("m2", 2)]);
    for number in [4, 5] {
        masters.prepare(number, 3, SECRET);
        masters.all[number - 1].begin_master();
    }
    while_jobs_run(&masters.all[0], || {
        masters.soon("five masters have a vote", |masters| {
            masters.all.iter().all(|fleet| voters(fleet).len() == 5)
        });
    });
    let all = members(&masters.all[4]);
    assert_eq!(
        (&all["voter_count"], &all["learner_count"]),
        (&5.into(), &0.into())
    );
    for number in 1..=5 {
        masters.soon("each master reaches all minions", |masters| {
            masters.ping(number).matches("true").count() == 2
        });
    }

    // Two of five may die. Neither may be one that the jobs or minions of this test need.
    let first = masters.name(1);
    let led = masters.all[0].run(&["salt-run", "cluster.transfer_leader", &first]);
    assert_eq!(led.rc, Some(0), "{}", led.out);
    masters.soon("the first master leads", |masters| {
        members(&masters.all[0])["leader_id"] == first
    });
    for number in [4, 5] {
        masters.all[number - 1].kill_master();
    }
    masters.takes_changes(1);
    masters.soon("all minions are at the masters that are left", |masters| {
        masters.ping(1).matches("true").count() == 2
    });
    masters.soon("the dead masters are named", |masters| {
        let silent = members(&masters.all[0])["unhealthy_voters"].clone();
        silent == serde_json::json!([masters.name(4), masters.name(5)])
    });
    while_jobs_run(&masters.all[0], || {
        for number in [4, 5] {
            let name = masters.name(number);
            let removed = masters.all[1].run(&["salt-run", "cluster.remove", &name]);
            assert_eq!((removed.rc, removed.out.trim()), (Some(0), "True"));
        }
    });
    assert_eq!(voters(&masters.all[2]).len(), 3);
    // Three masters bear the loss of one again.
    masters.all[2].kill_master();
    masters.takes_changes(1);
    masters.soon("all minions are at the masters that are left", |masters| {
        masters.ping(2).matches("true").count() == 2
    });
}
