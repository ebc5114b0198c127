//! Tests with both ends in one process, on loopback.
#![expect(
    clippy::disallowed_methods,
    clippy::let_underscore_must_use,
    reason = "tests start themselves as a second process; peers in tests end as they like"
)]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quinn::{Endpoint, RecvStream, SendStream};
use smol::Timer;
use value::Map;
use wire::{Event, Frame, Hello, Welcome};

use crate::pki::Pki;
use crate::tls::{self, Pinned};
use crate::*;

mod attack;
mod cluster;
mod limits;
mod load;
mod local;
mod session;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The time limit of every test.
const TEST_MAX: Duration = Duration::from_secs(100);

/// Runs a test, and panics if it takes too long.
fn run<T>(test: impl Future<Output = T>) -> T {
    let late = async {
        Timer::after(TEST_MAX).await;
        panic!("not done after {TEST_MAX:?}")
    };
    smol::block_on(smol::future::or(test, late))
}

/// Deadlines that even a machine that is suspended for a few seconds meets.
fn patient() -> Limits {
    Limits {
        handshake: ms(30_000),
        hello: ms(30_000),
        frame: ms(30_000),
        rate_min: 1 << 20,
        rate_window: ms(30_000),
        answer: ms(30_000),
        idle: ms(30_000),
        keep_alive: ms(500),
        bad_frames_max: 3,
        ..Limits::default()
    }
}

/// Deadlines that are short enough for a test to wait for.
fn strict() -> Limits {
    Limits {
        hello: STRICT,
        frame: STRICT,
        rate_window: STRICT,
        ..patient()
    }
}

/// A time far below the deadlines of [`patient`].
const HELD_UP: Duration = Duration::from_secs(10);

/// The duration of the strict deadlines.
const STRICT: Duration = Duration::from_secs(2);

/// Waits until the condition is true.
async fn soon(what: impl Fn() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < ms(30_000), "it never came to be");
        Timer::after(ms(10)).await;
    }
}

fn hello(id: &str) -> Hello {
    Hello {
        version_min: 1,
        version_max: 1,
        features: Vec::new(),
        id: id.parse().unwrap(),
        role: "minion".into(),
        program: "0".into(),
        started: String::new(),
        epoch: 1,
        token: None,
        grains: Map::new(),
        evidence: Map::new(),
    }
}

fn welcome() -> Welcome {
    Welcome {
        version: 0,
        features: Vec::new(),
        bound: Map::new().with("role", "web"),
        epoch: 1,
        durable: 7,
        program: "0".into(),
        stamp: String::new(),
    }
}

fn event(sequence: u64) -> Event {
    let data = Map::new().with("n", sequence);
    Event {
        sequence,
        tag: "my/own".into(),
        stamp: String::new(),
        data,
    }
}

/// A master, and a folder for the keys of minions.
struct World {
    folder: tempfile::TempDir,
    master: KeyPair,
    listener: Listener,
}

impl World {
    fn new() -> Self {
        Self::with(patient())
    }

    fn with(limits: Limits) -> Self {
        let master = KeyPair::generate().unwrap();
        let listener = Listener::bind(([127, 0, 0, 1], 0).into(), &master, limits).unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            master,
            listener,
        }
    }

    fn address(&self) -> SocketAddr {
        self.listener.address().unwrap()
    }

    fn options(&self, id: &str) -> Options {
        let pki = Pki::open(&self.folder.path().join(id)).unwrap();
        Options {
            masters: vec![Master::parse(&self.address().to_string(), PORT)],
            random: false,
            source: None,
            pair: pki.own("minion").unwrap().pair,
            pki,
            fingers: Vec::new(),
            hello: hello(id),
            limits: patient(),
            waits: Waits {
                recon_default: ms(50),
                recon_max: ms(200),
                random_reauth_delay: ms(0),
                ..Waits::default()
            },
        }
    }

    /// Returns both ends of the connection of an accepted minion: the minion's and the master's.
    async fn connected(&self, id: &str) -> (Link, Link) {
        let mut session = Session::new(self.options(id));
        let minion = smol::spawn(async move { session.connect(&mut |_| ()).await.0 });
        let_in(&self.listener, minion).await
    }

    async fn raw(&self) -> Raw {
        Raw::connect(self.address(), &KeyPair::generate().unwrap(), wire::ALPN)
            .await
            .unwrap()
    }

    /// Returns a raw client that has sent its hello and is pending, and the master's end of it.
    async fn pending(&self, id: &str) -> (Raw, Peer) {
        let mut raw = self.raw().await;
        raw.say(&hello(id).into()).await;
        let mut peer = self.listener.next().await.unwrap();
        peer.pend("wait").await.unwrap();
        (raw, peer)
    }

    /// Shows that another minion is served during an attack or fault.
    async fn serves_others(&self) {
        let began = Instant::now();
        let (minion, mut master) = self.connected("other").await;
        minion.handle().event(event(1)).await.unwrap();
        assert!(matches!(master.next().await, Ok(Incoming::Event(_))));
        assert!(began.elapsed() < HELD_UP, "{:?}", began.elapsed());
    }
}

