//! Tests that frames of every kind have the same bytes as those stored for each version of the
//! protocol in `tests/corpus/wire/v1`.

use std::fs;
use std::path::{Path, PathBuf};

use value::{Map, Value, json};

use super::*;
use crate::msgpack::tests::Seeded;

const STAMP: &str = "2026-11-20T10:10:35.942822";
const JID: &str = "20261120101035942505";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/wire/v1")
}

fn map(key: &str, value: impl Into<Value>) -> Map {
    Map::new().with(key, value)
}

fn id() -> Id {
    "web-01.example.org".parse().unwrap()
}

fn control() -> Vec<Control> {
    vec![
        Hello {
            version_min: 1,
            version_max: 1,
            features: vec!["resume".into()],
            id: id(),
            role: "minion".into(),
            program: "0.1.0".into(),
            started: STAMP.into(),
            epoch: u64::MAX,
            token: Some(Secret::new("t0ken")),
            grains: map("os", "Debian"),
            evidence: map("aws", Value::Bytes(b"\x30\x82".as_slice().into())),
        }
        .into(),
        Welcome {
            version: 1,
            features: Vec::new(),
            bound: map("role", "web"),
            epoch: 7,
            durable: 12,
            program: "0.1.0".into(),
            stamp: STAMP.into(),
        }
        .into(),
        Pending {
            reason: "nobody has accepted this key yet".into(),
        }
        .into(),
        Refused {
            reason: "rejected".into(),
            text: "the key was rejected".into(),
            retry_s: Some(10),
        }
        .into(),
        Event {
            sequence: 13,
            tag: "my/own".into(),
            stamp: STAMP.into(),
            data: map("a", 1),
        }
        .into(),
        Ack { sequence: 13 }.into(),
        Masters {
            index: 40,
            masters: vec![
                map("name", "10.0.0.1")
                    .with("address", "10.0.0.1:4506")
                    .with("finger", ["ab"; 32].join(":"))
                    .into(),
            ],
        }
        .into(),
        Bye {
            reason: "the master stops".into(),
            retry_s: None,
        }
        .into(),
    ]
}

fn of_minions() -> Vec<Request> {
    let (saltenv, path) = ("base".to_owned(), "top.sls".to_owned());
    vec![
        Pillar {
            saltenv: Some(saltenv.clone()),
            pillarenv: None,
            grains: map("id", "m1"),
            pillar_override: Map::new(),
            secrets: false,
        }
        .into(),
        Tops {
            grains: map("id", "m1"),
        }
        .into(),
        Grains {
            grains: map("cpus", 2),
        }
        .into(),
        Options {}.into(),
        List {
            what: "files".into(),
            saltenv: saltenv.clone(),
            prefix: String::new(),
        }
        .into(),
        Stat {
            path: path.clone(),
            saltenv: saltenv.clone(),
        }
        .into(),
        File {
            path: path.clone(),
            saltenv,
            offset: 70_000,
            hash: Some("ab".repeat(32)),
        }
        .into(),
        Push {
            path,
            size: 5,
            hash: "cd".repeat(32),
        }
        .into(),
        MineGet {
            tgt: "*".into(),
            tgt_type: "glob".into(),
            fun: vec!["network.ip_addrs".into()],
            exclude_minion: true,
        }
        .into(),
        MinePut {
            data: map("x", Value::Null),
            clear: true,
        }
        .into(),
        MineDelete { fun: None }.into(),
        Return {
            sequence: 14,
            jid: JID.into(),
            stamp: STAMP.into(),
            data: map("return", true),
        }
        .into(),
    ]
}

