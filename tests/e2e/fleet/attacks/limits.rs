//! Attacks on the limits that are shared among peers, and on the protection against squatters: no
//! peer can lock out another.

use std::time::{Duration, Instant};

use link::KeyPair;
use smol::Timer;
use value::Map;
use wire::{Control, Event, Fire, Frame, Hello, Return, Secret};

use crate::fleet::Fleet;
use crate::fleet::hostile::{Hostile, bytes, hello, key, run};

fn with_token(id: &str, token: &str) -> Hello {
    Hello {
        token: Some(Secret::new(token)),
        ..hello(id)
    }
}

fn is_pending(answer: &Option<Frame>) -> bool {
    matches!(answer, Some(Frame::Control(Control::Pending(_))))
}

fn is_welcome(answer: &Option<Frame>) -> bool {
    matches!(answer, Some(Frame::Control(Control::Welcome(_))))
}

fn rejection(answer: &Option<Frame>) -> &str {
    match answer {
        Some(Frame::Control(Control::Refused(refused))) => &refused.reason,
        _ => "",
    }
}

fn ids(fleet: &Fleet, kind: &str) -> Vec<String> {
    let listed = fleet.run(&["salt-key", "-l", kind]).out;
    listed.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn m4_a_token_beats_a_squatter_whose_key_waits_or_was_rejected() {
    let fleet = Fleet::with("");
    let token = fleet.token(&["id=web-*", "uses=9"]);
    run(async {
        let (squatter, answer) = Hostile::greeted(fleet.port(), &key(), "web-200").await;
        assert!(is_pending(&answer), "{answer:?}");
        let true_key = key();
        let port = fleet.port();
        let welcomed = |id: &'static str, pair: KeyPair| {
            let hello = with_token(id, &token);
            async move { Hostile::greeted_from(3, port, &pair, hello).await }
        };
        let (_web, answer) = welcomed("web-200", true_key).await;
        assert!(is_welcome(&answer), "{answer:?}");
        squatter.closed().await;
        // Another key with proof does not replace the accepted one.
        let (_thief, answer) = welcomed("web-200", key()).await;
        assert_eq!(rejection(&answer), "denied");

        let pair = key();
        let (_squatter, answer) = Hostile::greeted(fleet.port(), &pair, "web-201").await;
        assert!(is_pending(&answer), "{answer:?}");
        assert_eq!(fleet.run(&["salt-key", "-y", "-r", "web-201"]).rc, Some(0));
        let (_web, answer) = welcomed("web-201", key()).await;
        assert!(is_welcome(&answer), "{answer:?}");
        let (_squatter, answer) = Hostile::greeted(fleet.port(), &pair, "web-201").await;
        assert_eq!(rejection(&answer), "denied");
    });
    assert_eq!(ids(&fleet, "acc"), ["web-200", "web-201"]);
}

#[test]
fn m4_deleting_a_waiting_key_closes_its_connection() {
    let fleet = Fleet::with("");
    run(async {
        let (mut squatter, answer) = Hostile::greeted(fleet.port(), &key(), "zomb").await;
        assert!(is_pending(&answer), "{answer:?}");
        assert_eq!(fleet.run(&["salt-key", "-y", "-d", "zomb"]).rc, Some(0));
        assert_eq!(rejection(&squatter.hear().await), "rejected");
        assert!(ids(&fleet, "un").is_empty());
        let (_web, answer) = Hostile::greeted(fleet.port(), &key(), "zomb").await;
        assert!(is_pending(&answer), "{answer:?}");
    });
}

