//! Certificates and requests: their draft, its comparison with an existing one, and the signature.

use jiff::{SignedDuration, Timestamp};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, random};

use super::der::{BIT_STRING, SEQUENCE, SET, constant_oid, integer, part, parts, stamp, time};
use super::extensions::{self, About, EXTENSIONS, NOT_ASKED};
use super::keys::{self, Private};
use super::names::{ATTRIBUTES, Name};
use super::parts::{Extension, Parts, Request};
use super::pem;

const DAY_S: i64 = 24 * 60 * 60;

/// The digests, each with the identifiers of an RSA and an EC signature over it.
const DIGESTS: &[(&str, &str, &str)] = &[
    ("sha1", "1.2.840.113549.1.1.5", "1.2.840.10045.4.1"),
    ("sha224", "1.2.840.113549.1.1.14", "1.2.840.10045.4.3.1"),
    ("sha256", "1.2.840.113549.1.1.11", "1.2.840.10045.4.3.2"),
    ("sha384", "1.2.840.113549.1.1.12", "1.2.840.10045.4.3.3"),
    ("sha512", "1.2.840.113549.1.1.13", "1.2.840.10045.4.3.4"),
];

/// The names of digests that Salt accepts.
const SALTS_DIGESTS: &str = "sha1, sha224, sha256, sha384, sha512, sha512_224, sha512_256, sha3_224, sha3_256, sha3_384, sha3_512";

/// The contents of a certificate that is to be created.
pub(crate) struct Draft {
    serial: Vec<u8>,
    subject: Name,
    issuer: Vec<u8>,
    key: Vec<u8>,
    not_before: Timestamp,
    not_after: Timestamp,
    extensions: Vec<Extension>,
    digest: String,
    /// The key to sign with; `None` if another machine signs.
    signer: Option<Private>,
    authority: Option<Parts>,
}

/// Returns an argument that is given and not null.
pub(crate) fn given<'a>(args: &'a Map, name: &str) -> Option<&'a Value> {
    args.get(name).filter(|value| !value.is_null())
}

/// Returns an argument that is given and not empty.
fn named<'a>(args: &'a Map, name: &str) -> Option<&'a Value> {
    given(args, name).filter(|value| value.is_true())
}

fn text(args: &Map, name: &str) -> Option<String> {
    given(args, name).map(Value::to_text)
}

/// Renames arguments with older names to the current ones.
pub(crate) fn renamed(args: &mut Map) {
    let mut rename = |long: &str, short: &str| {
        if let Some(value) = args.remove(long) {
            args.insert(short, value);
        }
    };
    for (short, long, ..) in ATTRIBUTES {
        long.iter().for_each(|long| rename(long, short));
    }
    for (short, long, ..) in EXTENSIONS {
        rename(long, short);
    }
    rename("issuserAltName", "issuerAltName");
    rename("algorithm", "digest");
}

/// Applies a signing policy, which overrides the arguments.
pub(crate) fn merge(args: &mut Map, mut policy: Map) {
    renamed(args);
    renamed(&mut policy);
    policy.remove("minions");
    let names_subject = ATTRIBUTES.iter().any(|(short, ..)| policy.contains(short));
    let merged = match (given(args, "subject"), given(&policy, "subject")) {
        (Some(Value::Map(own)), Some(Value::Map(over))) => {
            let mut both = own.clone();
            both.update(over.clone());
            Some(Value::Map(both))
        }
        (Some(Value::List(own)), Some(Value::List(over))) => {
            Some(Value::list(over.iter().chain(own.iter()).cloned()))
        }
        _ => None,
    };
    if names_subject {
        args.remove("subject");
    } else if let Some(merged) = merged {
        policy.insert("subject", merged);
    }
    args.update(policy);
}

/// Refuses unsupported digests.
///
/// # Errors
/// When the digest is unknown, or cannot be used for signing with openssl's keys here.
pub(crate) fn check_digest(digest: &str) -> Result<(), Error> {
    let lower = digest.to_lowercase();
    if DIGESTS.iter().any(|(known, ..)| *known == lower) {
        return Ok(());
    }
    Err(Error::refused(
        match SALTS_DIGESTS.split(", ").any(|known| known == lower) {
            true => {
                format!("The digest {digest} is not supported: use sha256, sha384 or sha512")
            }
            false => format!("Invalid value '{digest}' for digest. Valid: {SALTS_DIGESTS}"),
        },
    ))
}

