//! A stand-in for a master: it answers as Salt's does, unless a test changes its answers.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use value::python::hex;
use value::{Map, Value};
use wire::payload;

use super::vectors::recorded;
use crate::rsa_keys::{Private, Public};
use crate::seal::Seal;
use crate::{EncAlgo, Error, Identity, Joined, Session, Settings, SigAlgo, Transport, join, raw};

/// A probe of ZMTP with a context.
const PING: &[u8] = b"\x04\x0a\x04PING\0\0abc";
const ENC: EncAlgo = EncAlgo::OaepSha1;
pub(super) const SIG: SigAlgo = SigAlgo::Pkcs1v15Sha1;

/// A key of a master, and one of somebody else.
pub(super) static KEYS: LazyLock<[Private; 2]> = LazyLock::new(|| {
    [
        Private::generate(2048).unwrap(),
        Private::generate(2048).unwrap(),
    ]
});

/// The number of a key of [`KEYS`] that is the master's.
pub(super) const OWN: usize = 0;
/// The number of the other key.
pub(super) const OTHER: usize = 1;

/// The reaction to a request.
pub(super) enum Reaction {
    /// An answer.
    Answer(Value),
    /// These bytes, and then the end of the connection.
    Bytes(Vec<u8>),
    /// These bytes, one after the other and without an end.
    Slowly(Vec<u8>),
    /// No answer.
    Silence,
    /// An answer after this time.
    Late(Duration, Value),
}

/// Changes the answer of the master to a request. The text is the `cmd`.
type Change = Box<dyn FnMut(&State, &str, Value) -> Reaction + Send>;

/// The keys of the master.
pub(super) struct State {
    pub(super) key: usize,
    pub(super) fleet: String,
    pub(super) session: String,
    /// The number of authentications.
    pub(super) authentications: usize,
    /// The nonce of the current request.
    pub(super) nonce: String,
    minion: Option<Public>,
    /// True if the token of the last authentication was right.
    token: Option<Vec<u8>>,
    publish_port: u16,
}

pub(super) fn new_key(byte: u8) -> String {
    STANDARD.encode([byte; 56])
}

fn bytes(bytes: impl Into<Vec<u8>>) -> Value {
    Value::Bytes(bytes.into().into())
}

