//! Tests of the progress that `salt-run` reports for an orchestration while it runs in the master.

use serde_json::Value as Json;

use super::Fleet;

const ORCH: &str = "
ping:
  salt.function:
    - name: test.ping
    - tgt: m1
together:
  salt.parallel_runners:
    - runners:
        one:
          - name: state.orchestrate
          - kwarg: {mods: inner}
last:
  test.fail_without_changes:
    - require:
      - salt: ping
";

fn fleet() -> Fleet {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.write("salt/orch.sls", ORCH);
    fleet.write("salt/inner.sls", "within:\n  test.nop: []\n");
    fleet.start_minion("m1", "");
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
    fleet
}

#[test]
fn an_orchestration_on_a_master_is_told_of_while_it_runs() {
    let fleet = fleet();
    let run = |option: &str| fleet.run(&["salt-run", option, "state.orchestrate", "orch"]);
    run("--progress=auto");
    assert!(!fleet.logs().contains("3 states in"), "{}", fleet.logs());
    let told = run("--progress=plain");
    assert_eq!(told.rc, Some(1), "{}", told.out);
    let told = fleet.logs();
    let parts = [
        "changed ",
        "  salt.function  ping\n",
        "  test.nop  within\n",
        "  salt.parallel_runners  together\n",
        "failed ",
        "  test.fail_without_changes  last\n",
        "3 states in ",
    ];
    tests::program::assert_in_order(&told, &parts);
    let streamed = run("--out=ndjson");
    assert_eq!(streamed.rc, Some(1), "{}", streamed.out);
    let events: Vec<Json> = streamed
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
    assert_eq!(
        (of("run_started"), of("state_finished"), of("run_finished")),
        (2, 4, 2)
    );
    assert_eq!(events[0]["parent"], Json::Null);
    let other = fleet.run(&["salt-run", "--out=ndjson", "test.arg", "a"]);
    let other: Json = serde_json::from_str(&other.out).unwrap();
    assert_eq!(other["return"]["args"][0], "a", "{other}");
}
