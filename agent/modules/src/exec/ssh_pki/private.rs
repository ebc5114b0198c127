//! Private keys in the format of OpenSSH. The program `openssl` creates and uses them; `ssh-keygen`
//! encrypts and decrypts them.

use std::ops::Range;

use machine::fs::{self, Temporary};
use machine::process::Process;
use python::base64;
use state::exec::Exec;
use state::module::Error;
use value::{Value, random, secret};

use super::public::{Kind, Public, source};
use super::wire::{Reader, bare, put, put_number, remainder};
use crate::exec::x509::format::der::{
    BIT_STRING, Der, INTEGER, OCTET_STRING, SEQUENCE, integer, part, parts,
};
use crate::exec::x509::format::{keys, pem};
use crate::git::passphrase;

const LABEL: &str = "OPENSSH PRIVATE KEY";
const MAGIC: &[u8] = b"openssh-key-v1\0";
/// The name of no cipher and no key derivation.
const NONE: &[u8] = b"none";
/// The number of bytes in a line of the text.
const LINE: usize = 70;

/// A private key.
pub(crate) struct Private {
    pub(crate) public: Public,
    /// The private exponent, the coefficient and both primes of an RSA key, the private number of
    /// others.
    secrets: Vec<Vec<u8>>,
}

/// The reason why a private key cannot be used.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The key is encrypted with another passphrase.
    WrongPassphrase,
    /// The key is encrypted, and no passphrase is given.
    NoPassphrase,
    /// A passphrase is given, and the key is not encrypted.
    NotEncrypted,
    /// The data is not a key.
    NoKey,
    Other(Error),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::WrongPassphrase => "Bad decrypt - is the password correct?".into(),
            Refusal::NoPassphrase => "Private key is encrypted. Please provide a password.".into(),
            Refusal::NotEncrypted => "Password was given but private key is not encrypted".into(),
            Refusal::NoKey => "Could not load OpenSSH private key".into(),
            Refusal::Other(error) => error,
        }
    }
}

/// The outer part of a key file.
struct Envelope {
    is_encrypted: bool,
    public: Public,
    body: Vec<u8>,
    /// The file in the lines that ssh-keygen expects.
    text: String,
}

/// Returns the lines of an encoded key, without their ends.
fn lines(whole: &[u8]) -> Vec<String> {
    let encoded = base64::encode(whole);
    let lines = encoded.as_bytes().chunks(LINE);
    lines
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect()
}

fn text_of(lines: &[String]) -> String {
    let lines = lines.join("\n");
    format!("-----BEGIN {LABEL}-----\n{lines}\n-----END {LABEL}-----\n")
}

fn envelope(bytes: &[u8]) -> Option<Envelope> {
    let mut blocks = pem::blocks(bytes).into_iter();
    let (_, whole) = blocks.find(|(label, _)| label == LABEL)?;
    let mut reader = Reader(whole.strip_prefix(MAGIC)?);
    let (cipher, derivation) = (reader.string()?, reader.string()?);
    reader.string()?;
    (reader.u32()? == 1).then_some(())?;
    Some(Envelope {
        is_encrypted: cipher != NONE || derivation != NONE,
        public: Public::from_blob(reader.string()?)?,
        body: reader.string()?.to_vec(),
        text: text_of(&lines(&whole)),
    })
}

/// Returns the numbers after a private key's public part.
fn secrets(kind: Kind, reader: &mut Reader<'_>) -> Option<(Public, Vec<Vec<u8>>)> {
    if kind == Kind::Rsa {
        let mut numbers: Vec<Vec<u8>> = Vec::new();
        for _ in 0..6 {
            numbers.push(reader.number()?.to_vec());
        }
        // The modulus is before the exponent here.
        let secrets = numbers.split_off(2);
        numbers.reverse();
        return Some((Public { kind, numbers }, secrets));
    }
    let public = Public::read(kind, reader)?;
    let secret = match kind {
        Kind::Ed25519 => reader.string()?.get(..32)?,
        _ => reader.number()?,
    };
    Some((public, vec![secret.to_vec()]))
}

impl Private {
    /// Reads a key from a user's argument.
    ///
    /// # Errors
    /// When it is not a private key, or the passphrase is wrong.
    pub(crate) fn load(cx: &Exec, given: &Value, passphrase: Option<&str>) -> Result<Self, Error> {
        Ok(Self::load_or_refusal(cx, given, passphrase)?)
    }

