//! Mails through a real Postfix, and an orchestration that notifies people and stores its result, with
//! real servers.

use std::fs;

use serde_json::{Value, json};
use tests::program::{prepare, program};
use tests::scratch::Scratch;

use crate::mail::certificates;
use crate::returners::tables;

/// A root with the certificate of the mail server; `None` without root.
fn root() -> Option<Scratch> {
    if !tests::skip::is_root() {
        return None;
    }
    let scratch = Scratch::new();
    certificates(scratch.path());
    Some(scratch)
}

/// Runs a script in the root, which knows the folders and the program.
fn run(scratch: &Scratch, script: &str) {
    let script = format!(
        "dir=@ENV@ corpus=@CORPUS@ program='{}'\n{script}",
        program()[0]
    );
    let done = prepare(scratch.path(), &scratch.filled(&script), true);
    let out = fs::read_to_string(scratch.path().join("calls.log")).unwrap_or_default();
    done.unwrap_or_else(|error| panic!("{error}\n{out}"));
    assert!(!out.contains("planted-secret"), "{out}");
}

/// Returns the lines of JSON in a file of the root.
fn lines(scratch: &Scratch, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(scratch.path().join(name)).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn postfix_delivers_a_message_with_its_letters_dots_and_attachment() {
    let Some(scratch) = root() else {
        return;
    };
    scratch.write("Größe.txt", "eins\n.\nzwei\n");
    scratch.write(
        "etc/minion.d/mail.conf",
        &scratch.filled("ca_bundle: @ENV@/ca.crt\nmail: {smtp.server: localhost, smtp.tls: True, smtp.sender: Prüfer <salt@example.org>}\n"),
    );
    run(
        &scratch,
        "ip link set lo up\n. @CORPUS@/postfix.sh\ntrap stop_postfix EXIT\n\"$program\" salt-call -c @ENV@/etc --local smtp.send_msg \"Zoë <zoe@example.com>\" \"Grüße
.
..zwei\" subject='Übersicht für heute' profile=mail attachments='[@ENV@/Größe.txt]' >@ENV@/calls.log 2>&1\nfor _ in $(seq 100); do [ -n \"$(ls @ENV@/mail/new 2>/dev/null)\" ] && break; sleep 0.1; done\npython3 @CORPUS@/notified/mails.py @ENV@/mail/new >@ENV@/mails",
    );
    let wanted = json!({
        "from": "<salt@example.org>",
        "subject": "Übersicht für heute",
        "text": "Grüße\n.\n..zwei",
        "encrypted": true,
        "defects": [],
        "attachments": {"Größe.txt": "eins\n.\nzwei\n".bytes().map(|byte| format!("{byte:02x}")).collect::<String>()},
    });
    assert_eq!(lines(&scratch, "mails"), [wanted]);
}

#[test]
fn an_orchestration_notifies_people_of_success_and_failure_and_stores_its_result() {
    let Some(scratch) = root() else {
        return;
    };
    scratch.write("jsonb.sql", &tables("PostgreSQL"));
    run(&scratch, ". @CORPUS@/notified/run.sh");
    // Without a master, and then with one: a success and a failure.
    let words = ["deployed", "not deployed", "deployed", "not deployed"];
    let mails = lines(&scratch, "mails");
    let chats = lines(&scratch, "chats");
    assert_eq!((mails.len(), chats.len()), (4, 4), "{mails:?} {chats:?}");
    for ((mail, chat), word) in mails.iter().zip(&chats).zip(words) {
        assert_eq!(mail["subject"], format!("The web is {word}"));
        let text = format!("Größe und Übersicht: the web is {word}");
        assert_eq!(mail["text"], text);
        assert_eq!(mail["encrypted"], true);
        assert_eq!(chat[0], "/api/chat.postMessage");
        assert_eq!(chat[1]["text"], format!("The web is {word}"));
        assert_eq!(chat[1]["channel"], "#ops");
    }
    // In Salt, a function of a machine without a master has success if it returned.
    let wanted = [
        json!(["state.orchestrate", "alone", "true", 0]),
        json!(["state.orchestrate", "alone", "true", 1]),
        json!(["runner.state.orchestrate", true]),
        json!(["runner.state.orchestrate", false]),
    ];
    assert_eq!(lines(&scratch, "rows"), wanted);
}
