//! Notifications: states and functions send messages to a receiver of these tests.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value as Json;

use tests::program::{Answer, salt_call};
use tests::scratch::Scratch;
use tests::server;

/// Texts that must not be in an output, a log or a record.
const SECRETS: [&str; 5] = [
    "xoxb-planted-key",
    "T0/B0/planted-hook",
    "planted-teams-hook",
    "planted-pushover-token",
    "planted-service-key",
];

const CONFIG: &str = "
slack:
  api_key: xoxb-planted-key
  api_url: @HERE@
  hook_url: @HERE@/services
msteams.hook_url: @HERE@/planted-teams-hook
pushover:
  token: planted-pushover-token
  api_url: @HERE@
my-account:
  pagerduty.subdomain: acme
  pagerduty.api_url: @HERE@
";

const SLS: &str = "
deploy:
  test.fail_without_changes: []
report:
  slack.post_message:
    - channel: '#ops'
    - from_name: Salt
    - message: The deployment has failed.
    - onfail:
      - test: deploy
report to the hook:
  slack.post_message:
    - webhook: T0/B0/planted-hook
    - message: The deployment has failed.
    - onfail:
      - test: deploy
report to teams:
  msteams.post_card:
    - message: The deployment has failed.
report to the phone:
  pushover.post_message:
    - user: uuuuuuuuuu
    - message: The deployment has failed.
The deployment has failed:
  pagerduty.create_event:
    - details: {host: web1}
    - service_key: planted-service-key
    - profile: my-account
";

/// The requests that the receiver has received: the first line, and the body.
type Received = Arc<Mutex<Vec<(String, String)>>>;

fn receiver() -> (String, Received) {
    let received = Received::default();
    let kept = received.clone();
    let address = server::start(move |head, body| {
        let first = head.lines().next().unwrap_or_default().to_owned();
        kept.lock().unwrap().push((first, body.to_owned()));
        let answer = r#"{"ok": true, "channel": "C1", "status": 1}"#;
        server::text("200 OK", "", answer)
    });
    (address, received)
}

fn apply(scratch: &Scratch, sls: &str, words: &[&str]) -> Answer {
    let log = scratch.path().join("log").display().to_string();
    let mut all = vec!["--out=json", "--log-file-level=all", "--log-file", &log];
    all.extend(["state.apply", sls]);
    all.extend(words);
    let words: Vec<String> = all.iter().map(|word| (*word).to_owned()).collect();
    salt_call(scratch.path(), &words).unwrap()
}

/// Returns the results of the states, in their order.
fn results(answer: &Answer) -> Vec<(Json, String)> {
    let found: Json = serde_json::from_str(&answer.out).unwrap();
    let rets = found["local"].as_object().unwrap();
    let mut rets: Vec<&Json> = rets.values().collect();
    rets.sort_by_key(|ret| ret["__run_num__"].as_u64());
    let shown = |ret: &&Json| {
        let comment = ret["comment"].as_str().unwrap().to_owned();
        (ret["result"].clone(), comment)
    };
    rets.iter().map(shown).collect()
}

/// Fails if a file below the folder contains a secret. The configuration and the tree do.
fn check_files(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("etc") || path.ends_with("srv") {
            continue;
        }
        if path.is_dir() {
            check_files(&path);
        } else if let Ok(bytes) = fs::read(&path) {
            check(
                &String::from_utf8_lossy(&bytes),
                &path.display().to_string(),
            );
        }
    }
}

/// Fails if the output, the log or the records contain a secret.
fn check_all(scratch: &Scratch, answer: &Answer) {
    let log = fs::read_to_string(scratch.path().join("log")).unwrap();
    assert!(log.contains("report to the phone"), "the log is empty");
    check(&answer.out, "stdout");
    check_files(scratch.path());
}

fn check(text: &str, place: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{place} contains {secret}");
    }
}

#[test]
fn states_send_their_messages_and_show_no_secret() {
    let (here, received) = receiver();
    let scratch = Scratch::new();
    scratch.write("etc/minion.d/case.conf", &CONFIG.replace("@HERE@", &here));
    scratch.write("srv/salt/case.sls", SLS);

    let tested = results(&apply(&scratch, "case", &["test=True"]));
    let slack = "The following message is to be sent to Slack: The deployment has failed.";
    assert_eq!(tested[1], (Json::Null, slack.to_owned()), "{tested:?}");
    assert!(received.lock().unwrap().is_empty(), "test mode sends");

    let answer = apply(&scratch, "case", &[]);
    let sent = results(&answer);
    let comments: Vec<&str> = sent[1..].iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        comments,
        [
            "Sent message: report",
            "Sent message: report to the hook",
            "Sent message: report to teams",
            "Sent message: report to the phone",
            "Created event: The deployment has failed",
        ]
    );
    let received = received.lock().unwrap();
    let paths: Vec<&str> = received.iter().map(|(first, _)| first.as_str()).collect();
    assert_eq!(
        paths,
        [
            "POST /api/chat.postMessage HTTP/1.1",
            "POST /services/T0/B0/planted-hook HTTP/1.1",
            "POST /planted-teams-hook HTTP/1.1",
            "POST /1/users/validate.json HTTP/1.1",
            "POST /1/messages.json HTTP/1.1",
            "POST /generic/2010-04-15/create_event.json HTTP/1.1",
        ]
    );
    assert!(received[0].1.contains("text=The+deployment+has+failed."));
    check_all(&scratch, &answer);
}

#[test]
fn a_message_that_cannot_be_sent_fails_its_state() {
    let scratch = Scratch::new();
    let config = CONFIG.replace("@HERE@", "http://127.0.0.1:1");
    scratch.write("etc/minion.d/case.conf", &config);
    scratch.write("srv/salt/case.sls", SLS);
    let answer = apply(&scratch, "case", &[]);
    for (result, comment) in &results(&answer)[1..] {
        assert_eq!(*result, false, "{comment}");
        let reason = ": no answer from 127.0.0.1:1: [Errno 111] Connection refused";
        assert!(comment.contains(reason), "{comment}");
    }
    check_all(&scratch, &answer);
}
