//! RSA as Salt uses it: OAEP, PKCS#1 v1.5, and signatures with the padding of ANSI X9.31.

use std::fmt;

use rsa::hazmat::{rsa_decrypt_and_check, rsa_encrypt};
use rsa::traits::{PrivateKeyParts, PublicKeyParts};
use rsa::{BoxedUint, PrivateKey, PublicKey};
use sha1::Sha1;
use sha2::Sha224;

use crate::random::Kernel;
use crate::{EncAlgo, SigAlgo, der};

/// The smallest accepted size of a key in bits, which is that of Salt's `keysize`.
const BITS_MIN: u32 = 2048;
/// The largest accepted size of a key in bits.
const BITS_MAX: u32 = 8192;
/// The size of an exponent in bits, at most.
const EXPONENT_BITS: u32 = 64;

/// A text that is no RSA key which can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAKey {
    #[error("not an RSA key in PEM format")]
    Other,
    #[error("a private key with a password, which a Salt minion does not have")]
    Encrypted,
    #[error("an RSA key of {0} bits, but {BITS_MIN} to {BITS_MAX} bits are accepted")]
    Size(u32),
    #[error("an RSA key that cannot be used: {0}")]
    Invalid(rsa::Error),
}

fn number(bytes: &[u8], bits: u32) -> Result<BoxedUint, NotAKey> {
    BoxedUint::from_be_slice(bytes, bits).map_err(|_| NotAKey::Other)
}

/// Reads a modulus. Returns it with its size in bits, rounded up to whole bytes.
fn modulus(bytes: &[u8]) -> Result<(BoxedUint, u32), NotAKey> {
    let bits = u32::try_from(bytes.len() * 8).map_err(|_| NotAKey::Other)?;
    if !(BITS_MIN..=BITS_MAX).contains(&bits) {
        return Err(NotAKey::Size(bits));
    }
    Ok((number(bytes, bits)?, bits))
}

/// A public key: that of a master, or of the one who signs the keys of masters.
#[derive(Clone)]
pub(crate) struct Public(PublicKey);

impl Public {
    /// Reads a key from PEM. White space around it does not matter.
    pub(crate) fn from_pem(text: &str) -> Result<Self, NotAKey> {
        let (label, der) = der::from_pem(text).ok_or(NotAKey::Other)?;
        let mut numbers = der::public(label, &der).ok_or(NotAKey::Other)?;
        let (n, _) = modulus(numbers.integer().ok_or(NotAKey::Other)?)?;
        let e = number(numbers.integer().ok_or(NotAKey::Other)?, EXPONENT_BITS)?;
        PublicKey::new(n, e).map(Self).map_err(NotAKey::Invalid)
    }

    /// Returns the key as PEM, without a newline at its end.
    pub(crate) fn pem(&self) -> String {
        der::write_public(&self.0.n_bytes(), &self.0.e_bytes())
    }

    /// Encrypts a few bytes for the owner of the key.
    pub(crate) fn encrypt(&self, algo: EncAlgo, plain: &[u8]) -> Result<Vec<u8>, rsa::Error> {
        match algo {
            EncAlgo::OaepSha1 => self.0.oaep_encrypt_with_rng::<Sha1, _>(&mut Kernel, plain),
            EncAlgo::OaepSha224 => self
                .0
                .oaep_encrypt_with_rng::<Sha224, _>(&mut Kernel, plain),
        }
    }

    /// Returns whether the owner of the key has signed the message.
    pub(crate) fn verifies(&self, algo: SigAlgo, message: &[u8], signature: &[u8]) -> bool {
        let verified = match algo {
            SigAlgo::Pkcs1v15Sha1 => self.0.pkcs1v15_verify::<Sha1>(message, signature),
            SigAlgo::Pkcs1v15Sha224 => self.0.pkcs1v15_verify::<Sha224>(message, signature),
        };
        verified.is_ok()
    }

    /// Returns the message that a signature of X9.31 contains; `None` if it is no such signature.
    pub(crate) fn open(&self, signature: &[u8]) -> Option<Vec<u8>> {
        let n = self.0.n().as_ref();
        let s = BoxedUint::from_be_slice(signature, self.0.n_bits_precision()).ok()?;
        if signature.len() != self.0.size() || s >= *n {
            return None;
        }
        let mut padded = rsa_encrypt(&self.0, &s).ok()?;
        if padded.to_be_bytes().last()? & 0x0f != 0x0c {
            padded = n.wrapping_sub(&padded);
        }
        unpadded(&last(&padded, self.0.size())).map(<[u8]>::to_vec)
    }
}

impl PartialEq for Public {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl fmt::Debug for Public {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pem())
    }
}

/// The last `size` bytes of a number.
fn last(number: &BoxedUint, size: usize) -> Vec<u8> {
    let all = number.to_be_bytes();
    let start = all.len().saturating_sub(size);
    all.get(start..).unwrap_or_default().to_vec()
}