/// Parses a time in UTC: `2026-01-31 12:00:00`.
///
/// # Errors
/// When it is invalid.
pub(crate) fn moment(given: &str) -> Result<Timestamp, Error> {
    let wrong = || {
        Error::refused(format!(
            "time data '{given}' does not match format '%Y-%m-%d %H:%M:%S'"
        ))
    };
    let civil = jiff::civil::DateTime::strptime("%Y-%m-%d %H:%M:%S", given).map_err(|_| wrong())?;
    let zoned = civil
        .to_zoned(jiff::tz::TimeZone::UTC)
        .map_err(|_| wrong())?;
    Ok(zoned.timestamp())
}

/// Returns the time that is this number of days from now.
///
/// # Errors
/// When the calendar has no such date.
pub(crate) fn in_days(days: f64) -> Result<Timestamp, Error> {
    let wrong = || Error::refused(format!("{days} days from now is not a valid date"));
    let wait = SignedDuration::try_from_secs_f64(days * DAY_S as f64).map_err(|_| wrong())?;
    Timestamp::now().checked_add(wait).map_err(|_| wrong())
}

fn serial(args: &Map) -> Result<Vec<u8>, Error> {
    match given(args, "serial_number") {
        None => {
            let mut bytes = random::vec(20)?;
            if let Some(first) = bytes.first_mut() {
                *first = *first & 0x7f | 0x01;
            }
            Ok(bytes)
        }
        Some(Value::Int(number @ 0..)) => Ok(number.to_be_bytes().to_vec()),
        Some(other) => serial_of(other),
    }
}

/// Parses a serial number from hexadecimal digits.
///
/// # Errors
/// When it is invalid.
pub(crate) fn serial_of(given: &Value) -> Result<Vec<u8>, Error> {
    let text = given.to_text();
    pem::unhexed(&text)
        .ok_or_else(|| Error::refused(format!("Could not parse serial number {text}")))
}

impl Draft {
    /// Creates a draft from the arguments of `create_certificate`, to which the signing policy was
    /// applied.
    ///
    /// # Errors
    /// When an argument is invalid, or something that it names cannot be read.
    pub(crate) fn from_arguments(cx: &Exec, args: &Map, is_remote: bool) -> Result<Self, Error> {
        let signer = match is_remote {
            true => None,
            false => {
                let key = given(args, "signing_private_key").unwrap_or(&Value::Null);
                let passphrase = text(args, "signing_private_key_passphrase");
                Some(Private::load(cx, key, passphrase.as_deref())?)
            }
        };
        let serial = serial(args)?;
        let request = named(args, "csr").map(Request::load).transpose()?;
        let authority = named(args, "signing_cert").map(Parts::load).transpose()?;
        let key = subject_key(cx, args, (&signer, &authority, &request))?;
        if let (Some(authority), Some(signer)) = (&authority, &signer)
            && authority.key != signer.key
        {
            return Err("Signing private key does not match the certificate's public key".into());
        }
        let everything = Value::Map(args.clone());
        let subject = Name::parse(named(args, "subject").unwrap_or(&everything))?;
        let issuer = match &authority {
            Some(authority) => authority.subject.clone(),
            None => subject.der()?,
        };
        let days = given(args, "days_valid")
            .and_then(Value::as_float)
            .unwrap_or(30.0);
        let now = Timestamp::now();
        let at = |name: &str| {
            named(args, name)
                .map(|given| moment(&given.to_text()))
                .transpose()
        };
        let about = About {
            key: &key,
            authority: authority.as_ref(),
            is_own: authority.is_none(),
        };
        let mut extensions = extensions::given(args, &about)?;
        extensions.extend(requested_extensions(request, &extensions));
        let digest = text(args, "digest")
            .unwrap_or_else(|| "sha256".into())
            .to_lowercase();
        Ok(Self {
            serial,
            subject,
            issuer,
            not_before: at("not_before")?.unwrap_or(now),
            not_after: match at("not_after")? {
                Some(end) => end,
                None => in_days(days)?,
            },
            extensions,
            digest,
            signer,
            key,
            authority,
        })
    }

