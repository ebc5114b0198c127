//! Faults that a fleet survives: time offline, a bad network, a master that comes back to all at once, a reader that does not read.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use link::pki::Pki;
use link::unix::Pipe;
use link::{Incoming, Limits, Link, Master, Options, PORT, Part, Session, Waits};
use value::{Map, Value};
use wire::{Event, Fire, Listen, Request, Return, Way};

use super::hostile::{asked_locally, hello, key, run};
use super::relay::{Network, Relay};
use super::{Fleet, PATIENCE};

/// A network that loses a tenth of the packets in each direction, delays the others, and changes the
/// port every few seconds.
const BAD: Network = Network {
    loss_percent: 10,
    delay: Duration::from_millis(100),
    jitter: Duration::from_millis(50),
    moves: Some(Duration::from_secs(3)),
};

/// Subscribes to the events with these tags from the beginning of the master's log.
pub(super) fn listening(fleet: &Fleet, tag: &str) -> Pipe {
    let listen = Listen {
        tags: vec![tag.to_owned()],
        from: Some(1),
        since_ms: None,
        until_ms: None,
    };
    let socket = fleet.master_socket();
    let mut pipe = Pipe::connect(&socket, Way::ClientToMaster, Limits::default()).unwrap();
    pipe.ask(listen).unwrap();
    pipe
}

/// Returns the tag and data of the next event.
pub(super) fn heard(pipe: &mut Pipe) -> (String, Value) {
    match pipe.next(Some(PATIENCE)).unwrap() {
        Part::Data(event) => {
            let tag = event.get("tag").unwrap().to_text();
            (tag, event.get("data").unwrap().clone())
        }
        Part::Done(end) => panic!("the events ended: {end:?}"),
    }
}

fn number(data: &Value, name: &str) -> i64 {
    data.get(name).unwrap().to_text().parse().unwrap()
}

fn fire(fleet: &Fleet, tag: &str, data: Map) {
    let socket = fleet.path("m1/run/minion.sock");
    let tag = tag.to_owned();
    asked_locally(&socket, Way::ClientToMinion, Fire { tag, data }).unwrap();
}

/// Returns the answers of all minions to `test.ping`, with a long timeout.
fn pinged(fleet: &Fleet) -> String {
    let words = [
        "salt",
        "-t",
        "60",
        "--out=json",
        "--static",
        "*",
        "test.ping",
    ];
    fleet.run(&words).out
}

#[test]
fn r5_what_happens_offline_comes_once_and_in_order() {
    const EVENTS: i64 = 300;
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.start_minion("m1", "");
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
    fleet.kill_master();
    for n in 0..EVENTS {
        fire(&fleet, "while/away", Map::new().with("n", n));
        if n == EVENTS / 2 {
            fleet.kill_minion("m1");
            let socket = fleet.path("m1/run/minion.sock");
            let _ = fs::remove_file(&socket);
            fleet.start_minion_again("m1");
            fleet.soon("the minion is connected", || socket.exists());
        }
    }
    fleet.start_master();
    let mut pipe = listening(&fleet, "while/*");
    fire(&fleet, "while/back", Map::new());
    for n in 0..EVENTS {
        let (tag, data) = heard(&mut pipe);
        assert_eq!((tag.as_str(), number(&data, "n")), ("while/away", n));
        assert_eq!(data.get("id").and_then(Value::as_str), Some("m1"));
    }
    assert_eq!(heard(&mut pipe).0, "while/back");
}

#[test]
fn r5_what_does_not_fit_is_dropped_oldest_first_and_counted() {
    const EVENTS: i64 = 30;
    let mut fleet = Fleet::with("auto_accept: True\n");
    fleet.start_minion("m1", "");
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "m1", "test.ping"]).rc == Some(0)
    });
    fleet.kill_master();
    // Twice the capacity of a spool.
    let filler = "x".repeat(512 << 10);
    for n in 0..EVENTS {
        let data = Map::new().with("n", n).with("filler", filler.as_str());
        fire(&fleet, "while/away", data);
    }
    let bytes = size(&fleet.path("m1/cache/spool"));
    assert!(bytes < 40 << 20, "the spool has {bytes} bytes");
    fleet.start_master();
    let mut pipe = listening(&fleet, "*");
    fire(&fleet, "while/back", Map::new());
    let (mut came, mut dropped) = (Vec::new(), BTreeMap::new());
    loop {
        let (tag, data) = heard(&mut pipe);
        match tag.as_str() {
            "while/back" => break,
            "while/away" => came.push(number(&data, "n")),
            _ if data.get("dropped").is_some() => {
                dropped.insert(number(&data, "first"), number(&data, "dropped"));
            }
            _ => {}
        }
    }
    let first = came[0];
    assert!(first > 0, "{came:?}");
    assert_eq!(came, (first..EVENTS).collect::<Vec<_>>());
    // The count includes the missing events, and the minion's own event about the loss of its
    // master.
    let dropped: i64 = dropped.values().sum();
    assert!(dropped >= first, "{dropped} of {first}");
}