impl State {
    pub(super) fn private(&self) -> &'static Private {
        &KEYS[self.key]
    }

    /// The answer of a master that works.
    fn answer(&mut self, request: &Value) -> (String, Value) {
        if request.get("enc").and_then(Value::as_str) == Some("clear") {
            return ("_auth".to_owned(), self.auth(request.get("load").unwrap()));
        }
        let seal = Seal::parse(self.session.as_bytes()).unwrap();
        let Some(plain) = seal.open("", raw(request.get("load").unwrap()).unwrap()) else {
            return (String::new(), "bad load".into());
        };
        let load = payload::decode(&plain).unwrap();
        let text = |name: &str| load.get(name).unwrap().as_str().unwrap().to_owned();
        self.nonce = text("nonce");
        let token = raw(load.get("tok").unwrap()).unwrap();
        let minion = self.minion.as_ref().unwrap();
        assert_eq!(minion.open(token).as_deref(), Some(b"salt".as_slice()));
        match text("cmd").as_str() {
            "_pillar" => {
                let pillar = self.pillar_by(self.private(), &self.nonce, None);
                ("_pillar".to_owned(), pillar)
            }
            cmd => (cmd.to_owned(), self.sealed(&load, &self.nonce)),
        }
    }

    /// The answer to a request: the request.
    pub(super) fn sealed(&self, value: &Value, nonce: &str) -> Value {
        let seal = Seal::parse(self.session.as_bytes()).unwrap();
        bytes(seal.seal(nonce, &payload::encode(value).unwrap()).unwrap())
    }

    fn auth(&mut self, load: &Value) -> Value {
        self.authentications += 1;
        let text = |name: &str| load.get(name).unwrap().as_str().unwrap().to_owned();
        self.nonce = text("nonce");
        self.minion = Some(Public::from_pem(&text("pub")).unwrap());
        let token = load.get("token").and_then(raw);
        self.token = token.and_then(|token| self.private().decrypt(ENC, token));
        self.signed(self.accepted())
    }

    /// The contents of an acceptance.
    pub(super) fn accepted(&self) -> Map {
        let minion = self.minion.as_ref().unwrap();
        let sealed = |plain: &str| bytes(minion.encrypt(ENC, plain.as_bytes()).unwrap());
        let hash = hex(digest(&SHA256, self.fleet.as_bytes()).as_ref());
        let mut load = Map::new()
            .with("enc", "pub")
            .with("nonce", self.nonce.as_str())
            .with("pub_key", self.private().public().pem())
            .with("publish_port", i64::from(self.publish_port))
            .with("aes", sealed(&self.fleet))
            .with("session", sealed(&self.session))
            .with("sig", bytes(self.private().sign(hash.as_bytes()).unwrap()));
        if let Some(token) = &self.token {
            load.insert("token", bytes(minion.encrypt(ENC, token).unwrap()));
        }
        load
    }

    /// An answer to an authentication, signed by the master.
    pub(super) fn signed(&self, load: Map) -> Value {
        let load = payload::encode(&load.into()).unwrap();
        let signature = self.private().sign_message(SIG, &load);
        Map::new()
            .with("enc", "clear")
            .with("load", bytes(load))
            .with("sig", bytes(signature))
            .into()
    }

    /// A pillar that is signed by a key, for a nonce, and with another key inside.
    pub(super) fn pillar_by(&self, signer: &Private, nonce: &str, inner: Option<Value>) -> Value {
        let minion = self.minion.as_ref().unwrap();
        let key = new_key(9);
        let sealed = bytes(minion.encrypt(ENC, key.as_bytes()).unwrap());
        let data = Map::new()
            .with("key", inner.unwrap_or_else(|| sealed.clone()))
            .with("nonce", nonce)
            .with("pillar", Map::new().with("a", 1));
        let data = payload::encode(&data.into()).unwrap();
        let signature = signer.sign_message(SIG, &data);
        let signed = Map::new()
            .with("data", bytes(data))
            .with("sig", bytes(signature));
        let seal = Seal::parse(key.as_bytes()).unwrap();
        let pillar = seal
            .seal("", &payload::encode(&signed.into()).unwrap())
            .unwrap();
        Map::new()
            .with("key", sealed)
            .with("pillar", bytes(pillar))
            .into()
    }

    /// A publication, signed by the master.
    pub(super) fn published(&self, load: &Map) -> Value {
        self.published_by(self.private(), load)
    }

    /// A publication that is signed by a key.
    pub(super) fn published_by(&self, signer: &Private, load: &Map) -> Value {
        let seal = Seal::parse(self.fleet.as_bytes()).unwrap();
        let load = payload::encode(&load.clone().into()).unwrap();
        let sealed = seal.seal("", &load).unwrap();
        let signature = signer.sign_message(SIG, &sealed);
        Map::new()
            .with("enc", "aes")
            .with("load", bytes(sealed))
            .with("sig", bytes(signature))
            .with("sig_algo", SIG.name())
            .into()
    }
}

/// A stand-in that runs in threads until the test ends.
pub(super) struct Master {
    pub(super) state: Arc<Mutex<State>>,
    change: Arc<Mutex<Option<Change>>>,
    pub(super) settings: Settings,
    _folder: tempfile::TempDir,
    publish: Sender<Vec<u8>>,
    /// The number of probes on connections for requests that the minion has answered.
    pub(super) pongs: Arc<AtomicUsize>,
    pub(super) peers: Peers,
}

/// The addresses from which a minion has connected.
#[derive(Clone, Default)]
pub(super) struct Peers {
    pub(super) requests: Arc<Mutex<Vec<IpAddr>>>,
    pub(super) publications: Arc<Mutex<Vec<IpAddr>>>,
}

fn note(peers: &Mutex<Vec<IpAddr>>, stream: &TcpStream) {
    peers.lock().unwrap().push(stream.peer_addr().unwrap().ip());
}