#[test]
fn m5_waiting_keys_of_one_address_keep_no_newcomer_of_another_out() {
    let fleet = Fleet::with("pending_keys_max: 5\npending_keys_per_address: 3\n");
    run(async {
        let mut held = Vec::new();
        let mut full = 0;
        for last in 2..5 {
            for number in 0..4 {
                let id = format!("junk{last}{number}");
                let junk = Hostile::greeted_from(last, fleet.port(), &key(), hello(&id)).await;
                full += u32::from(rejection(&junk.1) == "full");
                held.push(junk);
            }
        }
        assert!(full >= 3, "{full}");
        let (_new, answer) = Hostile::greeted_from(9, fleet.port(), &key(), hello("new")).await;
        assert!(is_pending(&answer), "{answer:?}");
        let waiting = ids(&fleet, "un");
        assert!(
            waiting.len() <= 5 && waiting.contains(&"new".to_owned()),
            "{waiting:?}"
        );
    });
    fleet.soon_logged("(pending_keys_per_address)");
}

#[test]
fn m5_a_waiting_key_expires_when_its_host_is_gone() {
    let fleet = Fleet::with("pending_keys_expire_seconds: 1\nloop_interval: 1\n");
    run(async {
        let (_here, answer) = Hostile::greeted(fleet.port(), &key(), "here").await;
        assert!(is_pending(&answer), "{answer:?}");
        let (gone, answer) = Hostile::greeted(fleet.port(), &key(), "gone").await;
        assert!(is_pending(&answer), "{answer:?}");
        gone.connection.close(0_u32.into(), b"");
        fleet.soon("the pending key expires", || ids(&fleet, "un") == ["here"]);
    });
    fleet.soon_logged("(pending_keys_expire_seconds)");
}

fn returned(jid: &str, bytes: usize) -> Return {
    Return {
        sequence: 0,
        jid: jid.to_owned(),
        stamp: "2026-11-20T10:10:35.942505".into(),
        data: Map::new()
            .with("fun", "test.ping")
            .with("return", "x".repeat(bytes)),
    }
}

#[test]
fn m2_a_flood_of_one_minion_drops_its_own_events_and_returns() {
    let config = "auto_accept: True\nkeep_events_bytes: 2000000\nkeep_jobs_bytes: 2000000\n";
    let fleet = Fleet::with(config);
    let jid = |number: usize| format!("20261120101035{number:06}");
    run(async {
        let m1 = Hostile::let_in(fleet.port(), &key(), "m1").await;
        let evil = Hostile::let_in(fleet.port(), &key(), "evil").await;
        let fire = |tag: String, bytes: usize| Fire {
            tag,
            data: Map::new().with("x", "x".repeat(bytes)),
        };
        for number in 0..10 {
            m1.done(fire(format!("of/m1/{number}"), 10)).await;
            m1.done(returned(&jid(number), 10)).await;
        }
        for number in 0..40 {
            evil.done(fire(format!("of/evil/{number}"), 200_000)).await;
            evil.done(returned(&jid(1000 + number), 200_000)).await;
        }
    });
    let lists = |number: usize| {
        let kept = fleet.run(&["salt-run", "--out=json", "jobs.lookup_jid", &jid(number)]);
        kept.out.contains("xxx")
    };
    fleet.soon("the oldest return of the flood is deleted", || !lists(1000));
    assert!(lists(1039));
    assert!((0..10).all(lists));
    let first = |tags: &str, count: &str| {
        let words = ["salt-run", "state.event", tags, count, "from=1"];
        fleet.run(&words).out
    };
    fleet.soon("the oldest event of the flood is deleted", || {
        !first("of/evil/*", "1").contains("of/evil/0\t")
    });
    let kept = first("of/m1/*", "10");
    assert!(
        (0..10).all(|number| kept.contains(&format!("of/m1/{number}"))),
        "{kept}"
    );
}

#[test]
fn m2_a_job_that_reaches_nobody_keeps_no_arguments() {
    let fleet = Fleet::with("timeout: 1\n");
    fleet.run(&["salt", "nobody-*", "test.arg", "a-long-argument"]);
    let jobs = fleet.run(&["salt-run", "--out=json", "jobs.list_jobs"]).out;
    assert!(jobs.contains("test.arg"), "{jobs}");
    assert!(!jobs.contains("a-long-argument"), "{jobs}");
}

