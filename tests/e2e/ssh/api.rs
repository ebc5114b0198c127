//! The client `ssh` of the API.

use serde_json::{Value, json};

use super::{Host, Site, free_port};
use crate::fleet::Fleet;
use crate::fleet::api::Asked;

#[test]
fn the_client_ssh_of_the_api_calls_functions_on_hosts_within_the_rules() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    site.enlist(&[("web1", host.port), ("web2", free_port())]);
    let config = format!("{}netapi_enable_clients: [ssh]\n", site.for_master());
    let fleet = Fleet::with_api(&config);
    // The program gets to the host, which takes a while.
    let placed = fleet.run(&["salt-ssh", "--out=json", "web1", "test.ping"]);
    assert_eq!(placed.rc, Some(0), "{}", placed.out);
    let tokens = ["alice", "bob", "carol"].map(|user| fleet.login(user));
    let ask = |token: &str, more: &Value| {
        let mut chunk = json!({"client": "ssh", "tgt": "web1", "fun": "test.ping"});
        let more = more.as_object().unwrap().clone();
        chunk.as_object_mut().unwrap().extend(more);
        let reply = fleet.ask(&Asked::post("/", &json!([chunk])).token(token));
        (reply.status, reply.json()["return"].clone())
    };
    let [alice, bob, carol] = tokens;
    let (status, answer) = ask(
        &alice,
        &json!({"tgt": "*", "fun": "test.echo", "arg": ["hi"]}),
    );
    assert_eq!(status, 200, "{answer}\n{}", fleet.logs());
    let web1 = &answer[0]["web1"];
    assert_eq!(
        (&web1["return"], &web1["retcode"], &web1["fun"]),
        (&json!("hi"), &json!(0), &json!("test.echo")),
        "{answer}"
    );
    assert_eq!(
        (&web1["id"], &web1["fun_args"]),
        (&json!("web1"), &json!(["hi"]))
    );
    let web2 = &answer[0]["web2"];
    let refused = web2["return"].as_str().unwrap();
    assert!(refused.contains("Connection refused"), "{answer}");
    assert_ne!(web2["retcode"], json!(0));
    // The job has events, and the user of the token.
    let tag = format!(
        "tagmatch=salt/job/{}/ret/web1",
        web1["jid"].as_str().unwrap()
    );
    let seen = fleet.run(&["salt-run", "state.event", &tag, "from=1", "count=1"]);
    assert!(seen.out.contains("alice"), "{}", seen.out);

    assert_eq!(ask(&bob, &json!({})).1[0]["web1"]["return"], json!(true));
    let no = json!("Authorization error occurred.");
    assert_eq!(ask(&bob, &json!({"fun": "test.echo"})), (401, no.clone()));
    assert_eq!(
        ask(&bob, &json!({"fun": "cmd.run", "arg": ["id"]})),
        (401, no.clone())
    );
    assert_eq!(ask(&carol, &json!({})), (401, no));
    assert_eq!(ask(&alice, &json!({"tgt": "none*"})), (200, json!([{}])));
    for key in [
        "ssh_options",
        "ssh_priv",
        "roster_file",
        "roster",
        "raw_shell",
        "user",
        "jid",
    ] {
        let text = format!("`{key}` is not allowed in a lowstate");
        assert_eq!(ask(&alice, &json!({key: "x"})), (400, json!(text)));
    }
    for wrong in [
        json!({"tgt_type": "grain"}),
        json!({"fun": "test.ping,cmd.run"}),
    ] {
        let (status, text) = ask(&alice, &wrong);
        assert_eq!(status, 400, "{text}");
        assert!(
            text.as_str().unwrap().starts_with("The client ssh "),
            "{text}"
        );
    }
    // A name on the command line of ssh is no target.
    assert_eq!(
        ask(&alice, &json!({"tgt": "root@127.0.0.1"})),
        (200, json!([{}]))
    );
}
