//! Orchestrations of a cluster whose master ends while they run.

use std::fs;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::cluster::{Masters, SECRET};

/// Each step leaves a line in a file of the minion. The second one takes as long as a master needs to
/// take over, so that it is under way then.
const SLS: &str = "
first:
  salt.state: [{tgt: m1}, {sls: [first]}]
second:
  salt.state: [{tgt: m1}, {sls: [second]}, {timeout: 20}, {require: [{salt: first}]}]
third:
  salt.state: [{tgt: m1}, {sls: [third]}, {require: [{salt: second}]}]
";

/// Writes the same trees for all masters. Returns the file with the lines of the steps.
fn write(masters: &Masters, sls: &str, seconds: u32) -> std::path::PathBuf {
    let done = masters.all[0].path("done");
    let append = |step: &str, pause: u32| {
        let done = done.display();
        format!("{step} runs:\n  cmd.run: [{{name: 'sleep {pause}; echo {step} >> {done}'}}]\n")
    };
    for fleet in &masters.all {
        fleet.write("salt/orch.sls", sls);
        fleet.write("salt/first.sls", &append("first", 0));
        fleet.write("salt/second.sls", &append("second", seconds));
        fleet.write("salt/third.sls", &append("third", 0));
    }
    done
}

/// Starts the orchestration at the first master, and waits for the second step. Returns the command
/// that waits for its end.
fn begin(masters: &Masters, done: &std::path::Path) -> Child {
    let etc = masters.all[0].path("master/etc");
    let program = &*super::PROGRAM;
    let words = ["state.orchestrate", "orch"];
    let started = Command::new(program)
        .arg("salt-run")
        .arg("-c")
        .arg(etc)
        .args(words)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    masters.soon("the second step begins", |masters| {
        let first = fs::read_to_string(done).unwrap_or_default() == "first\n";
        let jobs = masters.all[1].run(&["salt-run", "--out=json", "jobs.list_jobs"]);
        first && jobs.out.matches("state.sls").count() == 2
    });
    started
}

/// Starts the orchestration at the first master, and kills that one during the second step.
/// Returns what the command prints then.
fn cut(masters: &mut Masters, done: &std::path::Path) -> String {
    let command = begin(masters, done);
    masters.all[0].kill_master();
    let ended = command.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    String::from_utf8(ended.stdout).unwrap()
}

/// Returns the ends of the orchestration among the events that a master has sent its listener.
fn ends(masters: &Masters, at: usize) -> Vec<Value> {
    let heard = masters.all[at].heard().into_iter();
    let ends = heard.filter(|(tag, data)| {
        tag == "salt/run/JID/ret" && data["fun"] == "runner.state.orchestrate"
    });
    ends.map(|(_, data)| data).collect()
}

#[test]
fn another_master_continues_an_orchestration_and_each_step_happens_once() {
    let config = format!("{SECRET}cluster_voter_timeout: 2\n");
    let mut masters = Masters::with(3, &config);
    masters.minions(&[("m1", 2)]);
    let done = write(&masters, SLS, 8);
    let listeners: Vec<_> = [1, 2].map(|number| masters.all[number].listen()).into();
    let printed = cut(&mut masters, &done);
    assert!(printed.contains("another master continues it"), "{printed}");
    masters.soon("all steps are done", |_| {
        fs::read_to_string(&done)
            .unwrap_or_default()
            .lines()
            .count()
            >= 3
    });
    assert_eq!(
        fs::read_to_string(&done).unwrap(),
        "first\nsecond\nthird\n",
        "each step happened once"
    );
    masters.soon("both masters have the event", |masters| {
        [1, 2].iter().all(|at| !ends(masters, *at).is_empty())
    });
    let ended = ends(&masters, 1);
    assert_eq!(ended.len(), 1, "{ended:#?}");
    assert_eq!(ended[0]["success"], true, "{ended:#?}");
    drop(listeners);
    // The jobs of the steps are those of the first master.
    let jobs = masters.all[1].run(&["salt-run", "--out=json", "jobs.list_jobs"]);
    assert_eq!(jobs.out.matches("state.sls").count(), 3, "{}", jobs.out);
    // The first master does not begin again when it is back.
    masters.all[0].start_master();
    masters.takes_changes(1);
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(fs::read_to_string(&done).unwrap().lines().count(), 3);
}

