//! Runners, and what `salt-call` tells the master.

use std::process::{Command, Stdio};

use tests::program::{Answer, in_recorded_environment};

use super::{Fleet, PROGRAMS};

impl Fleet {
    /// Runs `salt-call` on a minion's machine.
    pub(super) fn call(&self, id: &str, words: &[&str]) -> Answer {
        let output = in_recorded_environment(&mut Command::new(&PROGRAMS.1))
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
    fleet.soon("it answers", || {
        fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
    let called = fleet.call("m1", &["test.arg", "told", "x=1"]);
    assert_eq!(called.rc, Some(0), "{}", called.out);
    fleet.soon("the master has its return", || {
        fleet.jobs().contains("test.arg")
    });
    fleet.call("m1", &["--local", "test.arg", "local"]);
    fleet.call("m1", &["--no-return-event", "test.arg", "hushed"]);
    fleet.call("m1", &["test.arg", "last"]);
    fleet.soon("the last one is there", || fleet.jobs().contains("last"));
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
    fleet.soon("it answers", || {
        fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
    fleet.kill_minion("m1");
    let applied = fleet.call("m1", &["state.apply", "web"]);
    assert!(applied.out.contains("port 8080"), "{}", applied.out);
    assert_eq!(applied.rc, Some(0), "{}", applied.out);
    // What a command has told is there when it ends.
    assert!(fleet.jobs().contains("state.apply"), "{}", fleet.jobs());
    // It is no minion that could do a job.
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
