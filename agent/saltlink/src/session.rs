//! [`join`] and the [`Session`] that it returns.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use link::wait;
use ring::digest::{SHA256, digest};
use sha1::{Digest, Sha1};
use smol::future::pending;
use value::python::hex;
use value::{Map, Value, log};
use wire::payload;

use crate::auth::{Answer, Keys, VERSION, authenticate};
use crate::connection::{Connection, Purpose, place};
use crate::limits::{REAUTH, UNOPENED_MAX};
use crate::pool::{Failed, Pool};
use crate::publication::Envelope;
use crate::random::nonce;
use crate::seal::Seal;
use crate::{Error, Identity, Kind, Publication, Settings, Transport, raw};

/// The answer of a master to an authentication.
#[derive(Debug)]
pub enum Joined {
    /// The key is accepted, and the channel of publications is open.
    Accepted(Session),
    /// The key waits for acceptance (`salt-key -a ID`): try again after `acceptance_wait_time`.
    Pending,
    /// The key is rejected or denied: try again only with `rejected_retry`.
    Rejected,
    /// The master has as many minions as `max_minions` allows: try again later.
    Full,
}

/// A session with a Salt master. When any of its functions returns an error of the kind
/// [`Lost`](crate::Kind::Lost) the caller joins again. A clone is cheap and is the same session.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    settings: Settings,
    identity: Identity,
    master: String,
    pool: Pool,
    keys: Mutex<Arc<Keys>>,
    /// Held during an authentication, so that there is only one at a time.
    authenticating: smol::lock::Mutex<()>,
    publications: smol::lock::Mutex<Publications>,
}

/// The commands that a master carries out again if they come again: a job, an event or a part of a
/// file would be doubled. They are sent a second time only if the master cannot have the first.
const ONCE: [&str; 5] = [
    "_file_recv",
    "_minion_event",
    "_return",
    "minion_pub",
    "minion_runner",
];

/// The channel of publications.
struct Publications {
    /// `None` for a command, which needs none.
    connection: Option<Connection>,
    /// A publication that has been received but not returned yet.
    waiting: Option<Value>,
    /// The hashes of those that no key has opened. They are not worth another authentication.
    unopened: VecDeque<[u8; 32]>,
    /// The time of the last authentication because of one of them.
    reauthenticated: Option<Instant>,
}

/// Connects to the master, authenticates, opens the channel of publications and subscribes (unless
/// the settings need none). The authentication is tried `auth_tries` times, `auth_timeout` each.
///
/// # Errors
/// When the master cannot be reached, does not answer, or is not the remembered one.
pub async fn join(settings: &Settings, identity: &Identity) -> Result<Joined, Error> {
    let pool = Pool::new(settings.clone());
    let keys = match authenticate(settings, identity, &pool).await? {
        Answer::Accepted(keys) => keys,
        Answer::Pending => return Ok(Joined::Pending),
        Answer::Rejected => return Ok(Joined::Rejected),
        Answer::Full => return Ok(Joined::Full),
    };
    let connection = match settings.publications {
        true => Some(subscribe(settings, identity, &keys).await?),
        false => None,
    };
    Ok(Joined::Accepted(Session(Arc::new(Inner {
        settings: settings.clone(),
        identity: identity.clone(),
        master: place(&settings.host, settings.ret_port),
        pool,
        keys: Mutex::new(Arc::from(keys)),
        authenticating: smol::lock::Mutex::new(()),
        publications: smol::lock::Mutex::new(Publications {
            connection,
            waiting: None,
            unopened: VecDeque::new(),
            reauthenticated: None,
        }),
    }))))
}

