//! Keys. The `openssl` program creates, reads and uses them.

use std::path::Path;

use machine::fs::Temporary;
use machine::hashes;
use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Value, secret};

use super::containers::{Encoding, is_pkcs12};
use super::der::{BIT_STRING, Der, INTEGER, OID, SEQUENCE};
use super::{pem, print};

/// The variable that passes a passphrase to the program.
pub(crate) const PASSPHRASE: &str = "PINCH_X509_PASSPHRASE";
/// The variable that passes the new passphrase of a key.
pub(crate) const NEW_PASSPHRASE: &str = "PINCH_X509_NEW_PASSPHRASE";

const RSA: &str = "1.2.840.113549.1.1.1";
const EC: &str = "1.2.840.10045.2.1";

const CURVES: &[(&str, i64)] = &[
    ("1.2.840.10045.3.1.7", 256),
    ("1.3.132.0.34", 384),
    ("1.3.132.0.35", 521),
];

/// The kinds of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rsa,
    Ec,
    Ed25519,
    Ed448,
}

impl Kind {
    /// Returns the kind with Salt's name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "rsa" => Self::Rsa,
            "ec" => Self::Ec,
            "ed25519" => Self::Ed25519,
            "ed448" => Self::Ed448,
            _ => return None,
        })
    }

    /// Returns Salt's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rsa => "rsa",
            Self::Ec => "ec",
            Self::Ed25519 => "ed25519",
            Self::Ed448 => "ed448",
        }
    }

    /// Returns true if data is hashed before it is signed.
    pub(crate) fn hashes(self) -> bool {
        matches!(self, Self::Rsa | Self::Ec)
    }
}

/// Returns the kind of a public key, and its size if the kind has several.
///
/// # Errors
/// When it is of an unknown kind.
pub(crate) fn kind(key: &[u8]) -> Result<(Kind, Option<i64>), Error> {
    read_kind(key).ok_or_else(|| "Did not recognize key type".into())
}

fn read_kind(key: &[u8]) -> Option<(Kind, Option<i64>)> {
    let mut whole = Der(Der(key).take(SEQUENCE)?);
    let mut algorithm = Der(whole.take(SEQUENCE)?);
    Some(match print::dotted(algorithm.take(OID)?).as_str() {
        RSA => {
            let (_, inside) = whole.take(BIT_STRING)?.split_first()?;
            let number = Der(Der(inside).take(SEQUENCE)?).take(INTEGER)?;
            let zeros = number.iter().take_while(|byte| **byte == 0).count();
            let number = number.get(zeros..)?;
            let first = number.first()?.leading_zeros();
            (Kind::Rsa, Some(number.len() as i64 * 8 - i64::from(first)))
        }
        EC => {
            let curve = print::dotted(algorithm.take(OID)?);
            let known = CURVES.iter().find(|(oid, _)| *oid == curve);
            (Kind::Ec, known.map(|(_, size)| *size))
        }
        "1.3.101.112" => (Kind::Ed25519, None),
        "1.3.101.113" => (Kind::Ed448, None),
        _ => return None,
    })
}

/// Returns the identifier of a public key, which is the hash of its bits.
///
/// # Errors
/// When it is not a key.
pub(crate) fn identifier(key: &[u8]) -> Result<Vec<u8>, Error> {
    let bits = Der(key).take(SEQUENCE).and_then(|inside| {
        let mut inside = Der(inside);
        inside.take(SEQUENCE)?;
        inside.take(BIT_STRING)?.split_first().map(|(_, bits)| bits)
    });
    let bits = bits.ok_or("Did not recognize key type")?;
    let hash = hashes::of_bytes(bits, "sha1")?;
    pem::unhexed(&hash).ok_or_else(|| "Did not recognize key type".into())
}

/// A private key, and the source from which the program reads it.
#[derive(Clone)]
pub(crate) struct Private {
    /// The path or the text.
    source: Source,
    passphrase: Option<String>,
    /// The public key.
    pub(crate) key: Vec<u8>,
    /// The encoding of the source.
    pub(crate) encoding: Encoding,
}

#[derive(Clone)]
enum Source {
    File(String),
    Text(String),
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
            Refusal::NotEncrypted => {
                "Private key is unencrypted. Please remove the password.".into()
            }
            Refusal::NoKey => "Could not load PEM-encoded private key".into(),
            Refusal::Other(error) => error,
        }
    }
}

