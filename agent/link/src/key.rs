//! Ed25519 keys: made, written as PEM files are, and shown as Salt shows fingerprints.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::pem::{PemObject, SectionKind};

/// What stands before the 32 bytes of a private key in PKCS#8, as OpenSSL writes it.
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// What stands before the 32 bytes of a public key in a SubjectPublicKeyInfo.
const SPKI: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// The name that RSA keys carry inside.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];

/// Text that is no key of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAKey {
    /// A key of Salt.
    #[error("it is an RSA key, as Salt makes them; Pinch's keys are Ed25519 and are made anew")]
    Rsa,
    /// Another key, or a damaged one.
    #[error("it is no Ed25519 key in PEM form")]
    Other,
    /// The random numbers failed.
    #[error("the system gives no random numbers")]
    Random,
}

/// What the other side is known by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo, which is what TLS carries.
    #[must_use]
    pub fn from_spki(spki: &[u8]) -> Option<Self> {
        let key = spki.strip_prefix(&SPKI)?;
        Some(Self(key.try_into().ok()?))
    }

    /// The key of these 32 bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its 32 bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key as a SubjectPublicKeyInfo.
    #[must_use]
    pub fn spki(&self) -> Vec<u8> {
        [SPKI.as_slice(), &self.0].concat()
    }

    /// The key as a PEM file has it.
    #[must_use]
    pub fn pem(&self) -> String {
        pem("PUBLIC KEY", &self.spki())
    }

    /// Reads a PEM file of one key.
    ///
    /// # Errors
    /// When it holds something else, with what it is.
    pub fn from_pem(text: &[u8]) -> Result<Self, NotAKey> {
        match sections(text)?.as_slice() {
            [(SectionKind::PublicKey, spki)] => {
                Self::from_spki(spki).ok_or_else(|| not_ours(text, spki))
            }
            [(_, other), ..] => Err(not_ours(text, other)),
            [] => Err(not_ours(text, &[])),
        }
    }

    /// Its fingerprint as Salt prints that of its own: SHA-256 of the PEM file's inner lines, with colons.
    #[must_use]
    pub fn finger(&self) -> String {
        let line = format!("{}\n", STANDARD.encode(self.spki()));
        let hash = digest(&SHA256, line.as_bytes());
        let bytes: Vec<String> = hash
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        bytes.join(":")
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.finger())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.finger())
    }
}

/// Random bytes for a secret.
///
/// # Errors
/// When the system gives no random numbers.
pub fn secret() -> Result<[u8; 32], NotAKey> {
    let mut bytes = [0; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| NotAKey::Random)?;
    Ok(bytes)
}

/// A key with its private half.
#[derive(Clone)]
pub struct KeyPair {
    seed: [u8; 32],
    public: PublicKey,
}

impl KeyPair {
    /// Makes a new one.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn generate() -> Result<Self, NotAKey> {
        Self::of(&pkcs8(&secret()?))
    }

    /// Reads a PEM file of one private key, as Pinch or OpenSSL writes it.
    ///
    /// # Errors
    /// When it holds something else, with what it is.
    pub fn from_pem(text: &[u8]) -> Result<Self, NotAKey> {
        match sections(text)?.as_slice() {
            [(SectionKind::PrivateKey, der)] => Self::of(der).map_err(|_| not_ours(text, der)),
            [(_, other), ..] => Err(not_ours(text, other)),
            [] => Err(not_ours(text, &[])),
        }
    }

    fn of(der: &[u8]) -> Result<Self, NotAKey> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map_err(|_| NotAKey::Other)?;
        let public = pair.public_key().as_ref().try_into();
        // The seed stands behind the head in both forms of PKCS#8; the newer one has the public key after it.
        let seed = der.get(PKCS8.len()..PKCS8.len() + 32).unwrap_or_default();
        Ok(Self {
            seed: seed.try_into().map_err(|_| NotAKey::Other)?,
            public: PublicKey(public.map_err(|_| NotAKey::Other)?),
        })
    }

    /// Its public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The private key in PKCS#8.
    #[must_use]
    pub(crate) fn pkcs8(&self) -> Vec<u8> {
        pkcs8(&self.seed)
    }

    /// The private key as a PEM file has it.
    #[must_use]
    pub fn pem(&self) -> String {
        pem("PRIVATE KEY", &self.pkcs8())
    }
}