async fn subscribe(
    settings: &Settings,
    identity: &Identity,
    keys: &Keys,
) -> Result<Connection, Error> {
    let port = settings.publish_port.unwrap_or(keys.publish_port);
    let connection = Connection::open(settings, port, Purpose::Publications).await?;
    match settings.transport {
        Transport::ZeroMq if settings.zmq_filtering => {
            let own = hex(&Sha1::digest(settings.id.as_bytes()));
            connection.subscribe(&["broadcast", &own]).await?;
        }
        Transport::ZeroMq => connection.subscribe(&[""]).await?,
        Transport::Tcp => {
            let token = Value::Bytes(identity.token().into());
            let presence = Map::new()
                .with("id", settings.id.as_str())
                .with("tok", token);
            let sealed = keys.fleet.seal("", &encoded(&presence.into())?)?;
            let message = Map::new()
                .with("enc", "aes")
                .with("load", Value::Bytes(sealed.into()))
                .with("version", VERSION);
            connection.tell(&message.into()).await?;
        }
    }
    Ok(connection)
}

fn encoded(value: &Value) -> Result<Vec<u8>, Error> {
    let encoded = payload::encode(value);
    encoded.map_err(|error| Error::Local(format!("cannot send a request: {error}")))
}

/// The answer to a request, with what is needed to open it.
struct Exchange {
    answer: Value,
    nonce: String,
    keys: Arc<Keys>,
}

impl Session {
    /// Sends a request and returns the answer of the master. `cmd`, `id`, `nonce`, `ts` and `tok`
    /// are added to the load. Any number of requests can be under way. If the key of the session
    /// is no longer valid, the minion authenticates again, once, and repeats the request. A request
    /// without an answer is repeated `request_tries` times; a command that must not be doubled waits
    /// as long as all of these tries instead, once it is written.
    ///
    /// # Errors
    /// When the load is too large, the connection is lost, the master does not answer within
    /// `request_timeout`, or refuses.
    pub async fn request(&self, cmd: &str, load: Map) -> Result<Value, Error> {
        self.asked(cmd, load, |exchange| {
            let sealed = raw(&exchange.answer)?;
            let plain = exchange.keys.session.open(&exchange.nonce, sealed)?;
            Some(payload::decode(&plain).map_err(|error| self.odd(&error.to_string())))
        })
        .await
    }

    /// Requests the pillar (`_pillar`). The load has the grains, `saltenv`, `pillarenv` and so on.
    ///
    /// # Errors
    /// As [`Session::request`]; also when the pillar is not signed by the master or belongs to
    /// another request. An error never becomes an empty pillar.
    pub async fn pillar(&self, load: Map) -> Result<Value, Error> {
        self.asked("_pillar", load, |exchange| {
            let key = exchange.answer.get("key").and_then(raw)?;
            let sealed = exchange.answer.get("pillar").and_then(raw)?;
            Some(self.opened_pillar(exchange, key, sealed))
        })
        .await
    }

    /// Sends a request until `open` returns its answer. `None` means that the master did not take
    /// it, or that the answer is not for this session.
    async fn asked(
        &self,
        cmd: &str,
        load: Map,
        open: impl Fn(&Exchange) -> Option<Result<Value, Error>>,
    ) -> Result<Value, Error> {
        let first = self.exchange(cmd, &load).await?;
        if let Some(opened) = open(&first) {
            return opened;
        }
        let keys = self.reauthenticate(&first.keys).await?;
        // A text is a refusal. Bytes mean that the command was done: the answer may have the new key.
        if ONCE.contains(&cmd) && matches!(first.answer, Value::Bytes(_)) {
            let odd = || Err(self.odd("an answer that the key of the session does not open"));
            return open(&Exchange { keys, ..first }).unwrap_or_else(odd);
        }
        let second = self.exchange(cmd, &load).await?;
        open(&second).unwrap_or_else(|| Err(self.refused(cmd, &second.answer)))
    }

