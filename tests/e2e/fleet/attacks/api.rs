//! Attacks on the API: what a client without rights, a page of another server, and a flood can do.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fleet::api::{Asked, credentials};
use crate::fleet::{Fleet, PATIENCE};

fn ping() -> Value {
    json!({"client": "local", "tgt": "*", "fun": "test.ping"})
}

/// Returns a call with another entry.
fn with(mut chunk: Value, key: &str, value: impl Into<Value>) -> Value {
    chunk[key] = value.into();
    chunk
}

/// Returns the jobs that the master has stored.
fn jobs(fleet: &Fleet) -> String {
    fleet.run(&["salt-run", "--out=json", "jobs.list_jobs"]).out
}

#[test]
fn a17_a_chunk_names_no_user_job_returner_or_file() {
    let fleet = Fleet::with_api("");
    let token = fleet.login("alice");
    for key in [
        "user",
        "jid",
        "ret",
        "ret_config",
        "ssh_options",
        "ssh_priv",
        "roster_file",
        "raw_shell",
        "module_executors",
        "executor_opts",
        "schedule",
        "bound_grains",
        "no_log",
        "__user__",
    ] {
        let asked = Asked::post("/", &json!([with(ping(), key, "x")])).token(&token);
        let reply = fleet.ask(&asked);
        let text = format!("`{key}` is not allowed in a lowstate");
        assert_eq!((reply.status, &reply.json()["return"]), (400, &json!(text)));
    }
    for fun in ["cmd.run id", "test.ping\nx", "", "../x"] {
        let asked = Asked::post("/", &json!([with(ping(), "fun", fun)])).token(&token);
        assert_eq!(fleet.ask(&asked).status, 400, "{fun:?}");
    }
    for client in ["runner", "wheel"] {
        let chunk = json!({"client": client, "fun": "key.list_all", "user": "root"});
        let asked = Asked::post("/", &json!([chunk])).token(&token);
        assert_eq!(fleet.ask(&asked).status, 400);
    }
    assert_eq!(jobs(&fleet).trim(), "{}");
}

#[test]
fn a17_clients_that_are_off_and_users_without_rules_start_nothing() {
    let fleet = Fleet::with_api("");
    let (alice, carol) = (fleet.login("alice"), fleet.login("carol"));
    for client in ["ssh", "destroy", "run", "_authorize_ssh", "", "local\n"] {
        let asked = Asked::post("/", &json!([with(ping(), "client", client)])).token(&alice);
        assert_eq!(fleet.ask(&asked).status, 400, "{client:?}");
    }
    for client in [
        "local",
        "local_async",
        "local_batch",
        "local_subset",
        "runner",
        "runner_async",
        "wheel",
        "wheel_async",
    ] {
        let asked = Asked::post("/", &json!([with(ping(), "client", client)])).token(&carol);
        assert_eq!(fleet.ask(&asked).status, 401, "{client}");
        let asked = Asked::post("/run", &json!([with(ping(), "client", client)]));
        assert_eq!(fleet.ask(&asked).status, 401, "{client}");
    }
    for path in ["/minions", "/jobs", "/keys"] {
        assert_eq!(
            fleet.ask(&Asked::new("GET", path).token(&carol)).status,
            401,
            "{path}"
        );
        assert_eq!(fleet.ask(&Asked::new("GET", path)).status, 401, "{path}");
    }
    let chunk = json!([with(credentials("carol"), "mid", "new")]);
    assert_eq!(fleet.ask(&Asked::post("/keys", &chunk)).status, 401);
    assert_eq!(
        fleet.run(&["salt-key", "-l", "acc"]).out.trim(),
        "Accepted Keys:"
    );
    assert_eq!(jobs(&fleet).trim(), "{}");
}

#[test]
fn a17_a_page_of_another_server_cannot_use_a_cookie() {
    let fleet = Fleet::with_api("");
    let token = fleet.login("alice");
    let cookie = format!("session_id={token}");
    for foreign in [
        ("Origin", "http://evil"),
        ("Origin", "null"),
        ("Sec-Fetch-Site", "cross-site"),
    ] {
        let with = |asked: Asked| asked.with("Cookie", &cookie).with(foreign.0, foreign.1);
        for asked in [
            with(Asked::post("/", &json!([ping()]))),
            with(Asked::post("/hook/a", &json!({}))),
            with(Asked::new("GET", "/events")),
            with(Asked::new("POST", "/logout")),
        ] {
            assert_eq!(fleet.ask(&asked).status, 401, "{asked:?}");
        }
    }
    let own = Asked::new("GET", "/stats").with("Cookie", &cookie);
    assert_eq!(fleet.ask(&own).status, 200);
}

