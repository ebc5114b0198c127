//! Tests of a minion with the masters of a cluster.

use super::session::Mortal;
use super::*;
use smol::channel::{Receiver, unbounded};
use value::Value;

/// A master of a cluster, which accepts all minions.
struct Member {
    name: &'static str,
    key: KeyPair,
    listener: Arc<Listener>,
    links: Receiver<Link>,
    _accepting: smol::Task<()>,
}

impl Member {
    fn new(name: &'static str) -> Self {
        let key = KeyPair::generate().unwrap();
        let listener = Listener::bind(([127, 0, 0, 1], 0).into(), &key, patient()).unwrap();
        let listener = Arc::new(listener);
        let (sender, links) = unbounded();
        let accepts = listener.clone();
        let accepting = smol::spawn(async move {
            while let Some(peer) = accepts.next().await {
                if let Ok(link) = peer.accept(welcome()).await {
                    let _ = sender.send(link).await;
                }
            }
        });
        Self {
            name,
            key,
            listener,
            links,
            _accepting: accepting,
        }
    }

    fn address(&self) -> String {
        self.listener.address().unwrap().to_string()
    }

    fn finger(&self) -> String {
        self.key.public().finger()
    }

    /// Returns the entry of a list that has this fingerprint for the master.
    fn with_finger(&self, finger: String) -> Value {
        let named = Map::new().with("name", self.name);
        let at = named.with("address", self.address());
        at.with("finger", finger).into()
    }

    fn entry(&self) -> Value {
        self.with_finger(self.finger())
    }
}

fn sent(masters: impl IntoIterator<Item = Value>) -> wire::Masters {
    wire::Masters {
        index: 3,
        masters: masters.into_iter().collect(),
    }
}

fn list(masters: impl IntoIterator<Item = Value>) -> Option<Arc<MasterList>> {
    let list = MasterList::new(sent(masters), "the-list".to_owned()).unwrap();
    Some(Arc::new(list))
}

/// Returns the options of a minion that knows one master. No test may depend on the waits.
fn knows(world: &World, member: &Member) -> Options {
    let mut options = world.options("web-1");
    options.hello.features = vec![wire::MASTERS.to_owned()];
    options.masters = vec![Master::parse(&member.address(), PORT)];
    options.waits.random_reauth_delay = ms(60_000);
    options.waits.recon_default = ms(60_000);
    options
}

/// Connects to one of these masters. Returns it, the minion's end of the link and the master's.
async fn connected<'a>(session: &mut Session, to: &'a [Member]) -> (&'a Member, Link, Link) {
    let minion = session.connect(&mut |_| ()).await.0;
    let key = minion.who().key;
    let mut members = to.iter();
    let member = members.find(|member| key == Some(member.key.public()));
    let member = member.expect("another master");
    let master = member.links.recv().await.unwrap();
    (member, minion, master)
}

/// Runs a try that no master accepts, and returns its first error.
async fn refused(session: &mut Session) -> String {
    let (sender, failed) = unbounded();
    let mut tell = |status: Status<'_>| {
        if let Status::Failed(error) = status {
            let _ = sender.try_send(error.to_string());
        }
    };
    let connect = async {
        session.connect(&mut tell).await;
        panic!("it is connected")
    };
    smol::future::or(async { failed.recv().await.unwrap() }, connect).await
}

#[test]
fn only_a_minion_that_understands_the_masters_is_sent_them() {
    run(async {
        let (world, members) = (World::new(), [Member::new("m1")]);
        let masters = sent([members[0].entry()]);
        for takes in [false, true] {
            let mut options = knows(&world, &members[0]);
            if !takes {
                options.hello.features.clear();
            }
            let mut session = Session::new(options);
            let (_, mut minion, master) = connected(&mut session, &members).await;
            let handle = master.handle();
            assert_eq!(handle.takes_masters(), takes);
            handle.masters(masters.clone()).await.unwrap();
            handle.ack(1).await.unwrap();
            let first = minion.next().await.unwrap();
            match takes {
                true => assert!(matches!(first, Incoming::Masters(got) if got == masters)),
                false => assert!(matches!(first, Incoming::Ack(1)), "{first:?}"),
            }
        }
    });
}

#[test]
fn a_minion_that_knows_one_master_goes_on_with_another_at_once() {
    run(async {
        let (world, members) = (World::new(), ["m1", "m2", "m3"].map(Member::new));
        let mut options = knows(&world, &members[0]);
        // The first one may be tried again before the third.
        options.limits.handshake = ms(500);
        let mut session = Session::new(options);
        let (_, mut minion, master) = connected(&mut session, &members).await;
        let masters = sent(members.iter().map(Member::entry));
        master.handle().masters(masters).await.unwrap();
        let Ok(Incoming::Masters(got)) = minion.next().await else {
            panic!("no masters")
        };
        let got = MasterList::new(got, "the-list".to_owned()).unwrap();
        session.know(Some(Arc::new(got)));
        members[0].listener.close("stopped").await;
        assert!(minion.next().await.is_err());
        let began = Instant::now();
        session.skip_master();
        let (second, mut minion, _master) = connected(&mut session, &members).await;
        second.listener.close("stopped").await;
        assert!(minion.next().await.is_err());
        session.skip_master();
        let (third, ..) = connected(&mut session, &members).await;
        assert!(began.elapsed() < ms(3000), "{:?}", began.elapsed());
        assert!(second.name != "m1" && third.name != "m1" && second.name != third.name);
    });
}

