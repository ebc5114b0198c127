//! `salt --batch SIZE --async`: batches that the master runs without a command, and the runner `batch`.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use tests::scratch::corpus;

use super::Fleet;
use super::cluster::{Masters, SECRET};

/// The fields whose values differ from run to run. `tgt` of a recorded batch is all minions.
const VOLATILE: [&str; 6] = [
    "jid",
    "_stamp",
    "created",
    "last_progress",
    "duration",
    "age_seconds",
];

fn recorded<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let text = fs::read_to_string(corpus().join("batch").join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Starts a batch, and returns its job id.
fn start(fleet: &Fleet, words: &[&str]) -> String {
    let mut line = vec!["salt", "--async"];
    line.extend(words);
    let answer = fleet.run(&line);
    let jid = answer
        .out
        .strip_prefix("Executed batch command with job ID: ");
    assert_eq!(answer.rc, Some(0));
    jid.unwrap_or_else(|| panic!("{}{}", answer.out, fleet.logs()))
        .trim()
        .to_owned()
}

fn runner(fleet: &Fleet, words: &[&str]) -> Value {
    let mut line = vec!["salt-run", "--out=json"];
    line.extend(words);
    let answer = fleet.run(&line);
    serde_json::from_str(&answer.out).unwrap_or_else(|error| panic!("{error}: {}", answer.out))
}

fn status(fleet: &Fleet, jid: &str) -> Value {
    runner(fleet, &["batch.status", jid])
}

fn is_active(fleet: &Fleet, jid: &str) -> bool {
    let active = runner(fleet, &["batch.list_active"]);
    active
        .as_array()
        .unwrap()
        .iter()
        .any(|batch| batch["jid"] == jid)
}

/// Removes what differs from run to run, and checks that it is there.
fn settled(data: &Value) -> Value {
    let mut data = data.clone();
    for (name, value) in data.as_object_mut().unwrap() {
        if VOLATILE.contains(&name.as_str()) {
            assert!(!value.is_null(), "{name}");
            *value = Value::Null;
        }
    }
    data
}

/// Returns the events of batches, without the list of minions that Salt does not have.
fn events(fleet: &Fleet) -> Vec<(String, Value)> {
    let heard = fleet.heard().into_iter();
    let events = heard.filter_map(|(tag, data)| {
        let what = tag.strip_prefix("salt/batch/JID/")?.to_owned();
        let mut data = data;
        data.as_object_mut()?.remove("minions");
        Some((what, data))
    });
    events.collect()
}

/// Compares the events of the one batch of a fleet with recorded ones.
fn compare(fleet: &Fleet, name: &str) {
    let all: BTreeMap<String, Vec<(String, Value)>> = recorded("events.json");
    let want = &all[name];
    fleet.soon("the last event", || events(fleet).len() >= want.len());
    let settled = |(what, data): (String, Value)| (what, settled(&data));
    let ours: Vec<_> = events(fleet).into_iter().map(settled).collect();
    assert_eq!(&ours, want);
}

#[test]
fn a_batch_runs_without_its_command_with_salts_events_and_summary() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["a", "b"]);
    let listener = fleet.listen();
    let jid = start(&fleet, &["-b", "1", "*", "test.sleep", "4"]);
    let summaries: Vec<Value> = recorded("summaries.json");
    let active = runner(&fleet, &["batch.list_active"]);
    assert_eq!(settled(&active[0]), summaries[0]);
    fleet.soon("the batch ends", || !is_active(&fleet, &jid));
    compare(&fleet, "plain");
    let ended = status(&fleet, &jid);
    assert_eq!(
        (&ended["completed"], &ended["halted"]),
        (&json!(2), &json!(false))
    );
    // All parts are one job.
    let returns = runner(&fleet, &["jobs.lookup_jid", &jid]);
    assert_eq!(returns, json!({"a": true, "b": true}));
    drop(listener);
}