    /// Sends a request up to `request_channel_tries` times, while the master is lost or silent.
    async fn exchange(&self, cmd: &str, load: &Map) -> Result<Exchange, Error> {
        let settings = &self.0.settings;
        let mut tries = settings.request_tries.max(1);
        let is_once = ONCE.contains(&cmd);
        let limit = match is_once {
            true => settings.request_timeout.saturating_mul(tries),
            false => settings.request_timeout,
        };
        loop {
            tries -= 1;
            let keys = self.keys();
            let nonce = nonce()?;
            let request = self.sealed(cmd, load, &nonce, &keys.session)?;
            let answer = self.0.pool.exchange(&request, limit, cmd).await;
            match answer {
                Err(Failed { error, was_sent })
                    if tries > 0 && error.kind() == Kind::Lost && !(is_once && was_sent) =>
                {
                    log::debug(format_args!("retrying {cmd}: {error}"));
                }
                answer => {
                    return Ok(Exchange {
                        answer: answer?,
                        nonce,
                        keys,
                    });
                }
            }
        }
    }

    fn sealed(&self, cmd: &str, load: &Map, nonce: &str, key: &Seal) -> Result<Value, Error> {
        let settings = &self.0.settings;
        let now = value::clock::since_epoch();
        let mut load = load.clone();
        load.insert("cmd", cmd);
        load.insert("id", settings.id.as_str());
        load.insert("nonce", nonce);
        load.insert("ts", now.as_secs() as i64);
        load.insert("tok", Value::Bytes(self.0.identity.token().into()));
        let sealed = key.seal("", &encoded(&load.into())?)?;
        let request = Map::new()
            .with("enc", "aes")
            .with("version", VERSION)
            .with("id", settings.id.as_str())
            .with("enc_algo", settings.enc_algo.name())
            .with("sig_algo", settings.sig_algo.name())
            .with("load", Value::Bytes(sealed.into()));
        Ok(request.into())
    }

    fn opened_pillar(
        &self,
        exchange: &Exchange,
        key: &[u8],
        sealed: &[u8],
    ) -> Result<Value, Error> {
        let settings = &self.0.settings;
        let decrypted = self.0.identity.key().decrypt(settings.enc_algo, key);
        let seal = decrypted.as_deref().and_then(Seal::parse);
        let plain = seal.and_then(|seal| seal.open("", sealed));
        let plain = plain.ok_or_else(|| self.odd("a pillar that is not sealed for this minion"))?;
        let signed = self.decoded(&plain)?;
        let part = |name: &str| signed.get(name).and_then(raw).unwrap_or_default();
        let master = &exchange.keys.master;
        if !master.verifies(settings.sig_algo, part("data"), part("sig")) {
            return Err(self.distrusted("the pillar is not signed by it"));
        }
        let data = self.decoded(part("data"))?;
        let is_for_this = data.get("key").and_then(raw) == Some(key)
            && data.get("nonce").and_then(Value::as_str) == Some(&exchange.nonce);
        match data.get("pillar") {
            _ if !is_for_this => Err(self.distrusted("the pillar belongs to another request")),
            Some(pillar @ Value::Map(_)) => Ok(pillar.clone()),
            _ => Err(self.odd("a pillar that is no map")),
        }
    }

    /// Waits for the next publication, for as long as the connection lives. Forged, unsigned and
    /// replayed ones are logged and skipped. If the key of the fleet has changed, the minion
    /// authenticates again and opens the same publication. A caller that does not wait for the end
    /// loses none. Only one task waits at a time.
    ///
    /// # Errors
    /// When the connection is lost, or the minion is no longer accepted.
    pub async fn next_publication(&self) -> Result<Publication, Error> {
        let mut publications = self.0.publications.lock().await;
        loop {
            let waiting = match &publications.waiting {
                Some(waiting) => waiting.clone(),
                None => {
                    let Some(connection) = &publications.connection else {
                        // No deadline: without the channel there is no publication.
                        return pending().await;
                    };
                    // No deadline: a publication may never come, and probes end a dead connection.
                    let next = connection.next().await?;
                    publications.waiting.insert(next).clone()
                }
            };
            let read = self.read(&mut publications, &waiting).await;
            publications.waiting = None;
            match read? {
                Ok(publication) => return Ok(publication),
                Err(why) => log::warning(format_args!(
                    "ignoring a publication of the Salt master {}: {why}",
                    self.0.master
                )),
            }
        }
    }

