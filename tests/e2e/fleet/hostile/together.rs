//! A stranger, an accepted minion, a guest and a client of the API attack a master at the same time,
//! in every way available to them, while honest minions are pinged every second.
//!
//! A second master, which is not attacked, is measured in the same way: if the machine itself is
//! too busy, that master is slow as well. Each attacker is a separate process: this test's program,
//! started again for one of the tests below that are otherwise ignored. `PINCH_HOSTILE_SECONDS` is
//! the duration of the attacks.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use link::pki::Pki;
use link::{Handle, Incoming, KeyPair, Limits, Link, Master, Options, Question, Session, Waits};
use smol::Timer;
use tests::program::copy_program;
use value::{Map, Value, jid};
use wire::{Fire, Hello, Pillar, Ping, Publish, Push, Request, Return, Secret, Way};

use super::web::{API, TOKEN};
use super::{Hostile, asked_locally, bytes, hello, key, run};
use crate::fleet::api::{Asked, config};
use crate::fleet::attacks::limits::announce;
use crate::fleet::{Fleet, NOBODY, Process};

/// The number of honest minions.
const HONEST: usize = 20;
/// The maximum durations of a ping of all minions and of an enrolment; or `BUSY_MAX` times the
/// duration on the master that is not attacked.
const PING_MAX: Duration = Duration::from_secs(1);
const ENROL_MAX: Duration = Duration::from_secs(3);
const BUSY_MAX: u32 = 4;
/// The pause between the rounds of an attacker, so that the test measures the master and not the
/// lack of a third processor.
const BREATH: Duration = Duration::from_millis(20);

/// The last byte of the hostile minion's address. The stranger uses others: if the machine is busy,
/// the stranger reaches the limit of connections of its addresses before the minion connects.
const MINION_ADDRESS: u8 = 5;

const PORT: &str = "PINCH_HOSTILE_PORT";
const KEY: &str = "PINCH_HOSTILE_KEY";
const SOCKET: &str = "PINCH_HOSTILE_SOCKET";

fn seconds() -> u64 {
    let given = std::env::var("PINCH_HOSTILE_SECONDS").ok();
    given.map_or(20, |seconds| seconds.parse().unwrap())
}

