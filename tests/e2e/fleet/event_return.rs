//! Tests of `event_return` and `ext_job_cache`: the events of the master's log go to returners.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use super::Fleet;
use super::reactor::fire;

/// Starts a master with these lines about returners, after `prepare` has written their files.
fn fleet(config: &str, prepare: impl FnOnce(&Fleet)) -> Fleet {
    let mut fleet = Fleet::with("");
    fleet.kill_master();
    configure(&fleet, config);
    prepare(&fleet);
    fleet.start_master();
    fleet
}

fn configure(fleet: &Fleet, config: &str) {
    let folder = fleet.path("master/etc/master.d");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("event_return.conf"), config).unwrap();
}

/// Writes a returner in Python, which appends the tags of events to a file, and fails while there is
/// a file `broken`.
fn python(fleet: &Fleet, name: &str, out: &Path) {
    let (out, broken) = (out.display(), fleet.path("broken"));
    let text = format!(
        "import os\n\ndef event_return(events):\n    if os.path.exists({:?}):\n        raise IOError('the database is away')\n    with open('{out}', 'a') as file:\n        for event in events:\n            file.write(event['tag'] + ' ' + str(event['data'].get('n')) + '\\n')\n",
        broken.display().to_string()
    );
    fleet.write(&format!("salt/_returners/{name}.py"), &text);
}

