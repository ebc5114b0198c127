//! Compares the requests of returners that send over HTTP with those of Salt 3007.17.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use ::tests::scratch::corpus;
use ::tests::server;

use super::super::follow::{Batch, Kind, Record, hand_batch};
use super::super::taken;
use super::*;
use crate::testing::{exec_with, json as map_of};

/// The cases in which Salt numbers only some states, because it changes a dictionary while it reads it.
const UNORDERED: [&str; 2] = ["elasticsearch ordered", "elasticsearch single"];

/// A request: its first line without the version, its headers, and its body.
type Received = Arc<Mutex<Vec<(String, String, String)>>>;

fn file(name: &str) -> Map {
    let path = corpus().join("returners/web").join(name);
    map_of(&std::fs::read_to_string(path).unwrap())
}

fn list<'a>(case: &'a Map, key: &str) -> &'a [Value] {
    let found = case.get(key).and_then(Value::as_list);
    found.unwrap_or_default()
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).map(Value::to_text).unwrap_or_default()
}

/// Starts a receiver and returns its address. An index does not exist there.
fn receiver(replies: &[Value]) -> (String, Received) {
    let received = Received::default();
    let kept = received.clone();
    let replies: VecDeque<Value> = replies.to_vec().into();
    let replies = Mutex::new(replies);
    let address = server::start(move |head, body| {
        let (first, headers) = head.split_once("\r\n").unwrap();
        let first = first.trim_end_matches(" HTTP/1.1").to_owned();
        let status = match first.starts_with("HEAD ") {
            true => "404 Not Found",
            false => "200 OK",
        };
        let is_head = first.starts_with("HEAD ");
        let request = (first, headers.to_lowercase(), body.to_owned());
        kept.lock().unwrap().push(request);
        let reply = replies.lock().unwrap().pop_front();
        let usual = r#"{"ok": true, "status": 1, "channel": "C1", "errors": false}"#;
        let reply = reply.map_or_else(|| usual.to_owned(), |reply| reply.to_text());
        server::text(status, "", if is_head { "" } else { &reply })
    });
    (address, received)
}

fn context(case: &Map, here: &str) -> Exec {
    let mut opts = case.get("opts").unwrap().as_map().unwrap().clone();
    opts.insert("id", "web1");
    for (option, address) in [
        ("slack.api_url", here.to_owned()),
        ("slack.hook_url", format!("{here}/services")),
        ("telegram.api_url", here.to_owned()),
        ("pushover.api_url", here.to_owned()),
    ] {
        opts.insert(option, address);
    }
    for (returner, option) in [
        ("mattermost", "api_url"),
        ("elasticsearch", "hosts"),
        ("splunk_http_forwarder", "indexer"),
    ] {
        if let Some(set) = opts.get_mut(returner).and_then(Value::as_map_mut) {
            set.insert(option, here);
        }
    }
    let cx = exec_with(opts, Map::new());
    cx.set_grains(case.get("grains").unwrap().as_map().unwrap().clone());
    cx
}

/// Does what a call of Salt's returner does.
fn run(cx: &Exec, name: &str, call: &[Value]) {
    let record = |event: Value| Record { sequence: 7, event };
    let hand = |kind: Kind, records: &[Record]| {
        let place = "place";
        let batch = Batch {
            kind,
            place,
            records,
        };
        hand_batch(cx, name, &batch).unwrap();
    };
    match call {
        [function, ret] if *function == "returner".into() => {
            taken(cx, name, ret.as_map().unwrap()).unwrap();
        }
        [function, events] if *function == "event_return".into() => {
            let events = events.as_list().unwrap().iter().cloned();
            hand(Kind::Events, &events.map(record).collect::<Vec<_>>());
        }
        [_, jid, load] => {
            let tag = format!("salt/job/{}/new", jid.to_text());
            let event = Map::new().with("tag", tag).with("data", load.clone());
            hand(Kind::Jobs, &[record(event.into())]);
        }
        other => panic!("{other:?}"),
    }
}

/// Returns the fields of a form. Salt does not escape the payload for Mattermost.
fn fields(body: &str) -> Vec<(String, String)> {
    let plain = |text: &str| crate::git::login::unquoted(&text.replace('+', " ")).unwrap();
    if let Some(payload) = body.strip_prefix("payload={") {
        return vec![("payload".to_owned(), format!("{{{payload}"))];
    }
    let pairs = body.split('&').filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(name, value)| (plain(name), plain(value)));
    pairs.collect()
}

