//! [`Protocol`]: the protocol in which a master is spoken to, Pinch's own or Salt's.
//!
//! The option `master_protocol` is `pinch`, `salt` or `auto`, and a master with `quic://` before its
//! name speaks Pinch's in any case. With `auto`, these decide, in this order:
//!
//! 1. the protocol in which this master was reached before (the file `master_protocols` in `pki_dir`);
//! 2. a remembered key of a Pinch master: its protocol;
//! 3. a remembered key of a Salt master: its protocol;
//! 4. otherwise Pinch's, until a round of tries over UDP has failed and the master's port accepts a
//!    connection over TCP: then Salt's.
//!
//! A minion that has remembered the key of a Pinch master therefore never uses Salt's protocol with a
//! new master by itself, whatever an attacker blocks.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(feature = "salt-master")]
use link::PublicKey;
#[cfg(feature = "salt-master")]
use link::key::NotAKey;
use link::pki::Pki;
use link::{Master, REMEMBERED};
use state::opts::Opts;
use value::json::{self, Layout};
use value::{Map, Value, log, read, trust};

use super::connection::ConnectionError;
use super::settings::wrong;
use crate::error::Error;

/// The prefix of a master that speaks Pinch's protocol.
pub(super) const QUIC: &str = "quic://";
/// The name of the file with the protocols of masters that were reached.
const NAME: &str = "master_protocols";
/// The maximum size of the file in bytes, and the maximum number of masters in it.
const FILE_MAX: u64 = 64 << 10;
const MASTERS_MAX: usize = 256;

/// The protocol of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Pinch,
    Salt,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Pinch => "pinch",
            Self::Salt => "salt",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Pinch, Self::Salt]
            .into_iter()
            .find(|protocol| protocol.name() == name)
    }
}

/// The protocols of the masters of a configuration.
#[derive(Debug)]
pub(super) struct Protocols {
    folder: PathBuf,
    /// `master_protocol`; `None` for `auto`.
    option: Option<Protocol>,
    /// The masters that the configuration names with `quic://`.
    quic: Vec<Master>,
    /// The protocols in which masters were reached, by their names.
    known: Mutex<Map>,
    /// The masters that have answered in Salt's protocol, without accepting this minion yet.
    #[cfg(feature = "salt-master")]
    now_salt: Mutex<Vec<Master>>,
}

impl Protocols {
    /// Reads the option and the file.
    ///
    /// # Errors
    /// When the option is unknown, or the file cannot be used: guessing would be unsafe.
    pub(super) fn open(opts: &Opts) -> Result<Self, Error> {
        let option = match opts.text("master_protocol").unwrap_or("auto") {
            "" | "auto" => None,
            name => Some(Protocol::parse(name).ok_or_else(|| {
                let problem = format!("unknown value {name}, expected auto, pinch or salt");
                wrong("master_protocol", problem)
            })?),
        };
        let folder = opts.path("pki_dir");
        let known = match option {
            None => stored(&folder).map_err(|error| {
                let place = folder.join(NAME).display().to_string();
                wrong(
                    "master_protocol",
                    format!("cannot read {place}: {error}; remove the file, or set the option"),
                )
            })?,
            Some(_) => read::or_log(folder.join(NAME), stored(&folder)).unwrap_or_default(),
        };
        Ok(Self {
            folder,
            option,
            quic: super::settings::quic_masters(opts)?,
            known: Mutex::new(known),
            #[cfg(feature = "salt-master")]
            now_salt: Mutex::default(),
        })
    }

    fn known(&self) -> MutexGuard<'_, Map> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(feature = "salt-master")]
    fn now_salt(&self) -> MutexGuard<'_, Vec<Master>> {
        self.now_salt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the protocol of a master; `None` if a connection has to decide.
    ///
    /// # Errors
    /// When a remembered key cannot be read.
    pub(super) fn choose(&self, master: &Master) -> Result<Option<Protocol>, Error> {
        if self.quic.contains(master) {
            return Ok(Some(Protocol::Pinch));
        }
        if self.option.is_some() {
            return Ok(self.option);
        }
        let reached = self.known().get(&master.to_string()).map(Value::to_text);
        if let Some(protocol) = reached.and_then(|name| Protocol::parse(&name)) {
            return Ok(Some(protocol));
        }
        if self.has_pinch_key()? {
            return Ok(Some(Protocol::Pinch));
        }
        Ok(self.has_salt_key()?.then_some(Protocol::Salt))
    }

