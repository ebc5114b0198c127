//! Tests of the outcome that a plan records for each state.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::machine::{Machine, state, text};
use super::schema;

/// Returns the outcome of a state, and the reason why it depends on others.
fn outcome(plan: &Value, id: &str, function: &str) -> (String, Vec<String>) {
    let state = state(plan, id, function);
    let because = state.get("because").and_then(Value::as_array);
    let because = because.into_iter().flatten();
    let because = because.map(|because| because["reason"].as_str().unwrap().to_owned());
    (
        state["outcome"].as_str().unwrap().to_owned(),
        because.collect(),
    )
}

#[test]
fn the_exit_code_says_whether_there_is_anything_to_do() {
    let here = Machine::new();
    here.put("salt/a.sls", "OUT/f:\n  file.managed: [{contents: x}]\n");
    here.put("salt/top.sls", "base: {'*': [a]}\n");
    let before = here.snapshot();
    let (code, plan) = here.plan(&["a"]);
    assert_eq!((code, &plan["summary"]["change"]), (2, &json!(1)));
    assert_eq!(here.snapshot(), before, "a plan changes nothing");
    schema::hold(&plan);
    let (code, highstate) = here.plan(&["highstate"]);
    assert_eq!((code, &highstate["states"]), (2, &plan["states"]));
    let (code, out, err) = here.apply();
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(here.text("out/f"), "x\n");
    let (code, plan) = here.plan(&["a"]);
    assert_eq!((code, &plan["summary"]["unchanged"]), (0, &json!(1)));
    let (code, out, err) = here.apply();
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn what_does_not_compile_or_would_fail_exits_one() {
    let here = Machine::new();
    here.put("salt/broken.sls", "a: {{ nothing }}\n");
    let output = here.run(&["plan", "-c", "etc", "-o", "plan.json", "broken"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("nothing"),
        "{}",
        text(&output.stderr)
    );
    assert!(!here.path("plan.json").exists());
    here.put("salt/fails.sls", "bad:\n  test.fail_without_changes: []\n");
    let (code, plan) = here.plan(&["fails"]);
    assert_eq!(
        (code, outcome(&plan, "bad", "test.fail_without_changes").0),
        (1, "fail".into())
    );
    let (code, _, err) = here.apply();
    assert_eq!(code, 1);
    assert!(err.contains("would fail; nothing was changed"), "{err}");
    let output = here.run(&["plan", "-c", "etc"]);
    assert_eq!(output.status.code(), Some(64), "{}", text(&output.stderr));
}

#[test]
fn a_plan_for_people_has_diffs_and_a_summary() {
    let here = Machine::new();
    here.put("out/old", "one\ntwo\n");
    here.put("salt/t.j2", "hello {{ pillar.who }}\n");
    let sls = "OUT/old:\n  file.append: [{text: three}]\nOUT/new:\n  file.managed: [{source: salt://t.j2}, {template: jinja}]\n\
        OUT/hidden:\n  file.managed: [{contents: password}, {show_changes: False}]\n\
        run:\n  cmd.run: [{name: echo hi}]\nfine:\n  test.nop: []\n";
    here.put("salt/a.sls", sls);
    let output = here.run(&[
        "plan",
        "-c",
        "etc",
        "--out=text",
        "-o",
        "plan.json",
        "a",
        "pillar={who: you}",
    ]);
    let said = text(&output.stdout);
    for part in [
        " two\n",
        "    +three\n",
        "    +hello you\n",
        "~ cmd.run echo hi (id run) in a: would change\n",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(
        said.ends_with("4 to change, 1 unchanged, 0 depend on earlier changes\n"),
        "{said}"
    );
    assert!(!said.contains("password"), "{said}");
    assert!(!here.text("plan.json").contains("password"));
    let mode = here
        .path("plan.json")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
    let plan: Value = serde_json::from_str(&here.text("plan.json")).unwrap();
    schema::hold(&plan);
    let new = &state(
        &plan,
        &here.path("out/new").display().to_string(),
        "file.managed",
    )["files"][0];
    assert_eq!(new["now"], json!({"kind": "absent"}));
    assert_eq!(new["then"]["size"], 10);
    assert_eq!(
        state(&plan, "run", "cmd.run")["commands"],
        json!(["echo hi"])
    );
    let (code, out, err) = here.apply();
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(here.text("out/new"), "hello you\n");
}

const DEPENDING: &str = "
changes:
  file.managed: [{name: OUT/made/f}, {contents: x}, {makedirs: True}]
same:
  file.managed: [{name: OUT/same}, {contents: same}]
onward:
  test.nop: [{onchanges: [{file: changes}]}]
offward:
  test.nop: [{onchanges: [{file: same}]}]
watches:
  cmd.wait: [{name: 'true'}, {watch: [{file: changes}]}]
first:
  cmd.run: [{name: 'true'}, {prereq: [{file: last}]}]
below:
  file.directory: [{name: OUT/made/sub}]
again:
  file.append: [{name: OUT/made/f}, {text: y}]
apart:
  file.managed: [{name: OUT/apart}, {contents: z}, {require: [{file: changes}]}]
after:
  file.managed: [{name: OUT/after}, {contents: z}, {require: [{cmd: plain}]}]
plain:
  cmd.run: [{name: 'true'}]
guarded:
  test.nop: [{unless: 'false'}]
creates:
  cmd.run: [{name: 'true'}, {creates: OUT/made/g}]
asks:
  file.managed: [{name: OUT/asks}, {contents: \"{{ '{{' }} salt['file.file_exists']('OUT/made/f') {{ '}}' }}\"}, {template: jinja}]
plainly:
  file.managed: [{name: OUT/plainly}, {contents: 'no calls'}, {template: jinja}]
slot:
  file.managed: [{name: OUT/slot}, {contents: '__slot__:salt:test.echo(a)'}]
last:
  file.managed: [{name: OUT/last}, {contents: x}]
";

#[test]
fn what_depends_on_an_earlier_change_is_marked_and_nothing_else() {
    let here = Machine::new();
    here.put("out/same", "same\n");
    here.put("salt/a.sls", DEPENDING);
    let (code, plan) = here.plan(&["a"]);
    assert_eq!(code, 2);
    schema::hold(&plan);
    let depending = [
        ("onward", "test.nop", "onchanges"),
        ("watches", "cmd.wait", "watch"),
        ("first", "cmd.run", "prereq"),
        ("below", "file.directory", "path"),
        ("again", "file.append", "path"),
        ("after", "file.managed", "require"),
        ("guarded", "test.nop", "guard"),
        ("creates", "cmd.run", "creates"),
        ("asks", "file.managed", "template"),
        ("slot", "file.managed", "slot"),
    ];
    for (id, function, reason) in depending {
        let (outcome, because) = outcome(&plan, id, function);
        assert_eq!(outcome, "depends", "{id}");
        assert!(
            because.iter().any(|because| because == reason),
            "{id}: {because:?}"
        );
    }
    let known = [
        ("changes", "file.managed", "change"),
        ("same", "file.managed", "unchanged"),
        ("offward", "test.nop", "unchanged"),
        ("apart", "file.managed", "change"),
        ("plain", "cmd.run", "change"),
        ("plainly", "file.managed", "change"),
        ("last", "file.managed", "change"),
    ];
    for (id, function, wanted) in known {
        assert_eq!(
            outcome(&plan, id, function),
            (wanted.to_owned(), Vec::new()),
            "{id}"
        );
    }
    let (code, out, err) = here.apply();
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(here.text("out/made/f"), "x\ny\n");
    assert_eq!(here.text("out/asks"), "True\n");
}

#[test]
fn listeners_and_orchestrations_are_planned_with_what_they_run() {
    let here = Machine::new();
    here.put("salt/web.sls", "conf:\n  file.managed: [{name: OUT/web}, {contents: \"{{ pillar.who }}\"}]\nreload:\n  cmd.wait: [{name: echo reload >> OUT/log}, {listen: [{file: conf}]}]\n");
    here.put(
        "salt/done.sls",
        "mark:\n  file.managed: [{name: OUT/done}, {contents: x}]\n",
    );
    here.put(
        "salt/orch/x.sls",
        "web:\n  salt.state: [{tgt: '*'}, {sls: web}]\ndone:\n  salt.state: [{tgt: '*'}, {sls: done}, {require: [{salt: web}]}]\nsay:\n  salt.function: [{name: cmd.run}, {tgt: '*'}, {arg: ['echo said >> OUT/log']}, {require: [{salt: done}]}]\n",
    );
    let before = here.snapshot();
    let (code, plan) = here.plan(&["orchestrate", "orch.x"]);
    assert_eq!(code, 2, "{plan:#}");
    schema::hold(&plan);
    assert_eq!(here.snapshot(), before);
    assert_eq!(outcome(&plan, "conf", "file.managed").0, "change");
    assert_eq!(outcome(&plan, "mark", "file.managed").0, "change");
    assert_eq!(outcome(&plan, "say", "salt.function").0, "change");
    assert_eq!(
        outcome(&plan, "listener_reload", "cmd.mod_watch").0,
        "depends"
    );
    let step = state(&plan, "conf", "file.managed")["step"]
        .as_str()
        .unwrap();
    assert!(step.starts_with("salt_|-web_|-"), "{step}");
    let (code, out, err) = here.apply();
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(here.text("out/web"), "world\n");
    assert_eq!(here.text("out/log"), "reload\nsaid\n");
    let (_, again) = here.plan(&["orchestrate", "orch.x"]);
    assert_eq!(outcome(&again, "web", "salt.state").0, "unchanged");
}

#[test]
fn apply_with_an_sls_plans_asks_and_applies() {
    let here = Machine::new();
    here.put(
        "salt/a.sls",
        "OUT/a:\n  file.managed: [{contents: hello}]\n",
    );
    let before = here.snapshot();
    let apply = |words: &[&str]| here.run(&[&["apply", "-c", "etc"], words].concat());

    // Without a terminal nothing is changed.
    let asked = apply(&["a"]);
    assert_eq!(
        (asked.status.code(), text(&asked.stdout).as_str()),
        (Some(1), "")
    );
    let told = text(&asked.stderr);
    assert!(
        told.contains("+hello") && told.contains("1 to change"),
        "{told}"
    );
    assert!(
        told.contains("cannot ask for confirmation") && told.contains("use --yes"),
        "{told}"
    );
    assert_eq!(here.snapshot(), before);

    // The plan goes to stderr, and stdout has the returns alone.
    let done = apply(&["--yes", "--out=json", "a"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let returned: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(returned["local"].as_object().unwrap().len(), 1);
    assert_eq!(here.text("out/a"), "hello\n");

    // A second time there is nothing to do, and nothing to ask.
    let again = apply(&["a"]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("0 to change"));

    // A plan with a state that would fail is not applied.
    here.put("salt/b.sls", "OUT/b:\n  file.managed: [{contents: x}]\nc:\n  file.managed: [{name: OUT/c}, {source: salt://none}]\n");
    let fails = apply(&["--yes", "b"]);
    assert_eq!(fails.status.code(), Some(1));
    assert!(text(&fails.stderr).contains("states that would fail; nothing was changed"));
    assert!(!here.path("out/b").exists());
}

#[test]
fn the_file_of_a_plan_has_its_own_options() {
    let here = Machine::new();
    here.put(
        "salt/a.sls",
        "OUT/a:\n  file.managed: [{contents: hello}]\n",
    );
    here.plan(&["a"]);
    for words in [&["-c", "root"][..], &["--id=web", "-c", "etc"]] {
        let refused = here.run(&[&["apply"], words, &["plan.json"]].concat());
        assert_eq!(refused.status.code(), Some(64), "{words:?}");
        assert!(
            text(&refused.stderr).contains("was planned with its own options and with -c"),
            "{}",
            text(&refused.stderr)
        );
    }
    let done = here.run(&["apply", "-c", "etc", "plan.json"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
}
