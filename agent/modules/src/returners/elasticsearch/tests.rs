//! The answers of a server to bulk requests, and returns that attack it.

use std::sync::{Arc, Mutex};

use ::tests::server;

use super::super::follow::hand_batch;
use super::*;
use crate::testing::{exec_with, json};

/// The requests: the first line and the body.
type Received = Arc<Mutex<Vec<(String, String)>>>;

/// Starts a server with an answer to bulk requests: a status and a body. Every index exists.
fn server(bulk: impl Fn(&str) -> (&'static str, String) + Send + 'static) -> (Exec, Received) {
    let received = Received::default();
    let kept = received.clone();
    let address = server::start(move |head, body| {
        let first = head.lines().next().unwrap_or_default().to_owned();
        let is_bulk = first.starts_with("POST");
        kept.lock().unwrap().push((first, body.to_owned()));
        match is_bulk {
            true => {
                let (status, answer) = bulk(body);
                server::text(status, "", &answer)
            }
            false => server::text("200 OK", "", ""),
        }
    });
    let address = address.replace("//", "//u:planted-password@");
    let opts = Map::new().with("elasticsearch", Map::new().with("hosts", address));
    (exec_with(opts, Map::new()), received)
}

fn records(count: u64) -> Vec<Record> {
    let record = |sequence: u64| {
        let event = format!(
            r#"{{"tag": "my/{sequence}", "data": {{"_stamp": "2026-01-01T00:00:00.00000{sequence}"}}}}"#
        );
        Record {
            sequence,
            event: json(&event).into(),
        }
    };
    (1..=count).map(record).collect()
}

fn hand(cx: &Exec, kind: Kind, records: &[Record]) -> Result<(), String> {
    let place = "event_return/elasticsearch";
    let batch = Batch {
        kind,
        place,
        records,
    };
    hand_batch(cx, NAME, &batch).map_err(|error| error.to_string())
}

/// Returns the bodies of the bulk requests.
fn bulks(received: &Received) -> Vec<String> {
    let received = received.lock().unwrap();
    let bulks = received
        .iter()
        .filter(|(first, _)| first.starts_with("POST"));
    bulks.map(|(_, body)| body.clone()).collect()
}

fn items(statuses: &[(i64, &str)]) -> String {
    let items = statuses.iter().map(|(status, kind)| {
        format!(
            r#"{{"index": {{"status": {status}, "error": {{"type": "{kind}", "reason": "r. Preview of field's value: 'planted-value'"}}}}}}"#
        )
    });
    let items: Vec<String> = items.collect();
    format!(r#"{{"errors": true, "items": [{}]}}"#, items.join(", "))
}

#[test]
fn all_events_of_a_batch_are_stored_with_ids_that_do_not_change() {
    let (cx, received) = server(|_| ("200 OK", r#"{"errors": false}"#.to_owned()));
    hand(&cx, Kind::Events, &records(3)).unwrap();
    hand(&cx, Kind::Events, &records(3)).unwrap();
    let bulks = bulks(&received);
    let [first, second] = bulks.as_slice() else {
        panic!("{bulks:?}")
    };
    assert_eq!(first, second);
    assert_eq!(first.lines().count(), 6);
    let action =
        r#"{"index": {"_index": "salt-master-event-cache", "_id": "event:m1:1:1767225600000001"}}"#;
    assert_eq!(first.lines().next(), Some(action));
}

#[test]
fn a_document_that_is_refused_for_its_data_does_not_hold_up_the_others() {
    let refused = items(&[(201, ""), (400, "mapper_parsing_exception"), (200, "")]);
    let (cx, _) = server(move |_| ("200 OK", refused.clone()));
    hand(&cx, Kind::Events, &records(3)).unwrap();
}

#[test]
fn any_other_failure_is_of_the_whole_batch() {
    let cases = [
        (
            "200 OK",
            items(&[(201, ""), (429, "es_rejected_execution_exception")]),
        ),
        (
            "200 OK",
            items(&[(201, ""), (403, "cluster_block_exception")]),
        ),
        ("200 OK", items(&[(400, "validation_exception"), (201, "")])),
        (
            "200 OK",
            items(&[(503, "unavailable_shards_exception"), (201, "")]),
        ),
        ("200 OK", items(&[(201, "")])),
        ("200 OK", r#"{"errors": true}"#.to_owned()),
        ("200 OK", r#"{"items": []}"#.to_owned()),
        ("200 OK", "<html>".to_owned()),
        ("401 Unauthorized", String::new()),
        ("500 Internal Server Error", String::new()),
        ("302 Found", String::new()),
    ];
    for (status, answer) in cases {
        let (cx, _) = server(move |_| (status, answer.clone()));
        let error = hand(&cx, Kind::Events, &records(2)).unwrap_err();
        assert!(error.contains("Elasticsearch: "), "{error}");
        assert!(!error.contains("planted"), "{error}");
    }
}

#[test]
fn a_batch_that_is_too_large_is_sent_in_halves() {
    let (cx, received) = server(
        |body| match body.lines().count() > 2 || body.contains("my/2") {
            true => ("413 Payload Too Large", String::new()),
            false => ("200 OK", r#"{"errors": false}"#.to_owned()),
        },
    );
    hand(&cx, Kind::Events, &records(3)).unwrap();
    let single = bulks(&received);
    let single = single.iter().filter(|body| body.lines().count() == 2);
    assert_eq!(single.count(), 3);
}

#[test]
fn the_next_host_is_used_if_one_does_not_answer() {
    let (cx, received) = server(|_| ("200 OK", r#"{"errors": false}"#.to_owned()));
    let hosts = cx
        .opts()
        .get("elasticsearch")
        .unwrap()
        .get("hosts")
        .unwrap()
        .clone();
    let hosts = Value::list(["127.0.0.1:1".into(), hosts]);
    let opts = Map::new().with("elasticsearch.hosts", hosts);
    hand(&exec_with(opts, Map::new()), Kind::Events, &records(1)).unwrap();
    assert_eq!(bulks(&received).len(), 1);
}

#[test]
fn a_return_cannot_name_another_index_or_document() {
    let ret = |function: &str| {
        let ret = Map::new()
            .with("fun", function)
            .with("jid", "7")
            .with("id", "m")
            .with("return", true);
        of_return(&exec_with(Map::new(), Map::new()), &ret, Timestamp::now()).unwrap()
    };
    for (function, index) in [
        ("../_all/Test", "salt-____all_test"),
        ("a,b*?#\"<>| ", "salt-a_b________"),
        ("test.ping", "salt-test_ping"),
    ] {
        assert_eq!(ret(function).index, index);
    }
    assert!(ret(&"ü".repeat(1000)).index.len() < 200);
    let forged = ret("master-event-cache");
    assert_eq!(forged.index, "salt-master-event-cache");
    assert_eq!(forged.id, "return:7:m");
}