impl Master {
    pub(super) fn start(transport: Transport) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let requests = TcpListener::bind("127.0.0.1:0").unwrap();
        let publications = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut settings = Settings::new("m1", "127.0.0.1", folder.path().join("pki"));
        settings.ret_port = requests.local_addr().unwrap().port();
        settings.transport = transport;
        settings.auth_timeout = Duration::from_secs(20);
        settings.auth_tries = 1;
        settings.request_tries = 1;
        settings.request_timeout = Duration::from_secs(20);
        let pem = settings.pki_dir.join("minion.pem");
        std::fs::create_dir_all(&settings.pki_dir).unwrap();
        std::fs::write(&pem, recorded("private")).unwrap();
        std::fs::set_permissions(&pem, std::fs::Permissions::from_mode(0o400)).unwrap();
        let state = Arc::new(Mutex::new(State {
            key: OWN,
            fleet: new_key(1),
            session: new_key(2),
            authentications: 0,
            nonce: String::new(),
            minion: None,
            token: None,
            publish_port: publications.local_addr().unwrap().port(),
        }));
        let change: Arc<Mutex<Option<Change>>> = Arc::default();
        let (publish, published) = channel();
        let pongs = Arc::<AtomicUsize>::default();
        let peers = Peers::default();
        let serving = (state.clone(), change.clone(), pongs.clone());
        let (of_requests, of_publications) = (peers.requests.clone(), peers.publications.clone());
        std::thread::spawn(move || {
            serve(
                &requests,
                transport,
                &of_requests,
                &serving.0,
                &serving.1,
                &serving.2,
            );
        });
        std::thread::spawn(move || {
            broadcast(&publications, transport, &of_publications, published);
        });
        Self {
            state,
            change,
            settings,
            _folder: folder,
            publish,
            pongs,
            peers,
        }
    }

    /// Changes the answers from now on.
    pub(super) fn change(
        &self,
        change: impl FnMut(&State, &str, Value) -> Reaction + Send + 'static,
    ) {
        *self.change.lock().unwrap() = Some(Box::new(change));
    }

    pub(super) fn identity(&self) -> Identity {
        Identity::load(&self.settings).unwrap()
    }

    pub(super) async fn join(&self) -> Result<Joined, Error> {
        join(&self.settings, &self.identity()).await
    }

    pub(super) async fn session(&self) -> Session {
        match self.join().await.unwrap() {
            Joined::Accepted(session) => session,
            other => panic!("{other:?}"),
        }
    }

    /// Publishes any value.
    pub(super) fn publish(&self, value: &Value) {
        let bytes = payload::encode(value).unwrap();
        self.publish.send(bytes).unwrap();
    }

    /// The path of the remembered key.
    pub(super) fn remembered(&self) -> std::path::PathBuf {
        self.settings.pki_dir.join("minion_master.pub")
    }
}

/// The bytes of a message in a transport.
pub(super) fn framed(transport: Transport, mid: &str, message: &[u8]) -> Vec<u8> {
    match transport {
        Transport::ZeroMq => crate::zmtp::request(message),
        Transport::Tcp => {
            let value = payload::decode(message).unwrap();
            payload::encode(&crate::tcp::message(Some(mid), &value)).unwrap()
        }
    }
}

fn serve(
    listener: &TcpListener,
    transport: Transport,
    peers: &Mutex<Vec<IpAddr>>,
    state: &Arc<Mutex<State>>,
    change: &Arc<Mutex<Option<Change>>>,
    pongs: &Arc<AtomicUsize>,
) {
    for stream in listener.incoming() {
        let stream = stream.unwrap();
        note(peers, &stream);
        let (state, change, pongs) = (state.clone(), change.clone(), pongs.clone());
        std::thread::spawn(move || converse(stream, transport, &state, &change, &pongs));
    }
}

