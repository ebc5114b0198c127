//! Tests of `compensate` and `finally` that the cases of `corpus/orch` do not cover: a run that is
//! killed and resumed, inspection, omitted states, and misplaced options.

use serde_json::Value;

use crate::resume::Machine;
use crate::runs::{pinch, text};

/// A tree whose compensations of `a` and `b` write to the log; the first compensation of `b` kills
/// the whole program.
const SITE: &str = "\
a:
  cmd.run:
    - name: echo a >> @TMP@/log
    - compensate: undo_a
b:
  cmd.run:
    - name: echo b >> @TMP@/log
    - compensate: {cmd: undo_b}
bad:
  cmd.run:
    - name: test -e @TMP@/good
    - require: [{cmd: b}]
c:
  cmd.run:
    - name: echo c >> @TMP@/log
    - require: [{cmd: bad}]
undo_a:
  cmd.run:
    - name: echo undo_a >> @TMP@/log
undo_b:
  cmd.run:
    - name: '@CUT@'
end:
  cmd.run:
    - name: echo end >> @TMP@/log
    - finally: True
";

fn machine() -> Machine {
    Machine::with(&[("site.sls", SITE), ("top.sls", "base:\n  '*': [site]\n")])
}

fn output_text(machine: &Machine, words: &str) -> String {
    text(&pinch(machine, words))
}

#[test]
fn a_run_that_is_killed_while_it_compensates_goes_on_with_that() {
    let machine = machine();
    machine.cut("state.apply site");
    assert_eq!(machine.log(), "a1 b1 cut1");
    // A state added to the tree in the meantime does not run: the run is already compensating.
    let new = "new:\n  cmd.run:\n    - name: echo new >> @TMP@/log\n";
    machine.0.write(
        "srv/salt/site.sls",
        &(SITE.replace("@CUT@", "echo undo_b >> @TMP@/log") + new),
    );
    let done = machine.call("state.apply site resume=True");
    assert_eq!(done.rc, Some(1), "{}", done.out);
    assert_eq!(machine.log(), "a1 b1 cut1 end1 undo_a1 undo_b1");
    let again = machine.call("state.apply site resume=True");
    assert!(again.out.contains("Nothing to resume"), "{}", again.out);
    // A compensated state runs again, even if the run resumes from a later state.
    machine.0.write("out/good", "");
    machine.0.write(
        "srv/salt/site.sls",
        &SITE.replace("@CUT@", "echo undo_b >> @TMP@/log"),
    );
    let from = machine.call("state.apply site resume=True from=bad");
    assert_eq!(from.rc, Some(0), "{}", from.out);
    assert_eq!(machine.log(), "a2 b2 c1 cut1 end2 undo_a1 undo_b1");
    assert!(
        machine.stderr().contains("a was compensated"),
        "{}",
        machine.stderr()
    );
}

#[test]
fn a_nested_orchestration_goes_on_compensating_too() {
    let outer = "\
inner:
  salt.runner:
    - name: state.orchestrate
    - kwarg: {mods: site}
";
    let machine = Machine::with(&[("site.sls", SITE), ("outer.sls", outer)]);
    machine.cut("state.orchestrate outer");
    let done = machine.call("state.orchestrate outer resume=True");
    assert_eq!(done.rc, Some(1), "{}", done.out);
    assert_eq!(machine.log(), "a1 b1 cut2 end1 undo_a1");
}

