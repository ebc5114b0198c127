//! Compares what the notification modules send and return with Salt's record, and attacks them as
//! servers.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use ::tests::scratch::corpus;
use ::tests::server;

use super::*;
use crate::exec::{pagerduty, pushover, slack, telegram};
use crate::testing::{apply, exec_with, json as map_of};

/// The servers that the cases name.
const SERVERS: [&str; 3] = [
    "https://chat.example.com",
    "https://mattermost.example.com",
    "https://outlook.office.com",
];

/// The heads and bodies of the requests that a receiver has received.
type Received = Arc<Mutex<Vec<(String, String)>>>;

/// Starts a receiver with these answers and returns its address.
fn receiver(replies: &[Value]) -> (String, Received) {
    let received = Received::default();
    let replies: VecDeque<Value> = replies.to_vec().into();
    let (kept, replies) = (received.clone(), Mutex::new(replies));
    let address = server::start(move |head, body| {
        kept.lock()
            .unwrap()
            .push((head.to_owned(), body.to_owned()));
        let reply = replies.lock().unwrap().pop_front().unwrap();
        let body = match reply.get("body").unwrap() {
            Value::Str(text) => text.to_string(),
            other => json::write(other, Layout::default()),
        };
        let status = reply.get("status").and_then(Value::as_int).unwrap_or(200);
        server::text(&format!("{status} Status"), "", &body)
    });
    (address, received)
}

fn file(name: &str) -> Map {
    let path = corpus().join("notifications").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    map_of(&text.replace("3007.17", "3008.5"))
}

fn map_at(case: &Map, key: &str) -> Map {
    let found = case.get(key).and_then(Value::as_map);
    found.cloned().unwrap_or_default()
}

/// Returns the options of a case, with the addresses of all services.
fn options(case: &Map, here: &str) -> Map {
    map_at(case, "opts")
        .with("slack.api_url", here)
        .with("slack.hook_url", format!("{here}/services/"))
        .with("telegram.api_url", here)
        .with("pushover.api_url", format!("{here}/"))
}

/// Returns `my`, the profile of PagerDuty, with the address of the receiver.
fn with_address(map: Map, here: &str) -> Map {
    match map.get("my").and_then(Value::as_map).cloned() {
        Some(profile) => map.with("my", profile.with("pagerduty.api_url", here)),
        None => map,
    }
}

fn called(case: &Map, here: &str) -> Map {
    let opts = with_address(options(case, here), here);
    let mut cx = exec_with(opts, with_address(map_at(case, "pillar"), here));
    cx.test = case.get("test").is_some_and(Value::is_true);
    let kwargs = map_at(case, "kwargs");
    let name = kwargs.get("name").cloned().unwrap_or_default();
    let found = match case.get("state").and_then(Value::as_str) {
        Some(state) => apply(&cx, state, kwargs).map(|ret| {
            let map = Map::new().with("name", name).with("changes", ret.changes);
            let result = ret.result.map_or(Value::Null, Value::from);
            map.with("result", result)
                .with("comment", ret.comment)
                .into()
        }),
        None => cx.call(
            case.get("function").and_then(Value::as_str).unwrap(),
            Vec::new(),
            kwargs,
        ),
    };
    match found {
        Ok(value) => Map::new().with("return", value),
        Err(error) => Map::new().with("error", error.to_string()),
    }
}

/// Compares one request with its record. The names of headers are in lower case there.
fn compare(name: &str, wanted: &Value, head: &str, body: &str) {
    let text = |key: &str| wanted.get(key).map(Value::to_text).unwrap();
    let service = match name.split_once(' ').unwrap().0 {
        "slack" => slack::API_URL,
        "telegram" => telegram::API_URL,
        "pushover" => pushover::API_URL,
        "pagerduty" => pagerduty::API_URL,
        _ => "https://",
    };
    let mut origins = vec![service, slack::HOOK_URL.trim_end_matches("/services")];
    origins.extend(SERVERS);
    let url = text("url");
    let path = origins.iter().find_map(|origin| {
        url.strip_prefix(origin)
            .filter(|path| path.starts_with('/'))
    });
    let path = path.unwrap_or_else(|| panic!("{name}: the server of {url} is unknown"));
    let first = format!("{} {path} HTTP/1.1", text("method"));
    assert_eq!(head.lines().next(), Some(first.as_str()), "{name}");
    let headers: Vec<(String, &str)> = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(key, value)| (key.to_lowercase(), value))
        .collect();
    let recorded = wanted.get("headers").and_then(Value::as_map).unwrap();
    let is_ours = |value: &str| value.starts_with("python-requests") || value == "*/*";
    for (key, value) in recorded {
        let (key, value) = (key.to_text(), value.to_text());
        let sent = headers.iter().find(|(sent, _)| *sent == key);
        if !is_ours(&value) {
            assert_eq!(sent.unwrap().1, value, "{name}: {key}");
        }
    }
    let has_authorization = headers.iter().any(|(key, _)| key == "authorization");
    assert_eq!(has_authorization, recorded.contains("authorization"));
    assert_eq!(body, text("body"), "{name}: body");
}

