//! Random states over random files: a run is undone completely, even if it was killed, and the next
//! undo finishes one that was killed. After a change in between, an undo changes nothing.
//!
//! `PINCH_UNDO_SEEDS=FROM..TO` runs other seeds than the default ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tests::chance::{Chance, seeds};
use tests::program::{in_recorded_environment, pinch_program};

use super::{Snapshot, below, code_and_text, pinch, planned};
use crate::resume::Machine;

const PATHS: [&str; 9] = ["a", "b", "d", "d/a", "d/e", "d/e/a", "d/e/b", "l", "s/a"];
const TEXTS: [&str; 4] = ["alpha", "beta\\ngamma", "k=1", "[s]\\nk = 1"];
const MODES: [&str; 4] = ["'0600'", "'0644'", "'0750'", "'0711'"];

/// Returns a random state without its id.
fn body(chance: &mut Chance) -> String {
    let (path, other) = (*chance.one(&PATHS), *chance.one(&PATHS));
    // Copying a folder into itself would fill the disk.
    let other = match path.starts_with(other) {
        true => "b",
        false => other,
    };
    let (text, mode) = (*chance.one(&TEXTS), *chance.one(&MODES));
    match chance.below(19) {
        0 | 1 => format!(
            "file.managed: [{{name: @TMP@/{path}}}, {{contents: \"{text}\"}}, {{makedirs: True}}, {{mode: {mode}}}]"
        ),
        2 => format!(
            "file.managed: [{{name: @TMP@/{path}}}, {{source: 'salt://tree/f'}}, {{force: True}}, {{follow_symlinks: False}}]"
        ),
        3 => format!(
            "file.directory: [{{name: @TMP@/{path}}}, {{makedirs: True}}, {{mode: {mode}}}, {{force: True}}]"
        ),
        4 => format!("file.directory: [{{name: @TMP@/{path}}}, {{clean: True}}]"),
        5 => {
            format!("file.symlink: [{{name: @TMP@/{path}}}, {{target: {other}}}, {{force: True}}]")
        }
        6 | 7 => format!("file.absent: [{{name: @TMP@/{path}}}]"),
        8 => format!(
            "file.append: [{{name: @TMP@/{path}}}, {{text: \"{text}\"}}, {{makedirs: True}}]"
        ),
        9 => format!(
            "file.replace: [{{name: @TMP@/{path}}}, {{pattern: a}}, {{repl: bb}}, {{backup: .bak}}]"
        ),
        10 => format!(
            "file.recurse: [{{name: @TMP@/{path}}}, {{source: 'salt://tree'}}, {{clean: True}}]"
        ),
        11 => format!(
            "file.rename: [{{name: @TMP@/{path}}}, {{source: @TMP@/{other}}}, {{force: True}}]"
        ),
        12 => format!(
            "file.copy: [{{name: @TMP@/{path}}}, {{source: @TMP@/{other}}}, {{force: True}}]"
        ),
        13 => format!("file.touch: [{{name: @TMP@/{path}}}, {{makedirs: True}}]"),
        14 => format!(
            "file.hardlink: [{{name: @TMP@/{path}}}, {{target: @TMP@/{other}}}, {{force: True}}]"
        ),
        15 => format!(
            "file.serialize: [{{name: @TMP@/{path}}}, {{dataset: {{a: {text:?}}}}}, {{serializer: json}}]"
        ),
        16 => format!(
            "file.blockreplace: [{{name: @TMP@/{path}}}, {{append_if_not_found: True}}, {{content: \"{text}\"}}]"
        ),
        17 => format!("file.mknod: [{{name: @TMP@/{path}}}, {{ntype: p}}, {{mode: {mode}}}]"),
        _ => {
            format!("ini.options_present: [{{name: @TMP@/{path}}}, {{sections: {{s: {{k: 2}}}}}}]")
        }
    }
}

fn grown(chance: &mut Chance) -> Machine {
    let mut sls = String::new();
    for number in 0..3 + chance.below(9) {
        let _ = write!(sls, "s{number}:\n  {}\n", body(chance));
    }
    let machine = Machine::with(&[
        ("s.sls", &sls),
        ("tree/f", "of the tree\n"),
        ("tree/e/b", "deep\n"),
    ]);
    let out = machine.0.tmp();
    for path in PATHS {
        let place = out.join(path);
        let above = place.parent().unwrap();
        let taken = place.symlink_metadata().is_ok();
        if !chance.comes(60) || taken || fs::create_dir_all(above).is_err() {
            continue;
        }
        match chance.below(8) {
            0 => symlink(chance.one(&PATHS), &place).unwrap(),
            1 | 2 => fs::create_dir(&place).unwrap(),
            _ => fs::write(
                &place,
                chance.one(&["alpha\n", "k=1\n[s]\nk = 1\n", "no end"]),
            )
            .unwrap(),
        }
        if !place.is_symlink() {
            let mode = *chance.one(&[0o644, 0o755, 0o700, 0o2755]);
            fs::set_permissions(&place, Permissions::from_mode(mode)).unwrap();
        }
    }
    machine
}

