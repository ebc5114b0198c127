//! Tests of minions that react to the events of their own machine, without a master and while their
//! master is away.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tests::program::in_recorded_environment;

use super::{Fleet, PROGRAM, Turn};

/// A minion `m1` without a master.
struct Edge(Fleet);

impl Edge {
    /// Starts it with these lines in its configuration (`{here}` is its folder) and these SLS files
    /// below `srv`.
    fn with(config: &str, files: &[(&str, &str)]) -> Self {
        let edge = Self(Fleet::prepared("", Turn::shared()));
        for (name, text) in files {
            edge.write(name, text);
        }
        let config = edge.filled(config);
        let roots = edge.path("srv").display().to_string();
        let config = format!(
            "master_type: disable\nfile_client: local\nfile_roots: {{base: [{roots}]}}\n{config}"
        );
        let mut edge = edge;
        edge.0.start_minion("m1", &config);
        edge.hears();
        edge
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path("m1").join(below)
    }

    fn filled(&self, text: &str) -> String {
        text.replace("{here}", &self.0.path("m1").display().to_string())
    }

    fn write(&self, below: &str, text: &str) {
        let path = self.path("srv").join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.filled(text)).unwrap();
    }

    /// Waits until the reactor listens.
    fn hears(&self) {
        hears(&self.0);
    }

    fn fire(&self, tag: &str, data: &str) {
        let fired = self.0.call("m1", &["--local", "event.fire", data, tag]);
        assert_eq!(fired.rc, Some(0), "{}", fired.out);
    }

    fn text(&self, below: &str) -> String {
        fs::read_to_string(self.path(below)).unwrap_or_default()
    }

    fn is(&self, below: &str, expected: &str) {
        self.0.soon(&format!("{below} is {expected:?}"), || {
            self.text(below) == expected
        });
    }

    /// Calls a function of the reactor and returns its result.
    fn call(&self, words: &[&str]) -> Value {
        let output = in_recorded_environment(&mut Command::new(&*PROGRAM))
            .args(["salt-call", "--local", "--out=json", "-c"])
            .arg(self.path("etc"))
            .args(words)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let answer: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        answer["local"].clone()
    }

    /// Returns the final states of a rule's reactions, the newest first.
    fn states(&self, rule: &str) -> Vec<String> {
        let found = self.call(&["reactor.history", &format!("rule={rule}")]);
        let found = found.as_array().unwrap().iter();
        found
            .map(|one| one["state"].as_str().unwrap().to_owned())
            .collect()
    }

    fn ended(&self, rule: &str, states: &[&str]) {
        self.0.soon(&format!("{rule} ended {states:?}"), || {
            self.states(rule) == states
        });
    }
}

fn hears(fleet: &Fleet) {
    fleet.soon("the reactor listens", || {
        let bus = fs::read_dir(fleet.path("m1/run/bus")).into_iter().flatten();
        bus.flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("reactor."))
    });
}

#[test]
fn a_file_that_somebody_spoils_is_restored() {
    let config = "reactor:\n  - 'salt/beacon/m1/inotify/*': ['salt://heal.sls']\nbeacons:\n  inotify:\n    - files:\n        {here}/kept:\n          mask: [close_write, delete]\n";
    let edge = Edge::with(
        config,
        &[
            ("../kept/motd", "as it should be\n"),
            (
                "heal.sls",
                "restore:\n  local.state.apply:\n    - tgt: {{ data['id'] }}\n    - arg: [kept]\n",
            ),
            (
                "kept.sls",
                "{here}/kept/motd:\n  file.managed:\n    - contents: as it should be\n",
            ),
        ],
    );
    let motd = edge.path("kept/motd");
    let looks = Cell::new(0);
    // The beacon does not see a change made before it begins to watch, so the change is repeated
    // now and then.
    edge.0.soon("the file is restored", || {
        if looks.replace(looks.get() + 1) % 100 == 0 {
            fs::write(&motd, "spoilt").unwrap();
            return false;
        }
        edge.text("kept/motd") == "as it should be\n"
    });
    fs::remove_file(&motd).unwrap();
    edge.is("kept/motd", "as it should be\n");
    let states = edge.states("salt/beacon/m1/inotify/*");
    assert!(states.iter().any(|state| state == "done"), "{states:?}");
}