/// Returns an environment variable given to an attacker; `None` if the test was started by itself.
pub(super) fn given(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn with_token(id: &str, token: &str) -> Hello {
    Hello {
        token: Some(Secret::new(token)),
        ..hello(id)
    }
}

// The honest minions.

/// Takes a job and returns `True`.
async fn answer(question: Question, handle: Handle) {
    let Request::Job(job) = question.request.clone() else {
        let _ = question.done(Value::Null).await;
        return;
    };
    if question.done(true).await.is_err() {
        return;
    }
    let data = Map::new()
        .with("fun", job.fun)
        .with("fun_args", Value::list(job.arg))
        .with("return", true)
        .with("retcode", 0)
        .with("success", true);
    let answer = Return {
        sequence: 0,
        jid: job.jid,
        stamp: jid::stamp(),
        data,
    };
    if let Ok(asked) = handle.ask(answer).await {
        let _ = asked.done().await;
    }
}

async fn serve(mut link: Link) {
    let handle = link.handle();
    while let Ok(incoming) = link.next().await {
        if let Incoming::Question(question) = incoming {
            smol::spawn(answer(*question, handle.clone())).detach();
        }
    }
}

fn session(fleet: &Fleet, hello: Hello) -> Session {
    let pki = Pki::open(&fleet.path(&format!("honest/{}", hello.id))).unwrap();
    Session::new(Options {
        masters: vec![Master::parse("127.0.0.1", fleet.port())],
        random: false,
        source: None,
        pair: KeyPair::generate().unwrap(),
        pki,
        fingers: Vec::new(),
        hello,
        limits: Limits::default(),
        waits: Waits::default(),
    })
}

/// Runs a minion that reconnects after every loss.
fn honest(fleet: &Fleet, id: &str, token: &str) -> smol::Task<()> {
    let mut session = session(fleet, with_token(id, token));
    smol::spawn(async move {
        loop {
            let (link, _) = session.connect(&mut |_| ()).await;
            serve(link).await;
        }
    })
}

/// Pings all honest minions. Returns the number of answers and the duration.
fn pinged(socket: &Path) -> (usize, Duration) {
    let began = Instant::now();
    let asked = Publish {
        tgt: "honest*".into(),
        tgt_type: "glob".into(),
        fun: "test.ping".into(),
        arg: Vec::new(),
        ret: String::new(),
        jid: None,
        timeout_s: Some(10.0),
        options: Map::new(),
    };
    let parts = asked_locally(socket, Way::ClientToMaster, asked).unwrap();
    let is_return = |part: &&Value| part.get("return").is_some();
    (parts.iter().filter(is_return).count(), began.elapsed())
}

/// Enrols a new minion with a token, and returns the duration.
fn enrolled(fleet: &Fleet, number: usize, token: &str) -> Duration {
    let began = Instant::now();
    let mut session = session(fleet, with_token(&format!("new{number}"), token));
    run(async { drop(session.connect(&mut |_| ()).await) });
    began.elapsed()
}

/// A master with its honest minions, which answer until this is dropped.
struct Served {
    fleet: Fleet,
    token: String,
    _minions: Vec<smol::Task<()>>,
}

fn served(fleet: Fleet) -> Served {
    let token = fleet.token(&["id=*", "uses=1000"]);
    let minions = (0..HONEST)
        .map(|number| honest(&fleet, &format!("honest{number}"), &token))
        .collect();
    fleet.soon("all minions answer", || {
        pinged(&fleet.master_socket()).0 == HONEST
    });
    Served {
        fleet,
        token,
        _minions: minions,
    }
}

/// Measurements of the attacked master, and of the other one at the same time.
#[derive(Debug)]
struct Measured {
    /// The number of honest minions of the attacked master that did not answer.
    lost: usize,
    took: Duration,
    quiet_took: Duration,
}

impl Measured {
    fn ping(attacked: &Served, quiet: &Served) -> Self {
        let (_, quiet_took) = pinged(&quiet.fleet.master_socket());
        let (answered, took) = pinged(&attacked.fleet.master_socket());
        Self {
            lost: HONEST - answered,
            took,
            quiet_took,
        }
    }

    fn enrol(attacked: &Served, quiet: &Served, number: usize) -> Self {
        Self {
            quiet_took: enrolled(&quiet.fleet, number, &quiet.token),
            took: enrolled(&attacked.fleet, number, &attacked.token),
            lost: 0,
        }
    }

    fn is_slow(&self, max: Duration) -> bool {
        self.lost > 0 || self.took > max.max(self.quiet_took * BUSY_MAX)
    }
}

// The attackers.

/// Starts one of the tests below in a process that has less right to the processor than the master.
fn attacker(fleet: &Fleet, name: &str, user: Option<u32>, env: &[(&str, String)]) -> Process {
    let program = program(fleet);
    let mut command = Command::new("nice");
    command
        .args(["-n", "10"])
        .arg(program)
        .args(["--ignored", "--exact", "--test-threads=1"])
        .arg(format!("fleet::hostile::{name}"))
        .envs(env.iter().cloned())
        .env("PINCH_HOSTILE_SECONDS", seconds().to_string())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(fleet.path(name)).unwrap());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    Process(command.spawn().unwrap())
}