fn answers(fleet: &Fleet) -> bool {
    let answer = fleet.run(&["salt", "-t", "1", "m1", "test.ping"]).out;
    answer.contains("True")
}

/// Opens streams that announce a frame of the maximum size, and send only a little of it.
pub(crate) async fn announce(evil: &Hostile, streams: usize) -> Vec<quinn::SendStream> {
    let mut open = Vec::new();
    for _ in 0..streams {
        let Ok((mut send, _receive)) = evil.connection.open_bi().await else {
            break;
        };
        let _ = send.write_all(&16_777_215_u32.to_be_bytes()).await;
        let _ = send.write_all(&[0; 1000]).await;
        open.push(send);
    }
    open
}

#[test]
fn h4_a_minion_that_announces_large_frames_holds_nobody_up() {
    let mut fleet = Fleet::with("auto_accept: True\ntimeout: 20\n");
    fleet.start_minion("m1", "");
    fleet.soon("m1 answers", || answers(&fleet));
    run(async {
        let evil = Hostile::let_in(fleet.port(), &key(), "evil").await;
        let _streams = announce(&evil, 4).await;
        Timer::after(Duration::from_millis(300)).await;
        let began = Instant::now();
        let large = "head -c 150000 /dev/zero | tr '\\0' a";
        let answer = fleet.run(&["salt", "m1", "cmd.run", large]).out;
        assert!(answer.len() > 150_000, "{} bytes", answer.len());
        assert!(
            began.elapsed() < Duration::from_secs(15),
            "{:?}",
            began.elapsed()
        );
        assert!(fleet.run(&["salt", "m1", "test.ping"]).out.contains("True"));
    });
}

#[test]
fn m7_silent_handshakes_of_one_host_keep_no_minion_out() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.start_minion("m1", "");
    fleet.soon("m1 answers", || answers(&fleet));
    run(async {
        let mut held = Vec::new();
        let connecting: Vec<_> = (0..200)
            .map(|_| {
                let port = fleet.port();
                smol::spawn(async move { Hostile::connect_from(2, port, &key(), wire::ALPN).await })
            })
            .collect();
        Timer::after(Duration::from_secs(3)).await;
        fleet.kill_minion("m1");
        let began = Instant::now();
        fleet.start_minion_again("m1");
        fleet.soon("m1 is back", || answers(&fleet));
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{:?}",
            began.elapsed()
        );
        fleet.serves_others("new");
        for one in connecting {
            held.extend(one.await.ok());
        }
    });
    assert!(fleet.master_log().contains("(handshakes_per_address)"));
}

#[test]
fn limits_that_are_hit_are_logged_once_for_each_peer_and_minute() {
    let fleet = Fleet::with("");
    run(async {
        let many = (0..60).map(|_| {
            let port = fleet.port();
            smol::spawn(async move { Hostile::connect_from(2, port, &key(), wire::ALPN).await })
        });
        let many: Vec<_> = many.collect();
        fleet.soon_logged("(handshakes_per_address)");
        Timer::after(Duration::from_secs(3)).await;
        drop(many);
    });
    let log = fleet.master_log();
    let lines = log
        .lines()
        .filter(|line| line.contains("(handshakes_per_address)"));
    assert_eq!(lines.count(), 1, "{log}");
}

#[test]
fn an_event_in_the_middle_of_a_flood_is_acked() {
    let fleet = Fleet::with("auto_accept: True\nkeep_events_bytes: 300000\n");
    run(async {
        let mut evil = Hostile::let_in(fleet.port(), &key(), "evil").await;
        for sequence in 1..=50 {
            let event = Event {
                sequence,
                tag: "of/evil".into(),
                stamp: String::new(),
                data: Map::new().with("x", "x".repeat(50_000)),
            };
            evil.say(&bytes(&event.into())).await;
        }
        while let Some(frame) = evil.hear().await {
            if matches!(frame, Frame::Control(Control::Ack(ack)) if ack.sequence == 50) {
                return;
            }
        }
        panic!("the event was not acknowledged");
    });
}