const CHUNKS: &str = "
second:
  caller.cmd.run:
    - args:
      - cmd: echo second {{ data['n'] }} >> {here}/done
      - python_shell: True
    - require:
      - caller: first
first:
  caller.cmd.run:
    - arg: ['echo first >> {here}/done']
    - kwarg: {python_shell: True}
fails:
  caller.cmd.run:
    - args: {cmd: exit 3, python_shell: True}
never:
  caller.cmd.run:
    - args: {cmd: 'echo never >> {here}/done', python_shell: True}
    - require:
      - caller: fails
orchestration:
  runner.state.orchestrate:
    - args:
      - mods: orch
    - require:
      - caller: second
";

#[test]
fn chunks_run_in_their_order_and_what_goes_wrong_is_told() {
    let config = "reactor:\n  - 'my/chunks': {here}/srv/chunks.sls\n  - 'my/broken': ['salt://broken.sls']\n  - 'my/wheel': ['salt://wheel.sls']\n  - 'my/other': ['salt://other.sls']\n  - 'salt/reactor/error': ['salt://told.sls']\n  - 'salt/minion/*/start': ['salt://start.sls']\nengines:\n  - reactor:\n      worker_threads: 2\n";
    let echo = |text: &str| {
        format!(
            "say:\n  caller.cmd.run:\n    - args:\n      - cmd: echo {text} >> {{here}}/told\n      - python_shell: True\n"
        )
    };
    let edge = Edge::with(
        config,
        &[
            ("chunks.sls", CHUNKS),
            ("broken.sls", "x: {{ nothing.there }}\n"),
            (
                "wheel.sls",
                "x:\n  wheel.key.accept:\n    - args: [{match: m2}]\n",
            ),
            ("other.sls", "x:\n  local.test.ping:\n    - tgt: m2\n"),
            ("orch.sls", "{here}/orchestrated:\n  file.touch\n"),
            ("told.sls", &echo("{{ data['rule'] }} {{ data['state'] }}")),
            ("start.sls", &echo("{{ data['id'] }} began")),
        ],
    );
    edge.is("told", "m1 began\n");
    edge.fire("my/chunks", "{n: 7}");
    edge.is("told", "m1 began\nmy/chunks failed\n");
    assert_eq!(edge.text("done"), "first\nsecond 7\n");
    assert!(edge.path("orchestrated").exists());
    let failed = |rule: &str| {
        edge.ended(rule, &["failed"]);
        edge.call(&["reactor.failed"]).to_string()
    };
    let found = failed("my/chunks");
    assert!(
        found.contains("One or more requisite failed: fails"),
        "{found}"
    );
    edge.fire("my/broken", "{}");
    edge.is("told", "m1 began\nmy/chunks failed\nmy/broken failed\n");
    let found = failed("my/broken");
    assert!(found.contains("Failed to render"), "{found}");
    edge.fire("my/wheel", "{}");
    edge.0.soon("the failure of my/wheel is reported", || {
        edge.text("told").contains("my/wheel")
    });
    let found = failed("my/wheel");
    let sentence = "failed to execute wheel 'key.accept': wheel functions run only on a master";
    assert!(found.contains(sentence), "{found}");
    edge.fire("my/other", "{}");
    let found = failed("my/other");
    assert!(
        found.contains("the target m2 does not match this minion"),
        "{found}"
    );
    let log = edge.text("log");
    assert!(
        log.contains("The rule my/broken failed for the event my/broken"),
        "{log}"
    );
}