#[test]
fn a_failure_ends_the_batch_with_failhard_and_only_then() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["a", "b"]);
    let listener = fleet.listen();
    let jid = start(
        &fleet,
        &["-b", "50%", "--failhard", "*", "cmd.run", "exit 3"],
    );
    fleet.soon("the batch ends", || !is_active(&fleet, &jid));
    let ours: Vec<_> = events(&fleet)
        .iter()
        .map(|(what, _)| what.clone())
        .collect();
    assert_eq!(ours, ["new", "progress", "halted"]);
    let (_, halted) = events(&fleet).pop().unwrap();
    let all: BTreeMap<String, Vec<(String, Value)>> = recorded("events.json");
    // Salt does not define the order of the two minions.
    let mut want = all["failhard"].last().unwrap().1.clone();
    want["abandoned_pending"] = halted["abandoned_pending"].clone();
    assert_eq!(settled(&halted), want);
    assert_eq!(halted["abandoned_pending"].as_array().unwrap().len(), 1);
    let jid = start(&fleet, &["-b", "1", "*", "cmd.run", "exit 3"]);
    fleet.soon("the batch ends", || !is_active(&fleet, &jid));
    assert_eq!(status(&fleet, &jid)["completed"], 2);
    drop(listener);
}

#[test]
fn a_batch_is_stopped_and_its_running_jobs_are_killed_if_asked() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["a", "b"]);
    let listener = fleet.listen();
    let jid = start(&fleet, &["-b", "1", "*", "test.sleep", "20"]);
    let summaries: Vec<Value> = recorded("summaries.json");
    assert_eq!(settled(&status(&fleet, &jid)), summaries[1]);
    assert_eq!(
        runner(&fleet, &["batch.stop", &jid, "kill=True"]),
        json!(true)
    );
    fleet.soon("the batch ends", || !is_active(&fleet, &jid));
    compare(&fleet, "stopped");
    assert_eq!(settled(&status(&fleet, &jid)), summaries[2]);
    assert_eq!(runner(&fleet, &["batch.stop", &jid]), json!(false));
    for unknown in ["20200101000000000000", "x/y", "../../etc/passwd"] {
        assert_eq!(status(&fleet, unknown), Value::Null);
        assert_eq!(runner(&fleet, &["batch.stop", unknown]), json!(false));
    }
    fleet.soon("the job is killed", || {
        let running = fleet.run(&["salt", "--out=json", "--static", "*", "saltutil.running"]);
        !running.out.contains(&jid)
    });
    drop(listener);
}

#[test]
fn a_target_or_a_size_that_is_wrong_starts_nothing() {
    let mut fleet = Fleet::with("timeout: 1\ngather_job_timeout: 1\n");
    fleet.accepted(&["a", "b"]);
    let answer = fleet.run(&["salt", "--async", "-b", "1", "nomatch", "test.ping"]);
    let want = "No minions matched the target. No command was sent, no jid was assigned.\nNo minions matched the target.\n";
    assert_eq!((answer.out.as_str(), answer.rc), (want, Some(0)));
    assert_eq!(
        fleet
            .run(&["salt", "--async", "-b", "x", "*", "test.ping"])
            .rc,
        Some(1)
    );
    fleet.kill_minion("b");
    fleet.soon("the master notices the loss", || {
        let answer = fleet.run(&["salt", "--async", "-b", "1", "*", "test.ping"]);
        answer
            .out
            .starts_with("Minion b did not respond. No job will be sent.\nExecuted batch")
    });
    let answer = fleet.run(&["salt", "--async", "-b", "1", "b", "test.ping"]);
    assert!(
        answer.out.ends_with("No minions matched the target.\n"),
        "{}",
        answer.out
    );
}