    /// Like [`Self::load`], but returns the kind of the failure.
    pub(crate) fn load_or_refusal(
        cx: &Exec,
        given: &Value,
        passphrase: Option<&str>,
    ) -> Result<Self, Refusal> {
        let bytes = source(given).map_err(Refusal::Other)?;
        let found = envelope(&bytes).ok_or(Refusal::NoKey)?;
        match (
            found.is_encrypted,
            passphrase.filter(|text| !text.is_empty()),
        ) {
            (false, None) => Self::from_envelope(&found).ok_or(Refusal::NoKey),
            (false, Some(_)) => Err(Refusal::NotEncrypted),
            (true, None) => Err(Refusal::NoPassphrase),
            (true, Some(passphrase)) => {
                let plain = with_passphrase(cx, found.text.as_bytes(), passphrase, &["-N", ""])
                    .map_err(Refusal::Other)?
                    .ok_or(Refusal::WrongPassphrase)?;
                let found = envelope(&plain).filter(|found| !found.is_encrypted);
                let private = found.and_then(|found| Self::from_envelope(&found));
                private.ok_or(Refusal::NoKey)
            }
        }
    }

    fn from_envelope(found: &Envelope) -> Option<Self> {
        let mut reader = Reader(&found.body);
        (reader.u32()? == reader.u32()?).then_some(())?;
        let kind = Kind::from_word(reader.string()?)?;
        let (public, secrets) = secrets(kind, &mut reader)?;
        (public == found.public).then_some(Self { public, secrets })
    }

    /// Creates a key.
    ///
    /// # Errors
    /// When the kind or the size is not supported, or openssl fails.
    pub(crate) fn generate(cx: &Exec, algo: &str, size: Option<i64>) -> Result<Self, Error> {
        if !["rsa", "ec", "ed25519"].contains(&algo) {
            return Err(Error::refused(format!(
                "Invalid algorithm specified for generating private key: {algo}. Valid: rsa, ec, ed25519, ed448"
            )));
        }
        let text = keys::generate(cx, algo, size, None)?;
        let spki = keys::Private::load(cx, &text.as_str().into(), None)?.key;
        let der = pem::der(text.as_bytes(), &["PRIVATE KEY"]).map(|(der, _)| der);
        let private = der.and_then(|der| Self::from_pkcs8(&der, &spki));
        private.ok_or_else(|| "openssl returned a private key of an unknown kind".into())
    }

    fn from_pkcs8(der: &[u8], spki: &[u8]) -> Option<Self> {
        let public = Public::from_spki(spki)?;
        let mut whole = Der(Der(der).take(SEQUENCE)?);
        whole.take(INTEGER)?;
        whole.take(SEQUENCE)?;
        let inside = whole.take(OCTET_STRING)?;
        let secrets = match public.kind {
            Kind::Rsa => {
                let numbers: Vec<&[u8]> = Der(Der(inside).take(SEQUENCE)?)
                    .parts()
                    .map(|(_, number)| bare(number))
                    .collect();
                let [_, _, _, exponent, first, second, _, _, coefficient] = numbers.as_slice()
                else {
                    return None;
                };
                [exponent, coefficient, first, second]
                    .map(|number| number.to_vec())
                    .to_vec()
            }
            Kind::Ed25519 => vec![Der(inside).take(OCTET_STRING)?.to_vec()],
            _ => {
                let mut fields = Der(Der(inside).take(SEQUENCE)?);
                fields.take(INTEGER)?;
                vec![bare(fields.take(OCTET_STRING)?).to_vec()]
            }
        };
        Some(Self { public, secrets })
    }

    /// Returns the text of the key in the format of OpenSSH, encrypted if there is a passphrase.
    ///
    /// # Errors
    /// When ssh-keygen fails, or the system has no random numbers.
    pub(crate) fn text(&self, cx: &Exec, passphrase: Option<&str>) -> Result<String, Error> {
        let plain = self.plain()?;
        let Some(passphrase) = passphrase.filter(|text| !text.is_empty()) else {
            return Ok(plain);
        };
        let encrypted = with_passphrase(cx, plain.as_bytes(), passphrase, &[])?;
        let encrypted = encrypted.and_then(|bytes| String::from_utf8(bytes).ok());
        encrypted.ok_or_else(|| {
            "ssh-keygen cannot encrypt the private key with this passphrase: it may be too short"
                .into()
        })
    }

    /// Returns the text without encryption. The lines with private numbers are secrets.
    fn plain(&self) -> Result<String, Error> {
        let (body, secrets) = self.body()?;
        let mut whole = MAGIC.to_vec();
        put(&mut whole, NONE);
        put(&mut whole, NONE);
        put(&mut whole, b"");
        whole.extend(1u32.to_be_bytes());
        put(&mut whole, &self.public.blob());
        put(&mut whole, &body);
        // Four characters contain three bytes.
        let start = |byte: usize| (whole.len() - body.len() + byte) / 3 * 4 / LINE;
        let secrets = start(secrets.start)..=start(secrets.end);
        let lines = lines(&whole);
        for line in lines.get(secrets).unwrap_or_default() {
            secret::keep(&[], &line.as_str().into());
        }
        Ok(text_of(&lines))
    }

