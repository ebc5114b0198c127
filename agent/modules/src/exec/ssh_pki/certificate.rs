//! Certificates of OpenSSH: PROTOCOL.certkeys of its sources describes their format.

use std::collections::BTreeMap;

use python::base64;
use state::exec::Exec;
use state::module::Error;
use value::{Value, random};

use super::private::Private;
use super::public::{
    Identity, Kind, Public, certificate_word, identity, no_certificate, source, unsupported,
};
use super::wire::{Reader, bare, put, put_number};
use crate::exec::x509::format::der::{Der, INTEGER, SEQUENCE, integer, parts};
use crate::exec::x509::format::keys;

/// The number of random bytes in a certificate.
const NONCE: usize = 32;

/// Critical options or extensions: their names and values, in the order of a certificate.
pub(crate) type Options = BTreeMap<Vec<u8>, Vec<u8>>;

/// The use of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    User,
    Host,
}

impl Use {
    /// Returns Salt's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Host => "host",
        }
    }

    fn number(self) -> u32 {
        match self {
            Self::User => 1,
            Self::Host => 2,
        }
    }
}

/// The contents of a certificate, without those of its authority.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    pub(crate) key: Public,
    pub(crate) serial: u64,
    pub(crate) cert_type: Use,
    pub(crate) key_id: Vec<u8>,
    /// The names of users or hosts; all of them if there are none.
    pub(crate) principals: Vec<Vec<u8>>,
    /// The beginning of the validity in seconds since 1970.
    pub(crate) valid_after: u64,
    /// The end of the validity in seconds since 1970.
    pub(crate) valid_before: u64,
    pub(crate) critical_options: Options,
    pub(crate) extensions: Options,
}

/// A certificate.
#[derive(Debug)]
pub(crate) struct Certificate {
    pub(crate) key: Public,
    pub(crate) contents: Contents,
    pub(crate) authority: Public,
    /// The algorithm and the value of the signature.
    signature: (Vec<u8>, Vec<u8>),
    /// The number of bytes that are signed.
    signed: usize,
    body: Vec<u8>,
}

fn put_options(out: &mut Vec<u8>, options: &Options) {
    let mut all = Vec::new();
    for (name, value) in options {
        put(&mut all, name);
        let mut inside = Vec::new();
        if !value.is_empty() {
            put(&mut inside, value);
        }
        put(&mut all, &inside);
    }
    put(out, &all);
}

/// Reads options, which must be sorted by their names and different.
fn read_options(bytes: &[u8]) -> Option<Options> {
    let (mut options, mut reader) = (Options::new(), Reader(bytes));
    while reader.end().is_none() {
        let name = reader.string()?;
        let last = options.last_key_value().map(|(last, _)| last.as_slice());
        last.is_none_or(|last| last < name).then_some(())?;
        let mut inside = Reader(reader.string()?);
        let value = match inside.end() {
            Some(()) => Vec::new(),
            None => inside.string()?.to_vec(),
        };
        inside.end()?;
        options.insert(name.to_vec(), value);
    }
    Some(options)
}

impl Contents {
    /// Signs a certificate with these contents.
    ///
    /// # Errors
    /// When the contents are contradictory, or openssl fails.
    pub(crate) fn signed(self, cx: &Exec, signer: &Private) -> Result<Certificate, Error> {
        if self.valid_after > self.valid_before {
            return Err("valid_after must be earlier than valid_before".into());
        }
        let nonce: [u8; NONCE] = random::array()?;
        let kind = self.key.kind;
        let mut body = Vec::new();
        put(&mut body, certificate_word(kind).as_bytes());
        put(&mut body, &nonce);
        self.key.put(&mut body);
        body.extend(self.serial.to_be_bytes());
        body.extend(self.cert_type.number().to_be_bytes());
        put(&mut body, &self.key_id);
        let mut principals = Vec::new();
        for principal in &self.principals {
            put(&mut principals, principal);
        }
        put(&mut body, &principals);
        body.extend(self.valid_after.to_be_bytes());
        body.extend(self.valid_before.to_be_bytes());
        put_options(&mut body, &self.critical_options);
        put_options(&mut body, &self.extensions);
        put(&mut body, b"");
        put(&mut body, &signer.public.blob());
        let signature = signature(signer, signer.sign(cx, &body)?)?;
        put(&mut body, &signature);
        Certificate::read(kind, &body).ok_or_else(|| "The certificate cannot be encoded".into())
    }
}

/// Encodes a signature that openssl made.
fn signature(signer: &Private, made: Vec<u8>) -> Result<Vec<u8>, Error> {
    let kind = signer.public.kind;
    let (algorithm, value) = match kind {
        Kind::Rsa => ("rsa-sha2-512", made),
        Kind::Ed25519 => (kind.word(), made),
        _ => {
            let wrong = || Error::from("openssl returned no signature");
            let mut numbers = Der(Der(&made).take(SEQUENCE).ok_or_else(wrong)?);
            let mut value = Vec::new();
            put_number(&mut value, numbers.take(INTEGER).ok_or_else(wrong)?);
            put_number(&mut value, numbers.take(INTEGER).ok_or_else(wrong)?);
            (kind.word(), value)
        }
    };
    let mut encoded = Vec::new();
    put(&mut encoded, algorithm.as_bytes());
    put(&mut encoded, &value);
    Ok(encoded)
}

