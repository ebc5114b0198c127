//! Returners that send over HTTP: to a receiver of these tests, which also fails in several ways.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value as Json;

use tests::program::{Answer, salt_call};
use tests::scratch::Scratch;
use tests::server;

use crate::fleet::Fleet;

/// A text that is in every secret of the configuration.
const PLANTED: &str = "planted";

const ALL: &str =
    "http,elasticsearch,slack,slack_webhook,mattermost,telegram,pushover,splunk,influxdb";

const CONFIG: &str = "
http:
  url: @USER@/planted-hook
  header_dict: {X-Token: planted-token}
elasticsearch:
  hosts: ['@USER@']
slack:
  api_key: xoxb-planted-key
  api_url: @HERE@
  hook_url: @HERE@/services
  username: salt
  as_user: true
slack_webhook.webhook: T0/B0/planted-hook
mattermost:
  hook: planted-hook
  api_url: @HERE@
telegram:
  chat_id: -100
  token: 1:planted-token
  api_url: @HERE@
pushover:
  user: planted-user
  token: planted-token
  api_url: @HERE@
splunk_http_forwarder:
  token: planted-token
  indexer: '@HERE@'
influxdb:
  host: 127.0.0.1
  port: @PORT@
  password: planted-password
";

/// The requests that the receiver has received: the head, and the body.
type Received = Arc<Mutex<Vec<(String, String)>>>;

fn configured(here: &str) -> Scratch {
    let scratch = Scratch::new();
    let user = here.replace("//", "//u:planted-password@");
    let (_, port) = here.rsplit_once(':').unwrap();
    let config = CONFIG.replace("@HERE@", here).replace("@USER@", &user);
    let config = config.replace("@PORT@", port);
    scratch.write("etc/minion.d/case.conf", &config);
    scratch
}

fn call(scratch: &Scratch, words: &[&str]) -> Answer {
    let log = scratch.path().join("log").display().to_string();
    let mut all = vec!["--out=json", "--log-file-level=all", "--log-file", &log];
    all.extend(words);
    let words: Vec<String> = all.iter().map(|word| (*word).to_owned()).collect();
    let answer = salt_call(scratch.path(), &words).unwrap();
    assert!(!answer.out.contains(PLANTED), "{}", answer.out);
    answer
}

/// Returns the log. Fails if a file below the folder contains a secret; the configuration does.
fn checked(scratch: &Scratch) -> String {
    check_files(scratch.path());
    fs::read_to_string(scratch.path().join("log")).unwrap()
}

fn check_files(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("etc") {
            continue;
        }
        if path.is_dir() {
            check_files(&path);
        } else if let Ok(bytes) = fs::read(&path) {
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(PLANTED), "{}", path.display());
        }
    }
}

#[test]
fn a_return_goes_to_all_services_and_no_secret_into_a_log() {
    let received = Received::default();
    let kept = received.clone();
    let here = server::start(move |head, body| {
        kept.lock()
            .unwrap()
            .push((head.to_owned(), body.to_owned()));
        match head {
            head if head.starts_with("HEAD ") => server::text("404 Not Found", "", ""),
            head if head.contains(" /services/T0/") => server::text("200 OK", "", "ok"),
            _ => {
                let answer = r#"{"ok": true, "channel": "C1", "status": 1, "errors": false}"#;
                server::text("200 OK", "", answer)
            }
        }
    });
    let scratch = configured(&here);
    let answer = call(&scratch, &["test.ping", "--return", ALL]);
    assert_eq!(answer.rc, Some(0), "{}", answer.out);
    let log = checked(&scratch);
    assert!(!log.contains("cannot store"), "{log}");
    let received = received.lock().unwrap();
    let firsts = received
        .iter()
        .map(|(head, _)| head.lines().next().unwrap());
    let firsts: Vec<&str> = firsts
        .map(|first| first.trim_end_matches(" HTTP/1.1"))
        .collect();
    let bulk = firsts
        .iter()
        .position(|first| first.starts_with("POST /_bulk?"));
    assert_eq!(bulk, Some(4), "{firsts:?}");
    let mut expected = [
        "POST /planted-hook",
        "HEAD /salt-test_ping",
        "PUT /salt-test_ping-v1",
        "PUT /salt-test_ping-v1/_alias/salt-test_ping",
        firsts[4],
        "POST /api/chat.postMessage",
        "POST /services/T0/B0/planted-hook",
        "POST /hooks/planted-hook",
        "POST /bot1:planted-token/sendMessage",
        "POST /1/users/validate.json",
        "POST /1/messages.json",
        "POST /services/collector/event",
        "POST /write?db=salt",
    ];
    assert_eq!(firsts, expected.as_mut_slice());
    let (head, body) = &received[0];
    let head = head.to_lowercase();
    assert!(head.contains("x-token: planted-token"), "{head}");
    assert!(head.contains("authorization: basic "), "{head}");
    let ret: Json = serde_json::from_str(body).unwrap();
    assert_eq!(
        (&ret["fun"], &ret["return"]),
        (&"test.ping".into(), &true.into())
    );
}

