//! Tests of runners, and of the data that `salt-call` sends to the master.

use std::fs;
use std::process::{Command, Stdio};

use tests::program::{Answer, in_recorded_environment};

use super::{Fleet, PROGRAM, Process};

impl Fleet {
    /// Runs `salt-call` on a minion's machine.
    pub(super) fn call(&self, id: &str, words: &[&str]) -> Answer {
        let output = in_recorded_environment(&mut Command::new(&*PROGRAM))
            .args(["salt-call", "-c"])
            .arg(self.path(id).join("etc"))
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let both = [output.stdout, output.stderr].concat();
        Answer {
            out: String::from_utf8_lossy(&both).into_owned(),
            rc: output.status.code(),
        }
    }

    fn jobs(&self) -> String {
        self.run(&["salt-run", "--out=json", "jobs.list_jobs"]).out
    }
}

#[test]
fn a_call_on_a_minion_is_a_job_of_its_master() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.start_minion("m1", "");
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
    let called = fleet.call("m1", &["test.arg", "told", "x=1"]);
    assert_eq!(called.rc, Some(0), "{}", called.out);
    fleet.soon("the master has the return", || {
        fleet.jobs().contains("test.arg")
    });
    fleet.call("m1", &["--local", "test.arg", "local"]);
    fleet.call("m1", &["--no-return-event", "test.arg", "hushed"]);
    fleet.call("m1", &["test.arg", "last"]);
    fleet.soon("the last return arrives", || fleet.jobs().contains("last"));
    let jobs = fleet.jobs();
    assert!(
        !jobs.contains("hushed") && !jobs.contains("\"local\""),
        "{jobs}"
    );
}

#[test]
fn a_call_reaches_the_master_without_a_daemon() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.write("pillar/top.sls", "base:\n  '*':\n    - web\n");
    fleet.write("pillar/web.sls", "port: 8080\n");
    fleet.write(
        "salt/web.sls",
        "site:\n  test.show_notification:\n    - text: port {{ pillar.port }}\ntold:\n  event.send:\n    - name: my/own\n",
    );
    fleet.start_minion("m1", "");
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
    fleet.kill_minion("m1");
    let applied = fleet.call("m1", &["state.apply", "web"]);
    assert!(applied.out.contains("port 8080"), "{}", applied.out);
    assert_eq!(applied.rc, Some(0), "{}", applied.out);
    // The data that a command sends has arrived when the command ends.
    assert!(fleet.jobs().contains("state.apply"), "{}", fleet.jobs());
    // The command is not a minion that could run a job.
    assert_ne!(fleet.run(&["salt", "m1", "test.ping"]).rc, Some(0));
}

#[test]
fn a_call_of_a_minion_that_is_not_accepted_says_so() {
    let mut fleet = Fleet::with("");
    fleet.start_minion("m1", "");
    fleet.soon("the key is offered", || {
        fleet.run(&["salt-key", "-l", "un"]).out.contains("m1")
    });
    fleet.kill_minion("m1");
    let called = fleet.call("m1", &["pillar.items"]);
    assert_ne!(called.rc, Some(0));
    let said = "has the minion key been accepted?";
    assert!(called.out.contains(said), "{}", called.out);
}

#[test]
fn a_call_says_why_the_daemon_is_not_connected() {
    let mut fleet = Fleet::with("");
    fleet.kill_master();
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    fleet.start_minion("m1", &format!("master: 127.0.0.1\nmaster_port: {port}\n"));
    let expected = format!("no answer from 127.0.0.1:{port} (UDP) within 10 s");
    fleet.soon("the minion logs it", || fleet.logs().contains(&expected));
    let called = fleet.call("m1", &["pillar.items"]);
    assert_ne!(called.rc, Some(0));
    let said = format!("this minion is not connected to a master: {expected}");
    assert!(
        called.out.contains(&said) || fleet.logs().contains(&said),
        "{}",
        called.out
    );
}

