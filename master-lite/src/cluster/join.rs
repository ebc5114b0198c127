//! A master that joins a cluster, or founds it with others, and the members that answer it.
//!
//! A joining master is a stranger: it has one short request, which it signs with a key that the
//! cluster knows, too, and bytes of the connection that no other knows ([`SharedKey`]). The key is the
//! secret of the cluster, or is made of a token ([`super::tokens`]). A member signs its answer in the
//! same way, so that neither believes a third one between them. Without such a key an administrator
//! accepts the joining master (`cluster.accept`), which knows the members by their fingerprints.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use link::PublicKey;
use link::pool::Exported;
use ring::hmac;
use value::{Map, Value};
use wire::{Secret, msgpack};

use super::settings::{Credentials, Settings};

/// The limits of a request and its answer.
const LIMITS: wire::Limits = wire::Limits {
    bytes: 16 << 10,
    depth: 6,
    items: 256,
};
/// The maximum length of a name or an address in bytes, and of a sentence.
const NAME_MAX: usize = 255;
const SENTENCE_MAX: usize = 2000;

/// A master that wants to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Join {
    /// The name of the cluster.
    pub(super) cluster: String,
    /// The name of the master.
    pub(super) name: String,
    /// Its addresses for masters and for minions.
    pub(super) address: String,
    pub(super) minions: String,
    /// The newest level of commands that it can apply.
    pub(super) level: u64,
    /// False if it has keys already, which it would lose.
    pub(super) is_empty: bool,
    /// The time at which its cluster was founded, in microseconds since 1970: a member asks, which
    /// wants to know whether the other one is of its cluster, and must not join.
    pub(super) founded_us: Option<u64>,
    /// Its claim to a place in the cluster.
    pub(super) claim: Claim,
}

/// The claim of a joining master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// No claim: an administrator decides.
    Nothing,
    /// The proof that it knows the secret of the cluster.
    Secret(Vec<u8>),
    /// A token.
    Token(Shown),
}

/// The name of a token, and the proof that a master knows its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) name: String,
    pub(super) proof: Vec<u8>,
}

/// The answer to a master that wants to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The master that answers is in no cluster either.
    Fresh(Fresh),
    /// Only this master can let it join. Without a fingerprint it has to prove itself.
    Leader {
        address: String,
        finger: Option<String>,
    },
    /// It is a member now.
    Joined(Joined),
    /// It has to ask again later.
    Wait(String),
    /// It cannot join.
    Refused(String),
}

/// A master that is in no cluster yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fresh {
    /// False if it has data already. Such a master comes first in the order.
    pub(super) is_empty: bool,
    /// Its address for masters.
    pub(super) address: String,
    /// It and the masters that it knows, sorted.
    pub(super) all: Vec<String>,
}

/// A master's place in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Joined {
    /// Its number.
    pub(super) number: u64,
    /// The time at which the cluster was founded, in microseconds since 1970.
    pub(super) founded_us: u64,
    /// The index in the log up to which it has to catch up.
    pub(super) index: u64,
    /// The keys of all members.
    pub(super) keys: Vec<PublicKey>,
}

/// The two ends of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Joining,
    Member,
}

/// A key that both ends know, with which they prove it to each other.
#[derive(Clone, Debug)]
pub(super) struct SharedKey {
    /// The beginning of the signed bytes, which no other kind of key has.
    label: &'static [u8],
    key: hmac::Key,
}

impl SharedKey {
    /// Returns the key that is the secret of a cluster.
    pub(super) fn of_secret(secret: &Secret) -> Self {
        Self::new(b"pinch-cluster-join/1\0", secret.reveal())
    }

    /// Returns the key that is the hash of a token's secret.
    pub(super) fn of_token(hash: &str) -> Self {
        Self::new(b"pinch-cluster-token/1\0", hash)
    }

    fn new(label: &'static [u8], key: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
        Self { label, key }
    }