/// Answers the requests of one connection until it ends.
fn converse(
    mut stream: TcpStream,
    transport: Transport,
    state: &Mutex<State>,
    change: &Mutex<Option<Change>>,
    pongs: &AtomicUsize,
) -> Option<()> {
    if transport == Transport::ZeroMq {
        greet(&mut stream, b"ROUTER")?;
    }
    loop {
        let (mid, request) = match transport {
            Transport::ZeroMq => (String::new(), message(&mut stream, pongs)?),
            Transport::Tcp => received(&mut stream)?,
        };
        let reaction = {
            let mut state = state.lock().unwrap();
            let (cmd, answer) = state.answer(&request);
            match &mut *change.lock().unwrap() {
                Some(change) => change(&state, &cmd, answer),
                None => Reaction::Answer(answer),
            }
        };
        match reaction {
            Reaction::Answer(answer) => {
                let answer = payload::encode(&answer).unwrap();
                stream.write_all(&framed(transport, &mid, &answer)).ok()?;
                if transport == Transport::ZeroMq {
                    stream.write_all(PING).ok()?;
                }
            }
            Reaction::Bytes(bytes) => return stream.write_all(&bytes).ok(),
            Reaction::Slowly(bytes) => {
                for byte in bytes {
                    stream.write_all(&[byte]).ok()?;
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            Reaction::Silence => {}
            Reaction::Late(wait, answer) => {
                std::thread::sleep(wait);
                let answer = payload::encode(&answer).unwrap();
                stream.write_all(&framed(transport, &mid, &answer)).ok()?;
            }
        }
    }
}

/// Sends all publications to the last connection.
fn broadcast(
    listener: &TcpListener,
    transport: Transport,
    peers: &Mutex<Vec<IpAddr>>,
    published: Receiver<Vec<u8>>,
) {
    let published = Arc::new(Mutex::new(published));
    let last = Arc::<AtomicUsize>::default();
    for (number, stream) in listener.incoming().enumerate() {
        let mut stream = stream.unwrap();
        note(peers, &stream);
        last.store(number, Ordering::Relaxed);
        let (published, last) = (published.clone(), last.clone());
        std::thread::spawn(move || {
            subscribed(&mut stream, transport)?;
            let published = published.lock().unwrap();
            while last.load(Ordering::Relaxed) == number {
                if let Ok(bytes) = published.recv_timeout(Duration::from_millis(10)) {
                    stream.write_all(&publication(transport, bytes)).ok()?;
                }
            }
            Some(())
        });
    }
}

fn subscribed(stream: &mut TcpStream, transport: Transport) -> Option<()> {
    match transport {
        Transport::ZeroMq => {
            greet(stream, b"PUB")?;
            let (_, subscription) = frame(stream, &AtomicUsize::default())?;
            assert_eq!(subscription, [1]);
            stream.write_all(PING).ok()
        }
        Transport::Tcp => {
            let (_, presence) = received(stream)?;
            assert!(presence.get("load").is_some());
            Some(())
        }
    }
}

/// The bytes of a publication in a transport.
fn publication(transport: Transport, bytes: Vec<u8>) -> Vec<u8> {
    match transport {
        Transport::ZeroMq => {
            let long = (bytes.len() as u64).to_be_bytes();
            [&[2][..], &long, &bytes].concat()
        }
        Transport::Tcp => {
            let message = crate::tcp::message(None, &Value::Bytes(bytes.into()));
            payload::encode(&message).unwrap()
        }
    }
}

fn received(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut all = Vec::new();
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        all.push(byte[0]);
        if let Ok(Value::Map(mut message)) = payload::decode(&all) {
            let mid = message.get("head").unwrap().get("mid");
            let mid = mid.and_then(Value::as_str).unwrap_or_default().to_owned();
            return Some((mid, message.remove("body").unwrap()));
        }
    }
}

// ---- ZMTP, of the other side ----

/// Reads a frame, and counts the answers to probes before it.
fn frame(stream: &mut TcpStream, pongs: &AtomicUsize) -> Option<(u8, Vec<u8>)> {
    loop {
        let (flags, body) = any_frame(stream)?;
        if flags & 4 == 0 || body.starts_with(b"\x05READY") {
            return Some((flags, body));
        }
        if body == b"\x04PONGabc" {
            pongs.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn any_frame(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).ok()?;
    let [flags, short] = head;
    let mut length = usize::from(short);
    if flags & 2 != 0 {
        let mut rest = [0; 7];
        stream.read_exact(&mut rest).ok()?;
        length = rest
            .iter()
            .fold(length, |all, byte| all << 8 | usize::from(*byte));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((flags, body))
}

fn greet(stream: &mut TcpStream, kind: &[u8]) -> Option<()> {
    let mut hello = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL".to_vec();
    hello.resize(64, 0);
    stream.write_all(&hello).ok()?;
    stream.read_exact(&mut [0; 64]).ok()?;
    let (flags, body) = any_frame(stream)?;
    assert!(flags == 4 && body.starts_with(b"\x05READY"));
    let length = u32::try_from(kind.len()).unwrap().to_be_bytes();
    let ready = [b"\x05READY\x0bSocket-Type".as_slice(), &length, kind].concat();
    let size = u8::try_from(ready.len()).unwrap();
    stream.write_all(&[&[4, size][..], &ready].concat()).ok()
}

fn message(stream: &mut TcpStream, pongs: &AtomicUsize) -> Option<Value> {
    let (flags, empty) = frame(stream, pongs)?;
    assert!(flags == 1 && empty.is_empty());
    let (flags, body) = frame(stream, pongs)?;
    assert!(flags & 1 == 0);
    Some(payload::decode(&body).unwrap())
}