fn of_others() -> Vec<Request> {
    let jid = JID.to_owned();
    let arg = vec![Value::from("x"), Value::Map(map("__kwarg__", true))];
    let (tgt_type, ret) = ("compound".to_owned(), String::new());
    vec![
        Publish {
            tgt: "G@os:Debian".into(),
            tgt_type: tgt_type.clone(),
            fun: "test.ping".into(),
            arg: arg.clone(),
            ret: ret.clone(),
            jid: None,
            timeout_s: Some(2.5),
            options: Map::new(),
        }
        .into(),
        Runner {
            fun: "manage.up".into(),
            arg: arg.clone(),
            jid: Some(jid.clone()),
            asynchronous: true,
            watched: false,
        }
        .into(),
        Wheel {
            fun: "key.accept".into(),
            arg: arg.clone(),
        }
        .into(),
        Listen {
            tags: vec!["salt/job/*".into()],
            from: Some(1),
            since_ms: None,
            until_ms: None,
        }
        .into(),
        Fire {
            tag: "my/own".into(),
            data: map("a", 1),
        }
        .into(),
        Ping {}.into(),
        Backup {}.into(),
        Job {
            jid: jid.clone(),
            fun: "state.apply".into(),
            arg,
            tgt: "*".into(),
            tgt_type,
            ret,
            user: "root".into(),
            options: map("metadata", "m"),
        }
        .into(),
        FindJob { jid: jid.clone() }.into(),
        Running {}.into(),
        SignalJob { jid, signal: 15 }.into(),
        NextKey {
            statement: "b2xk bmV4dA== c2lnbmF0dXJl".into(),
        }
        .into(),
    ]
}

fn of_machines() -> Vec<Request> {
    vec![
        Beacons {
            fun: "add".into(),
            name: Some("load".into()),
            data: Some(Value::list([Map::new().with("interval", 5).into()])),
        }
        .into(),
        Schedule {
            fun: "delete".into(),
            name: Some("job1".into()),
            data: map("persist", true),
        }
        .into(),
        Refresh {
            what: "pillar".into(),
            wait_s: None,
        }
        .into(),
    ]
}

fn answers() -> Vec<Answer> {
    vec![
        Data {
            data: Value::Bytes(vec![0, 1, 255].into()),
        }
        .into(),
        Done {
            data: Value::Tuple(
                vec![
                    Value::from(1.5),
                    Value::Big("123456789012345678901234567890".into()),
                ]
                .into(),
            ),
        }
        .into(),
        Failed {
            reason: "missing".into(),
            text: "there is no such file".into(),
        }
        .into(),
    ]
}

fn of_users() -> Vec<Request> {
    vec![
        Login {
            eauth: "pam".into(),
            username: "joe".into(),
            password: Secret::new("s3cret"),
            token: None,
            expire_s: Some(60.0),
            mint: true,
        }
        .into(),
    ]
}

/// Returns frames with fields that their kind did not have at first, each with a name for it.
fn later_fields() -> Vec<(&'static str, Request)> {
    vec![(
        "times",
        Listen {
            tags: Vec::new(),
            from: None,
            since_ms: Some(1_795_600_000_000),
            until_ms: Some(1_795_603_600_000),
        }
        .into(),
    )]
}

/// Returns the kind in the name of a golden frame.
fn kind(name: &str) -> &str {
    name.split('+').next().unwrap_or(name)
}

/// Returns one frame of each kind, and frames that a later version may send.
fn all() -> Vec<(String, Frame)> {
    let mut all: Vec<(String, Frame)> = Vec::new();
    all.extend(
        control()
            .into_iter()
            .map(|frame| (frame.kind().to_owned(), frame.into())),
    );
    all.extend(
        of_minions()
            .into_iter()
            .map(|frame| (frame.kind().to_owned(), frame.into())),
    );
    all.extend(
        of_users()
            .into_iter()
            .map(|frame| (frame.kind().to_owned(), frame.into())),
    );
    all.extend(
        of_others()
            .into_iter()
            .chain(of_machines())
            .map(|frame| (frame.kind().to_owned(), frame.into())),
    );
    all.extend(
        answers()
            .into_iter()
            .map(|frame| (frame.kind().to_owned(), frame.into())),
    );
    all.extend(
        later_fields()
            .into_iter()
            .map(|(name, frame)| (format!("{}+{name}", frame.kind()), frame.into())),
    );
    all.push((
        "unsupported".into(),
        Frame::Unsupported {
            kind: "later".into(),
        },
    ));
    all.push((
        "unknown".into(),
        Frame::Unknown {
            kind: "later".into(),
        },
    ));
    all
}

fn bytes(frame: &Frame) -> Vec<u8> {
    let mut out = Vec::new();
    frame.encode(Limits::STREAM, &mut out).unwrap();
    out
}

