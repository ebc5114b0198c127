//! Applies and undoes every state that manages files.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, SystemTime};

use super::{below, code_and_text, jids, kept, pinch, planned};
use crate::resume::Machine;

const STATES: &str = "\
new:
  file.managed: [{name: @TMP@/new/deep/file}, {contents: 'new'}, {makedirs: True}, {mode: '0640'}]
old:
  file.managed: [{name: @TMP@/old}, {source: 'salt://source'}, {mode: '0600'}]
through:
  file.managed: [{name: @TMP@/led}, {contents: 'through the link'}]
again:
  file.append: [{name: @TMP@/old}, {text: 'a last line'}]
prepended:
  file.prepend: [{name: @TMP@/lines}, {text: 'a first line'}]
replaced:
  file.replace: [{name: @TMP@/lines}, {pattern: 'two'}, {repl: '2'}, {backup: False}]
lined:
  file.line: [{name: @TMP@/lines}, {mode: insert}, {content: 'at the end'}, {location: end}]
block:
  file.blockreplace: [{name: @TMP@/lines}, {append_if_not_found: True}, {content: 'of a block'}]
commented:
  file.comment: [{name: @TMP@/commented}, {regex: '^one'}]
keys:
  file.keyvalue: [{name: @TMP@/keys}, {key: a}, {value: '2'}, {separator: '='}]
serialized:
  file.serialize: [{name: @TMP@/data}, {dataset: {a: 1}}, {serializer: json}]
folder:
  file.directory: [{name: @TMP@/folder}, {mode: '0711'}, {recurse: [mode]}, {file_mode: '0604'}]
cleaned:
  file.directory: [{name: @TMP@/cleaned}, {clean: True}]
recursed:
  file.recurse: [{name: @TMP@/recursed}, {source: 'salt://tree'}, {clean: True}, {file_mode: '0600'}]
linked:
  file.symlink: [{name: @TMP@/link}, {target: elsewhere}]
forced:
  file.symlink: [{name: @TMP@/forced}, {target: new}, {force: True}]
hard:
  file.hardlink: [{name: @TMP@/hard}, {target: @TMP@/lines}]
gone:
  file.absent: [{name: @TMP@/gone}]
renamed:
  file.rename: [{name: @TMP@/renamed}, {source: @TMP@/source}]
copied:
  file.copy: [{name: @TMP@/copied}, {source: @TMP@/keys}]
copied over:
  file.copy: [{name: @TMP@/over}, {source: @TMP@/keys}, {force: True}]
touched:
  file.touch: [{name: @TMP@/touched}]
pipe:
  file.mknod: [{name: @TMP@/pipe}, {ntype: p}, {mode: '0640'}]
option:
  ini.options_present: [{name: @TMP@/ini}, {sections: {s: {a: 2}}}]
";

fn machine() -> Machine {
    let machine = Machine::with(&[
        ("s.sls", STATES),
        ("source", "one\nof the source\n"),
        ("tree/in/file", "new\n"),
        ("tree/same", "same\n"),
    ]);
    let out = machine.0.tmp();
    for (name, text) in [
        ("old", "one\ntwo\n"),
        ("target", "of the link\n"),
        ("lines", "one\ntwo\nthree\n"),
        ("commented", "one\ntwo\n"),
        ("keys", "a=1\nb=1\n"),
        ("data", "{}\n"),
        ("folder/in/file", "x\n"),
        ("cleaned/in/file", "y\n"),
        ("recursed/other", "z\n"),
        ("recursed/same", "same\n"),
        ("forced", "was a file\n"),
        ("gone/in/file", "g\n"),
        ("gone/secret", "s\n"),
        ("source", "renamed\n"),
        ("over", "copied over\n"),
        ("touched", "t\n"),
        ("ini", "[s]\na = 1\nb = 1\n"),
    ] {
        machine.0.write(format!("out/{name}"), text);
    }
    symlink("target", out.join("led")).unwrap();
    symlink("nowhere", out.join("gone/link")).unwrap();
    fs::set_permissions(out.join("gone/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(out.join("gone/in"), fs::Permissions::from_mode(0o750)).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 500);
    let touched = fs::File::open(out.join("touched")).unwrap();
    touched.set_modified(long_ago).unwrap();
    machine
}

#[test]
fn every_state_of_files_is_undone_and_the_undo_too() {
    let machine = machine();
    let out = machine.0.tmp();
    let before = below(&out);
    let time = fs::metadata(out.join("touched"))
        .unwrap()
        .modified()
        .unwrap();
    let ran = machine.call("state.apply s");
    assert_eq!(ran.rc, Some(0), "{}{}", ran.out, machine.stderr());
    let after = below(&out);
    assert_ne!(before, after);
    let jid = jids(&machine).pop().unwrap();
    let kept = kept(&machine, &jid);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&kept), 0o700);
    assert!(
        fs::read_dir(&kept)
            .unwrap()
            .all(|entry| mode(&entry.unwrap().path()) == 0o600)
    );

    let dry = pinch(&machine, &["undo", "--dry-run", &jid]);
    let (code, told) = code_and_text(&dry);
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains(&format!(
            "- {}: file is removed",
            out.join("new/deep/file").display()
        )),
        "{told}"
    );
    assert!(told.contains("    -2\n    +two\n"), "{told}");
    assert!(told.contains("0 cannot be undone"), "{told}");
    let asked = code_and_text(&pinch(&machine, &["undo", &jid]));
    assert_eq!(asked.0, Some(1), "{}", asked.1);
    assert!(asked.1.contains("--yes"), "{}", asked.1);
    assert_eq!(below(&out), after, "nothing is changed unasked");

    let (code, told) = code_and_text(&pinch(&machine, &["undo", "--yes", &jid]));
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(below(&out), before, "{told}");
    assert_eq!(
        fs::metadata(out.join("touched"))
            .unwrap()
            .modified()
            .unwrap(),
        time
    );
    let (code, told) = code_and_text(&pinch(&machine, &["undo", "--yes", &jid]));
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("0 to undo"), "{told}");

    let (code, told) = code_and_text(&pinch(&machine, &["undo", "--yes", "last"]));
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(
        below(&out),
        after,
        "undoing the undo must restore the result of the run: {told}"
    );
}

