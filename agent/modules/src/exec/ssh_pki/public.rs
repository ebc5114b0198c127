//! Public keys, and the kinds of keys.

use python::base64;
use state::module::Error;
use value::{Value, python as repr};

use super::certificate::Certificate;
use super::wire::{Reader, bare, put, put_number};
use crate::exec::x509::format::der::{
    BIT_STRING, Der, INTEGER, OID, SEQUENCE, constant_oid, integer, part, parts,
};
use crate::exec::x509::format::pem;

/// The end of the type of a certificate.
const OF_CERTIFICATES: &str = "-cert-v01@openssh.com";

/// The kinds of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rsa,
    P256,
    P384,
    P521,
    Ed25519,
}

/// The properties of a kind of keys.
struct Facts {
    kind: Kind,
    /// The type in an encoded key.
    word: &'static str,
    /// Salt's name.
    name: &'static str,
    /// The name of the curve in an encoded key.
    curve: &'static str,
    /// The object identifier of the curve or, if there is none, of the kind.
    oid: &'static str,
    /// The size in bits, if there is only one.
    size: Option<i64>,
    /// The digest of a signature.
    digest: &'static str,
}

const KINDS: [Facts; 5] = [
    Facts {
        kind: Kind::Rsa,
        word: "ssh-rsa",
        name: "rsa",
        curve: "",
        oid: "1.2.840.113549.1.1.1",
        size: None,
        digest: "sha512",
    },
    Facts {
        kind: Kind::P256,
        word: "ecdsa-sha2-nistp256",
        name: "ec",
        curve: "nistp256",
        oid: "1.2.840.10045.3.1.7",
        size: Some(256),
        digest: "sha256",
    },
    Facts {
        kind: Kind::P384,
        word: "ecdsa-sha2-nistp384",
        name: "ec",
        curve: "nistp384",
        oid: "1.3.132.0.34",
        size: Some(384),
        digest: "sha384",
    },
    Facts {
        kind: Kind::P521,
        word: "ecdsa-sha2-nistp521",
        name: "ec",
        curve: "nistp521",
        oid: "1.3.132.0.35",
        size: Some(521),
        digest: "sha512",
    },
    Facts {
        kind: Kind::Ed25519,
        word: "ssh-ed25519",
        name: "ed25519",
        curve: "",
        oid: "1.3.101.112",
        size: None,
        digest: "sha512",
    },
];

const EC: &str = "1.2.840.10045.2.1";

impl Kind {
    fn facts(self) -> &'static Facts {
        let [first, ..] = &KINDS;
        let found = KINDS.iter().find(|facts| facts.kind == self);
        found.unwrap_or(first)
    }

    /// Returns the kind by its type in an encoded key.
    pub(super) fn from_word(word: &[u8]) -> Option<Self> {
        let found = KINDS.iter().find(|facts| facts.word.as_bytes() == word);
        found.map(|facts| facts.kind)
    }

    /// Returns the type in an encoded key.
    pub(super) fn word(self) -> &'static str {
        self.facts().word
    }

    /// Returns Salt's name.
    pub(crate) fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the digest of a signature.
    pub(super) fn digest(self) -> &'static str {
        self.facts().digest
    }

    /// Returns true for the kinds of elliptic curves with a name.
    pub(super) fn is_ec(self) -> bool {
        !self.facts().curve.is_empty()
    }

    /// Returns the object identifier of the curve or the kind, in DER.
    pub(super) fn oid(self) -> Vec<u8> {
        constant_oid(self.facts().oid)
    }

    /// Returns the number of bytes of the private number of a curve.
    pub(super) fn width(self) -> usize {
        let bits = self.facts().size.unwrap_or_default();
        usize::try_from(bits).unwrap_or_default().div_ceil(8)
    }
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Public {
    pub(crate) kind: Kind,
    /// The exponent and the modulus of an RSA key, the point of others.
    pub(super) numbers: Vec<Vec<u8>>,
}