/// Writes a returner in the shell, which appends the requests to a file.
fn program(fleet: &Fleet, name: &str, out: &Path) {
    let text = format!(
        "#!/bin/sh\nwhile read -r request; do\n  case $request in\n  '{{\"load\"'*) echo '{{\"return\": {{\"functions\": {{\"event_return\": {{\"args\": [[\"events\"]]}}}}}}}}' ;;\n  *) echo \"$request\" >> {}; echo '{{\"return\": null}}' ;;\n  esac\ndone\n",
        out.display()
    );
    let below = format!("salt/_returners/{name}");
    fleet.write(&below, &text);
    let file = fleet.path("master/srv").join(below);
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

fn sync(fleet: &Fleet) {
    let synced = fleet.run(&["salt-run", "saltutil.sync_returners"]);
    assert_eq!(synced.rc, Some(0), "{}", synced.out);
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Returns the lines without repetitions: an event is handed over at least once.
fn unique(path: &Path) -> Vec<String> {
    let mut unique = Vec::new();
    for line in lines(path) {
        if !unique.contains(&line) {
            unique.push(line);
        }
    }
    unique
}

fn logged(fleet: &Fleet, parts: &[&str]) -> bool {
    let log = lines(&fleet.path("master/log"));
    log.iter()
        .any(|line| parts.iter().all(|part| line.contains(part)))
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn events_go_to_python_to_programs_and_to_a_file_in_order() {
    let config = "event_return: [keep, tell, rawfile_json]\nevent_return_whitelist: ['my/*']\nevent_return_blacklist: ['my/own/*']\nsecret_keys: [password]\n";
    let fleet = fleet(config, |fleet| {
        let raw = format!("rawfile_json.filename: {}\n", fleet.path("raw").display());
        configure(fleet, &(config.to_owned() + &raw));
    });
    let (keep, tell, raw) = (fleet.path("keep"), fleet.path("tell"), fleet.path("raw"));
    // The files are missing: the master says so, and the events wait.
    for name in ["keep", "tell"] {
        let of = format!("the returner {name} does not exist");
        let parts = [
            "The option event_return",
            &of,
            "salt-run saltutil.sync_returners",
        ];
        fleet.soon("the missing returner is reported", || {
            logged(&fleet, &parts)
        });
    }
    fire(&fleet, "my/0", "{n: 0, password: hunter-number-2}");
    fleet.soon("the built-in returner does not wait", || {
        lines(&raw).len() == 1
    });
    python(&fleet, "keep", &keep);
    program(&fleet, "tell", &tell);
    sync(&fleet);
    for n in 1..6 {
        fire(&fleet, &format!("my/{n}"), &format!("{{n: {n}}}"));
        fire(&fleet, "other/tag", "{n: 77}");
        fire(&fleet, "my/own/tag", "{n: 88}");
    }
    let wanted: Vec<String> = (0..6).map(|n| format!("my/{n} {n}")).collect();
    fleet.soon("the Python module got the events in order", || {
        lines(&keep) == wanted
    });
    fleet.soon("the file has the events in order", || {
        lines(&raw).len() == 6
    });
    for (n, line) in lines(&raw).iter().enumerate() {
        let event = json(line);
        assert_eq!(event["tag"], format!("my/{n}"), "{line}");
        assert_eq!(event["data"]["n"].as_u64(), Some(n as u64));
        assert!(event["data"]["_stamp"].is_string(), "{line}");
        assert!(line.starts_with("{\"data\": {"), "{line}");
    }
    let tags = || {
        let requests = lines(&tell);
        let events = requests.iter().flat_map(|line| {
            let request = json(line);
            assert_eq!(request["run"], "tell.event_return");
            request["args"][0].as_array().unwrap().clone()
        });
        let tags = events.map(|event| event["tag"].as_str().unwrap().to_owned());
        tags.collect::<Vec<String>>()
    };
    let wanted: Vec<String> = (0..6).map(|n| format!("my/{n}")).collect();
    fleet.soon("the program got the events in order", || tags() == wanted);
    for path in [&raw, &tell] {
        let text = fs::read_to_string(path).unwrap();
        assert!(!text.contains("hunter-number-2"), "{text}");
    }
    // Nothing of this is handed over again after a restart.
    let mut fleet = fleet;
    fleet.kill_master();
    fleet.start_master();
    fire(&fleet, "my/6", "{n: 6}");
    fleet.soon("the next event arrives", || lines(&raw).len() == 7);
    assert!(lines(&raw).last().unwrap().contains("my/6"));
}

#[test]
fn no_event_is_missed_while_a_returner_fails_and_the_master_is_killed() {
    let mut fleet = fleet(
        "event_return: keep\nevent_return_whitelist: ['my/*']\n",
        |_| {},
    );
    let (keep, broken) = (fleet.path("keep"), fleet.path("broken"));
    python(&fleet, "keep", &keep);
    fs::write(&broken, "").unwrap();
    sync(&fleet);
    let fire = |fleet: &Fleet, numbers: std::ops::Range<u64>| {
        for n in numbers {
            fire(fleet, &format!("my/{n}"), &format!("{{n: {n}}}"));
        }
    };
    fire(&fleet, 0..5);
    fleet.soon("the failure is logged", || {
        let parts = [
            "returner keep cannot store",
            "the database is away",
            "trying again",
        ];
        logged(&fleet, &parts)
    });
    fleet.kill_master();
    fleet.start_master();
    fire(&fleet, 5..10);
    fleet.kill_master();
    fleet.start_master();
    fire(&fleet, 10..15);
    let failures = || {
        let log = lines(&fleet.path("master/log"));
        let is_one = |line: &&String| line.contains("the database is away");
        log.iter().filter(is_one).count()
    };
    let before = failures();
    fleet.soon("it still fails", || failures() > before);
    assert_eq!(lines(&keep), [""; 0]);
    fs::remove_file(&broken).unwrap();
    let wanted = |count: u64| {
        (0..count)
            .map(|n| format!("my/{n} {n}"))
            .collect::<Vec<_>>()
    };
    fleet.soon("the events arrive", || unique(&keep) == wanted(15));
    fleet.soon("the end of the failures is logged", || {
        logged(&fleet, &["the returner keep works again"])
    });
    // Kill it while it hands over events.
    for from in [15, 20, 25] {
        fire(&fleet, from..from + 5);
        fleet.kill_master();
        fleet.start_master();
    }
    fleet.soon("all events have arrived in order", || {
        unique(&keep) == wanted(30)
    });
}

#[test]
fn events_wait_for_each_other_and_for_a_restart() {
    let config = "event_return: keep\nevent_return_whitelist: ['my/*']\nevent_return_queue: 3\n";
    let mut fleet = fleet(config, |_| {});
    let keep = fleet.path("keep");
    program(&fleet, "keep", &keep);
    sync(&fleet);
    let fire = |fleet: &Fleet, n: u64| fire(fleet, &format!("my/{n}"), "{}");
    let counts = || {
        let count = |line: &String| json(line)["args"][0].as_array().unwrap().len();
        lines(&keep).iter().map(count).collect::<Vec<usize>>()
    };
    fire(&fleet, 0);
    fire(&fleet, 1);
    fleet.kill_master();
    fleet.start_master();
    assert_eq!(counts(), [0; 0]);
    fire(&fleet, 2);
    fleet.soon("three events are handed over", || counts() == [3]);
    // A master that ends before it has written its cursor hands them over again.
    super::masters::end_master(&mut fleet);
    configure(
        &fleet,
        &format!("{config}event_return_queue_max_seconds: 1\n"),
    );
    fleet.start_master();
    fire(&fleet, 3);
    fleet.soon("one event has waited long enough", || {
        lines(&keep)
            .last()
            .is_some_and(|line| line.contains("my/3"))
    });
}

#[test]
fn events_that_the_log_dropped_are_reported() {
    let config = "event_return: keep\nevent_return_whitelist: ['my/*']\nkeep_events_bytes: 20000\n";
    let fleet = fleet(config, |_| {});
    let (keep, broken) = (fleet.path("keep"), fleet.path("broken"));
    python(&fleet, "keep", &keep);
    fs::write(&broken, "").unwrap();
    sync(&fleet);
    let text = "x".repeat(4000);
    for n in 0..15 {
        fire(
            &fleet,
            &format!("my/{n}"),
            &format!("{{n: {n}, text: {text}}}"),
        );
    }
    std::thread::sleep(std::time::Duration::from_secs(3));
    fs::remove_file(&broken).unwrap();
    fire(&fleet, "my/15", "{n: 15}");
    fleet.soon("the last event arrives", || {
        lines(&keep).last().is_some_and(|line| line == "my/15 15")
    });
    let parts = [
        "the returner keep has lost",
        "between the numbers",
        "keep_events_bytes",
    ];
    assert!(logged(&fleet, &parts), "{}", fleet.logs());
    assert!(lines(&keep).len() < 16);
}

#[test]
fn a_returner_that_never_takes_events_stops_the_start() {
    let mut fleet = Fleet::with("");
    fleet.kill_master();
    for (config, part) in [
        (
            "event_return: syslog\n",
            "built-in returner syslog has no function event_return",
        ),
        (
            "event_return: [keep, 'a b']\n",
            "\"a b\" is not the name of a returner",
        ),
        (
            "event_return: keep\ndisable_returners: [keep]\n",
            "the returner keep is disabled by disable_returners",
        ),
    ] {
        configure(&fleet, config);
        assert_eq!(fleet.run(&["salt-master"]).rc, Some(1), "{config}");
        let output = fs::read_to_string(fleet.path("master/output")).unwrap();
        assert!(output.contains("the option `event_return`"), "{output}");
        assert!(output.contains(part), "{output}");
    }
}

#[test]
fn the_external_job_cache_gets_jobs_from_the_master_and_returns_from_minions() {
    let mut fleet = fleet("ext_job_cache: cache\nauto_accept: True\n", |_| ());
    let out = fleet.path("cached");
    let text = format!(
        "def keep(*parts):\n    with open({:?}, 'a') as file:\n        file.write(' '.join(parts) + '\\n')\n\n\ndef save_load(jid, load, minions=None):\n    keep('job', jid, load['fun'])\n\n\ndef returner(ret):\n    keep('return', ret['jid'], ret['id'], str(ret['return']))\n",
        out.display().to_string()
    );
    fleet.write("salt/_returners/cache.py", &text);
    sync(&fleet);
    fleet.start_minion("m1", "");
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "-t", "20", "m1", "test.ping"]).rc == Some(0)
    });
    let synced = fleet.run(&["salt", "-t", "60", "m1", "saltutil.sync_returners"]);
    assert!(synced.out.contains("returners.cache"), "{}", synced.out);
    let words = [
        "salt",
        "-t",
        "60",
        "--return=syslog",
        "m1",
        "test.echo",
        "kept",
    ];
    assert_eq!(fleet.run(&words).rc, Some(0));
    let jid = || {
        let lines = lines(&out);
        let line = lines.iter().find(|line| line.ends_with(" test.echo"))?;
        line.split(' ').nth(1).map(str::to_owned)
    };
    fleet.soon("the job is stored", || jid().is_some());
    let jid = jid().unwrap();
    let wanted = format!("return {jid} m1 kept");
    fleet.soon("the minion stores its return", || {
        lines(&out).contains(&wanted)
    });
    // Each is there once, and the master has the job as well.
    for line in [wanted, format!("job {jid} test.echo")] {
        assert_eq!(lines(&out).iter().filter(|kept| **kept == line).count(), 1);
    }
    let looked = fleet.run(&["salt-run", "jobs.lookup_jid", &jid]);
    assert!(looked.out.contains("kept"), "{}", looked.out);
}

#[test]
fn an_external_job_cache_without_jobs_is_a_warning() {
    let fleet = fleet("ext_job_cache: syslog\n", |_| ());
    fleet.soon("the master warns", || {
        logged(
            &fleet,
            &[
                "ext_job_cache: only the returns of minions are stored, not the jobs",
                "the built-in returner syslog has no function returner and save_load",
            ],
        )
    });
}