#[test]
fn a_run_inside_an_orchestration_is_undone_and_what_cannot_be_is_named() {
    let orch = "\
step:
  salt.state: [{tgt: '*'}, {sls: s}]
told:
  cmd.run: [{name: touch @TMP@/by_command}]
called:
  salt.function: [{name: cmd.run}, {tgt: '*'}, {arg: ['true']}]
";
    let sls =
        "f:\n  file.managed: [{name: @TMP@/f}, {contents: x}]\nc:\n  cmd.run: [{name: 'true'}]\n";
    let machine = Machine::with(&[("orch.sls", orch), ("s.sls", sls)]);
    let ran = machine.call("state.orchestrate orch");
    assert_eq!(ran.rc, Some(0), "{}{}", ran.out, machine.stderr());
    let plan = planned(&machine, &["last"]);
    let cannot: Vec<&str> = plan["cannot"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        cannot,
        [
            "c (cmd.run)",
            "told (cmd.run)",
            "called (salt.function cmd.run)"
        ],
        "{plan:#}"
    );
    let (code, told) = code_and_text(&pinch(&machine, &["undo", "--yes", "last"]));
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("! told (cmd.run): a command cannot be undone"),
        "{told}"
    );
    let left: Vec<_> = below(&machine.0.tmp()).into_keys().collect();
    assert_eq!(left, [machine.0.tmp().join("by_command")]);
}

/// An earlier secret is no longer in the pillar, so the minion cannot mask it by its value. It is
/// still hidden where the current secret replaces it.
#[test]
fn a_secret_is_neither_shown_nor_kept() {
    let sls =
        "f:\n  file.managed: [{name: @TMP@/f}, {contents: 'word {{ pillar.a_pass }} here'}]\n";
    let machine = Machine::with(&[("s.sls", sls)]);
    machine
        .0
        .write("etc/minion.d/own.conf", "secret_keys: ['*_pass']\n");
    machine
        .0
        .write("srv/pillar/top.sls", "base:\n  '*':\n    - p\n");
    let ran = |word: &str| {
        machine
            .0
            .write("srv/pillar/p.sls", &format!("a_pass: {word}\n"));
        let ran = machine.call("state.apply s");
        assert_eq!(ran.rc, Some(0), "{}{}", ran.out, machine.stderr());
    };
    let undone = || {
        let (code, told) = code_and_text(&pinch(&machine, &["undo", "--yes", "last"]));
        assert!(code == Some(0) && !told.contains("planted"), "{told}");
        told
    };
    let file = machine.0.tmp().join("f");
    ran("earlier-planted");
    ran("later-planted");
    assert!(
        undone()
            .contains("it contains or contained a secret, and files with secrets are not copied")
    );
    let left = fs::read_to_string(&file).unwrap();
    assert_eq!(left, "word later-planted here\n");
    fs::remove_file(&file).unwrap();
    ran("earlier-planted");
    undone();
    assert!(!file.exists());
    let runs = machine.0.path().join("root/var/cache/salt/minion/runs");
    for (path, lies) in below(&runs) {
        let text = String::from_utf8_lossy(&lies.holds).into_owned();
        assert!(!text.contains("planted"), "{}: {text}", path.display());
    }
}