#[test]
fn files_come_to_the_master_where_it_takes_them() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.start_minion("m1", "");
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
    let file = fleet.path("m1/report");
    fs::write(&file, "x".repeat(300_000)).unwrap();
    let name = file.display().to_string();
    let refused = fleet.run(&["salt", "m1", "cp.push", &name]);
    assert!(refused.out.contains("file_recv is off"), "{}", refused.out);
    let kept = fleet.path("master/cache/minions/m1/files");
    assert!(!kept.exists());
    let etc = fleet.path("master/etc/master");
    let text = fs::read_to_string(&etc).unwrap();
    let on = "file_recv: True\nfile_recv_max_size: 1\n";
    fs::write(&etc, text + on).unwrap();
    fleet.kill_master();
    fleet.start_master();
    fleet.soon("the minion is back", || {
        fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
    let push = |words: &[&str]| fleet.run(&[&["salt", "m1", "cp.push", &name], words].concat());
    let pushed = push(&[]);
    assert_eq!(pushed.out, "m1:\n    True\n");
    let below = kept.join(name.trim_start_matches('/'));
    assert_eq!(fs::metadata(&below).unwrap().len(), 300_000);
    assert_eq!(push(&["upload_path=/reports/today"]).out, "m1:\n    True\n");
    assert!(kept.join("reports/today").is_file());
    // A11
    let crafted = push(&["upload_path=../../m2/files/x"]);
    assert!(crafted.out.contains("invalid path"), "{}", crafted.out);
    fs::write(&file, "x".repeat(1_100_000)).unwrap();
    let large = push(&["upload_path=/large"]);
    assert!(large.out.contains("file_recv_max_size"), "{}", large.out);
    assert!(!kept.join("large").exists());
    fs::write(&file, "called").unwrap();
    let called = fleet.call("m1", &["cp.push", &name, "upload_path=/called"]);
    assert_eq!(called.rc, Some(0), "{}", called.out);
    assert!(kept.join("called").is_file());
}

#[test]
fn minions_read_what_others_have_sent_until_their_keys_are_deleted() {
    let mut fleet =
        Fleet::with("auto_accept: True\nfile_recv: True\nfileserver_backend: [roots, minion]\n");
    for id in ["m1", "m2"] {
        fleet.start_minion(id, "");
    }
    fleet.soon("the minions answer", || {
        let out = fleet.run(&["salt", "*", "test.ping"]).out;
        out.matches("True").count() == 2
    });
    let file = fleet.path("report");
    fs::write(&file, "of m1").unwrap();
    let file = file.display().to_string();
    let pushed = fleet.run(&["salt", "m1", "cp.push", &file, "upload_path=/report"]);
    assert_eq!(pushed.out, "m1:\n    True\n");
    let read = || {
        let words = ["salt", "m2", "cp.get_file_str", "salt://m1/report"];
        fleet.run(&words).out
    };
    assert_eq!(read(), "m2:\n    of m1\n");
    let listed = fleet.run(&["salt-run", "fileserver.file_list", "backend=minionfs"]);
    assert_eq!(listed.out, "- m1/report\n");
    let deleted = fleet.run(&["salt-key", "-y", "-d", "m1"]);
    assert_eq!(deleted.rc, Some(0), "{}", deleted.out);
    let folder = fleet.path("master/cache/minions/m1");
    fleet.soon("the files are removed", || !folder.exists());
    assert_eq!(read(), "m2:\n    False\n");
}

#[test]
fn a_master_does_not_start_with_a_backend_that_it_does_not_have() {
    let mut fleet = Fleet::with("");
    fleet.kill_master();
    let etc = fleet.path("master/etc/master");
    let text = fs::read_to_string(&etc).unwrap();
    fs::write(&etc, text + "fileserver_backend: [roots, hgfs]\n").unwrap();
    assert_eq!(fleet.run(&["salt-master"]).rc, Some(1));
    let output = fs::read_to_string(fleet.path("master/output")).unwrap();
    let error = "The fileserver backend hgfs is not supported: gitfs, minionfs and roots are";
    assert!(output.contains(error), "{output}");
}

#[test]
fn an_interrupted_command_says_how_to_find_its_job() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.start_minion("m1", "");
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
    let etc = fleet.path("master/etc").display().to_string();
    let interrupted = |words: &[&str], begun: &dyn Fn() -> bool| {
        let log = fleet.path("interrupted");
        let _ = fs::remove_file(&log);
        let words = [&[words[0], "-c", &etc], &words[1..]].concat();
        let mut process = Process::start(&PROGRAM, &words, &log);
        fleet.soon("the command has begun", begun);
        let pid = process.0.id().to_string();
        let kill = Command::new("kill").args(["-INT", &pid]).status();
        assert!(kill.unwrap().success());
        let ended = process.0.wait().unwrap();
        (ended.code(), fs::read_to_string(&log).unwrap())
    };
    let sleeps = || {
        let text = fs::read_to_string(fleet.path("interrupted"));
        text.unwrap_or_default().contains("jid: ")
    };
    let words = ["salt", "--show-jid", "-t", "60", "m1", "test.sleep", "8"];
    let (code, said) = interrupted(&words, &sleeps);
    assert_eq!(code, Some(1), "{said}");
    let wanted = "\nExiting gracefully on Ctrl-c\nThis job's jid is: ";
    assert!(said.contains(wanted), "{said}");
    let (_, jid) = said.trim_end().rsplit_once(' ').unwrap();
    let found = fleet.run(&["salt-run", "jobs.list_job", jid]).out;
    assert!(found.contains("test.sleep"), "{found}");
}