fn json(text: &str) -> Value {
    value::json::read(text).unwrap()
}

/// Compares a request with a record of a request.
fn compare(name: &str, wanted: &Value, (first, headers, body): &(String, String, String)) {
    let wanted_first = format!("{} {}", text(wanted, "method"), text(wanted, "path"));
    assert_eq!(*first, wanted_first, "{name}");
    for (header, value) in wanted.get("headers").unwrap().as_map().unwrap() {
        let line = format!("{}: {}\r\n", header.to_text(), value.to_text());
        assert!(headers.contains(&line.to_lowercase()), "{name}: {headers}");
    }
    if !name.starts_with("splunk ") {
        assert_eq!(fields(body), fields(&text(wanted, "body")), "{name}");
        return;
    }
    let mut event = json(body);
    let event = event.as_map_mut().unwrap();
    for (key, value) in [("time", "TIME"), ("host", "HOST")] {
        assert!(
            event.insert(key, value).is_some_and(|old| old.is_true()),
            "{name}"
        );
    }
    assert_eq!(
        Value::from(event.clone()),
        json(&text(wanted, "body")),
        "{name}"
    );
}

/// Compares a request with a record of a call of Salt's library.
fn compare_call(
    name: &str,
    wanted: &Value,
    (first, _, body): &(String, String, String),
    kind: bool,
) {
    let today = jiff::Timestamp::now().strftime("%Y.%m.%d").to_string();
    let text = |key: &str| text(wanted, key).replace("TODAY", &today);
    let index = text("index");
    let definition = wanted.get("body").cloned().unwrap_or_default();
    match text("call").as_str() {
        "index_exists" => assert_eq!(*first, format!("HEAD /{index}"), "{name}"),
        "index_create" => {
            assert_eq!(*first, format!("PUT /{index}"), "{name}");
            assert_eq!(json(body), definition, "{name}");
        }
        "alias_create" => {
            assert_eq!(
                *first,
                format!("PUT /{index}/_alias/{}", text("alias")),
                "{name}"
            );
        }
        _ => {
            assert!(first.starts_with("POST /_bulk?"), "{name}: {first}");
            let (action, source) = body.split_once('\n').unwrap();
            let action = json(action).get("index").unwrap().clone();
            assert_eq!(action.get("_index").unwrap().to_text(), index, "{name}");
            let sent_kind = action.get("_type").map(Value::to_text);
            assert_eq!(sent_kind, kind.then(|| text("doc_type")), "{name}");
            if let Some(id) = wanted.get("id") {
                assert_eq!(action.get("_id"), Some(id), "{name}");
            }
            let mut source = json(source);
            let fields = source.as_map_mut().unwrap();
            fields.remove("@timestamp");
            let mut definition = definition;
            if UNORDERED.contains(&name) {
                let data = fields.remove("data").unwrap();
                let mut keys = data.as_map().unwrap().keys().map(Value::to_text);
                assert!(
                    keys.all(|key| key.starts_with(|first: char| first.is_ascii_digit())
                        || key == "_orig_key"),
                    "{name}: {data:?}"
                );
                definition.as_map_mut().unwrap().remove("data");
            }
            assert_eq!(source, definition, "{name}");
        }
    }
}

#[test]
fn requests_are_those_of_salt() {
    let (cases, records) = (file("cases.json"), file("requests.json"));
    for (name, recorded) in &records {
        let name = name.to_text();
        let case = cases.get(&name).unwrap().as_map().unwrap();
        let recorded = recorded.as_map().unwrap();
        if recorded.contains("error") {
            continue;
        }
        let (here, received) = receiver(list(case, "replies"));
        let cx = context(case, &here);
        let returner = case.get("returner").unwrap().to_text();
        for call in list(case, "calls") {
            run(&cx, &returner, call.as_list().unwrap());
        }
        let received = received.lock().unwrap();
        let wanted = list(recorded, "requests");
        assert_eq!(received.len(), wanted.len(), "{name}: {received:?}");
        let has_type = cx.opts().get("elasticsearch");
        let has_type = has_type.is_some_and(|set| set.get("doc_type").is_some())
            || name == "elasticsearch alternative";
        for (wanted, sent) in wanted.iter().zip(received.iter()) {
            match wanted.get("call") {
                None => compare(&name, wanted, sent),
                Some(_) => compare_call(&name, wanted, sent, has_type),
            }
        }
    }
}
