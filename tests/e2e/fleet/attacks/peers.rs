//! Attacks on identity: keys, ids, protocols, and false masters.

use std::fs;
use std::net::UdpSocket;

use link::Incoming;
use smol::future::FutureExt;
use value::{Map, Value};
use wire::{Bye, Frame, Grains, Job, MineGet, MinePut, Pillar, Ping, Publish, Request, Return};

use crate::fleet::Fleet;
use crate::fleet::hostile::{Hostile, bytes, golden, hello, key, run, welcome};

const JID: &str = "20261120101035942505";

fn pillar(grains: Map) -> Pillar {
    Pillar {
        saltenv: None,
        pillarenv: None,
        grains,
        pillar_override: Map::new(),
        secrets: false,
    }
}

fn returned(jid: &str, sequence: u64, data: Map) -> Return {
    Return {
        sequence,
        jid: jid.into(),
        stamp: "2026-11-20T10:10:35.942505".into(),
        data: data.with("fun", "test.ping").with("return", "forged"),
    }
}

fn ids(fleet: &Fleet, kind: &str) -> Vec<String> {
    let listed = fleet.run(&["salt-key", "-l", kind]).out;
    listed.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn a01_a_key_that_is_not_accepted_can_say_nothing() {
    let fleet = Fleet::with("");
    run(async {
        for (number, (name, frame)) in golden().into_iter().enumerate() {
            let pair = key();
            let id = format!("m{number}");
            let (mut peer, _pending) = Hostile::greeted(fleet.port(), &pair, &id).await;
            peer.say(&bytes(&frame)).await;
            peer.closed().await;
            if name != "bye" {
                let key = pair.public().to_string();
                fleet.soon(&format!("`{name}` of {id} is logged"), || {
                    fleet.master_log().contains(&key)
                });
            }
        }
    });
    assert!(ids(&fleet, "acc").is_empty());
    assert_eq!(
        fleet
            .run(&["salt-run", "--out=json", "jobs.list_jobs"])
            .out
            .trim(),
        "{}"
    );
}

#[test]
fn a04_a_minion_speaks_for_its_own_key_alone() {
    let fleet = Fleet::with("auto_accept: True\n");
    fleet.write("pillar/top.sls", "base:\n  'm2':\n    - mine\n  'id:m2':\n    - match: grain\n    - mine\n  '*':\n    - all\n");
    fleet.write("pillar/mine.sls", "secret: hush\n");
    fleet.write("pillar/all.sls", "who: {{ grains.id }} {{ opts.id }}\n");
    run(async {
        let pair = key();
        let mut m1 = Hostile::let_in(fleet.port(), &pair, "m1").await;
        let m2 = Hostile::let_in(fleet.port(), &key(), "m2").await;
        let as_m2 = Map::new().with("id", "m2").with("os", "Debian");
        let own = m2.done(pillar(as_m2.clone())).await;
        assert_eq!(own.get("secret").and_then(Value::as_str), Some("hush"));
        let got = m1.done(pillar(as_m2.clone())).await;
        assert_eq!(got.get("who").and_then(Value::as_str), Some("m1 m1"));
        assert!(got.get("secret").is_none(), "{got:?}");
        for peer in [&m2, &m1] {
            peer.done(Grains {
                grains: as_m2.clone(),
            })
            .await;
        }
        let event = wire::Event {
            sequence: 1,
            tag: "my/own".into(),
            stamp: String::new(),
            data: as_m2.clone(),
        };
        m1.say(&bytes(&event.into())).await;
        assert!(m1.hear().await.is_some(), "it is acked");
        m1.done(returned(JID, 2, as_m2)).await;
    });
    let of =
        |id: &str| fleet.json(&["salt-run", "--out=json", "cache.grains", id])[id]["id"].clone();
    assert_eq!((of("m1"), of("m2")), ("m1".into(), "m2".into()));
    let found = fleet.json(&[
        "salt",
        "--out=json",
        "--static",
        "--preview-target",
        "-G",
        "id:m2",
    ]);
    assert_eq!(found, serde_json::json!(["m2"]));
    let kept = fleet.json(&["salt-run", "--out=json", "jobs.lookup_jid", JID]);
    assert_eq!(kept, serde_json::json!({"m1": "forged"}));
}

#[test]
fn a04_a_return_of_anothers_job_is_refused() {
    let fleet = Fleet::with("auto_accept: True\ntimeout: 1\n");
    let pair = key();
    run(async {
        let m1 = Hostile::let_in(fleet.port(), &pair, "m1").await;
        let m2 = Hostile::let_in(fleet.port(), &key(), "m2").await;
        let sent = fleet.run(&["salt", "--async", "--out=json", "m2", "test.ping"]);
        let jid: String = sent.out.chars().filter(char::is_ascii_digit).collect();
        assert_eq!(jid.len(), 20, "{}", sent.out);
        let (word, text) = m1.refused(returned(&jid, 1, Map::new())).await;
        assert_eq!(word, "refused");
        assert_eq!(text, format!("the job {jid} was not sent to m1"));
        m2.done(returned(&jid, 1, Map::new())).await;
        let kept = fleet.json(&["salt-run", "--out=json", "jobs.lookup_jid", &jid]);
        assert_eq!(kept, serde_json::json!({"m2": "forged"}));
        // Two minions that use the same number for their own jobs are no attack.
        for peer in [&m1, &m2] {
            peer.done(returned(JID, 2, Map::new())).await;
        }
        let kept = fleet.json(&["salt-run", "--out=json", "jobs.lookup_jid", JID]);
        assert_eq!(kept, serde_json::json!({"m1": "forged", "m2": "forged"}));
    });
    let log = fleet.master_log();
    let key = pair.public().to_string();
    assert!(
        log.lines()
            .any(|line| line.contains(&key) && line.contains("was not sent to m1"))
    );
}

#[test]
fn a05_a_minion_is_never_asked_as_if_it_were_the_master() {
    let fleet = Fleet::with("auto_accept: True\n");
    run(async {
        let peer = Hostile::let_in(fleet.port(), &key(), "m1").await;
        let of_master = [
            "find_job",
            "job",
            "refresh",
            "running",
            "signal_job",
            "wheel",
            "listen",
        ];
        for (name, frame) in golden() {
            if let Frame::Request(request) = frame
                && of_master.contains(&name.as_str())
            {
                let (word, _) = peer.refused(request).await;
                assert_eq!(word, "refused", "{name}");
            }
        }
        let mut other = Hostile::connect(fleet.port(), &key(), wire::ALPN)
            .await
            .unwrap();
        let role = "master".to_owned();
        other
            .say(&bytes(
                &wire::Hello {
                    role,
                    ..hello("m2")
                }
                .into(),
            ))
            .await;
        assert_eq!(other.closed().await, "role");
    });
    assert_eq!(ids(&fleet, "acc"), ["m1"]);
}
#[test]
fn a05_a08_another_key_in_the_masters_place_is_no_master() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.start_minion("m1", "");
    let answers = |fleet: &Fleet| fleet.run(&["salt", "m1", "test.ping"]).out.contains("True");
    fleet.soon("the minion answers", || answers(&fleet));
    let own = fs::read(fleet.path("m1/pki/minion.pem")).unwrap();
    fleet.kill_master();
    let listener = fleet.false_master(&key());
    run(async {
        let told = async {
            fleet_says(&fleet, "m1", "man-in-the-middle attack").await;
        };
        let came = async {
            let peer = listener.next().await;
            panic!(
                "the minion connected to another master: {:?}",
                peer.map(|peer| peer.key())
            );
        };
        told.or(came).await;
        listener.close("go away for ever").await;
    });
    drop(listener);
    fleet.start_master();
    fleet.soon("the minion answers its own master", || answers(&fleet));
    assert_eq!(fs::read(fleet.path("m1/pki/minion.pem")).unwrap(), own);
}

