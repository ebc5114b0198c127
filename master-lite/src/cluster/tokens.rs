//! Tokens for masters: `NAME.SECRET`, with which a master joins without the secret of the cluster and
//! without an administrator.
//!
//! The store has the hash of a token's secret. It is the key of the proofs that both ends make, and
//! neither the secret nor the hash is sent. A use belongs to the key of the master that has joined
//! with it, so that this master can repeat a request whose answer was lost. The use ends when the
//! master is removed.
//!
//! The tokens of minions have other names in the store. So a token of one kind is never found as one
//! of the other kind, not even by an earlier release.

use std::collections::BTreeSet;

use link::PublicKey;
use link::key::secret;
use link::pool::Exported;
use machine::hashes;
use value::python::hex;
use value::{Map, Value};

use super::join::{End, SharedKey, Shown};
use super::settings::MASTERS_MAX;
use crate::store::{Command, Store};

/// The beginning of the names of tokens for minions in the store, and of those for masters.
pub(crate) const OF_MINIONS: &str = "enroll/";
pub(crate) const OF_MASTERS: &str = "master/";
/// The maximum number of uses of a token.
pub(crate) const USES_MAX: u64 = MASTERS_MAX as u64;
/// The number of random bytes in a name.
const NAME_BYTES: usize = 4;
/// The field with the fingerprints of the masters that have joined.
const JOINED: &str = "joined";

/// A new token.
pub(crate) struct NewToken {
    pub(crate) name: String,
    pub(crate) secret: String,
    /// The hash of the secret.
    pub(crate) hash: String,
}

impl NewToken {
    /// Returns a random token.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn random() -> Result<Self, String> {
        let random = || secret().map_err(|error| error.to_string());
        let name = hex(random()?.get(..NAME_BYTES).unwrap_or_default());
        let secret = hex(&random()?);
        let hash = hashed(&secret)?;
        Ok(Self { name, secret, hash })
    }
}

/// Returns the hash of a token's secret, which the store has.
///
/// # Errors
/// When it cannot be computed.
pub(crate) fn hashed(secret: &str) -> Result<String, String> {
    hashes::of_bytes(secret.as_bytes(), "sha256").map_err(|error| error.to_string())
}

/// Compares two secrets in a time that does not depend on where they differ.
pub(crate) fn is_equal(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    let different = pairs.fold(0, |different, (one, other)| different | (one ^ other));
    std::hint::black_box(different) == 0 && one.len() == other.len()
}

/// Returns whether a text is the name of a token.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() == NAME_BYTES * 2 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns a new token for masters whose names match a glob, and the change that stores it.
///
/// # Errors
/// As [`NewToken::random`].
pub(crate) fn create(names: &str, uses: u64, until_ms: u64) -> Result<(NewToken, Command), String> {
    let new = NewToken::random()?;
    let row = Map::new()
        .with("hash", new.hash.as_str())
        .with("kind", "master")
        .with("id", names)
        .with("uses", uses)
        .with("used", 0)
        .with("until_ms", until_ms)
        .with(JOINED, Value::list([]));
    let keep = changed(&new.name, row, None);
    Ok((new, keep))
}

fn changed(name: &str, data: Map, expected: Option<Map>) -> Command {
    Command::Token {
        name: format!("{OF_MASTERS}{name}"),
        data: Some(data),
        expected,
    }
}

fn number(row: &Map, name: &str) -> u64 {
    let number = row.get(name).and_then(Value::as_int);
    number
        .and_then(|number| u64::try_from(number).ok())
        .unwrap_or(0)
}

fn joined(row: &Map) -> Vec<Value> {
    let joined = row.get(JOINED).and_then(Value::as_list);
    joined.unwrap_or_default().to_vec()
}

/// A token whose secret a joining master has proved to know.
#[derive(Clone, Debug)]
pub(super) struct Proved {
    pub(super) name: String,
    row: Map,
    is_for_masters: bool,
}

/// Returns the token that a joining master has shown. The sentence of a refusal is the same for a
/// token that does not exist and a wrong proof. It reads files.
pub(super) fn proved(
    store: &Store,
    cluster: &str,
    shown: &Shown,
    exported: &Exported,
) -> Result<Proved, String> {
    let unknown = "its `cluster_token` is unknown, or was revoked";
    if !is_name(&shown.name) {
        return Err(unknown.to_owned());
    }
    for prefix in [OF_MASTERS, OF_MINIONS] {
        let row = store.token(&format!("{prefix}{}", shown.name));
        let Some(row) = row.map_err(|error| error.to_string())? else {
            continue;
        };
        let token = Proved {
            name: shown.name.clone(),
            row,
            is_for_masters: prefix == OF_MASTERS,
        };
        let key = token.key();
        if key.is_proved(cluster, End::Joining, exported, Some(&shown.proof)) {
            return Ok(token);
        }
    }
    Err(unknown.to_owned())
}

