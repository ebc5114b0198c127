//! Random trees: applying a plan does what the plan says and what `salt-call` does, byte for byte;
//! any single change before it causes a refusal.
//!
//! `PINCH_PLAN_SEEDS` is the number of trees, `PINCH_PLAN_SEED` the first seed; it is the only one if
//! no number is given.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tests::chance::Chance;

use super::machine::{Machine, Snapshot, text};
use super::schema;

/// The number of trees that CI tests.
const SEEDS: u64 = 6;

const FILES: [&str; 6] = ["f0", "f1", "f2", "d0/f3", "d0/f4", "d1/sub/f5"];
const FOLDERS: [&str; 3] = ["d0", "d1", "d2"];
const LINKS: [&str; 2] = ["l0", "l1"];
const TEXTS: [&str; 4] = ["alpha", "beta\\ngamma", "who: {{ pillar.who }}", "12345"];
const MODES: [&str; 3] = ["'0600'", "'0644'", "'0750'"];

/// One state without its requisites.
fn body(lot: &mut Chance, number: u64) -> (&'static str, String) {
    let file = *lot.one(&FILES);
    let text = *lot.one(&TEXTS);
    match lot.below(11) {
        0 | 1 => {
            let mode = *lot.one(&MODES);
            (
                "file.managed",
                format!("name: OUT/{file}, contents: \"{text}\", makedirs: True, mode: {mode}"),
            )
        }
        2 | 3 => {
            let template = lot.below(3);
            (
                "file.managed",
                format!(
                    "name: OUT/{file}, source: 'salt://t{template}.j2', template: jinja, makedirs: True"
                ),
            )
        }
        4 => {
            let mode = lot.one(&MODES).replace("'06", "'07");
            (
                "file.directory",
                format!("name: OUT/{}, mode: {mode}", lot.one(&FOLDERS)),
            )
        }
        5 => (
            "file.symlink",
            format!("name: OUT/{}, target: {file}, force: True", lot.one(&LINKS)),
        ),
        6 => (
            "file.absent",
            format!("name: OUT/{}", lot.one(&["f0", "f1", "d2", "l0", "d0/f4"])),
        ),
        7 => (
            "file.append",
            format!("name: OUT/{file}, text: \"{text}\", makedirs: True"),
        ),
        8 => (
            "file.replace",
            format!(
                "name: OUT/{file}, pattern: a, repl: b, ignore_if_missing: True, backup: False"
            ),
        ),
        9 => (
            "cmd.run",
            format!(
                "name: echo {number} >> OUT/made{0}, creates: OUT/made{0}",
                lot.below(2)
            ),
        ),
        _ => (
            "cmd.run",
            format!("name: echo {number} >> OUT/log, unless: test -e OUT/{file}"),
        ),
    }
}

fn sls(lot: &mut Chance) -> String {
    let mut sls = String::new();
    let mut before: Vec<(&str, String)> = Vec::new();
    for number in 0..5 + lot.below(8) {
        let id = format!("s{number}");
        let (function, arguments) = body(lot, number);
        let _ = write!(sls, "{id}:\n  {function}:\n");
        let inner = arguments.split(", ");
        for argument in inner {
            let _ = writeln!(sls, "    - {argument}");
        }
        if !before.is_empty() && lot.comes(35) {
            let kind = *lot.one(&["require", "require", "onchanges", "watch"]);
            let (module, target) = lot.one(&before);
            let _ = writeln!(sls, "    - {kind}: [{{{module}: {target}}}]");
        }
        before.push((function.split('.').next().unwrap(), id));
    }
    sls
}

fn grown(lot: &mut Chance) -> Machine {
    let here = Machine::new();
    here.put("salt/a.sls", &sls(lot));
    here.put("salt/t0.j2", "who {{ pillar.who }}\nalpha\n");
    here.put(
        "salt/t1.j2",
        "there {{ salt['file.file_exists']('OUT/f0') }}\n",
    );
    here.put("salt/t2.j2", "plain\n");
    for file in FILES {
        if lot.comes(50) {
            let text = *lot.one(&["alpha\n", "who world\nalpha\n", "plain\n", "no end"]);
            here.put(&format!("out/{file}"), text);
            let mode = *lot.one(&[0o600, 0o644, 0o640]);
            here.chmod(&format!("out/{file}"), mode);
        }
    }
    if lot.comes(40) {
        symlink("f0", here.path("out/l0")).unwrap();
    }
    here
}

/// Changes one thing on which the plan is based, and returns its name.
fn moved(lot: &mut Chance, here: &Machine, plan: &Value) -> String {
    let states = plan["states"].as_array().unwrap().iter();
    let files: Vec<&Value> = states
        .flat_map(|state| state["files"].as_array().into_iter().flatten())
        .collect();
    let tree = plan["basis"]["tree"]["parts"].as_object().unwrap();
    match lot.below(6) {
        0 => {
            here.put("pillar/p.sls", "who: you\n");
            "pillar".into()
        }
        1 => {
            let read: Vec<&str> = tree
                .keys()
                .filter_map(|key| key.strip_prefix("base: "))
                .filter(|path| here.path("salt").join(path).is_file())
                .collect();
            let path = format!("salt/{}", lot.one(&read));
            let remark = if path.ends_with(".sls") {
                "# x\n"
            } else {
                "{# x #}"
            };
            here.put(&path, &(here.text(&path) + remark));
            path
        }
        _ if files.is_empty() => {
            here.put("pillar/p.sls", "who: me\n");
            "pillar".into()
        }
        _ => {
            let path = PathBuf::from(lot.one(&files)["path"].as_str().unwrap());
            touch(lot, &path);
            path.display().to_string()
        }
    }
}