/// The contents of a line that should be a key.
pub(crate) enum Identity {
    Key(Public),
    Certificate(Box<Certificate>),
    /// The line has this type, which is unknown.
    Unsupported(String),
    /// The line is not valid.
    Invalid,
}

impl Public {
    /// Reads the part of an encoded key after its type.
    pub(super) fn read(kind: Kind, reader: &mut Reader<'_>) -> Option<Self> {
        let numbers = match kind {
            Kind::Rsa => {
                let (exponent, modulus) = (reader.number()?, reader.number()?);
                vec![exponent.to_vec(), modulus.to_vec()]
            }
            Kind::Ed25519 => {
                let point = reader.string()?;
                vec![(point.len() == 32).then(|| point.to_vec())?]
            }
            kind => {
                let (curve, point) = (reader.string()?, reader.string()?);
                let is_whole = point.len() == 2 * kind.width() + 1 && point.first() == Some(&4);
                let is_known = curve == kind.facts().curve.as_bytes();
                vec![(is_whole && is_known).then(|| point.to_vec())?]
            }
        };
        Some(Self { kind, numbers })
    }

    /// Reads an encoded key with its type.
    pub(super) fn from_blob(blob: &[u8]) -> Option<Self> {
        let mut reader = Reader(blob);
        let kind = Kind::from_word(reader.string()?)?;
        let key = Self::read(kind, &mut reader)?;
        reader.end()?;
        Some(key)
    }

    /// Reads the key from DER (`SubjectPublicKeyInfo`).
    pub(super) fn from_spki(der: &[u8]) -> Option<Self> {
        let mut whole = Der(Der(der).take(SEQUENCE)?);
        let mut algorithm = Der(whole.take(SEQUENCE)?);
        let mut oid = algorithm.take(OID)?;
        if part(OID, oid) == constant_oid(EC) {
            oid = algorithm.take(OID)?;
        }
        let (_, bits) = whole.take(BIT_STRING)?.split_first()?;
        let oid = part(OID, oid);
        let kind = KINDS
            .iter()
            .find(|facts| constant_oid(facts.oid) == oid)?
            .kind;
        let numbers = match kind {
            Kind::Rsa => {
                let mut inside = Der(Der(bits).take(SEQUENCE)?);
                let modulus = inside.take(INTEGER)?;
                vec![bare(inside.take(INTEGER)?).to_vec(), bare(modulus).to_vec()]
            }
            _ => vec![bits.to_vec()],
        };
        Some(Self { kind, numbers })
    }