    fn signed(&self, cluster: &str, end: End, exported: &Exported) -> Vec<u8> {
        let end: &[u8] = match end {
            End::Joining => b"joining",
            End::Member => b"member",
        };
        [self.label, end, b"\0", exported, cluster.as_bytes()].concat()
    }

    /// Returns the proof that one end of a connection knows the key.
    pub(super) fn proof(&self, cluster: &str, end: End, exported: &Exported) -> Vec<u8> {
        let tag = hmac::sign(&self.key, &self.signed(cluster, end, exported));
        tag.as_ref().to_vec()
    }

    /// Returns whether a proof is that of the other end.
    pub(super) fn is_proved(
        &self,
        cluster: &str,
        end: End,
        exported: &Exported,
        proof: Option<&[u8]>,
    ) -> bool {
        let signed = self.signed(cluster, end, exported);
        proof.is_some_and(|proof| hmac::verify(&self.key, &signed, proof).is_ok())
    }
}

fn bytes(value: Map) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Names of limited length are always within the limits; a request without bytes is refused.
    match msgpack::encode(&Value::Map(value), LIMITS, &mut bytes) {
        Ok(()) => bytes,
        Err(_) => Vec::new(),
    }
}

fn text(map: &Map, name: &str) -> Option<String> {
    limited(map, name, NAME_MAX)
}

fn limited(map: &Map, name: &str, most: usize) -> Option<String> {
    let text = map.get(name)?.as_str()?;
    (text.len() <= most && !text.chars().any(char::is_control)).then(|| text.to_owned())
}

fn number(map: &Map, name: &str) -> Option<u64> {
    u64::try_from(map.get(name)?.as_int()?).ok()
}

/// Returns a text that is the usual form of a value.
fn parsed<T: FromStr + ToString>(map: &Map, name: &str) -> Option<String> {
    let text = text(map, name)?;
    let value: T = text.parse().ok()?;
    (value.to_string() == text).then_some(text)
}

fn binary(map: &Map, name: &str) -> Option<Vec<u8>> {
    match map.get(name)? {
        Value::Bytes(bytes) => Some(bytes.to_vec()),
        _ => None,
    }
}

fn read(bytes: &[u8]) -> Option<Map> {
    match msgpack::decode(bytes, LIMITS).ok()? {
        Value::Map(map) => Some(map),
        _ => None,
    }
}

impl Join {
    /// Returns the request of this master over a connection.
    pub(super) fn of(
        settings: &Settings,
        credentials: &Credentials,
        is_empty: bool,
        exported: &Exported,
    ) -> Self {
        let proof = |key: &SharedKey| key.proof(&settings.cluster, End::Joining, exported);
        Self {
            is_empty,
            claim: match credentials {
                Credentials::Fingers => Claim::Nothing,
                Credentials::Secret(key) => Claim::Secret(proof(key)),
                Credentials::Token { name, key } => Claim::Token(Shown {
                    name: name.clone(),
                    proof: proof(key),
                }),
            },
            ..Self::without_claim(settings)
        }
    }

    /// Returns the request of a member to a master that may be of another cluster.
    pub(super) fn of_member(settings: &Settings, founded_us: u64) -> Self {
        Self {
            founded_us: Some(founded_us),
            ..Self::without_claim(settings)
        }
    }

