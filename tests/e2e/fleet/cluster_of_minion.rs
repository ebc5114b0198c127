//! A minion whose masters are a cluster. The masters are played by the test, so that they can lose
//! their majority or have a wrong key.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use link::{Handle, Incoming, KeyPair, Limits, Link, Listener, Peer};
use value::{Map, Value};
use wire::{Job, Masters, Request, Welcome};

use super::hostile::{key, run, welcome};
use super::{Fleet, Turn};

/// The longest time after which a minion is connected to another master.
const MOVES: Duration = Duration::from_secs(3);

/// The state that all masters of a cluster have.
#[derive(Default)]
struct Shared {
    list: Mutex<Option<Masters>>,
    /// The last durable number of each spool.
    durable: Mutex<HashMap<u64, u64>>,
    /// The tags of the events, each as often as it was stored.
    tags: Mutex<Vec<String>>,
    /// The newest connection.
    handle: Mutex<Option<Handle>>,
}

/// A master of a cluster.
struct Played {
    key: KeyPair,
    port: u16,
    listener: Arc<Listener>,
    /// The number of minions that it has accepted.
    accepted: Arc<AtomicUsize>,
    has_majority: Arc<AtomicBool>,
}

impl Played {
    fn new(shared: &Arc<Shared>) -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let key = key();
        loop {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            let port = 20_000 + (std::process::id() as u16 % 100 * 100 + step) % 10_000;
            if let Some(played) = Self::at(port, &key, shared) {
                return played;
            }
        }
    }

    /// Begins to listen at a port, unless another program does.
    fn at(port: u16, key: &KeyPair, shared: &Arc<Shared>) -> Option<Self> {
        let address = ([127, 0, 0, 1], port).into();
        let listener = Listener::bind(address, key, Limits::default()).ok()?;
        let (key, listener) = (key.clone(), Arc::new(listener));
        let played = Self {
            key,
            port,
            listener: listener.clone(),
            accepted: Arc::default(),
            has_majority: Arc::new(true.into()),
        };
        let (shared, accepted) = (shared.clone(), played.accepted.clone());
        let has_majority = played.has_majority.clone();
        let serve = async move {
            while let Some(peer) = listener.next().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                let has_majority = has_majority.load(Ordering::SeqCst);
                smol::spawn(shared.clone().serve(peer, has_majority)).detach();
            }
        };
        smol::spawn(serve).detach();
        Some(played)
    }

    /// Returns the master's entry of a list. Its name is its port.
    fn entry(&self, key: &KeyPair) -> Value {
        let named = Map::new().with("name", self.port.to_string());
        let at = named.with("address", format!("127.0.0.1:{}", self.port));
        at.with("finger", key.public().finger()).into()
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    fn connections(&self) -> usize {
        self.listener.connections()
    }

    fn close(&self) {
        run(self.listener.close("stopped"));
    }
}

impl Shared {
    async fn serve(self: Arc<Self>, peer: Peer, has_majority: bool) {
        let epoch = peer.hello().epoch;
        let durable = self.durable.lock().unwrap().get(&epoch).copied();
        let welcome = Welcome {
            epoch,
            durable: durable.unwrap_or(0),
            ..welcome()
        };
        let Ok(link) = peer.accept(welcome).await else {
            return;
        };
        *self.handle.lock().unwrap() = Some(link.handle());
        let list = self.list.lock().unwrap().clone();
        if let Some(list) = list {
            let _ = link.handle().masters(list).await;
        }
        if !has_majority {
            let _ = link.handle().bye(wire::NO_MAJORITY, None).await;
        }
        let address = link.address();
        self.read(link, epoch).await;
        // A handle keeps its connection in the listener's count.
        let mut newest = self.handle.lock().unwrap();
        newest.take_if(|handle| handle.address() == address);
    }

    async fn read(&self, mut link: Link, epoch: u64) {
        let handle = link.handle();
        while let Ok(incoming) = link.next().await {
            match incoming {
                Incoming::Event(event) => {
                    self.store(epoch, event.sequence, event.tag);
                    let _ = handle.ack(event.sequence).await;
                }
                Incoming::Question(question) => {
                    if let Request::Return(answer) = &question.request {
                        self.store(epoch, answer.sequence, format!("return/{}", answer.jid));
                    }
                    if let Request::Fire(fire) = &question.request {
                        self.tags.lock().unwrap().push(fire.tag.clone());
                    }
                    let _ = question.done(Map::new()).await;
                }
                _ => {}
            }
        }
    }

    /// Stores an event of a spool once.
    fn store(&self, epoch: u64, sequence: u64, tag: String) {
        let mut durable = self.durable.lock().unwrap();
        let known = durable.entry(epoch).or_default();
        if sequence > *known {
            *known = sequence;
            self.tags.lock().unwrap().push(tag);
        }
    }

