//! Tests of runs that are interrupted and resumed: `resume=True`, `redo=`, `skip=`, `from=`, and
//! the argument `resume:` of a step.

use std::fs;

use serde_json::Value;
use tests::program::{Answer, salt_call};
use tests::scratch::Scratch;

/// A command that logs itself, and kills the whole program the first time.
const CUT: &str =
    "echo cut >> @TMP@/log; test -e @TMP@/again || { touch @TMP@/again; kill -9 $PPID; }";

pub(crate) struct Machine(pub(crate) Scratch);

impl Machine {
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let scratch = Scratch::new();
        for (name, text) in files {
            scratch.write(format!("srv/salt/{name}"), &text.replace("@CUT@", CUT));
        }
        Self(scratch)
    }

    pub(crate) fn call(&self, words: &str) -> Answer {
        let mut all = vec!["--out=json".to_owned()];
        all.extend(words.split_whitespace().map(str::to_owned));
        salt_call(self.0.path(), &all).unwrap()
    }

    /// Runs a call that kills its own run.
    pub(crate) fn cut(&self, words: &str) {
        let answer = self.call(words);
        assert_eq!(answer.rc, None, "{}{}", answer.out, self.stderr());
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.0.path().join("stderr")).unwrap()
    }

    /// Returns the number of times that each word was written to the log, as `a1 cut2`.
    pub(crate) fn log(&self) -> String {
        let log = fs::read_to_string(self.0.tmp().join("log")).unwrap_or_default();
        let mut words: Vec<&str> = log.lines().collect();
        words.sort_unstable();
        let groups = words.chunk_by(|a, b| a == b);
        let groups = groups.map(|group| format!("{}{}", group[0], group.len()));
        groups.collect::<Vec<_>>().join(" ")
    }
}

/// Returns the returns of a run by id.
fn returns(answer: &Answer) -> serde_json::Map<String, Value> {
    let value: Value = serde_json::from_str(&answer.out).unwrap();
    let local = &value["local"];
    let running = local.pointer("/data/m1").unwrap_or(local);
    let map = running
        .as_object()
        .unwrap_or_else(|| panic!("{}", answer.out));
    let by_id =
        |(tag, ret): (&String, &Value)| (tag.split("_|-").nth(1).unwrap().to_owned(), ret.clone());
    map.iter().map(by_id).collect()
}

fn result(answer: &Answer, id: &str) -> Value {
    returns(answer)[id]["result"].clone()
}

const ORCH: &str = "\
a:
  cmd.run:
    - name: echo a >> @TMP@/log
b:
  salt.function:
    - name: cmd.run
    - tgt: '*'
    - arg: ['@CUT@']
    - require: [{cmd: a}]
c:
  cmd.run:
    - name: echo c >> @TMP@/log
    - require: [{salt: b}]
d:
  cmd.run:
    - name: echo d >> @TMP@/log
    - onchanges: [{cmd: a}]
";

#[test]
fn an_interrupted_function_is_asked_about_and_done_again_when_told() {
    let machine = Machine::with(&[("orch.sls", ORCH)]);
    machine.cut("state.orchestrate orch");
    let asked = machine.call("state.orchestrate orch resume=True");
    assert_eq!(asked.rc, Some(1), "{}", asked.out);
    let sentence = "b (salt.function cmd.run) was under way when the run was cut short";
    assert!(asked.out.contains(sentence), "{}", asked.out);
    assert!(
        asked.out.contains("redo=b") && asked.out.contains("skip=b"),
        "{}",
        asked.out
    );
    assert_eq!(machine.log(), "a1 cut1");
    let wrong = machine.call("state.orchestrate orch resume=True redo=bb");
    assert!(
        wrong.out.contains("redo=bb: there is no such step"),
        "{}",
        wrong.out
    );
    assert_eq!((wrong.rc, machine.log().as_str()), (Some(1), "a1 cut1"));
    let done = machine.call("state.orch orch resume=True redo=b");
    assert_eq!(done.rc, Some(0), "{}", done.out);
    assert_eq!(machine.log(), "a1 c1 cut2 d1");
    let ids: Vec<String> = returns(&done).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 4, "{ids:?}");
    let again = machine.call("state.orchestrate orch resume=True");
    assert!(again.out.contains("Nothing to resume"), "{}", again.out);
    assert_eq!(
        (again.rc, machine.log().as_str()),
        (Some(1), "a1 c1 cut2 d1")
    );
}