    fn without_claim(settings: &Settings) -> Self {
        Self {
            cluster: settings.cluster.clone(),
            name: settings.name.clone(),
            address: settings.address.to_string(),
            minions: settings.minions.to_string(),
            level: cluster::core::LEVEL,
            // An earlier release refuses a master that asks without joining.
            is_empty: false,
            founded_us: None,
            claim: Claim::Nothing,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut map = Map::new()
            .with("cluster", self.cluster.as_str())
            .with("name", self.name.as_str())
            .with("address", self.address.as_str())
            .with("minions", self.minions.as_str())
            .with("level", self.level)
            .with("is_empty", self.is_empty);
        if let Some(founded_us) = self.founded_us {
            map.insert("founded_us", founded_us);
        }
        let proof = |proof: &[u8]| Value::Bytes(proof.into());
        match &self.claim {
            Claim::Nothing => {}
            Claim::Secret(secret) => {
                map.insert("proof", proof(secret));
            }
            // Another field than that of the secret: an earlier release lets such a master wait.
            Claim::Token(token) => {
                map.insert("token", token.name.as_str());
                map.insert("token_proof", proof(&token.proof));
            }
        }
        bytes(map)
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = read(bytes)?;
        Some(Self {
            cluster: text(&map, "cluster")?,
            name: parsed::<IpAddr>(&map, "name")?,
            address: parsed::<SocketAddr>(&map, "address")?,
            minions: parsed::<SocketAddr>(&map, "minions")?,
            level: number(&map, "level")?,
            is_empty: map.get("is_empty")?.is_true(),
            founded_us: match map.get("founded_us") {
                Some(_) => Some(number(&map, "founded_us")?),
                None => None,
            },
            claim: Claim::decode(&map)?,
        })
    }
}

impl Claim {
    fn decode(map: &Map) -> Option<Self> {
        match (map.contains("proof"), map.contains("token")) {
            (false, false) => Some(Self::Nothing),
            (true, false) => Some(Self::Secret(binary(map, "proof")?)),
            (false, true) => Some(Self::Token(Shown {
                name: text(map, "token")?,
                proof: binary(map, "token_proof")?,
            })),
            (true, true) => None,
        }
    }
}

impl Answer {
    /// Returns the bytes of the answer, with the proof of this end.
    pub(super) fn encode(&self, proof: Option<Vec<u8>>) -> Vec<u8> {
        let list = |texts: &[String]| Value::list(texts.iter().map(|text| text.as_str().into()));
        let mut map = match self {
            Self::Fresh(fresh) => Map::new()
                .with("kind", "fresh")
                .with("is_empty", fresh.is_empty)
                .with("address", fresh.address.as_str())
                .with("all", list(&fresh.all)),
            Self::Leader { address, finger } => Map::new()
                .with("kind", "leader")
                .with("address", address.as_str())
                .with("finger", finger.as_deref().unwrap_or_default()),
            Self::Joined(joined) => {
                let keys = joined.keys.iter();
                let keys = keys.map(|key| Value::Bytes(key.bytes().as_slice().into()));
                Map::new()
                    .with("kind", "joined")
                    .with("number", joined.number)
                    .with("founded_us", joined.founded_us)
                    .with("index", joined.index)
                    .with("keys", Value::list(keys))
            }
            Self::Wait(why) => Map::new().with("kind", "wait").with("why", why.as_str()),
            Self::Refused(why) => Map::new().with("kind", "refused").with("why", why.as_str()),
        };
        if let Some(proof) = proof {
            map.insert("proof", Value::Bytes(proof.into()));
        }
        bytes(map)
    }

    /// Reads an answer, with the proof in it.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, Option<Vec<u8>>)> {
        let map = read(bytes)?;
        let answer = match map.get("kind")?.as_str()? {
            "fresh" => {
                let all = map.get("all")?.as_list()?.iter();
                let all = all.map(|text| text.as_str().map(str::to_owned));
                Self::Fresh(Fresh {
                    is_empty: map.get("is_empty")?.is_true(),
                    address: text(&map, "address")?,
                    all: all.collect::<Option<Vec<String>>>()?,
                })
            }
            "leader" => Self::Leader {
                address: text(&map, "address")?,
                finger: Some(text(&map, "finger")?),
            },
            "joined" => {
                let keys = map.get("keys")?.as_list()?.iter();
                let keys = keys.map(|key| match key {
                    Value::Bytes(bytes) => {
                        let bytes: [u8; 32] = bytes.as_ref().try_into().ok()?;
                        Some(PublicKey::from_bytes(bytes))
                    }
                    _ => None,
                });
                Self::Joined(Joined {
                    number: number(&map, "number")?,
                    founded_us: number(&map, "founded_us")?,
                    index: number(&map, "index")?,
                    keys: keys.collect::<Option<Vec<PublicKey>>>()?,
                })
            }
            "wait" => Self::Wait(limited(&map, "why", SENTENCE_MAX)?),
            "refused" => Self::Refused(limited(&map, "why", SENTENCE_MAX)?),
            _ => return None,
        };
        Some((answer, binary(&map, "proof")))
    }
}

