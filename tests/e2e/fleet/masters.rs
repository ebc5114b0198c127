//! Minions with several masters, and without one.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Fleet, PATIENCE};

const ACCEPT: &str = "auto_accept: True\n";

/// The lines that name both masters, the first one first.
fn both(first: &Fleet, second: &Fleet, more: &str) -> String {
    let ports = (first.port, second.port);
    format!(
        "master:\n  - 127.0.0.1:{}\n  - 127.0.0.1:{}\n{more}",
        ports.0, ports.1
    )
}

fn answers(fleet: &Fleet) -> bool {
    let words = ["salt", "-t", "60", "m1", "test.ping"];
    fleet.run(&words).out.contains("True")
}

/// Returns the number of jobs with this function that the master has.
fn jobs(fleet: &Fleet, fun: &str) -> usize {
    let listed = fleet.run(&["salt-run", "--out=json", "jobs.list_jobs"]);
    listed.out.matches(fun).count()
}

/// Ends a master as a service manager does, so that its minions know at once.
pub(super) fn end_master(fleet: &mut Fleet) {
    let pid = fleet.master.as_ref().unwrap().0.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    let ended = |fleet: &mut Fleet| fleet.master.as_mut().unwrap().0.try_wait().unwrap();
    let began = Instant::now();
    while ended(fleet).is_none() {
        assert!(began.elapsed() < PATIENCE, "the master does not end");
        sleep(Duration::from_millis(20));
    }
    fleet.kill_master();
}

#[test]
fn masters_in_a_list_are_served_side_by_side() {
    let mut first = Fleet::with(ACCEPT);
    let mut second = first.beside(ACCEPT);
    second.start_master();
    let config = both(
        &first,
        &second,
        "mine_functions:\n  test.ping: []\nschedule:\n  probe:\n    function: test.echo\n    args: [here]\n    seconds: 1\n",
    );
    first.start_minion("m1", &config);
    first.soon("the minion answers the first master", || answers(&first));
    first.soon("the minion answers the second master", || answers(&second));
    let mine = |fleet: &Fleet| {
        let words = ["salt-run", "--out=json", "mine.get", "m1", "test.ping"];
        fleet.run(&words).out.contains("\"m1\": true")
    };
    first.soon("both masters have the mine", || {
        mine(&first) && mine(&second)
    });
    // A job's return goes to the master that asked for it.
    let words = ["salt", "-t", "60", "m1", "test.version"];
    assert_eq!(second.run(&words).rc, Some(0));
    assert_eq!(jobs(&second, "test.version"), 1);
    assert_eq!(jobs(&first, "test.version"), 0);
    // Returns of scheduled jobs, which no master requested, go to both masters. An absent master
    // does not delay the other one, and receives them later.
    second.kill_master();
    let before = jobs(&first, "test.echo");
    first.soon("the first master still gets returns", || {
        jobs(&first, "test.echo") >= before + 2
    });
    let done = jobs(&first, "test.echo");
    second.start_master();
    first.soon("the second master gets all returns", || {
        jobs(&second, "test.echo") >= done
    });
    assert!(answers(&first));
}

#[test]
fn one_of_several_masters_takes_over_and_the_first_is_gone_back_to() {
    let mut first = Fleet::with(ACCEPT);
    let mut second = first.beside(ACCEPT);
    second.start_master();
    let config = both(
        &first,
        &second,
        "master_type: failover\nmaster_alive_interval: 1\nmaster_failback: True\n",
    );
    first.start_minion("m1", &config);
    first.soon("the minion answers the first master", || answers(&first));
    assert_eq!(
        second
            .run(&["salt-key", "-l", "acc"])
            .out
            .matches("m1")
            .count(),
        0
    );
    end_master(&mut first);
    first.soon("the minion answers the second master", || answers(&second));
    first.start_master();
    first.soon("the minion is back at the first master", || answers(&first));
    second.soon("the minion has left the second master", || {
        !answers(&second)
    });
}

#[test]
fn a_minion_without_a_master_keeps_to_its_plan() {
    let mut fleet = Fleet::with(ACCEPT);
    let (plan, applied) = (fleet.path("plan"), fleet.path("applied"));
    let roots = fleet.path("m1/srv");
    fs::create_dir_all(&roots).unwrap();
    fs::write(
        roots.join("begin.sls"),
        format!("{}:\n  file.touch\n", applied.display()),
    )
    .unwrap();
    let config = format!(
        "master_type: disable\nfile_client: local\nfile_roots: {{base: [{}]}}\nstartup_states: sls\nsls_list: [begin]\nrawfile_json.filename: {}\nschedule:\n  probe:\n    function: test.echo\n    args: [here]\n    seconds: 1\n    returner: rawfile_json\n",
        roots.display(),
        plan.display()
    );
    fleet.start_minion("m1", &config);
    fleet.soon("the states are applied", || applied.exists());
    fleet.soon("the schedule keeps running", || {
        fs::read_to_string(&plan).is_ok_and(|text| text.matches("\"here\"").count() >= 4)
    });
    let known = fleet.run(&["salt-key", "-l", "all"]).out;
    assert!(!known.contains("m1"), "{known}");
}
