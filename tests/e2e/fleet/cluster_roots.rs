//! `cluster.sync_roots`: masters of a cluster send each other their roots.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::Fleet;
use super::cluster::{Masters, SECRET, voters};

fn path(fleet: &Fleet, below: &str) -> PathBuf {
    fleet.path("master/srv").join(below)
}

fn read(fleet: &Fleet, below: &str) -> String {
    fs::read_to_string(path(fleet, below)).unwrap_or_default()
}

/// Runs `cluster.sync_roots` on a master. Returns the exit status and the answer.
fn sync(fleet: &Fleet, words: &[&str]) -> (Option<i32>, Value) {
    let mut all = vec!["salt-run", "--out=json", "cluster.sync_roots"];
    all.extend(words);
    let answer = fleet.run(&all);
    let value = serde_json::from_str(&answer.out);
    (answer.rc, value.unwrap_or(Value::String(answer.out)))
}

/// Starts masters without any file, and waits until those that have joined have asked for some.
fn empty_masters(count: usize) -> Masters {
    let masters = Masters::with(count, SECRET);
    masters.soon("the masters without files have asked for some", |masters| {
        let all = masters.all.iter();
        let asked = all.filter(|fleet| {
            let logs = fleet.logs();
            logs.contains("state-sync pillar_roots from") && logs.contains("sends its own")
        });
        asked.count() == count - 1
    });
    masters
}

fn counts(installed: u64, unchanged: u64, deleted: u64) -> Value {
    json!({"installed": installed, "unchanged": unchanged, "deleted": deleted})
}

#[test]
fn a_master_sends_its_files_and_pillar_to_the_others() {
    let masters = empty_masters(3);
    let [first, second, third] = [0, 1, 2].map(|at| &masters.all[at]);
    let large = "0123456789abcdef".repeat(200_000);
    first.write("salt/top.sls", "base: {'*': [web]}\n");
    first.write("salt/web/init.sls", "made: {test.nop: []}\n");
    first.write("salt/web/files/large", &large);
    first.write("pillar/top.sls", "base: {'*': [secret]}\n");
    let script = path(first, "salt/web/init.sls");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o4750)).unwrap();
    let (rc, answer) = sync(first, &[]);
    assert_eq!(rc, Some(0), "{answer}");
    assert_eq!(answer["status"], "fan-out initiated");
    assert_eq!(answer["channels"], json!(["file_roots", "pillar_roots"]));
    assert_eq!(answer["cluster_id"], "prod");
    let note = answer["note"].as_str().unwrap();
    assert!(note.contains("state-sync ... installed N items"), "{note}");
    let all = json!({masters.name(2): counts(4, 0, 0), masters.name(3): counts(4, 0, 0)});
    assert_eq!(answer["peers"], all);
    for fleet in [second, third] {
        assert_eq!(read(fleet, "salt/web/files/large"), large);
        assert_eq!(read(fleet, "pillar/top.sls"), read(first, "pillar/top.sls"));
        let found = path(fleet, "salt/web/init.sls").metadata().unwrap();
        assert_eq!(found.permissions().mode() & 0o7777, 0o750);
        let name = masters.name(1);
        for (channel, count) in [("file_roots", 3), ("pillar_roots", 1)] {
            let line = format!("state-sync {channel} from {name} installed {count} items");
            assert!(fleet.logs().contains(&line), "{}", fleet.logs());
        }
    }
    // The second time there is nothing to do, also in the other direction.
    for fleet in [first, third] {
        let (rc, answer) = sync(fleet, &["roots=both"]);
        assert_eq!(rc, Some(0), "{answer}");
        let peers = answer["peers"].as_object().unwrap();
        assert!(
            peers.values().all(|peer| *peer == counts(0, 4, 0)),
            "{answer}"
        );
    }
    first.write("salt/top.sls", "base: {}\n");
    first.write("pillar/top.sls", "base: {}\n");
    let (_, answer) = sync(first, &["roots=pillar"]);
    assert_eq!(answer["channels"], json!(["pillar_roots"]));
    assert_eq!(answer["peers"][masters.name(2)], counts(1, 0, 0));
    assert_eq!(read(second, "pillar/top.sls"), "base: {}\n");
    assert_ne!(read(second, "salt/top.sls"), "base: {}\n");
    let tag = "cluster/runner/sync_roots";
    let words = ["salt-run", "state.event", tag, "since=1h", "until=now"];
    let events = second.run(&words).out;
    assert_eq!(events.matches(tag).count(), 4, "{events}");
    assert!(
        events.contains(r#""channels": ["pillar_roots"]"#),
        "{events}"
    );
    let (rc, answer) = sync(first, &["roots=x"]);
    assert_eq!(rc, Some(1));
    let text = "roots must be 'file', 'pillar', or 'both', got 'x'";
    assert!(answer.to_string().contains(text), "{answer}");
}