fn check(name: &str, case: &Map, recorded: &Map) {
    let replies = case.get("replies").and_then(Value::as_list);
    let (here, received) = receiver(replies.unwrap_or_default());
    let mut text = json::write(&case.clone().into(), Layout::default());
    for server in SERVERS {
        text = text.replace(server, &here);
    }
    let case = map_of(&text);
    let mut found = called(&case, &here);
    let mut requests = recorded
        .get("requests")
        .and_then(Value::as_list)
        .unwrap()
        .to_vec();
    let mut wanted = recorded.clone();
    wanted.remove("requests");
    if let Some(ours) = case.get("ours").and_then(Value::as_map) {
        let (before, mut ours) = (recorded.clone(), ours.clone());
        assert!(ours.remove("reason").is_some(), "{name} has no reason");
        if let (Some(body), Some(last)) = (ours.remove("body"), requests.last_mut()) {
            last.as_map_mut().unwrap().insert("body", body);
        }
        if !ours.is_empty() {
            wanted = ours;
        }
        let differs = wanted
            .clone()
            .with("requests", Value::list(requests.clone()));
        assert_ne!(differs, before, "{name}: `ours` is not needed");
    }
    if let Some(Value::Str(error)) = found.get("error") {
        let error = error.replace(&host(&here), "HERE");
        found.insert("error", error);
    }
    let shown = |map: &Map| json::write(&map.clone().into(), Layout::default());
    assert_eq!(shown(&found), shown(&wanted), "{name}");
    let received = received.lock().unwrap();
    assert_eq!(received.len(), requests.len(), "{name}: {received:?}");
    for (wanted, (head, body)) in requests.iter().zip(received.iter()) {
        compare(name, wanted, head, body);
    }
}

#[test]
fn requests_and_returns_are_those_that_salt_recorded() {
    let (cases, answers) = (file("cases.json"), file("answers.json"));
    assert_eq!(cases.len(), answers.len());
    for (name, case) in &cases {
        let answer = answers
            .get(name.as_str().unwrap())
            .and_then(Value::as_map)
            .unwrap();
        check(&name.to_text(), case.as_map().unwrap(), answer);
    }
}

const SECRET: &str = "planted-secret-9";

/// A call of each service: its name in errors, the function, the arguments.
fn calls(here: &str) -> Vec<(&'static str, &'static str, Map)> {
    let message = Map::new().with("message", "m");
    let url = format!("{here}/{SECRET}");
    let slack = Map::new().with("api_key", SECRET);
    vec![
        ("Slack: ", "slack.list_rooms", slack.clone()),
        (
            "Slack: ",
            "slack.post_message",
            slack.with("channel", "#a").with("message", "m"),
        ),
        (
            "Slack: ",
            "slack.call_hook",
            message.clone().with("identifier", url.as_str()),
        ),
        (
            "Mattermost: ",
            "mattermost.post_message",
            message.clone().with("api_url", here).with("hook", SECRET),
        ),
        (
            "Microsoft Teams: ",
            "msteams.post_card",
            message.clone().with("hook_url", url.as_str()),
        ),
        (
            "Telegram: ",
            "telegram.post_message",
            message.clone().with("chat_id", 1).with("token", SECRET),
        ),
        (
            "Pushover: ",
            "pushover.post_message",
            message.with("user", "u").with("token", SECRET),
        ),
        (
            "PagerDuty: ",
            "pagerduty.create_event",
            Map::new().with("service_key", SECRET).with("profile", "my"),
        ),
    ]
}

/// Makes the call of each service at this address. Each must fail with an error that names the
/// service and has no secret. Returns the errors.
fn refused(here: &str, opts: Map, only: fn(&str) -> bool) -> Vec<String> {
    let profile = Map::new().with("pagerduty.subdomain", "acme");
    let opts = options(&Map::new().with("opts", opts), here).with("my", profile);
    let cx = exec_with(with_address(opts, here), Map::new());
    let calls = calls(here);
    let calls = calls.into_iter().filter(|(_, function, _)| only(function));
    calls
        .map(|(service, function, kwargs)| {
            let error = cx.call(function, Vec::new(), kwargs);
            let error = error.expect_err(function).to_string();
            assert!(error.starts_with(service), "{function}: {error}");
            assert!(!error.contains(SECRET), "{function}: {error}");
            assert!(secret::is_in(SECRET), "{function}");
            error
        })
        .collect()
}

fn all(_: &str) -> bool {
    true
}

/// Returns whether a function reads the answer as JSON.
fn reads_json(function: &str) -> bool {
    ![
        "slack.call_hook",
        "mattermost.post_message",
        "msteams.post_card",
    ]
    .contains(&function)
}

