//! Beacons that are changed while the minion runs.

use std::fs;

use super::Fleet;

#[test]
fn beacons_are_added_saved_and_removed_while_the_minion_runs() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.start_minion("m1", "");
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "-t", "60", "m1", "test.ping"]).rc == Some(0)
    });
    let call = |words: &[&str]| {
        let words: Vec<&str> = ["salt", "--out=txt", "-t", "60", "m1"]
            .iter()
            .chain(words)
            .copied()
            .collect();
        fleet.run(&words).out
    };
    let said = |words: &[&str], expected: &str| {
        let found = call(words);
        assert!(found.contains(expected), "{words:?}: {found}");
    };
    said(&["beacons.list", "return_yaml=False"], "{}");
    said(&["beacons.list_available"], "- cert_info");
    let settings = "[{\"percent\": 0}, {\"interval\": 1}]";
    said(
        &["beacons.add", "memusage", "[]"],
        "Beacon memusage configuration invalid, not adding.",
    );
    said(
        &["beacons.add", "nothing", settings],
        "Beacon \"nothing\" is not available.",
    );
    said(
        &["beacons.add", "memusage", settings, "test=True"],
        "Beacon: memusage would be added.",
    );
    said(
        &["beacons.add", "memusage", settings],
        "Added beacon: memusage.",
    );
    said(
        &["beacons.add", "memusage", settings],
        "Beacon memusage is already configured.",
    );
    let words = [
        "salt-run",
        "state.event",
        "tagmatch=salt/beacon/m1/memusage/",
        "count=1",
    ];
    let heard = fleet.run(&words).out;
    assert!(heard.contains("\"memusage\": "), "{heard}");
    let other = "[{\"percent\": 1}, {\"interval\": 1}]";
    said(
        &["beacons.modify", "memusage", other],
        "-percent:0\\n+percent:1",
    );
    said(
        &["beacons.disable_beacon", "memusage"],
        "Disabled beacon memusage on minion.",
    );
    said(&["beacons.list"], "- enabled: false");
    said(
        &["beacons.enable_beacon", "load"],
        "Beacon load is not currently configured.",
    );
    said(&["beacons.save"], "Beacons saved to ");
    let saved = fs::read_to_string(fleet.path("m1/etc/minion.d/beacons.conf")).unwrap();
    let expected = "beacons:\n  memusage:\n  - percent: 1\n  - interval: 1\n  - enabled: false\n";
    assert_eq!(saved, expected);
    said(&["beacons.delete", "memusage"], "Deleted beacon: memusage.");
    said(&["beacons.list", "return_yaml=False"], "{}");
    said(&["beacons.reset"], "Beacon configuration reset.");
    // Saved beacons are there after the minion restarts.
    fleet.kill_minion("m1");
    fleet.start_minion_again("m1");
    fleet.soon("the saved beacon is there again", || {
        let words = ["salt", "-t", "60", "m1", "beacons.list"];
        fleet.run(&words).out.contains("memusage")
    });
}

#[test]
fn beacon_states_manage_what_the_running_minion_looks_at() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.start_minion("m1", "");
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "-t", "60", "m1", "test.ping"]).rc == Some(0)
    });
    let state = |words: &str, expected: &str| {
        let words = format!("salt --out=json -t 60 m1 state.single beacon.{words}");
        let words: Vec<&str> = words.split(' ').collect();
        let found = fleet.run(&words).out;
        assert!(found.contains(expected), "{words:?}: {found}");
    };
    let load = "present memusage percent=0 interval=3600";
    state(
        &format!("{load} save=True test=True"),
        "Beacon: memusage would be added.\\nBeacon memusage would be saved",
    );
    state(
        &format!("{load} save=True"),
        "Adding memusage to beacons\\nBeacon memusage saved",
    );
    let saved = fs::read_to_string(fleet.path("m1/etc/minion.d/beacons.conf")).unwrap();
    assert!(saved.contains("percent: 0"), "{saved}");
    state(load, "Job memusage in correct state");
    let other = "present memusage percent=1 interval=3600";
    state(other, "Modifying memusage in beacons");
    state(
        "present nothing a=1",
        "Beacon \\\"nothing\\\" is not available.",
    );
    state("disabled memusage", "Disabled beacon memusage.");
    state("disabled nothing", "Job nothing is not configured.");
    state(
        "enabled memusage test=True",
        "Beacon memusage would be enabled.",
    );
    state("enabled memusage", "Enabled memusage from beacons");
    state("enabled nothing", "nothing not a configured beacon");
    state(
        "absent memusage test=True",
        "Beacon: memusage would be deleted.",
    );
    state(
        "absent memusage save=True",
        "Removed memusage from beacons\\nBeacon memusage saved",
    );
    state("absent memusage", "memusage not configured in beacons");
}

#[test]
fn states_with_the_argument_beacon_add_beacons_for_what_they_manage() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.start_minion("m1", "");
    let here = fleet.path("watched");
    let sls = format!(
        "{0}:\n  file.directory:\n    - beacon: True\n    - beacon_data: {{interval: 3600, exclude: ['*.swp']}}\n\
         {0}/file:\n  file.managed:\n    - contents: x\n    - beacon: True\n",
        here.display()
    );
    fleet.write("salt/watched.sls", &sls);
    let ran = |words: &[&str]| {
        let words = [&["salt", "--out=json", "--static", "-t", "60", "m1"], words].concat();
        fleet.run(&words).out
    };
    fleet.soon("the minion answers", || {
        ran(&["test.ping"]).contains("true")
    });
    let first = ran(&["state.apply", "watched"]);
    let name = format!("beacon_inotify_{}", here.display());
    for name in [&name, &format!("{name}/file")] {
        let comment = format!("\"Adding {name} to beacons\"");
        assert!(first.contains(&comment), "{first}");
    }
    let listed: serde_json::Value =
        serde_json::from_str(&ran(&["beacons.list", "return_yaml=False"])).unwrap();
    let path = here.to_str().unwrap();
    let folder = serde_json::json!({
        "mask": ["create", "delete", "modify"],
        "auto_add": true,
        "recurse": true,
        "exclude": ["*.swp"],
    });
    let expected = serde_json::json!([
        {"files": {path: folder}},
        {"interval": 3600},
        {"coalesce": false},
        {"beacon_module": "inotify"},
    ]);
    assert_eq!(listed["m1"][&name], expected);
    let again = ran(&["state.apply", "watched"]);
    assert!(
        again.contains(&format!("Job {name} in correct state")),
        "{again}"
    );
}