impl Proved {
    /// Returns the key that both ends know.
    pub(super) fn key(&self) -> SharedKey {
        let hash = self.row.get("hash").map(Value::to_text);
        SharedKey::of_token(&hash.unwrap_or_default())
    }

    /// Returns the change that counts a use for a master; `None` if one was counted for its key
    /// before. The store refuses the change if the token was changed since it was read.
    ///
    /// # Errors
    /// Returns why the master cannot join with this token.
    pub(super) fn used(
        &self,
        master: &str,
        (key, is_member): (&PublicKey, bool),
        now_ms: u64,
    ) -> Result<Option<Command>, String> {
        let (name, create) = (
            &self.name,
            "`salt-run token.create kind=master` creates one",
        );
        if !self.is_for_masters {
            return Err(format!(
                "the token {name} is for minions, not for masters: {create}"
            ));
        }
        let finger = Value::from(key.finger());
        let mut joined = joined(&self.row);
        let is_known = joined.contains(&finger);
        if is_known && is_member {
            return Ok(None);
        }
        let glob = self.row.get("id").map(Value::to_text).unwrap_or_default();
        if !value::glob::fnmatch(&glob, master) {
            return Err(format!("the token {name} is for masters that match {glob}"));
        }
        if now_ms >= number(&self.row, "until_ms") {
            return Err(format!("the token {name} has expired: {create}"));
        }
        if is_known {
            return Ok(None);
        }
        let used = number(&self.row, "used");
        if used >= number(&self.row, "uses") {
            return Err(format!("the token {name} is used up: {create}"));
        }
        joined.push(finger);
        let row = self.row.clone().with("used", used + 1);
        let row = row.with(JOINED, Value::list(joined));
        Ok(Some(changed(name, row, Some(self.row.clone()))))
    }
}