/// Changes the file, folder or link at a path.
fn touch(lot: &mut Chance, path: &Path) {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => {
            fs::remove_file(path).unwrap();
            symlink("moved", path).unwrap();
        }
        Ok(found) if found.is_dir() || lot.comes(40) => {
            fs::set_permissions(path, Permissions::from_mode(0o711)).unwrap();
        }
        Ok(_) if lot.comes(30) => fs::remove_file(path).unwrap(),
        Ok(_) => fs::write(path, "moved").unwrap(),
        Err(_) => {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "moved").unwrap();
        }
    }
}

/// Asserts that each file has the contents that the plan predicts, if it predicts any, and that
/// all other files are unchanged.
fn as_said(here: &Machine, plan: &Value, before: &BTreeMap<PathBuf, Snapshot>) {
    let out = here.path("out");
    let mut ends: BTreeMap<PathBuf, Option<&str>> = BTreeMap::new();
    let mut free = false;
    for state in plan["states"].as_array().unwrap() {
        let acts = state["outcome"] == "depends" || state["outcome"] == "change";
        free |= acts && state["function"] == "cmd.run";
        for file in state["files"].as_array().into_iter().flatten() {
            let path = PathBuf::from(file["path"].as_str().unwrap());
            let known = (state["outcome"] == "change")
                .then(|| file["then"]["sha256"].as_str())
                .flatten();
            if acts || !ends.contains_key(&path) {
                ends.insert(path, known);
            }
        }
    }
    for (path, end) in &ends {
        // A folder that is removed or made later takes its files along.
        let alone = !ends
            .keys()
            .any(|other| other != path && path.starts_with(other));
        if let (Some(end), true) = (end, alone) {
            let contents = fs::read(path).unwrap();
            let hash = ring::digest::digest(&ring::digest::SHA256, &contents);
            let hash: String = hash
                .as_ref()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(hash, **end, "{}", path.display());
        }
    }
    let after = here.snapshot();
    let touched = |path: &Path| {
        ends.keys()
            .any(|end| path.starts_with(end) || end.starts_with(path))
    };
    for (path, lies) in before.iter().filter(|(path, _)| !touched(&out.join(path))) {
        assert!(
            free || after.get(path) == Some(lies),
            "the plan does not have {}",
            path.display()
        );
    }
}

/// Tests one tree. Returns false if its plan has states that fail, so that it is only refused.
fn applied(seed: u64) -> bool {
    let lot = &mut Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
    let here = grown(lot);
    let before = here.snapshot();
    let (code, plan) = here.plan(&["a"]);
    let tree = here.text("salt/a.sls");
    let told = format!("seed {seed}\n{tree}\n{}", here.text("plan.json"));
    schema::hold(&plan);
    assert_eq!(
        here.snapshot(),
        before,
        "planning changed something: {told}"
    );
    if plan["summary"]["fail"] != 0 {
        assert_eq!((code, here.apply().0), (1, 1), "{told}");
        assert_eq!(here.snapshot(), before, "{told}");
        return false;
    }
    let kept = here.text("salt/a.sls");
    let files: Vec<(String, String)> = ["pillar/p.sls", "salt/t0.j2", "salt/t1.j2", "salt/t2.j2"]
        .iter()
        .map(|path| ((*path).to_owned(), here.text(path)))
        .collect();
    let what = moved(lot, &here, &plan);
    let lies = here.snapshot();
    let (code, out, err) = here.apply();
    assert_eq!(
        code, 1,
        "the plan was applied although {what} had changed\n{out}{err}\n{told}"
    );
    assert!(err.contains("nothing was changed"), "{what}: {err}\n{told}");
    assert_eq!(here.snapshot(), lies, "{what}: {told}");
    here.put("salt/a.sls", &kept);
    files.iter().for_each(|(path, text)| here.put(path, text));
    here.restore(&before);
    let run = here.run(&["salt-call", "-c", "etc", "--out=json", "state.apply", "a"]);
    let wanted = here.snapshot();
    here.restore(&before);
    let (code, out, err) = here.apply();
    assert_eq!(
        Some(code),
        run.status.code(),
        "{out}{err}\n{}\n{told}",
        text(&run.stdout)
    );
    assert_eq!(here.snapshot(), wanted, "{out}{err}\n{told}");
    as_said(&here, &plan, &before);
    true
}

#[test]
fn a_plan_applied_does_what_it_said_and_any_change_before_makes_it_refuse() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let first = number("PINCH_PLAN_SEED");
    let count =
        number("PINCH_PLAN_SEEDS").unwrap_or_else(|| if first.is_some() { 1 } else { SEEDS });
    let first = first.unwrap_or(1);
    let good = (first..first + count).filter(|seed| applied(*seed)).count() as u64;
    assert!(
        good * 3 >= count,
        "{good} of {count} plans could be applied"
    );
}