/// Calls the program and kills it after a while. Returns whether it finished before.
fn killed(machine: &Machine, words: &[&str], after: Duration) -> bool {
    let mut command = Command::new(pinch_program());
    let mut child = in_recorded_environment(&mut command)
        .env("SALT_CONFIG_DIR", machine.0.path().join("etc"))
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    child.wait().unwrap().code().is_some()
}

/// Changes something that an undo would change. Returns a function that restores it, or `None` if
/// there is nothing to change.
fn moved(chance: &mut Chance, plan: &Value) -> Option<Box<dyn FnOnce()>> {
    let steps = plan["steps"].as_array().unwrap();
    if steps.is_empty() {
        return None;
    }
    let step = chance.one(steps);
    let path = PathBuf::from(step["path"].as_str().unwrap());
    match (
        step["now"]["kind"].as_str().unwrap(),
        step["do"].as_str().unwrap(),
    ) {
        ("file", "remove" | "restore") => {
            let held = fs::read(&path).unwrap();
            fs::write(&path, [&held[..], b"moved"].concat()).unwrap();
            Some(Box::new(move || fs::write(&path, held).unwrap()))
        }
        ("directory", "remove" | "restore") => {
            let inside = path.join("foreign");
            fs::write(&inside, "").unwrap();
            Some(Box::new(move || fs::remove_file(&inside).unwrap()))
        }
        ("absent", _) if path.parent().unwrap().is_dir() => {
            fs::write(&path, "there").unwrap();
            Some(Box::new(move || fs::remove_file(&path).unwrap()))
        }
        ("symlink", _) => {
            let target = fs::read_link(&path).unwrap();
            fs::remove_file(&path).unwrap();
            symlink("moved", &path).unwrap();
            Some(Box::new(move || {
                fs::remove_file(&path).unwrap();
                symlink(target, &path).unwrap();
            }))
        }
        _ => None,
    }
}

/// Asserts that an undo after another change is refused and changes nothing.
fn refuses(chance: &mut Chance, machine: &Machine, out: &Path, told: &str) {
    if let Some(mend) = moved(chance, &planned(machine, &["last"])) {
        let lies = below(out);
        let (code, refusal) = code_and_text(&pinch(machine, &["undo", "--yes", "last"]));
        assert_eq!(code, Some(1), "{refusal}\n{told}");
        assert_eq!(below(out), lies, "{refusal}\n{told}");
        mend();
    }
}

fn differences(is: &BTreeMap<PathBuf, Snapshot>, was: &BTreeMap<PathBuf, Snapshot>) -> String {
    let paths = is.keys().chain(was.keys());
    let differ = paths.filter(|path| is.get(*path) != was.get(*path));
    let shown = differ.map(|path| {
        format!(
            "{}: {:?}, was {:?}\n",
            path.display(),
            is.get(path),
            was.get(path)
        )
    });
    shown.collect()
}

fn holds(seed: u64) {
    let mut chance = Chance(seed);
    let machine = grown(&mut chance);
    let out = machine.0.tmp();
    let before = below(&out);
    let sls = fs::read_to_string(machine.0.path().join("srv/salt/s.sls")).unwrap();
    let told = format!("seed {seed}\n{sls}");
    let words = ["salt-call", "--local", "state.apply", "s"];
    if seed % 3 == 2 {
        killed(&machine, &words, Duration::from_millis(chance.below(400)));
    } else {
        pinch(&machine, &words);
    }
    if super::jids(&machine).is_empty() {
        assert_eq!(
            below(&out),
            before,
            "the run was killed before it began, but changed something: {told}"
        );
        return;
    }
    let jid = super::jids(&machine).pop().unwrap();
    if seed % 3 == 1 {
        refuses(&mut chance, &machine, &out, &told);
    }
    for _ in 0..chance.below(3) {
        let after = Duration::from_millis(chance.below(300));
        killed(&machine, &["undo", "--yes", &jid], after);
    }
    let (code, said) = code_and_text(&pinch(&machine, &["undo", "--yes", &jid]));
    assert_eq!(code, Some(0), "{said}\n{told}");
    let after = below(&out);
    assert!(
        after == before,
        "{}{said}\n{told}",
        differences(&after, &before)
    );
}

#[test]
fn random_states_are_undone_to_the_last_bit() {
    seeds("PINCH_UNDO_SEEDS", 12).for_each(holds);
}
