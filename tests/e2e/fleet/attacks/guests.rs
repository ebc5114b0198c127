//! Attacks of guests, peers and minions that try to run or see more than the master's rules allow.

use std::os::unix::process::CommandExt;
use std::process::Command;
use tests::skip::is_root;

use value::{Map, Value};
use wire::{Answer, Frame, Grains, Limits, MineGet, MinePut, Pillar, Publish, Request};

use crate::fleet::hostile::{Hostile, bytes, key, run};
use crate::fleet::{Fleet, NOBODY};

/// A Python script that sends the hex bytes of its second argument to a socket, and prints the
/// answer in hex.
const CLIENT: &str = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(60)\ns.connect(sys.argv[1])\ns.sendall(bytes.fromhex(sys.argv[2]))\ns.shutdown(socket.SHUT_WR)\nwhile True:\n    d = s.recv(65536)\n    if not d: break\n    print(d.hex(), end='')\n";

fn job(tgt: &str, tgt_type: &str, fun: &str) -> Publish {
    Publish {
        tgt: tgt.into(),
        tgt_type: tgt_type.into(),
        fun: fun.into(),
        arg: Vec::new(),
        ret: String::new(),
        jid: None,
        timeout_s: Some(5.0),
        options: Map::new(),
    }
}

fn with_option(job: Publish, name: &str, value: impl Into<Value>) -> Publish {
    Publish {
        options: Map::new().with(name, value),
        ..job
    }
}

/// Sends a request to the master's socket as the unprivileged user, and returns the frames of the
/// answer.
fn asked_by_nobody(fleet: &Fleet, job: Publish) -> Vec<Frame> {
    // This call gives the user access to the socket.
    fleet.run_as_nobody(&["salt", "--preview-target", "nobody"]);
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let output = Command::new("/usr/bin/env")
        .args(["python3", "-c", CLIENT])
        .arg(fleet.master_socket())
        .arg(hex(&bytes(&Request::from(job).into())))
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let said: Vec<u8> = output
        .stdout
        .chunks(2)
        .map(|digits| u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap())
        .collect();
    frames(&said)
}

fn frames(mut said: &[u8]) -> Vec<Frame> {
    let mut all = Vec::new();
    while let Some((length, rest)) = said.split_first_chunk::<4>() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        all.push(Frame::decode(frame, Limits::STREAM).unwrap());
        said = rest;
    }
    all
}

/// Returns the message with which the guest's job is refused.
fn refused_to_nobody(fleet: &Fleet, job: Publish) -> String {
    let answer = asked_by_nobody(fleet, job.clone());
    match answer.last() {
        Some(Frame::Answer(Answer::Failed(no))) => no.text.clone(),
        _ => panic!("{job:?} was not refused: {answer:?}"),
    }
}

/// Returns the parts of an answer; panics if it is a refusal.
fn parts(answer: &[Frame]) -> Vec<Value> {
    let data = answer.iter().filter_map(|frame| match frame {
        Frame::Answer(Answer::Data(data)) => Some(data.data.clone()),
        Frame::Answer(Answer::Failed(no)) => panic!("{no:?}"),
        _ => None,
    });
    data.collect()
}

/// Returns the minions in the preview of a job that the guest asks for.
fn previewed_to_nobody(fleet: &Fleet, tgt: &str, tgt_type: &str) -> Vec<String> {
    let asked = with_option(job(tgt, tgt_type, "test.ping"), "preview", true);
    let parts = parts(&asked_by_nobody(fleet, asked));
    parts[0].get("minions").unwrap().texts()
}

fn jobs(fleet: &Fleet) -> String {
    fleet.run(&["salt-run", "--out=json", "jobs.list_jobs"]).out
}

const DENIED: &str = "Authorization error occurred.";

