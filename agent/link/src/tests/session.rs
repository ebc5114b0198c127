use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use value::Value;
use wire::{Pillar, Ping, Running};

#[test]
fn a_pending_key_is_accepted_on_the_same_connection() {
    run(async {
        let world = World::with(strict());
        let mut session = Session::new(world.options("m1"));
        let told = Arc::new(Mutex::new(Vec::new()));
        let tells = told.clone();
        let minion = smol::spawn(async move {
            let mut tell = |status: Status<'_>| tells.lock().unwrap().push(format!("{status:?}"));
            session.connect(&mut tell).await
        });
        let mut peer = world.listener.next().await.unwrap();
        assert_eq!(peer.hello().id.as_str(), "m1");
        peer.pend("nobody has looked yet").await.unwrap();
        assert_eq!(
            (world.listener.connections(), world.listener.pending()),
            (1, 1)
        );
        // The peer outlasts the deadlines of hello and frame.
        Timer::after(STRICT + ms(500)).await;
        let (address, key) = (peer.address(), peer.key());
        let mut master = peer.accept(welcome()).await.unwrap();
        assert_eq!(
            (world.listener.connections(), world.listener.pending()),
            (1, 0)
        );
        let (link, welcomed) = minion.await;
        assert_eq!((welcomed.version, welcomed.durable), (1, 7));
        assert_eq!(welcomed.bound.get("role"), Some(&Value::from("web")));
        assert_eq!(master.who().key, Some(key));
        link.handle().event(event(8)).await.unwrap();
        let Ok(Incoming::Event(got)) = master.next().await else {
            panic!("no event")
        };
        assert_eq!(got, event(8));
        assert_eq!(master.who().address, Some(address));
        let told = told.lock().unwrap().join("\n");
        for word in ["Trying", "Remembered", "Pending", "nobody has looked yet"] {
            assert!(told.contains(word), "{told}");
        }
    });
}

/// Runs a master's end that acknowledges events, answers `pillar`, has no options and leaves every
/// other request unanswered. Returns the number of acknowledged events.
async fn serve(mut master: Link) -> u64 {
    let mut acked = 0;
    loop {
        match master.next().await {
            Ok(Incoming::Event(event)) => {
                acked += 1;
                assert_eq!(event.sequence, acked);
                master.handle().ack(acked).await.unwrap();
            }
            Ok(Incoming::Question(mut question)) => match &question.request {
                wire::Request::Pillar(_) => {
                    question.data("one").await.unwrap();
                    question.done(Map::new().with("a", 1)).await.unwrap();
                }
                wire::Request::Options(_) => question.fail("missing", "no").await.unwrap(),
                _ => {}
            },
            Ok(_) => {}
            Err(_) => return acked,
        }
    }
}

#[test]
fn events_are_acked_in_order() {
    run(async {
        let world = World::new();
        let (mut minion, master) = world.connected("m1").await;
        let masters = smol::spawn(serve(master));
        let handle = minion.handle();
        let sender = smol::spawn(async move {
            for sequence in 1..=500 {
                handle.event(event(sequence)).await.unwrap();
            }
            handle
        });
        for sequence in 1..=500 {
            assert!(matches!(minion.next().await, Ok(Incoming::Ack(acked)) if acked == sequence));
        }
        sender.await.close("enough");
        assert_eq!(masters.await, 500);
    });
}

#[test]
fn a_minion_asks_and_is_answered() {
    run(async {
        let world = World::new();
        let (minion, master) = world.connected("m1").await;
        smol::spawn(serve(master)).detach();
        let handle = minion.handle();
        let pillar = Pillar {
            saltenv: None,
            pillarenv: None,
            grains: Map::new(),
            pillar_override: Map::new(),
            secrets: false,
        };
        let mut asked = handle.ask(pillar).await.unwrap();
        assert_eq!(asked.next().await.unwrap(), Part::Data("one".into()));
        assert_eq!(
            asked.next().await.unwrap(),
            Part::Done(Map::new().with("a", 1).into())
        );
        let error = handle
            .ask(wire::Options {})
            .await
            .unwrap()
            .done()
            .await
            .unwrap_err();
        assert!(
            matches!(&error, Error::Failed { reason, .. } if reason == "missing"),
            "{error}"
        );
        // A dropped question is an error, not an empty answer.
        let error = handle.ask(Ping {}).await.unwrap().done().await.unwrap_err();
        assert!(matches!(error, Error::Unanswered { .. }), "{error}");
        // A frame that this side may not send is not sent.
        let wheel = wire::Wheel {
            fun: "key.accept".into(),
            arg: Vec::new(),
        };
        let error = handle.ask(wheel).await;
        assert!(matches!(error, Err(Error::NotAllowed { .. })), "{error:?}");
    });
}