/// Runs the program. Its output may contain keys, so it is not logged.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn openssl(
    cx: &Exec,
    words: &[&str],
    stdin: Option<&str>,
    env: &[(&str, &str)],
) -> Result<Output, Error> {
    process(words, stdin, env).run(cx)
}

fn process(words: &[&str], stdin: Option<&str>, env: &[(&str, &str)]) -> Process {
    let process = Process::words(["openssl"].iter().chain(words).copied());
    Process {
        stdin: Some(stdin.unwrap_or_default().to_owned()),
        env: env
            .iter()
            .map(|(name, value)| (Value::from(*name), Value::from(*value)))
            .collect(),
        ..process
    }
    .quiet()
}

fn done(output: Output) -> Result<String, Error> {
    match output.into_success() {
        Ok(stdout) => Ok(stdout + "\n"),
        Err(failed) => Err(Error::refused(format!("openssl: {}", failed.stderr.trim()))),
    }
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
        let bytes = pem::source(given).map_err(Refusal::Other)?;
        let text = String::from_utf8_lossy(&bytes);
        let is_pem = text.contains("-----BEGIN");
        let encoding = match is_pem {
            true => Encoding::Pem,
            false if is_pkcs12(&bytes) => Encoding::Pkcs12,
            false => Encoding::Der,
        };
        let is_encrypted = match encoding {
            Encoding::Pem => text.contains("ENCRYPTED"),
            Encoding::Pkcs12 => passphrase.is_some(),
            // A key begins with its version, an encrypted one with its encryption.
            _ => Der(Der(&bytes).take(SEQUENCE).unwrap_or_default())
                .take(SEQUENCE)
                .is_some(),
        };
        match (is_encrypted, passphrase) {
            (true, None) => return Err(Refusal::NoPassphrase),
            (false, Some(_)) => return Err(Refusal::NotEncrypted),
            _ => {}
        }
        let path = given.as_str().filter(|path| Path::new(path).is_file());
        let source = match path {
            Some(path) => Source::File(path.to_owned()),
            None if is_pem => Source::Text(text.into_owned()),
            None => {
                return Err(Refusal::Other(
                    "A private key given as text must be PEM; use a file for other encodings"
                        .into(),
                ));
            }
        };
        let mut private = Self {
            source,
            passphrase: passphrase.map(str::to_owned),
            key: Vec::new(),
            encoding,
        };
        let output = private
            .openssl(cx, &["pkey", "-pubout"], "-in", &[])
            .map_err(Refusal::Other)?;
        let public = pem::der(output.stdout_regardless().as_bytes(), &["PUBLIC KEY"])
            .filter(|_| output.success());
        match public {
            Some((key, true)) => private.key = key,
            _ if is_encrypted || encoding == Encoding::Pkcs12 => {
                return Err(Refusal::WrongPassphrase);
            }
            _ => return Err(Refusal::NoKey),
        }
        Ok(private)
    }

    fn openssl(
        &self,
        cx: &Exec,
        words: &[&str],
        option: &str,
        env: &[(&str, &str)],
    ) -> Result<Output, Error> {
        self.process(words, option, env).run(cx)
    }

    /// Returns a command of the program that gets the key with an option.
    pub(crate) fn process(&self, words: &[&str], option: &str, env: &[(&str, &str)]) -> Process {
        let (place, stdin) = match &self.source {
            Source::File(path) => (path.as_str(), None),
            Source::Text(text) => ("/dev/stdin", Some(text.as_str())),
        };
        let pass = format!("env:{PASSPHRASE}");
        let words = [words, &[option, place, "-passin", &pass]].concat();
        let passphrase = (PASSPHRASE, self.passphrase.as_deref().unwrap_or_default());
        process(&words, stdin, &[&[passphrase], env].concat())
    }

    /// Returns the PEM, encrypted if there is a new passphrase.
    ///
    /// # Errors
    /// The error of openssl.
    pub(crate) fn text(&self, cx: &Exec, new: Option<&str>) -> Result<String, Error> {
        let pass = format!("env:{NEW_PASSPHRASE}");
        let words: &[&str] = match new {
            Some(_) => &["pkey", "-aes-256-cbc", "-passout", &pass],
            None => &["pkey"],
        };
        let output = self.openssl(
            cx,
            words,
            "-in",
            &[(NEW_PASSPHRASE, new.unwrap_or_default())],
        )?;
        kept(done(output)?)
    }

    /// Signs DER.
    ///
    /// # Errors
    /// The error of openssl.
    pub(crate) fn sign(&self, cx: &Exec, signed: &[u8], digest: &str) -> Result<Vec<u8>, Error> {
        let file = temporary(signed)?;
        self.sign_file(cx, &file.path().display().to_string(), digest, &[])
    }

    /// Signs a file, with options for RSA keys.
    ///
    /// # Errors
    /// The error of openssl.
    pub(crate) fn sign_file(
        &self,
        cx: &Exec,
        place: &str,
        digest: &str,
        of_rsa: &[&str],
    ) -> Result<Vec<u8>, Error> {
        let (kind, _) = kind(&self.key)?;
        let words = match kind.hashes() {
            true => {
                let digest = format!("-{digest}");
                let mut words = vec!["dgst", "-hex", &digest];
                words.extend(of_rsa.iter().filter(|_| kind == Kind::Rsa));
                let output = self.openssl_signing(cx, &words, place)?;
                let said = done(output)?;
                let digits = said.trim().rsplit("= ").next().unwrap_or_default();
                pem::unhexed(digits.trim())
            }
            false => {
                let words = ["pkeyutl", "-sign", "-rawin", "-hexdump", "-in", place];
                dumped(&done(self.openssl(cx, &words, "-inkey", &[])?)?)
            }
        };
        words.ok_or_else(|| "openssl returned no signature".into())
    }

    fn openssl_signing(&self, cx: &Exec, words: &[&str], place: &str) -> Result<Output, Error> {
        let (key, stdin) = match &self.source {
            Source::File(path) => (path.as_str(), None),
            Source::Text(text) => ("/dev/stdin", Some(text.as_str())),
        };
        let pass = format!("env:{PASSPHRASE}");
        let words = [words, &["-sign", key, "-passin", &pass, place]].concat();
        let passphrase = (PASSPHRASE, self.passphrase.as_deref().unwrap_or_default());
        openssl(cx, &words, stdin, &[passphrase])
    }
}