#[test]
fn c1_a_job_that_says_it_is_no_preview_is_held_to_the_rules() {
    if !is_root() {
        return;
    }
    let mut fleet = Fleet::with("publisher_acl:\n  nob*:\n    - test.ping\n");
    fleet.accepted(&["m1"]);
    let pwned = fleet.path("pwned");
    let asked = Publish {
        arg: vec![format!("touch {}", pwned.display()).into()],
        ..job("*", "glob", "cmd.run")
    };
    for no in [false.into(), Value::Null, 0.into(), "".into()] {
        let asked = with_option(asked.clone(), "preview", no);
        assert_eq!(refused_to_nobody(&fleet, asked), DENIED);
    }
    // A real preview is answered, and no job is sent.
    let preview = with_option(asked, "preview", true);
    let told = parts(&asked_by_nobody(&fleet, preview));
    assert_eq!(told[0].get("minions").unwrap().texts(), ["m1"]);
    // The same option on a job that he may have done changes nothing.
    let ping = with_option(job("m1", "glob", "test.ping"), "preview", false);
    assert_eq!(parts(&asked_by_nobody(&fleet, ping)).len(), 2);
    assert!(!pwned.exists());
    assert!(!jobs(&fleet).contains("cmd.run"));
    let log = fleet.master_log();
    let lines = log.lines().filter(|line| line.contains("nobody: "));
    assert_eq!(lines.count(), 1, "{log}");
}

#[test]
fn h1_a_guest_names_no_returner_and_none_of_its_files() {
    if !is_root() {
        return;
    }
    let mut fleet = Fleet::with("publisher_acl:\n  nob*:\n    - test.ping\n");
    fleet.accepted(&["m1"]);
    let file = fleet.path("written");
    let kwargs = format!("{{\"filename\": \"{}\"}}", file.display());
    let words = ["salt", "m1", "test.ping", "--return", "rawfile_json"];
    let answer = fleet.run_as_nobody(&[&words[..], &["--return_kwargs", &kwargs]].concat());
    assert_eq!(
        (answer.out.as_str(), answer.rc),
        (
            "Only root may give a job the option \"ret_kwargs\".\n",
            Some(2)
        )
    );
    let answer = fleet.run_as_nobody(&words);
    assert_eq!(answer.out, "Only root may name a returner.\n");
    let named = Map::new().with("filename", file.display().to_string());
    for option in ["ret_kwargs", "ret_config"] {
        let asked = with_option(job("m1", "glob", "test.ping"), option, named.clone());
        let asked = Publish {
            ret: "rawfile_json".into(),
            ..asked
        };
        assert!(refused_to_nobody(&fleet, asked).contains(option));
    }
    assert!(!file.exists());
    assert!(!jobs(&fleet).contains("nobody"));
}

#[test]
fn l9_a_guest_gives_no_option_that_is_not_for_guests() {
    if !is_root() {
        return;
    }
    let mut fleet = Fleet::with("publisher_acl:\n  nob*:\n    - test.ping\n");
    fleet.accepted(&["m1"]);
    for (name, value) in [
        ("reaction", Value::from("runner")),
        ("no_log", true.into()),
        ("secrets", true.into()),
        ("schedule", "look".into()),
        ("user", "root".into()),
        ("id", "m1".into()),
        ("bound_grains", Map::new().into()),
        ("module_executors", vec!["sudo"].into()),
        ("of_next_year", true.into()),
    ] {
        let asked = with_option(job("m1", "glob", "test.ping"), name, value);
        let text = refused_to_nobody(&fleet, asked);
        assert_eq!(
            text,
            format!("Only root may give a job the option {name:?}.")
        );
    }
    let asked = with_option(job("m1", "glob", "test.ping"), "metadata", "mine");
    let told = parts(&asked_by_nobody(&fleet, asked));
    assert_eq!(told[1].get("metadata"), Some(&"mine".into()));
}

#[test]
fn l3_a_guests_target_of_nobody_makes_no_job() {
    if !is_root() {
        return;
    }
    let mut fleet = Fleet::with("publisher_acl:\n  nob*:\n    - test.*\n");
    fleet.accepted(&["m1"]);
    for (tgt, tgt_type) in [("nobody*", "glob"), ("", "glob"), ("a,b", "list")] {
        let asked = Publish {
            arg: vec!["x".repeat(10_000).into()],
            ..job(tgt, tgt_type, "test.arg")
        };
        let text = refused_to_nobody(&fleet, asked);
        assert_eq!(text, "No minions matched the target.");
    }
    assert!(!jobs(&fleet).contains("test.arg"));
    // Root's job is kept, its arguments are not.
    let long = "y".repeat(1000);
    let answer = fleet.run(&["salt", "nobody*", "test.arg", &long]);
    assert!(answer.out.contains("No minions matched the target"));
    let jobs = jobs(&fleet);
    assert!(jobs.contains("test.arg") && !jobs.contains(&long), "{jobs}");
}