/// Checks the JSON results of Salt's `survey`, `doc`, `sdb` and `error` runners. Salt also prints
/// the words of a survey before its result.
#[test]
fn runners_tell_minions_apart_and_what_there_is() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    let values = fleet.path("values");
    fs::write(&values, "a: {b: 5}\n").unwrap();
    // The master reads it when it starts.
    let file = fleet.path("master/etc/master");
    let text = fs::read_to_string(&file).unwrap();
    let profile = format!("vals: {{driver: yaml, files: [{}]}}\n", values.display());
    fs::write(&file, text + &profile).unwrap();
    fleet.kill_master();
    fleet.start_master();
    for (id, role) in [("m1", "web"), ("m2", "db"), ("m3", "web")] {
        fleet.start_minion(id, &format!("grains: {{role: {role}}}\n"));
    }
    let ran = |words: &[&str]| -> serde_json::Value {
        let words = [&["salt-run", "--out=json"], words].concat();
        let out = fleet.run(&words).out;
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("{words:?}: {out}"))
    };
    let survey = ["survey.hash", "*", "grains.get", "role"];
    let all = serde_json::json!([
        {"pool": ["m1", "m3"], "result": "web"},
        {"pool": ["m2"], "result": "db"},
    ]);
    fleet.soon("all answer", || ran(&survey) == all);
    let up = ran(&[&survey[..], &["survey_sort=up"]].concat());
    assert_eq!(up, serde_json::json!([all[1], all[0]]));
    let found = ran(&["survey.diff", "m1 or m2", "grains.get", "role"]);
    assert_eq!(found[1]["diff"], "--- m1\n+++ m2\n@@ -1 +1 @@\n-web\n+db\n");

    assert_eq!(ran(&["sdb.get", "sdb://vals/a:b"]), 5);
    assert_eq!(ran(&["sdb.get", "plain"]), "plain");
    assert_eq!(ran(&["sdb.set", "plain", "x"]), false);
    assert_eq!(ran(&["error.error"]), serde_json::json!({}));
    let failed = fleet.run(&[
        "salt-run",
        "error.error",
        "name=Exception",
        "message=on purpose",
    ]);
    assert_eq!(failed.rc, Some(1));
    assert!(failed.out.contains("on purpose"), "{}", failed.out);

    assert!(ran(&["doc.runner"])["survey.hash"].is_string());
    let wheel = |fun: &str| ran(&["state.orchestrate_single", "salt.wheel", fun]);
    let connected = wheel("minions.connected");
    assert!(
        connected.to_string().contains(r#"["m1","m2","m3"]"#),
        "{connected}"
    );
    assert!(ran(&["doc.wheel"])["key.accept"].is_string());
    assert!(ran(&["doc.execution"])["schedule.add"].is_string());
}

#[test]
fn a_master_that_is_hung_up_on_stays_and_says_what_it_does_not_obey_yet() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.start_minion("m1", "");
    let answers = || fleet.run(&["salt", "-t", "60", "m1", "test.ping"]).rc == Some(0);
    fleet.soon("the minion answers", answers);
    let file = fleet.path("master/etc/master");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        format!("{text}timeout: 77\nnodegroups: {{web: m1}}\n"),
    )
    .unwrap();
    let pid = fleet.master.as_ref().unwrap().0.id().to_string();
    hang_up(&pid);
    fleet.soon_logged("take effect when the master is restarted: nodegroups, timeout");
    fs::write(&file, "timeout: [").unwrap();
    hang_up(&pid);
    fleet.soon_logged("cannot use the configuration");
    fs::write(&file, text).unwrap();
    fleet.soon("the minion still answers", answers);
}

#[test]
fn a_minion_that_is_hung_up_on_says_what_it_does_not_obey_yet() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.start_minion("m1", "");
    let answers = || fleet.run(&["salt", "-t", "60", "m1", "test.ping"]).rc == Some(0);
    fleet.soon("the minion answers", answers);
    let pid = fleet.minions[0].1.0.id().to_string();
    let file = fleet.path("m1/etc/minion");
    let text = fs::read_to_string(&file).unwrap();
    let log = || fs::read_to_string(fleet.path("m1/log")).unwrap();
    let soon_logged = |text: &str| fleet.soon(text, || log().contains(text));
    fs::write(&file, "beacons: [").unwrap();
    hang_up(&pid);
    soon_logged("cannot reload the configuration");
    let is_obeyed = "schedule: {}\nbeacons: {}\n";
    let more = format!("{text}{is_obeyed}startup_states: highstate\nuser: nobody\n");
    fs::write(&file, more).unwrap();
    hang_up(&pid);
    soon_logged("these options have changed: startup_states, user. New jobs use them");
    fs::write(&file, format!("{text}{is_obeyed}test: True\n")).unwrap();
    hang_up(&pid);
    soon_logged("these options have changed: test. New jobs use them");
    // A job uses the current configuration, as the log says.
    let asked = fleet.run(&["salt", "-t", "60", "m1", "config.get", "test"]);
    assert_eq!(asked.out, "m1:\n    True\n");
}

fn hang_up(pid: &str) {
    let sent = Command::new("kill").args(["-HUP", pid]).status().unwrap();
    assert!(sent.success());
}
