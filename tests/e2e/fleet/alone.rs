//! Tests of the work that a minion does by itself, with and without its master.

use super::Fleet;

#[test]
fn minions_see_each_others_mine_where_they_are_allowed_to() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    let functions = "mine_functions:\n  test.ping: []\n  secret:\n    - mine_function: test.echo\n    - hush\n    - allow_tgt: m2\n";
    fleet.start_minion("m1", functions);
    fleet.start_minion("m2", "");
    fleet.start_minion("m3", "");
    let get = |fleet: &Fleet, id: &str, fun: &str| {
        fleet
            .run(&["salt", "--out=json", "--static", id, "mine.get", "*", fun])
            .out
    };
    fleet.soon("the mine is filled", || {
        get(&fleet, "m3", "test.ping").contains("\"m1\": true")
    });
    assert!(get(&fleet, "m2", "secret").contains("hush"));
    assert!(!get(&fleet, "m3", "secret").contains("hush"));
    let asked = fleet.run(&["salt-run", "--out=json", "mine.get", "*", "test.ping"]);
    assert!(asked.out.contains("\"m1\": true"), "{}", asked.out);
}

#[test]
fn what_is_returned_without_a_master_is_there_when_it_comes_back() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    let plan = "schedule:\n  probe:\n    function: test.echo\n    args: [here]\n    seconds: 2\n";
    fleet.start_minion("m1", plan);
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
    fleet.kill_master();
    std::thread::sleep(std::time::Duration::from_secs(7));
    fleet.kill_minion("m1");
    fleet.start_master();
    let came = |fleet: &Fleet| {
        let jobs = fleet.run(&["salt-run", "--out=json", "jobs.list_jobs"]).out;
        jobs.matches("test.echo").count()
    };
    let before = came(&fleet);
    // Its schedule has changed: these returns are of jobs that ran before.
    fleet.start_minion("m1", "");
    fleet.soon("the returns of both jobs arrive", || {
        came(&fleet) >= before + 2
    });
}

#[test]
fn startup_states_are_applied_and_beacons_tell() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    let out = fleet.dir.path().join("applied").display().to_string();
    fleet.write("salt/top.sls", "base:\n  '*':\n    - begin\n");
    fleet.write("salt/begin.sls", &format!("{out}:\n  file.touch\n"));
    let config = "startup_states: highstate\nbeacons:\n  load:\n    - onchangeonly: False\n    - averages:\n        1m: [0.0, 0.0]\n        5m: [0.0, 0.0]\n        15m: [0.0, 0.0]\n    - interval: 1\n";
    fleet.start_minion("m1", config);
    fleet.soon("the states are applied", || {
        std::path::Path::new(&out).exists()
    });
    let heard = fleet.run(&[
        "salt-run",
        "state.event",
        "tagmatch=salt/beacon/*",
        "count=1",
    ]);
    assert!(heard.out.contains("salt/beacon/m1/load/"), "{}", heard.out);
}
