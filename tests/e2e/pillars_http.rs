//! The external pillars `http_json` and `http_yaml`: documents of a web server, and servers that fail.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::scratch::Scratch;
use tests::server::text;

use crate::pillars::{self, call};

/// True while `/flaky` answers.
static ANSWERS: AtomicBool = AtomicBool::new(true);

/// Starts the web server, which runs until the end of the test.
fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || drop(serve(stream.unwrap())));
        }
    });
    address
}

fn serve(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let path = head.split([' ', '?']).nth(1).unwrap_or_default();
    let mut stream = stream.into_inner();
    let redirect = |to: &str| text("302 Found", &format!("Location: {to}\r\n"), "");
    let answer = match path {
        "/trickle" => return trickle(stream),
        "/large" => return endless(stream),
        "/secret" if head.contains("Basic a2VlcGVyOnBsYW50ZWQtc2VjcmV0") => {
            text("200 OK", "", "{\"a\": 1}")
        }
        "/secret" => text("401 Unauthorized", "", "{\"a\": 2}"),
        "/header" if head.contains("planted-token") => text("200 OK", "", "{\"a\": 1}"),
        "/file" => redirect("file:///etc/passwd"),
        "/ftp" => redirect("ftp://127.0.0.1/"),
        "/loop" => redirect("/loop"),
        "/there" => redirect("/m1/x%2Fy"),
        "/list" => text("200 OK", "", "[1]"),
        "/empty" => text("200 OK", "", ""),
        "/broken" => text("200 OK", "", "{\"a\": "),
        "/flaky" if !ANSWERS.load(Ordering::SeqCst) => text("503 Service Unavailable", "", "{}"),
        "/flaky" => text("200 OK", "", "{\"a\": \"kept\"}"),
        path if path.starts_with("/m1/") => text(
            "200 OK",
            "",
            &format!("{{\"path\": \"{path}\", \"n\": null}}"),
        ),
        _ => text("404 Not Found", "", "{\"a\": 2}"),
    };
    stream.write_all(answer.as_bytes())
}

