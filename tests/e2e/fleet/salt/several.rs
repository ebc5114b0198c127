//! Minions with several masters: two of Salt, or one of Salt and one of Pinch.

use serde_json::json;

use super::super::Fleet;
use super::super::masters::end_master;
use super::Salt;

/// Takes turns between masters, and goes back to the first one.
const FAILOVER: &str = "master_type: failover\nmaster_alive_interval: 1\nmaster_failback: True\nmaster_protocol: salt\n";

/// Returns whether the minion answers a job of a Salt master.
fn answers(salt: &Salt) -> bool {
    salt.salt(&["-t", "5", "m1", "test.ping"])["m1"] == json!(true)
}

/// Returns whether the minion answers a job of a Pinch master.
fn answers_pinch(fleet: &Fleet) -> bool {
    let answer = fleet.run(&["salt", "-t", "5", "m1", "test.ping"]);
    answer.out.contains("True")
}

/// Returns the number of jobs with this function that a Salt master has.
fn jobs(salt: &Salt, fun: &str) -> usize {
    let listed = salt.runner(&["jobs.list_jobs"]);
    let jobs = listed.as_object().into_iter().flatten();
    jobs.filter(|(_, job)| job["Function"] == fun).count()
}

#[test]
fn a_second_salt_master_takes_over_and_the_first_is_gone_back_to() {
    let Some(mut first) = Salt::start("zeromq", "") else {
        return;
    };
    let second = first.beside();
    let ports = (first.ports[1], second.ports[1]);
    let masters = format!("master: [127.0.0.1:{}, 127.0.0.1:{}]\n", ports.0, ports.1);
    first.start_minion("m1", &(masters + FAILOVER));
    first.answers("m1");
    let keys = |salt: &Salt| salt.run("salt-key", &["-l", "acc"]).out;
    assert!(!keys(&second).contains("m1"));
    first.kill_master();
    first.soon("the minion answers the second master", || answers(&second));
    first.start_master();
    first.soon("the minion is back at the first master", || answers(&first));
    first.soon("the minion has left the second master", || {
        !answers(&second)
    });
}

#[test]
fn a_master_of_pinch_and_one_of_salt_are_served_side_by_side() {
    let fleet = Fleet::with("auto_accept: True\n");
    let Some(mut salt) = Salt::start_lent("") else {
        return;
    };
    let ports = (fleet.port, salt.ports[1]);
    let masters = format!(
        "master: [quic://127.0.0.1:{}, 127.0.0.1:{}]\nmaster_protocol: salt\n",
        ports.0, ports.1
    );
    let events = salt.record_events();
    let mine = "mine_functions: {test.ping: []}\n";
    salt.start_minion("m1", &(masters + mine));
    salt.answers("m1");
    salt.soon("the minion answers the master of Pinch", || {
        answers_pinch(&fleet)
    });
    // A return goes to the master that asked for it, and events and the mine go to both.
    assert!(fleet.run(&["salt", "m1", "test.version"]).rc == Some(0));
    assert_eq!(jobs(&salt, "test.version"), 0);
    salt.call("m1", &["event.send", "my/tag", "x=1"]);
    salt.soon("the event arrives at the Salt master", || {
        !events.with_tag("my/tag").is_empty()
    });
    let mine = ["salt-run", "--out=json", "mine.get", "m1", "test.ping"];
    salt.soon("the master of Pinch has the mine", || {
        fleet.run(&mine).out.contains("\"m1\": true")
    });
    salt.soon("the Salt master has the mine", || {
        salt.runner(&["mine.get", "m1", "test.ping"]) == json!({"m1": true})
    });
}

#[test]
fn a_salt_master_takes_over_from_a_master_of_pinch_until_it_is_back() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    let Some(mut salt) = Salt::start_lent("") else {
        return;
    };
    let ports = (fleet.port, salt.ports[1]);
    let masters = format!(
        "master: [quic://127.0.0.1:{}, 127.0.0.1:{}]\n",
        ports.0, ports.1
    );
    salt.start_minion("m1", &(masters + FAILOVER));
    salt.soon("the minion answers the master of Pinch", || {
        answers_pinch(&fleet)
    });
    end_master(&mut fleet);
    salt.answers("m1");
    fleet.start_master();
    salt.soon("the minion is back at the master of Pinch", || {
        answers_pinch(&fleet)
    });
    salt.soon("the minion has left the Salt master", || !answers(&salt));
}
