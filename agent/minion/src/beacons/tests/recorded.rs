//! Compares with the events of Salt's own beacons, recorded in `tests/corpus/beacons`.

use std::io::Write;
use std::process::Command;

use super::*;

#[test]
fn settings_are_refused_in_salts_words() {
    let cases = corpus("validate.json");
    let cases = cases.as_list().unwrap();
    assert!(cases.len() > 50);
    let mut wrong = Vec::new();
    for case in cases {
        let name = case.get("beacon").unwrap().to_text();
        let config = case.get("config").unwrap();
        let found = match validated(&name, config) {
            Ok(()) => (true, String::new()),
            Err(text) => (false, text),
        };
        let valid = case.get("valid") == Some(&true.into());
        let text = match valid {
            true => String::new(),
            false => case.get("text").unwrap().to_text(),
        };
        if found != (valid, text) {
            wrong.push(format!("{name} {config:?}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn events(beacons: &mut Beacons, at: u64) -> Vec<Map> {
    let fired = beacons.poll(seconds(at), false, &ask).into_iter();
    fired
        .map(|fired| {
            let mut data = fired.data;
            data.remove("id");
            let rest = fired.tag.splitn(5, '/').nth(4).unwrap().to_owned();
            Map::new().with("tag", rest).with("data", data)
        })
        .collect()
}

/// Returns the recorded events in the form that `events` gives them: the rest of the tag, and the
/// data.
fn recorded(step: &Value) -> Vec<Map> {
    let events = step.get("events").and_then(Value::as_list).unwrap();
    events
        .iter()
        .map(|event| {
            let mut data = event.as_map().cloned().unwrap();
            let tag = data.remove("tag").unwrap();
            Map::new().with("tag", tag).with("data", data)
        })
        .collect()
}

#[test]
fn lines_of_a_file_are_told_as_salt_tells_them() {
    let corpus = corpus("log.json");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display().to_string();
    let settings = [
        Map::new().with("file", path.as_str()),
        Map::new().with("tags", corpus.get("tags").unwrap().clone()),
    ];
    let config = Map::new().with("log", Value::list(settings.map(Value::from)));
    let mut beacons = Beacons::new("web1", &config.into(), &Map::new(), seconds(0));
    let steps = corpus.get("steps").and_then(Value::as_list).unwrap();
    for (at, step) in (0..).zip(steps) {
        let text = step.get("text").unwrap().to_text();
        file.write_all(text.as_bytes()).unwrap();
        assert_eq!(events(&mut beacons, at), recorded(step), "{text:?}");
    }
}

#[test]
fn a_file_that_is_emptied_replaced_or_half_written_is_read_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, "").unwrap();
    let config = format!(
        r#"{{"log": [{{"file": "{}"}}, {{"tags": {{"all": {{"regex": "."}}}}}}]}}"#,
        path.display()
    );
    let mut beacons = beacons(&config);
    let mut at = 0;
    let mut lines = || {
        at += 1;
        let events = events(&mut beacons, at);
        let raw = |event: &Map| event.get("data").unwrap().get("raw").unwrap().to_text();
        events.iter().map(raw).collect::<Vec<_>>()
    };
    let append = |text: &str| {
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    assert!(lines().is_empty());
    append("one\ntw");
    assert_eq!(lines(), ["one"]);
    append("o\n");
    assert_eq!(lines(), ["two"]);
    fs::write(&path, "a\n").unwrap();
    assert_eq!(lines(), ["a"]);
    let other = folder.path().join("other");
    fs::write(&other, "another\nfile\n").unwrap();
    fs::rename(&other, &path).unwrap();
    assert_eq!(lines(), ["another", "file"]);
    fs::remove_file(&path).unwrap();
    at += 1;
    let fired = beacons.poll(seconds(at), false, &ask);
    let expected = format!("[Errno 2] No such file or directory: '{}'", path.display());
    assert_eq!(fired[0].data.get("error"), Some(&expected.into()));
}

#[test]
fn folders_are_watched_as_watchdog_watches_them() {
    let corpus = corpus("watchdog.json");
    for run in corpus.as_list().unwrap() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("in");
        fs::create_dir(&folder).unwrap();
        let path = folder.display().to_string();
        let mut options = Map::new();
        if let Some(mask) = run.get("mask").filter(|mask| mask.is_true()) {
            options.insert("mask", mask.clone());
        }
        let settings = Map::new().with("directories", Map::new().with(&path, options));
        let config = Map::new().with("watchdog", Value::list([settings.into()]));
        let mut beacons = Beacons::new("web1", &config.into(), &Map::new(), seconds(0));
        assert_eq!(events(&mut beacons, 0), []);
        assert_eq!(beacons.next(seconds(0)), None);
        for step in run.get("steps").and_then(Value::as_list).unwrap() {
            let commands = step.get("commands").unwrap().texts();
            for command in &commands {
                let mut shell = Command::new("sh");
                shell.args(["-c", command]).current_dir(&folder);
                assert!(shell.output().unwrap().status.success(), "{command}");
            }
            let mut found = events(&mut beacons, 0);
            for event in &mut found {
                let data = event.get_mut("data").and_then(Value::as_map_mut).unwrap();
                let shown = data.get("path").unwrap().to_text().replace(&path, "DIR");
                data.insert("path", shown);
            }
            assert_eq!(found, recorded(step), "{commands:?}");
        }
    }
}

#[test]
fn functions_are_told_where_their_answers_are_true() {
    let config = r#"{"salt_monitor": [{"salt_fun": [{"mount.active": {"args": [1], "kwargs": [{"a": 2}]}}, {"service.status": {"args": ["x"]}}]}],
        "one": [{"beacon_module": "salt_monitor"}, {"salt_fun": "service.status"}]}"#;
    let expected = [
        r#"salt/beacon/web1/salt_monitor/ {"salt_fun": "mount.active", "ret": {"/": {}, "/home": {}, "/home/a": {}}, "args": [1], "kwargs": {"a": 2}, "id": "web1"}"#,
        r#"salt/beacon/web1/one/ {"salt_fun": "service.status", "ret": false, "id": "web1"}"#,
    ];
    assert_eq!(first_poll(config), expected);
}
