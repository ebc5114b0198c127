//! The hosts that `salt-ssh -H` lists, for each kind of roster.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value as Json;
use tests::program::{in_recorded_environment, pinch_program};
use tests::scratch::corpus;

use crate::fleet::Fleet;

/// Copies a folder, and makes the copy trusted: its files belong to the user.
fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copied(&entry.path(), &place);
            continue;
        }
        fs::write(&place, fs::read(entry.path()).unwrap()).unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o755;
        fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn hosts(listed: &Json) -> BTreeMap<String, String> {
    let rosters = listed.as_object().unwrap().values();
    let hosts = rosters.flat_map(|roster| roster.as_object().unwrap());
    hosts
        .map(|(id, host)| (id.clone(), host.as_str().unwrap().to_owned()))
        .collect()
}

#[test]
fn ssh_rosters_list_the_hosts_that_salt_finds() {
    let mut seen = 0;
    for case in fs::read_dir(corpus().join("ssh")).unwrap() {
        let case = case.unwrap();
        if !case.path().join("case.json").exists() {
            continue;
        }
        let (name, scratch) = (case.file_name(), tempfile::tempdir().unwrap());
        let folder = scratch.path().join("case");
        copied(&case.path(), &folder);
        let here = folder.to_str().unwrap();
        let read = |file: &str| -> Option<Json> {
            let text = fs::read_to_string(folder.join(file)).ok()?;
            Some(serde_json::from_str(&text.replace("@CASE@", here)).unwrap())
        };
        let given = read("case.json").unwrap();
        if given.get("cache").is_some() {
            continue;
        }
        let mut opts = given["opts"].clone();
        opts["root_dir"] = scratch.path().to_str().unwrap().into();
        fs::write(scratch.path().join("master"), opts.to_string()).unwrap();
        let done = in_recorded_environment(&mut Command::new(pinch_program()))
            .args(["salt-ssh", "-H", "--out=json", "-c"])
            .arg(scratch.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(0), "{name:?}: {err}");
        let listed: Json = serde_json::from_slice(&done.stdout).unwrap();
        if let Some(wanted) = read("listed.json") {
            assert_eq!(listed, wanted, "{name:?}");
        }
        let found = read("ours.json").unwrap_or_else(|| read("salt.json").unwrap());
        let wanted = found[0].as_object().unwrap().iter();
        let wanted: BTreeMap<String, String> = wanted
            .map(|(id, entry)| (id.clone(), entry["host"].as_str().unwrap().to_owned()))
            .collect();
        assert_eq!(hosts(&listed), wanted, "{name:?}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen} cases");
}

#[test]
fn ssh_rosters_contain_the_minions_of_a_running_master() {
    let mut fleet =
        Fleet::with("auto_accept: True\nroster_order: {host: [{grain: address}, id]}\n");
    fleet.start_minion("m1", "grains: {address: 10.0.0.7}\n");
    fleet.start_minion("m2", "");
    fleet.start_minion("m3", "grains: {address: '-oProxyCommand=id'}\n");
    fleet.soon("the master has the grains", || {
        let cached = fleet
            .run(&["salt-run", "--out=json", "cache.list", "grains"])
            .out;
        ["m1", "m2", "m3"].iter().all(|id| cached.contains(id))
    });
    let listed = fleet.run(&["salt-ssh", "--roster=cache", "-H", "--out=json"]);
    assert_eq!(listed.rc, Some(0), "{}", fleet.logs());
    let listed: Json = serde_json::from_str(&listed.out).unwrap();
    let wanted = r#"{"cache": {"m1": "10.0.0.7", "m2": "m2"}}"#;
    assert_eq!(listed, serde_json::from_str::<Json>(wanted).unwrap());
    assert!(
        fleet
            .logs()
            .contains("an entry is skipped: m3: invalid host")
    );
    fleet.kill_master();
    let gone = fleet.run(&["salt-ssh", "--roster=cache", "-H"]);
    assert_eq!(gone.rc, Some(1));
    assert!(
        fleet.logs().contains("it needs a running master"),
        "{}",
        fleet.logs()
    );
}