#[test]
fn plan_graph_and_explain_tell_of_it() {
    let machine = machine();
    let site = SITE.replace("@CUT@", "echo undo_b >> @TMP@/log");
    machine.0.write("srv/salt/site.sls", &site);
    let plan = output_text(&machine, "plan site --out=text");
    assert!(plan.contains("cmd.run echo undo_a"), "{}", plan);
    assert!(plan.contains("only if a later step fails"), "{}", plan);
    assert!(plan.contains("it compensates: cmd.run a"), "{}", plan);
    assert!(plan.contains("5 to change, 2 unchanged"), "{}", plan);
    let graph = output_text(&machine, "graph site --local --format=mmd");
    assert!(graph.contains("-->|compensate|"), "{}", graph);
    let done = machine.call("state.apply site");
    assert_eq!(done.rc, Some(1), "{}", done.out);
    assert_eq!(machine.log(), "a1 b1 end1 undo_a1 undo_b1");
    let runs: Value = serde_json::from_str(&output_text(&machine, "runs list --out=json")).unwrap();
    let jid = runs
        .pointer("/0/jid")
        .and_then(Value::as_str)
        .unwrap()
        .to_owned();
    let told = output_text(&machine, &format!("explain run {jid} a"));
    assert!(
        told.contains("compensate undo_a (cmd.run): changed"),
        "{}",
        told
    );
    let told = output_text(&machine, &format!("explain run {jid} undo_a"));
    assert!(
        told.contains("Compensates:\n  a (cmd.run): changed"),
        "{}",
        told
    );
}

#[test]
fn what_is_planned_is_applied_with_its_compensation() {
    let machine = machine();
    let site = SITE.replace("@CUT@", "echo undo_b >> @TMP@/log");
    machine.0.write("srv/salt/site.sls", &site);
    let plan = machine.0.path().join("plan.json");
    let planned = pinch(&machine, &format!("plan site -o {}", plan.display()));
    assert_eq!(planned.status.code(), Some(2), "{planned:?}");
    let applied = pinch(&machine, &format!("apply {}", plan.display()));
    assert_eq!(applied.status.code(), Some(1), "{applied:?}");
    assert_eq!(machine.log(), "a1 b1 end1 undo_a1 undo_b1");
}

#[test]
fn what_only_compensates_never_runs_by_itself() {
    let machine = machine();
    let top = "base:\n  '*': [site]\n";
    machine.0.write("srv/salt/top.sls", top);
    machine.0.write("out/good", "");
    // Nor if the state that it undoes is excluded.
    machine.0.write(
        "srv/salt/site.sls",
        &(SITE.to_owned() + "exclude:\n  - id: a\n"),
    );
    let done = machine.call("state.highstate");
    assert_eq!(
        (done.rc, machine.log().as_str()),
        (Some(0), "b1 c1 end1"),
        "{}",
        done.out
    );
    // Called by its ID, it runs alone.
    machine.0.write("srv/salt/site.sls", SITE);
    let done = machine.call("state.sls_id undo_a site");
    assert_eq!(
        (done.rc, machine.log().as_str()),
        (Some(0), "b1 c1 end1 undo_a1"),
        "{}",
        done.out
    );
}

#[test]
fn a_misplaced_word_stops_the_run_with_its_place() {
    let head = "a:\n  test.nop:\n";
    let rest = "b:\n  test.nop:\n    - compensate: c\nc:\n  test.nop: []\nf:\n  test.nop:\n    - finally: True\n";
    let cases = [
        ("compensate: nothing", "[compensate: (id: nothing)]"),
        ("compensate: a", "names the state itself"),
        (
            "compensate: b",
            "a compensating state cannot be compensated itself",
        ),
        (
            "compensate: f",
            "finally: True, which runs at the end in any case",
        ),
        ("compensate: 5", "names no state"),
        (
            "finally: perhaps",
            "finally: perhaps is neither True nor False",
        ),
        (
            "require: [c]",
            "names a state that runs only when a later one fails",
        ),
        ("onfail: [{test: f}]", "names a state that runs at the end"),
        ("listen: [f]", "has no effect"),
    ];
    for (word, says) in cases {
        let machine = Machine::with(&[("s.sls", &format!("{head}    - {word}\n{rest}"))]);
        let refused = machine.call("state.apply s");
        assert_eq!(refused.rc, Some(1), "{word}: {}", refused.out);
        assert!(refused.out.contains(says), "{word}: {}", refused.out);
        assert!(
            machine.stderr().contains("s.sls:"),
            "{word}: {}",
            machine.stderr()
        );
    }
}
