//! RSA keys, and the files in which clouds publish them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents};
use rustls::pki_types::pem::{PemObject, SectionKind};
use value::{Map, Value, json};

use crate::certificate::{Certificate, of_spki};

/// The hash function of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// A key that is trusted to sign documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name in tokens (`kid`).
    pub name: Option<String>,
    modulus: Vec<u8>,
    exponent: Vec<u8>,
}

/// The minimum length of a key in bytes. Some keys of AWS are no longer than that.
const BYTES_MIN: usize = 128;
/// The length in bytes from which a key counts as long enough today.
const BYTES_GOOD: usize = 256;

impl Key {
    /// Returns the key with this modulus and exponent.
    pub(crate) fn from_components(modulus: &[u8], exponent: &[u8]) -> Option<Self> {
        let bare = |number: &[u8]| {
            let zeros = number.iter().take_while(|byte| **byte == 0).count();
            number.get(zeros..).unwrap_or_default().to_vec()
        };
        let (modulus, exponent) = (bare(modulus), bare(exponent));
        let is_key = modulus.len() >= BYTES_MIN && !exponent.is_empty();
        is_key.then_some(Self {
            name: None,
            modulus,
            exponent,
        })
    }

    fn named(self, name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..self
        }
    }

    /// Returns whether the key is as long as keys should be today. AWS's base64 signatures are made
    /// with shorter ones.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.modulus.len() >= BYTES_GOOD
    }

    /// Returns the modulus and the exponent.
    #[cfg(test)]
    pub(crate) fn numbers(&self) -> (&[u8], &[u8]) {
        (&self.modulus, &self.exponent)
    }

    /// Returns whether this key made the signature of a message (PKCS#1 v1.5).
    pub(crate) fn signed(&self, hash: Hash, message: &[u8], signature: &[u8]) -> bool {
        let how: &RsaParameters = match hash {
            Hash::Sha256 if !self.is_long() => {
                &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY
            }
            Hash::Sha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Hash::Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Hash::Sha512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        };
        let key = RsaPublicKeyComponents {
            n: &self.modulus,
            e: &self.exponent,
        };
        key.verify(how, message, signature).is_ok()
    }
}

/// Reads the keys of a file: certificates and public keys in PEM form, a JSON dictionary with such
/// texts by name (as in Google's `oauth2/v1/certs`), or a JSON Web Key Set (as in its
/// `oauth2/v3/certs`).
///
/// # Errors
/// Returns an error if there is no key, or one that is not an RSA key. If such a key were ignored,
/// documents would be refused without a visible reason.
pub fn keys(text: &str) -> Result<Vec<Key>, String> {
    let keys = match text.trim_start().starts_with('{') {
        true => of_json(text)?,
        false => of_pem(text)?,
    };
    match keys.is_empty() {
        true => Err("it contains no key".to_owned()),
        false => Ok(keys),
    }
}

/// Returns the kind and the DER bytes of every section of a PEM text.
pub(crate) fn sections(text: &str) -> Result<Vec<(SectionKind, Vec<u8>)>, String> {
    let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(text.as_bytes());
    let sections = sections.collect::<Result<Vec<_>, _>>();
    sections.map_err(|_| "it is not PEM".to_owned())
}

fn of_pem(text: &str) -> Result<Vec<Key>, String> {
    let key = |(kind, der): (SectionKind, Vec<u8>)| match kind {
        SectionKind::Certificate => Certificate::read(&der).and_then(|known| known.key()),
        SectionKind::PublicKey => of_spki(&der),
        _ => None,
    };
    let keys = sections(text)?.into_iter().enumerate();
    keys.map(|(at, section)| {
        let number = at + 1;
        key(section).ok_or_else(|| format!("PEM section {number} has no RSA key of 1024 bits or more (AWS signs `pkcs7` with DSA: use the RSA certificate)"))
    })
    .collect()
}

fn of_json(text: &str) -> Result<Vec<Key>, String> {
    let read = json::read(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let map = read.as_map().ok_or("it is not a dictionary of keys")?;
    if let Some(set) = map.get("keys").and_then(Value::as_list) {
        let keys = set.iter().map(|key| key.as_map().and_then(of_jwk));
        let keys = keys.collect::<Option<Vec<_>>>();
        return keys.ok_or_else(|| "a key of the set is not an RSA key".to_owned());
    }
    let mut keys = Vec::new();
    for (name, pem) in map {
        let name = name.to_text();
        let found = of_pem(pem.as_str().unwrap_or_default());
        let found = found.map_err(|problem| format!("{name}: {problem}"))?;
        keys.extend(found.into_iter().map(|key| key.named(&name)));
    }
    Ok(keys)
}

fn of_jwk(jwk: &Map) -> Option<Key> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    let number = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
    if text("kty") != Some("RSA") {
        return None;
    }
    let key = Key::from_components(&number("n")?, &number("e")?)?;
    Some(match text("kid") {
        Some(name) => key.named(name),
        None => key,
    })
}