#[test]
fn an_answer_that_is_not_json_is_an_error() {
    let here = server::start(|_, _| server::text("200 OK", "", "<html>Welcome</html>"));
    let errors = refused(&here, Map::new(), reads_json);
    assert_eq!(errors.len(), 5);
    for error in errors {
        assert!(error.contains(" is not JSON: "), "{error}");
    }
    let here = server::start(|_, _| server::text("200 OK", "", "[1]"));
    for error in refused(&here, Map::new(), reads_json) {
        assert!(error.ends_with(" is not a JSON object"), "{error}");
    }
    let deep = "[".repeat(100_000);
    let here = server::start(move |_, _| server::text("200 OK", "", &deep));
    refused(&here, Map::new(), reads_json);
}

#[test]
fn a_redirect_is_an_error_and_is_not_followed() {
    let (elsewhere, received) = receiver(&[]);
    for location in [elsewhere.as_str(), "file:///etc/passwd", "ftp://h/", "//h"] {
        for status in ["301 Moved", "302 Found", "303 See Other", "307 T", "308 P"] {
            let headers = format!("Location: {location}\r\n");
            let here = server::start(move |_, _| server::text(status, &headers, ""));
            for error in refused(&here, Map::new(), all) {
                assert!(error.contains("redirects are not followed"), "{error}");
            }
        }
    }
    assert!(received.lock().unwrap().is_empty());
}

#[test]
fn an_answer_that_is_too_long_is_an_error() {
    let long = " ".repeat(usize::try_from(MAX_ANSWER).unwrap() + 1);
    let here = server::start(move |_, _| server::text("200 OK", "", &long));
    let only = |function: &str| function != "slack.list_rooms";
    for error in refused(&here, Map::new(), only) {
        let end = "the answer is longer than the limit of 1048576 bytes";
        assert!(error.ends_with(end), "{error}");
    }
    for error in refused(&here, Map::new().with("http_max_body", 10), all) {
        assert!(error.ends_with("the limit of 10 bytes"), "{error}");
    }
}

#[test]
fn a_server_that_says_nothing_is_an_error_after_the_deadline() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = format!("http://{}", silent.local_addr().unwrap());
    let opts = Map::new().with("http_request_timeout", 1);
    for error in refused(&here, opts, all) {
        assert!(error.contains("no answer from 127.0.0.1:"), "{error}");
        assert!(error.contains("timeout"), "{error}");
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_an_error() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    for error in refused(&here, Map::new(), all) {
        assert!(error.ends_with("Connection refused"), "{error}");
    }
    for here in ["file:///etc", "gopher://h"] {
        for error in refused(here, Map::new(), all) {
            assert!(error.ends_with("must begin with https:// or http://"));
        }
    }
}

#[test]
fn a_long_refusal_is_cut() {
    let here = server::start(|_, _| server::text("500 Fault", "", &"ä".repeat(5000)));
    let kwargs = Map::new()
        .with("name", "n")
        .with("message", "m")
        .with("webhook", format!("{here}/{SECRET}"));
    let ret = apply(
        &exec_with(Map::new(), Map::new()),
        "slack.post_message",
        kwargs,
    )
    .unwrap();
    let shown = format!("{}…", "ä".repeat(SHOWN_MAX));
    assert_eq!(ret.comment, format!("Failed to send message ({shown}): n"));
    assert_eq!(ret.result, Some(false));
}

#[test]
fn a_state_whose_message_cannot_be_sent_fails_without_its_secrets() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let here = format!("http://{address}");
    let profile = map_of(r#"{"pagerduty.subdomain": "acme"}"#).with("pagerduty.api_url", &*here);
    let opts = options(&Map::new(), &here).with("my", profile);
    let cx = exec_with(opts, Map::new());
    for (state, kwargs) in [
        (
            "slack.post_message",
            map_of(r##"{"channel": "#a", "from_name": "f", "message": "m"}"##)
                .with("api_key", SECRET),
        ),
        (
            "msteams.post_card",
            map_of(r#"{"message": "m"}"#).with("hook_url", format!("{here}/{SECRET}")),
        ),
        (
            "pushover.post_message",
            map_of(r#"{"message": "m", "user": "u"}"#).with("token", SECRET),
        ),
        (
            "pagerduty.create_event",
            map_of(r#"{"details": "d", "profile": "my"}"#).with("service_key", SECRET),
        ),
    ] {
        let ret = apply(&cx, state, kwargs.with("name", "n")).unwrap();
        assert_eq!(ret.result, Some(false), "{state}");
        let part = format!(": no answer from {address}: ");
        assert!(ret.comment.contains(&part), "{state}: {}", ret.comment);
        assert!(!ret.comment.contains(SECRET), "{state}");
    }
}