#[test]
fn m11_a_rule_on_arguments_binds_those_that_it_does_not_name() {
    if !is_root() {
        return;
    }
    let acl = "publisher_acl:\n  nob*:\n    - m1:\n      - cmd.run:\n          args: ['id -u']\n      - test.arg:\n          args: [a, '...']\n          kwargs: {'x.*': '.*'}\n";
    let mut fleet = Fleet::with(acl);
    fleet.accepted(&["m1"]);
    let by = |words: &[&str]| fleet.run_as_nobody(&[&["salt", "--out=txt", "m1"], words].concat());
    assert_eq!(by(&["cmd.run", "id -u"]).out, "m1: 0\n");
    for words in [
        &["cmd.run", "id -u", "prepend_path=/tmp"][..],
        &["cmd.run", "id -u", "shell=/tmp/sh"],
        &["cmd.run", "id -u", "env={PATH: /tmp}"],
        &["cmd.run", "id -u", "/tmp"],
        &["test.arg", "b"],
        &["test.arg", "a", "y=1"],
    ] {
        assert_eq!(by(words).out, format!("{DENIED}\n"), "{words:?}");
    }
    let words = ["test.arg", "a", "b", "x1=1"];
    let told = by(&words).out;
    assert!(told.contains("x1"), "{told}");
}

/// Starts a fleet whose minion `m1` has a secret in its pillar, which the master has cached.
fn with_secret(config: &str) -> Fleet {
    let mut fleet = Fleet::with(&format!("auto_accept: True\n{config}"));
    fleet.write("pillar/top.sls", "base:\n  'm1':\n    - secret\n");
    fleet.write("pillar/secret.sls", "word: hush\n");
    fleet.start_minion("m1", "");
    fleet.soon("the master knows its pillar", || {
        fleet.run(&["salt", "m1", "state.test", "nothing"]);
        let found = fleet.run(&["salt", "--preview-target", "-I", "word:h*"]);
        found.out.contains("m1")
    });
    fleet
}

/// Correct guesses of a part of the secret, each with its kind of target.
const GUESSES: [(&str, &str); 3] = [
    ("word:h*", "pillar"),
    ("I@word:h*", "compound"),
    ("* and I|@word|h*", "compound"),
];
/// Targets that have no exact form.
const PATTERNS: [(&str, &str); 3] = [
    ("word:h.*", "pillar_pcre"),
    ("J@word:h.*", "compound"),
    ("* and not J@word:x.*", "compound"),
];

#[test]
fn m1_a_guest_reads_no_pillar_letter_by_letter() {
    if !is_root() {
        return;
    }
    let fleet = with_secret(
        "publisher_acl:\n  nob*:\n    - test.ping\nnodegroups:\n  quiet: 'I@word:h*'\n",
    );
    for (tgt, tgt_type) in GUESSES {
        let text = refused_to_nobody(&fleet, job(tgt, tgt_type, "test.ping"));
        assert_eq!(text, "No minions matched the target.", "{tgt}");
        assert!(
            previewed_to_nobody(&fleet, tgt, tgt_type).is_empty(),
            "{tgt}"
        );
    }
    for (tgt, tgt_type) in PATTERNS {
        for asked in [
            job(tgt, tgt_type, "test.ping"),
            with_option(job(tgt, tgt_type, "test.ping"), "preview", true),
        ] {
            let text = refused_to_nobody(&fleet, asked);
            assert!(text.contains("whole values"), "{tgt}: {text}");
        }
    }
    // The whole value is found, and so is what the administrator wrote.
    assert_eq!(previewed_to_nobody(&fleet, "word:hush", "pillar"), ["m1"]);
    assert_eq!(previewed_to_nobody(&fleet, "quiet", "nodegroup"), ["m1"]);
    // Root may use patterns.
    for (option, tgt) in [("-I", "word:h*"), ("-J", "word:h.*"), ("-C", "J@word:h.*")] {
        let answer = fleet.run(&["salt", "--preview-target", option, tgt]);
        assert_eq!(answer.out, "- m1\n", "{option}");
    }
}