    fn has_pinch_key(&self) -> Result<bool, Error> {
        let found = Pki::open(&self.folder).and_then(|pki| pki.find_master_key(REMEMBERED));
        Ok(found.map_err(ConnectionError::from)?.is_some())
    }

    #[cfg(feature = "salt-master")]
    fn has_salt_key(&self) -> Result<bool, Error> {
        let plain = self.folder.join(format!("{REMEMBERED}.pub"));
        if self.folder.join(format!("{REMEMBERED}.rsa.pub")).exists() {
            return Ok(true);
        }
        let text = read::or_none(std::fs::read(&plain)).map_err(|error| {
            let problem = format!("cannot read {}: {error}", plain.display());
            wrong("master_protocol", problem)
        })?;
        Ok(text.is_some_and(|text| PublicKey::from_pem(&text) == Err(NotAKey::Rsa)))
    }

    #[cfg(not(feature = "salt-master"))]
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the other build reads a file here"
    )]
    fn has_salt_key(&self) -> Result<bool, Error> {
        Ok(false)
    }

    /// Records that a master speaks this protocol, until this program ends.
    #[cfg(feature = "salt-master")]
    pub(super) fn is_now_salt(&self, master: &Master) {
        self.now_salt().push(master.clone());
    }

    /// Returns whether a master has answered in Salt's protocol.
    #[cfg(feature = "salt-master")]
    pub(super) fn is_salt(&self, master: &Master) -> bool {
        let reached = self.known().get(&master.to_string()).map(Value::to_text);
        let is_stored = reached.is_some_and(|name| name == Protocol::Salt.name());
        is_stored || self.now_salt().contains(master)
    }

    /// Records that a master was reached in this protocol. Waits for the disk.
    pub(super) fn reached(&self, master: &Master, protocol: Protocol) {
        let name = master.to_string();
        let mut known = self.known();
        let is_known = known
            .get(&name)
            .is_some_and(|known| known.to_text() == protocol.name());
        if is_known || known.len() >= MASTERS_MAX {
            return;
        }
        known.insert(name, protocol.name());
        let text = json::write(&known.clone().into(), Layout::default());
        if let Err(error) = machine::durable::write(&self.folder, NAME, text.as_bytes()) {
            log::warning(format_args!(
                "cannot remember the protocol of the master {master} in {}: {error}",
                self.folder.join(NAME).display()
            ));
        }
    }
}