#[test]
fn an_interrupted_function_can_be_taken_for_done() {
    let machine = Machine::with(&[("orch.sls", ORCH)]);
    machine.cut("state.orchestrate orch");
    let done = machine.call("--resume state.orchestrate orch skip=b");
    assert_eq!(done.rc, Some(0), "{}", done.out);
    assert_eq!(machine.log(), "a1 c1 cut1 d1");
    let comment = returns(&done)["b"]["comment"].to_string();
    assert!(comment.contains("treated as done"), "{comment}");
    let done = machine.call("state.orchestrate orch redo=b");
    assert!(done.rc == Some(1) && machine.stderr().contains("only valid with resume=True"));
}

#[test]
fn what_is_never_repeated_counts_as_failed() {
    let orch = ORCH.replace(
        "    - require: [{cmd: a}]",
        "    - require: [{cmd: a}]\n    - resume: never",
    );
    let machine = Machine::with(&[("orch.sls", &orch)]);
    machine.cut("state.orchestrate orch");
    let refused = machine.call("state.orchestrate orch resume=True redo=b");
    assert!(
        refused.out.contains("marked resume: never"),
        "{}",
        refused.out
    );
    let done = machine.call("state.orchestrate orch resume=True");
    assert_eq!(done.rc, Some(1), "{}", done.out);
    assert_eq!(
        (result(&done, "b"), result(&done, "c")),
        (false.into(), false.into())
    );
    assert_eq!(machine.log(), "a1 cut1 d1");
    // The result of `b` also remains if the run resumes from a later step.
    let from = machine.call("state.orchestrate orch resume=True from=d");
    assert_eq!((from.rc, machine.log().as_str()), (Some(1), "a1 cut1 d2"));
}

const STATES: &str = "\
a:
  cmd.run:
    - name: echo a >> @TMP@/log
b:
  cmd.run:
    - name: '@CUT@'
c:
  cmd.run:
    - name: echo c >> @TMP@/log
w:
  cmd.wait:
    - name: echo w >> @TMP@/log
    - watch: [{cmd: a}]
l:
  cmd.wait:
    - name: echo l >> @TMP@/log
    - listen: [{cmd: a}]
";

#[test]
fn states_go_on_where_they_were_cut_short() {
    let machine = Machine::with(&[("s.sls", STATES), ("top.sls", "base:\n  '*': [s]\n")]);
    machine.cut("state.apply s");
    // A run of another kind and a test run are not resumed.
    let other = machine.call("state.highstate resume=True");
    assert!(
        other.out.contains("no run of state.highstate on record"),
        "{}",
        other.out
    );
    assert_eq!(machine.call("state.apply s test=True").rc, Some(0));
    let shown = machine.call("state.sls s resume=True test=True");
    assert_eq!(
        (result(&shown, "a"), result(&shown, "c")),
        (true.into(), Value::Null)
    );
    assert_eq!(machine.log(), "a1 cut1");
    let done = machine.call("state.sls s resume=True");
    assert_eq!(done.rc, Some(0), "{}", done.out);
    assert_eq!(machine.log(), "a1 c1 cut2 l1 w1");
    let from = machine.call("state.apply s resume=True from=c");
    assert_eq!(
        (from.rc, machine.log().as_str()),
        (Some(0), "a1 c2 cut2 l2 w2")
    );
    let unknown = machine.call("state.apply s resume=True from=cc");
    assert!(
        unknown.rc == Some(1) && unknown.out.contains("from=cc"),
        "{}",
        unknown.out
    );
}

