//! [`Succession`]: the statement of a master that another key replaces its key, signed with the key
//! that it replaces. Minions that accept the old key then accept both, until the master proves the
//! new one.
//!
//! A minion keeps the statements in `minion_master.next`, one in a line. Each is verified again when
//! it is read, so the file extends the trust in a key, and is of no use without that key.

use std::fmt;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, UnparsedPublicKey};

use crate::key::{KeyPair, NotAKey, PublicKey};
use crate::masters::MasterList;
use crate::pki::{Error, Pki};
use crate::session::REMEMBERED;

/// The bytes in front of the keys in the message that is signed, so that no signature for another
/// purpose is a statement.
const PURPOSE: &[u8] = b"pinch: the next key of this master\0";
/// The maximum number of statements that a minion keeps. The oldest ones are removed first.
const KEPT: usize = 16;
/// The name of the file of statements in the folder of keys.
const FILE: &str = "minion_master.next";

/// A statement whose signature is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Succession {
    old: PublicKey,
    next: PublicKey,
    signature: [u8; 64],
}

/// The reason why a text is no [`Succession`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotASuccession {
    /// The text does not have the form of one.
    #[error("the statement about the master's next key is malformed")]
    Malformed,
    /// The old key has not signed it.
    #[error("the statement about the master's next key has a wrong signature")]
    Signature,
}

impl Succession {
    /// Signs the statement that `next` replaces the key `old`.
    ///
    /// # Errors
    /// When the key cannot sign.
    pub fn sign(old: &KeyPair, next: PublicKey) -> Result<Self, NotAKey> {
        let signature = old.sign(&message(&old.public(), &next))?;
        Ok(Self {
            old: old.public(),
            next,
            signature,
        })
    }

    /// Reads a statement, and verifies its signature.
    ///
    /// # Errors
    /// When the text is malformed, or the old key has not signed it.
    pub fn parse(text: &str) -> Result<Self, NotASuccession> {
        let mut parts = text.split_ascii_whitespace();
        let old = bytes(parts.next())?;
        let next = bytes(parts.next())?;
        let signature: [u8; 64] = bytes(parts.next())?;
        if parts.next().is_some() {
            return Err(NotASuccession::Malformed);
        }
        let (old, next) = (PublicKey::from_bytes(old), PublicKey::from_bytes(next));
        UnparsedPublicKey::new(&ED25519, old.bytes())
            .verify(&message(&old, &next), &signature)
            .map_err(|_| NotASuccession::Signature)?;
        Ok(Self {
            old,
            next,
            signature,
        })
    }

    /// Returns the key that has signed the statement.
    #[must_use]
    pub fn old(&self) -> PublicKey {
        self.old
    }

    /// Returns the key that replaces it.
    #[must_use]
    pub fn next(&self) -> PublicKey {
        self.next
    }
}

/// Writes the text that [`Succession::parse`] reads: both keys and the signature in base64.
impl fmt::Display for Succession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [old, next] = [self.old, self.next].map(|key| STANDARD.encode(key.bytes()));
        write!(f, "{old} {next} {}", STANDARD.encode(self.signature))
    }
}

fn message(old: &PublicKey, next: &PublicKey) -> Vec<u8> {
    [PURPOSE, old.bytes(), next.bytes()].concat()
}

fn bytes<const N: usize>(part: Option<&str>) -> Result<[u8; N], NotASuccession> {
    let decoded = part.and_then(|part| STANDARD.decode(part).ok());
    let exact = decoded.and_then(|bytes| bytes.try_into().ok());
    exact.ok_or(NotASuccession::Malformed)
}

/// The keys that a minion accepts from a master.
#[derive(Clone, Debug)]
pub(crate) struct Trusted {
    /// The fingerprints of all of them. There are none before the master was first seen.
    pub(crate) fingers: Vec<String>,
    /// The keys among them that only a statement makes acceptable.
    successors: Vec<PublicKey>,
    /// The file or option that has the others.
    pub(crate) place: String,
}

impl Trusted {
    fn accepts(&self, key: &PublicKey) -> bool {
        has_finger(&self.fingers, key)
    }

    /// Returns whether the key is acceptable because of a statement alone.
    pub(crate) fn is_successor(&self, key: &PublicKey) -> bool {
        self.successors.contains(key)
    }
}

/// Returns whether the key has one of these fingerprints.
pub(crate) fn has_finger(fingers: &[String], key: &PublicKey) -> bool {
    let finger = key.finger();
    let mut fingers = fingers.iter();
    fingers.any(|known| known.eq_ignore_ascii_case(&finger))
}

