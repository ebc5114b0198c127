//! [`Seal`]: a symmetric key by which messages are encrypted and authenticated (Salt's Crypticle).

use std::fmt;

use aes::Aes192;
use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use ring::hmac;
use value::random;

/// The number of bytes of the key for AES.
const KEY: usize = 24;
/// The number of bytes of the key for the HMAC, and of the HMAC.
const MAC: usize = 32;
/// The number of bytes of the initialization vector.
const IV: usize = 16;
/// The beginning of each message.
const HEAD: &[u8] = b"pickle::";

/// A key for AES-192-CBC with HMAC-SHA256.
#[derive(Clone)]
pub(crate) struct Seal {
    aes: [u8; KEY],
    mac: hmac::Key,
    /// The hash of both keys, by which two of them can be compared.
    pub(crate) name: [u8; 32],
}

impl Seal {
    /// Reads a key from base64; `None` if it is none.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let bare: Vec<u8> = text.iter().copied().filter(|byte| *byte != b'\n').collect();
        let bytes = STANDARD.decode(bare).ok()?;
        let (aes, mac) = bytes.split_at_checked(KEY)?;
        if mac.len() != MAC {
            return None;
        }
        Some(Self {
            aes: aes.try_into().ok()?,
            mac: hmac::Key::new(hmac::HMAC_SHA256, mac),
            name: digest(&SHA256, &bytes).as_ref().try_into().ok()?,
        })
    }

    /// Encrypts a message. Only answers contain a nonce.
    pub(crate) fn seal(&self, nonce: &str, message: &[u8]) -> Result<Vec<u8>, random::Error> {
        let iv: [u8; IV] = random::array()?;
        let plain = [HEAD, nonce.as_bytes(), message].concat();
        let cipher = cbc::Encryptor::<Aes192>::new(&self.aes.into(), &iv.into());
        let mut sealed = iv.to_vec();
        sealed.extend(cipher.encrypt_padded_vec::<Pkcs7>(&plain));
        sealed.extend(hmac::sign(&self.mac, &sealed).as_ref());
        Ok(sealed)
    }

    /// Decrypts a message, after its HMAC is verified; `None` if it was not sealed by this key or
    /// has another nonce.
    pub(crate) fn open(&self, nonce: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (body, mac) = sealed.split_at_checked(sealed.len().checked_sub(MAC)?)?;
        hmac::verify(&self.mac, body, mac).ok()?;
        let (iv, encrypted) = body.split_at_checked(IV)?;
        let iv: [u8; IV] = iv.try_into().ok()?;
        let cipher = cbc::Decryptor::<Aes192>::new(&self.aes.into(), &iv.into());
        let plain = cipher.decrypt_padded_vec::<Pkcs7>(encrypted).ok()?;
        let rest = plain.strip_prefix(HEAD)?;
        Some(rest.strip_prefix(nonce.as_bytes())?.to_vec())
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}
