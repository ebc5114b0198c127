//! Peers with full control of their messages: a client that sends raw frames, a minion without a
//! program, and a false master.

use std::path::Path;
use std::sync::Arc;

use link::unix::Pipe;
use link::{KeyPair, Limits, Listener, Part};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Connection, Endpoint, RecvStream, SendStream};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use smol::future::FutureExt;
use value::{Map, Value};
use wire::{Answer, Control, Frame, Hello, Request, Way, Welcome};

use super::{Fleet, PATIENCE};

mod together;
mod web;

/// Runs a future with a timeout.
pub(crate) fn run<T>(what: impl Future<Output = T>) -> T {
    let late = async {
        smol::Timer::after(PATIENCE).await;
        panic!("timed out after {PATIENCE:?}")
    };
    smol::block_on(what.or(late))
}

/// Accepts any key as the master's.
#[derive(Debug)]
struct AnyMaster;

impl ServerCertVerifier for AnyMaster {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

fn config(pair: &KeyPair, alpn: &[u8]) -> quinn::ClientConfig {
    let key = PrivatePkcs8KeyDer::from_pem_slice(pair.pem().as_bytes()).unwrap();
    let key = rustls::crypto::ring::sign::any_eddsa_type(&key).unwrap();
    let spki = CertificateDer::from(pair.public().spki());
    let certified = rustls::sign::CertifiedKey::new(vec![spki], key);
    let resolver = AlwaysResolvesClientRawPublicKeys::new(Arc::new(certified));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut crypto = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyMaster))
        .with_client_cert_resolver(Arc::new(resolver));
    crypto.alpn_protocols = vec![alpn.to_vec()];
    let crypto = QuicClientConfig::try_from(crypto).unwrap();
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    let mut transport = quinn::TransportConfig::default();
    transport.keep_alive_interval(Some(std::time::Duration::from_secs(1)));
    config.transport_config(Arc::new(transport));
    config
}

