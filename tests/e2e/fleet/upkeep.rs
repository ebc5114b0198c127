//! Tests of a fleet's upkeep: masters that start while commands run, data that is read again, and
//! events of states.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tests::program::in_recorded_environment;

use super::{Fleet, PROGRAM};

/// The environment variable with the number of times that a master is started; the default is 10.
const STARTS: &str = "PINCH_STARTS";

#[test]
fn fault_4_a_master_starts_while_salt_key_has_its_store() {
    let starts = std::env::var(STARTS).ok();
    let starts = starts.map_or(10, |starts| starts.parse().unwrap());
    let mut fleet = Fleet::alone("");
    let etc = fleet.path("master/etc");
    for start in 0..starts {
        fleet.kill_master();
        let is_started = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_started.load(Ordering::Relaxed) {
                        let mut command = Command::new(&*PROGRAM);
                        let command = in_recorded_environment(&mut command);
                        command.arg("salt-key").arg("-c").arg(&etc).arg("-L");
                        let listed = command.stdin(Stdio::null()).output().unwrap();
                        assert!(listed.status.success(), "{start}: {listed:?}");
                    }
                });
            }
            fleet.start_master();
            is_started.store(true, Ordering::Relaxed);
        });
        assert_eq!(fleet.run(&["salt-key", "-L"]).rc, Some(0), "{start}");
    }
}

#[test]
fn fault_17_new_grains_and_pillar_are_matched_on_when_the_function_returns() {
    let mut fleet = Fleet::with("");
    fleet.write("pillar/top.sls", "base:\n  '*':\n    - data\n");
    fleet.write("pillar/data.sls", "colour: red\n");
    fleet.accepted(&["m1"]);
    let answers = |kind: &str, tgt: &str| {
        let words = ["salt", "--out=txt", kind, tgt, "test.ping"];
        fleet.run(&words).out.contains("m1: True")
    };
    fleet.soon("the master knows the pillar", || {
        answers("-I", "colour:red")
    });
    fleet.write("pillar/data.sls", "colour: blue\n");
    fleet.run(&["salt", "m1", "saltutil.refresh_pillar", "wait=True"]);
    assert!(answers("-I", "colour:blue"));
    fleet.write(
        "salt/_grains/form.py",
        "def form():\n    return {'form': 'oval'}\n",
    );
    let synced = fleet.run(&["salt", "m1", "saltutil.sync_grains"]);
    assert!(synced.out.contains("grains.form"), "{}", synced.out);
    assert!(answers("-G", "form:oval"));
}

#[test]
fn a_minion_in_blackout_runs_only_what_its_pillar_allows() {
    let mut fleet = Fleet::with("");
    fleet.write("pillar/top.sls", "base:\n  '*':\n    - data\n");
    fleet.write(
        "pillar/data.sls",
        "minion_blackout: True\nminion_blackout_whitelist: [test.version]\n",
    );
    fleet.accepted(&["m1"]);
    let refused = "m1: ERROR executing 'test.ping': Minion in blackout mode. Set 'minion_blackout' to False in pillar or grains to resume operations. Only saltutil.refresh_pillar allowed in blackout mode.";
    let call = |fun: &str| fleet.run(&["salt", "--out=txt", "m1", fun]);
    fleet.soon("the minion knows its pillar", || {
        call("test.ping").out.trim() == refused
    });
    assert_eq!(call("test.ping").rc, Some(1));
    assert!(call("state.highstate").out.contains("blackout mode"));
    assert_eq!(call("test.version").rc, Some(0));
    let words = ["salt", "--out=json", "m1", "test.version,test.ping", ","];
    let both = fleet.run(&words);
    assert!(both.out.contains("blackout mode"), "{}", both.out);
    fleet.write("pillar/data.sls", "minion_blackout: False\n");
    fleet.run(&["salt", "m1", "saltutil.refresh_pillar", "wait=True"]);
    assert_eq!(call("test.ping").out.trim(), "m1: True");
}

#[test]
fn fault_18_the_mine_keeps_nothing_of_the_job_that_fills_it() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1"]);
    let send = [
        "salt",
        "m1",
        "mine.send",
        "x",
        "mine_function=test.kwarg",
        "a=1",
    ];
    assert_eq!(fleet.run(&send).rc, Some(0));
    let kept = fleet.run(&["salt-run", "--out=json", "mine.get", "m1", "x"]);
    assert!(kept.out.contains("\"a\": 1"), "{}", kept.out);
    assert!(!kept.out.contains("__pub_"), "{}", kept.out);
}

#[test]
fn fault_18_a_master_says_whether_an_expression_matches_a_minion() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1", "m2"]);
    let asked = |expr: &str, id: &str| {
        let words = ["salt-run", "--out=json", "match.compound_matches", expr, id];
        let text = fleet.run(&words).out;
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
        answer["res"].clone()
    };
    assert_eq!(asked("m* and not m2", "m1"), "m1");
    assert_eq!(asked("m* and not m2", "m2"), false);
    fleet.soon("the master knows the grains", || {
        asked("G@kernel:Linux and E@m.", "m2") == "m2"
    });
    assert_eq!(asked("m1", "m3"), false);
    assert_eq!(asked("((", "m1"), false);
}

#[test]
fn fault_18_a_run_tells_of_each_state_where_the_call_asks_for_it() {
    let mut fleet = Fleet::with("");
    fleet.write("salt/two.sls", "one:\n  test.nop\ntwo:\n  test.nop\n");
    fleet.accepted(&["m1"]);
    let told = |words: &[&str]| {
        let before = events(&fleet);
        assert_eq!(fleet.run(words).rc, Some(0));
        let began = Instant::now();
        while events(&fleet) < before + 2 && began.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(50));
        }
        events(&fleet) - before
    };
    assert_eq!(told(&["salt", "m1", "state.apply", "two"]), 0);
    let asked = ["salt", "m1", "state.apply", "two", "state_events=True"];
    assert_eq!(told(&asked), 2);
}

/// Returns the number of state events in the master's log.
fn events(fleet: &Fleet) -> usize {
    let mut pipe = super::faults::listening(fleet, "salt/job/*/prog/*");
    let mut count = 0;
    while let Ok(link::Part::Data(_)) = pipe.next(Some(Duration::from_millis(300))) {
        count += 1;
    }
    count
}

#[test]
fn fault_18_a_peer_option_that_is_no_mapping_lets_nobody_do_anything() {
    let mut fleet = Fleet::with("peer: True\npeer_run: ['.*']\n");
    assert!(
        fleet.logs().contains("option `peer` needs"),
        "{}",
        fleet.logs()
    );
    fleet.accepted(&["m1"]);
    let words = ["salt", "m1", "publish.publish", "m1", "test.ping"];
    let answer = fleet.run(&words);
    assert!(!answer.out.contains("True"), "{}", answer.out);
}