#[test]
fn a_master_asks_and_is_answered() {
    run(async {
        let world = World::new();
        let (mut minion, master) = world.connected("m1").await;
        let handle = master.handle();
        let asked = smol::spawn(async move { handle.ask(Running {}).await.unwrap().done().await });
        let Ok(Incoming::Question(question)) = minion.next().await else {
            panic!("no question")
        };
        question.done(vec![1]).await.unwrap();
        assert_eq!(asked.await.unwrap(), Value::from(vec![1]));
    });
}

#[test]
fn a_large_answer_and_a_large_event() {
    run(async {
        let world = World::new();
        let (minion, mut master) = world.connected("m1").await;
        let big = Value::from("x".repeat(5 << 20));
        let answer = big.clone();
        let masters = smol::spawn(async move {
            let Ok(Incoming::Question(question)) = master.next().await else {
                panic!("no question")
            };
            question.done(answer).await.unwrap();
            master.next().await
        });
        let got = minion
            .handle()
            .ask(wire::Options {})
            .await
            .unwrap()
            .done()
            .await
            .unwrap();
        assert!(got == big);
        let large = Event {
            data: Map::new().with("big", "x".repeat(900_000)),
            ..event(1)
        };
        minion.handle().event(large.clone()).await.unwrap();
        assert!(matches!(masters.await, Ok(Incoming::Event(event)) if event == large));
        let larger = Event {
            data: Map::new().with("big", big),
            ..event(1)
        };
        let error = minion.handle().event(larger).await.unwrap_err();
        assert!(
            matches!(
                error,
                Error::Frame {
                    source: wire::Error::TooLong { .. },
                    ..
                }
            ),
            "{error}"
        );
    });
}

/// Returns the messages of a session until it has failed `count` times.
async fn failures(options: Options, count: usize) -> Vec<String> {
    let mut session = Session::new(options);
    let mut failed = Vec::new();
    let (sender, receiver) = smol::channel::unbounded();
    let task = smol::spawn(async move {
        let mut tell = |status: Status<'_>| {
            if let Status::Failed(error) = status {
                let _ = sender.try_send(error.to_string());
            }
        };
        session.connect(&mut tell).await
    });
    while failed.len() < count {
        failed.push(receiver.recv().await.unwrap());
    }
    task.cancel().await;
    failed
}

#[test]
fn another_master_key_is_refused_with_both_fingerprints() {
    run(async {
        let world = World::new();
        let right = KeyPair::generate().unwrap().public().finger();
        let is = world.master.public().finger();
        let options = Options {
            fingers: vec![right.clone()],
            ..world.options("m1")
        };
        let error = failures(options, 1).await.remove(0);
        assert!(
            error.contains(&right) && error.contains(&is) && error.contains("master_finger"),
            "{error}"
        );
        let options = world.options("m2");
        let other = KeyPair::generate().unwrap();
        options.pki.remember(REMEMBERED, &other.public()).unwrap();
        let error = failures(options, 1).await.remove(0);
        let file = "m2/minion_master.pub";
        assert!(
            error.contains(&other.public().finger()) && error.contains(&is) && error.contains(file),
            "{error}"
        );
        soon(|| world.listener.connections() == 0).await;
        // The right fingerprint is accepted in capitals too, as people may paste it.
        let options = Options {
            fingers: vec![is.to_uppercase()],
            ..world.options("m3")
        };
        let mut session = Session::new(options);
        let minion = smol::spawn(async move { session.connect(&mut |_| ()).await });
        let_in(&world.listener, minion).await;
    });
}

const ADDRESS: &str = "LINK_TEST_MASTER";

/// The master that a test kills. Its address and key are in the environment.
#[test]
#[ignore = "started by the tests that kill a master"]
#[expect(clippy::disallowed_methods, reason = "a test's own file")]
fn a_master() {
    let Ok(address) = std::env::var(ADDRESS) else {
        return;
    };
    let (address, rest) = address.split_once(' ').unwrap();
    let (file, pem) = rest.split_once(' ').unwrap();
    let pair = KeyPair::from_pem(pem.as_bytes()).unwrap();
    let listener = Listener::bind(address.parse().unwrap(), &pair, patient()).unwrap();
    let ever = async {
        soon(|| !listener.addresses().is_empty()).await;
        std::fs::write(file, listener.addresses()[0].to_string()).unwrap();
        smol::future::pending::<()>().await;
    };
    run(let_in(&listener, ever));
}

/// A master in another process, which can be killed.
pub(super) struct Mortal {
    pub(super) key: KeyPair,
    pub(super) address: SocketAddr,
    child: std::process::Child,
    file: std::path::PathBuf,
}