    /// Returns how often an event with this tag was stored.
    fn count(&self, tag: &str) -> usize {
        let tags = self.tags.lock().unwrap();
        tags.iter().filter(|stored| *stored == tag).count()
    }
}

/// A cluster of three masters, and a fleet without another master.
struct Cluster {
    fleet: Fleet,
    shared: Arc<Shared>,
    masters: [Played; 3],
}

impl Cluster {
    fn new() -> Self {
        let fleet = Fleet::prepared("", Turn::shared());
        let shared = Arc::new(Shared::default());
        let masters = [(); 3].map(|()| Played::new(&shared));
        let cluster = Self {
            fleet,
            shared,
            masters,
        };
        cluster.states(|master| master.entry(&master.key));
        cluster
    }

    fn states(&self, entry: impl Fn(&Played) -> Value) {
        *self.shared.list.lock().unwrap() = Some(Masters {
            index: 1,
            masters: self.masters.iter().map(entry).collect(),
        });
    }

    fn fingers(&self) -> String {
        let fingers = self.masters.iter().map(|one| one.key.public().finger());
        format!("[{}]", fingers.collect::<Vec<_>>().join(", "))
    }

    /// Starts a minion that knows the first master only.
    fn start(&mut self) {
        self.start_with("");
    }

    fn start_with(&mut self, config: &str) {
        let port = self.masters[0].port;
        let config = format!("master: 127.0.0.1:{port}\n{config}");
        self.fleet.start_minion("m1", &config);
        let file = self.fleet.path("m1/cache/masters");
        self.fleet.soon("the list is stored", || file.exists());
    }

    fn connections(&self) -> usize {
        self.masters.iter().map(Played::connections).sum()
    }

    /// Fires an event on the minion's machine.
    fn fire(&self, tag: &str) {
        let called = self.fleet.call("m1", &["event.send", tag]);
        assert_eq!(called.rc, Some(0), "{}", called.out);
    }

    /// Asserts that an event arrives, and no second one within a second.
    fn arrives_once(&self, tag: &str) {
        self.fleet
            .soon("the event arrives", || self.shared.count(tag) > 0);
        sleep(Duration::from_secs(1));
        assert_eq!(self.shared.count(tag), 1, "{tag}");
    }
}

#[test]
fn a_minion_goes_on_with_another_master_and_knows_all_after_a_restart() {
    let mut cluster = Cluster::new();
    cluster.start();
    cluster.fire("my/first");
    cluster.arrives_once("my/first");
    let [one, two, three] = &cluster.masters;
    one.close();
    let began = Instant::now();
    let others = || two.connections() + three.connections();
    cluster
        .fleet
        .soon("another master is used", || others() == 1);
    assert!(began.elapsed() < MOVES, "{:?}", began.elapsed());
    cluster.fire("my/second");
    cluster.arrives_once("my/second");
    // The configured master is gone, and the key of no other one is remembered.
    cluster.fleet.kill_minion("m1");
    cluster.fleet.soon("it is gone", || others() == 0);
    cluster.fire("my/third");
    cluster.arrives_once("my/third");
    cluster.fleet.start_minion_again("m1");
    cluster
        .fleet
        .soon("another master is used", || others() == 1);
    cluster.fire("my/fourth");
    cluster.arrives_once("my/fourth");
}

#[test]
fn a_listed_master_with_another_key_is_left_out() {
    let mut cluster = Cluster::new();
    let wrong = key();
    let second = cluster.masters[1].port;
    cluster.states(|master| match master.port == second {
        true => master.entry(&wrong),
        false => master.entry(&master.key),
    });
    cluster.start();
    let [one, two, three] = &cluster.masters;
    one.close();
    let moved = || three.connections() == 1;
    cluster.fleet.soon("the third master is used", moved);
    three.close();
    let named = format!(
        "{second} in {}",
        cluster.fleet.path("m1/cache/masters").display()
    );
    cluster.fleet.soon("the wrong key is named", || {
        let log = fs::read_to_string(cluster.fleet.path("m1/log")).unwrap();
        let parts = [
            two.key.public().finger(),
            wrong.public().finger(),
            named.clone(),
        ];
        log.lines()
            .any(|line| parts.iter().all(|part| line.contains(part)))
    });
    assert_eq!(two.accepted(), 0);
}

