//! Jobs: functions and states on minions, and their outcome when a minion or master is lost.

use std::time::{Duration, Instant};

use super::Fleet;

#[test]
fn states_and_pillar_come_from_the_master() {
    let mut fleet = Fleet::with("");
    fleet.write("pillar/top.sls", "base:\n  'm1':\n    - web\n");
    fleet.write("pillar/web.sls", "port: 8080\nid: {{ grains.id }}\n");
    fleet.write(
        "salt/web.sls",
        "site:\n  test.show_notification:\n    - text: port {{ pillar.port }} on {{ pillar.id }}\n",
    );
    fleet.accepted(&["m1"]);
    let answer = fleet.run(&["salt", "--out=json", "m1", "state.apply", "web"]);
    assert!(answer.out.contains("port 8080 on m1"), "{}", answer.out);
    assert_eq!(answer.rc, Some(0));
}

#[test]
fn a_failed_function_says_why_and_so_does_the_exit_code() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1", "m2"]);
    let answer = fleet.run(&["salt", "*", "test.nothing"]);
    assert!(
        answer.out.contains("'test.nothing' is not available."),
        "{}",
        answer.out
    );
    assert_eq!(answer.rc, Some(1));
    let answer = fleet.run(&["salt", "m2", "cmd.retcode", "exit 3"]);
    assert!(answer.out.contains('3'), "{}", answer.out);
}

#[test]
fn a_minion_that_is_gone_is_told_from_one_that_works() {
    let mut fleet = Fleet::alone("timeout: 1\ngather_job_timeout: 2\n");
    fleet.accepted(&["m1", "m2"]);
    fleet.kill_minion("m2");
    fleet.soon("the master notices the loss of the minion", || {
        fleet
            .run(&["salt", "m2", "test.ping"])
            .out
            .contains("Minion did not return")
    });
    // A minion that works for longer than the timeout still counts as present.
    let answer = fleet.run(&["salt", "m1", "test.sleep", "3"]);
    assert_eq!(
        (answer.out.as_str(), answer.rc),
        ("m1:\n    True\n", Some(0))
    );
}

#[test]
fn a_minion_that_was_killed_is_given_up_within_seconds() {
    let mut fleet = Fleet::alone("");
    fleet.accepted(&["m1", "m2", "m3", "m4", "m5"]);
    fleet.kill_minion("m3");
    let began = Instant::now();
    let answer = fleet.run(&["salt", "--out=txt", "*", "test.ping"]);
    let took = began.elapsed();
    let returned = answer.out.lines().filter(|line| line.ends_with(": True"));
    assert_eq!(returned.count(), 4, "{}", answer.out);
    let silent = answer.out.contains("m3: Minion did not return.");
    assert!(silent, "{}", answer.out);
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_job_that_never_ends_is_not_waited_for_beyond_a_limit() {
    let mut fleet = Fleet::with("timeout: 1\njob_wait_max: 3\n");
    fleet.accepted(&["m1"]);
    let answer = fleet.run(&["salt", "m1", "test.sleep", "600"]);
    assert!(answer.out.contains("[No response]"), "{}", answer.out);
    assert!(fleet.logs().contains("job_wait_max"), "{}", fleet.logs());
}

#[test]
fn both_come_back_from_being_killed() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1"]);
    fleet.kill_master();
    fleet.start_master();
    let answers = |fleet: &Fleet| fleet.run(&["salt", "m1", "test.ping"]).out.contains("True");
    fleet.soon("the minion is back", || answers(&fleet));
    fleet.kill_minion("m1");
    fleet.start_minion_again("m1");
    fleet.soon("the minion is back again", || answers(&fleet));
}

#[test]
fn recurse_keeps_symbolic_links_of_the_masters_tree() {
    let mut fleet = Fleet::with("");
    let made = fleet.path("made");
    let recurse = "file.recurse:\n    - source: salt://src\n    - keep_symlinks: True\n";
    fleet.write(
        "salt/links.sls",
        &format!("{}:\n  {recurse}", made.display()),
    );
    fleet.write("salt/src/sub/file", "content\n");
    let src = fleet.path("master/srv/salt/src");
    std::os::unix::fs::symlink("sub/file", src.join("link")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", src.join("out")).unwrap();
    fleet.accepted(&["m1"]);
    let answer = fleet.run(&["salt", "--out=json", "m1", "state.apply", "links"]);
    assert_eq!(answer.rc, Some(0), "{}", answer.out);
    let link = std::fs::read_link(made.join("link")).unwrap();
    assert_eq!(link.to_str(), Some("sub/file"));
    assert!(made.join("sub/file").is_file() && !made.join("sub").is_symlink());
    assert!(std::fs::symlink_metadata(made.join("out")).is_err());
}

#[test]
fn jobs_that_fetch_the_same_file_at_the_same_time_all_get_it() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1"]);
    for name in ["first", "second", "third"] {
        fleet.write(&format!("salt/{name}"), &name.repeat(1 << 20));
        let file = format!("salt://{name}");
        std::thread::scope(|scope| {
            let fetch = || fleet.run(&["salt", "--out=txt", "m1", "cp.cache_file", &file]);
            let fetching: Vec<_> = (0..4).map(|_| scope.spawn(fetch)).collect();
            for job in fetching {
                let answer = job.join().unwrap();
                let is_fetched = answer.out.trim_end().ends_with(&format!("/{name}"));
                assert!(is_fetched && answer.rc == Some(0), "{}", answer.out);
            }
        });
    }
}