/// The decision of a master that is in no cluster, about itself and the others it knows, all of
/// which are in none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Founding {
    /// It founds the cluster.
    Found,
    /// Another one founds it.
    Wait(String),
    /// There can be no cluster of these masters as they are.
    Refused(String),
}

/// Decides who founds a cluster: the master with data, or the one with the lowest address.
pub(super) fn founding(own: &Fresh, others: &[Fresh]) -> Founding {
    if let Some(other) = others.iter().find(|other| other.all != own.all) {
        return Founding::Wait(format!(
            "{} knows other masters ({}) than this one ({}): make `cluster_peers` agree",
            other.address,
            other.all.join(", "),
            own.all.join(", ")
        ));
    }
    let all = || others.iter().chain([own]);
    let with_data: Vec<&str> = all()
        .filter(|fresh| !fresh.is_empty)
        .map(|fresh| fresh.address.as_str())
        .collect();
    if with_data.len() > 1 {
        return Founding::Refused(format!(
            "{} have keys or tokens already, which a cluster cannot join: move the folders `store` and of keys (`minions`, …) of all but one of them away",
            with_data.join(" and ")
        ));
    }
    match all().min() {
        Some(first) if first == own => Founding::Found,
        Some(first) => Founding::Wait(format!("{} founds the cluster", first.address)),
        None => Founding::Found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(address: &str, is_empty: bool) -> Fresh {
        Fresh {
            is_empty,
            address: address.to_owned(),
            all: vec!["a".to_owned(), "b".to_owned()],
        }
    }

    #[test]
    fn the_master_with_data_founds_otherwise_the_lowest_address() {
        let (a, b) = (fresh("a", true), fresh("b", true));
        assert_eq!(founding(&a, std::slice::from_ref(&b)), Founding::Found);
        assert!(matches!(
            founding(&b, std::slice::from_ref(&a)),
            Founding::Wait(_)
        ));
        let with_data = fresh("b", false);
        assert_eq!(
            founding(&with_data, std::slice::from_ref(&a)),
            Founding::Found
        );
        assert!(matches!(founding(&a, &[with_data]), Founding::Wait(_)));
    }

    #[test]
    fn two_masters_with_data_and_lists_that_differ_make_no_cluster() {
        let refused = founding(&fresh("a", false), &[fresh("b", false)]);
        assert!(matches!(refused, Founding::Refused(why) if why.starts_with("b and a have keys")));
        let other = Fresh {
            all: vec!["b".to_owned(), "c".to_owned()],
            ..fresh("b", true)
        };
        let waits = founding(&fresh("a", true), &[other]);
        assert!(
            matches!(waits, Founding::Wait(why) if why.contains("b knows other masters (b, c)"))
        );
    }

    #[test]
    fn requests_and_answers_are_read_back_and_hostile_ones_are_not() {
        let join = Join {
            cluster: "prod".to_owned(),
            name: "10.0.0.1".to_owned(),
            address: "10.0.0.1:4520".to_owned(),
            minions: "10.0.0.1:4506".to_owned(),
            level: 1,
            is_empty: true,
            founded_us: None,
            claim: Claim::Secret(vec![1; 32]),
        };
        let of_member = Join {
            founded_us: Some(7),
            ..join.clone()
        };
        assert_eq!(Join::decode(&of_member.encode()), Some(of_member));
        let token = Claim::Token(Shown {
            name: "00c0ffee".to_owned(),
            proof: vec![1; 32],
        });
        for claim in [Claim::Nothing, join.claim.clone(), token] {
            let join = Join {
                claim,
                ..join.clone()
            };
            assert_eq!(Join::decode(&join.encode()), Some(join));
        }
        let joined = Answer::Joined(Joined {
            number: 4,
            founded_us: 3,
            index: 9,
            keys: vec![PublicKey::from_bytes([7; 32])],
        });
        let answers = [
            joined,
            Answer::Fresh(fresh("a", false)),
            Answer::Wait("no".to_owned()),
            Answer::Refused("never".to_owned()),
        ];
        for answer in answers {
            let read = Answer::decode(&answer.encode(Some(vec![2; 32])));
            assert_eq!(read, Some((answer, Some(vec![2; 32]))));
        }
        let long = "x".repeat(NAME_MAX + 1);
        for name in [
            "",
            "a",
            "a\nb",
            "../x",
            "10.0.0.01",
            "10.0.0.1 ",
            "\u{202e}a",
            &long,
        ] {
            let named = Join {
                name: name.to_owned(),
                ..join.clone()
            };
            assert_eq!(Join::decode(&named.encode()), None, "{name:?}");
            for field in ["address", "minions"] {
                let mut map = read(&join.encode()).unwrap();
                map.insert(field, name);
                assert_eq!(Join::decode(&bytes(map)), None, "{field} {name:?}");
            }
        }
        let whole = join.encode();
        for length in 0..whole.len() {
            assert_eq!(Join::decode(&whole[..length]), None);
        }
        assert_eq!(Join::decode(b"\x81"), None);
        assert_eq!(Answer::decode(b""), None);
    }

    #[test]
    fn a_proof_is_of_one_end_of_one_connection_of_one_cluster() {
        let secret = |text: &str| SharedKey::of_secret(&Secret::new(text));
        let (key, exported) = (secret("0123456789abcdef"), [1; 32]);
        let proof = key.proof("prod", End::Joining, &exported);
        let is_proved = |key: &SharedKey, cluster, end, exported| {
            key.is_proved(cluster, end, exported, Some(&proof))
        };
        assert!(is_proved(&key, "prod", End::Joining, &exported));
        // Attacks: the proof sent back, sent over another connection, and to another cluster.
        assert!(!is_proved(&key, "prod", End::Member, &exported));
        assert!(!is_proved(&key, "prod", End::Joining, &[2; 32]));
        assert!(!is_proved(&key, "test", End::Joining, &exported));
        let other = secret("0123456789abcdeF");
        assert!(!is_proved(&other, "prod", End::Joining, &exported));
        // Attack: a secret in the place of a token, or the other way round.
        let token = SharedKey::of_token("0123456789abcdef");
        assert!(!is_proved(&token, "prod", End::Joining, &exported));
        assert!(!key.is_proved("prod", End::Joining, &exported, None));
    }

    #[test]
    fn a_request_has_one_claim() {
        let both = Map::new()
            .with("cluster", "prod")
            .with("name", "10.0.0.1")
            .with("address", "10.0.0.1:4520")
            .with("minions", "10.0.0.1:4506")
            .with("level", 1)
            .with("is_empty", true)
            .with("token", "00c0ffee")
            .with("token_proof", Value::Bytes([1; 32].as_slice().into()));
        assert!(Join::decode(&bytes(both.clone())).is_some());
        let cut = both.clone().with("token_proof", "text");
        assert_eq!(Join::decode(&bytes(cut)), None);
        let long = both.clone().with("token", "x".repeat(NAME_MAX + 1));
        assert_eq!(Join::decode(&bytes(long)), None);
        let proof = Value::Bytes([1; 32].as_slice().into());
        assert_eq!(Join::decode(&bytes(both.with("proof", proof))), None);
    }
}