#[test]
fn sessions_with_masters_of_one_cluster_become_one() {
    let mut cluster = Cluster::new();
    let ports = cluster.masters.each_ref().map(|master| master.port);
    let fingers = cluster.fingers();
    let config = format!(
        "master: [127.0.0.1:{}, 127.0.0.1:{}, localhost:{}]\nmaster_finger: {fingers}\n",
        ports[0], ports[1], ports[2]
    );
    cluster.fleet.start_minion("m1", &config);
    let have_joined = || {
        let stored = fs::read_to_string(cluster.fleet.path("m1/cache/masters"));
        let stored: serde_json::Value =
            serde_json::from_str(&stored.unwrap_or_default()).unwrap_or_default();
        stored["joined"]
            .as_array()
            .is_some_and(|joined| joined.len() == 3)
    };
    cluster.fleet.soon("all sessions have joined", have_joined);
    let one_is_left = || cluster.connections() == 1;
    cluster.fleet.soon("one session is left", one_is_left);
    cluster.fire("my/event");
    cluster.arrives_once("my/event");
    assert!(one_is_left());
    // After a restart there is one session from the beginning.
    cluster.fleet.kill_minion("m1");
    cluster
        .fleet
        .soon("it is gone", || cluster.connections() == 0);
    let accepted = |cluster: &Cluster| cluster.masters.iter().map(Played::accepted).sum::<usize>();
    let starts = || cluster.shared.count("salt/minion/m1/start");
    let (before, begun) = (accepted(&cluster), starts());
    cluster.fleet.start_minion_again("m1");
    let begins = || starts() > begun;
    cluster.fleet.soon("the session begins", begins);
    cluster.fire("my/other");
    cluster.arrives_once("my/other");
    assert_eq!((accepted(&cluster), starts()), (before + 1, begun + 1));
}

#[test]
fn a_minion_looks_for_a_majority_and_stays_where_there_is_none() {
    let mut cluster = Cluster::new();
    cluster.masters[0]
        .has_majority
        .store(false, Ordering::SeqCst);
    cluster.start();
    let [one, two, three] = &cluster.masters;
    let others = || two.connections() + three.connections() == 1;
    cluster
        .fleet
        .soon("a master with a majority is used", others);
    let left = || one.connections() == 0;
    cluster.fleet.soon("the first one is left", left);
    assert_eq!(one.accepted(), 1);
    cluster.fleet.kill_minion("m1");
    let gone = || cluster.connections() == 0;
    cluster.fleet.soon("it is gone", gone);
    for master in [two, three] {
        master.has_majority.store(false, Ordering::SeqCst);
    }
    let accepted = || cluster.masters.iter().map(Played::accepted).sum::<usize>();
    let before = accepted();
    cluster.fleet.start_minion_again("m1");
    let tried = || accepted() == before + 4 && cluster.connections() == 1;
    cluster.fleet.soon("it stays at the first one", tried);
    sleep(Duration::from_secs(2));
    assert!(tried());
}

#[test]
fn a_minion_goes_back_to_its_own_master_when_no_job_runs() {
    const JID: &str = "20261120101035942505";
    let mut cluster = Cluster::new();
    // Without these options it looks every five minutes.
    cluster
        .start_with("master_type: failover\nmaster_failback: True\nmaster_failback_interval: 1\n");
    // With the list, the first connection is that with its own master.
    cluster.fleet.kill_minion("m1");
    cluster
        .fleet
        .soon("it is gone", || cluster.connections() == 0);
    cluster.fleet.start_minion_again("m1");
    let used = || {
        cluster
            .masters
            .iter()
            .position(|one| one.connections() == 1)
    };
    // The connection may end once more before it lasts.
    let own = Cell::new(None);
    let lasts = || {
        own.set(used());
        sleep(Duration::from_millis(300));
        own.get().is_some() && own.get() == used()
    };
    cluster.fleet.soon("a master is used", lasts);
    let own = own.get().unwrap();
    cluster.masters[own].close();
    let other = || used().is_some_and(|at| at != own);
    cluster.fleet.soon("another master is used", other);
    // The one that is closed gives its port free.
    let unused = Played::new(&cluster.shared);
    let Played { port, key, .. } = std::mem::replace(&mut cluster.masters[own], unused);
    let handle = cluster.shared.handle.lock().unwrap().clone().unwrap();
    let job = Job {
        jid: JID.into(),
        fun: "cmd.run".into(),
        arg: vec!["sleep 6".into()],
        tgt: "*".into(),
        tgt_type: "glob".into(),
        ret: String::new(),
        user: "root".into(),
        options: Map::new(),
    };
    run(async { handle.ask(job).await.unwrap().done().await.unwrap() });
    let mut back = None;
    while back.is_none() {
        back = Played::at(port, &key, &cluster.shared);
    }
    let back = back.unwrap();
    let returned = || cluster.shared.count(&format!("return/{JID}"));
    cluster
        .fleet
        .soon("the job has returned, or the minion is back", || {
            returned() == 1 || back.accepted() > 0
        });
    assert_eq!(back.accepted(), 0, "a job still runs");
    let is_back = || back.connections() == 1;
    cluster.fleet.soon("the minion is back", is_back);
    assert_eq!(returned(), 1);
}