/// A copy of this program that everybody can run.
fn program(fleet: &Fleet) -> PathBuf {
    let copy = fleet.path("attacker");
    if !copy.exists() {
        copy_program(&std::env::current_exe().unwrap(), &copy);
        open_to_all(&copy);
        open_to_all(fleet.dir.path());
    }
    copy
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Repeats an attack for the whole duration of the test.
pub(super) fn for_long(mut attack: impl FnMut(u64)) {
    let until = Instant::now() + Duration::from_secs(seconds());
    let mut number = 0;
    while Instant::now() < until {
        attack(number);
        number += 1;
        std::thread::sleep(BREATH);
    }
}

/// The number of requests of this attacker that the master answered.
static ANSWERED: AtomicUsize = AtomicUsize::new(0);

/// Waits for an answer to what an attacker asked: on a busy machine the first may come late.
pub(super) fn was_answered() {
    for _ in 0..100 {
        if ANSWERED.load(Ordering::Relaxed) > 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the master answered no request");
}

/// Counts an answer.
pub(super) fn count_answer() {
    ANSWERED.fetch_add(1, Ordering::Relaxed);
}

/// Attacks as a stranger without an accepted key.
#[test]
#[ignore = "started by nobody_is_held_up_by_hostile_peers"]
fn a_stranger() {
    let Some(port) = given(PORT).map(|port| port.parse().unwrap()) else {
        return;
    };
    let socket = std::net::UdpSocket::bind("127.0.0.2:0").unwrap();
    let mut held = Vec::new();
    let mut connections = 0;
    for_long(|number| {
        let _ = socket.send_to(&noise(number), ("127.0.0.1", port));
        let attack = stranger_says(port, number);
        let within = async {
            Timer::after(Duration::from_secs(1)).await;
            None
        };
        let peer = smol::block_on(smol::future::or(attack, within));
        connections += usize::from(peer.is_some());
        held.extend(peer);
        if held.len() > 500 {
            held.drain(..100);
        }
    });
    assert_ne!(connections, 0, "the master accepted no connection");
}

/// Returns random bytes.
fn noise(number: u64) -> Vec<u8> {
    let digest = ring::digest::digest(&ring::digest::SHA256, &number.to_be_bytes());
    digest.as_ref().repeat(38)
}

/// Opens a connection with one kind of bad beginning, and keeps it open.
async fn stranger_says(port: u16, number: u64) -> Option<Hostile> {
    let last = 2 + (number % 3) as u8;
    let mut peer = Hostile::connect_from(last, port, &key(), wire::ALPN)
        .await
        .ok()?;
    match number % 8 {
        // A connection without a message.
        0..=2 => {}
        // A hello that never ends.
        3 => peer.say(&[0, 0, 1]).await,
        4 => peer.say(&[0xff; 4]).await,
        5 => peer.say(&noise(number)).await,
        // Another pending key, and one that squats on an id that will be used later.
        6 => {
            peer.say(&bytes(&hello(&format!("junk{number}")).into()))
                .await;
        }
        _ => {
            peer.say(&bytes(&hello(&format!("new{}", number / 8 % 50)).into()))
                .await;
        }
    }
    Some(peer)
}

/// Attacks as an accepted minion with permission to publish `test.ping`.
#[test]
#[ignore = "started by nobody_is_held_up_by_hostile_peers"]
fn a_minion() {
    let (Some(port), Some(file)) = (given(PORT), given(KEY)) else {
        return;
    };
    let port = port.parse().unwrap();
    let pem = std::fs::read(file).unwrap();
    let pair = KeyPair::from_pem(&pem).unwrap();
    let mut peer = smol::block_on(greeted(port, &pair)).map(Arc::new);
    // Later attacks use all streams of the connection or end it, and a busy master then answers none
    // of the others.
    if let Some(peer) = peer.clone() {
        smol::block_on(async {
            minion_does(peer.clone(), 1).await;
            minion_does(peer, 3).await;
        });
    }
    for_long(|number| {
        smol::block_on(async {
            if peer
                .as_ref()
                .is_none_or(|peer| peer.connection.close_reason().is_some())
            {
                peer = greeted(port, &pair).await.map(Arc::new);
            }
            if let Some(peer) = peer.clone() {
                smol::spawn(minion_does(peer, number)).detach();
                Timer::after(Duration::from_millis(30)).await;
            }
        });
    });
    was_answered();
}

async fn greeted(port: u16, pair: &KeyPair) -> Option<Hostile> {
    let mut peer = Hostile::connect_from(MINION_ADDRESS, port, pair, wire::ALPN)
        .await
        .ok()?;
    peer.say(&bytes(&hello("evil").into())).await;
    peer.hear().await?;
    Some(peer)
}

fn count(answer: &[wire::Frame]) {
    ANSWERED.fetch_add(usize::from(!answer.is_empty()), Ordering::Relaxed);
}

async fn minion_does(peer: Arc<Hostile>, number: u64) {
    let large = || Map::new().with("x", "x".repeat(200_000));
    match number % 8 {
        0 => {
            let streams = announce(&peer, 4).await;
            Timer::after(Duration::from_secs(5)).await;
            drop(streams);
        }
        1 | 2 => {
            let tag = "of/evil".to_owned();
            count(&peer.ask(Fire { tag, data: large() }).await);
        }
        3 | 4 => {
            let invented = Return {
                sequence: 0,
                jid: jid::new(),
                stamp: jid::stamp(),
                data: large(),
            };
            count(&peer.ask(invented).await);
        }
        // A negative timeout, or one just above zero.
        5 => {
            let seconds = if number % 16 == 5 { -1.0 } else { 1e-9 };
            drop(
                peer.ask(publish("honest1*", "glob", seconds, Map::new()))
                    .await,
            );
        }
        6 => {
            let pillar = "secret:hush*";
            drop(peer.ask(publish(pillar, "pillar", 1.0, Map::new())).await);
            let pushed = Push {
                path: "a/".repeat(400) + "x",
                size: 1,
                hash: "00".to_owned(),
            };
            drop(peer.ask(pushed).await);
        }
        _ => {
            let asked = Pillar {
                saltenv: None,
                pillarenv: None,
                grains: Map::new().with("id", "honest1"),
                pillar_override: Map::new(),
                secrets: true,
            };
            drop(peer.ask(asked).await);
            if let Ok((mut send, _receive)) = peer.connection.open_bi().await {
                let _ = send.write_all(&noise(number)).await;
            }
        }
    }
}

fn publish(tgt: &str, tgt_type: &str, seconds: f64, options: Map) -> Publish {
    Publish {
        tgt: tgt.into(),
        tgt_type: tgt_type.into(),
        fun: "test.ping".into(),
        arg: Vec::new(),
        ret: String::new(),
        jid: None,
        timeout_s: Some(seconds),
        options,
    }
}

/// Attacks as a user with permission to run `test.ping`.
#[test]
#[ignore = "started by nobody_is_held_up_by_hostile_peers"]
fn a_guest() {
    let Some(socket) = given(SOCKET).map(PathBuf::from) else {
        return;
    };
    let mut idle = Vec::new();
    for_long(|number| {
        if idle.len() < 60 {
            idle.extend(std::os::unix::net::UnixStream::connect(&socket));
        }
        let socket = socket.clone();
        let (ended, wait) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            drop(asked_locally(
                &socket,
                Way::ClientToMaster,
                guest_asks(number),
            ));
            count_answer();
            let _ = ended.send(());
        });
        let _ = wait.recv_timeout(Duration::from_millis(300));
    });
    was_answered();
}