/// Returns the total size of the files below a folder.
fn size(folder: &std::path::Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        bytes += match path.is_dir() {
            true => size(&path),
            false => path.metadata().map_or(0, |metadata| metadata.len()),
        };
    }
    bytes
}

#[test]
fn r6_a_bad_network_and_changing_addresses_lose_nothing() {
    const IDS: [&str; 3] = ["m1", "m2", "m3"];
    let mut fleet = Fleet::alone("auto_accept: True\ntimeout: 60\ngather_job_timeout: 60\n");
    let marks = fleet.path("marks");
    fs::create_dir_all(&marks).unwrap();
    let mark = |what: &str| {
        format!(
            "{}/{what}-{{{{ grains.id }}}}:\n  file.managed:\n    - contents: {{{{ pillar.word }}}}\n",
            marks.display()
        )
    };
    fleet.write("pillar/top.sls", "base:\n  '*':\n    - word\n");
    fleet.write("pillar/word.sls", "word: here\n");
    fleet.write("salt/top.sls", "base:\n  '*':\n    - high\n");
    fleet.write("salt/high.sls", &mark("high"));
    fleet.write("salt/step.sls", &mark("step"));
    fleet.write(
        "salt/orch.sls",
        "all of them:\n  salt.state:\n    - tgt: '*'\n    - sls: step\n    - timeout: 120\n",
    );
    let relay = Relay::to(fleet.port(), BAD);
    let own = std::mem::replace(&mut fleet.port, relay.port);
    for id in IDS {
        fleet.start_minion(id, "");
    }
    fleet.port = own;
    let connected = || {
        let up = fleet.run(&["salt-run", "--out=json", "manage.present"]).out;
        IDS.iter().all(|id| up.contains(id))
    };
    fleet.soon("all minions are connected", connected);
    let started = connections(&fleet);
    let done = |what: &str| {
        let is_there = |id| {
            let read = fs::read_to_string(marks.join(format!("{what}-{id}")));
            read.is_ok_and(|text| text.trim() == "here")
        };
        IDS.iter().all(is_there)
    };
    fleet.run(&[
        "salt",
        "-t",
        "120",
        "--out=json",
        "--static",
        "*",
        "state.highstate",
    ]);
    fleet.soon("the highstate is applied by all", || done("high"));
    // If the machine pauses for longer than a connection lasts, a step is lost and reported as
    // lost. The test then runs it again.
    let done_at = (1..=3).find(|_| {
        fleet.run(&["salt-run", "--out=json", "state.orchestrate", "orch"]);
        done("step")
    });
    let asked = done_at.unwrap_or_else(|| panic!("no step succeeded\n{}", fleet.logs()));
    for (fun, times) in [("state.highstate", 1), ("state.sls", asked)] {
        fleet.soon(&format!("all minions have returned {fun}"), || {
            (IDS.len()..=times * IDS.len()).contains(&returned(&fleet, fun))
        });
    }
    assert!(relay.lost.load(Ordering::Relaxed) > 0);
    let moved = || relay.moved.load(Ordering::Relaxed);
    let before = moved();
    fleet.soon("their addresses change again", || moved() > before + 1);
    fleet.soon("all minions answer after that", || {
        let answer = pinged(&fleet);
        IDS.iter()
            .all(|id| answer.contains(&format!("\"{id}\": true")))
    });
    // A changed address keeps the connection, unless the machine pauses for longer than a
    // connection lasts.
    let again = connections(&fleet) - started;
    assert!(again < moved() * IDS.len(), "{again} new connections");
}

/// Returns the number of connections of minions so far.
fn connections(fleet: &Fleet) -> usize {
    fleet.master_log().matches("is connected").count()
}

/// Returns the number of successful returns of the jobs with this function.
fn returned(fleet: &Fleet, fun: &str) -> usize {
    let found = fleet
        .run(&[
            "salt-run",
            "--out=json",
            "jobs.list_jobs",
            &format!("search_function={fun}"),
        ])
        .out;
    let jobs: serde_json::Value = serde_json::from_str(&found).unwrap_or_default();
    let jids = jobs.as_object().into_iter().flat_map(|jobs| jobs.keys());
    jids.map(|jid| succeeded(fleet, jid)).sum()
}

/// Returns the number of minions that have returned from a job without a failure.
fn succeeded(fleet: &Fleet, jid: &str) -> usize {
    let job = fleet
        .run(&["salt-run", "--out=json", "jobs.list_job", jid])
        .out;
    let job: serde_json::Value = serde_json::from_str(&job).unwrap_or_default();
    let result = job["Result"].as_object().cloned().unwrap_or_default();
    result
        .values()
        .filter(|answer| answer["success"] == true)
        .count()
}