/// Returns the first message of a minion.
pub(crate) fn hello(id: &str) -> Hello {
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

/// Returns the bytes of a frame.
pub(crate) fn bytes(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(wire::Limits::STREAM, &mut bytes).unwrap();
    bytes
}

/// A connection to a master with any key and any messages.
pub(crate) struct Hostile {
    _endpoint: Endpoint,
    pub(crate) connection: Connection,
    send: SendStream,
    receive: RecvStream,
}

impl Hostile {
    pub(crate) async fn connect(port: u16, pair: &KeyPair, alpn: &[u8]) -> Result<Self, String> {
        Self::connect_from(1, port, pair, alpn).await
    }

    /// Does the same from another address of this machine, 127.0.0.LAST.
    pub(crate) async fn connect_from(
        last: u8,
        port: u16,
        pair: &KeyPair,
        alpn: &[u8],
    ) -> Result<Self, String> {
        let endpoint =
            Endpoint::client(([127, 0, 0, last], 0).into()).map_err(|e| e.to_string())?;
        let address = ([127, 0, 0, 1], port).into();
        let connecting = endpoint.connect_with(config(pair, alpn), address, "x");
        let connection = connecting.unwrap().await.map_err(|e| e.to_string())?;
        let opened = connection.open_bi().await.map_err(|e| e.to_string())?;
        Ok(Self {
            _endpoint: endpoint,
            connection,
            send: opened.0,
            receive: opened.1,
        })
    }

    /// Connects and sends a hello. Returns the connection and the master's answer.
    pub(crate) async fn greeted(port: u16, pair: &KeyPair, id: &str) -> (Self, Option<Frame>) {
        let mut peer = Self::connect(port, pair, wire::ALPN).await.unwrap();
        peer.say(&bytes(&hello(id).into())).await;
        let answer = peer.hear().await;
        (peer, answer)
    }

    /// Connects from another address and sends this hello. Returns the connection and the master's
    /// answer.
    pub(crate) async fn greeted_from(
        last: u8,
        port: u16,
        pair: &KeyPair,
        hello: Hello,
    ) -> (Self, Option<Frame>) {
        let mut peer = Self::connect_from(last, port, pair, wire::ALPN)
            .await
            .unwrap();
        peer.say(&bytes(&hello.into())).await;
        let answer = peer.hear().await;
        (peer, answer)
    }

    /// Connects as a minion that the master accepts.
    pub(crate) async fn let_in(port: u16, pair: &KeyPair, id: &str) -> Self {
        let (peer, answer) = Self::greeted(port, pair, id).await;
        assert!(
            matches!(answer, Some(Frame::Control(Control::Welcome(_)))),
            "{id}: {answer:?}"
        );
        peer
    }

    /// Sends a message on the control stream; the master may have closed it already.
    pub(crate) async fn say(&mut self, bytes: &[u8]) {
        let _ = self.send.write_all(bytes).await;
    }

    pub(crate) async fn hear(&mut self) -> Option<Frame> {
        hear(&mut self.receive).await
    }

    /// Sends a request on a separate stream and returns the frames of the answer.
    pub(crate) async fn ask(&self, request: impl Into<Request>) -> Vec<Frame> {
        let Ok((mut send, mut receive)) = self.connection.open_bi().await else {
            return Vec::new();
        };
        let asked = send.write_all(&bytes(&request.into().into())).await;
        let mut answer = Vec::new();
        while asked.is_ok()
            && let Some(frame) = hear(&mut receive).await
        {
            answer.push(frame);
        }
        answer
    }

    /// Returns the value with which a request is answered.
    pub(crate) async fn done(&self, request: impl Into<Request>) -> Value {
        let answer = self.ask(request).await;
        match answer.last() {
            Some(Frame::Answer(Answer::Done(done))) => done.data.clone(),
            _ => panic!("{:?}", rejection(&answer)),
        }
    }

    /// Returns the code and the message with which a request is refused.
    pub(crate) async fn refused(&self, request: impl Into<Request>) -> (String, String) {
        let answer = self.ask(request).await;
        rejection(&answer).unwrap_or_else(|| panic!("not refused: {answer:?}"))
    }

    /// Returns the reason with which the master closed the connection.
    pub(crate) async fn closed(&self) -> String {
        match self.connection.closed().await {
            quinn::ConnectionError::ApplicationClosed(close) => {
                String::from_utf8_lossy(&close.reason).into_owned()
            }
            other => other.to_string(),
        }
    }
}

fn rejection(answer: &[Frame]) -> Option<(String, String)> {
    match answer.last() {
        Some(Frame::Answer(Answer::Failed(no))) => Some((no.reason.clone(), no.text.clone())),
        _ => None,
    }
}

async fn hear(receive: &mut RecvStream) -> Option<Frame> {
    let mut length = [0; 4];
    receive.read_exact(&mut length).await.ok()?;
    let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
    receive.read_exact(&mut bytes).await.ok()?;
    Frame::decode(&bytes, wire::Limits::STREAM).ok()
}

/// Creates a new key.
pub(crate) fn key() -> KeyPair {
    KeyPair::generate().unwrap()
}

/// Returns the message that a master sends to a minion that it accepts.
pub(crate) fn welcome() -> Welcome {
    Welcome {
        version: 1,
        features: Vec::new(),
        bound: Map::new(),
        epoch: 0,
        durable: 0,
        program: "0".into(),
        stamp: String::new(),
    }
}

/// Returns the frames of the corpus by name.
pub(crate) fn golden() -> Vec<(String, Frame)> {
    let folder = tests::scratch::corpus().join("wire/v1");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "bin") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let bytes = std::fs::read(&path).unwrap();
            let frame = Frame::decode(&bytes[4..], wire::Limits::STREAM).unwrap();
            all.push((name, frame));
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(all.len() > 30);
    all
}

/// Sends a request to a daemon of this machine. Returns the parts of its answer, or an error.
pub(crate) fn asked_locally(
    socket: &Path,
    way: Way,
    request: impl Into<Request>,
) -> Result<Vec<Value>, link::Error> {
    let mut pipe = Pipe::connect(socket, way, Limits::default())?;
    pipe.ask(request)?;
    let mut parts = Vec::new();
    loop {
        match pipe.next(Some(PATIENCE))? {
            Part::Data(part) => parts.push(part),
            Part::Done(end) => {
                parts.push(end);
                return Ok(parts);
            }
        }
    }
}

impl Fleet {
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn master_socket(&self) -> std::path::PathBuf {
        self.path("master/run/master.sock")
    }

    /// Returns the parsed output of a command that prints JSON.
    pub(super) fn json(&self, words: &[&str]) -> serde_json::Value {
        let out = self.run(words).out;
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{words:?}: {error}: {out}"))
    }

    /// Listens in place of the master with another key.
    pub(super) fn false_master(&self, pair: &KeyPair) -> Listener {
        let address = ([127, 0, 0, 1], self.port).into();
        let mut bound = None;
        let began = std::time::Instant::now();
        while bound.is_none() && began.elapsed() < PATIENCE {
            bound = Listener::bind(address, pair, Limits::default()).ok();
        }
        bound.unwrap()
    }

    /// Asserts that the master still serves others.
    pub(super) fn serves_others(&self, id: &str) {
        run(async {
            let other = Hostile::let_in(self.port, &key(), id).await;
            assert_eq!(other.done(wire::Ping {}).await, Value::Bool(true));
        });
    }
}