/// Accepts every peer until the minion is connected. The minion may have given up a try whose peer
/// the listener has just returned.
async fn let_in<T>(listener: &Listener, minion: impl Future<Output = T>) -> (T, Link) {
    let last = Mutex::new(None);
    let accept = async {
        loop {
            let peer = listener.next().await.unwrap();
            if let Ok(link) = peer.accept(welcome()).await {
                *last.lock().unwrap() = Some(link);
            }
        }
    };
    let connected = smol::future::or(minion, accept).await;
    (connected, last.into_inner().unwrap().unwrap())
}

/// A client that can send any bytes.
struct Raw {
    _endpoint: Endpoint,
    connection: quinn::Connection,
    send: SendStream,
    receive: RecvStream,
}

impl Raw {
    async fn connect(
        address: SocketAddr,
        pair: &KeyPair,
        alpn: &[u8],
    ) -> Result<Self, quinn::ConnectionError> {
        Self::connect_from(([127, 0, 0, 1], 0).into(), address, pair, alpn).await
    }

    async fn connect_from(
        local: SocketAddr,
        address: SocketAddr,
        pair: &KeyPair,
        alpn: &[u8],
    ) -> Result<Self, quinn::ConnectionError> {
        let crypto = tls::client(pair, alpn, Pinned::new(Vec::new())).unwrap();
        let mut config = quinn::ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(patient().of_minion()));
        let endpoint = Endpoint::client(local).unwrap();
        let connection = endpoint.connect_with(config, address, "x").unwrap().await?;
        let (send, receive) = connection.open_bi().await?;
        Ok(Self {
            _endpoint: endpoint,
            connection,
            send,
            receive,
        })
    }

    async fn say(&mut self, frame: &Frame) {
        let mut bytes = Vec::new();
        frame.encode(wire::Limits::STREAM, &mut bytes).unwrap();
        self.send.write_all(&bytes).await.unwrap();
    }

    async fn hear(&mut self) -> Frame {
        hear(&mut self.receive).await
    }

    /// Waits until the connection is closed, and returns the reason.
    async fn closed(&self) -> String {
        match self.connection.closed().await {
            quinn::ConnectionError::ApplicationClosed(close) => {
                String::from_utf8_lossy(&close.reason).into_owned()
            }
            other => other.to_string(),
        }
    }
}

async fn hear(receive: &mut RecvStream) -> Frame {
    let mut length = [0; 4];
    receive.read_exact(&mut length).await.unwrap();
    let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
    receive.read_exact(&mut bytes).await.unwrap();
    Frame::decode(&bytes, wire::Limits::STREAM).unwrap()
}

/// Returns frames of every kind by name, from the corpus.
fn golden() -> Vec<(String, Frame)> {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/wire/v1");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "bin") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let bytes = std::fs::read(&path).unwrap();
            all.push((
                name,
                Frame::decode(&bytes[4..], wire::Limits::STREAM).unwrap(),
            ));
        }
    }
    assert!(all.len() > 30);
    all
}
