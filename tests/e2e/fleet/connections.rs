//! The events about minions that connect and disconnect, and what `minion.show` and `minion.history`
//! make of them.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Fleet;

impl Fleet {
    /// Returns the events about connections so far: the last part of the tag, the minion and the
    /// reason.
    fn connections(&self) -> Vec<String> {
        let words = [
            "salt-run",
            "state.event",
            "pinch/m*",
            "since=1h",
            "until=now",
        ];
        let listed = self.run(&words);
        assert_eq!(listed.rc, Some(0), "{}", listed.out);
        let line = |line: &str| {
            let (tag, data) = line.split_once('\t')?;
            let data: Value = serde_json::from_str(data).ok()?;
            let text = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
            let what = tag.rsplit('/').next()?;
            Some(format!("{} {what}: {}", text("id"), text("reason")))
        };
        listed.out.lines().filter_map(line).collect()
    }

    fn connects(&self, expected: &[&str]) {
        let is_so = || {
            let found = self.connections();
            expected
                .iter()
                .all(|one| found.iter().any(|found| found == one))
        };
        self.soon(&format!("the events {expected:?}"), is_so);
    }

    /// Ends the master in order.
    fn end_master(&mut self) {
        let process = &mut self.master.as_mut().unwrap().0;
        let pid = Pid::from_raw(process.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        process.wait().unwrap();
        self.kill_master();
    }

    fn runner_json(&self, words: &[&str]) -> Value {
        let mut all = vec!["salt-run", "--out=json"];
        all.extend(words);
        let answer = self.run(&all);
        serde_json::from_str(&answer.out).unwrap_or_else(|_| panic!("{}", answer.out))
    }
}

#[test]
fn a_minion_that_connects_or_disconnects_causes_an_event_with_the_reason() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1", "m2"]);
    fleet.connects(&["m1 up: connected", "m2 up: connected"]);
    fleet.end_minion("m1");
    fleet.connects(&["m1 down: closed by minion"]);
    let shown = fleet.runner_json(&["minion.show", "m1"]);
    assert_eq!(shown["connected"], false, "{shown}");
    assert_eq!(shown["disconnected"], "closed by minion");
    assert!(shown["last_seen"].as_str().unwrap().starts_with("20"));
    fleet.run(&["salt-key", "-y", "-d", "m2"]);
    fleet.connects(&["m2 down: key deleted"]);
    fleet.start_minion_again("m1");
    fleet.soon("m1 is connected", || {
        fleet.runner_json(&["minion.show", "m1"])["connected"] == true
    });
}

/// A stopping minion once connected again while it waited for its goodbye to be sent.
#[test]
fn a_minion_that_is_stopped_does_not_connect_again() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1"]);
    fleet.end_minion("m1");
    fleet.configure_minion("m1", "random_reauth_delay: 0\n");
    for _ in 0..3 {
        fleet.start_minion_again("m1");
        fleet.soon("m1 is connected", || {
            fleet.runner_json(&["minion.show", "m1"])["connected"] == true
        });
        fleet.end_minion("m1");
        let shown = fleet.runner_json(&["minion.show", "m1"]);
        assert_eq!(shown["disconnected"], "closed by minion", "{shown}");
    }
}

#[test]
fn the_restart_of_a_master_is_no_disconnection_of_its_minions() {
    let mut fleet = Fleet::with("");
    let ids = ["m1", "m2", "m3"];
    fleet.accepted(&ids);
    fleet.end_master();
    fleet.start_master();
    let restarted = ids.map(|id| format!("{id} up: master restarted"));
    let restarted = restarted.each_ref().map(String::as_str);
    fleet.connects(&restarted);
    fleet.connects(&[" stop: "]);
    fleet.kill_master();
    fleet.start_master();
    fleet.soon("the minions come back", || {
        let found = fleet.connections();
        found
            .iter()
            .filter(|one| one.ends_with("restarted"))
            .count()
            == 2 * ids.len()
    });
    let found = fleet.connections();
    assert!(!found.iter().any(|one| one.contains(" down")), "{found:?}");
}

#[test]
fn a_minion_is_shown_with_its_last_highstate_and_its_history() {
    let mut fleet = Fleet::with("");
    fleet.write("salt/top.sls", "base:\n  '*':\n    - web\n");
    fleet.write(
        "salt/web.sls",
        "a:\n  test.succeed_with_changes\nb:\n  test.nop\n",
    );
    fleet.accepted(&["m1"]);
    fleet.run(&["salt", "m1", "state.apply", "web"]);
    assert_eq!(
        fleet.runner_json(&["minion.show", "m1"])["last_highstate"],
        Value::Null
    );
    fleet.run(&["salt", "m1", "state.apply"]);
    let shown = fleet.runner_json(&["minion.show", "m1"]);
    let last = &shown["last_highstate"];
    assert_eq!(last["result"], true, "{shown}");
    assert_eq!((&last["states"], &last["changed"]), (&2.into(), &1.into()));
    assert_eq!(shown["key"], "accepted");
    assert_eq!(shown["connected"], true);
    assert!(shown["connected_since"].as_str().unwrap().starts_with("20"));
    assert_eq!(shown["queue"], Value::Array(Vec::new()));
    fleet.end_minion("m1");
    fleet.run(&["salt", "--async", "m1", "test.ping"]);
    let queue = &fleet.runner_json(&["minion.show", "m1"])["queue"];
    assert_eq!(queue[0]["fun"], "test.ping", "{queue}");
    let history = fleet.runner_json(&["minion.history", "m1", "since=1h"]);
    let what = |entry: &Value| {
        let fun = entry["fun"].as_str().unwrap_or_default();
        format!("{} {fun}", entry["what"].as_str().unwrap())
    };
    let found: Vec<String> = history.as_array().unwrap().iter().map(what).collect();
    for expected in [
        "up ",
        "job state.apply",
        "return state.apply",
        "down ",
        "start ",
    ] {
        assert!(
            found.iter().any(|one| one == expected),
            "{expected}: {found:?}"
        );
    }
    let none = fleet.runner_json(&[
        "minion.history",
        "m1",
        "until=2020-01-01",
        "since=2019-01-01",
    ]);
    assert_eq!(none, Value::Array(Vec::new()));
    for words in [
        &["minion.show", "m9"][..],
        &["minion.history", "m1", "since=10"],
    ] {
        let mut all = vec!["salt-run"];
        all.extend(words);
        let answer = fleet.run(&all);
        assert_ne!(answer.rc, Some(0), "{}", answer.out);
    }
    let jobs = fleet.runner_json(&["jobs.list_jobs", "since=1h", "search_function=state.apply"]);
    assert_eq!(jobs.as_object().unwrap().len(), 2, "{jobs}");
    let jobs = fleet.runner_json(&["jobs.list_jobs", "until=2h"]);
    assert_eq!(jobs.as_object().unwrap().len(), 0, "{jobs}");
}
