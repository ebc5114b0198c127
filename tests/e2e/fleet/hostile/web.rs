//! A hostile client of the API. It has a token, whose user has the right to ping and no other one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use super::together::{count_answer, for_long, given, was_answered};
use crate::fleet::api::Asked;

pub(super) const API: &str = "PINCH_HOSTILE_API";
pub(super) const TOKEN: &str = "PINCH_HOSTILE_TOKEN";
/// The number of connections that it keeps open.
const HELD_MAX: usize = 120;
const WAIT: Duration = Duration::from_millis(300);
/// The pause between two attacks, so that the attackers together leave a processor to the master.
const PAUSE: Duration = Duration::from_millis(30);

/// Attacks as a client of the API.
#[test]
#[ignore = "started by nobody_is_held_up_by_hostile_peers"]
fn a_web_client() {
    let (Some(api), Some(token)) = (given(API), given(TOKEN)) else {
        return;
    };
    let mut held = Vec::new();
    for_long(|number| {
        std::thread::sleep(PAUSE);
        let (text, is_held) = says(&token, number);
        let Ok(mut stream) = TcpStream::connect(&api) else {
            return;
        };
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream.set_write_timeout(Some(WAIT)).unwrap();
        let _ = stream.write_all(text.as_bytes());
        let mut start = [0; 16];
        if !is_held && stream.read(&mut start).is_ok_and(|count| count > 0) {
            count_answer();
        }
        if is_held {
            held.push(stream);
        }
        if held.len() > HELD_MAX {
            held.drain(..20);
        }
    });
    was_answered();
}

/// Returns what it sends, and true if it keeps the connection without reading.
fn says(token: &str, number: u64) -> (String, bool) {
    let ping = || json!({"client": "local", "tgt": "honest1*", "fun": "test.ping"});
    let post = |path: &str, data: serde_json::Value| Asked::post(path, &data).token(token).text();
    match number % 12 {
        // A connection without a request, a head and a body that never end.
        0 => (String::new(), true),
        1 => ("GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ".to_owned(), true),
        2 => {
            let head = "POST /run HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n[";
            (head.to_owned(), true)
        }
        3 => {
            let head = "POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n";
            (head.to_owned(), false)
        }
        // A stream of events that is never read.
        4 => (Asked::new("GET", "/events").token(token).text(), true),
        5 => {
            let path = format!("/ws/{token}");
            let asked = Asked::new("GET", &path)
                .with("Connection", "Upgrade")
                .with("Upgrade", "websocket")
                .with("Sec-WebSocket-Version", "13")
                .with("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
            (asked.text() + "\u{1}\u{7f}".repeat(2000).as_str(), true)
        }
        6 => {
            let wrong = json!({"username": format!("u{number}"), "password": "x".repeat(4000), "eauth": "file"});
            (post("/login", wrong), false)
        }
        7 => (post("/", vec![ping(); 10_000].into()), false),
        8 => {
            let mut chunk = ping();
            chunk["tgt"] = json!("nobody-has-this");
            chunk["arg"] = json!(["x".repeat(900_000)]);
            (post("/", json!([chunk])), false)
        }
        9 => {
            let mut chunk = ping();
            chunk["fun"] = json!("cmd.run");
            (
                post(
                    "/",
                    json!([chunk, {"client": "wheel", "fun": "key.accept", "match": "*"}]),
                ),
                false,
            )
        }
        10 => (
            post("/hook/of/evil", json!({"x": "x".repeat(200_000)})),
            false,
        ),
        _ => ("\u{0}\u{7}noise\r\n".repeat(3000), false),
    }
}