#[test]
fn a_master_that_was_paused_does_not_continue_what_another_one_has_taken_over() {
    let config = format!("{SECRET}cluster_voter_timeout: 2\n");
    let mut masters = Masters::with(3, &config);
    masters.minions(&[("m1", 2)]);
    let done = write(&masters, SLS, 3);
    let listener = masters.all[1].listen();
    let mut command = begin(&masters, &done);
    masters.signal(1, Signal::STOP);
    masters.soon("another master ends the orchestration", |masters| {
        !ends(masters, 1).is_empty()
    });
    masters.signal(1, Signal::CONT);
    let taken = "another master has taken over the orchestration";
    masters.soon("the first master notices", |masters| {
        masters.all[0].logs().contains(taken)
    });
    masters.takes_changes(1);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let ended = ends(&masters, 1);
    assert_eq!(ended.len(), 1, "{ended:#?}");
    assert_eq!(ended[0]["success"], true, "{ended:#?}");
    let lines = fs::read_to_string(&done).unwrap();
    assert_eq!(lines, "first\nsecond\nthird\n");
    drop(listener);
    // Its orchestration has failed at the master that was paused.
    assert!(!command.wait().unwrap().success());
}

/// The second step runs a function, whose effect is not known if it is cut.
const ASKS: &str = "
first:
  salt.state: [{tgt: m1}, {sls: [first]}]
second:
  salt.function: [{name: state.sls}, {tgt: m1}, {arg: [second]}, {require: [{salt: first}]}]
third:
  salt.state: [{tgt: m1}, {sls: [third]}, {require: [{salt: second}]}]
";

#[test]
fn a_step_that_must_not_be_repeated_waits_for_the_administrator_at_another_master() {
    let config = format!("{SECRET}cluster_voter_timeout: 2\n");
    let mut masters = Masters::with(3, &config);
    masters.minions(&[("m1", 2)]);
    let done = write(&masters, ASKS, 4);
    cut(&mut masters, &done);
    let told = "did not succeed";
    masters.soon("the new master asks", |masters| {
        masters.all.iter().any(|fleet| fleet.logs().contains(told))
    });
    masters.soon("the job of the step has ended", |_| {
        fs::read_to_string(&done)
            .unwrap_or_default()
            .lines()
            .count()
            == 2
    });
    let asks = masters
        .all
        .iter()
        .position(|fleet| fleet.logs().contains(told));
    let words = [
        "salt-run",
        "state.orchestrate",
        "orch",
        "resume=True",
        "skip=second",
    ];
    let resumed = masters.all[asks.unwrap()].run(&words);
    assert_eq!(resumed.rc, Some(0), "{}", resumed.out);
    assert_eq!(fs::read_to_string(&done).unwrap(), "first\nsecond\nthird\n");
}

#[test]
fn a_held_orchestration_is_resumed_by_the_administrator() {
    let config = format!("{SECRET}cluster_voter_timeout: 2\ncluster_orchestrate: hold\n");
    let mut masters = Masters::with(3, &config);
    masters.minions(&[("m1", 2)]);
    let done = write(&masters, SLS, 3);
    cut(&mut masters, &done);
    let told = "cluster_orchestrate is hold";
    masters.soon("the orchestration is held", |masters| {
        masters.all.iter().any(|fleet| fleet.logs().contains(told))
    });
    let held = masters
        .all
        .iter()
        .position(|fleet| fleet.logs().contains(told));
    let held = held.unwrap();
    masters.soon("the job of the step has ended", |_| {
        fs::read_to_string(&done)
            .unwrap_or_default()
            .lines()
            .count()
            == 2
    });
    let words = ["salt-run", "state.orchestrate", "orch", "resume=True"];
    let resumed = masters.all[held].run(&words);
    assert_eq!(resumed.rc, Some(0), "{}", resumed.out);
    let lines = fs::read_to_string(&done).unwrap();
    assert!(lines.ends_with("third\n"), "{lines}");
}