/// Waits until a daemon's log contains `words`, while other tasks continue.
async fn fleet_says(fleet: &Fleet, who: &str, words: &str) {
    let log = fleet.path(who).join("log");
    while !fs::read_to_string(&log).unwrap_or_default().contains(words) {
        smol::Timer::after(std::time::Duration::from_millis(20)).await;
    }
}

#[test]
fn a06_older_protocols_and_clear_text_are_not_spoken() {
    let fleet = Fleet::with("auto_accept: True\n");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let clear: [&[u8]; 3] = [
        b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL",
        b"\x82\xa3enc\xa5clear\xa4load\x81\xa3cmd\xa5_auth",
        b"GET / HTTP/1.1\r\n\r\n",
    ];
    for text in clear {
        socket.send_to(text, ("127.0.0.1", fleet.port())).unwrap();
    }
    run(async {
        let old = Hostile::connect(fleet.port(), &key(), b"pinch/0").await;
        assert!(old.err().unwrap().contains("known protocol"));
        let mut peer = Hostile::connect(fleet.port(), &key(), wire::ALPN)
            .await
            .unwrap();
        let older = wire::Hello {
            version_min: 0,
            version_max: 0,
            ..hello("m1")
        };
        peer.say(&bytes(&older.into())).await;
        assert_eq!(peer.closed().await, "version");
    });
    fleet.serves_others("m2");
    assert_eq!(ids(&fleet, "acc"), ["m2"]);
}

