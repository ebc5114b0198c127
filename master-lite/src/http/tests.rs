//! Requests that are not valid, and the limits of a server.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

/// A service that returns the length of each body.
struct Length;

impl Service for Length {
    const NAME: &'static str = "test";

    fn check(&self, _: &Head) -> Result<(), Refusal> {
        Ok(())
    }

    async fn answer(&self, request: Request) -> Result<Answer, Refusal> {
        Ok(Answer::good(
            "text/plain",
            request.body.bytes.len().to_string(),
        ))
    }

    fn answered(&self, _: u16) {}
}

/// Starts a server, and returns its address.
fn server() -> SocketAddr {
    let rates = Rates {
        each: 1e6,
        all: 1e6,
        options: ["rate", "rate_all"],
    };
    let limits = Limits {
        body_max: 10,
        body_option: "length_max",
        timeout: Duration::from_secs(20),
        rates,
        connections: Connections::FEW,
    };
    let bound = Server::bind(([127, 0, 0, 1], 0).into(), Length, limits, None);
    let server = smol::block_on(bound).unwrap();
    let address = server.listener.local_addr().unwrap();
    smol::spawn(server.run()).detach();
    address
}

/// Returns the whole answer to a request.
fn answer(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn status(answer: &str) -> u16 {
    let word = answer.split(' ').nth(1);
    word.and_then(|word| word.parse().ok()).unwrap_or_default()
}

#[test]
fn requests_that_are_not_valid_are_refused() {
    let address = server();
    let many: String = (0..=LINES_MAX).map(|n| format!("x{n}: 1\r\n")).collect();
    for (lines, expected) in [
        ("", 200),
        ("Content-Length: 1\r\nContent-Length: 2\r\n", 400),
        ("Content-Length: +1\r\n", 400),
        ("Content-Length: 1, 1\r\n", 400),
        ("Content-Length:\r\n", 400),
        ("Content-Length: 11\r\n", 413),
        ("Content-Length: 99999999999999999999999\r\n", 400),
        ("Transfer-Encoding: identity\r\nContent-Length: 1\r\n", 400),
        ("no colon\r\n", 400),
        ("X : 1\r\n", 400),
        (" folded: 1\r\n", 400),
        (&many, 431),
    ] {
        let request = format!("POST /hook HTTP/1.1\r\n{lines}\r\n");
        let answer = answer(address, &request);
        assert_eq!(status(&answer), expected, "{request:?}: {answer:?}");
    }
    for request in [
        "GET\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "\u{16}\u{3}\r\n\r\n",
    ] {
        let answer = answer(address, request);
        assert_eq!(status(&answer), 400, "{request:?}: {answer:?}");
    }
}

#[test]
fn bodies_come_with_a_length_or_in_chunks_up_to_the_limit() {
    let address = server();
    let body = |framing: &str| answer(address, &format!("POST / HTTP/1.1\r\nHost: x\r\n{framing}"));
    for framing in [
        "Content-Length: 10\r\n\r\n0123456789",
        "Transfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n",
    ] {
        let answer = body(framing);
        assert!(answer.ends_with("\r\n\r\n10"), "{answer:?}");
        assert!(answer.contains("\r\nContent-Length: 2\r\n"), "{answer:?}");
    }
    for (framing, expected) in [
        ("Content-Length: 11\r\n\r\n0123456789a", 413),
        (
            "Transfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n6\r\n6789ab\r\n0\r\n\r\n",
            413,
        ),
        ("Transfer-Encoding: chunked\r\n\r\nno number\r\n", 400),
    ] {
        assert_eq!(status(&body(framing)), expected, "{framing:?}");
    }
}