    /// Returns the differences to an existing certificate, in Salt's words.
    ///
    /// # Errors
    /// When the signature cannot be checked.
    pub(crate) fn changes(&self, cx: &Exec, current: &Parts, args: &Map) -> Result<Map, Error> {
        let mut changes = Map::new();
        if let Some(digest) = digest_of(&current.algorithm)
            && digest != self.digest
        {
            changes.insert("digest", given(args, "digest").cloned().unwrap_or_default());
        }
        if let Some(serial) = given(args, "serial_number")
            && integer(&self.serial) != integer(&current.serial)
        {
            changes.insert("serial_number", serial.clone());
        }
        if self.key != current.key {
            changes.insert("private_key", true);
        }
        if let Some(authority) = &self.authority {
            let digest = digest_of(&current.algorithm).unwrap_or_default();
            if !keys::verify(
                cx,
                &authority.key,
                &current.signed,
                &current.signature,
                digest,
            )? {
                changes.insert("signing_private_key", true);
            }
        }
        if self.subject != current.subject_name() {
            changes.insert("subject_name", self.subject.to_rfc4514());
        }
        let issuer = Name::read(&self.issuer).unwrap_or_default();
        if issuer != current.issuer_name() {
            changes.insert("issuer_name", issuer.to_rfc4514());
        }
        changes.update(compared(&current.extensions, &self.extensions));
        Ok(changes)
    }

    /// Returns the signed certificate.
    ///
    /// # Errors
    /// The error of openssl.
    pub(crate) fn signed(&self, cx: &Exec) -> Result<Vec<u8>, Error> {
        let signer = self
            .signer
            .as_ref()
            .ok_or("this certificate is signed by another machine")?;
        let algorithm = algorithm(signer, &self.digest)?;
        let extensions: Vec<Vec<u8>> = self.extensions.iter().map(extensions::der).collect();
        let mut body = vec![
            part(0xa0, &integer(&[2])),
            integer(&self.serial),
            algorithm.clone(),
            self.issuer.clone(),
            parts(SEQUENCE, &[time(self.not_before), time(self.not_after)]),
            self.subject.der()?,
            self.key.clone(),
        ];
        if !extensions.is_empty() {
            body.push(part(0xa3, &parts(SEQUENCE, &extensions)));
        }
        finished(cx, signer, parts(SEQUENCE, &body), algorithm, &self.digest)
    }
}

/// Returns the public key that a certificate is for.
fn subject_key(
    cx: &Exec,
    args: &Map,
    (signer, authority, request): (&Option<Private>, &Option<Parts>, &Option<Request>),
) -> Result<Vec<u8>, Error> {
    if authority.is_none() {
        let signer = signer
            .as_ref()
            .ok_or("The signing policy of ca_server has no signing_cert")?;
        return Ok(signer.key.clone());
    }
    if let Some(private) = named(args, "private_key") {
        let passphrase = text(args, "private_key_passphrase");
        return Ok(Private::load(cx, private, passphrase.as_deref())?.key);
    }
    match (named(args, "public_key"), request) {
        (Some(public), _) => keys::public(cx, public, None),
        (None, Some(request)) => Ok(request.key.clone()),
        _ => Err("This certificate is not self-signed (signing_cert is set) and thus needs public_key, private_key or csr to derive public key to sign".into()),
    }
}

/// Returns the extensions of a request that the arguments do not set, in the order in which
/// extensions are written.
fn requested_extensions(request: Option<Request>, said: &[Extension]) -> Vec<Extension> {
    let all = request
        .map(|request| request.extensions)
        .unwrap_or_default();
    let may = EXTENSIONS
        .iter()
        .filter(|(name, ..)| !NOT_ASKED.contains(name));
    let open = may.filter(|(_, _, oid, _)| !said.iter().any(|one| one.oid == *oid));
    open.filter_map(|(_, _, oid, _)| all.iter().find(|one| one.oid == *oid).cloned())
        .collect()
}

/// Returns the digest of a signature's identifier; `None` for an unknown one.
pub(crate) fn digest_of(algorithm: &str) -> Option<&'static str> {
    let mut all = DIGESTS.iter();
    all.find(|(_, rsa, ec)| *rsa == algorithm || *ec == algorithm)
        .map(|(digest, ..)| *digest)
}

/// Encodes the signature algorithm of a key, as a part of the signed data.
///
/// # Errors
/// When the digest or the key is of an unknown kind.
pub(crate) fn algorithm(signer: &Private, digest: &str) -> Result<Vec<u8>, Error> {
    let (kind, _) = keys::kind(&signer.key)?;
    let known_digest = DIGESTS.iter().find(|(known, ..)| *known == digest);
    let (_, rsa, ec) = known_digest.ok_or_else(|| {
        Error::refused(format!(
            "The digest {digest} is not supported: use sha256, sha384 or sha512"
        ))
    })?;
    Ok(match kind {
        keys::Kind::Rsa => parts(SEQUENCE, &[constant_oid(rsa), vec![0x05, 0x00]]),
        keys::Kind::Ec => parts(SEQUENCE, &[constant_oid(ec)]),
        keys::Kind::Ed25519 => parts(SEQUENCE, &[constant_oid("1.3.101.112")]),
        keys::Kind::Ed448 => parts(SEQUENCE, &[constant_oid("1.3.101.113")]),
    })
}