/// Sends one byte each tenth of a second.
fn trickle(mut stream: TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
    loop {
        stream.write_all(b" ")?;
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Sends more and more.
fn endless(mut stream: TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
    loop {
        stream.write_all(&[b' '; 65_536])?;
    }
}

fn configure(scratch: &Scratch, kind: &str, source: &Value) {
    let options = json!({"ext_pillar": [{kind: source}], "grains": {"place": {"rack": "x/y"}}});
    scratch.write("etc/minion.d/case.conf", &options.to_string());
}

fn pillar(scratch: &Scratch, kind: &str, source: Value) -> Value {
    configure(scratch, kind, &source);
    call(scratch, &["pillar.items", "unmask=True"])
}

#[test]
fn documents_of_a_web_server_become_pillar() {
    let (scratch, url) = (Scratch::new(), start());
    let at = |path: &str| format!("{url}{path}");
    let data = |path: &str| json!({"path": path, "n": null});
    let plain = json!(at("/m1/%s"));
    assert_eq!(pillar(&scratch, "http_json", plain.clone()), data("/m1/m1"));
    assert_eq!(pillar(&scratch, "http_yaml", plain), data("/m1/m1"));
    let grains = json!({"url": at("/m1/<place:rack>"), "with_grains": true, "namespace": "below"});
    let below = json!({"below": data("/m1/x%2Fy")});
    assert_eq!(pillar(&scratch, "http_json", grains), below);
    assert_eq!(
        pillar(&scratch, "http_json", json!([at("/there")])),
        data("/m1/x%2Fy")
    );
    let one = json!({"a": 1});
    let user = json!({"url": at("/secret"), "username": "keeper", "password": "planted-secret"});
    assert_eq!(pillar(&scratch, "http_yaml", user), one);
    let pair =
        json!({"url": at("/secret"), "auth": ["keeper", "planted-secret"], "header_dict": "None"});
    assert_eq!(pillar(&scratch, "http_json", pair), one);
    let header = json!({"url": at("/header"), "header_dict": {"X-Token": "planted-token"}});
    assert_eq!(pillar(&scratch, "http_json", header), one);
}

/// Applies a state whose run the pillar of a source should stop, and returns the output.
fn stopped(scratch: &Scratch, kind: &str, source: &Value) -> String {
    configure(scratch, kind, source);
    let (said, log) = pillars::stopped(scratch, kind);
    said + &log
}

#[test]
fn no_state_runs_when_a_web_server_fails() {
    let (scratch, url) = (Scratch::new(), start());
    scratch.write(
        "srv/salt/case.sls",
        "@TMP@/made:\n  file.managed:\n    - contents: x\n",
    );
    let at = |path: &str| json!({"url": format!("{url}{path}")});
    let wrong = json!({"url": format!("{url}/secret?key=planted-key"), "username": "keeper", "password": "planted-other"});
    let slow = json!({"url": format!("{url}/trickle"), "timeout": 1});
    let failures = [
        (wrong, "/secret: HTTP 401: Unauthorized"),
        (json!("http://127.0.0.1:1/"), "Connection refused"),
        (at("/nosuch"), "HTTP 404: Not Found"),
        (
            at("/list"),
            "the answer must be a dictionary, but is a list",
        ),
        (at("/broken"), "the body is not "),
        (at("/file"), "/file: "),
        (at("/ftp"), "/ftp: "),
        (at("/loop"), "/loop: "),
        (slow, "/trickle: "),
        (at("/large"), "is longer than the limit of 67108864 bytes"),
        (json!("file:///etc/passwd"), "Unsupported url scheme"),
        (
            json!({"url": format!("{url}/m1/<nosuch>"), "with_grains": true}),
            "the grain nosuch of the url",
        ),
        (json!({"url": url, "timeout": "soon"}), "timeout must be"),
        (
            json!({"url": url, "on_failure": "ignore"}),
            "on_failure is ignore",
        ),
        (json!({"uri": url}), "it has the argument uri"),
        (json!({}), "it has no url"),
    ];
    for (source, sentence) in failures {
        for kind in ["http_json", "http_yaml"] {
            let began = Instant::now();
            let said = stopped(&scratch, kind, &source);
            assert!(said.contains(sentence), "{source}: {said}");
            assert!(!said.contains("planted-"), "{said}");
            assert!(began.elapsed() < Duration::from_secs(20), "{source}");
        }
    }
    assert!(stopped(&scratch, "http_yaml", &at("/empty")).contains("but is a NoneType"));
}

#[test]
fn the_last_good_answer_is_kept_on_request() {
    let (scratch, url) = (Scratch::new(), start());
    scratch.write(
        "srv/salt/case.sls",
        "@TMP@/made:\n  file.managed:\n    - contents: x\n",
    );
    let source = json!({"url": format!("{url}/flaky"), "on_failure": "last", "namespace": "n"});
    ANSWERS.store(false, Ordering::SeqCst);
    let said = stopped(&scratch, "http_json", &source);
    assert!(
        said.contains(
            "HTTP 503: Service Unavailable (on_failure: last: there is no earlier answer)"
        ),
        "{said}"
    );
    ANSWERS.store(true, Ordering::SeqCst);
    let data = json!({"n": {"a": "kept"}});
    assert_eq!(pillar(&scratch, "http_json", source.clone()), data);
    ANSWERS.store(false, Ordering::SeqCst);
    assert_eq!(pillar(&scratch, "http_json", source.clone()), data);
    let said = fs::read_to_string(scratch.path().join("stderr")).unwrap();
    assert!(
        said.contains("HTTP 503: Service Unavailable. The pillar is of ")
            && said.contains(" ago (on_failure: last)"),
        "{said}"
    );
    let folder = scratch.path().join("root/var/cache/salt/minion/pillar");
    let files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(files.len(), 1);
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&files[0]), mode(&folder)), (0o600, 0o700));
    // Another address has none, and a damaged file is an error.
    let other = json!({"url": format!("{url}/flaky?x"), "on_failure": "last"});
    assert!(stopped(&scratch, "http_json", &other).contains("there is no earlier answer"));
    fs::write(&files[0], "{\"a\": ").unwrap();
    assert!(stopped(&scratch, "http_json", &source).contains("the body is not JSON"));
}