#[test]
fn a_highstate_goes_on_with_the_pillar_that_it_had() {
    let states = "a:\n  cmd.run:\n    - name: '@CUT@'\nb:\n  cmd.run:\n    - name: echo {{ pillar.word }} >> @TMP@/log\n";
    let machine = Machine::with(&[("s.sls", states), ("top.sls", "base:\n  '*': [s]\n")]);
    machine.cut("state.apply pillar={'word':'red'}");
    let other = machine.call("state.highstate resume=True pillar={'word':'blue'}");
    assert!(
        other.rc == Some(1) && other.out.contains("a different pillar="),
        "{}",
        other.out
    );
    let done = machine.call("state.highstate --resume");
    assert_eq!(
        (done.rc, machine.log().as_str()),
        (Some(0), "cut2 red1"),
        "{}",
        done.out
    );
}

#[test]
fn it_is_said_what_has_changed_since() {
    let machine = Machine::with(&[("s.sls", STATES)]);
    machine.cut("state.apply s");
    let changed = STATES.replace("echo c", "echo d").replace("@CUT@", "true");
    let changed = changed.replace(
        "    - name: echo a >>",
        "    - cwd: /\n    - name: echo a >>",
    );
    machine.0.write("srv/salt/s.sls", &changed);
    let done = machine.call("state.apply s resume=True");
    assert_eq!(
        (done.rc, machine.log().as_str()),
        (Some(0), "a1 cut1 d1 l1 w1"),
        "{}",
        done.out
    );
    let said = machine.stderr();
    assert!(said.contains("the tree has changed since"), "{said}");
    assert!(said.contains("changed: c (cmd.run) in s"), "{said}");
    assert!(
        said.contains("changed: a (cmd.run) in s; it has finished and is not run again"),
        "{said}"
    );
    assert!(!said.contains(" w (cmd.wait)"), "{said}");
}

const INNER: &str = "\
one:
  cmd.run:
    - name: echo one{{ pillar.get('n', '') }} >> @TMP@/log
two:
  salt.function:
    - name: cmd.run
    - tgt: '*'
    - arg: ['@CUT@']
    - require: [{cmd: one}]
";

#[test]
fn the_steps_of_a_nested_orchestration_are_not_repeated_either() {
    let outer = "\
first:
  cmd.run:
    - name: echo first >> @TMP@/log
inner:
  salt.runner:
    - name: state.orchestrate
    - kwarg: {mods: inner}
    - require: [{cmd: first}]
last:
  cmd.run:
    - name: echo last >> @TMP@/log
    - require: [{salt: inner}]
";
    let machine = Machine::with(&[("outer.sls", outer), ("inner.sls", INNER)]);
    machine.cut("state.orchestrate outer");
    let asked = machine.call("state.orchestrate outer resume=True");
    assert!(
        asked.rc == Some(1) && asked.out.contains("redo=two"),
        "{}",
        asked.out
    );
    let done = machine.call("state.orchestrate outer resume=True redo=two");
    assert_eq!(
        (done.rc, machine.log().as_str()),
        (Some(0), "cut2 first1 last1 one1"),
        "{}",
        done.out
    );
}

#[test]
fn steps_side_by_side_are_taken_up_each_for_itself() {
    let outer = "\
{% for n in range(3) %}
p{{ n }}:
  cmd.run:
    - name: echo p{{ n }} >> @TMP@/log
    - parallel: True
{% endfor %}
both:
  salt.parallel_runners:
    - runners:
        x:
          - name: state.orchestrate
          - kwarg: {mods: other, pillar: {n: x}}
        y:
          - name: state.orchestrate
          - kwarg: {mods: other, pillar: {n: y}}
    - require: [{cmd: p0}, {cmd: p1}, {cmd: p2}]
cut:
  cmd.run:
    - name: '@CUT@'
    - require: [{salt: both}]
end:
  test.succeed_without_changes:
    - require: [{cmd: cut}]
";
    let other = "one:\n  cmd.run:\n    - name: echo one{{ pillar.n }} >> @TMP@/log\n";
    let machine = Machine::with(&[("outer.sls", outer), ("other.sls", other)]);
    machine.cut("state.orchestrate outer");
    let done = machine.call("state.orchestrate outer resume=True");
    assert_eq!(done.rc, Some(0), "{}", done.out);
    assert_eq!(machine.log(), "cut2 onex1 oney1 p01 p11 p21");
    let from = machine.call("state.orchestrate outer resume=True from=both");
    assert_eq!(from.rc, Some(0), "{}", from.out);
    assert_eq!(machine.log(), "cut3 onex2 oney2 p01 p11 p21");
}