    /// Verifies and opens a publication. The inner error is the reason to ignore it.
    async fn read(
        &self,
        publications: &mut Publications,
        value: &Value,
    ) -> Result<Result<Publication, String>, Error> {
        let settings = &self.0.settings;
        let envelope = match Envelope::parse(value) {
            Ok(envelope) => envelope,
            Err(why) => return Ok(Err(why.to_owned())),
        };
        let mut keys = self.keys();
        if let Err(why) = envelope.verify(&keys.master, settings.verify_signed_publications) {
            return Ok(Err(why.to_owned()));
        }
        let mut plain = keys.fleet.open("", envelope.load);
        if plain.is_none() && publications.may_reauthenticate(envelope.load).await {
            keys = self.reauthenticate(&keys).await?;
            plain = keys.fleet.open("", envelope.load);
        }
        let Some(plain) = plain else {
            publications.did_not_open(envelope.load);
            return Ok(Err("it is not sealed with the key of the fleet".to_owned()));
        };
        let load = match payload::decode(&plain) {
            Ok(load) => load,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let serial = load.get("serial").and_then(Value::as_int);
        if !self.0.identity.serials().accept(keys.fleet.name, serial) {
            return Ok(Err(
                "it was published before (its serial is not new)".to_owned()
            ));
        }
        Ok(Publication::parse(load))
    }

    /// Gets new keys, unless another task has got them since `old`.
    async fn reauthenticate(&self, old: &Arc<Keys>) -> Result<Arc<Keys>, Error> {
        let _one = self.0.authenticating.lock().await;
        let current = self.keys();
        if !Arc::ptr_eq(&current, old) {
            return Ok(current);
        }
        let inner = &self.0;
        let refused = |why: &str| Error::Lost {
            master: inner.master.clone(),
            reason: format!("the minion authenticated again, and its key {why}"),
        };
        match authenticate(&inner.settings, &inner.identity, &inner.pool).await? {
            Answer::Accepted(keys) => {
                let keys: Arc<Keys> = Arc::from(keys);
                let mut current = inner.keys.lock().unwrap_or_else(PoisonError::into_inner);
                current.clone_from(&keys);
                Ok(keys)
            }
            Answer::Pending => Err(refused("waits for acceptance")),
            Answer::Rejected => Err(refused("is rejected")),
            Answer::Full => Err(refused("is one too many for the master (max_minions)")),
        }
    }

    fn keys(&self) -> Arc<Keys> {
        let keys = self.0.keys.lock();
        keys.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the master, as host and port, for logs.
    #[must_use]
    pub fn master(&self) -> &str {
        &self.0.master
    }

    fn decoded(&self, bytes: &[u8]) -> Result<Value, Error> {
        payload::decode(bytes).map_err(|error| self.odd(&error.to_string()))
    }

    fn odd(&self, what: &str) -> Error {
        Error::Protocol {
            master: self.0.master.clone(),
            what: what.to_owned(),
        }
    }

    fn distrusted(&self, why: &str) -> Error {
        Error::Distrusted {
            master: self.0.master.clone(),
            why: why.to_owned(),
        }
    }

    fn refused(&self, cmd: &str, answer: &Value) -> Error {
        Error::refused(&self.0.master, cmd, answer)
    }
}

impl Publications {
    /// Returns whether a publication that did not open is a reason to authenticate again. Waits if
    /// the last time was just now.
    async fn may_reauthenticate(&mut self, load: &[u8]) -> bool {
        if self.unopened.contains(&name(load)) {
            return false;
        }
        if let Some(last) = self.reauthenticated
            && last.elapsed() < REAUTH
        {
            wait::until(last + REAUTH).await;
        }
        self.reauthenticated = Some(Instant::now());
        true
    }

    fn did_not_open(&mut self, load: &[u8]) {
        self.unopened.truncate(UNOPENED_MAX - 1);
        self.unopened.push_front(name(load));
    }
}

/// The hash of a publication.
fn name(load: &[u8]) -> [u8; 32] {
    let hash = digest(&SHA256, load);
    hash.as_ref().try_into().unwrap_or_default()
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({})", self.0.master)
    }
}