    /// Appends the part of the encoded key after its type.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        if self.kind.is_ec() {
            put(out, self.kind.facts().curve.as_bytes());
        }
        for number in &self.numbers {
            match self.kind {
                Kind::Rsa => put_number(out, number),
                _ => put(out, number),
            }
        }
    }

    /// Returns the encoded key with its type.
    pub(crate) fn blob(&self) -> Vec<u8> {
        let mut blob = Vec::new();
        put(&mut blob, self.kind.word().as_bytes());
        self.put(&mut blob);
        blob
    }

    /// Returns the line of the key, without a comment.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.kind.word(), base64::encode(&self.blob()))
    }

    /// Returns the key in DER (`SubjectPublicKeyInfo`).
    pub(super) fn spki(&self) -> Vec<u8> {
        let (algorithm, bits) = match (self.kind, self.numbers.as_slice()) {
            (Kind::Rsa, [exponent, modulus]) => (
                vec![self.kind.oid(), part(0x05, &[])],
                parts(SEQUENCE, &[integer(modulus), integer(exponent)]),
            ),
            (Kind::Ed25519, numbers) => (vec![self.kind.oid()], numbers.concat()),
            (_, numbers) => (vec![constant_oid(EC), self.kind.oid()], numbers.concat()),
        };
        let bits = part(BIT_STRING, &[&[0], bits.as_slice()].concat());
        parts(SEQUENCE, &[parts(SEQUENCE, &algorithm), bits])
    }

    /// Returns the size in bits, if the kind has several.
    pub(crate) fn size(&self) -> Option<i64> {
        match self.kind {
            Kind::Rsa => {
                let modulus = bare(self.numbers.last()?);
                let first = modulus.first()?.leading_zeros();
                Some(modulus.len() as i64 * 8 - i64::from(first))
            }
            kind => kind.facts().size,
        }
    }

    /// Returns the name of the key's class in Python, for messages.
    fn class(&self) -> &'static str {
        match self.kind {
            Kind::Rsa => "RSAPublicKey",
            Kind::Ed25519 => "Ed25519PublicKey",
            _ => "ECPublicKey",
        }
    }

    /// Reads the public key from a user's argument: a key, or a certificate of the key.
    ///
    /// # Errors
    /// When it is neither.
    pub(crate) fn load(given: &Value) -> Result<Self, Error> {
        Self::from_bytes(&source(given)?)
    }

    /// Reads the public key from a text that is not a path.
    ///
    /// # Errors
    /// When it is not a key.
    pub(super) fn from_text(text: &str) -> Result<Self, Error> {
        Self::from_bytes(text.as_bytes())
    }

    fn from_bytes(line: &[u8]) -> Result<Self, Error> {
        match identity(line) {
            Identity::Key(key) => Ok(key),
            Identity::Certificate(certificate) => Ok(certificate.key),
            Identity::Unsupported(word) => Err(unsupported(&word)),
            Identity::Invalid => Err("Could not load OpenSSH public key.".into()),
        }
    }
}

/// Returns the error for a type of keys that is unknown.
pub(super) fn unsupported(word: &str) -> Error {
    let word = repr::repr(&Value::Bytes(word.as_bytes().into()));
    Error::refused(format!("Unsupported key type: {word}"))
}

/// Returns the error for a public key in the place of a certificate.
pub(super) fn no_certificate(key: &Public) -> Error {
    let class = key.class();
    Error::refused(format!("The data decoded to a {class}, not SSHCertificate"))
}

/// Returns the bytes of a key or certificate from an argument: the path of a file, or the text
/// itself.
///
/// # Errors
/// When it is neither, or the file cannot be read.
pub(super) fn source(given: &Value) -> Result<Vec<u8>, Error> {
    match given {
        Value::Bytes(bytes) => Ok(bytes.to_vec()),
        Value::Str(text) if std::path::Path::new(&**text).is_file() => {
            pem::file(std::path::Path::new(&**text))
        }
        Value::Str(text) => Ok(text.as_bytes().to_vec()),
        _ => Err("Could not load provided source. You need to pass an existing file, string or raw bytes.".into()),
    }
}

/// Reads a line with a public key or a certificate.
pub(super) fn identity(line: &[u8]) -> Identity {
    let text = String::from_utf8_lossy(line);
    let mut words = text.split_ascii_whitespace();
    let (false, Some(word), Some(body)) = (
        text.starts_with(|c: char| c.is_ascii_whitespace()),
        words.next(),
        words.next(),
    ) else {
        return Identity::Invalid;
    };
    let bare = word.strip_suffix(OF_CERTIFICATES);
    let Some(kind) = Kind::from_word(bare.unwrap_or(word).as_bytes()) else {
        return Identity::Unsupported(bare.unwrap_or(word).to_owned());
    };
    let Ok(blob) = base64::decode(body) else {
        return Identity::Invalid;
    };
    let found = match bare {
        Some(_) => Certificate::read(kind, &blob)
            .map(Box::new)
            .map(Identity::Certificate),
        None => Public::from_blob(&blob)
            .filter(|key| key.kind == kind)
            .map(Identity::Key),
    };
    found.unwrap_or(Identity::Invalid)
}

/// Returns the type of a certificate for a key of this kind.
pub(super) fn certificate_word(kind: Kind) -> String {
    format!("{}{OF_CERTIFICATES}", kind.word())
}