/// Parses the bytes in a dump by openssl: sixteen a line, after their offset.
fn dumped(text: &str) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    for line in text.lines() {
        let Some((_, rest)) = line.split_once(" - ") else {
            continue;
        };
        for at in 0..16 {
            match rest.get(at * 3..at * 3 + 2).map(str::trim) {
                Some(digits) if digits.len() == 2 => all.push(u8::from_str_radix(digits, 16).ok()?),
                _ => break,
            }
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Writes a temporary file, which is deleted when the value is dropped.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn temporary(bytes: &[u8]) -> Result<Temporary, Error> {
    Temporary::written(".x509", bytes, None)
}

/// Returns true if a signature was made with the key of this public key.
///
/// # Errors
/// When openssl is missing, or the key is of an unknown kind.
pub(crate) fn verify(
    cx: &Exec,
    key: &[u8],
    signed: &[u8],
    signature: &[u8],
    digest: &str,
) -> Result<bool, Error> {
    let signed = temporary(signed)?;
    let place = signed.path().display().to_string();
    verify_file(cx, key, &place, signature, (digest, &[]))
}

/// Like [`verify`], for a file, with a digest and options for RSA keys.
///
/// # Errors
/// When openssl is missing, or the key is of an unknown kind.
pub(crate) fn verify_file(
    cx: &Exec,
    key: &[u8],
    signed: &str,
    signature: &[u8],
    (digest, of_rsa): (&str, &[&str]),
) -> Result<bool, Error> {
    let (kind, _) = kind(key)?;
    let signature = temporary(signature)?;
    let signature = signature.path().display().to_string();
    let digest = format!("-{digest}");
    let words: Vec<&str> = match kind.hashes() {
        true => {
            let mut words = vec!["dgst", &digest, "-verify", "/dev/stdin"];
            words.extend(of_rsa.iter().filter(|_| kind == Kind::Rsa));
            words.extend(["-signature", &signature, signed]);
            words
        }
        false => vec![
            "pkeyutl",
            "-verify",
            "-rawin",
            "-pubin",
            "-inkey",
            "/dev/stdin",
            "-sigfile",
            &signature,
            "-in",
            signed,
        ],
    };
    Ok(openssl(cx, &words, Some(&pem::text("PUBLIC KEY", key)), &[])?.success())
}

/// Registers a new private key as a secret, and returns it.
fn kept(text: String) -> Result<String, Error> {
    secret::keep(&[], &text.as_str().into());
    Ok(text)
}

/// Generates a private key and returns its PEM.
///
/// # Errors
/// When the kind or size is not supported, or openssl fails.
pub(crate) fn generate(
    cx: &Exec,
    algo: &str,
    size: Option<i64>,
    passphrase: Option<&str>,
) -> Result<String, Error> {
    let kind = Kind::from_name(algo).ok_or_else(|| {
        Error::refused(format!(
            "Invalid algorithm specified for generating private key: {algo}. Valid: rsa, ec, ed25519, ed448"
        ))
    })?;
    let setting = match (kind, size.filter(|size| *size != 0)) {
        (Kind::Rsa, None) => "rsa_keygen_bits:2048".to_owned(),
        (Kind::Rsa, Some(size @ (2048 | 3072 | 4096))) => format!("rsa_keygen_bits:{size}"),
        (Kind::Rsa, Some(_)) => {
            return Err("RSA key size must be either 2048, 3072 or 4096 bits.".into());
        }
        (Kind::Ec, None) => "ec_paramgen_curve:P-256".to_owned(),
        (Kind::Ec, Some(size @ (256 | 384 | 521))) => format!("ec_paramgen_curve:P-{size}"),
        (Kind::Ec, Some(_)) => return Err("EC key size must be either 256, 384, 521 bits.".into()),
        _ => String::new(),
    };
    made(cx, kind, &setting, passphrase)
}

/// Generates a private RSA key of any size that openssl accepts, and returns its PEM.
///
/// # Errors
/// The error of openssl.
pub(crate) fn generate_rsa(cx: &Exec, bits: i64) -> Result<String, Error> {
    made(cx, Kind::Rsa, &format!("rsa_keygen_bits:{bits}"), None)
}

fn made(cx: &Exec, kind: Kind, setting: &str, passphrase: Option<&str>) -> Result<String, Error> {
    let algorithm = kind.name().to_uppercase();
    let pass = format!("env:{NEW_PASSPHRASE}");
    let mut words = vec!["genpkey", "-algorithm", &algorithm];
    if !setting.is_empty() {
        words.extend(["-pkeyopt", setting]);
    }
    if passphrase.is_some() {
        words.extend(["-aes-256-cbc", "-pass", &pass]);
    }
    let env = [(NEW_PASSPHRASE, passphrase.unwrap_or_default())];
    kept(done(openssl(cx, &words, None, &env)?)?)
}

/// Returns the public key from a user's argument: a public or private key, a certificate or a
/// request.
///
/// # Errors
/// When it is none of these.
pub(crate) fn public(cx: &Exec, given: &Value, passphrase: Option<&str>) -> Result<Vec<u8>, Error> {
    let bytes = pem::source(given)?;
    if let Some(key) = public_of(&bytes) {
        return Ok(key);
    }
    match Private::load_or_refusal(cx, given, passphrase) {
        Ok(private) => Ok(private.key),
        Err(Refusal::NoKey | Refusal::Other(_)) => {
            Err("Could not load key as certificate, public key, private key or CSR".into())
        }
        Err(other) => Err(other.into()),
    }
}

fn public_of(bytes: &[u8]) -> Option<Vec<u8>> {
    let (key, _) = pem::der(bytes, &["PUBLIC KEY"]).unzip();
    let key = key.filter(|key| read_kind(key).is_some());
    let certificate = || Some(super::parts::certificate(bytes)?.key);
    let request = || Some(super::parts::Request::from_bytes(bytes)?.0.key);
    key.or_else(certificate).or_else(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_read_back() {
        let text = "0000 - 3d 2f 00 01 02 03 04 05-06 07 08 09 0a 0b 0c ff   =/..............\n0010 - 41 42                                             AB\n";
        let bytes = dumped(text).unwrap();
        assert_eq!((bytes.len(), bytes[15], bytes[17]), (18, 0xff, 0x42));
        assert_eq!(dumped("nothing"), None);
    }
}