#[test]
fn m1_a_peer_reads_no_pillar_letter_by_letter() {
    let fleet = with_secret("peer:\n  evil:\n    - test.ping\n");
    run(async {
        let evil = Hostile::let_in(fleet.port(), &key(), "evil").await;
        for (tgt, tgt_type) in GUESSES {
            let answer = evil.ask(job(tgt, tgt_type, "test.ping")).await;
            assert!(parts(&answer).is_empty(), "{tgt}: {answer:?}");
        }
        for (tgt, tgt_type) in PATTERNS {
            let (_, text) = evil.refused(job(tgt, tgt_type, "test.ping")).await;
            assert!(text.contains("whole values"), "{tgt}: {text}");
        }
        let answer = evil.ask(job("word:hush", "pillar", "test.ping")).await;
        assert_eq!(parts(&answer).len(), 1);
    });
}

#[test]
fn m1_the_mine_tells_no_pillar_letter_by_letter() {
    let fleet = Fleet::with("auto_accept: True\n");
    fleet.write("pillar/top.sls", "base:\n  'm1':\n    - secret\n");
    fleet.write("pillar/secret.sls", "word: hush\n");
    run(async {
        let m1 = Hostile::let_in(fleet.port(), &key(), "m1").await;
        let evil = Hostile::let_in(fleet.port(), &key(), "evil").await;
        m1.done(pillar(Map::new())).await;
        let data = Map::new().with("f", "x");
        m1.done(MinePut { data, clear: true }).await;
        let get = |tgt: &str, tgt_type: &str| MineGet {
            tgt: tgt.into(),
            tgt_type: tgt_type.into(),
            fun: vec!["f".into()],
            exclude_minion: false,
        };
        let seen = Value::from(Map::new().with("f", Map::new().with("m1", "x")));
        while evil.done(get("word:hush", "pillar")).await != seen {}
        for (tgt, tgt_type) in GUESSES {
            let answer = evil.done(get(tgt, tgt_type)).await;
            assert_eq!(answer, Map::new().into(), "{tgt}");
        }
        for (tgt, tgt_type) in PATTERNS {
            let (_, text) = evil.refused(get(tgt, tgt_type)).await;
            assert!(text.contains("whole values"), "{tgt}: {text}");
        }
        // The ACL of a mine entry cannot be used to guess a pillar, and does not hide the data of
        // other minions.
        for (tgt, kind) in [("word:h.*", "pillar_pcre"), ("x", "weather")] {
            let entry = Map::new()
                .with("__saltmine_acl__", 1)
                .with("__data__", "y")
                .with("allow_tgt", tgt)
                .with("allow_tgt_type", kind);
            let data = Map::new().with("f", entry);
            evil.done(MinePut { data, clear: true }).await;
            assert_eq!(m1.done(get("*", "glob")).await, seen, "{kind}");
        }
    });
}

fn pillar(grains: Map) -> Pillar {
    Pillar {
        saltenv: None,
        pillarenv: None,
        grains,
        pillar_override: Map::new(),
        secrets: false,
    }
}

#[test]
fn m3_a_role_that_no_key_is_bound_to_gives_no_pillar() {
    for (option, is_believed) in [("", false), ("bound_grains: []\n", true)] {
        let fleet = Fleet::with(&format!("auto_accept: True\n{option}"));
        fleet.write(
            "pillar/top.sls",
            "base:\n  'role:db':\n    - match: grain\n    - db\n  'identity:account:7':\n    - match: grain\n    - db\n",
        );
        fleet.write("pillar/db.sls", "dbpass: hush\n");
        run(async {
            let evil = Hostile::let_in(fleet.port(), &key(), "evil").await;
            let claims = [
                Map::new().with("role", "db"),
                Map::new().with("identity", Map::new().with("account", 7)),
            ];
            for grains in claims {
                let told = evil.done(pillar(grains.clone())).await;
                assert_eq!(told.get("dbpass").is_some(), is_believed, "{grains:?}");
            }
            let grains = Map::new().with("role", "db").with("tier", "db");
            evil.done(Grains { grains }).await;
        });
        let matched = |tgt: &str| {
            let answer = fleet.run(&["salt", "--preview-target", "-C", tgt]);
            answer.out.contains("evil")
        };
        assert_eq!(matched("G@role:db"), is_believed);
        assert!(matched("G@tier:db"));
        let log = fleet.master_log();
        let ignored = log
            .lines()
            .filter(|line| line.contains("ignoring the grain"));
        assert_eq!(ignored.count(), usize::from(!is_believed), "{log}");
    }
}