#[test]
fn a21_a_token_in_a_query_is_refused_and_not_logged() {
    let fleet = Fleet::with_api("log_level_logfile: trace\n");
    let token = fleet.login("alice");
    for path in ["/events", "/stats", "/minions", "/jobs", "/keys", "/"] {
        for name in ["token", "salt_token"] {
            let path = format!("{path}?{name}={token}");
            let status = fleet.ask(&Asked::new("GET", &path)).status;
            assert!([400, 401, 404].contains(&status), "{path}: {status}");
        }
    }
    let wrong =
        json!({"username": "alice", "password": "a password that is wrong", "eauth": "file"});
    assert_eq!(fleet.ask(&Asked::post("/login", &wrong)).status, 401);
    let log = fleet.master_log();
    for secret in [token.as_str(), "secret-a", "a password that is wrong"] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn a18_a_token_ends_with_its_time() {
    let fleet = Fleet::with_api("token_expire: 2\n");
    let token = fleet.login("alice");
    let stats = Asked::new("GET", "/stats").token(&token);
    let events = Asked::new("GET", "/events").token(&token);
    let run = Asked::post("/run", &json!([with(ping(), "token", token.as_str())]));
    fleet.soon("the token ends", || fleet.ask(&stats).status == 401);
    for asked in [events, run] {
        assert_eq!(fleet.ask(&asked).status, 401, "{asked:?}");
    }
}

#[test]
fn a16_bodies_and_passwords_have_a_limit() {
    let fleet = Fleet::with_api("");
    let long = json!({"username": "alice", "password": "x".repeat(1 << 20), "eauth": "file"});
    let reply = fleet.ask(&Asked::post("/login", &long));
    assert_eq!(reply.status, 413, "{reply:?}");
    assert!(reply.body.contains("max_request_body_size"), "{reply:?}");
    let long = json!({"username": "alice", "password": "x".repeat(1 << 19), "eauth": "file"});
    assert_eq!(fleet.ask(&Asked::post("/login", &long)).status, 401);
    let token = fleet.login("alice");
    let many = json!(vec![ping(); 10_000]);
    assert_eq!(
        fleet.ask(&Asked::post("/", &many).token(&token)).status,
        400
    );
    let deep = format!("[{}{}]", "[".repeat(1000), "]".repeat(1000));
    let asked = Asked::new("POST", "/").with("Content-Type", "application/json");
    assert_eq!(fleet.ask(&asked.body(&deep).token(&token)).status, 400);
    let bomb = "a: &a [x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\n".to_owned();
    let bomb = (0..30).fold(bomb, |text, n| {
        let (last, next) = (
            if n == 0 {
                "b".to_owned()
            } else {
                format!("c{}", n - 1)
            },
            format!("c{n}"),
        );
        format!("{text}{next}: &{next} [*{last}, *{last}, *{last}, *{last}]\n")
    });
    let asked = Asked::new("POST", "/").with("Content-Type", "application/x-yaml");
    assert_eq!(fleet.ask(&asked.body(&bomb).token(&token)).status, 400);
    let header = Asked::new("GET", "/stats").token(&"a".repeat(20_000));
    assert_eq!(fleet.ask(&header).status, 431);
}

#[test]
fn a16_slow_requests_do_not_keep_others_out() {
    let fleet = Fleet::with_api("");
    let address = fleet.api();
    let slow: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut stream = TcpStream::connect(&address).unwrap();
            let text = match number % 2 {
                0 => "POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
                _ => "GET / HT",
            };
            stream.write_all(text.as_bytes()).unwrap();
            stream
        })
        .collect();
    let token = fleet.login("bob");
    assert_eq!(
        fleet.ask(&Asked::new("GET", "/stats").token(&token)).status,
        200
    );
    // A request that does not arrive ends, and says so.
    let mut first = slow.into_iter().next().unwrap();
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut text = String::new();
    first.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
}

#[test]
fn a16_ten_thousand_sessions_take_a_bounded_room() {
    let fleet = Fleet::with_api("");
    // Requests with tokens that no one has leave nothing behind.
    let size = || {
        let status = fs::read_to_string(format!("/proc/{}/status", fleet.master_pid())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        let digits: String = line.chars().filter(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap()
    };
    let mut stream = TcpStream::connect(fleet.api()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut ask = |number: u64| {
        let asked = Asked::new("GET", "/stats").token(&format!("{number:064x}"));
        stream.write_all(asked.text().as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let length = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    };
    // The limit of requests is for another test: a fast master refuses some, and they are repeated.
    let mut ask_all = |count: u64| {
        for number in 0..count {
            let mut text = ask(number);
            while text.starts_with("HTTP/1.1 429") {
                sleep(Duration::from_millis(100));
                text = ask(number);
            }
            assert!(text.starts_with("HTTP/1.1 401"), "{text}");
        }
    };
    ask_all(1000);
    let before = size();
    ask_all(10_000);
    sleep(Duration::from_millis(100));
    assert!(size() < before + 10_000, "{before} kB, then {} kB", size());
}