/// Removes the padding of X9.31.
fn unpadded(padded: &[u8]) -> Option<&[u8]> {
    let inside = padded.strip_suffix(&[0xcc])?;
    if let Some(message) = inside.strip_prefix(&[0x6a]) {
        return Some(message);
    }
    let rest = inside.strip_prefix(&[0x6b])?;
    let end = rest.iter().position(|byte| *byte != 0xbb)?;
    rest.get(end..)?.strip_prefix(&[0xba])
}

/// Adds the padding of X9.31 up to `size` bytes; `None` if the message is too long.
fn padded(message: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut out = match size.checked_sub(message.len() + 2)? {
        0 => vec![0x6a],
        fill => {
            let mut head = vec![0xbb; fill + 1];
            *head.first_mut()? = 0x6b;
            *head.last_mut()? = 0xba;
            head
        }
    };
    out.extend(message);
    out.push(0xcc);
    Some(out)
}

/// The minion's private key.
pub(crate) struct Private(PrivateKey);

impl Private {
    /// Creates a key, which takes seconds on a small machine.
    pub(crate) fn generate(bits: u32) -> Result<Self, NotAKey> {
        if !(BITS_MIN..=BITS_MAX).contains(&bits) {
            return Err(NotAKey::Size(bits));
        }
        let key = PrivateKey::new(&mut Kernel, bits as usize);
        key.map(Self).map_err(NotAKey::Invalid)
    }

    /// Reads a key in PKCS#1 or PKCS#8 from PEM.
    pub(crate) fn from_pem(text: &str) -> Result<Self, NotAKey> {
        if text.contains("ENCRYPTED") {
            return Err(NotAKey::Encrypted);
        }
        let (label, der) = der::from_pem(text).ok_or(NotAKey::Other)?;
        let mut numbers = der::private(label, &der).ok_or(NotAKey::Other)?;
        let mut next = || numbers.integer().ok_or(NotAKey::Other);
        let (n, bits) = modulus(next()?)?;
        let e = number(next()?, EXPONENT_BITS)?;
        let d = number(next()?, bits)?;
        let primes = vec![number(next()?, bits)?, number(next()?, bits)?];
        let key = PrivateKey::from_components(n, e, d, primes);
        key.map(Self).map_err(NotAKey::Invalid)
    }

    /// Returns the key in PKCS#1 as PEM, which is what Salt writes.
    pub(crate) fn to_pem(&self) -> Result<String, NotAKey> {
        let key = &self.0;
        let (Some(dp), Some(dq), Some(qinv)) = (key.dp(), key.dq(), key.crt_coefficient()) else {
            return Err(NotAKey::Other);
        };
        let [p, q] = key.primes() else {
            return Err(NotAKey::Other);
        };
        Ok(der::write_private(&[
            &key.n_bytes(),
            &key.e_bytes(),
            &key.d().to_be_bytes(),
            &p.to_be_bytes(),
            &q.to_be_bytes(),
            &dp.to_be_bytes(),
            &dq.to_be_bytes(),
            &qinv.to_be_bytes(),
        ]))
    }

    /// Returns the public half.
    pub(crate) fn public(&self) -> Public {
        Public(self.0.to_public_key())
    }

    /// Decrypts a few bytes; `None` if they are not for this key.
    pub(crate) fn decrypt(&self, algo: EncAlgo, sealed: &[u8]) -> Option<Vec<u8>> {
        let plain = match algo {
            EncAlgo::OaepSha1 => self.0.oaep_decrypt_with_rng::<Sha1, _>(&mut Kernel, sealed),
            EncAlgo::OaepSha224 => self
                .0
                .oaep_decrypt_with_rng::<Sha224, _>(&mut Kernel, sealed),
        };
        plain.ok()
    }

    /// Signs a short message with the padding of X9.31.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, NotAKey> {
        let size = self.0.size();
        let padded = padded(message, size).ok_or(NotAKey::Other)?;
        let m = number(&padded, self.0.n_bits_precision())?;
        let signed = rsa_decrypt_and_check(&self.0, Some(&mut Kernel), &m);
        let s = signed.map_err(NotAKey::Invalid)?;
        let other = self.0.n().as_ref().wrapping_sub(&s);
        Ok(last(if s < other { &s } else { &other }, size))
    }
}

/// The operations of a master, for the tests.
#[cfg(test)]
impl Private {
    /// Signs a message as a master does.
    pub(crate) fn sign_message(&self, algo: SigAlgo, message: &[u8]) -> Vec<u8> {
        let signed = match algo {
            SigAlgo::Pkcs1v15Sha1 => self.0.pkcs1v15_sign::<Sha1>(message),
            SigAlgo::Pkcs1v15Sha224 => self.0.pkcs1v15_sign::<Sha224>(message),
        };
        signed.unwrap_or_default()
    }
}