#[test]
fn a_word_that_says_nothing_of_resuming_stops_the_run() {
    let machine = Machine::with(&[("s.sls", "a:\n  test.nop:\n    - resume: maybe\n")]);
    let refused = machine.call("state.apply s");
    assert!(
        refused.rc == Some(1) && refused.out.contains("resume: maybe is not one of"),
        "{}",
        refused.out
    );
    assert!(
        machine.stderr().contains("s.sls:3:7"),
        "{}",
        machine.stderr()
    );
}

/// Fires an event, and waits for it after the place where the run is cut short.
const WAITS: &str = "\
a:
  cmd.run:
    - name: echo a >> @TMP@/log
fire:
  salt.function:
    - name: event.fire
    - tgt: '*'
    - arg: [{id: m1}, my/tag]
    - require: [{cmd: a}]
cut:
  cmd.run:
    - name: '@CUT@'
    - require: [{salt: fire}]
wait:
  salt.wait_for_event:
    - name: my/tag
    - id_list: [m1]
    - timeout: 3
    - require: [{cmd: cut}]
";

#[test]
fn a_resumed_run_has_the_events_that_came_before_it_was_cut_short() {
    let machine = Machine::with(&[("orch.sls", WAITS)]);
    machine.cut("state.orchestrate orch");
    let done = machine.call("state.orchestrate orch resume=True");
    assert_eq!(done.rc, Some(0), "{}{}", done.out, machine.stderr());
    assert_eq!(result(&done, "wait"), true, "{}", done.out);
    assert_eq!(machine.log(), "a1 cut2");
}

#[test]
fn a_run_that_begins_again_from_its_first_step_hears_what_its_steps_fire() {
    let machine = Machine::with(&[("orch.sls", WAITS)]);
    machine.cut("state.orchestrate orch");
    let done = machine.call("state.orchestrate orch resume=True from=a");
    assert_eq!(done.rc, Some(0), "{}{}", done.out, machine.stderr());
    assert_eq!(result(&done, "wait"), true, "{}", done.out);
    assert_eq!(machine.log(), "a2 cut2");
}

#[test]
fn a_resumed_orchestration_inside_another_has_its_events() {
    let outer = "inner:\n  salt.runner:\n    - name: state.orchestrate\n    - mods: orch\n";
    let machine = Machine::with(&[("orch.sls", WAITS), ("outer.sls", outer)]);
    machine.cut("state.orchestrate outer");
    let done = machine.call("state.orchestrate outer resume=True");
    assert_eq!(done.rc, Some(0), "{}{}", done.out, machine.stderr());
    assert_eq!(machine.log(), "a1 cut2");
}

#[test]
fn what_a_step_has_waited_for_ends_no_later_wait_of_a_resumed_run() {
    let wait = |id: &str, after: &str| {
        format!(
            "{id}:\n  salt.wait_for_event:\n    - name: my/tag\n    - id_list: [m1]\n    - timeout: 1\n    - require: [{after}]\n"
        )
    };
    let (before, _) = WAITS.split_once("cut:").unwrap();
    let cut = "cut:\n  cmd.run:\n    - name: '@CUT@'\n    - require: [{salt: first}]\n";
    let orch = [
        before,
        &wait("first", "{salt: fire}"),
        cut,
        &wait("second", "{cmd: cut}"),
    ]
    .concat();
    let machine = Machine::with(&[("orch.sls", &orch)]);
    machine.cut("state.orchestrate orch");
    let done = machine.call("state.orchestrate orch resume=True");
    assert_eq!(result(&done, "first"), true, "{}", done.out);
    assert_eq!(result(&done, "second"), false, "{}", done.out);
    // When the run resumes from the first wait, that step sees the event again.
    let again = machine.call("state.orchestrate orch resume=True from=first");
    assert_eq!(result(&again, "first"), true, "{}", again.out);
    assert_eq!(result(&again, "second"), false, "{}", again.out);
}