#[test]
fn a07_what_is_said_again_counts_once() {
    let fleet = Fleet::with("auto_accept: True\n");
    run(async {
        let pair = key();
        let said = returned(JID, 1, Map::new());
        let other = returned(JID, 1, Map::new().with("return", "other"));
        let first = Hostile::let_in(fleet.port(), &pair, "m1").await;
        first.done(said.clone()).await;
        first.done(other.clone()).await;
        // Send both again on a new connection, the second with another sequence number.
        let again = Hostile::let_in(fleet.port(), &pair, "m1").await;
        again.done(said).await;
        again
            .done(Return {
                sequence: 2,
                ..other
            })
            .await;
    });
    let kept = fleet.json(&["salt-run", "--out=json", "jobs.lookup_jid", JID]);
    assert_eq!(kept, serde_json::json!({"m1": "forged"}));
}

#[test]
fn a07_a_job_that_comes_again_is_done_once() {
    let mut fleet = Fleet::with("");
    fleet.kill_master();
    let listener = fleet.false_master(&key());
    // The minion has seen no master before, so it trusts this one.
    fleet.start_minion("m1", "");
    let file = fleet.path("done").display().to_string();
    let job = Job {
        jid: JID.into(),
        fun: "cmd.run".into(),
        arg: vec![format!("echo x >> {file}").into()],
        tgt: "*".into(),
        tgt_type: "glob".into(),
        ret: String::new(),
        user: "root".into(),
        options: Map::new(),
    };
    run(async {
        let peer = listener.next().await.unwrap();
        let mut link = peer.accept(welcome()).await.unwrap();
        let handle = link.handle();
        let (returns, came) = smol::channel::unbounded();
        let reader = handle.clone();
        let reads = smol::spawn(async move {
            while let Ok(incoming) = link.next().await {
                match incoming {
                    Incoming::Event(event) => drop(reader.ack(event.sequence).await),
                    Incoming::Question(question) => {
                        if let Request::Return(answer) = &question.request {
                            let _ = returns.send(answer.jid.clone()).await;
                        }
                        let _ = question.done(Map::new()).await;
                    }
                    _ => {}
                }
            }
        });
        let ask = async || handle.ask(job.clone()).await.unwrap().done().await;
        ask().await.unwrap();
        while came.recv().await.unwrap() != JID {}
        // The repeated job is acknowledged as accepted, which is true.
        ask().await.unwrap();
        let after = Job {
            jid: "20261120101035942506".into(),
            arg: vec!["true".into()],
            ..job.clone()
        };
        handle
            .ask(after.clone())
            .await
            .unwrap()
            .done()
            .await
            .unwrap();
        while came.recv().await.unwrap() != after.jid {}
        reads.cancel().await;
    });
    assert_eq!(fs::read_to_string(file).unwrap(), "x\n");
}