    /// Returns the part of the key that may be encrypted, and the place of the private numbers.
    fn body(&self) -> Result<(Vec<u8>, Range<usize>), Error> {
        let check: [u8; 4] = random::array()?;
        let mut body = [check, check].concat();
        put(&mut body, self.public.kind.word().as_bytes());
        match (self.public.kind, self.public.numbers.as_slice()) {
            (Kind::Rsa, [exponent, modulus]) => {
                put_number(&mut body, modulus);
                put_number(&mut body, exponent);
            }
            _ => self.public.put(&mut body),
        }
        let start = body.len();
        for secret in &self.secrets {
            match self.public.kind {
                Kind::Ed25519 => put(
                    &mut body,
                    &[secret, &*self.public.numbers.concat()].concat(),
                ),
                _ => put_number(&mut body, secret),
            }
        }
        let secrets = start..body.len();
        put(&mut body, b"");
        let padding = 8 - body.len() % 8;
        body.extend((1..).take(padding));
        Ok((body, secrets))
    }

    /// Returns the text of the key in a format that openssl reads.
    fn for_openssl(&self) -> Option<String> {
        let [first, rest @ ..] = self.secrets.as_slice() else {
            return None;
        };
        Some(
            match (self.public.kind, self.public.numbers.as_slice(), rest) {
                (Kind::Rsa, [exponent, modulus], [coefficient, p, q]) => {
                    let reduced = |prime: &[u8]| remainder(first, &less_one(prime));
                    let numbers = [
                        &[0],
                        modulus.as_slice(),
                        exponent,
                        first,
                        p,
                        q,
                        &reduced(p),
                        &reduced(q),
                        coefficient,
                    ];
                    let numbers = numbers.map(integer);
                    pem::text("RSA PRIVATE KEY", &parts(SEQUENCE, &numbers))
                }
                (Kind::Ed25519, ..) => {
                    let algorithm = part(SEQUENCE, &self.public.kind.oid());
                    let secret = part(OCTET_STRING, &part(OCTET_STRING, first));
                    pem::text(
                        "PRIVATE KEY",
                        &parts(SEQUENCE, &[integer(&[]), algorithm, secret]),
                    )
                }
                (kind, point, _) => {
                    let zeros = vec![0; kind.width().saturating_sub(first.len())];
                    let secret = part(OCTET_STRING, &[zeros.as_slice(), first].concat());
                    let point = part(BIT_STRING, &[&[0], point.concat().as_slice()].concat());
                    let fields = [
                        integer(&[1]),
                        secret,
                        part(0xa0, &kind.oid()),
                        part(0xa1, &point),
                    ];
                    pem::text("EC PRIVATE KEY", &parts(SEQUENCE, &fields))
                }
            },
        )
    }

    /// Signs bytes and returns the signature as openssl returns it.
    ///
    /// # Errors
    /// When the key is not valid, or openssl fails.
    pub(super) fn sign(&self, cx: &Exec, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let text = self.for_openssl().ok_or("The private key is not whole")?;
        let key = keys::Private::load(cx, &text.into(), None)
            .map_err(|error| Error::refused(format!("The private key cannot be used: {error}")))?;
        key.sign(cx, bytes, self.public.kind.digest())
    }
}

/// Subtracts one from an odd number.
fn less_one(number: &[u8]) -> Vec<u8> {
    let mut number = number.to_vec();
    if let Some(last) = number.last_mut() {
        *last &= 0xfe;
    }
    number
}

/// Changes the passphrase of a key with ssh-keygen, which asks this program for the passphrase, so
/// that it is in no argument. Returns `None` if the passphrase is not accepted.
fn with_passphrase(
    cx: &Exec,
    key: &[u8],
    passphrase: &str,
    words: &[&str],
) -> Result<Option<Vec<u8>>, Error> {
    let file = Temporary::written(".ssh_pki", key, None)?;
    let path = file.path();
    fs::chmod(cx, path, 0o600, false).map_err(Error::io(path))?;
    let place = path.display().to_string();
    let env = passphrase::variables(passphrase);
    let command = ["ssh-keygen", "-q", "-p", "-f", place.as_str()];
    let process = Process {
        stdin: Some(String::new()),
        env: env
            .into_iter()
            .map(|(name, value)| (Value::from(name), Value::from(value)))
            .collect(),
        ..Process::words(command.iter().chain(words).copied())
    };
    let output = process.quiet().run(cx)?;
    match output.success() {
        true => fs::read(path).map(Some),
        false => Ok(None),
    }
}
