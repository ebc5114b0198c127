//! Servers that answer wrongly, too much or never.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use super::*;

const OFFER: &str = "250-here\r\n250-AUTH PLAIN LOGIN\r\n250 STARTTLS\r\n";

/// Sends a message to a server with these answers: the first without a command, one after each line.
/// Returns the error, and the lines that the server has received.
fn refused(encryption: Encryption, answers: &[&str]) -> (String, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answers: Vec<String> = answers.iter().map(|text| (*text).to_owned()).collect();
    let (received, lines) = mpsc::channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        let mut answers = answers.into_iter();
        let mut answer = || {
            let answer = answers.next().unwrap_or_default();
            stream.write_all(answer.as_bytes()).is_ok()
        };
        answer();
        for line in reader.split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if received.send(line).is_err() || !answer() {
                return;
            }
        }
    });
    let server = Server {
        host: "127.0.0.1",
        port,
        encryption,
        bundle: None,
        login: Some(Login {
            username: "user".to_owned(),
            password: "planted-password".to_owned(),
        }),
    };
    let to = ["b@example.com".to_owned()];
    let timeout = Duration::from_millis(1500);
    let begin = Instant::now();
    let error = server.send("a@example.com", &to, b"text", timeout);
    assert!(begin.elapsed() < timeout * 4, "the deadline does not hold");
    (error.unwrap_err().to_string(), lines.try_iter().collect())
}

#[test]
fn dots_at_the_beginning_of_lines_are_doubled() {
    assert_eq!(dotted(b"a\r\n.\r\n..b\r\n"), b"a\r\n..\r\n...b\r\n.\r\n");
    assert_eq!(dotted(b".a"), b"..a\r\n.\r\n");
    assert_eq!(dotted(b""), b"\r\n.\r\n");
}

#[test]
fn a_server_that_never_greets_is_an_error_at_the_deadline() {
    for encryption in [Encryption::StartTls, Encryption::Immediate] {
        let (error, _) = refused(encryption, &[""]);
        let late = error.contains("the conversation did not end within 1.5 s");
        let tls = error.contains("TLS failed") || error.contains("no trusted CA certificates");
        assert!(late || tls, "{error}");
    }
}

#[test]
fn a_server_that_sends_slowly_does_not_move_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while stream.write_all(b"2").is_ok() {
            thread::sleep(Duration::from_millis(100));
        }
    });
    let server = Server {
        host: "127.0.0.1",
        port,
        encryption: Encryption::ForLogin,
        bundle: None,
        login: None,
    };
    let begin = Instant::now();
    let sent = server.send("a@b", &["b@c".to_owned()], b"", Duration::from_secs(1));
    assert!(
        sent.unwrap_err()
            .to_string()
            .contains("did not end within 1 s")
    );
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_server_without_the_encryption_receives_nothing() {
    let bare = "250-here\r\n250-AUTH PLAIN\r\n250 SIZE 9\r\n";
    let (error, received) = refused(Encryption::StartTls, &["220 here\r\n", bare]);
    assert!(error.contains("does not offer STARTTLS"), "{error}");
    assert_eq!(received.len(), 1, "{received:?}");
    assert!(received[0].starts_with("EHLO "));
}

#[test]
fn data_that_comes_before_the_encryption_is_an_error() {
    let injected = "220 go\r\n250-here\r\n250 AUTH PLAIN\r\n235 in\r\n250 ok\r\n";
    let answers = ["220 here\r\n", OFFER, injected];
    let (error, received) = refused(Encryption::StartTls, &answers);
    assert!(error.contains("is being manipulated"), "{error}");
    assert_eq!(received.last().unwrap(), "STARTTLS");
}

#[test]
fn a_refused_encryption_ends_the_conversation() {
    let answers = ["220 here\r\n", OFFER, "454 not now\r\n"];
    for encryption in [Encryption::StartTls, Encryption::ForLogin] {
        let (error, received) = refused(encryption, &answers);
        assert!(error.contains("refused STARTTLS: 454 not now"), "{error}");
        assert_eq!(received.last().unwrap(), "STARTTLS");
    }
}

#[test]
fn an_answer_is_limited_in_its_lines_and_their_length() {
    let line = "2".repeat(3 * MAX_LINE);
    let (error, _) = refused(Encryption::ForLogin, &[&line]);
    assert!(error.contains("longer than 4096 bytes"), "{error}");
    let lines = "220-x\r\n".repeat(MAX_LINES + 1);
    let (error, _) = refused(Encryption::ForLogin, &[&lines]);
    assert!(error.contains("more than 100 lines"), "{error}");
}

#[test]
fn what_is_no_answer_is_an_error() {
    for answer in [
        "HTTP/1.1 200 OK\r\n",
        "22\r\n",
        "\r\n",
        "ä20 x\r\n",
        "999 x\r\n",
    ] {
        let (error, _) = refused(Encryption::ForLogin, &[answer]);
        assert!(error.contains("this is not an answer of SMTP"), "{error}");
    }
    let (error, _) = refused(Encryption::ForLogin, &["554 go away\r\n"]);
    assert!(
        error.contains("refused the connection: 554 go away"),
        "{error}"
    );
}

#[test]
fn an_error_of_the_login_has_no_password() {
    let plain = "250-here\r\n250 AUTH=LOGIN PLAIN\r\n";
    let (error, _) = refused(
        Encryption::ForLogin,
        &["220 x\r\n", plain, "535 5.7.8 no\r\n"],
    );
    assert!(error.contains("refused the login: 535 5.7.8 no"), "{error}");
    let other = "250-here\r\n250 AUTH CRAM-MD5\r\n";
    let (error, received) = refused(Encryption::ForLogin, &["220 x\r\n", other]);
    assert!(error.contains("CRAM-MD5"), "{error}");
    assert_eq!(received.len(), 1);
    let both = format!("535 {}\r\n", STANDARD.encode("\0user\0planted-password"));
    let (error, _) = refused(Encryption::ForLogin, &["220 x\r\n", plain, &both]);
    let masked = secret::text(&error);
    assert!(
        masked.ends_with(&format!("535 {}", secret::MASK)),
        "{masked}"
    );
}
