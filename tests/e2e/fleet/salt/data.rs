//! Data between a Salt master and a minion of Pinch: events, mine, peers, files, custom modules.

use serde_json::json;

use super::{Salt, text};

fn events_and_data_arrive(transport: &str) {
    let Some(mut salt) = Salt::start(transport, "") else {
        return;
    };
    salt.write("pillar/top.sls", "base: {'*': [data]}\n");
    salt.write("pillar/data.sls", "role: web\n");
    salt.write("salt/note.txt", "a note\n");
    salt.write(
        "salt/_modules/mine_own.py",
        "def say(what):\n    return 'own ' + what\n",
    );
    salt.write("salt/big.bin", &"0123456789abcdef".repeat(200_000));
    let events = salt.record_events();
    salt.start_minion("m1", "mine_functions: {test.ping: []}\n");
    salt.answers("m1");
    let started = events.with_tag("salt/minion/m1/start");
    assert_eq!(started.len(), 1, "{started:?}");
    assert_eq!(started[0]["id"], "m1");
    assert!(
        started[0]["data"]
            .as_str()
            .unwrap()
            .starts_with("Minion m1 started at")
    );
    // An event has the form that reactors expect.
    salt.call("m1", &["event.send", "my/tag", "x=1"]);
    salt.soon("the event arrives", || {
        !events.with_tag("my/tag").is_empty()
    });
    let event = &events.with_tag("my/tag")[0];
    assert_eq!(
        (&event["data"]["x"], &event["id"]),
        (&json!(1), &json!("m1")),
        "{event}"
    );
    let begun = salt.run(
        "salt",
        &["--out=json", "--metadata={\"a\": 1}", "m1", "test.ping"],
    );
    assert_eq!(begun.rc, Some(0));
    // The mine, jobs of peers, runners.
    let in_mine = || salt.call("m1", &["mine.get", "m1", "test.ping"]) == json!({"m1": true});
    salt.soon("the mine is filled", in_mine);
    // Over TCP, Salt 3008.5 itself does not answer this request: its worker waits for itself.
    if transport == "zeromq" {
        let found = salt.call("m1", &["publish.publish", "m1", "test.echo", "peer"]);
        assert_eq!(found, json!({"m1": "peer"}));
    }
    assert_eq!(
        salt.call("m1", &["publish.runner", "test.arg"])["args"],
        json!([])
    );
    assert_eq!(salt.call("m1", &["mine.delete", "test.ping"]), true);
    assert_eq!(salt.call("m1", &["mine.get", "m1", "test.ping"]), json!({}));
    // Files in both directions.
    let place = salt.path("big").display().to_string();
    let got = salt.call("m1", &["cp.get_file", "salt://big.bin", &place]);
    assert_eq!(got, json!(place), "{}", salt.logs());
    assert_eq!(text(&salt.path("big")).len(), 3_200_000);
    assert_eq!(
        salt.call("m1", &["cp.push", &place]),
        true,
        "{}",
        salt.logs()
    );
    let pushed = salt
        .path("master/cache/minions/m1/files")
        .join(place.trim_start_matches('/'));
    assert_eq!(text(&pushed), text(&salt.path("big")));
    // Custom modules and new pillar.
    salt.call("m1", &["saltutil.sync_modules"]);
    assert_eq!(salt.call("m1", &["mine_own.say", "x"]), json!("own x"));
    salt.write("pillar/data.sls", "role: db\n");
    salt.call("m1", &["saltutil.refresh_pillar"]);
    salt.soon("the new pillar is a target", || {
        salt.salt(&["-t", "5", "-I", "role:db", "test.ping"])["m1"] == true
    });
    // Commands of the machine go through its daemon, and their returns are jobs of the master.
    let called = salt.on_minion("m1", &["salt-call", "cp.get_file_str", "salt://note.txt"]);
    assert!(called.out.contains("a note"), "{}", called.out);
}

#[test]
fn events_mine_and_files_reach_a_salt_master() {
    events_and_data_arrive("zeromq");
}

#[test]
fn events_mine_and_files_reach_a_salt_master_over_tcp() {
    events_and_data_arrive("tcp");
}

#[test]
fn a_reactor_of_a_salt_master_sends_a_job_for_an_event() {
    let reactor = "reactor: [{'my/tag': ['salt://react.sls']}]\n";
    let Some(salt) = Salt::start("zeromq", reactor) else {
        return;
    };
    let job = "
touch:
  local.file.touch:
    - tgt: {{ data['id'] }}
    - args: [{name: {{ data['data']['place'] }}}]
";
    salt.write("salt/react.sls", job);
    let salt = salt.with_minions(&["m1"], "");
    let place = salt.path("touched");
    let word = format!("place={}", place.display());
    assert_eq!(salt.call("m1", &["event.send", "my/tag", &word]), true);
    salt.soon("the job has run", || place.exists());
}

#[test]
fn a_command_without_a_daemon_uses_the_salt_master() {
    let Some(mut salt) = Salt::start("zeromq", "") else {
        return;
    };
    salt.write("pillar/top.sls", "base: {'*': [data]}\n");
    salt.write("pillar/data.sls", "role: web\n");
    salt.write("salt/note.txt", "a note\n");
    salt.start_minion("m1", "");
    salt.answers("m1");
    salt.minions.clear();
    let called = salt.on_minion("m1", &["salt-call", "cp.get_file_str", "salt://note.txt"]);
    assert!(called.out.contains("a note"), "{}", called.out);
}
