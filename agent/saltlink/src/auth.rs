//! Authentication: proves the minion's key, and gets the keys of the fleet and of the session.

use ring::digest::{SHA256, digest};
use value::python::hex;
use value::{Map, Value, random};
use wire::payload;

use crate::connection::place;
use crate::pool::Pool;
use crate::random::nonce;
use crate::rsa_keys::Public;
use crate::seal::Seal;
use crate::trust::Trust;
use crate::{Error, Identity, Settings, raw};

/// The version of the protocol.
pub(crate) const VERSION: i64 = 3;
/// The text between a key and the token, with the master's `auth_mode: 2`.
const TOKEN_MARK: &[u8] = b"_|-";
/// The number of random bytes of a token.
const TOKEN: usize = 32;

/// The keys that an authentication results in.
#[derive(Debug)]
pub(crate) struct Keys {
    /// The master's key.
    pub(crate) master: Public,
    /// The key of the fleet, by which publications are sealed.
    pub(crate) fleet: Seal,
    /// The key of this minion, by which requests and their answers are sealed.
    pub(crate) session: Seal,
    /// The port of publications.
    pub(crate) publish_port: u16,
}

/// The decision of a master.
pub(crate) enum Answer {
    Accepted(Box<Keys>),
    Pending,
    Rejected,
    Full,
}

/// The context of one authentication.
struct Attempt<'a> {
    settings: &'a Settings,
    identity: &'a Identity,
    trust: Trust<'a>,
    master: String,
    nonce: String,
    token: String,
}

/// Authenticates. Tries `auth_tries` times, `auth_timeout` each, while the master is silent or
/// signs its refusals wrongly.
pub(crate) async fn authenticate(
    settings: &Settings,
    identity: &Identity,
    pool: &Pool,
) -> Result<Answer, Error> {
    let mut tries = settings.auth_tries.max(1);
    loop {
        tries -= 1;
        let attempt = Attempt::new(settings, identity)?;
        match attempt.run(pool).await {
            Err(Error::Silent { .. } | Error::Lost { .. }) if tries > 0 => {}
            done => return done,
        }
    }
}

impl<'a> Attempt<'a> {
    fn new(settings: &'a Settings, identity: &'a Identity) -> Result<Self, Error> {
        Ok(Self {
            settings,
            identity,
            trust: Trust::load(settings)?,
            master: place(&settings.host, settings.ret_port),
            nonce: nonce()?,
            token: hex(&random::array::<TOKEN>()?),
        })
    }

    async fn run(&self, pool: &Pool) -> Result<Answer, Error> {
        let request = self.request()?;
        let limit = self.settings.auth_timeout;
        let answer = pool.exchange(&request, limit, "authentication").await?;
        let (load, signature) = self.signed(&answer)?;
        let decoded = payload::decode(load).map_err(|error| self.odd(&error.to_string()))?;
        let Value::Map(answer) = decoded else {
            return Err(self.odd("an authentication that is no map"));
        };
        if answer.get("nonce").and_then(Value::as_str) != Some(&self.nonce) {
            return Err(self.odd("the answer to another authentication"));
        }
        match answer.get("pub_key").and_then(Value::as_str) {
            Some(pem) => self.accepted(&answer, pem, load, signature),
            None => self.refused(&answer, load, signature),
        }
    }

    fn request(&self) -> Result<Value, Error> {
        let settings = self.settings;
        let mut load = Map::new()
            .with("cmd", "_auth")
            .with("id", settings.id.as_str())
            .with("nonce", self.nonce.as_str())
            .with("enc_algo", settings.enc_algo.name())
            .with("sig_algo", settings.sig_algo.name())
            .with("pub", self.identity.public_pem());
        if let Some(master) = &self.trust.remembered {
            let token = master.encrypt(settings.enc_algo, self.token.as_bytes());
            let token = token.map_err(|error| {
                Error::Local(format!("cannot encrypt with the master's key: {error}"))
            })?;
            load.insert("token", Value::Bytes(token.into()));
        }
        if !settings.autosign_grains.is_empty() {
            load.insert("autosign_grains", settings.autosign_grains.clone());
        }
        let request = Map::new().with("enc", "clear").with("load", load);
        Ok(request.with("version", VERSION).into())
    }