#[test]
fn rules_are_tried_observed_and_explained() {
    let edge = Edge::with(
        "reactor: {here}/srv/rules.conf\n",
        &[
            ("rules.conf", "- 'my/*':\n  - salt://say.sls\n"),
            (
                "say.sls",
                "say:\n  caller.file.touch:\n    - args: ['{here}/{{ data.name }}']\n",
            ),
        ],
    );
    let listed = edge.call(&["reactor.list"]);
    assert_eq!(listed, serde_json::json!([{"my/*": ["salt://say.sls"]}]));
    let event = r#"{"tag": "my/event", "data": {"name": "made"}}"#;
    let tried = edge.call(&["reactor.test", "my/*", &format!("event={event}")]);
    let made = edge.path("made").display().to_string();
    let call = serde_json::json!({"type": "caller", "fun": "file.touch", "arg": [made]});
    assert_eq!(tried["calls"], serde_json::json!([call]), "{tried}");
    assert_eq!(tried["matches"], true);
    // Nor while reactions are only observed.
    assert_eq!(edge.call(&["reactor.enforce", "False"]), false);
    edge.fire("my/event", "{name: made}");
    edge.ended("my/*", &["observed"]);
    assert_eq!(edge.call(&["reactor.enforce", "True"]), true);
    edge.fire("my/event", "{name: last}");
    edge.ended("my/*", &["done", "observed"]);
    assert!(edge.path("last").exists() && !edge.path("made").exists());
    let explained = edge.call(&["reactor.explain", "my/event"]);
    assert_eq!(explained["rules"]["my/*"]["state"], "done", "{explained}");
    let unknown = edge.call(&["reactor.explain", "my/other"]);
    assert_eq!(unknown["rules"], listed, "{unknown}");
    // A failure is kept until a user clears it.
    edge.fire("my/event", "{}");
    edge.ended("my/*", &["failed", "done", "observed"]);
    let failed = edge.call(&["reactor.failed"]);
    assert!(failed[0]["errors"].to_string().contains("name"), "{failed}");
    assert_eq!(
        edge.call(&["reactor.failed", "clear=True"]),
        serde_json::json!([])
    );
    edge.ended("my/*", &["done", "observed"]);
}

#[test]
fn a_loop_is_stopped() {
    let edge = Edge::with(
        "reactor_loop_max: 3\nreactor:\n  - 'my/loop': ['salt://loop.sls']\n  - 'salt/reactor/error': ['salt://told.sls']\n",
        &[
            (
                "loop.sls",
                "a_note:\n  caller.cmd.run:\n    - args: {cmd: 'echo round >> {here}/rounds', python_shell: True}\nb_again:\n  caller.event.fire:\n    - args: [{x: 1}, my/loop]\n",
            ),
            (
                "told.sls",
                "say:\n  caller.cmd.run:\n    - args: {cmd: 'echo {{ data.state }} >> {here}/told', python_shell: True}\n",
            ),
        ],
    );
    edge.fire("my/loop", "{}");
    edge.is("told", "stopped\n");
    assert_eq!(edge.text("rounds"), "round\n".repeat(4));
    edge.ended("my/loop", &["stopped", "done", "done", "done", "done"]);
}

const SLOW: &str = "
slow:
  caller.cmd.run:
    - args:
        cmd: |
          echo $$ $PPID > {here}/began
          while ! test -e {here}/go; do sleep 0.05; done
          echo {{ data.n }} >> {here}/done
        python_shell: True
";

impl Edge {
    /// Kills the minion while it answers an event, and starts it again.
    fn kill(&mut self, also_its_job: bool) {
        self.0
            .soon("the reaction began", || self.text("began").ends_with('\n'));
        self.0.kill_minion("m1");
        if also_its_job {
            let pids = self.text("began");
            let killed = Command::new("kill")
                .arg("-9")
                .args(pids.split_whitespace())
                .status();
            assert!(killed.unwrap().success());
            fs::remove_file(self.path("began")).unwrap();
        }
        fs::remove_dir_all(self.path("run/bus")).unwrap();
        self.0.start_minion_again("m1");
        self.hears();
    }
}

