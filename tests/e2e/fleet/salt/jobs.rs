//! Jobs of a Salt master: targets, states, returns, and functions about running jobs.

use serde_json::{Value as Json, json};

use super::{Salt, text};

const PAGE: &str = "
page:
  file.managed:
    - name: {{ pillar['place'] }}
    - source: salt://page.txt
    - template: jinja
second:
  test.succeed_with_changes: []
";

fn with_states(salt: &Salt) -> std::path::PathBuf {
    let place = salt.path("page");
    salt.write("salt/top.sls", "base: {'*': [web]}\n");
    salt.write("salt/web.sls", PAGE);
    salt.write(
        "salt/page.txt",
        "{{ pillar['greeting'] }} from {{ grains['id'] }}\n",
    );
    salt.write("pillar/top.sls", "base: {'*': [data]}\n");
    let pillar = format!("greeting: hello\nplace: {}\nrole: web\n", place.display());
    salt.write("pillar/data.sls", &pillar);
    place
}

/// Checks what works in every version of Salt and with every transport.
fn jobs_work(transport: &str) {
    let Some(salt) = Salt::start(transport, "nodegroups: {mine: 'L@m1,other'}\n") else {
        return;
    };
    let place = with_states(&salt);
    let salt = salt.with_minions(&["m1"], "grains: {shelf: top}\n");
    // Each kind of target; the minion decides.
    let targets: [&[&str]; 10] = [
        &["m*"],
        &["-L", "m0,m1"],
        &["-E", "m[0-9]$"],
        &["-G", "shelf:t*"],
        &["-P", "shelf:^to"],
        &["-I", "role:web"],
        &["-J", "role:^w"],
        &["-S", "127.0.0.0/8"],
        &["-N", "mine"],
        &[
            "-C",
            "G@shelf:top and ( I@role:web or other* ) and not other",
        ],
    ];
    for target in targets {
        let found = salt.salt(&[target, &["test.ping"]].concat());
        assert_eq!(found["m1"], true, "{target:?} {}", salt.logs());
    }
    let given = salt.call("m1", &["test.arg", "1", "two", "x=[3]"]);
    assert_eq!(
        (&given["args"], &given["kwargs"]["x"]),
        (&json!([1, "two"]), &json!([3]))
    );
    let several = salt.call("m1", &["test.ping,test.echo", ",", "text"]);
    assert_eq!(several, json!({"test.ping": true, "test.echo": "text"}));
    let unknown = salt.run("salt", &["m1", "nosuch.fun", "--out=json"]);
    assert!(
        unknown.out.contains("'nosuch.fun' is not available."),
        "{}",
        unknown.out
    );
    assert_eq!(unknown.rc, Some(1));
    // States with files and pillar.
    let applied = salt.call("m1", &["state.apply"]);
    let results = applied.as_object().unwrap().values();
    assert!(
        results.clone().all(|state| state["result"] == true),
        "{applied}"
    );
    assert_eq!(text(&place), "hello from m1\n");
    let again = salt.call("m1", &["state.apply", "web", "test=True"]);
    assert_eq!(
        again["file_|-page_|-".to_owned() + &place.display().to_string() + "_|-managed"]["result"],
        true,
        "{again}"
    );
    let failed = salt.run(
        "salt",
        &["m1", "state.single", "test.fail_without_changes", "name=x"],
    );
    assert_eq!(failed.rc, Some(1), "{}", failed.out);
    let page = salt.call("m1", &["cp.get_file_str", "salt://page.txt"]);
    assert!(page.as_str().unwrap().contains("greeting"), "{page}");
}

#[test]
fn a_job_of_a_salt_master_runs_here() {
    jobs_work("zeromq");
}

#[test]
fn a_job_of_a_salt_master_runs_here_over_tcp() {
    jobs_work("tcp");
}

#[test]
fn the_daemon_answers_questions_about_jobs_while_they_run() {
    let Some(salt) = Salt::start("zeromq", "") else {
        return;
    };
    let salt = salt.with_minions(&["m1"], "");
    let jid = salt.begin_sleep("m1", "60");
    let jid = jid.as_str();
    let running = salt.call("m1", &["saltutil.running"]);
    assert_eq!(running.as_array().map(Vec::len), Some(1), "{running}");
    let state = salt.call("m1", &["saltutil.is_running", "state.*"]);
    assert_eq!(state, json!([]));
    let killed = salt.call("m1", &["saltutil.kill_job", jid]);
    assert!(
        killed.as_str().unwrap().starts_with("Signal 9 sent to job"),
        "{killed}"
    );
    let gone = || salt.call("m1", &["saltutil.find_job", jid]) == json!({});
    salt.soon("the job has ended", gone);
    let looked_up = || salt.runner(&["jobs.lookup_jid", jid]);
    salt.soon("its return says so", || {
        let text = looked_up()["m1"].as_str().unwrap_or_default().to_owned();
        text.contains("ended by signal 9")
    });
}

#[test]
fn a_batch_and_an_orchestration_use_a_minion_of_pinch_and_one_of_salt() {
    let Some(mut salt) = Salt::start("zeromq", "") else {
        return;
    };
    let place = with_states(&salt);
    let orch = "
apply:
  salt.state:
    - tgt: m1
    - sls: [web]
ask:
  salt.function:
    - name: test.ping
    - tgt: '*'
    - require: [{salt: apply}]
";
    salt.write("salt/orch.sls", orch);
    salt.start_python_minion("m2", "");
    let salt = salt.with_minions(&["m1"], "");
    salt.answers("m2");
    let batch = salt.run(
        "salt",
        &["-b", "1", "--out=json", "--static", "*", "test.ping"],
    );
    assert!(
        batch.out.contains("\"m1\": true") && batch.out.contains("\"m2\": true"),
        "{}",
        batch.out
    );
    let orchestrated = salt.run("salt-run", &["state.orchestrate", "orch"]);
    assert_eq!(orchestrated.rc, Some(0), "{}", orchestrated.out);
    assert!(
        orchestrated.out.contains("Succeeded: 2"),
        "{}",
        orchestrated.out
    );
    assert_eq!(text(&place), "hello from m1\n");
    let matched = salt.salt(&["m2", "test.ping"]);
    assert_eq!(matched.as_object().map(serde_json::Map::len), Some(1));
    assert_ne!(matched["m2"], Json::Null);
}
