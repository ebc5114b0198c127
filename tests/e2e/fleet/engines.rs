//! Tests of engines: custom modules that run for the life of a daemon and fire events.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::{Fleet, Process};

/// An engine in Python, which writes its process id to a file.
const TICK: &str = "import os\nimport time\n\nimport salt.utils.event\n\n\ndef start(pid, n=1):\n    with open(pid, 'w') as file:\n        file.write(str(os.getpid()))\n    if __opts__['__role'] == 'master':\n        fire = salt.utils.event.get_master_event(__opts__, __opts__['sock_dir']).fire_event\n    else:\n        fire = lambda data, tag: __salt__['event.send'](tag, data)\n    while True:\n        fire({'n': n, 'id_of': __grains__['id']}, 'my/tick')\n        time.sleep(0.1)\n";

/// An engine in the shell, which does not obey SIGTERM.
fn stubborn(pid: &Path) -> String {
    format!(
        "#!/bin/sh\ntrap '' TERM\necho stubborn begins >&2\necho $$ > {}\nwhile :; do\n  echo '{{\"tag\": \"my/shell\", \"data\": {{\"n\": 2}}}}'\n  sleep 0.1\ndone\n",
        pid.display()
    )
}

fn program(fleet: &Fleet, below: &str, text: &str) {
    fleet.write(below, text);
    let file = fleet.path("master/srv").join(below);
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the process whose id is in a file.
fn process(file: &Path) -> Option<Pid> {
    let id = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    Pid::from_raw(id)
}

fn runs(file: &Path) -> bool {
    process(file).is_some_and(|pid| test_kill_process(pid).is_ok())
}

/// Waits for an event on the master's bus.
fn event(fleet: &Fleet, tag: &str) -> String {
    let tag = format!("tagmatch={tag}");
    let seen = fleet.run(&["salt-run", "state.event", &tag, "count=1"]);
    assert_eq!(seen.rc, Some(0), "{}", seen.out);
    seen.out
}

fn logged(fleet: &Fleet, of: &str, parts: &[&str]) -> bool {
    let log = fs::read_to_string(fleet.path(of).join("log")).unwrap_or_default();
    let has = |line: &str| parts.iter().all(|part| line.contains(part));
    log.lines().any(has)
}

fn term(process: &Process) {
    let pid = i32::try_from(process.0.id()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
}

#[test]
fn engines_of_a_minion_start_when_they_are_copied_and_end_with_the_minion() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    let (tick, shell) = (fleet.path("tick.pid"), fleet.path("shell.pid"));
    fleet.write("salt/_engines/tick.py", TICK);
    program(&fleet, "salt/_engines/stubborn", &stubborn(&shell));
    let config = format!(
        "engines:\n  - reactor\n  - mine: {{engine_module: tick, pid: {}}}\n  - stubborn\n",
        tick.display()
    );
    fleet.start_minion("m1", &config);
    let missing = "neither the built-in engine (reactor) nor a file in";
    for parts in [
        ["The engine mine has failed", missing, "Add tick.py"],
        [
            "The engine stubborn has failed",
            missing,
            "which has no files",
        ],
    ] {
        fleet.soon("the missing engine is reported", || {
            logged(&fleet, "m1", &parts)
        });
    }
    fleet.soon("the engines are copied", || {
        let synced = fleet.run(&["salt", "m1", "saltutil.sync_engines"]);
        synced.out.contains("engines.tick")
    });
    let seen = event(&fleet, "my/tick");
    assert!(seen.contains("\"id_of\": \"m1\""), "{seen}");
    assert!(seen.contains("\"cmd\": \"_minion_event\""), "{seen}");
    let seen = event(&fleet, "my/shell");
    assert!(seen.contains("\"data\": {\"n\": 2}"), "{seen}");
    assert!(logged(&fleet, "m1", &["engine stubborn: stubborn begins"]));
    let first = process(&tick).unwrap();
    kill_process(first, Signal::KILL).unwrap();
    fleet.soon("an engine that was killed is started again", || {
        runs(&tick) && process(&tick) != Some(first)
    });
    let parts = [
        "The engine mine has failed, starting it again in",
        "SIGKILL",
    ];
    assert!(logged(&fleet, "m1", &parts), "{}", fleet.logs());
    let stopped = Instant::now();
    term(&fleet.minions[0].1);
    fleet.soon("the engines end with the minion", || {
        !runs(&tick) && !runs(&shell)
    });
    let took = stopped.elapsed();
    assert!(took > Duration::from_secs(4), "{took:?}");
}

#[test]
fn engines_of_a_master_fire_its_own_events_and_do_not_outlive_it() {
    let mut fleet = Fleet::with("");
    let pid = fleet.path("tick.pid");
    fleet.write("salt/_engines/tick.py", TICK);
    fleet.kill_master();
    let folder = fleet.path("master/etc/master.d");
    fs::create_dir_all(&folder).unwrap();
    let config = format!("engines:\n  tick: {{pid: {}, n: 5}}\n", pid.display());
    fs::write(folder.join("engines.conf"), config).unwrap();
    fleet.start_master();
    let synced = fleet.run(&["salt-run", "saltutil.sync_engines"]);
    assert!(synced.out.contains("engines.tick"), "{}", synced.out);
    let seen = event(&fleet, "my/tick");
    assert!(seen.contains("\"n\": 5"), "{seen}");
    assert!(!seen.contains("_minion_event"), "{seen}");
    fleet.kill_master();
    fleet.soon("the engine ends after the master was killed", || {
        !runs(&pid)
    });
    fleet.start_master();
    fleet.soon("the next master starts it", || runs(&pid));
    term(fleet.master.as_ref().unwrap());
    fleet.soon("the engine ends with the master", || !runs(&pid));
}