/// Fires three events, and kills and restarts the minion while it answers the first one.
fn killed(also_its_job: bool) -> Edge {
    let config = "reactor:\n  - 'my/slow': ['salt://slow.sls']\n";
    let mut edge = Edge::with(config, &[("slow.sls", SLOW)]);
    for n in 1..=3 {
        edge.fire("my/slow", &format!("{{n: {n}}}"));
        edge.0.soon("the event is on disk", || {
            let kept = fs::read_dir(edge.path("cache/reactor")).into_iter();
            let kept = kept.flatten().flatten().map(|entry| entry.file_name());
            kept.filter(|name| !name.to_string_lossy().ends_with(".new"))
                .count()
                == n
        });
    }
    edge.kill(also_its_job);
    edge
}

#[test]
fn what_was_begun_before_the_minion_was_killed_is_done_after_it() {
    let edge = killed(true);
    fs::write(edge.path("go"), "").unwrap();
    edge.is("done", "1\n2\n3\n");
    edge.ended("my/slow", &["done"; 3]);
}

#[test]
fn what_ends_the_minion_again_and_again_is_given_up() {
    let mut edge = killed(true);
    edge.kill(true);
    edge.kill(true);
    fs::write(edge.path("go"), "").unwrap();
    edge.is("done", "2\n3\n");
    edge.ended("my/slow", &["done", "done", "unknown"]);
    let failed = edge.call(&["reactor.failed"]).to_string();
    assert!(failed.contains("cmd.run was started 3 times"), "{failed}");
}

#[test]
fn a_job_that_outlived_its_daemon_is_not_done_twice() {
    let edge = killed(false);
    // The daemon is back before the job ends.
    edge.fire("my/slow", "{n: 4}");
    fs::write(edge.path("go"), "").unwrap();
    edge.ended("my/slow", &["done"; 4]);
    assert_eq!(edge.text("done"), "1\n2\n3\n4\n");
}

#[test]
fn rules_of_this_machine_need_no_master() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    let said = fleet.path("said");
    let sls = fleet.path("m1/say.sls");
    fs::create_dir_all(fleet.path("m1")).unwrap();
    let say = format!(
        "say:\n  caller.cmd.run:\n    - args: {{cmd: 'echo {{{{ data.n }}}} >> {}', python_shell: True}}\n",
        said.display()
    );
    fs::write(&sls, say).unwrap();
    let rules = format!("reactor:\n  - 'my/event': {}\n", sls.display());
    fleet.start_minion("m1", &rules);
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "-t", "60", "m1", "test.ping"]).rc == Some(0)
    });
    hears(&fleet);
    let is = |fleet: &Fleet, expected: &str| {
        fleet.soon(&format!("the reactions wrote {expected:?}"), || {
            fs::read_to_string(&said).is_ok_and(|text| text == expected)
        });
    };
    let words = ["salt", "-t", "60", "m1", "event.fire", "{n: 1}", "my/event"];
    let fired = fleet.run(&words);
    assert_eq!(fired.rc, Some(0), "{}", fired.out);
    is(&fleet, "1\n");
    fleet.kill_master();
    let fired = fleet.call("m1", &["--local", "event.fire", "{n: 2}", "my/event"]);
    assert_eq!(fired.rc, Some(0), "{}", fired.out);
    is(&fleet, "1\n2\n");
}

#[test]
fn a_masters_rules_may_stand_in_a_file() {
    let mut fleet = Fleet::prepared("", Turn::shared());
    let (rules, answered) = (fleet.path("rules.conf"), "my/answer");
    fs::write(&rules, "- my/question:\n  - salt://answer.sls\n").unwrap();
    fleet.write(
        "salt/answer.sls",
        &format!("x:\n  runner.event.send:\n    - args: [{{tag: {answered}}}]\n"),
    );
    let config = fleet.path("master/etc/master");
    let mut text = fs::read_to_string(&config).unwrap();
    text.push_str(&format!("reactor: {}\n", rules.display()));
    fs::write(&config, text).unwrap();
    fleet.start_master();
    let fired = fleet.run(&["salt-run", "event.send", "my/question", "{}"]);
    assert_eq!(fired.rc, Some(0), "{}", fired.out);
    fleet.soon("the event is answered", || {
        let words = ["salt-run", "--out=json", "reactor.explain", answered];
        fleet.run(&words).out.contains("\"sequence\"")
    });
}