#[test]
fn the_other_masters_recall_the_minions_of_one_that_was_killed() {
    run(async {
        let (world, members) = (World::new(), [Member::new("m2")]);
        let mut mortal = Mortal::new(&world);
        let mut options = knows(&world, &members[0]);
        options.masters = vec![Master::parse(&mortal.address.to_string(), PORT)];
        options.limits.idle = ms(600_000);
        options.limits.keep_alive = ms(600_000);
        options.waits = world.options("web-1").waits;
        options.limits.handshake = ms(300);
        let mut session = Session::new(options);
        let (mut minion, _) = session.connect(&mut |_| ()).await;
        assert_eq!(minion.who().key, Some(mortal.key.public()));
        session.know(list([members[0].entry()]));
        let at = mortal.kill().await;
        let began = Instant::now();
        members[0].listener.recall(&[at]).await;
        assert!(minion.next().await.is_err());
        session.skip_master();
        connected(&mut session, &members).await;
        assert!(began.elapsed() < ms(5000), "{:?}", began.elapsed());
        println!("with the next one after {:?}", began.elapsed());
    });
}

#[test]
fn after_a_connection_of_no_use_the_next_round_waits() {
    run(async {
        let (world, members) = (World::new(), ["m1", "m2"].map(Member::new));
        let mut options = knows(&world, &members[0]);
        options.waits.recon_default = ms(400);
        options.waits.recon_max = ms(60_000);
        options.waits.recon_randomize = false;
        let mut session = Session::new(options);
        session.know(list(members.iter().map(Member::entry)));
        for wait in [0, 400, 800] {
            let began = Instant::now();
            drop(connected(&mut session, &members).await);
            assert!(began.elapsed() >= ms(wait), "{:?}", began.elapsed());
            session.was_useless();
            session.skip_master();
        }
    });
}

#[test]
fn another_key_at_the_address_of_a_listed_master_is_refused_and_named() {
    run(async {
        let (world, members) = (World::new(), ["m1", "m2"].map(Member::new));
        let [one, two] = &members;
        let mut session = Session::new(knows(&world, two));
        // The key of another master of the list is not the right one either.
        session.know(list([two.with_finger(one.finger())]));
        let error = refused(&mut session).await;
        let expected = format!("{}, but {} is expected", two.finger(), one.finger());
        for part in [expected.as_str(), "m2 in the-list"] {
            assert!(error.contains(part), "{error}");
        }
        soon(|| two.listener.connections() == 0).await;
        session.know(list([two.with_finger(two.finger().to_uppercase())]));
        drop(connected(&mut session, &members).await);
    });
}

#[test]
fn a_listed_master_needs_no_first_use_and_a_removed_one_is_not_believed() {
    run(async {
        let (world, members) = (World::new(), ["m1", "m2"].map(Member::new));
        let [one, two] = &members;
        let mut session = Session::new(knows(&world, one));
        session.know(list(members.iter().map(Member::entry)));
        drop(connected(&mut session, &members).await);
        let remembered = world.options("web-1").pki.find_master_key(REMEMBERED);
        assert_eq!(remembered.unwrap(), None);
        // The address of m1 is still configured, and comes after the list.
        let removed = |options: Options| {
            let mut session = Session::new(options);
            session.know(list([two.entry()]));
            session.skip_master();
            session
        };
        let error = refused(&mut removed(knows(&world, one))).await;
        assert!(error.contains("the-list"), "{error}");
        let mut options = knows(&world, one);
        options.fingers = vec![one.finger()];
        let (believed, ..) = connected(&mut removed(options), &members).await;
        assert_eq!(believed.name, "m1");
    });
}

#[test]
fn a_configured_address_may_lead_to_any_master_of_the_list() {
    run(async {
        let (world, members) = (World::new(), ["m1", "m2", "m3"].map(Member::new));
        let [one, two, balancer] = &members;
        let options = knows(&world, balancer);
        options.pki.remember(REMEMBERED, &one.key.public()).unwrap();
        let mut session = Session::new(options);
        // The master behind the balancer is m2 by its key.
        session.know(list([one.entry(), two.with_finger(balancer.finger())]));
        session.skip_master();
        session.skip_master();
        let (member, ..) = connected(&mut session, &members).await;
        assert_eq!(member.name, "m3");
    });
}

#[test]
fn a_minion_goes_back_to_the_first_master_of_its_order() {
    run(async {
        let (world, members) = (World::new(), ["m1", "m2"].map(Member::new));
        let mut session = Session::new(knows(&world, &members[0]));
        session.know(list(members.iter().map(Member::entry)));
        let (first, ..) = connected(&mut session, &members).await;
        assert!(session.is_with_first());
        session.skip_master();
        let (second, ..) = connected(&mut session, &members).await;
        assert!(first.name != second.name && !session.is_with_first());
        assert!(session.first_answers().await);
        session.begin_with_first();
        let (again, ..) = connected(&mut session, &members).await;
        assert_eq!(again.name, first.name);
        // A list without the connected master makes the next round begin with the first one.
        session.know(list([second.entry()]));
        assert!(!session.is_with_first());
        session.skip_master();
        let (last, ..) = connected(&mut session, &members).await;
        assert_eq!(last.name, second.name);
    });
}
