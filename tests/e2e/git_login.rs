//! Tests that passwords of git repositories are sent to the server and are not visible to other
//! users of the machine.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tests::program::{in_recorded_environment, program};
use tests::scratch::Scratch;

const PASSWORD: &str = "hush-hush-777";
/// `me:hush-hush-777`, as in the header.
const AUTHORIZATION: &str = "Basic bWU6aHVzaC1odXNoLTc3Nw==";
const COMMIT: &str = "0123456789012345678901234567890123456789";

/// Starts a server that lists a repository's references to clients with the password; returns its
/// port.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        listener
            .incoming()
            .for_each(|stream| answer(&stream.unwrap()));
    });
    port
}

fn answer(mut stream: &TcpStream) {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let let_in = head.iter().any(|line| line.ends_with(AUTHORIZATION));
    let (status, body) = match let_in {
        true => {
            let line = format!("{COMMIT} refs/heads/main\0agent=x\n");
            let body = format!(
                "001e# service=git-upload-pack\n0000{:04x}{line}0000",
                line.len() + 4
            );
            (
                "200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement",
                body,
            )
        }
        false => (
            "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"",
            String::new(),
        ),
    };
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
}

/// Runs a function. Returns its answer, and all command lines except its own.
fn traced(scratch: &Scratch, words: &[&str]) -> (Output, String) {
    let trace = scratch.path().join("trace");
    let mut command = Command::new("strace");
    let output = in_recorded_environment(&mut command)
        .args(["-f", "-qq", "-s", "4096", "-e", "trace=execve", "-o"])
        .arg(&trace)
        .args(program())
        .arg("-c")
        .arg(scratch.path().join("etc"))
        .args(["--local", "--out=json"])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = fs::read_to_string(trace).unwrap();
    let lines = text
        .lines()
        .filter(|line| line.contains("execve(") && !line.contains("\"salt-call\""));
    (output, lines.collect::<Vec<_>>().join("\n"))
}

fn repository(scratch: &Scratch) -> String {
    let path = scratch.tmp().join("repo").display().to_string();
    let made = Command::new("git")
        .args(["init", "-q", &path])
        .status()
        .unwrap();
    assert!(made.success());
    path
}

fn config(repository: &str) -> String {
    fs::read_to_string(Path::new(repository).join(".git/config")).unwrap()
}

#[test]
fn l11_a_password_is_on_no_command_line_and_the_server_gets_it() {
    let scratch = Scratch::new();
    let port = server();
    let url = format!("url=http://me:{PASSWORD}@127.0.0.1:{port}/r.git");
    let (output, lines) = traced(&scratch, &["git.remote_refs", &url]);
    let answer: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(answer["local"]["refs/heads/main"], COMMIT, "{output:?}");
    assert!(
        lines.contains("ls-remote") && lines.contains("remote-http"),
        "{lines}"
    );
    assert!(!lines.contains("hush"), "{lines}");
}

#[test]
fn l11_a_password_is_for_the_server_of_its_repository_alone() {
    let scratch = Scratch::new();
    let (path, port) = (repository(&scratch), server());
    let other = format!("http://127.0.0.1:{port}/r.git");
    let git = |words: &[&str]| {
        assert!(
            Command::new("git")
                .arg("-C")
                .arg(&path)
                .args(words)
                .status()
                .unwrap()
                .success()
        );
    };
    git(&["remote", "add", "origin", "https://elsewhere.invalid/r.git"]);
    git(&[
        "config",
        &format!("url.{other}.insteadOf"),
        "https://elsewhere.invalid/r.git",
    ]);
    let password = format!("https_pass={PASSWORD}");
    let cwd = format!("cwd={path}");
    let (output, lines) = traced(&scratch, &["git.fetch", &cwd, "https_user=me", &password]);
    assert_ne!(output.status.code(), Some(0), "{output:?}");
    assert!(
        lines.contains("execve(") && !lines.contains("hush"),
        "{lines}"
    );
}

#[test]
fn l11_a_password_is_not_kept_with_the_repository() {
    let scratch = Scratch::new();
    let path = repository(&scratch);
    let words = [
        "git.remote_set",
        &path,
        "https://h.invalid/r.git",
        "push_url=https://p.invalid/r.git",
        "https_user=me",
        "https_pass=hush-hush-777",
        "push_https_user=you",
        "push_https_pass=hush-hush-778",
    ];
    let (output, lines) = traced(&scratch, &words);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        lines.contains("remote") && !lines.contains("hush"),
        "{lines}"
    );
    let kept = config(&path);
    assert!(kept.contains("url = https://me@h.invalid/r.git"), "{kept}");
    assert!(
        kept.contains("pushurl = https://you@p.invalid/r.git") && !kept.contains("hush"),
        "{kept}"
    );
}
