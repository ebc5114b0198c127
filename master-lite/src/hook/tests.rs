//! The hook's events compared with Salt's own, and the signatures that are accepted.

use value::{Map, Value, json};

use super::body;
use super::path;
use super::seen::{Seen, SignatureUse};
use super::signature::{RequestSignature, Signatures};
use crate::http::Head;
use crate::store::{Command, Limits, Store};

const SECRET: &[u8] = b"0123456789abcdef";
const NOW: u64 = 1_800_000_000;
const DAY: u64 = 86_400;

/// The cases are recorded from rest_cherrypy of Salt 3008.5: path, type and body of a request, and
/// its event.
#[test]
fn requests_become_the_events_that_salt_makes_of_them() {
    let recorded = include_str!("../../../tests/corpus/reactor/hook.jsonl");
    let mut count = 0;
    for line in recorded.lines() {
        let case = json::read(line).unwrap();
        let text = |name: &str| case.get(name).and_then(Value::as_str);
        let tag = path::tag(text("path").unwrap()).unwrap();
        let sent = text("body").unwrap();
        let (body, post) = body::read(text("type"), sent.as_bytes()).unwrap();
        let (expected_tag, data) = (text("tag"), case.get("data").unwrap());
        assert_eq!(Some(&*tag), expected_tag);
        assert_eq!(Some(&Value::from(body)), data.get("body"), "{line}");
        assert_eq!(Some(&post), data.get("post"), "{line}");
        count += 1;
    }
    assert!(count > 9, "{count}");
}

#[test]
fn what_is_no_body_is_refused() {
    let status = |kind, bytes: &[u8]| body::read(kind, bytes).map_err(|no| no.status);
    assert_eq!(status(Some("application/json"), b"{bad"), Err(400));
    assert_eq!(status(Some("application/json"), b"\"\xff\""), Err(400));
    assert_eq!(status(Some("text/yaml"), b"a: b: c"), Err(400));
    assert_eq!(status(Some("image/png"), b"x"), Err(406));
    assert_eq!(status(None, b"a=1"), Err(406));
    let deep = "[".repeat(100_000);
    assert_eq!(status(Some("application/json"), deep.as_bytes()), Err(400));
    assert!(status(None, b"").is_ok());
}

fn head(headers: Map) -> Head {
    Head::of("POST", "/hook/a?b=1", headers)
}

fn mac(signed: &str) -> String {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET);
    let tag = ring::hmac::sign(&key, signed.as_bytes());
    tag.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

fn checked(name: &str, value: &str, body: &str) -> Result<u64, (u16, String)> {
    let head = head(Map::new().with(name, value));
    let why = |refusal: crate::http::Refusal| (refusal.status, refusal.why);
    let shown = RequestSignature::from_head(&head).map_err(why)?;
    let signatures = Signatures::new(&[b"the one that comes next".to_vec(), SECRET.to_vec()], 300);
    let checked = signatures.check(&shown, &head, body.as_bytes(), NOW);
    checked.map_err(why)
}

fn own(at: u64, signed: &str) -> String {
    format!("t={at},v1={}", mac(signed))
}

#[test]
fn a_signature_is_for_one_request_and_its_time() {
    let of = |at: u64| own(at, &format!("{at}\nPOST\n/hook/a?b=1\nbody"));
    let check = |value: &str, body| checked("X-Pinch-Signature", value, body);
    assert_eq!(check(&of(NOW), "body"), Ok(NOW + 300));
    assert_eq!(
        check(
            &of(NOW)
                .to_uppercase()
                .replace("T=", "t=")
                .replace("V1=", "v1="),
            "body"
        ),
        Ok(NOW + 300)
    );
    assert_eq!(check(&of(NOW - 300), "body"), Ok(NOW));
    assert_eq!(check(&of(NOW + 300), "body"), Ok(NOW + 600));
    for (value, body) in [
        (of(NOW - 301), "body"),
        (of(NOW + 301), "body"),
        (of(NOW), "other"),
        (
            of(NOW).replace(&NOW.to_string(), &(NOW + 1).to_string()),
            "body",
        ),
        (own(NOW, &format!("{NOW}\nPUT\n/hook/a?b=1\nbody")), "body"),
        (own(NOW, &format!("{NOW}\nPOST\n/hook/a\nbody")), "body"),
        (own(NOW, "body"), "body"),
        (format!("t={NOW}"), "body"),
        (format!("v1={}", mac("body")), "body"),
        (format!("{},t={NOW}", of(NOW)), "body"),
        (format!("t=,v1={}", mac("x")), "body"),
        (format!("t=+{NOW},v1={}", mac("x")), "body"),
        (of(NOW).trim_end_matches(|_| true).to_owned(), "body"),
        ("t=1,v1=zz".to_owned(), "body"),
    ] {
        let (status, why) = check(&value, body).unwrap_err();
        assert_eq!(status, 401, "{value}");
        assert!(
            !why.contains(&mac("body")) && !why.contains("0123456789abcdef"),
            "{why}"
        );
    }
}