#[test]
fn a09_an_id_is_never_a_path() {
    let fleet = Fleet::with("auto_accept: True\n");
    let good = "aaaaaaaa";
    run(async {
        for bad in [
            "../../x1",
            "a/b/c/d/",
            "\0aaaaaaa",
            ".aaaaaaa",
            "aaaa aaa",
            "éééé",
            "aaaaaaa\n",
            "-aaaaaaa",
        ] {
            let mut frame = bytes(&hello(good).into());
            let at = frame
                .windows(8)
                .position(|part| part == good.as_bytes())
                .unwrap();
            frame[at..at + 8].copy_from_slice(bad.as_bytes());
            let mut peer = Hostile::connect(fleet.port(), &key(), wire::ALPN)
                .await
                .unwrap();
            peer.say(&frame).await;
            let answer = peer.hear().await;
            assert!(
                !matches!(answer, Some(Frame::Control(wire::Control::Welcome(_)))),
                "{bad:?}"
            );
            peer.closed().await;
        }
    });
    fleet.serves_others("m1");
    for folder in [
        "minions",
        "minions_pre",
        "minions_rejected",
        "minions_denied",
    ] {
        let entries = fs::read_dir(fleet.path("master/pki").join(folder));
        let names: Vec<String> = entries
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with('.'))
            .collect();
        let expected: &[&str] = if folder == "minions" { &["m1"] } else { &[] };
        assert_eq!(names, expected, "{folder}");
    }
    // Nor on the command line.
    let outside = fleet.path("master/pki/x1");
    fs::write(&outside, "mine").unwrap();
    for words in [["-a", "../x1"], ["-d", "../x1"], ["-r", "../x1"]] {
        fleet.run(&["salt-key", "-y", words[0], words[1]]);
        assert_eq!(fs::read_to_string(&outside).unwrap(), "mine", "{words:?}");
    }
}

#[test]
fn a16_garbage_costs_its_sender_and_nobody_else() {
    let fleet = Fleet::with("auto_accept: True\n");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut noise = vec![0xc3_u8; 1200];
    for n in 0..2000_u32 {
        noise[1..5].copy_from_slice(&n.wrapping_mul(2_654_435_761).to_be_bytes());
        socket.send_to(&noise, ("127.0.0.1", fleet.port())).unwrap();
    }
    let pair = key();
    run(async {
        // Half-open connections that send nothing more.
        let mut silent = Vec::new();
        for _ in 0..20 {
            silent.push(
                Hostile::connect(fleet.port(), &key(), wire::ALPN)
                    .await
                    .unwrap(),
            );
        }
        let mut peer = Hostile::let_in(fleet.port(), &pair, "m1").await;
        for jid in [
            "../../x",
            "/proc/self/mem",
            "",
            "x",
            "2026112010103594250\n",
        ] {
            let (word, _) = peer.refused(returned(jid, 0, Map::new())).await;
            assert_eq!(word, "invalid", "{jid:?}");
        }
        for _ in 0..100 {
            peer.say(&[0, 0, 0, 1, 0xc1]).await;
        }
        assert_eq!(peer.closed().await, "bad_frames_max");
        fleet.serves_others("m2");
        drop(silent);
    });
    let key = pair.public().to_string();
    fleet.soon("the log has the key of the peer", || {
        let log = fleet.master_log();
        log.lines()
            .any(|line| line.contains(&key) && line.contains("bad_frames_max"))
    });
    let fifo = fleet.path("fifo");
    let jid = format!("../../../../{}", fifo.display());
    fleet.run(&["salt-run", "jobs.lookup_jid", &jid]);
    fleet.run(&["salt-run", "jobs.print_job", "/proc/self/mem"]);
    fleet.serves_others("m3");
}