    /// Returns the signed bytes of an answer, and their signature. A map instead of the bytes is a
    /// refusal in words without a signature, and proves nothing else.
    fn signed<'b>(&self, answer: &'b Value) -> Result<(&'b [u8], &'b [u8]), Error> {
        let load = answer.get("load");
        match load.and_then(raw) {
            Some(load) => Ok((load, answer.get("sig").and_then(raw).unwrap_or_default())),
            None => {
                let words = load.and_then(|load| load.get("ret")).unwrap_or(answer);
                Err(Error::refused(&self.master, "the authentication", words))
            }
        }
    }

    fn odd(&self, what: &str) -> Error {
        Error::Protocol {
            master: self.master.clone(),
            what: what.to_owned(),
        }
    }

    fn distrusted(&self, why: &str) -> Error {
        Error::Distrusted {
            master: self.master.clone(),
            why: why.to_owned(),
        }
    }

    fn verify(&self, master: &Public, load: &[u8], signature: &[u8]) -> Result<(), Error> {
        match master.verifies(self.settings.sig_algo, load, signature) {
            true => Ok(()),
            false => Err(self.distrusted("the signature of its answer is wrong")),
        }
    }

    /// Reads a decision other than acceptance. Before the first acceptance the master's key is not
    /// known, so the signature proves nothing.
    fn refused(&self, answer: &Map, load: &[u8], signature: &[u8]) -> Result<Answer, Error> {
        if let Some(master) = &self.trust.remembered
            && !self.settings.verify_master_pubkey_sign
        {
            self.verify(master, load, signature)?;
        }
        match answer.get("ret") {
            Some(Value::Bool(true)) => Ok(Answer::Pending),
            Some(Value::Bool(false)) => Ok(Answer::Rejected),
            Some(Value::Str(text)) if **text == *"full" => Ok(Answer::Full),
            other => {
                let words = other.cloned().unwrap_or_default();
                Err(Error::refused(&self.master, "the authentication", &words))
            }
        }
    }

    /// Reads an acceptance. The key and the signature are checked before anything is decrypted, and
    /// everything before the key is remembered.
    fn accepted(
        &self,
        answer: &Map,
        pem: &str,
        load: &[u8],
        signature: &[u8],
    ) -> Result<Answer, Error> {
        let master = self.trust.check(answer, pem)?;
        self.verify(&master, load, signature)?;
        let fleet = self.decrypted(answer, "aes")?;
        let (fleet_key, token) = split(&fleet);
        // A signed key that has changed cannot decrypt the token for the remembered one.
        if self.trust.remembered.as_ref() == Some(&master) {
            self.check_token(answer, token)?;
        }
        let hash = hex(digest(&SHA256, &fleet).as_ref());
        let proof = answer.get("sig").and_then(raw).unwrap_or_default();
        if master.open(proof).as_deref() != Some(hash.as_bytes()) {
            return Err(self.distrusted("it has not signed the key of the fleet"));
        }
        let session = match answer.contains("session") {
            true => self.decrypted(answer, "session")?,
            false => {
                return Err(self.odd("no key of a session: masters before 3006 are not supported"));
            }
        };
        let port = answer.get("publish_port").and_then(Value::as_int);
        let port = port.and_then(|port| u16::try_from(port).ok());
        let keys = Keys {
            fleet: self.seal(fleet_key, "aes")?,
            session: self.seal(split(&session).0, "session")?,
            publish_port: port.ok_or_else(|| self.odd("a publish_port that is no port"))?,
            master,
        };
        self.trust.remember(&keys.master)?;
        Ok(Answer::Accepted(Box::new(keys)))
    }

    fn decrypted(&self, answer: &Map, name: &str) -> Result<Vec<u8>, Error> {
        let sealed = answer.get(name).and_then(raw).unwrap_or_default();
        let plain = self.identity.key().decrypt(self.settings.enc_algo, sealed);
        plain.ok_or_else(|| {
            let file = self.identity.path().display();
            self.odd(&format!(
                "a key ({name}) that the key in {file} does not decrypt"
            ))
        })
    }

    fn seal(&self, key: &[u8], name: &str) -> Result<Seal, Error> {
        Seal::parse(key).ok_or_else(|| self.odd(&format!("a key ({name}) of the wrong form")))
    }

    /// Checks that the master has decrypted the token, which only the remembered one can.
    fn check_token(&self, answer: &Map, in_key: Option<&[u8]>) -> Result<(), Error> {
        let is_equal = match in_key {
            Some(token) => token == self.token.as_bytes(),
            None => self.decrypted(answer, "token")? == self.token.as_bytes(),
        };
        match is_equal {
            true => Ok(()),
            false => Err(self.distrusted("it has not decrypted the token")),
        }
    }
}

/// Splits a key from the token after it, if there is one.
fn split(key: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mark = key
        .windows(TOKEN_MARK.len())
        .position(|part| part == TOKEN_MARK);
    match mark.and_then(|mark| key.split_at_checked(mark)) {
        Some((key, rest)) => (key, rest.get(TOKEN_MARK.len()..)),
        None => (key, None),
    }
}