impl Mortal {
    pub(super) fn new(world: &World) -> Self {
        let file = world.folder.path().join("address");
        let key = KeyPair::generate().unwrap();
        let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "tests::session::a_master"])
            .env(
                ADDRESS,
                format!("{address} {} {}", file.display(), key.pem()),
            )
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        Self {
            key,
            address,
            child,
            file,
        }
    }

    /// Kills the master when it has a minion, and returns the minion's address.
    pub(super) async fn kill(&mut self) -> SocketAddr {
        let read = || std::fs::read_to_string(&self.file).ok()?.parse().ok();
        soon(|| read().is_some()).await;
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        read().unwrap()
    }
}

#[test]
fn a_master_that_was_killed_is_found_again_when_it_recalls_its_minions() {
    run(async {
        let world = World::new();
        let mut mortal = Mortal::new(&world);
        let (address, master) = (mortal.address, mortal.key.clone());
        let mut options = world.options("m1");
        options.masters = vec![Master::parse(&address.to_string(), PORT)];
        // The loss must be reported by the new master, not detected by silence or by the minion's
        // next packet.
        options.limits.idle = ms(600_000);
        options.limits.keep_alive = ms(600_000);
        options.limits.handshake = ms(300);
        let mut session = Session::new(options);
        let (sender, receiver) = smol::channel::unbounded();
        smol::spawn(async move {
            loop {
                let (mut link, _) = session.connect(&mut |_| ()).await;
                let _ = sender.send(link.who().key).await;
                while link.next().await.is_ok() {}
            }
        })
        .detach();
        assert_eq!(receiver.recv().await.unwrap(), Some(master.public()));
        let minion = mortal.kill().await;
        let began = Instant::now();
        let listener = Listener::bind(address, &master, patient()).unwrap();
        listener.recall(&[minion]).await;
        let (key, _link) = let_in(&listener, receiver.recv()).await;
        assert_eq!(key.unwrap(), Some(master.public()));
        assert!(began.elapsed() < ms(30_000), "{:?}", began.elapsed());
        println!("back after {:?}", began.elapsed());
    });
}

#[test]
fn a_flood_of_recalls_causes_one_ping() {
    run(async {
        let world = World::new();
        let (_minion, mut master) = world.connected("m1").await;
        let addresses = world.listener.addresses();
        world.listener.recall(&addresses.repeat(50)).await;
        let Ok(Incoming::Question(first)) = master.next().await else {
            panic!("no ping")
        };
        first.done(true).await.unwrap();
        let silent = async {
            Timer::after(ms(300)).await;
            None
        };
        let second = smol::future::or(async { Some(master.next().await) }, silent).await;
        assert!(second.is_none(), "{second:?}");
    });
}

#[test]
fn a_master_that_stops_says_so_and_is_awaited() {
    run(async {
        let world = World::new();
        let (mut minion, master) = world.connected("m1").await;
        master.handle().bye("stopping", Some(3)).await.unwrap();
        let Ok(Incoming::Bye(bye)) = minion.next().await else {
            panic!("no bye")
        };
        assert_eq!((bye.reason.as_str(), bye.retry_s), ("stopping", Some(3)));
        world.listener.close("stopped").await;
        let error = minion.next().await.unwrap_err();
        assert!(error.to_string().contains("stopped"), "{error}");
    });
}

#[test]
fn another_socket_of_the_minion_keeps_the_session() {
    run(async {
        let world = World::new();
        let mut session = Session::new(world.options("m1"));
        let minion = smol::spawn(async move {
            let link = session.connect(&mut |_| ()).await.0;
            (session, link)
        });
        let ((session, link), mut master) = let_in(&world.listener, minion).await;
        let before = master.address();
        for sequence in 1..=3 {
            session.rebind().unwrap();
            let began = Instant::now();
            link.handle().event(event(sequence)).await.unwrap();
            assert!(matches!(master.next().await, Ok(Incoming::Event(_))));
            assert!(began.elapsed() < HELD_UP, "{:?}", began.elapsed());
        }
        assert_ne!(master.address(), before);
        assert_eq!(world.listener.connections(), 1);
    });
}

