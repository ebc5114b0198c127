//! The cases in which a run is not undone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::{below, code_and_text, jids, kept, pinch, planned};
use crate::resume::Machine;

const STATES: &str = "\
f:
  file.managed: [{name: @TMP@/f}, {contents: {{ pillar.get('word', 'x') }}}, {mode: '0640'}]
d:
  file.directory: [{name: @TMP@/d}]
g:
  file.absent: [{name: @TMP@/g}]
m:
  file.managed: [{name: @TMP@/m}, {replace: False}, {mode: '0600'}]
";

fn machine() -> Machine {
    let machine = Machine::with(&[("s.sls", STATES)]);
    machine.0.write("out/f", "before\n");
    machine.0.write("out/g", "gone\n");
    machine.0.write("out/m", "only its mode\n");
    let ran = machine.call("state.apply s");
    assert_eq!(ran.rc, Some(0), "{}{}", ran.out, machine.stderr());
    machine
}

/// Asserts that the undo is refused for this path with these words, and changes nothing.
fn refuses(machine: &Machine, path: &str, why: &str) {
    let out = machine.0.tmp();
    let before = below(&out);
    let jid = jids(machine).remove(0);
    let (code, told) = code_and_text(&pinch(machine, &["undo", "--yes", &jid]));
    assert_eq!(code, Some(1), "{told}");
    let line = format!("{}: {why}", out.join(path).display());
    assert!(
        told.contains(&line) && told.contains("nothing was changed"),
        "{line}\n{told}"
    );
    assert_eq!(below(&out), before, "{told}");
}

#[test]
fn what_moved_since_is_named_and_nothing_is_changed() {
    let machine = machine();
    let out = machine.0.tmp();
    let mode = |path: &str, mode| {
        fs::set_permissions(out.join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::write(out.join("f"), "y\n").unwrap();
    refuses(&machine, "f", "its contents differ");
    fs::write(out.join("f"), "x\n").unwrap();
    mode("f", 0o644);
    refuses(&machine, "f", "its mode is 0644, not 0640");
    mode("f", 0o640);
    fs::write(out.join("d/other"), "").unwrap();
    refuses(
        &machine,
        "d",
        "it contains other, which the run did not create",
    );
    fs::remove_file(out.join("d/other")).unwrap();
    fs::write(out.join("g"), "there again\n").unwrap();
    refuses(&machine, "g", "its kind is file, not absent");
    fs::remove_file(out.join("g")).unwrap();
    fs::write(out.join("m"), "its contents are not the run's\n").unwrap();
    let (code, told) = code_and_text(&pinch(&machine, &["undo", "--yes", "last"]));
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(
        fs::read_to_string(out.join("m")).unwrap(),
        "its contents are not the run's\n"
    );
    let left: Vec<_> = below(&out).into_keys().collect();
    assert_eq!(left, [out.join("f"), out.join("g"), out.join("m")]);
}

#[test]
fn a_later_run_is_named_and_can_be_undone_first_or_left_out() {
    let machine = machine();
    let out = machine.0.tmp();
    assert_eq!(
        machine.call("state.apply s pillar={'word':'later'}").rc,
        Some(0)
    );
    let all = jids(&machine);
    refuses(
        &machine,
        "f",
        &format!("its contents differ; run {} has changed it since", all[1]),
    );
    let path = out.join("f").display().to_string();
    let (code, told) = code_and_text(&pinch(
        &machine,
        &["undo", "--yes", &all[0], "--except", &path],
    ));
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(fs::read_to_string(out.join("f")).unwrap(), "later\n");
    assert!(out.join("g").exists() && !out.join("d").exists());
    for jid in [&all[1], &all[0]] {
        let (code, told) = code_and_text(&pinch(&machine, &["undo", "--yes", jid, "--only", "f"]));
        assert_eq!(code, Some(0), "{told}");
    }
    assert_eq!(fs::read_to_string(out.join("f")).unwrap(), "before\n");
}

#[test]
fn what_is_not_kept_is_named_and_the_rest_is_undone() {
    let machine = machine();
    let out = machine.0.tmp();
    let jid = jids(&machine).remove(0);
    fs::remove_dir_all(kept(&machine, &jid)).unwrap();
    let plan = planned(&machine, &[&jid]);
    assert_eq!(plan["cannot"].as_array().unwrap().len(), 2, "{plan:#}");
    let (code, told) = code_and_text(&pinch(&machine, &["undo", "--yes", &jid]));
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("f: its old contents are no longer saved (undo_quota)"),
        "{told}"
    );
    assert!(!out.join("d").exists() && !out.join("g").exists());
    assert_eq!(fs::read_to_string(out.join("f")).unwrap(), "x\n");
}

#[test]
fn nothing_is_kept_beyond_the_quota_and_the_oldest_goes_first() {
    let machine = Machine::with(&[("s.sls", STATES)]);
    let minion = fs::read_to_string(machine.0.path().join("etc/minion")).unwrap();
    let quota = |bytes: u64| {
        let text = format!("{minion}\nundo_quota: {bytes}\n");
        machine.0.write("etc/minion", &text);
    };
    let run = |held: usize| {
        machine.0.write("out/f", &"b".repeat(held));
        machine.0.write("out/m", "");
        assert_eq!(machine.call("state.apply s").rc, Some(0));
        jids(&machine).pop().unwrap()
    };
    quota(4000);
    let large = run(1001);
    let why = &planned(&machine, &[&large])["cannot"][0]["why"];
    assert_eq!(
        why,
        "its 1001 bytes exceeded the limit of 1000 for one file (undo_quota)"
    );
    let small: Vec<String> = (0..5).map(|n| run(900 + n)).collect();
    let has: Vec<bool> = small
        .iter()
        .map(|jid| kept(&machine, jid).is_dir())
        .collect();
    assert_eq!(has, [false, true, true, true, true]);
    let shown = code_and_text(&pinch(&machine, &["runs", "show", &small[4]])).1;
    assert!(shown.contains("904 bytes of old contents kept"), "{shown}");
    quota(0);
    let off = run(10);
    let plan = planned(&machine, &[&off]);
    assert_eq!(plan["steps"].as_array().unwrap().len(), 0, "{plan:#}");
    assert_eq!(plan["cannot"][0]["why"], "its changes were not recorded");
    pinch(&machine, &["runs", "prune", "--keep", "0"]);
    let runs = kept(&machine, &off);
    let left = fs::read_dir(runs.parent().unwrap()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
}
