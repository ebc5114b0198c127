//! [`Settings`]: the options of a minion that concern the connection with a Salt master.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use value::Map;

/// The encoding of messages on a connection (`transport`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// ZMTP, the protocol of ZeroMQ.
    #[default]
    ZeroMq,
    /// A stream of msgpack.
    Tcp,
}

/// The encryption of keys (`encryption_algorithm`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncAlgo {
    /// `OAEP-SHA1`.
    #[default]
    OaepSha1,
    /// `OAEP-SHA224`.
    OaepSha224,
}

/// The signatures of answers (`signing_algorithm`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SigAlgo {
    /// `PKCS1v15-SHA1`.
    #[default]
    Pkcs1v15Sha1,
    /// `PKCS1v15-SHA224`.
    Pkcs1v15Sha224,
}

impl EncAlgo {
    /// Returns the algorithm of this name; `None` if there is no such one.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::OaepSha1, Self::OaepSha224]
            .into_iter()
            .find(|algo| algo.name() == name)
    }

    /// Returns the name, as Salt has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OaepSha1 => "OAEP-SHA1",
            Self::OaepSha224 => "OAEP-SHA224",
        }
    }
}

impl SigAlgo {
    /// Returns the algorithm of this name; `None` if there is no such one.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Pkcs1v15Sha1, Self::Pkcs1v15Sha224]
            .into_iter()
            .find(|algo| algo.name() == name)
    }

    /// Returns the name, as Salt has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pkcs1v15Sha1 => "PKCS1v15-SHA1",
            Self::Pkcs1v15Sha224 => "PKCS1v15-SHA224",
        }
    }
}

/// The probes that the kernel sends on a silent connection (`tcp_keepalive`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// `tcp_keepalive_idle`: the silence before the first probe.
    pub idle: Duration,
    /// `tcp_keepalive_intvl`: the time between two probes; `None` for the kernel's.
    pub interval: Option<Duration>,
    /// `tcp_keepalive_cnt`: the probes without an answer that end the connection; `None` for the
    /// kernel's.
    pub count: Option<u32>,
}

/// The settings of a connection. [`Settings::new`] has Salt's defaults.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The id of the minion.
    pub id: String,
    /// The name or address of the master, without a port.
    pub host: String,
    /// `master_port`: the port for requests.
    pub ret_port: u16,
    /// `publish_port`, if it is not the one that the master names.
    pub publish_port: Option<u16>,
    /// False for a command, which needs no publications: their channel is not opened.
    pub publications: bool,
    /// `source_address`: the address of this machine to connect from.
    pub source: Option<IpAddr>,
    /// `transport`.
    pub transport: Transport,
    /// `pki_dir`.
    pub pki_dir: PathBuf,
    /// `encryption_algorithm`.
    pub enc_algo: EncAlgo,
    /// `signing_algorithm`.
    pub sig_algo: SigAlgo,
    /// `master_finger`: the fingerprint of the master's key; `None` to trust the first key.
    pub master_finger: Option<String>,
    /// `hash_type`: the hash of fingerprints.
    pub hash_type: String,
    /// `verify_master_pubkey_sign`: the master's key must be signed by the key in
    /// `master_sign_key_name`.pub, and may then change.
    pub verify_master_pubkey_sign: bool,
    /// `master_sign_key_name`.
    pub master_sign_key_name: String,
    /// True if a publication without a signature is refused. Masters sign by default.
    pub verify_signed_publications: bool,
    /// `zmq_filtering`: the master sends this minion only what may concern it.
    pub zmq_filtering: bool,
    /// `keysize`: the number of bits of a new key.
    pub keysize: u32,
    /// The grains that `autosign_grains` names, with their values.
    pub autosign_grains: Map,
    /// `auth_timeout`.
    pub auth_timeout: Duration,
    /// `auth_tries`.
    pub auth_tries: u32,
    /// `request_channel_timeout`.
    pub request_timeout: Duration,
    /// `request_channel_tries`.
    pub request_tries: u32,
    /// `tcp_keepalive` and its options; `None` without probes.
    pub keepalive: Option<Keepalive>,
}

impl Settings {
    /// Returns Salt's defaults for this minion and master.
    #[must_use]
    pub fn new(id: &str, host: &str, pki_dir: impl Into<PathBuf>) -> Self {
        Self {
            id: id.to_owned(),
            host: host.to_owned(),
            ret_port: 4506,
            publish_port: None,
            publications: true,
            source: None,
            transport: Transport::default(),
            pki_dir: pki_dir.into(),
            enc_algo: EncAlgo::default(),
            sig_algo: SigAlgo::default(),
            master_finger: None,
            hash_type: "sha256".to_owned(),
            verify_master_pubkey_sign: false,
            master_sign_key_name: "master_sign".to_owned(),
            verify_signed_publications: true,
            zmq_filtering: false,
            keysize: 2048,
            autosign_grains: Map::new(),
            auth_timeout: Duration::from_secs(5),
            auth_tries: 7,
            request_timeout: Duration::from_secs(60),
            request_tries: 3,
            keepalive: Some(Keepalive {
                idle: Duration::from_secs(300),
                interval: None,
                count: None,
            }),
        }
    }
}
