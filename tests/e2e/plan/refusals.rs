//! Tests that nothing is changed if something moved between a plan and its application.

use std::fs;
use std::os::unix::fs::symlink;

use super::machine::{Machine, text};

const TREE: &str = "
new:
  file.managed: [{name: OUT/new}, {source: salt://t.j2}, {template: jinja}]
old:
  file.managed: [{name: OUT/old}, {contents: after}]
copied:
  file.managed: [{name: OUT/copied}, {source: OUT/../own}]
gone:
  file.absent: [{name: OUT/gone}]
link:
  file.symlink: [{name: OUT/link}, {target: old}]
script:
  cmd.script: [{name: salt://s.sh}]
";

fn machine() -> Machine {
    let here = Machine::new();
    here.put("salt/a.sls", TREE);
    here.put("salt/t.j2", "hello {{ pillar.who }}\n");
    here.put("salt/s.sh", "#!/bin/sh\necho ran > OUT/ran\n");
    here.put("own", "own\n");
    here.put("out/old", "before\n");
    here.put("out/gone/inside", "x\n");
    symlink("nowhere", here.path("out/link")).unwrap();
    here
}

/// Plans, changes something, and asserts a refusal that names the change.
fn refused(what: &str, moves: impl FnOnce(&Machine), named: &[&str]) {
    let here = machine();
    let (code, plan) = here.plan(&["a"]);
    assert_eq!(code, 2, "{plan:#}");
    moves(&here);
    let before = here.snapshot();
    let (code, out, err) = here.apply();
    assert_eq!(code, 1, "{what}: {out}{err}");
    assert!(
        err.contains("cannot apply ") && err.contains("; nothing was changed"),
        "{what}: {err}"
    );
    for named in named {
        assert!(err.contains(named), "{what}: {named} is missing in {err}");
    }
    assert_eq!(here.snapshot(), before, "{what}");
}

#[test]
fn a_target_that_moved_is_named() {
    refused(
        "edited",
        |here| here.put("out/old", "other\n"),
        &["out/old has changed", "other contents"],
    );
    refused(
        "made",
        |here| here.put("out/new", "x"),
        &[
            "out/new did not exist when planned; now a file 06",
            ", 1 bytes",
        ],
    );
    refused(
        "mode",
        |here| here.chmod("out/old", 0o600),
        &[
            "out/old has changed: mode was 06",
            " when planned and is 0600",
        ],
    );
    refused(
        "removed",
        |here| fs::remove_file(here.path("out/old")).unwrap(),
        &["out/old was a file", "when planned; now it does not exist"],
    );
    refused(
        "inside",
        |here| here.put("out/gone/more", "x"),
        &[
            "out/gone has changed",
            "entries was 1 when planned and is 2",
        ],
    );
    let relinked = |here: &Machine| {
        fs::remove_file(here.path("out/link")).unwrap();
        symlink("elsewhere", here.path("out/link")).unwrap();
    };
    refused(
        "link",
        relinked,
        &["target was nowhere when planned and is elsewhere"],
    );
}

#[test]
fn a_tree_a_pillar_or_a_source_that_moved_is_named() {
    let tree = TREE.replace("after", "later");
    refused(
        "sls",
        |here| here.put("salt/a.sls", &tree),
        &["the tree: base: a.sls has changed"],
    );
    let remark = format!("{TREE}# a remark\n");
    refused(
        "remark",
        |here| here.put("salt/a.sls", &remark),
        &["the tree: base: a.sls has changed"],
    );
    refused(
        "broken",
        |here| here.put("salt/a.sls", "{% if %}"),
        &["the tree: base: a.sls has changed"],
    );
    refused(
        "template",
        |here| here.put("salt/t.j2", "bye\n"),
        &["the tree: base: t.j2 has changed"],
    );
    refused(
        "script",
        |here| here.put("salt/s.sh", "#!/bin/sh\n"),
        &["the tree: base: s.sh has changed"],
    );
    refused(
        "source",
        |here| here.put("own", "other\n"),
        &["own has changed"],
    );
    refused(
        "pillar",
        |here| here.put("pillar/p.sls", "who: you\n"),
        &["the pillar: who has changed"],
    );
    refused(
        "more pillar",
        |here| here.put("pillar/p.sls", "who: world\nmore: 1\n"),
        &["the pillar: more is new"],
    );
    refused(
        "grains",
        |here| here.put("etc/grains", "role: web\n"),
        &["the grains: role is new"],
    );
    refused(
        "id",
        |here| here.put("etc/minion.d/x.conf", "id: other\n"),
        &["the grains: id has changed"],
    );
}

#[test]
fn a_plan_that_others_could_have_written_is_refused() {
    let here = machine();
    let _ = here.plan(&["a"]);
    let before = here.snapshot();
    here.chmod("plan.json", 0o620);
    let (code, _, err) = here.apply();
    assert_eq!(code, 1);
    assert!(err.contains("other users can write to this plan"), "{err}");
    here.chmod("plan.json", 0o600);
    let plan = here.text("plan.json");
    for (from, to, said) in [
        ("\"version\": 1", "\"version\": 2", "has plan version 2"),
        ("\"version\": 1", "\"version\": 0", "has plan version 0"),
        (
            "\"kind\": \"pinch plan\"",
            "\"kind\": \"x\"",
            "is not a plan",
        ),
        ("\"basis\"", "\"other\"", "is an incomplete plan"),
        ("{\n", "", "is not valid JSON"),
        ("state.sls", "cmd.run", "cannot plan cmd.run"),
        (
            "\"outcome\": \"change\"",
            "\"outcome\": \"depends\"",
            "was planned as depends and is now change",
        ),
    ] {
        fs::write(here.path("plan.json"), plan.replacen(from, to, 1)).unwrap();
        let (code, _, err) = here.apply();
        assert_eq!(code, 1, "{said}: {err}");
        assert!(err.contains(said), "{said}: {err}");
    }
    assert_eq!(here.snapshot(), before);
    fs::remove_file(here.path("plan.json")).unwrap();
    assert_eq!(here.apply().0, 1);
}

/// A command changes the file of a later state that does not require it: that state fails, and
/// nothing after it is changed.
#[test]
fn what_moves_during_the_run_stops_it() {
    let here = Machine::new();
    here.put("out/f", "before\n");
    here.put(
        "salt/a.sls",
        "sly:\n  cmd.run: [{name: 'echo sly > OUT/f'}]\nf:\n  file.managed: [{name: OUT/f}, {contents: after}]\nlater:\n  file.managed: [{name: OUT/later}, {contents: x}]\n",
    );
    let (code, _) = here.plan(&["a"]);
    assert_eq!(code, 2);
    let (code, out, err) = here.apply();
    assert_eq!(code, 1, "{out}");
    assert!(err.contains("the run differed from the plan"), "{err}");
    assert!(
        out.contains("f (file.managed): ") && out.contains("has changed"),
        "{out}"
    );
    assert_eq!(here.text("out/f"), "sly\n");
    assert!(!here.path("out/later").exists());
}

/// During a run, neither planning nor applying a plan is possible.
#[test]
fn a_plan_waits_for_no_run_that_is_under_way() {
    let here = machine();
    let _ = here.plan(&["a"]);
    let folder = here.path("root/var/cache/salt/minion/runs");
    let lock = fs::File::open(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    fs::write(
        folder.join("lock"),
        r#"{"pid": 1, "jid": "20261122170000000000", "fun": "state.apply"}"#,
    )
    .unwrap();
    let before = here.snapshot();
    let output = here.run(&["plan", "-c", "etc", "a"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("is running as PID 1"),
        "{}",
        text(&output.stderr)
    );
    let (code, _, err) = here.apply();
    assert_eq!(code, 1);
    assert!(err.contains("is running as PID 1"), "{err}");
    assert_eq!(here.snapshot(), before);
}