/// Signs a body and returns it with the algorithm and the signature.
///
/// # Errors
/// The error of openssl.
pub(crate) fn finished(
    cx: &Exec,
    signer: &Private,
    body: Vec<u8>,
    algorithm: Vec<u8>,
    digest: &str,
) -> Result<Vec<u8>, Error> {
    let signature = signer.sign(cx, &body, digest)?;
    let signature = part(BIT_STRING, &[&[0], signature.as_slice()].concat());
    Ok(parts(SEQUENCE, &[body, algorithm, signature]))
}

/// Returns `extensions` of the changes: those added, changed and removed; an empty map without
/// changes.
pub(crate) fn compared(current: &[Extension], wanted: &[Extension]) -> Map {
    let name = |one: &Extension| Value::from(extensions::name_of(&one.oid));
    let find =
        |all: &[Extension], one: &Extension| all.iter().find(|other| other.oid == one.oid).cloned();
    let added = wanted.iter().filter(|one| find(current, one).is_none());
    let changed = wanted
        .iter()
        .filter(|one| find(current, one).is_some_and(|old| old != **one));
    let removed = current.iter().filter(|one| find(wanted, one).is_none());
    let all = Map::new()
        .with("added", Value::list(added.map(name)))
        .with("changed", Value::list(changed.map(name)))
        .with("removed", Value::list(removed.map(name)));
    let is_any = all.values().any(Value::is_true);
    match is_any {
        true => Map::new().with("extensions", all),
        false => Map::new(),
    }
}

/// Returns true if a certificate expires within this number of days.
///
/// # Errors
/// When the calendar has no such date.
pub(crate) fn expires(current: &Parts, days: f64) -> Result<bool, Error> {
    Ok(current.not_after < stamp(in_days(days)?))
}

/// A certificate request that is to be created.
pub(crate) struct Asking {
    key: Private,
    subject: Name,
    extensions: Vec<Extension>,
    digest: String,
}

impl Asking {
    /// Creates a request from the arguments of `create_csr`.
    ///
    /// # Errors
    /// When an argument is invalid, or the key cannot be read.
    pub(crate) fn from_arguments(cx: &Exec, args: &Map) -> Result<Self, Error> {
        let key = given(args, "private_key").unwrap_or(&Value::Null);
        let key = Private::load(cx, key, text(args, "private_key_passphrase").as_deref())?;
        let everything = Value::Map(args.clone());
        let subject = Name::parse(named(args, "subject").unwrap_or(&everything))?;
        let mut may = args.clone();
        for name in NOT_ASKED {
            may.remove(name);
        }
        let about = About {
            key: &key.key,
            authority: None,
            is_own: false,
        };
        let extensions = extensions::given(&may, &about)?;
        let digest = text(args, "digest")
            .unwrap_or_else(|| "sha256".into())
            .to_lowercase();
        Ok(Self {
            key,
            subject,
            extensions,
            digest,
        })
    }

    /// Returns the differences to an existing request, in Salt's words.
    pub(crate) fn changes(&self, current: &Request, args: &Map) -> Map {
        let mut changes = Map::new();
        if let Some(digest) = digest_of(&current.algorithm)
            && digest != self.digest
        {
            changes.insert("digest", given(args, "digest").cloned().unwrap_or_default());
        }
        if current.key != self.key.key {
            changes.insert("private_key", true);
        }
        if Name::read(&current.subject).as_ref() != Some(&self.subject) {
            changes.insert("subject_name", self.subject.to_rfc4514());
        }
        changes.update(compared(&current.extensions, &self.extensions));
        changes
    }

    /// Returns the signed request.
    ///
    /// # Errors
    /// The error of openssl.
    pub(crate) fn signed(&self, cx: &Exec) -> Result<Vec<u8>, Error> {
        let extensions: Vec<Vec<u8>> = self.extensions.iter().map(extensions::der).collect();
        let attribute = match extensions.is_empty() {
            true => Vec::new(),
            false => {
                let values = parts(SET, &[parts(SEQUENCE, &extensions)]);
                parts(SEQUENCE, &[extensions::request(), values])
            }
        };
        let body = [
            integer(&[0]),
            self.subject.der()?,
            self.key.key.clone(),
            part(0xa0, &attribute),
        ];
        let algorithm = algorithm(&self.key, &self.digest)?;
        finished(
            cx,
            &self.key,
            parts(SEQUENCE, &body),
            algorithm,
            &self.digest,
        )
    }
}