fn guest_asks(number: u64) -> Publish {
    let none = Map::new;
    match number % 6 {
        0 => publish("honest1*", "glob", -1.0, none()),
        1 => publish("honest1*", "glob", 1e-9, none()),
        2 => publish("honest1*", "glob", 1.0, none().with("preview", false)),
        3 => publish("secret:hush.*", "pillar_pcre", 1.0, none()),
        4 => Publish {
            fun: "cmd.run".into(),
            ..publish(
                "*",
                "glob",
                1.0,
                none().with("preview", false).with("reaction", "runner"),
            )
        },
        _ => Publish {
            arg: vec!["x".repeat(1_000_000).into()],
            ..publish("nobody-has-this", "glob", 1.0, none())
        },
    }
}

// All together.

#[test]
fn nobody_is_held_up_by_hostile_peers() {
    let users = tests::scratch::Scratch::new();
    users.write("users", "alice:secret-a\nbob:secret-b\n");
    let api = config("").replace("@USERS@", &users.path().join("users").display().to_string());
    let attacked = Fleet::alone(&format!(
        "publisher_acl: {{'nob*': [test.ping]}}\npeer: {{evil: [test.ping]}}\nfile_recv: True\nkeep_events_bytes: 20000000\nkeep_jobs_bytes: 20000000\n{api}"
    ));
    let mut quiet = attacked.beside("");
    quiet.start_master();
    let (attacked, quiet) = (served(attacked), served(quiet));
    let attackers = attackers(&attacked);
    let over = AtomicBool::new(false);
    let (pings, ways_in) = std::thread::scope(|scope| {
        let enrolling = scope.spawn(|| enrol_until(&over, &attacked, &quiet));
        let pings = ping_each_second(&attacked, &quiet);
        over.store(true, Ordering::Relaxed);
        (pings, enrolling.join().unwrap())
    });
    println!("slowest ping: {:?}", slowest(&pings));
    println!("slowest enrolment: {:?}", slowest(&ways_in));
    let slow: Vec<&Measured> = pings
        .iter()
        .filter(|ping| ping.is_slow(PING_MAX))
        .chain(ways_in.iter().filter(|way| way.is_slow(ENROL_MAX)))
        .collect();
    assert!(slow.is_empty(), "{slow:?}\n{}", attacked.fleet.logs());
    were_there(&attacked.fleet, attackers);
}