/// Returns the contents of a frame as readable text, for people who read the corpus.
fn to_json(bytes: &[u8]) -> String {
    let value = msgpack::decode(&bytes[4..], Limits::STREAM).unwrap();
    let layout = json::Layout {
        indent: Some(2),
        sort_keys: false,
        ascii: false,
    };
    json::write(&value, layout) + "\n"
}

/// Writes new frames to the corpus; run it with `--ignored` after adding a kind. It writes only
/// missing files, because frames that a release has sent never change.
#[test]
#[ignore = "writes to the corpus"]
#[expect(clippy::disallowed_methods, reason = "a test's own files")]
fn record() {
    for (name, frame) in all() {
        let path = folder().join(format!("{name}.bin"));
        if !path.exists() {
            fs::create_dir_all(folder()).unwrap();
            fs::write(path, bytes(&frame)).unwrap();
            fs::write(
                folder().join(format!("{name}.json")),
                to_json(&bytes(&frame)),
            )
            .unwrap();
        }
    }
}

#[test]
fn every_kind_is_kept_and_reads_as_ever() {
    let all = all();
    for rule in rule::rules() {
        assert!(
            all.iter().any(|(name, _)| name == rule.kind),
            "{} has no golden frame",
            rule.kind
        );
    }
    for (name, frame) in all {
        let kept = fs::read(folder().join(format!("{name}.bin"))).unwrap();
        assert_eq!(bytes(&frame), kept, "{name}");
        assert_eq!(
            Frame::decode(&kept[4..], Limits::STREAM).as_ref(),
            Ok(&frame),
            "{name}"
        );
        let text = fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
        assert_eq!(to_json(&kept), text, "{name}");
    }
}

#[test]
fn frames_come_out_however_their_bytes_come_in() {
    let all = all();
    let stream: Vec<u8> = all.iter().flat_map(|(_, frame)| bytes(frame)).collect();
    for piece in [1, 2, 3, 7, 100, stream.len()] {
        let mut decoder = Decoder::new(Limits::STREAM);
        let mut found = Vec::new();
        for piece in stream.chunks(piece) {
            decoder.push(piece);
            while let Some(frame) = decoder.next_frame().unwrap() {
                found.push(frame);
            }
        }
        assert!(decoder.is_empty());
        assert!(
            found.iter().eq(all.iter().map(|(_, frame)| frame)),
            "pieces of {piece}"
        );
    }
}

#[test]
fn later_versions_may_say_more() {
    let later = Map::new()
        .with("kind", "ack")
        .with("sequence", 3)
        .with("colour", "blue");
    let mut bytes = Vec::new();
    msgpack::encode(&Value::Map(later), Limits::HELLO, &mut bytes).unwrap();
    let frame = Frame::decode(&bytes, Limits::HELLO).unwrap();
    assert_eq!(frame, Ack { sequence: 3 }.into());
    assert_eq!(common_version(1, 9), Some(VERSION_MAX));
    assert_eq!(common_version(VERSION_MAX + 1, 9), None);
    assert_eq!(common_version(0, 0), None);
}

#[test]
fn a_bad_frame_is_passed_over_and_a_long_one_is_not() {
    let good: Frame = Ack { sequence: 1 }.into();
    let mut decoder = Decoder::new(Limits::HELLO);
    decoder.push(&[0, 0, 0, 1, 0xc1]);
    decoder.push(&bytes(&good));
    let error = decoder.next_frame().unwrap_err();
    assert!(!error.is_fatal());
    assert_eq!(decoder.next_frame(), Ok(Some(good)));
    decoder.push(&[0, 1, 0, 1]);
    let error = decoder.next_frame().unwrap_err();
    assert_eq!(
        error,
        Error::TooLong {
            bytes: 65_537,
            limit: 65_536
        }
    );
    assert!(error.is_fatal());
}

