//! Attacks by events and targets, and by minions that publish to others.

use value::Map;
use wire::{Control, Event, Fire, Frame, Listen, Publish, Runner};

use crate::fleet::Fleet;
use crate::fleet::hostile::{Hostile, bytes, key, run};

const JID: &str = "20261120101035942505";

#[test]
fn a12_a_minion_fires_no_events_of_the_master_or_of_another() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    let pair = key();
    let tags = [
        "salt/auth".to_owned(),
        "salt/key".to_owned(),
        "salt/cloud/x/created".to_owned(),
        "salt/presence/change".to_owned(),
        "salt/minion/m2/start".to_owned(),
        "minion/refresh/m2".to_owned(),
        "pinch/refused/m2".to_owned(),
        "pinch/spool/gap/m2".to_owned(),
        "salt/beacon/m2/load/".to_owned(),
        format!("salt/job/{JID}/new"),
        format!("salt/job/{JID}/publish"),
        format!("salt/job/{JID}/ret/m2"),
        format!("salt/run/{JID}/new"),
        format!("salt/wheel/{JID}/ret"),
    ];
    run(async {
        let mut peer = Hostile::let_in(fleet.port(), &pair, "m1").await;
        let mut last = 0;
        for tag in tags
            .iter()
            .chain(["salt/beacon/m1/load/".to_owned()].iter())
        {
            last += 1;
            let event = Event {
                sequence: last,
                tag: tag.clone(),
                stamp: String::new(),
                data: Map::new().with("forged", true),
            };
            peer.say(&bytes(&event.into())).await;
        }
        loop {
            match peer.hear().await {
                Some(Frame::Control(Control::Ack(ack))) if ack.sequence == last => break,
                Some(_) => {}
                None => panic!("the event was not acknowledged"),
            }
        }
        for tag in tags.iter().cloned() {
            let data = Map::new().with("forged", true);
            assert_eq!(peer.refused(Fire { tag, data }).await.0, "refused");
        }
    });
    let log = fleet.master_log();
    let key = pair.public().to_string();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(&key)).collect();
    let refused: Vec<&&str> = lines
        .iter()
        .filter(|line| line.contains("the minion m1 may not send the event tag"))
        .collect();
    // Only the first one within a minute is logged.
    assert!(
        matches!(refused[..], [line] if line.contains(&tags[0])),
        "{log}"
    );
    // The event log contains only the event that the minion may send.
    let forged = past(&mut fleet);
    assert_eq!(forged, ["salt/beacon/m1/load/"]);
}

#[test]
fn l1_a_minion_tells_of_no_job_that_was_not_given_to_it() {
    let mut fleet = Fleet::with("auto_accept: True\ntimeout: 1\n");
    run(async {
        let m1 = Hostile::let_in(fleet.port(), &key(), "m1").await;
        let m2 = Hostile::let_in(fleet.port(), &key(), "m2").await;
        let sent = fleet.run(&["salt", "--async", "--out=json", "m2", "test.ping"]);
        let jid: String = sent.out.chars().filter(char::is_ascii_digit).collect();
        let forged = || Map::new().with("forged", true);
        for kind in ["ret", "prog", "start", "sub"] {
            let tag = |id: &str| format!("salt/job/{jid}/{kind}/{id}");
            let data = forged();
            assert_eq!(
                m1.refused(Fire {
                    tag: tag("m1"),
                    data
                })
                .await
                .0,
                "refused"
            );
        }
        let data = forged();
        let tag = format!("salt/state_result/{jid}/m1/x");
        assert_eq!(m1.refused(Fire { tag, data }).await.0, "refused");
        // A minion may report on a job that it has, and on a job that it started itself.
        let tag = format!("salt/job/{jid}/prog/m2/0");
        m2.done(Fire {
            tag,
            data: Map::new(),
        })
        .await;
        let tag = format!("salt/job/{JID}/prog/m1/0");
        m1.done(Fire {
            tag,
            data: Map::new(),
        })
        .await;

        // The name of a failed state becomes part of a tag only if it is that of a function.
        let failed = Map::new().with("result", false).with("forged", true);
        let ret = Map::new()
            .with("salt/minion/db_|-a_|-b_|-example/start", failed.clone())
            .with("minion/refresh/db_|-a_|-b_|-example", failed.clone())
            .with("test_|-a_|-b_|-nop", failed);
        let data = Map::new()
            .with("fun", "state.sls")
            .with("retcode", 2)
            .with("return", ret);
        m1.done(wire::Return {
            sequence: 0,
            jid: JID.into(),
            stamp: "2026-11-20T10:10:35.942505".into(),
            data,
        })
        .await;
    });
    let sub = format!("salt/job/{JID}/sub/m1/error/state.sls");
    assert_eq!(past(&mut fleet), ["test.nop".to_owned(), sub]);
}