#[test]
fn an_interrupted_batch_names_the_minions_that_it_has_not_reached() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["a", "b", "c"]);
    let jid = start(&fleet, &["-b", "1", "*", "test.sleep", "2"]);
    fleet.soon("the first minion has returned", || {
        status(&fleet, &jid)["completed"] == 1
    });
    fleet.kill_master();
    fleet.start_master();
    assert!(!is_active(&fleet, &jid));
    let ended = status(&fleet, &jid);
    assert_eq!(
        (
            &ended["halted"],
            &ended["halted_reason"],
            &ended["pending"],
            &ended["total"]
        ),
        (&json!(true), &json!("interrupted"), &json!(1), &json!(3)),
        "{ended}"
    );
    let logs = fleet.logs();
    assert!(
        logs.contains(&format!("The batch {jid} (test.sleep) was interrupted")),
        "{logs}"
    );
    assert!(
        logs.contains("1 minions have not received the job: c"),
        "{logs}"
    );
    // Another start does not report it again.
    fleet.kill_master();
    fleet.start_master();
    assert_eq!(
        fleet.logs().matches("was interrupted").count(),
        logs.matches("was interrupted").count()
    );
}

#[test]
fn users_start_batches_by_the_acl_only() {
    if !tests::skip::is_root() {
        return eprintln!("passed over: only root can be another user");
    }
    let mut fleet = Fleet::with("publisher_acl:\n  nobody:\n    - a:\n      - test.*\n");
    fleet.accepted(&["a", "b"]);
    let by = |words: &[&str]| fleet.run_as_nobody(words);
    let refused = ("Authorization error occurred.\n".to_owned(), Some(2));
    for (target, fun) in [("*", "test.ping"), ("b", "test.ping"), ("a", "cmd.run")] {
        let answer = by(&["salt", "--async", "-b", "1", target, fun, "id"]);
        assert_eq!((answer.out, answer.rc), refused);
    }
    let answer = by(&["salt", "--async", "-b", "1", "a", "test.sleep", "1"]);
    assert!(
        answer.out.starts_with("Executed batch command"),
        "{}",
        answer.out
    );
    let jid = answer.out.rsplit(' ').next().unwrap().trim().to_owned();
    fleet.soon("the batch ends", || !is_active(&fleet, &jid));
    assert_eq!(status(&fleet, &jid)["user"], "nobody");
    // A minion cannot stop a batch, or report its end.
    let jid = start(&fleet, &["-b", "1", "*", "test.sleep", "3"]);
    for what in ["stop", "halted"] {
        let tag = format!("salt/batch/{jid}/{what}");
        fleet.run(&["salt", "a", "event.send", &tag]);
    }
    fleet.soon("the batch ends", || !is_active(&fleet, &jid));
    assert_eq!(status(&fleet, &jid)["completed"], 2);
}

#[test]
fn another_master_of_the_cluster_reports_and_stops_batches() {
    let mut masters = Masters::with(3, &format!("{SECRET}cluster_voter_timeout: 3\n"));
    masters.minions(&[("m1", 2), ("m2", 2), ("m3", 3)]);
    let stopped = start(&masters.all[0], &["-b", "1", "*", "test.sleep", "8"]);
    masters.soon("another master knows the batch", |masters| {
        is_active(&masters.all[2], &stopped)
    });
    assert_eq!(
        runner(&masters.all[1], &["batch.stop", &stopped]),
        json!(true)
    );
    masters.soon("the batch ends", |masters| {
        !is_active(&masters.all[2], &stopped)
    });
    assert_eq!(status(&masters.all[2], &stopped)["halted_reason"], "stop");
    let jid = start(&masters.all[0], &["-b", "1", "*", "test.sleep", "15"]);
    masters.all[0].kill_master();
    masters.soon("the leader reports the batch", |masters| {
        status(&masters.all[1], &jid)["halted_reason"] == "interrupted"
    });
    assert_eq!(status(&masters.all[2], &jid)["pending"], 2);
    let logs = masters.all[1].logs() + &masters.all[2].logs();
    assert!(
        logs.contains("2 minions have not received the job: m2,m3"),
        "{logs}"
    );
}