#[test]
fn a_field_that_is_missing_or_wrong_is_named() {
    let cases = [
        (Map::new(), "a frame must be a map with the key `kind`"),
        (map("kind", 1), "a frame must be a map with the key `kind`"),
        (
            map("kind", "ack"),
            "`sequence` of the frame `ack` must be a non-negative integer",
        ),
        (
            map("kind", "ack").with("sequence", -1),
            "`sequence` of the frame `ack` must be a non-negative integer",
        ),
        (
            map("kind", "hello")
                .with("version_min", 1)
                .with("version_max", 1)
                .with("id", "../x"),
            "`id` of the frame `hello` must be an id",
        ),
    ];
    for (map, text) in cases {
        let mut bytes = Vec::new();
        msgpack::encode(&Value::Map(map), Limits::HELLO, &mut bytes).unwrap();
        assert_eq!(
            Frame::decode(&bytes, Limits::HELLO)
                .unwrap_err()
                .to_string(),
            text
        );
    }
}

#[test]
fn what_a_frame_holds_is_in_no_log() {
    for (name, frame) in all() {
        let shown = format!("{frame:?}");
        let hidden = ["t0ken", "Debian", "web", "return", "true"];
        assert!(
            hidden.iter().all(|word| !shown.contains(word)) || name == "return",
            "{shown}"
        );
    }
}

#[test]
fn damaged_frames_never_panic() {
    let mut seeded = Seeded(5);
    let all: Vec<Vec<u8>> = all().iter().map(|(_, frame)| bytes(frame)).collect();
    for _ in 0..50_000 {
        let mut bytes = all[seeded.next(all.len() as u64) as usize].clone();
        for _ in 0..2 {
            let at = seeded.next(bytes.len() as u64) as usize;
            bytes[at] = seeded.next(256) as u8;
        }
        let mut decoder = Decoder::new(Limits::CONTROL);
        decoder.push(&bytes);
        while let Ok(Some(frame)) = decoder.next_frame() {
            frame.encode(Limits::STREAM, &mut Vec::new()).unwrap();
        }
    }
}

#[test]
fn a_key_that_is_not_accepted_may_say_hello_and_no_more() {
    for (name, frame) in all() {
        let known = rule::rules().any(|rule| rule.kind == kind(&name));
        let answer = rule::check(&frame, Way::MinionToMaster, false);
        let may = matches!(name.as_str(), "hello" | "bye") || !known;
        assert_eq!(answer.is_ok(), may, "{name}: {answer:?}");
    }
}

#[test]
fn each_side_may_send_what_its_rule_says() {
    for (name, frame) in all() {
        let Some(rule) = rule::rules().find(|rule| rule.kind == kind(&name)) else {
            continue;
        };
        for way in Way::ALL {
            let may = rule.ways.contains(&way);
            assert_eq!(
                rule::check(&frame, way, true).is_ok(),
                may,
                "{name} {way:?}"
            );
        }
    }
    let only = |way: Way| -> Vec<&str> {
        rule::rules()
            .filter(|rule| rule.ways == [way])
            .map(|rule| rule.kind)
            .collect()
    };
    assert_eq!(
        only(Way::MasterToMinion),
        [
            "welcome", "pending", "refused", "ack", "masters", "job", "next_key"
        ]
    );
    assert_eq!(only(Way::MinionToMaster), ["hello", "grains"]);
    assert_eq!(only(Way::ClientToMaster), ["backup", "login", "wheel"]);
}

/// Measures the speed of encoding and decoding: `cargo test --release -p wire -- --ignored
/// --nocapture speed`
#[test]
#[ignore = "measures"]
fn speed() {
    let data: Map = (0..10)
        .map(|at| (format!("key{at}"), format!("value {at}")))
        .collect();
    let event: Frame = Event {
        sequence: 1 << 33,
        tag: format!("salt/job/{JID}/ret/web-01"),
        stamp: STAMP.into(),
        data,
    }
    .into();
    let rounds = 300_000;
    let began = std::time::Instant::now();
    let mut decoder = Decoder::new(Limits::CONTROL);
    for _ in 0..rounds {
        decoder.push(&bytes(&event));
        assert!(decoder.next_frame().unwrap().is_some());
    }
    let rate = f64::from(rounds) / began.elapsed().as_secs_f64();
    println!(
        "{rate:.0} events of {} bytes a second, encoded and decoded",
        bytes(&event).len()
    );
}
