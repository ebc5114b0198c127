//! An HTTP server for tests. It answers each connection with the result of a function of the request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

/// Starts the server on a free port and returns its address. It runs until the test ends.
pub fn start(answer: impl Fn(&str, &str) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).unwrap() <= 2 {
                    break;
                }
                if let Some((_, number)) = line.to_lowercase().split_once("content-length:") {
                    length = number.trim().parse().unwrap();
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let answer = answer(&head, &String::from_utf8(body).unwrap());
            let _ = stream.into_inner().write_all(answer.as_bytes());
        }
    });
    address
}

/// Returns the text of a response.
pub fn text(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}
