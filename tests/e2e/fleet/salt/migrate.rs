//! `pinch migrate minion`: the minion of Salt in a folder becomes one of Pinch, and back.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use super::{Salt, text};

/// Returns the files and links below a folder, with their contents.
fn tree(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(tree(&path)),
            false => drop(all.insert(path.clone(), text(&path))),
        }
    }
    all
}

/// Returns the keys and the configuration of a minion.
fn kept(salt: &Salt) -> BTreeMap<PathBuf, String> {
    let folders = ["m1/etc", "m1/pki"].map(|folder| tree(&salt.path(folder)));
    folders.into_iter().flatten().collect()
}

/// Runs `pinch migrate minion` for the minion m1.
fn migrate(salt: &Salt, more: &[&str]) -> (String, Option<i32>) {
    let answer = salt.on_minion("m1", &[&["migrate", "minion"], more].concat());
    (answer.out, answer.rc)
}

#[test]
fn a_minion_of_salt_is_migrated_in_place_and_back() {
    let Some(mut salt) = Salt::start("zeromq", "") else {
        return;
    };
    salt.write(
        "salt/_modules/own.py",
        "def say(what):\n    return 'own ' + what\n",
    );
    let etc = salt.path("m1/etc");
    fs::create_dir_all(etc.join("minion.d")).unwrap();
    fs::write(etc.join("grains"), "shelf: top\n").unwrap();
    salt.start_python_minion("m1", "");
    salt.answers("m1");
    salt.call("m1", &["saltutil.sync_modules"]);
    let keys = salt.run("salt-key", &["-f", "m1"]).out;
    salt.kill_python_minion("m1");
    // The report changes nothing.
    let before = kept(&salt);
    let (report, rc) = migrate(&salt, &[]);
    assert_eq!(rc, Some(0), "{report}");
    assert!(report.contains("m1/pki/minion.pem ("), "{report}");
    assert!(report.contains("m1/pki/minion_master.pub ("), "{report}");
    let (report, _) = migrate(&salt, &["--format=json"]);
    let report: Json = serde_json::from_str(&report).unwrap();
    assert_eq!(report["kept"]["custom modules"], "1", "{report}");
    assert_eq!(report["problems"], json!([]));
    assert_eq!(kept(&salt), before);
    // A link is replaced and not followed.
    let written = etc.join("minion.d/pinch-master-protocol.conf");
    let victim = salt.path("victim");
    fs::write(&victim, "# untouched\n").unwrap();
    symlink(&victim, &written).unwrap();
    let (report, rc) = migrate(&salt, &["--apply"]);
    assert_eq!(rc, Some(0), "{report}");
    assert_eq!(text(&victim), "# untouched\n");
    assert!(text(&written).contains("master_protocol: salt"), "{report}");
    salt.start_minion_again("m1");
    salt.answers("m1");
    assert_eq!(salt.salt(&["-G", "shelf:top", "test.ping"])["m1"], true);
    assert_eq!(salt.call("m1", &["own.say", "x"]), json!("own x"));
    assert_eq!(salt.run("salt-key", &["-f", "m1"]).out, keys);
    salt.minions.clear();
    // A second time there is nothing to do, and one undo is enough.
    let (undone, rc) = migrate(&salt, &["--undo", "--yes"]);
    assert_eq!(rc, Some(0), "{undone}");
    assert_eq!(fs::read_link(&written).unwrap(), victim);
    fs::remove_file(&written).unwrap();
    let mut after = kept(&salt);
    after.retain(|path, _| !path.ends_with("master_protocols"));
    assert_eq!(after, before);
    salt.start_python_minion_again("m1");
    salt.answers("m1");
    assert_eq!(salt.run("salt-key", &["-f", "m1"]).out, keys);
    assert_eq!(salt.call("m1", &["own.say", "x"]), json!("own x"));
}

#[test]
fn a_minion_that_cannot_be_migrated_is_reported_and_left_alone() {
    let Some(salt) = Salt::start("zeromq", "") else {
        return;
    };
    salt.configure_minion("m1", "minion_sign_messages: True\n");
    let before = tree(&salt.path("m1"));
    let (report, rc) = migrate(&salt, &["--apply"]);
    assert_eq!(rc, Some(1), "{report}");
    assert!(report.contains("What prevents it"), "{report}");
    assert!(report.contains("minion_sign_messages"), "{report}");
    assert_eq!(tree(&salt.path("m1")), before);
    let (_, rc) = migrate(&salt, &["--undo", "--yes"]);
    assert_eq!(rc, Some(1));
}