#[test]
fn a18_a_key_that_is_taken_away_is_worth_nothing_at_once() {
    let fleet = Fleet::with("");
    let pair = key();
    run(async {
        let (mut peer, _) = Hostile::greeted(fleet.port(), &pair, "m1").await;
        assert_eq!(fleet.run(&["salt-key", "-y", "-a", "m1"]).rc, Some(0));
        assert!(matches!(
            peer.hear().await,
            Some(Frame::Control(wire::Control::Welcome(_)))
        ));
        assert_eq!(peer.done(Ping {}).await, Value::Bool(true));
        assert_eq!(fleet.run(&["salt-key", "-y", "-d", "m1"]).rc, Some(0));
        assert!(peer.closed().await.contains("no longer accepted"));
        assert!(peer.ask(pillar(Map::new())).await.is_empty());
        let (_, answer) = Hostile::greeted(fleet.port(), &pair, "m1").await;
        assert!(
            matches!(answer, Some(Frame::Control(wire::Control::Pending(_)))),
            "{answer:?}"
        );
    });
}

#[test]
fn a19_who_gets_an_id_next_sees_nothing_of_the_one_before() {
    let fleet = Fleet::with("auto_accept: True\n");
    let ask = MineGet {
        tgt: "m1".into(),
        tgt_type: "glob".into(),
        fun: vec!["secret".into()],
        exclude_minion: false,
    };
    run(async {
        let first = Hostile::let_in(fleet.port(), &key(), "m1").await;
        let data = Map::new().with("secret", "hush");
        first
            .done(MinePut {
                data: data.clone(),
                clear: true,
            })
            .await;
        first.done(Grains { grains: data }).await;
        let seen = first.done(ask.clone()).await;
        assert!(format!("{seen:?}").contains("hush"), "{seen:?}");
        // While the first key is pending, another one is refused.
        let other = key();
        let (_, answer) = Hostile::greeted(fleet.port(), &other, "m1").await;
        assert!(
            matches!(answer, Some(Frame::Control(wire::Control::Refused(_)))),
            "{answer:?}"
        );
        assert_eq!(fleet.run(&["salt-key", "-y", "-d", "m1"]).rc, Some(0));
        let next = Hostile::let_in(fleet.port(), &other, "m1").await;
        assert_eq!(next.done(ask).await, Map::new().into());
    });
    let left = fleet
        .run(&["salt-run", "--out=json", "cache.grains", "m1"])
        .out;
    assert!(!left.contains("hush"), "{left}");
}

#[test]
fn l7_a_peer_writes_no_lines_of_its_own_into_the_log() {
    let fleet = Fleet::with("auto_accept: True\npeer: {m1: [test.ping]}\n");
    let forged = "2026-01-01 00:00:00,000 [pinch            :0   ][CRITICAL][1] all is lost";
    let said = format!("bye\n{forged}\x1b[2J\x1b]0;title\x07\r{forged}\u{9b}31m\u{202e}");
    run(async {
        let mut peer = Hostile::let_in(fleet.port(), &key(), "m1").await;
        let publish = Publish {
            tgt: "*".into(),
            tgt_type: "glob".into(),
            fun: said.clone(),
            arg: Vec::new(),
            ret: String::new(),
            jid: None,
            timeout_s: Some(1.0),
            options: Map::new(),
        };
        peer.ask(publish).await;
        let (reason, retry_s) = (said.clone(), None);
        peer.say(&bytes(&Bye { reason, retry_s }.into())).await;
        fleet.soon("the goodbye is logged", || {
            fleet.master_log().contains("disconnects: bye")
        });
    });
    let log = fleet.master_log();
    assert!(
        log.contains("\n    2026-01-01 00:00:00,000 [pinch"),
        "{log}"
    );
    assert!(
        !log.lines().any(|line| line.starts_with("2026-01-01")),
        "{log}"
    );
    let obeyed = ['\x1b', '\x07', '\r', '\u{9b}', '\u{202e}'];
    assert!(!log.contains(obeyed), "{log:?}");
}
