//! Attacks on the arguments of `smtp.send_msg`, and the choice of the encryption.

use super::*;
use crate::testing::{apply, exec, exec_with};

const LINES: [&str; 3] = ["x\r\nBcc: eve@example.com", "x\nRCPT TO:<eve@x>", "x\0y"];

fn kwargs() -> Map {
    Map::new()
        .with("recipient", "ops@example.com")
        .with("message", "text")
        .with("sender", "salt@example.com")
        .with("server", "127.0.0.1:1")
}

fn refused(kwargs: Map) -> String {
    let cx = exec();
    let sent = cx.call_internal("smtp.send_msg", Vec::new(), kwargs);
    sent.unwrap_err().to_string()
}

fn mail(subject: &str, text: &str) -> Mail {
    Mail {
        sender: sender(Some("Bäcker <salt@example.com>")).unwrap(),
        recipients: mailboxes("recipient", "a@example.com, b@localhost").unwrap(),
        subject: subject.to_owned(),
        text: text.to_owned(),
        subtype: "plain",
        attachments: Vec::new(),
    }
}

#[test]
fn a_line_break_in_a_header_is_an_error_that_names_the_argument() {
    for name in ["recipient", "subject", "sender", "server"] {
        for attack in LINES {
            let error = refused(kwargs().with(name, format!("ops@example.com {attack}")));
            let expected = format!("{name}: contains a line break or a NUL character");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
    for name in ["username", "password"] {
        let login = kwargs().with("username", "user").with("password", "pass");
        let error = refused(login.with(name, "planted\0x"));
        assert!(error.starts_with(&format!("{name}: contains")), "{error}");
        assert!(!error.contains("planted"), "{error}");
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("a\r\nX-Evil: yes");
    std::fs::File::create(&path).unwrap();
    let error = refused(kwargs().with("attachments", path.display().to_string()));
    assert!(error.starts_with("attachments: contains"), "{error}");
}

#[test]
fn what_is_not_an_address_is_an_error_that_names_the_argument() {
    let wrong = [
        "root",
        "",
        "a@b, root",
        "a@b@",
        "@",
        "a b@c",
        "a@b> SIZE=1",
        "<a@b",
        "a@ex ample.com",
        "mäx@example.com",
        "a@bäcker.example",
    ];
    for text in wrong {
        for name in ["recipient", "sender"] {
            let error = refused(kwargs().with(name, text));
            assert!(error.starts_with(&format!("{name}: ")), "{text}: {error}");
        }
    }
    let error = refused(kwargs().with("sender", "a@example.com, b@example.com"));
    assert!(error.contains("must be one address"), "{error}");
}

#[test]
fn addresses_may_have_names_and_be_of_this_machine() {
    let found = mailboxes(
        "recipient",
        "root@localhost,\"Doe, J\" <j@x.example>, Ops <o@y>",
    );
    let found: Vec<String> = found
        .unwrap()
        .iter()
        .map(|to| to.email.to_string())
        .collect();
    assert_eq!(found, ["root@localhost", "j@x.example", "o@y"]);
}

#[test]
fn a_missing_setting_is_an_error_that_names_it() {
    for name in ["server", "sender"] {
        let error = refused(kwargs().with(name, Value::Null));
        assert!(error.starts_with(&format!("{name}: is missing")), "{error}");
    }
    let error = refused(kwargs().with("username", "user"));
    assert!(error.starts_with("password: is missing"), "{error}");
    let error = refused(kwargs().with("profile", "nowhere"));
    assert!(error.starts_with("profile: "), "{error}");
}

#[test]
fn the_encryption_is_that_of_salt_or_stricter() {
    use Encryption::{ForLogin, Immediate, StartTls};
    let (text, yes) = (Value::from("True"), Value::Bool(true));
    for (use_ssl, port, expected) in [
        (&text, None, (Immediate, 465)),
        (&yes, None, (StartTls, 25)),
        (&text, Some(587), (StartTls, 587)),
        (&text, Some(2525), (Immediate, 2525)),
        (&yes, Some(465), (Immediate, 465)),
        (&yes, Some(2525), (StartTls, 2525)),
        (&Value::from("yes"), None, (StartTls, 25)),
        (&Value::Null, None, (ForLogin, 25)),
        (&Value::Bool(false), Some(465), (ForLogin, 465)),
        (&Value::from("False"), None, (ForLogin, 25)),
    ] {
        assert_eq!(encryption(use_ssl, port), expected, "{use_ssl:?} {port:?}");
    }
}

#[test]
fn a_server_may_have_a_port() {
    assert_eq!(host_and_port("mail").unwrap(), ("mail", None));
    assert_eq!(host_and_port("mail:25").unwrap(), ("mail", Some(25)));
    assert_eq!(host_and_port("[::1]:25").unwrap(), ("::1", Some(25)));
    assert_eq!(host_and_port("::1").unwrap(), ("::1", None));
    host_and_port("mail:").unwrap_err();
    host_and_port("mail:70000").unwrap_err();
}

#[test]
fn a_profile_replaces_the_arguments() {
    let settings = Map::new()
        .with("smtp.server", "mail")
        .with("smtp.port", 2525)
        .with("smtp.password", "planted-password");
    let cx = exec_with(Map::new().with("my", settings), Map::new());
    let mut args = SendMsg {
        recipient: String::new(),
        message: Value::Null,
        subject: Value::Null,
        sender: Some("mine@example.com".to_owned()),
        server: None,
        use_ssl: "True".into(),
        username: None,
        password: None,
        profile: Some("my".to_owned()),
        attachments: Value::Null,
    };
    assert_eq!(use_profile(&cx, &mut args).unwrap(), Some(2525));
    assert_eq!(args.server.as_deref(), Some("mail"));
    assert_eq!(args.sender.as_deref(), Some("mine@example.com"));
    assert_eq!(args.password.as_deref(), Some("planted-password"));
    assert_eq!(args.use_ssl, Value::Null);
}

#[test]
fn a_message_is_ascii_with_short_lines_that_end_with_cr_lf() {
    let long = "ü".repeat(5000);
    let texts = ["a\nb\rc\r\nd\r\r\n.\n", "a\0b", &long, &"x".repeat(5000)];
    let subjects = ["Ümläut ".repeat(500), "x ".repeat(500)];
    for (text, subject) in texts
        .iter()
        .flat_map(|text| subjects.iter().map(move |subject| (text, subject)))
    {
        let message = String::from_utf8(mail(subject, text).formatted().unwrap()).unwrap();
        assert!(message.is_ascii() && !message.contains('\0'), "{message}");
        for line in message.split("\r\n") {
            assert!(!line.contains(['\r', '\n']), "{line:?}");
            assert!(line.len() <= 998, "{line:?}");
        }
    }
}

#[test]
fn a_word_that_makes_a_line_too_long_is_an_error() {
    let error = mail(&"x".repeat(3000), "text").formatted().unwrap_err();
    assert!(
        error.to_string().contains("shorten the longest word"),
        "{error}"
    );
}

#[test]
fn attachments_have_a_limit_and_are_regular_files() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).display().to_string();
    std::fs::write(path("small"), "12345").unwrap();
    assert_eq!(contents(&path("small"), 5).unwrap(), b"12345");
    let error = contents(&path("small"), 4).unwrap_err().to_string();
    assert!(error.contains("longer than the limit"), "{error}");
    let large = std::fs::File::create(path("large")).unwrap();
    large.set_len(MAX_ATTACHMENTS).unwrap();
    let error = refused(kwargs().with(
        "attachments",
        Value::list([path("small").into(), path("large").into()]),
    ));
    assert!(error.contains(&path("large")), "{error}");
    let missing = refused(kwargs().with("attachments", path("missing")));
    let expected = format!("Cannot read {}: No such file", path("missing"));
    assert!(missing.starts_with(&expected), "{missing}");
    for other in ["/dev/zero".to_owned(), scratch.path().display().to_string()] {
        let error = refused(kwargs().with("attachments", other));
        assert!(error.contains("is not a regular file"), "{error}");
    }
}

#[test]
fn the_state_has_the_texts_of_salt() {
    let state = |test: bool, kwargs: Map| {
        let mut cx = exec();
        cx.test = test;
        let found = apply(&cx, "smtp.send_msg", kwargs).unwrap();
        (found.result, found.comment)
    };
    let kwargs = Map::new()
        .with("name", "text")
        .with("recipient", "ops@example.com")
        .with("subject", "s");
    let missing = "Missing parameter sender or profile for state smtp.send_msg";
    assert_eq!(
        state(true, kwargs.clone()),
        (Some(false), missing.to_owned())
    );
    let kwargs = kwargs.with("sender", "salt@example.com");
    let would = "Need to send message to ops@example.com: text";
    assert_eq!(state(true, kwargs.clone()), (None, would.to_owned()));
    let (result, comment) = state(false, kwargs);
    assert_eq!(result, Some(false));
    let failed = "Unable to send message to ops@example.com (server: is missing";
    assert!(comment.starts_with(failed), "{comment}");
}
