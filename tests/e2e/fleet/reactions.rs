//! Reactions whose jobs take long or fail.

use std::fs;

use super::reactor::{fire, runner, states};
use super::{Fleet, PATIENCE};

/// Returns the errors of the failed reactions.
fn errors(fleet: &Fleet) -> String {
    let failed = runner(fleet, &["reactor.failed"]);
    let failed = failed.as_array().unwrap().iter();
    let errors = failed.map(|one| one["errors"].to_string());
    errors.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_reaction_is_begun_until_its_job_returns_and_fails_with_it() {
    let mut fleet = Fleet::with(
        "reactor_worker_threads: 1\nreactor:\n  - my/good: ['salt://react/good.sls']\n  - my/bad: ['salt://react/bad.sls']\n  - my/short: ['salt://react/short.sls']\n",
    );
    let go = fleet.path("go").display().to_string();
    let good = format!(
        "wait:\n  local.cmd.run:\n    - tgt: '*'\n    - args:\n      - cmd: while [ ! -e {go} ]; do sleep 0.1; done\n      - python_shell: true\n"
    );
    fleet.write("salt/react/good.sls", &good);
    let bad = "bad:\n  local.state.apply:\n    - tgt: '*'\n    - args:\n      - mods: broken\n";
    fleet.write("salt/react/bad.sls", bad);
    fleet.write("salt/broken.sls", "no disk:\n  test.fail_without_changes\n");
    let short = "short:\n  local.test.ping:\n    - tgt: m1\n";
    fleet.write("salt/react/short.sls", short);
    fleet.accepted(&["m1", "m2"]);
    fire(&fleet, "my/good", "{id: m1}");
    fleet.soon("the job runs", || states(&fleet, "my/good") == ["begun"]);
    // A reaction that waits holds up neither another event of the rule nor another rule.
    fire(&fleet, "my/good", "{id: m1}");
    fire(&fleet, "my/short", "{id: m1}");
    fleet.soon("the others go on", || {
        states(&fleet, "my/short") == ["done"] && states(&fleet, "my/good") == ["begun", "begun"]
    });
    // It waits after a restart too, and misses no return that comes while no master is there.
    fleet.kill_master();
    fs::write(fleet.path("go"), "").unwrap();
    fleet.start_master();
    fleet.soon("the returns end the reactions", || {
        states(&fleet, "my/good") == ["done", "done"]
    });
    fire(&fleet, "my/bad", "{}");
    fleet.soon("the failure of the job is that of the reaction", || {
        states(&fleet, "my/bad") == ["failed"]
    });
    let errors = errors(&fleet);
    for id in ["m1", "m2"] {
        assert!(
            errors.contains(&format!("failed on {id}: no disk: Failure!")),
            "{errors}"
        );
    }
    assert!(fleet.logs().contains("The rule my/bad failed"));
}

#[test]
fn a_reaction_without_a_return_is_unknown_after_its_time() {
    let mut fleet = Fleet::with(
        "reactor_return_timeout: 3\nreactor:\n  - my/long: ['salt://react/long.sls']\n",
    );
    let long = "long:\n  local.test.sleep:\n    - tgt: '*'\n    - args:\n      - length: 600\n";
    fleet.write("salt/react/long.sls", long);
    fleet.accepted(&["m1", "m2"]);
    fleet.end_minion("m2");
    fire(&fleet, "my/long", "{}");
    // For a minute after its start, the master waits for minions to connect again. The job is longer
    // than that.
    fleet.within(2 * PATIENCE, "the time is over", || {
        states(&fleet, "my/long") == ["unknown"]
    });
    let errors = errors(&fleet);
    let expected = "m2: not_connected, no return from m1 (reactor_return_timeout)";
    assert!(errors.contains(expected), "{errors}");
    // A job outlives its minion.
    fleet.run(&["salt", "m1", "saltutil.kill_all_jobs"]);
}