#[test]
fn a_signature_of_the_body_alone_is_never_one_of_ours() {
    let check = |body: &str| {
        checked(
            "X-Hub-Signature-256",
            &format!("sha256={}", mac(body)),
            body,
        )
    };
    assert_eq!(check("{\"a\": 1}"), Ok(NOW + 7 * DAY));
    let of_ours = format!("{NOW}\nPOST\n/hook/a?b=1\nbody");
    assert_eq!(check(&of_ours).unwrap_err().0, 401);
    let wrong = format!("sha256={}", mac("x"));
    assert_eq!(
        checked("X-Hub-Signature-256", &wrong, "{}").unwrap_err().0,
        401
    );
    let sha1 = format!("sha1={}", mac("{}"));
    assert_eq!(
        checked("X-Hub-Signature-256", &sha1, "{}").unwrap_err().0,
        401
    );
    let (status, why) = checked("Authorization", "Basic abc", "{}").unwrap_err();
    assert_eq!(status, 401);
    assert!(why.contains("not signed") && !why.contains("abc"), "{why}");
}

#[test]
fn a_signature_is_used_once() {
    let seen = Seen::default();
    let take = |code: u8, until, now| seen.take([code; 32], until, now);
    assert_eq!(take(1, 100, 50), SignatureUse::First);
    assert_eq!(take(1, 100, 100), SignatureUse::Again);
    assert_eq!(take(2, 100, 50), SignatureUse::First);
    seen.forget([2; 32]);
    assert_eq!(take(2, 100, 50), SignatureUse::First);
    for number in 0_u32.. {
        let mut code = [9; 32];
        code[..4].copy_from_slice(&number.to_be_bytes());
        match seen.take(code, 100, 50) {
            SignatureUse::First => assert!(number < 1 << 17),
            SignatureUse::Full => break,
            SignatureUse::Again => panic!("{number}"),
        }
    }
    assert_eq!(take(1, 100, 50), SignatureUse::Again);
    // The other signatures have expired.
    assert_eq!(take(3, 200, 101), SignatureUse::First);
}

#[test]
fn what_was_taken_is_known_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Limits::default()).unwrap();
    let fire = |tag: &str, at_s: u64, name: &str, value: String| {
        let headers = Map::new().with(name, value);
        let event = Command::Event {
            tag: tag.to_owned(),
            data: Map::new().with("headers", headers),
            stamp: String::new(),
            at_ms: at_s * 1000,
            origin: None,
        };
        store.apply_blocking(event).unwrap();
    };
    let (tag, ours, hub) = (
        "salt/netapi/hook/a",
        "X-Pinch-Signature",
        "X-Hub-Signature-256",
    );
    fire(
        tag,
        NOW - 8 * DAY,
        hub,
        format!("sha256={}", mac("older than the log")),
    );
    fire(tag, NOW - 5 * DAY, hub, format!("sha256={}", mac("old")));
    for n in 0..20 {
        fire("other", NOW - 4000 + n, "X", String::new());
    }
    fire(tag, NOW - 400, ours, own(NOW - 150, "ahead"));
    fire(tag, NOW - 10, hub, format!("sha256={}", mac("new")));
    let seen = |is_hub| Seen::restored(&store, 300, is_hub, NOW * 1000).unwrap();
    let (with_hub, without) = (seen(true), seen(false));
    let code =
        |signed: &str| match RequestSignature::of_header(hub, &format!("sha256={}", mac(signed))) {
            Some(shown) => shown.mac(),
            None => panic!(),
        };
    for (signed, taken) in [
        ("ahead", SignatureUse::Again),
        ("new", SignatureUse::Again),
        ("old", SignatureUse::Again),
        ("older than the log", SignatureUse::First),
        ("never", SignatureUse::First),
    ] {
        let take = |seen: &Seen| seen.take(code(signed), NOW + 300, NOW);
        assert_eq!(take(&with_hub), taken, "{signed}");
        if signed == "ahead" {
            assert_eq!(take(&without), taken, "{signed}");
        }
    }
}