/// Starts a receiver that sends a text and then either a body without an end, or nothing.
fn endless(head: &'static str, is_silent: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(head.as_bytes());
                while !is_silent && stream.write_all(&[b' '; 65_536]).is_ok() {}
                std::thread::sleep(Duration::from_secs(60));
            });
        }
    });
    address
}

#[test]
fn a_return_that_cannot_be_sent_is_an_error_in_the_log() {
    let answering = |status: &'static str, headers: &'static str| {
        server::start(move |_, _| server::text(status, headers, ""))
    };
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    let servers = [
        ("http://127.0.0.1:1".to_owned(), "Connection refused"),
        (answering("500 Internal Server Error", ""), "answered 500"),
        (
            answering("302 Found", "Location: http://127.0.0.1:1/\r\n"),
            "answered 302",
        ),
        (endless(head, false), "longer than the limit"),
        (endless("", true), "timeout"),
    ];
    for (here, reason) in servers {
        let scratch = configured(&here);
        scratch.write("etc/minion.d/limits.conf", "http_request_timeout: 2\n");
        let answer = call(&scratch, &["test.ping", "--return", ALL]);
        assert_eq!(
            answer.rc,
            Some(0),
            "the function itself succeeds: {}",
            answer.out
        );
        let log = checked(&scratch);
        for returner in ALL.split(',') {
            let start = format!("returner {returner} cannot store the return of job ");
            let mut lines = log.lines();
            let line = lines.find(|line| line.contains(&start));
            let line = line.unwrap_or_else(|| panic!("{here}: {returner}: {log}"));
            // These two look at the status only, and have no more to say.
            if !["slack", "mattermost"].contains(&returner) {
                assert!(line.contains(reason), "{line}");
            }
        }
    }
}

/// A server of events that fails at first.
struct Unreliable {
    received: Received,
    /// The number of requests that still fail.
    failures: AtomicUsize,
}

impl Unreliable {
    fn start(failures: usize) -> (String, Arc<Self>) {
        let kept = Arc::new(Self {
            received: Received::default(),
            failures: failures.into(),
        });
        let server = kept.clone();
        let address = server::start(move |head, body| {
            if !head.starts_with("POST ") {
                return server::text("200 OK", "", "");
            }
            let received = (head.to_lowercase(), body.to_owned());
            server.received.lock().unwrap().push(received);
            let next = |left: usize| left.checked_sub(1);
            match server
                .failures
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next)
            {
                // The request was stored all the same: the answer is lost.
                Ok(_) => server::text("500 Internal Server Error", "", ""),
                Err(_) => server::text("200 OK", "", r#"{"errors": false}"#),
            }
        });
        (address, kept)
    }

