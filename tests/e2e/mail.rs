//! `smtp.send_msg` with aiosmtpd, a mail server in Python. Python's `email` reads what arrives.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value as Json, json};
use tests::program::salt_call;
use tests::scratch::Scratch;
use tests::skip::skip;

use crate::certificates::openssl;

/// The virtual environment with aiosmtpd, which `tests/run` makes.
const PYTHON: &str = "/var/cache/pinch-tests/aiosmtpd/bin/python";
const PASSWORD: &str = "planted-password";
const TEXT: &str = "Grüße\n.\n..zwei\n";

/// A mail server. It ends with this value.
struct Server {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    port: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Server {
    /// Starts a server; `None` if aiosmtpd is not installed.
    fn start(scratch: &Scratch, mode: &str) -> Option<Self> {
        let python = std::env::var("PINCH_AIOSMTPD").map_or_else(|_| PYTHON.into(), PathBuf::from);
        if !python.exists() {
            skip("tests/run installs aiosmtpd");
            return None;
        }
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/smtp_server.py");
        let mut child = Command::new(python)
            .arg(program)
            .args([mode, "www.crt", "www.key"])
            .current_dir(scratch.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap();
        Some(Self { child, lines, port })
    }

    /// Waits for the next message.
    fn message(&mut self) -> Json {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    /// Returns the messages that have arrived and that [`Self::message`] has not returned.
    fn rest(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.lines.by_ref().map_while(Result::ok).collect()
    }
}

/// Makes an authority, and a certificate of it for localhost.
pub(crate) fn certificates(folder: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(
        folder,
        &format!("req -x509 {key} -keyout ca.key -out ca.crt -subj /CN=Test -days 2"),
    );
    openssl(
        folder,
        &format!("req {key} -keyout www.key -out www.csr -subj /CN=www"),
    );
    fs::write(folder.join("ext"), "subjectAltName=DNS:localhost\n").unwrap();
    openssl(
        folder,
        "x509 -req -in www.csr -CA ca.crt -CAkey ca.key -out www.crt -days 2 -extfile ext",
    );
}

/// Writes a profile for the server, and more lines of the configuration.
fn configure(scratch: &Scratch, server: &Server, tls: &str, more: &str) {
    let config = format!(
        "my:\n  smtp.server: localhost:{}\n  smtp.tls: {tls}\n  smtp.sender: Prüfer <salt@example.com>\n{more}",
        server.port
    );
    scratch.write("etc/minion.d/case.conf", &config);
}

fn login(scratch: &Scratch) -> String {
    let bundle = scratch.path().join("ca.crt").display().to_string();
    format!("  smtp.username: user\n  smtp.password: {PASSWORD}\nca_bundle: {bundle}\n")
}

/// Returns the text of a message. Empty lines at its end have no meaning.
fn text(found: &Json) -> &str {
    found["text"].as_str().unwrap().trim_end()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Calls the program. Returns its output, and its log.
fn call(scratch: &Scratch, words: &[&str]) -> (String, String) {
    let log = scratch.path().join("log").display().to_string();
    let mut all = vec!["--out=json", "--log-file-level=all", "--log-file", &log];
    all.extend(words);
    let words: Vec<String> = all.iter().map(|word| (*word).to_owned()).collect();
    fs::remove_file(&log).unwrap_or_default();
    let out = salt_call(scratch.path(), &words).unwrap().out;
    let log = fs::read_to_string(log).unwrap();
    for text in [&out, &log] {
        assert!(!text.contains(PASSWORD), "{text}");
    }
    (out, log)
}

/// Sends a message and returns the return of the state, which has the error in its comment.
fn send(scratch: &Scratch, recipient: &str) -> String {
    let recipient = format!("recipient={recipient}");
    let subject = "subject=Message from Salt";
    let words = [
        "state.single",
        "smtp.send_msg",
        TEXT,
        &recipient,
        subject,
        "profile=my",
    ];
    call(scratch, &words).0
}

const SLS: &str = "
report:
  smtp.send_msg:
    - name: |
        Grüße
        .
        ..zwei
    - recipient: a@example.com, Zoë <b@example.com>
    - subject: Übersicht für heute
    - profile: my
    - attachments: [@HERE@/bytes, @HERE@/Größe.txt]
";

/// Applies the state and returns its result and comment.
fn apply(scratch: &Scratch, words: &[&str]) -> (Json, String) {
    let here = scratch.path().display().to_string();
    scratch.write("srv/salt/case.sls", &SLS.replace("@HERE@", &here));
    let words = [&["state.apply", "case"], words].concat();
    let found: Json = serde_json::from_str(&call(scratch, &words).0).unwrap();
    let ret = found["local"].as_object().unwrap().values().next().unwrap();
    let comment = ret["comment"].as_str().unwrap().to_owned();
    (ret["result"].clone(), comment)
}

#[test]
fn a_state_sends_its_message_with_attachments_by_starttls_and_login() {
    let scratch = Scratch::new();
    certificates(scratch.path());
    let Some(mut server) = Server::start(&scratch, "starttls") else {
        return;
    };
    configure(&scratch, &server, "True", &login(&scratch));
    // The message, as the server prints it, must have room in a pipe.
    let bytes: Vec<u8> = (0..=255).cycle().take(20_000).collect();
    fs::write(scratch.path().join("bytes"), &bytes).unwrap();
    fs::write(scratch.path().join("Größe.txt"), ".\r\n.\n").unwrap();

    let (result, comment) = apply(&scratch, &["test=True"]);
    assert_eq!(result, Json::Null);
    assert!(
        comment.starts_with("Need to send message to a@"),
        "{comment}"
    );

    let (result, comment) = apply(&scratch, &[]);
    assert_eq!(result, true, "{comment}");
    assert!(comment.contains(" with attachments (/"), "{comment}");
    let found = server.message();
    assert_eq!(found["from"], "salt@example.com");
    assert_eq!(found["to"], json!(["a@example.com", "b@example.com"]));
    assert_eq!(found["encrypted"], true);
    assert_eq!(found["login"], "user");
    assert_eq!(found["headers"]["Subject"], "Übersicht für heute");
    assert_eq!(found["headers"]["From"], "Prüfer <salt@example.com>");
    let to = "a@example.com, Zoë <b@example.com>";
    assert_eq!(found["headers"]["To"], to);
    assert_eq!(text(&found), TEXT.trim_end());
    assert_eq!(found["defects"], json!([]));
    assert!(found["longest"].as_u64().unwrap() <= 998);
    let attachments = json!([["bytes", hex(&bytes)], ["Größe.txt", hex(b".\r\n.\n")]]);
    assert_eq!(found["attachments"], attachments);
    assert_eq!(server.rest(), [""; 0], "test mode sends");
}

#[test]
fn a_message_is_sent_with_tls_from_the_beginning() {
    let scratch = Scratch::new();
    certificates(scratch.path());
    let Some(mut server) = Server::start(&scratch, "tls") else {
        return;
    };
    configure(&scratch, &server, "'True'", &login(&scratch));
    let said = send(&scratch, "a@example.com");
    assert!(said.contains(r#""result": true"#), "{said}");
    let found = server.message();
    assert_eq!(found["encrypted"], true);
    assert_eq!(found["login"], "user");
    assert_eq!(text(&found), TEXT.trim_end());
    assert_eq!(found["headers"]["Subject"], "Message from Salt");
}

#[test]
fn nothing_is_sent_in_the_clear_if_encryption_is_demanded() {
    let scratch = Scratch::new();
    let Some(mut server) = Server::start(&scratch, "clear") else {
        return;
    };
    configure(&scratch, &server, "True", &login(&scratch));
    let said = send(&scratch, "a@example.com");
    assert!(said.contains("does not offer STARTTLS"), "{said}");
    configure(&scratch, &server, "False", "");
    let said = send(&scratch, "a@example.com");
    assert!(said.contains(r#""result": true"#), "{said}");
    let found = server.message();
    assert_eq!(found["encrypted"], false);
    assert_eq!(found["login"], Json::Null);
    assert_eq!(text(&found), TEXT.trim_end());
    assert_eq!(server.rest(), [""; 0]);
}

#[test]
fn a_certificate_of_an_unknown_authority_is_an_error() {
    let scratch = Scratch::new();
    certificates(scratch.path());
    let other = scratch.path().join("other");
    fs::create_dir(&other).unwrap();
    certificates(&other);
    for mode in ["starttls", "tls"] {
        let Some(server) = Server::start(&scratch, mode) else {
            return;
        };
        let tls = if mode == "tls" { "'True'" } else { "True" };
        let more = login(&scratch).replace("/ca.crt", "/other/ca.crt");
        configure(&scratch, &server, tls, &more);
        let said = send(&scratch, "a@example.com");
        assert!(
            said.contains("TLS failed: invalid peer certificate"),
            "{said}"
        );
        // The certificate is for localhost, not for this address.
        configure(&scratch, &server, tls, &login(&scratch));
        let path = scratch.path().join("etc/minion.d/case.conf");
        let config = fs::read_to_string(&path).unwrap();
        fs::write(&path, config.replace("localhost:", "127.0.0.1:")).unwrap();
        let said = send(&scratch, "a@example.com");
        assert!(
            said.contains("TLS failed: invalid peer certificate"),
            "{said}"
        );
        assert_eq!(server.rest(), [""; 0]);
    }
}

#[test]
fn a_refused_recipient_or_login_is_an_error_and_nothing_is_sent() {
    let scratch = Scratch::new();
    certificates(scratch.path());
    let Some(server) = Server::start(&scratch, "starttls") else {
        return;
    };
    configure(&scratch, &server, "True", &login(&scratch));
    let said = send(&scratch, "a@example.com, refused@example.com");
    let expected = "refused RCPT TO:<refused@example.com>: 550 5.1.1 there is no such user";
    assert!(said.contains(expected), "{said}");
    let wrong = login(&scratch).replace(PASSWORD, "wrong-password");
    configure(&scratch, &server, "True", &wrong);
    let said = send(&scratch, "a@example.com");
    assert!(said.contains("the server refused the login: 535"), "{said}");
    assert!(!said.contains("wrong-password"), "{said}");
    assert_eq!(server.rest(), [""; 0]);
}

#[test]
fn a_return_is_a_mail_whose_subject_no_return_can_extend_by_a_template() {
    let scratch = Scratch::new();
    certificates(scratch.path());
    let Some(mut server) = Server::start(&scratch, "starttls") else {
        return;
    };
    let bundle = scratch.path().join("ca.crt").display().to_string();
    let config = format!(
        "smtp.from: salt@example.com\nsmtp.to: a@example.com,b@example.com\nsmtp.host: localhost\nsmtp.port: {}\nsmtp.tls: True\nsmtp.username: user\nsmtp.password: {PASSWORD}\nsmtp.subject: 'Über {{{{ id }}}}:'\nsmtp.fields: fun,return\nca_bundle: {bundle}\n",
        server.port
    );
    scratch.write("etc/minion.d/case.conf", &config);
    let words = ["test.echo", "ü {{ 1 + 1 }}\nb", "--return=smtp"];
    let (_, log) = call(&scratch, &words);
    assert!(!log.contains("cannot store the return"), "{log}");
    let found = server.message();
    assert_eq!(found["to"], json!(["a@example.com", "b@example.com"]));
    assert_eq!(
        (&found["encrypted"], &found["login"]),
        (&json!(true), &json!("user"))
    );
    let subject = found["headers"]["Subject"].as_str().unwrap();
    assert!(
        subject.starts_with("Über ") && subject.ends_with(": test.echo ü {{ 1 + 1 }} b"),
        "{subject}"
    );
    let text = text(&found);
    assert!(
        text.contains("\nfunction: test.echo\n") && text.contains("\nreturn: ü {{ 1 + 1 }}"),
        "{text}"
    );
    let config = config.replace("a@example.com,b@example.com", "nobody");
    scratch.write("etc/minion.d/case.conf", &config);
    let (_, log) = call(&scratch, &["test.ping", "--return=smtp"]);
    assert!(
        log.contains("returner smtp cannot store the return"),
        "{log}"
    );
}