/// The reason why a minion does not accept a statement.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The text is none.
    #[error(transparent)]
    Statement(#[from] NotASuccession),
    /// The signing key is not one that this minion accepts.
    #[error("the statement about the master's next key is signed with the unknown key {0}")]
    Unknown(PublicKey),
    /// The folder of keys cannot be used.
    #[error(transparent)]
    Pki(#[from] Error),
}

impl Pki {
    /// Returns the keys that are acceptable: those of `master_finger`, or else the remembered one,
    /// and all that a chain of statements leads to.
    ///
    /// # Errors
    /// When a file cannot be read or is damaged.
    pub(crate) fn trusted(&self, configured: &[String]) -> Result<Trusted, Error> {
        let (mut fingers, place) = match configured {
            [] => {
                let known = self.find_master_key(REMEMBERED)?;
                let fingers = known.iter().map(PublicKey::finger).collect();
                let place = self.place(REMEMBERED, "pub")?;
                (fingers, place.display().to_string())
            }
            some => (some.to_vec(), "master_finger".to_owned()),
        };
        let mut successors = Vec::new();
        for statement in self.successions()? {
            if has_finger(&fingers, &statement.old) && !has_finger(&fingers, &statement.next) {
                fingers.push(statement.next.finger());
                successors.push(statement.next);
            }
        }
        Ok(Trusted {
            fingers,
            successors,
            place,
        })
    }

    /// Verifies and stores a statement about the master's next key, unless that key is acceptable
    /// already. It is on the disk afterwards.
    ///
    /// # Errors
    /// When the statement is not signed with an acceptable key, or a file cannot be used.
    pub fn keep_succession(&self, configured: &[String], statement: &str) -> Result<(), Refused> {
        let statement = Succession::parse(statement)?;
        let trusted = self.trusted(configured)?;
        if trusted.accepts(&statement.next) {
            return Ok(());
        }
        if !trusted.accepts(&statement.old) {
            return Err(Refused::Unknown(statement.old));
        }
        let mut kept = self.successions()?;
        kept.push(statement);
        let first = kept.len().saturating_sub(KEPT);
        let kept = kept.iter().skip(first);
        let text: String = kept.map(|kept| format!("{kept}\n")).collect();
        Ok(self.replace(&self.succession_file(), &text, 0o644)?)
    }

    /// Remembers the key of a statement in place of the one that signed it, which is not acceptable
    /// any more.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn succeed(&self, key: &PublicKey) -> Result<(), Error> {
        self.replace(&self.place(REMEMBERED, "pub")?, &key.pem(), 0o644)
    }

    /// Remembers the key of a master of a cluster in place of a remembered one that the cluster does
    /// not have any more.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn follow(&self, list: &MasterList, key: &PublicKey) -> Result<(), Error> {
        let known = self.find_master_key(REMEMBERED)?;
        let is_gone = known.is_some_and(|known| !list.has_key(&known));
        match is_gone && list.has_key(key) {
            true => self.succeed(key),
            false => Ok(()),
        }
    }

    fn succession_file(&self) -> PathBuf {
        self.folder().join(FILE)
    }

    fn successions(&self) -> Result<Vec<Succession>, Error> {
        let path = self.succession_file();
        let Some(text) = self.read_public(&path)? else {
            return Ok(Vec::new());
        };
        let text = String::from_utf8_lossy(&text);
        let read: Result<_, _> = text.lines().map(Succession::parse).collect();
        read.map_err(|source| Error::Succession { path, source })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "a test's own files")]

    use super::*;

    fn pki() -> (tempfile::TempDir, Pki) {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::open(&folder.path().join("pki")).unwrap();
        (folder, pki)
    }

    fn pair() -> KeyPair {
        KeyPair::generate().unwrap()
    }

    fn signed(old: &KeyPair, next: &KeyPair) -> String {
        let statement = Succession::sign(old, next.public()).unwrap();
        statement.to_string()
    }

    fn accepted(pki: &Pki, configured: &[String], key: &KeyPair) -> bool {
        pki.trusted(configured).unwrap().accepts(&key.public())
    }

    #[test]
    fn a_statement_is_read_back_and_each_changed_byte_is_noticed() {
        let (old, next) = (pair(), pair());
        let statement = Succession::sign(&old, next.public()).unwrap();
        let text = statement.to_string();
        assert_eq!(Succession::parse(&text), Ok(statement));
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            // The last character of a key in base64 has bits without a meaning.
            assert!(Succession::parse(&changed).is_err(), "{at}");
        }
        for bad in ["", "a b c", &format!("{text} x"), &text[..100]] {
            assert_eq!(Succession::parse(bad), Err(NotASuccession::Malformed));
        }
    }

    #[test]
    fn a_chain_of_statements_begins_at_the_remembered_key() {
        let (_folder, pki) = pki();
        let (one, two, three) = (pair(), pair(), pair());
        pki.remember(REMEMBERED, &one.public()).unwrap();
        pki.keep_succession(&[], &signed(&one, &two)).unwrap();
        pki.keep_succession(&[], &signed(&two, &three)).unwrap();
        assert!(
            [&one, &two, &three]
                .iter()
                .all(|key| accepted(&pki, &[], key))
        );
        pki.succeed(&two.public()).unwrap();
        assert!(!accepted(&pki, &[], &one));
        assert!(accepted(&pki, &[], &two) && accepted(&pki, &[], &three));
    }

    #[test]
    fn a_configured_fingerprint_begins_a_chain_too() {
        let (_folder, pki) = pki();
        let (one, two) = (pair(), pair());
        let configured = [one.public().finger().to_uppercase()];
        pki.keep_succession(&configured, &signed(&one, &two))
            .unwrap();
        assert!(accepted(&pki, &configured, &two));
        let trusted = pki.trusted(&configured).unwrap();
        assert!(trusted.is_successor(&two.public()) && !trusted.is_successor(&one.public()));
        assert!(!accepted(&pki, &[pair().public().finger()], &two));
    }

    #[test]
    fn a_statement_of_a_stranger_is_refused_and_not_stored() {
        let (_folder, pki) = pki();
        let (one, stranger) = (pair(), pair());
        pki.remember(REMEMBERED, &one.public()).unwrap();
        let refused = pki.keep_succession(&[], &signed(&stranger, &pair()));
        assert!(matches!(refused, Err(Refused::Unknown(key)) if key == stranger.public()));
        assert!(!pki.succession_file().exists());
        // Nor can somebody without the private key sign for it.
        let (forged, other) = (signed(&stranger, &pair()), signed(&one, &pair()));
        let (own, _) = other.split_once(' ').unwrap();
        let (_, rest) = forged.split_once(' ').unwrap();
        let refused = pki.keep_succession(&[], &format!("{own} {rest}"));
        assert!(matches!(
            refused,
            Err(Refused::Statement(NotASuccession::Signature))
        ));
    }

    #[test]
    fn at_most_a_limited_number_of_statements_is_kept() {
        let (_folder, pki) = pki();
        let one = pair();
        pki.remember(REMEMBERED, &one.public()).unwrap();
        let nexts: Vec<KeyPair> = (0..KEPT + 2).map(|_| pair()).collect();
        for next in &nexts {
            pki.keep_succession(&[], &signed(&one, next)).unwrap();
            pki.keep_succession(&[], &signed(&one, next)).unwrap();
        }
        assert_eq!(pki.successions().unwrap().len(), KEPT);
        let last = nexts.last().unwrap();
        assert!(accepted(&pki, &[], last) && !accepted(&pki, &[], &nexts[0]));
    }

    #[test]
    fn a_remembered_key_that_the_cluster_has_no_more_is_replaced_by_a_master_of_it() {
        let list = |keys: &[&KeyPair]| {
            let map = |key: &&KeyPair| {
                value::Map::new()
                    .with("name", "m")
                    .with("address", "m:1")
                    .with("finger", key.public().finger())
                    .into()
            };
            let masters = keys.iter().map(map).collect();
            MasterList::new(wire::Masters { index: 1, masters }, "masters".to_owned()).unwrap()
        };
        let (_folder, pki) = pki();
        let (one, two, stranger) = (pair(), pair(), pair());
        let remembered = || pki.find_master_key(REMEMBERED).unwrap();
        // Nothing is remembered where nothing was.
        pki.follow(&list(&[&two]), &two.public()).unwrap();
        assert_eq!(remembered(), None);
        pki.remember(REMEMBERED, &one.public()).unwrap();
        pki.follow(&list(&[&one, &two]), &two.public()).unwrap();
        pki.follow(&list(&[&two]), &stranger.public()).unwrap();
        pki.follow(&list(&[&two]), &one.public()).unwrap();
        assert_eq!(remembered(), Some(one.public()));
        pki.follow(&list(&[&two]), &two.public()).unwrap();
        assert_eq!(remembered(), Some(two.public()));
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_it() {
        let (_folder, pki) = pki();
        std::fs::write(pki.succession_file(), "x\n").unwrap();
        let error = pki.trusted(&[]).unwrap_err().to_string();
        assert!(
            error.contains(FILE) && error.contains("malformed"),
            "{error}"
        );
    }
}