/// Returns the changes after which these keys have used no token, so that none of them can join with
/// it again. The uses stay counted. It reads files.
pub(super) fn released(store: &Store, keys: &[PublicKey]) -> Result<Vec<Command>, String> {
    let fingers: BTreeSet<Value> = keys.iter().map(|key| key.finger().into()).collect();
    let mut changes = Vec::new();
    for token in store.tokens().map_err(|error| error.to_string())? {
        let (name, row) = token.map_err(|error| error.to_string())?;
        let Some(name) = name.strip_prefix(OF_MASTERS) else {
            continue;
        };
        let mut joined = joined(&row);
        let before = joined.len();
        joined.retain(|finger| !fingers.contains(finger));
        if joined.len() < before {
            let data = row.clone().with(JOINED, Value::list(joined));
            changes.push(changed(name, data, Some(row)));
        }
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Applied, Limits, Refusal};

    const EXPORTED: Exported = [1; 32];
    /// The time at which the tokens of the tests expire.
    const UNTIL: u64 = 9;

    struct World {
        store: Store,
        _folder: tempfile::TempDir,
    }

    fn key(number: u8) -> PublicKey {
        PublicKey::from_bytes([number; 32])
    }

    /// Returns what a master shows that has a token, over a connection.
    fn shown(token: &NewToken, exported: &Exported) -> Shown {
        let key = SharedKey::of_token(&hashed(&token.secret).unwrap());
        Shown {
            name: token.name.clone(),
            proof: key.proof("prod", End::Joining, exported),
        }
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(folder.path(), Limits::default()).unwrap();
            Self {
                store,
                _folder: folder,
            }
        }

        fn create(&self, names: &str, uses: u64) -> NewToken {
            let (new, keep) = create(names, uses, UNTIL).unwrap();
            self.store.apply_blocking(keep).unwrap();
            new
        }

        fn proved(&self, token: &NewToken) -> Result<Proved, String> {
            proved(&self.store, "prod", &shown(token, &EXPORTED), &EXPORTED)
        }

        /// Counts a use for a key. Returns whether it is a new one.
        fn join(&self, token: &NewToken, key: u8) -> Result<bool, String> {
            let joined = (&self::key(key), false);
            let used = self.proved(token)?.used("10.0.0.3", joined, 0)?;
            let is_new = used.is_some();
            if let Some(used) = used {
                assert_eq!(self.store.apply_blocking(used).unwrap(), Applied::Done);
            }
            Ok(is_new)
        }
    }

    #[test]
    fn a_use_belongs_to_the_key_that_joined_first() {
        let world = World::new();
        let token = world.create("*", 1);
        // Two masters at once: the change of the second one is void.
        let both = [1, 2].map(|number| {
            let proved = world.proved(&token).unwrap();
            let used = proved.used("10.0.0.3", (&key(number), false), 0);
            used.unwrap().unwrap()
        });
        let both = both.map(|used| world.store.apply_blocking(used).unwrap());
        let changed =
            |applied: &Applied| matches!(applied, Applied::Refused(Refusal::Changed { .. }));
        assert_eq!(both.each_ref().map(changed), [false, true]);
        // The answer was lost, and the same master asks again.
        assert_eq!(world.join(&token, 1), Ok(false));
        let why = world.join(&token, 2).unwrap_err();
        assert!(why.contains("is used up"), "{why}");
        // A member can ask again as long as the token exists, others in its time.
        let used = |number: u8, is_member: bool| {
            let proved = world.proved(&token).unwrap();
            proved.used("10.0.0.3", (&key(number), is_member), UNTIL)
        };
        assert!(used(1, true).unwrap().is_none());
        for (number, is_member) in [(1, false), (2, true), (2, false)] {
            let why = used(number, is_member).unwrap_err();
            assert!(why.contains("has expired"), "{why}");
        }
    }

    #[test]
    fn a_proof_is_refused_with_another_connection_token_or_cluster() {
        let world = World::new();
        let (token, other) = (world.create("*", 1), world.create("*", 1));
        let unknown = "its `cluster_token` is unknown, or was revoked";
        let refused = |cluster: &str, shown: Shown| {
            let proved = proved(&world.store, cluster, &shown, &EXPORTED);
            assert_eq!(proved.unwrap_err(), unknown);
        };
        assert!(world.proved(&token).is_ok());
        // Attacks: a request that was recorded on another connection, the proof of another token, of
        // another cluster and of the other end, none, and names that are none.
        refused("prod", shown(&token, &[2; 32]));
        let name = |name: &str, token: &NewToken| Shown {
            name: name.to_owned(),
            ..shown(token, &EXPORTED)
        };
        refused("prod", name(&token.name, &other));
        refused("test", shown(&token, &EXPORTED));
        let of_member = SharedKey::of_token(&token.hash).proof("prod", End::Member, &EXPORTED);
        for proof in [of_member, Vec::new()] {
            let name = token.name.clone();
            refused("prod", Shown { name, proof });
        }
        for wrong in ["", "00000000", "../../00", &"0".repeat(5000)] {
            refused("prod", name(wrong, &token));
        }
        // Attack: the secret of a cluster that is the hash of the token.
        let secret = SharedKey::of_secret(&wire::Secret::new(&token.hash));
        refused(
            "prod",
            Shown {
                name: token.name,
                proof: secret.proof("prod", End::Joining, &EXPORTED),
            },
        );
    }

    #[test]
    fn a_token_of_a_minion_and_one_for_other_masters_are_refused_by_name() {
        let world = World::new();
        let token = world.create("10.0.0.4", 1);
        let why = world.join(&token, 1).unwrap_err();
        assert!(why.contains("is for masters that match 10.0.0.4"), "{why}");
        let (of_minions, keep) = crate::admit::token::create("*", 5, UNTIL, Map::new()).unwrap();
        world.store.apply_blocking(keep).unwrap();
        let why = world.join(&of_minions, 1).unwrap_err();
        assert!(why.contains("is for minions, not for masters"), "{why}");
        let revoke = Command::Token {
            name: format!("{OF_MASTERS}{}", token.name),
            data: None,
            expected: None,
        };
        world.store.apply_blocking(revoke).unwrap();
        let why = world.join(&token, 1).unwrap_err();
        assert!(why.contains("unknown, or was revoked"), "{why}");
    }

    #[test]
    fn a_removed_master_has_no_use_of_its_token_any_more() {
        let world = World::new();
        let (token, other) = (world.create("*", 2), world.create("*", 1));
        assert_eq!(world.join(&token, 1), Ok(true));
        assert_eq!(world.join(&token, 2), Ok(true));
        assert_eq!(world.join(&other, 3), Ok(true));
        for change in released(&world.store, &[key(1), key(9)]).unwrap() {
            world.store.apply_blocking(change).unwrap();
        }
        let why = world.join(&token, 1).unwrap_err();
        assert!(why.contains("is used up"), "{why}");
        assert_eq!(world.join(&token, 2), Ok(false));
        assert_eq!(world.join(&other, 3), Ok(false));
        assert!(released(&world.store, &[key(1)]).unwrap().is_empty());
    }
}