/// Returns the tags of the events with forged data.
fn past(fleet: &mut Fleet) -> Vec<String> {
    let listen = Listen {
        tags: Vec::new(),
        from: Some(1),
        since_ms: None,
        until_ms: None,
    };
    let way = wire::Way::ClientToMaster;
    let mut pipe =
        link::unix::Pipe::connect(&fleet.master_socket(), way, link::Limits::default()).unwrap();
    pipe.ask(listen).unwrap();
    let fired = fleet.run(&["salt-run", "event.send", "the/end"]);
    assert_eq!(fired.rc, Some(0));
    let mut tags = Vec::new();
    loop {
        let part = pipe.next(Some(crate::fleet::PATIENCE)).unwrap();
        let link::Part::Data(event) = part else {
            panic!("{part:?}")
        };
        let tag = event.get("tag").unwrap().to_text();
        if tag == "the/end" {
            return tags;
        }
        let data = event.get("data").unwrap();
        if data.get("forged").is_some() {
            tags.push(tag);
        }
    }
}

#[test]
fn a17_a_target_of_nobody_is_nobody() {
    let fleet = Fleet::with("auto_accept: True\npeer:\n  m2:\n    - test.ping\n");
    run(async {
        let m1 = Hostile::let_in(fleet.port(), &key(), "m1").await;
        let m2 = Hostile::let_in(fleet.port(), &key(), "m2").await;
        let ask = |tgt: &str, fun: &str| Publish {
            tgt: tgt.into(),
            tgt_type: "glob".into(),
            fun: fun.into(),
            arg: Vec::new(),
            ret: String::new(),
            jid: Some(JID.into()),
            timeout_s: Some(1.0),
            options: Map::new(),
        };
        // A minion without permission is refused even if the target matches no minion.
        for (tgt, fun) in [
            ("*", "test.ping"),
            ("nobody", "test.ping"),
            ("", "test.ping"),
        ] {
            assert_eq!(m1.refused(ask(tgt, fun)).await.0, "refused", "{tgt:?}");
        }
        for fun in ["cmd.run", "test.ping,cmd.run", "test.pings", "", "."] {
            assert_eq!(m2.refused(ask("*", fun)).await.0, "refused", "{fun:?}");
        }
        let runner = Runner {
            fun: "salt.cmd".into(),
            arg: vec!["cmd.run".into(), "id".into()],
            jid: None,
            asynchronous: false,
            watched: false,
        };
        assert_eq!(m2.refused(runner).await.0, "refused");
    });
    for tgt in ["nobody*", ""] {
        let answer = fleet.run(&["salt", tgt, "test.ping"]);
        assert!(
            answer.out.contains("No minions matched the target") || answer.rc != Some(0),
            "{tgt:?}: {}",
            answer.out
        );
    }
    let jobs = fleet.run(&["salt-run", "--out=json", "jobs.list_jobs"]).out;
    assert!(!jobs.contains("cmd.run") && !jobs.contains(JID), "{jobs}");
}