    /// Returns the bodies for a path, with the header that names the batch.
    fn bodies(&self, path: &str) -> Vec<(String, String)> {
        let received = self.received.lock().unwrap();
        let wanted = received.iter().filter(|(head, _)| head.contains(path));
        let batch = |head: &str| {
            let mut lines = head.lines();
            let found = lines.find_map(|line| line.strip_prefix("x-pinch-batch: "));
            found.unwrap_or_default().to_owned()
        };
        wanted
            .map(|(head, body)| (batch(head), body.clone()))
            .collect()
    }

    /// Returns the events that `http` has sent, by number.
    fn events(&self) -> Vec<(u64, String)> {
        let mut events = Vec::new();
        for (batch, body) in self.bodies(" /events ") {
            let list: Vec<Json> = serde_json::from_str(&body).unwrap();
            let number = |event: &Json| event["sequence"].as_u64().unwrap();
            let (first, last) = (number(&list[0]), number(&list[list.len() - 1]));
            assert_eq!(batch, format!("event_return/http/{first}-{last}"));
            for event in &list {
                events.push((number(event), event["tag"].as_str().unwrap().to_owned()));
            }
        }
        events.sort();
        events.dedup();
        events
    }

    /// Returns the ids of documents in an index, and a field of each.
    fn documents(&self, index: &str, field: &str) -> Vec<(String, String)> {
        let mut documents = Vec::new();
        for (_, body) in self.bodies(" /_bulk?") {
            let lines: Vec<Json> = body
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            for pair in lines.chunks(2) {
                let action = &pair[0]["index"];
                if action["_index"] == index {
                    let id = action["_id"].as_str().unwrap().to_owned();
                    documents.push((id, pair[1][field].as_str().unwrap().to_owned()));
                }
            }
        }
        documents.sort();
        documents.dedup();
        documents
    }
}

#[test]
fn events_and_jobs_are_sent_until_they_are_stored_and_repetitions_can_be_recognized() {
    let (here, server) = Unreliable::start(3);
    let user = here.replace("//", "//u:planted-password@");
    let mut fleet = Fleet::with(&format!(
        "auto_accept: True\nevent_return: [http, elasticsearch]\nevent_return_whitelist: ['my/*']\nmaster_job_cache: elasticsearch\nhttp.url: {user}/events\nelasticsearch.hosts: ['{user}']\n"
    ));
    fleet.start_minion("m1", "");
    let fire = |fleet: &Fleet, number: usize| {
        let tag = format!("my/{number}");
        let answer = fleet.run(&["salt-run", "event.send", &tag, "{}"]);
        assert_eq!(answer.rc, Some(0), "{}", answer.out);
    };
    (0..4).for_each(|number| fire(&fleet, number));
    fleet.kill_master();
    fleet.start_master();
    (4..8).for_each(|number| fire(&fleet, number));
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "-t", "60", "m1", "test.ping"]).rc == Some(0)
    });
    let wanted: Vec<String> = (0..8).map(|number| format!("my/{number}")).collect();
    fleet.soon("http has each event", || server.events().len() >= 8);
    let tags = |found: Vec<String>| {
        let mut found = found;
        found.sort();
        found
    };
    let events = server.events();
    assert_eq!(
        tags(events.into_iter().map(|(_, tag)| tag).collect()),
        wanted
    );
    let index = "salt-master-event-cache";
    fleet.soon("each event is a document", || {
        server.documents(index, "tag").len() >= 8
    });
    let documents = server.documents(index, "tag");
    assert_eq!(
        tags(documents.into_iter().map(|(_, tag)| tag).collect()),
        wanted
    );
    fleet.soon("the return is a document", || {
        let returns = server.documents("salt-test_ping", "minion");
        returns
            .iter()
            .any(|(id, minion)| id.starts_with("return:") && minion == "m1")
    });
    assert!(!server.documents("salt-master-job-cache", "jid").is_empty());
    let log = fs::read_to_string(fleet.path("master/log")).unwrap();
    assert!(log.contains("answered 500"), "{log}");
    assert!(!log.contains(PLANTED), "{log}");
}