#[test]
fn names_are_looked_up_at_each_try_and_all_addresses_are_tried() {
    static ADDRESSES: Mutex<Vec<SocketAddr>> = Mutex::new(Vec::new());
    run(async {
        let world = World::new();
        let dead: SocketAddr = ([127, 0, 0, 1], 1).into();
        *ADDRESSES.lock().unwrap() = vec![dead];
        let mut options = world.options("m1");
        options.masters = vec![Master::parse("salt.example", PORT)];
        options.limits.handshake = ms(200);
        let mut session = Session::new(options);
        session.lookup = |host, port| {
            assert_eq!((host, port), ("salt.example", PORT));
            let addresses = ADDRESSES.lock().unwrap().clone();
            if addresses.is_empty() {
                Err(std::io::ErrorKind::NotFound.into())
            } else {
                Ok(addresses)
            }
        };
        let tried = Arc::new(Mutex::new(Vec::new()));
        let tries = tried.clone();
        let minion = smol::spawn(async move {
            let mut tell = |status: Status<'_>| {
                if let Status::Trying(_, address) = status {
                    tries.lock().unwrap().push(address);
                }
            };
            session.connect(&mut tell).await
        });
        Timer::after(ms(300)).await;
        ADDRESSES.lock().unwrap().clear();
        Timer::after(ms(300)).await;
        *ADDRESSES.lock().unwrap() = vec![dead, world.address()];
        let_in(&world.listener, minion).await;
        let tried = tried.lock().unwrap();
        assert_eq!(
            (tried.first(), tried.last()),
            (Some(&dead), Some(&world.address()))
        );
    });
}

#[test]
fn the_next_master_is_tried_when_one_says_nothing() {
    run(async {
        let world = World::new();
        let mut options = world.options("m1");
        options
            .masters
            .insert(0, Master::parse("127.0.0.1:1", PORT));
        options.limits.handshake = ms(200);
        let mut session = Session::new(options);
        let minion = smol::spawn(async move { session.connect(&mut |_| ()).await.0 });
        let (minion, _) = let_in(&world.listener, minion).await;
        assert_eq!(minion.who().address, Some(world.address()));
    });
}

#[test]
fn a_refused_minion_hears_why_and_asks_again_when_it_was_told() {
    run(async {
        let world = World::new();
        let options = world.options("m1");
        let minion = smol::spawn(failures(options, 2));
        let first = world.listener.next().await.unwrap();
        first.refuse("rejected", "the key was rejected", Some(1));
        let began = Instant::now();
        let second = world.listener.next().await.unwrap();
        assert!(began.elapsed() > ms(900), "{:?}", began.elapsed());
        second.refuse("rejected", "the key was rejected", None);
        let failed = minion.await;
        assert!(
            failed[0].ends_with("refuses this minion: the key was rejected (rejected)"),
            "{failed:?}"
        );
    });
}

#[test]
fn a_revoked_key_is_cut_off_at_once_wherever_it_is() {
    run(async {
        let world = World::new();
        let (mut minion, master) = world.connected("m1").await;
        let (raw, peer) = world.pending("m2").await;
        let began = Instant::now();
        assert_eq!(
            world.listener.revoke(&master.who().key.unwrap(), "revoked"),
            1
        );
        assert_eq!(world.listener.revoke(&peer.key(), "revoked"), 1);
        let error = minion.next().await.unwrap_err();
        assert!(error.to_string().contains("revoked"), "{error}");
        assert_eq!(raw.closed().await, "revoked");
        assert!(began.elapsed() < HELD_UP, "{:?}", began.elapsed());
        drop((master, peer));
        assert_eq!(
            (world.listener.connections(), world.listener.pending()),
            (0, 0)
        );
    });
}

#[test]
fn documents_are_shown_fresh_until_the_key_is_accepted_and_again_when_it_is_not_any_more() {
    run(async {
        let world = World::new();
        let mut options = world.options("m1");
        options.limits.evidence = ms(300);
        let mut session = Session::new(options);
        let made = AtomicUsize::new(0);
        session.show(Some(Evidence::from(move || {
            Map::new().with("gcp", made.fetch_add(1, Ordering::SeqCst).to_string())
        })));
        let minion = smol::spawn(async move {
            for _ in 0..100 {
                let (mut link, _) = session.connect(&mut |_| ()).await;
                while link.next().await.is_ok() {}
            }
        });
        let shown = |peer: &Peer| peer.hello().evidence.get("gcp").map(Value::to_text);
        // The minion waits while pending, and reconnects with fresh documents.
        let mut first = world.listener.next().await.unwrap();
        first.pend("wait").await.unwrap();
        let second = world.listener.next().await.unwrap();
        assert!(shown(&first).is_some() && shown(&second).is_some());
        assert_ne!(shown(&first), shown(&second));
        // An accepted minion needs no documents. It may have reconnected more than once if this
        // test was delayed.
        let mut last = second;
        while shown(&last).is_some() {
            if let Ok(link) = last.accept(welcome()).await {
                link.handle().close("over");
            }
            last = world.listener.next().await.unwrap();
        }
        // A minion that is no longer accepted shows its documents again, without a second request.
        last.pend("wait").await.unwrap();
        let back = world.listener.next().await.unwrap();
        assert!(shown(&back).is_some());
        minion.cancel().await;
    });
}