fn ping_each_second(attacked: &Served, quiet: &Served) -> Vec<Measured> {
    let until = Instant::now() + Duration::from_secs(seconds());
    let mut pings = Vec::new();
    while Instant::now() < until {
        let began = Instant::now();
        pings.push(Measured::ping(attacked, quiet));
        let welcome = attacked.fleet.ask(&Asked::new("GET", "/"));
        assert_eq!(welcome.status, 200, "{welcome:?}");
        std::thread::sleep(Duration::from_secs(1).saturating_sub(began.elapsed()));
    }
    pings
}

fn enrol_until(over: &AtomicBool, attacked: &Served, quiet: &Served) -> Vec<Measured> {
    let mut ways_in = Vec::new();
    while !over.load(Ordering::Relaxed) {
        ways_in.push(Measured::enrol(attacked, quiet, ways_in.len()));
        std::thread::sleep(Duration::from_secs(2));
    }
    ways_in
}

fn slowest(measured: &[Measured]) -> Option<&Measured> {
    measured.iter().max_by_key(|measured| measured.took)
}

/// The tests that attack.
const ATTACKERS: [&str; 4] = [
    "together::a_stranger",
    "together::a_minion",
    "together::a_guest",
    "web::a_web_client",
];

/// Starts one attacker of each kind.
fn attackers(attacked: &Served) -> [Process; 4] {
    let fleet = &attacked.fleet;
    let pair = key();
    let file = fleet.path("evil.pem");
    std::fs::write(&file, pair.pem().as_bytes()).unwrap();
    run(async {
        let hello = with_token("evil", &attacked.token);
        let (evil, _) = Hostile::greeted_from(MINION_ADDRESS, fleet.port(), &pair, hello).await;
        assert_eq!(evil.done(Ping {}).await, Value::Bool(true));
    });
    let env = [
        (PORT, fleet.port().to_string()),
        (KEY, file.display().to_string()),
        (SOCKET, fleet.master_socket().display().to_string()),
        (API, fleet.api()),
        (TOKEN, fleet.login("bob")),
    ];
    open_to_all(&fleet.path("master"));
    [
        attacker(fleet, ATTACKERS[0], None, &env),
        attacker(fleet, ATTACKERS[1], None, &env),
        attacker(fleet, ATTACKERS[2], Some(NOBODY), &env),
        attacker(fleet, ATTACKERS[3], None, &env),
    ]
}

/// Asserts that each attacker did its work.
fn were_there(fleet: &Fleet, attackers: [Process; 4]) {
    for (name, mut attacker) in ATTACKERS.iter().zip(attackers) {
        let status = attacker.0.wait().unwrap();
        let said = std::fs::read_to_string(fleet.path(name)).unwrap();
        assert!(status.success(), "{said}");
    }
    let waiting = fleet.run(&["salt-key", "-l", "un"]).out;
    assert!(waiting.contains("junk"), "{waiting}");
}
