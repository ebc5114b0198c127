#![expect(clippy::disallowed_methods, reason = "a test's own files")]

mod recorded;

use std::fs;

use super::*;

/// Returns what was recorded of Salt.
pub(super) fn corpus(name: &str) -> Value {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/beacons");
    json(&fs::read_to_string(folder.join(name)).unwrap())
}

fn json(text: &str) -> Value {
    value::json::read(text).unwrap()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn beacons(config: &str) -> Beacons {
    Beacons::new("web1", &json(config), &Map::new(), seconds(0))
}

/// Answers functions like a machine whose state is fixed.
fn ask(function: &str, args: Vec<Value>) -> Result<Value, String> {
    match (function, args.first().and_then(Value::as_str)) {
        ("ps.swap_memory", _) => Ok(json(r#"{"percent": 10.0}"#)),
        ("ps.virtual_memory", _) => Ok(json(r#"{"percent": 40.5}"#)),
        ("mount.active", _) => Ok(json(r#"{"/": {}, "/home": {}, "/home/a": {}}"#)),
        ("ps.disk_usage", Some("/")) => Ok(json(r#"{"percent": 90.1}"#)),
        ("ps.disk_usage", _) => Ok(json(r#"{"percent": 50.0}"#)),
        ("service.status", Some("sshd")) => Ok(true.into()),
        ("service.status", _) => Ok(false.into()),
        ("status.loadavg", _) => Ok(json(r#"{"1-min": 0.5, "5-min": 0.25, "15-min": 0.1}"#)),
        ("status.w", _) => Ok(json(r#"[{"user": "root"}, {"user": "a"}]"#)),
        ("status.time", _) => Ok("Friday".into()),
        _ => Err(format!("'{function}' is not available.")),
    }
}

/// Returns the events of the first poll as JSON.
fn first_poll(config: &str) -> Vec<String> {
    let mut beacons = beacons(config);
    assert_eq!(beacons.faults(), []);
    let fired = beacons.poll(seconds(0), false, &ask).into_iter();
    let text = |data: Map| value::json::write(&data.into(), value::json::Layout::default());
    fired
        .map(|fired| format!("{} {}", fired.tag, text(fired.data)))
        .collect()
}

#[test]
fn what_the_machine_says_is_told_as_salt_tells_it() {
    let cases: &[(&str, &[&str])] = &[
        (
            r#"{"memusage": [{"percent": "40%"}]}"#,
            &[r#"salt/beacon/web1/memusage/ {"memusage": 40.5, "id": "web1"}"#],
        ),
        (r#"{"memusage": [{"percent": 41}]}"#, &[]),
        (
            r#"{"swapusage": [{"percent": "10%"}]}"#,
            &[r#"salt/beacon/web1/swapusage/ {"swapusage": 10.0, "id": "web1"}"#],
        ),
        (r#"{"swapusage": [{"percent": 11}]}"#, &[]),
        (
            r#"{"diskusage": [{"/": "90%"}, {"^/(?!home$).*": "50%"}, {"interval": 0}]}"#,
            &[
                r#"salt/beacon/web1/diskusage/ {"diskusage": 90.1, "mount": "/", "id": "web1"}"#,
                r#"salt/beacon/web1/diskusage/ {"diskusage": 90.1, "mount": "/", "id": "web1"}"#,
                r#"salt/beacon/web1/diskusage/ {"diskusage": 50.0, "mount": "/home/a", "id": "web1"}"#,
            ],
        ),
        (
            r#"{"mine": [{"beacon_module": "service"}, {"services": {"sshd": {}, "nginx": {"uncleanshutdown": "/proc/1"}}}]}"#,
            &[
                r#"salt/beacon/web1/mine/sshd {"sshd": {"running": true}, "service_name": "sshd", "id": "web1"}"#,
                r#"salt/beacon/web1/mine/nginx {"nginx": {"running": false, "uncleanshutdown": true}, "service_name": "nginx", "id": "web1"}"#,
            ],
        ),
        (
            r#"{"ps": [{"processes": {"no-such-process": "stopped", "nor-this": "running", "nor-that": "what"}}]}"#,
            &[
                r#"salt/beacon/web1/ps/ {"no-such-process": "Stopped", "id": "web1"}"#,
                r#"salt/beacon/web1/ps/ {"nor-that": false, "id": "web1"}"#,
            ],
        ),
        (r#"{"load": [{"averages": {"1m": [-1, 100000]}}]}"#, &[]),
        (r#"{"diskusage": [{"/": "x"}], "enabled": false}"#, &[]),
        (r#"{"memusage": [{"percent": 1}, {"enabled": false}]}"#, &[]),
    ];
    for (config, expected) in cases {
        assert_eq!(first_poll(config), *expected, "{config}");
    }
    let [load] = first_poll(r#"{"load": [{"averages": {"1m": [100000, 100000]}}]}"#)
        .try_into()
        .unwrap();
    assert!(
        load.starts_with(r#"salt/beacon/web1/load/ {"1m": "#),
        "{load}"
    );
}

#[test]
fn the_state_of_the_machine_is_told_whole_or_in_parts() {
    let data = |config: &str| {
        let mut beacons = beacons(config);
        let [fired] = beacons.poll(seconds(0), false, &ask).try_into().unwrap();
        assert!(
            fired.tag.starts_with("salt/beacon/web1/status/20"),
            "{}",
            fired.tag
        );
        let data = fired.data.get("data").unwrap().clone();
        value::json::write(&data, value::json::Layout::default())
    };
    let config = r#"{"status": [{"loadavg": ["1-min", "x"]}, {"time": [0]}, {"w": [1]}]}"#;
    let expected = r#"{"loadavg": "Status beacon is incorrectly configured: 'x'", "time": "Friday", "w": {"1": {"user": "a"}}}"#;
    assert_eq!(data(config), expected);
    assert_eq!(
        data(r#"{"status": [{"loadavg": ["5-min"]}, {"interval": 0}]}"#),
        r#"{"loadavg": {"5-min": 0.25}}"#
    );
    // An error of a function is reported as an event.
    assert_eq!(
        first_poll(r#"{"status": []}"#),
        [
            r#"salt/beacon/web1/status/ {"error": "'status.cpustats' is not available.", "id": "web1"}"#
        ]
    );
}

#[test]
fn wrong_settings_are_named_and_the_others_run() {
    let config = r#"{"load": [{"averages": {}}], "ps": {"processes": {}}, "memusage": [{"percent": 1}], "none": [], "service": [{"services": []}],
        "inotify": [{"files": {"/x": {"mask": ["y"]}}}], "diskusage": [{"/": "much"}], "a": [{"beacon_module": "memusage"}, {"interval": "x"}]}"#;
    let mut beacons = beacons(config);
    let faults = beacons.faults().iter();
    let faults: Vec<&str> = faults
        .map(|fault| fault.text.split_once('\n').unwrap().1)
        .collect();
    let expected = [
        "Averages configuration for load beacon must contain 1m, 5m or 15m items.",
        "Configuration for ps beacon must be a list.",
        "Unknown beacon none; available beacons: cert_info, diskusage, inotify, journald, load, log, memusage, network_info, pkg, ps, salt_monitor, service, sh, status, swapusage, watchdog.",
        "Services configuration item for service beacon must be a dictionary.",
        "Configuration for inotify beacon invalid mask option y.",
        "The usage of / must be a percentage.",
        "The interval must be a number of seconds.",
    ];
    assert_eq!(faults, expected);
    assert_eq!(beacons.poll(seconds(0), false, &ask).len(), 1);
}

#[test]
fn intervals_state_runs_and_run_once_say_when_it_is_looked() {
    let config = r#"{"a": [{"beacon_module": "memusage"}, {"percent": 1}, {"interval": 5}], "b": [{"beacon_module": "memusage"}, {"percent": 1},
        {"disable_during_state_run": true}], "c": [{"beacon_module": "memusage"}, {"percent": 1}, {"run_once": true}]}"#;
    let mut all = beacons(config);
    let mut told = Vec::new();
    for second in 0..11 {
        for fired in all.poll(seconds(second), (2..9).contains(&second), &ask) {
            told.push(format!("{second} {}", fired.tag.split('/').nth(3).unwrap()));
        }
    }
    assert_eq!(told, ["0 b", "0 c", "1 b", "5 a", "9 b", "10 a", "10 b"]);
    assert_eq!(all.next(seconds(10)), Some(seconds(1)));
    // An unchanged beacon continues; a changed one starts again.
    let new = config.replace("\"interval\": 5", "\"interval\": 7");
    all.update(&json(&new), &Map::new(), seconds(12));
    assert!(all.poll(seconds(12), true, &ask).is_empty());
    assert_eq!(all.poll(seconds(19), true, &ask).len(), 1);
    all.update(&Value::Null, &Map::new(), seconds(20));
    assert_eq!(all.next(seconds(20)), None);
}

#[test]
fn the_kernel_tells_what_happens_to_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let config = format!(
        r#"{{"inotify": [{{"files": {{"{path}": {{"mask": ["create", "delete", "close_write"], "recurse": true, "auto_add": true,
            "exclude": ["{path}/not", {{"{path}/.*[.]tmp$": {{"regex": true}}}}]}}}}}}, {{"coalesce": true}}]}}"#
    );
    fs::create_dir(folder.path().join("old")).unwrap();
    let mut beacons = beacons(&config);
    assert_eq!(beacons.next(seconds(0)), Some(seconds(0)));
    let mut poll = |second: u64, state_run: bool| {
        let fired = beacons.poll(seconds(second), state_run, &ask).into_iter();
        let text = |data: &Map, name: &str| data.get(name).unwrap().to_text().replace(&path, "");
        let lines = fired.map(|fired| {
            let tag = fired.tag.replace(&path, "PATH");
            format!(
                "{tag} {} {}",
                text(&fired.data, "path"),
                text(&fired.data, "change")
            )
        });
        (
            lines.collect::<Vec<_>>(),
            beacons.next(seconds(second)),
            beacons.descriptors().count(),
        )
    };
    // All paths are watched now, so the beacon is not polled any more.
    assert_eq!(poll(0, false), (vec![], None, 1));
    fs::write(folder.path().join("a"), "x").unwrap();
    fs::write(folder.path().join("not"), "x").unwrap();
    fs::write(folder.path().join("b.tmp"), "x").unwrap();
    fs::write(folder.path().join("old/c"), "x").unwrap();
    fs::create_dir(folder.path().join("new")).unwrap();
    let tag = "salt/beacon/web1/inotify/PATH";
    let expected = [
        format!("{tag} /a IN_CREATE"),
        format!("{tag} /a IN_CLOSE_WRITE"),
        format!("{tag}/old /old/c IN_CREATE"),
        format!("{tag}/old /old/c IN_CLOSE_WRITE"),
        format!("{tag} /new IN_CREATE|IN_ISDIR"),
    ];
    assert_eq!(poll(0, false).0, expected);
    fs::write(folder.path().join("new/d"), "x").unwrap();
    fs::remove_dir_all(folder.path().join("new")).unwrap();
    let expected = [
        format!("{tag}/new /new/d IN_CREATE"),
        format!("{tag}/new /new/d IN_CLOSE_WRITE"),
        format!("{tag}/new /new/d IN_DELETE"),
        format!("{tag}/new /new IN_IGNORED"),
        format!("{tag} /new IN_DELETE|IN_ISDIR"),
    ];
    assert_eq!(poll(0, false).0, expected);
}

#[test]
fn what_happens_during_a_state_run_is_not_told_and_a_file_may_come_later() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let config = format!(
        r#"{{"inotify": [{{"files": {{"{}": {{"mask": ["modify"]}}}}}}, {{"disable_during_state_run": true}}]}}"#,
        file.display()
    );
    let mut beacons = beacons(&config);
    assert!(beacons.poll(seconds(0), false, &ask).is_empty());
    assert_eq!(beacons.next(seconds(0)), Some(seconds(1)));
    fs::write(&file, "x").unwrap();
    assert!(beacons.poll(seconds(1), false, &ask).is_empty());
    assert_eq!(beacons.next(seconds(1)), None);
    fs::write(&file, "y").unwrap();
    assert!(beacons.poll(seconds(2), true, &ask).is_empty());
    assert!(beacons.poll(seconds(3), false, &ask).is_empty());
    fs::write(&file, "z").unwrap();
    let fired = beacons.poll(seconds(4), false, &ask);
    assert!(
        fired
            .iter()
            .all(|fired| fired.data.get("change") == Some(&"IN_MODIFY".into()))
    );
    assert!(!fired.is_empty());
}