impl Certificate {
    /// Reads an encoded certificate of a key of this kind. Its signature is not verified.
    pub(super) fn read(kind: Kind, body: &[u8]) -> Option<Self> {
        let mut reader = Reader(body);
        (reader.string()? == certificate_word(kind).as_bytes()).then_some(())?;
        reader.string()?;
        let key = Public::read(kind, &mut reader)?;
        let serial = reader.u64()?;
        let cert_type = match reader.u32()? {
            1 => Use::User,
            2 => Use::Host,
            _ => return None,
        };
        let key_id = reader.string()?.to_vec();
        let (mut principals, mut names) = (Vec::new(), Reader(reader.string()?));
        while names.end().is_none() {
            principals.push(names.string()?.to_vec());
        }
        let contents = Contents {
            key: key.clone(),
            serial,
            cert_type,
            key_id,
            principals,
            valid_after: reader.u64()?,
            valid_before: reader.u64()?,
            critical_options: read_options(reader.string()?)?,
            extensions: read_options(reader.string()?)?,
        };
        reader.string()?;
        let authority = Public::from_blob(reader.string()?)?;
        let signed = body.len() - reader.0.len();
        let mut signature = Reader(reader.string()?);
        reader.end()?;
        let (algorithm, value) = (signature.string()?, signature.string()?);
        signature.end()?;
        Some(Self {
            key,
            contents,
            authority,
            signature: (algorithm.to_vec(), value.to_vec()),
            signed,
            body: body.to_vec(),
        })
    }

    /// Reads a certificate from a user's argument. Its signature is not verified.
    ///
    /// # Errors
    /// When it is no certificate.
    pub(crate) fn load_unverified(given: &Value) -> Result<Self, Error> {
        match identity(&source(given)?) {
            Identity::Certificate(certificate) => Ok(*certificate),
            Identity::Key(key) => Err(no_certificate(&key)),
            Identity::Unsupported(word) => Err(unsupported(&word)),
            Identity::Invalid => Err(INVALID.into()),
        }
    }

    /// Reads a certificate from a user's argument.
    ///
    /// # Errors
    /// When it is no certificate, or its signature is wrong.
    pub(crate) fn load(cx: &Exec, given: &Value) -> Result<Self, Error> {
        let certificate = Self::load_unverified(given)?;
        certificate.verified(cx)
    }

    /// Reads a certificate from a file; `None` if the file is not a certificate nor a key.
    ///
    /// # Errors
    /// When the file cannot be read or is a key, or the signature is wrong.
    pub(crate) fn found(cx: &Exec, path: &Value) -> Result<Option<Self>, Error> {
        match identity(&source(path)?) {
            Identity::Invalid => Ok(None),
            _ => Self::load(cx, path).map(Some),
        }
    }

    fn verified(self, cx: &Exec) -> Result<Self, Error> {
        match self.is_signed(cx)? {
            true => Ok(self),
            false => Err("The signature on the SSH certificate was invalid".into()),
        }
    }

    /// Returns true if the signature was made with the private key of the authority.
    ///
    /// # Errors
    /// When openssl is missing.
    pub(crate) fn is_signed(&self, cx: &Exec) -> Result<bool, Error> {
        let kind = self.authority.kind;
        let (algorithm, value) = &self.signature;
        let digest = match (kind, algorithm.as_slice()) {
            (Kind::Rsa, b"ssh-rsa") => "sha1",
            (Kind::Rsa, b"rsa-sha2-256") => "sha256",
            (Kind::Rsa, b"rsa-sha2-512") => "sha512",
            (Kind::Rsa, _) => return Ok(false),
            (kind, algorithm) if algorithm == kind.word().as_bytes() => kind.digest(),
            _ => return Ok(false),
        };
        let value = match kind.is_ec() {
            false => value.clone(),
            true => {
                let mut numbers = Reader(value);
                let (Some(first), Some(second), Some(())) =
                    (numbers.number(), numbers.number(), numbers.end())
                else {
                    return Ok(false);
                };
                parts(SEQUENCE, &[integer(bare(first)), integer(bare(second))])
            }
        };
        let signed = self.body.get(..self.signed).unwrap_or_default();
        keys::verify(cx, &self.authority.spki(), signed, &value, digest)
    }

    /// Returns the line of the certificate, without a comment.
    pub(crate) fn line(&self) -> String {
        let word = certificate_word(self.key.kind);
        format!("{word} {}", base64::encode(&self.body))
    }
}

/// The sentence for data that is no certificate.
const INVALID: &str = "Could not load OpenSSH certificate.";