/// The public half alone.
impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.public)
    }
}

fn pkcs8(seed: &[u8; 32]) -> Vec<u8> {
    [PKCS8.as_slice(), seed].concat()
}

fn pem(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
}

fn sections(text: &[u8]) -> Result<Vec<(SectionKind, Vec<u8>)>, NotAKey> {
    let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    sections.map_err(|_| NotAKey::Other)
}

fn not_ours(text: &[u8], der: &[u8]) -> NotAKey {
    let label = b"BEGIN RSA ";
    let named = text.windows(label.len()).any(|part| part == label);
    if named || der.windows(RSA.len()).any(|part| part == RSA) {
        return NotAKey::Rsa;
    }
    NotAKey::Other
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by OpenSSL, its fingerprint by Salt's `pem_finger`.
    const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n-----END PRIVATE KEY-----\n";
    const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=\n-----END PUBLIC KEY-----\n";
    const FINGER: &str = "b8:dd:f1:3d:a5:a8:3d:45:52:c3:c0:38:47:fd:12:90:ca:e2:8f:48:70:4c:bf:0c:15:fd:97:5c:8c:33:ee:20";

    #[test]
    fn keys_are_files_that_openssl_and_salt_read_alike() {
        let pair = KeyPair::from_pem(PRIVATE.as_bytes()).unwrap();
        assert_eq!(pair.pem(), PRIVATE);
        assert_eq!(pair.public().pem(), PUBLIC);
        assert_eq!(PublicKey::from_pem(PUBLIC.as_bytes()), Ok(pair.public()));
        assert_eq!(pair.public().finger(), FINGER);
        assert!(!format!("{pair:?}").contains("AAECAwQF"));
    }

    #[test]
    fn no_two_keys_are_equal_and_each_comes_back() {
        let (one, two) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        assert_ne!(one.public(), two.public());
        let again = KeyPair::from_pem(one.pem().as_bytes()).unwrap();
        assert_eq!((again.public(), again.seed), (one.public(), one.seed));
    }

    #[test]
    fn the_newer_form_of_a_private_key_is_read_too() {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = KeyPair::from_pem(pem("PRIVATE KEY", document.as_ref()).as_bytes()).unwrap();
        let again = KeyPair::from_pem(pair.pem().as_bytes()).unwrap();
        assert_eq!(again.public(), pair.public());
    }

    #[test]
    fn what_is_no_key_of_ours_is_named() {
        let rsa = pem(
            "PUBLIC KEY",
            &[
                &[0x30, 0x82, 1, 0x22, 0x30, 0x0d, 0x06, 0x09],
                RSA,
                &[1, 5, 0],
            ]
            .concat(),
        );
        assert_eq!(PublicKey::from_pem(rsa.as_bytes()), Err(NotAKey::Rsa));
        let rsa = pem("RSA PRIVATE KEY", &[0x30, 0x82]);
        assert_eq!(KeyPair::from_pem(rsa.as_bytes()).unwrap_err(), NotAKey::Rsa);
        let rsa = pem("RSA PUBLIC KEY", &[0x30, 0x82]);
        assert_eq!(PublicKey::from_pem(rsa.as_bytes()), Err(NotAKey::Rsa));
        let short = pem("PUBLIC KEY", &SPKI);
        for bad in ["", "x", "-----BEGIN PUBLIC KEY-----\n", &short, PRIVATE] {
            assert_eq!(
                PublicKey::from_pem(bad.as_bytes()),
                Err(NotAKey::Other),
                "{bad}"
            );
        }
        let two = [PUBLIC, PUBLIC].concat();
        assert!(PublicKey::from_pem(two.as_bytes()).is_err());
    }
}