fn stored(folder: &std::path::Path) -> io::Result<Map> {
    let file = match File::open(folder.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Map::new()),
        opened => opened?,
    };
    trust::folder(folder)?;
    let mut text = String::new();
    file.take(FILE_MAX).read_to_string(&mut text)?;
    let stored = json::read(&text).map_err(io::Error::other)?;
    let map = stored.as_map().cloned();
    let is_valid = |map: &Map| {
        map.values()
            .all(|name| Protocol::parse(&name.to_text()).is_some())
    };
    map.filter(is_valid)
        .ok_or_else(|| io::Error::other("the file does not map masters to pinch or salt"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "a test's own files")]

    use link::{KeyPair, PORT};

    use super::*;

    #[cfg(feature = "salt-master")]
    const SALTS: &str = "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu1SU1LfVLPHCozMxH2Mo\n4lgOEePzNm0tRgeLezV6ffAt0gunVTLw7onLRnrq0/IzW7yWR7QkrmBL7jTKEn5u\n+qKhbwKfBstIs+bMY2Zkp18gnTxKLxoS2tFczGkPLPgizskuemMghRniWaoLcyeh\nkd3qqGElvW/VDL5AaWTg0nLVkjRo9z+40RQzuVaE8AkAFmxZzow3x+VJYKdjykkJ\n0iT9wCS0DRTXu269V264Vf/3jvredZiKRkgwlL9xNAwxXFg0x/XFw005UWVRIkdg\ncKWTjpBP2dPwVZ4WWC+9aGVd+Gyn1o0CLelf4rEjGoXbAAEgAqeGUxrcIlbjXfbc\nmwIDAQAB\n-----END PUBLIC KEY-----";

    struct Minion(tempfile::TempDir);

    impl Minion {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn pki(&self) -> PathBuf {
            self.0.path().join("pki")
        }

        fn open(&self, option: &str, masters: &[&str]) -> Result<Protocols, Error> {
            let masters = masters.iter().map(|name| (*name).into());
            let map = Map::new()
                .with("pki_dir", self.pki().display().to_string())
                .with("master_protocol", option)
                .with("master", Value::list(masters));
            Protocols::open(&Opts::new(map))
        }

        fn chosen(&self, option: &str, master: &str) -> Option<Protocol> {
            let protocols = self.open(option, &["quic://q", "a", "b"]).unwrap();
            protocols.choose(&Master::parse(master, PORT)).unwrap()
        }

        fn pin_pinch(&self) {
            let key = KeyPair::generate().unwrap().public();
            Pki::open(&self.pki())
                .unwrap()
                .remember(REMEMBERED, &key)
                .unwrap();
        }

        #[cfg(feature = "salt-master")]
        fn pin_salt(&self) {
            Pki::open(&self.pki()).unwrap();
            std::fs::write(self.pki().join("minion_master.pub"), SALTS).unwrap();
        }
    }

    #[test]
    fn the_configuration_decides_first() {
        let minion = Minion::new();
        assert_eq!(minion.chosen("auto", "q"), Some(Protocol::Pinch));
        assert_eq!(minion.chosen("salt", "q"), Some(Protocol::Pinch));
        assert_eq!(minion.chosen("salt", "a"), Some(Protocol::Salt));
        assert_eq!(minion.chosen("pinch", "a"), Some(Protocol::Pinch));
        assert_eq!(minion.chosen("auto", "a"), None);
        let error = minion.open("zeromq", &["a"]).unwrap_err();
        assert!(error.to_string().contains("auto, pinch or salt"), "{error}");
    }

    #[test]
    #[cfg(feature = "salt-master")]
    fn a_remembered_key_decides_and_a_pinch_key_comes_first() {
        let minion = Minion::new();
        minion.pin_salt();
        assert_eq!(minion.chosen("auto", "a"), Some(Protocol::Salt));
        minion.pin_pinch();
        assert_eq!(minion.chosen("auto", "a"), Some(Protocol::Pinch));
        let other = Minion::new();
        other.pin_pinch();
        assert_eq!(other.chosen("auto", "a"), Some(Protocol::Pinch));
    }

    #[test]
    fn a_master_that_was_reached_keeps_its_protocol() {
        let minion = Minion::new();
        let salt = Master::parse("a", PORT);
        minion
            .open("auto", &["a"])
            .unwrap()
            .reached(&salt, Protocol::Salt);
        assert_eq!(minion.chosen("auto", "a"), Some(Protocol::Salt));
        assert_eq!(minion.chosen("auto", "b"), None);
        minion.pin_pinch();
        // A minion of both keeps its Salt master, and trusts no new one.
        assert_eq!(minion.chosen("auto", "a"), Some(Protocol::Salt));
        assert_eq!(minion.chosen("auto", "b"), Some(Protocol::Pinch));
        // The master was replaced by one of Pinch: there is no way back.
        minion
            .open("pinch", &["a"])
            .unwrap()
            .reached(&salt, Protocol::Pinch);
        assert_eq!(minion.chosen("auto", "a"), Some(Protocol::Pinch));
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let minion = Minion::new();
        Pki::open(&minion.pki()).unwrap();
        for damaged in ["", "[1]", r#"{"a:4506": "http"}"#] {
            std::fs::write(minion.pki().join(NAME), damaged).unwrap();
            let error = minion.open("auto", &["a"]).unwrap_err().to_string();
            assert!(error.contains(NAME), "{error}");
        }
    }
}
