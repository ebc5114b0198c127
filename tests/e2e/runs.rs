//! `pinch runs` and `pinch explain run`: the recorded runs of a machine.

use std::process::{Command, Output};

use serde_json::Value;
use tests::program::pinch_program;

use crate::resume::Machine;

pub(crate) fn pinch(machine: &Machine, words: &str) -> Output {
    let mut command = Command::new(pinch_program());
    let command = command.args(words.split_whitespace());
    command
        .env("SALT_CONFIG_DIR", machine.0.path().join("etc"))
        .output()
        .unwrap()
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn listed(machine: &Machine) -> Vec<Value> {
    let output = pinch(machine, "runs list --out=json");
    serde_json::from_str(&text(&output)).unwrap()
}

const STATES: &str = "\
a:
  cmd.run:
    - name: echo {{ pillar.get('word', 'a') }} >> @TMP@/log
b:
  cmd.run:
    - name: test -e @TMP@/good
    - require: [{cmd: a}]
c:
  test.succeed_without_changes:
    - require: [{cmd: b}]
g:
  cmd.run:
    - name: echo g >> @TMP@/log
    - unless: ['true', 'exit 0']
o:
  cmd.run:
    - name: echo o >> @TMP@/log
    - onlyif: exit 3
";

#[test]
fn runs_are_listed_shown_and_compared() {
    let machine = Machine::with(&[
        ("s.sls", STATES),
        ("cut.sls", "x:\n  cmd.run:\n    - name: '@CUT@'\n"),
    ]);
    assert_eq!(
        machine.call("state.apply s pillar={'word':'w'}").rc,
        Some(1)
    );
    machine.0.write("out/good", "");
    assert_eq!(machine.call("state.apply s").rc, Some(0));
    machine.cut("state.orchestrate cut");
    let all = listed(&machine);
    let seen: Vec<_> = all
        .iter()
        .map(|run| {
            (
                run["fun"].as_str().unwrap(),
                run["result"].as_str().unwrap(),
            )
        })
        .collect();
    let want = [
        ("state.apply", "failed"),
        ("state.apply", "succeeded"),
        ("state.orchestrate", "cut short"),
    ];
    assert_eq!(seen, want);
    assert_eq!(
        (&all[0]["states"], &all[0]["failed"]),
        (&5.into(), &2.into())
    );
    assert_eq!(all[0]["args"]["pillar"]["word"], "w");
    let jid = |n: usize| all[n]["jid"].as_str().unwrap();
    let lines = text(&pinch(&machine, "runs list"));
    assert_eq!(lines.lines().count(), 3);
    assert!(
        lines.contains("state.apply s pillar={\"word\": \"w\"}: failed in "),
        "{lines}"
    );
    let shown = text(&pinch(&machine, &format!("runs show {}", jid(0))));
    assert!(
        shown.contains("Function: cmd.run") && shown.contains("Failed:    2"),
        "{shown}"
    );
    let json = text(&pinch(
        &machine,
        &format!("runs show {} --out=json", jid(1)),
    ));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["local"].as_object().unwrap().len(), 5);
    let differ = pinch(&machine, &format!("runs diff {} {}", jid(0), jid(1)));
    assert!(
        text(&differ).contains("b (cmd.run): failed -> changed"),
        "{}",
        text(&differ)
    );
    assert_eq!(differ.status.code(), Some(2));
    let same = pinch(&machine, &format!("runs diff {0} {0}", jid(0)));
    assert_eq!((text(&same).as_str(), same.status.code()), ("", Some(0)));
    assert_eq!(
        pinch(&machine, "runs show 20200101000000000000")
            .status
            .code(),
        Some(1)
    );
}

#[test]
fn old_runs_are_forgotten_but_not_those_that_can_be_taken_up() {
    let cut = "x:\n  cmd.run:\n    - name: '@CUT@'\n";
    let machine = Machine::with(&[("s.sls", STATES), ("cut.sls", cut)]);
    machine.call("state.apply s");
    machine.cut("state.orchestrate cut");
    machine.call("state.apply s");
    assert_eq!(pinch(&machine, "runs prune").status.code(), Some(64));
    pinch(&machine, "runs prune --days 1");
    assert_eq!(listed(&machine).len(), 3);
    assert!(text(&pinch(&machine, "runs prune --keep 0")).starts_with("deleted 2 of 3 runs"));
    let left = listed(&machine);
    assert_eq!(
        (left.len(), left[0]["result"].as_str()),
        (1, Some("cut short"))
    );
    pinch(&machine, "runs prune --keep 0 --force");
    assert!(listed(&machine).is_empty());
}

#[test]
fn it_is_explained_why_a_state_ran_or_did_not() {
    let machine = Machine::with(&[("s.sls", STATES)]);
    assert_eq!(machine.call("state.apply s").rc, Some(1));
    let all = listed(&machine);
    let jid = all[0]["jid"].as_str().unwrap();
    let explained = |state: &str| text(&pinch(&machine, &format!("explain run {jid} {state}")));
    let c = explained("c");
    assert!(
        c.starts_with("c (test.succeed_without_changes): failed\n"),
        "{c}"
    );
    let chain = "Requisites:\n  require b (cmd.run): failed\n    require a (cmd.run): changed\n";
    assert!(c.contains(chain), "{c}");
    let a = explained("a");
    assert!(a.contains("s.sls:3, reads pillar word\n"), "{a}");
    assert!(!a.contains("Note:"), "{a}");
    let g = explained("g");
    assert!(g.starts_with("g (cmd.run): unchanged\n"), "{g}");
    assert!(g.contains("Guard:\n  unless: exit 0 exited 0\n"), "{g}");
    assert!(
        explained("o").contains("Guard:\n  onlyif: exit 3 exited 3\n"),
        "{}",
        explained("o")
    );
    machine
        .0
        .write("srv/salt/s.sls", &STATES.replace("exit 3", "exit 4"));
    let o = explained("o");
    assert!(o.contains("Note: changed: o (cmd.run) in s"), "{o}");
    let none = pinch(&machine, &format!("explain run {jid} nothing"));
    assert_eq!(none.status.code(), Some(1));
}
