//! Masters of an older release that become masters of this one, one at a time.

use std::path::PathBuf;

use super::cluster::{Masters, SECRET};
use super::cluster_sizes::while_jobs_run;
use super::masters::end_master;
use super::{Fleet, PROGRAM};

/// The variable with the path of the older release's program. `cargo ci-long upgrade` sets it.
const OLD: &str = "PINCH_OLD";

/// The number of events that are fired at each step.
const EVENTS: i64 = 20;

/// Returns whether the leader has received answers of a master, which has almost all changes.
fn is_up(leader: &Fleet, name: &str) -> bool {
    let status = leader
        .run(&["salt-run", "--out=json", "cluster.status"])
        .out;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
    let master = &status["masters"][name];
    master["up"] == true && master["behind"].as_u64().is_some_and(|behind| behind < 100)
}

/// Starts a master of an older release with this release's program, while jobs run at the leader.
fn upgrade(masters: &mut Masters, number: usize, leader: usize) {
    let name = masters.name(number);
    let [fleet, leader] = masters
        .all
        .get_disjoint_mut([number - 1, leader - 1])
        .unwrap();
    while_jobs_run(leader, || {
        end_master(fleet);
        fleet.program.clone_from(&PROGRAM);
        fleet.start_master();
        leader.soon("the upgraded master is up", || is_up(leader, &name));
    });
}

/// Fires events at each master, and asserts that they are acknowledged.
fn fire(masters: &Masters, step: i64) {
    for n in step * EVENTS..(step + 1) * EVENTS {
        let number = usize::try_from(n % 3).unwrap() + 1;
        let fired = super::cluster_damage::fire(masters, number, "test/upgrade", n, 1);
        assert!(fired, "event {n} at master {number}");
    }
}

#[test]
fn masters_of_an_older_release_are_upgraded_one_at_a_time_while_jobs_run() {
    let Some(old) = std::env::var_os(OLD).map(PathBuf::from) else {
        return tests::skip::leave("PINCH_OLD does not name an older release");
    };
    let mut masters = Masters::prepared(3, SECRET);
    for fleet in &mut masters.all {
        fleet.program.clone_from(&old);
    }
    masters.start_all();
    masters.minions(&[("m1", 1), ("m2", 2)]);
    masters.led_by(3);
    fire(&masters, 0);
    for (step, number) in [(1, 1), (2, 2)] {
        upgrade(&mut masters, number, 3);
        fire(&masters, step);
    }
    // One old master and two new ones. Each of them leads for a while.
    for number in [1, 3, 2] {
        masters.led_by(number);
        fire(&masters, 2 + i64::try_from(number).unwrap());
    }
    upgrade(&mut masters, 3, 2);
    fire(&masters, 6);
    for number in 1..=3 {
        let seen = super::cluster_damage::numbers(
            &masters.all[number - 1],
            "test/upgrade",
            7 * EVENTS - 1,
        );
        assert_eq!(seen, (0..7 * EVENTS).collect(), "master {number}");
        assert_eq!(masters.ping(number).matches("true").count(), 2);
    }
}