/// Returns a session for a minion that has no program.
fn session(fleet: &Fleet, id: &str) -> Session {
    let ms = Duration::from_millis;
    Session::new(Options {
        masters: vec![Master::parse(&format!("127.0.0.1:{}", fleet.port()), PORT)],
        random: false,
        source: None,
        pair: key(),
        pki: Pki::open(&fleet.path(&format!("pki/{id}"))).unwrap(),
        fingers: Vec::new(),
        hello: hello(id),
        limits: Limits::default(),
        waits: Waits {
            recon_default: ms(100),
            recon_max: ms(1000),
            recon_randomize: true,
            random_reauth_delay: ms(1000),
            ..Waits::default()
        },
    })
}

/// Answers every job with `True`.
async fn answer(mut link: Link) {
    let handle = link.handle();
    while let Ok(incoming) = link.next().await {
        let Incoming::Question(question) = incoming else {
            continue;
        };
        let Request::Job(job) = question.request.clone() else {
            let _ = question.done(Value::Null).await;
            continue;
        };
        let _ = question.done(Value::Null).await;
        let data = Map::new()
            .with("fun", job.fun)
            .with("return", true)
            .with("retcode", 0)
            .with("success", true);
        let (sequence, stamp) = (0, String::new());
        let answer = Return {
            sequence,
            jid: job.jid,
            stamp,
            data,
        };
        if let Ok(asked) = handle.ask(answer).await {
            let _ = asked.done().await;
        }
    }
}

#[test]
fn r10_all_come_back_to_a_master_that_is_started_again() {
    const MINIONS: usize = 200;
    let mut fleet = Fleet::alone("auto_accept: True\ntimeout: 60\ngather_job_timeout: 60\n");
    let connected = Arc::new(AtomicUsize::new(0));
    let minions: Vec<_> = (0..MINIONS)
        .map(|n| {
            let mut session = session(&fleet, &format!("m{n}"));
            let connected = connected.clone();
            smol::spawn(async move {
                loop {
                    let (link, _) = session.connect(&mut |_| ()).await;
                    connected.fetch_add(1, Ordering::Relaxed);
                    answer(link).await;
                    connected.fetch_sub(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let all = |fleet: &Fleet| {
        fleet.soon("all minions are connected", || {
            connected.load(Ordering::Relaxed) == MINIONS
        });
        fleet.soon("all minions answer", || {
            let answer = pinged(fleet);
            answer.matches(": true").count() == MINIONS
        });
    };
    all(&fleet);
    fleet.kill_master();
    fleet.soon("the master notices the loss", || {
        connected.load(Ordering::Relaxed) == 0
    });
    fleet.start_master();
    all(&fleet);
    drop(minions);
}

/// Returns the resident memory of a process, in KiB.
fn resident_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}

#[test]
fn r12_who_does_not_read_holds_up_nobody_and_costs_no_memory() {
    /// Events of a round, and the bytes of each.
    const EVENTS: u64 = 2000;
    const FILLER: usize = 8 << 10;
    const ROUNDS: u64 = 3;
    let fleet = Fleet::alone("auto_accept: True\n");
    let master = fleet.master.as_ref().unwrap().0.id();
    // These clients subscribe to all events, and read none.
    let stalled: Vec<Pipe> = (0..4).map(|_| listening(&fleet, "*")).collect();
    let mut reader = listening(&fleet, "flood/*");
    let mut session = session(&fleet, "m1");
    let mut link = run(async { session.connect(&mut |_| ()).await.0 });
    let handle = link.handle();
    let reads = smol::spawn(async move { while link.next().await.is_ok() {} });
    let filler = "x".repeat(FILLER);
    let mut sequence = 0;
    let mut after_first = 0;
    for round in 0..ROUNDS {
        let first = sequence;
        run(async {
            for _ in 0..EVENTS {
                sequence += 1;
                let data = Map::new()
                    .with("n", sequence)
                    .with("filler", filler.as_str());
                let (tag, stamp) = ("flood/x".to_owned(), String::new());
                handle
                    .event(Event {
                        sequence,
                        tag,
                        stamp,
                        data,
                    })
                    .await
                    .unwrap();
            }
        });
        for n in first + 1..=sequence {
            assert_eq!(
                number(&heard(&mut reader).1, "n"),
                i64::try_from(n).unwrap()
            );
        }
        if round == 0 {
            after_first = resident_kib(master);
        }
    }
    // The volume of events after the first round is the limit for the growth of memory.
    let through = (ROUNDS - 1) * EVENTS * FILLER as u64 / 1024;
    let grown = resident_kib(master).saturating_sub(after_first);
    assert!(grown < through, "{grown} KiB of {through}");
    assert_eq!(fleet.run(&["salt-key", "-L"]).rc, Some(0));
    drop((stalled, reads));
}