/// Attack: a link in the roots of a master, through which another master would write elsewhere.
#[test]
fn links_of_the_receiver_are_refused_and_surplus_files_are_removed_on_request() {
    let masters = empty_masters(2);
    let [first, second] = [0, 1].map(|at| &masters.all[at]);
    let victim = second.path("victim");
    fs::write(&victim, "victim").unwrap();
    first.write("salt/top.sls", "base: {}\n");
    first.write("salt/link", "from the first master");
    second.write("salt/old/x.sls", "x");
    symlink(&victim, path(second, "salt/link")).unwrap();
    let name = masters.name(2);
    let (rc, answer) = sync(first, &["file", "delete=True"]);
    assert_eq!(rc, Some(1), "{answer}");
    let peer = &answer["peers"][&name];
    let error = peer["error"].as_str().unwrap();
    assert!(error.contains("file_roots base: link: "), "{error}");
    assert!(
        error.contains("is a symbolic link, which is not replaced"),
        "{error}"
    );
    assert!(error.contains("no file was removed"), "{error}");
    assert_eq!(
        (&peer["installed"], &peer["deleted"]),
        (&json!(1), &json!(0))
    );
    assert!(path(second, "salt/link").is_symlink());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "victim");
    assert_eq!(read(second, "salt/old/x.sls"), "x");
    // Without the link all is sent, and without `delete` the other file stays.
    fs::remove_file(path(second, "salt/link")).unwrap();
    let (rc, answer) = sync(first, &["file"]);
    assert_eq!((rc, &answer["peers"][&name]), (Some(0), &counts(1, 1, 0)));
    assert_eq!(read(second, "salt/old/x.sls"), "x");
    let (rc, answer) = sync(first, &["file", "delete=True"]);
    assert_eq!((rc, &answer["peers"][&name]), (Some(0), &counts(0, 2, 1)));
    assert!(!path(second, "salt/old").exists());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "victim");
    // A link of the sender that leads out of its roots is not sent.
    let secret = first.path("secret");
    fs::write(&secret, "secret").unwrap();
    symlink(&secret, path(first, "salt/outward")).unwrap();
    first.write("pillar/top.sls", "base: {}\n");
    symlink(&secret, path(first, "pillar/outward")).unwrap();
    let (rc, answer) = sync(first, &[]);
    assert_eq!(rc, Some(1), "{answer}");
    let error = answer["peers"][&name]["error"].as_str().unwrap();
    assert!(
        error.contains("pillar/outward links to a place outside"),
        "{error}"
    );
    for below in ["salt/outward", "pillar/outward"] {
        assert!(!path(second, below).exists(), "{below}");
    }
}

#[test]
fn a_master_that_joins_without_files_gets_those_of_the_leader_and_one_with_files_keeps_its_own() {
    let mut masters = Masters::with(1, SECRET);
    masters.all[0].write("salt/top.sls", "base: {}\n");
    masters.all[0].write("pillar/a/b.sls", "a: 1\n");
    for number in [2, 3] {
        masters.prepare(number, 1, SECRET);
    }
    masters.all[2].write("salt/own.sls", "own");
    for number in [2, 3] {
        masters.all[number - 1].start_master();
    }
    masters.soon(
        "the master without files has those of the leader",
        |masters| {
            read(&masters.all[1], "salt/top.sls") == "base: {}\n"
                && read(&masters.all[1], "pillar/a/b.sls") == "a: 1\n"
        },
    );
    masters.soon("all have a vote", |masters| {
        voters(&masters.all[0]).len() == 3
    });
    assert_eq!(read(&masters.all[2], "salt/own.sls"), "own");
    assert!(!path(&masters.all[2], "salt/top.sls").exists());
    assert!(!masters.all[2].logs().contains("sends its own"));
    // A master that is down is named, and the others get the files.
    masters.all[2].kill_master();
    masters.all[0].write("salt/new.sls", "new");
    let (rc, answer) = sync(&masters.all[0], &["file"]);
    assert_eq!(rc, Some(1), "{answer}");
    assert_eq!(answer["peers"][masters.name(2)], counts(1, 1, 0));
    let error = answer["peers"][masters.name(3)]["error"].as_str().unwrap();
    assert!(error.contains("the master at"), "{error}");
}
