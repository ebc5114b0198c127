//! The `x509` execution module: keys, certificates and requests, with the `openssl` program.

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::fs::{self, Owner};
use crate::hashes;
use crate::x509::issue::{Asking, Draft, check_digest, expires as is_over, given, merge, renamed};
use crate::x509::keys::{self, Private};
use crate::x509::parts::{Parts, Request};
use crate::x509::pem;

/// Seconds that another machine has for signing.
const REMOTE_S: i64 = 60;

state::exec_module! {
    /// Keys, certificates and requests for them.
    mod x509;

    /// Make a certificate. Subject, extensions and the rest are keywords, as for the state `x509.certificate_managed`.
    fn create_certificate(CreateCertificate {
        /// The minion that signs.
        ca_server: Option<String> = None,
        /// The signing policy, whose settings are above all others.
        signing_policy: Option<String> = None,
        /// `pem` or `der`.
        encoding: String = "pem".into(),
        /// Certificates that follow it.
        append_certs: Value = Value::Null,
        /// The file that it is written to; its text is returned where there is none.
        path: Option<String> = None,
        /// Whether a file may be there already.
        overwrite: bool = true,
        ..kwargs
    });

    /// Make a private key.
    fn create_private_key(CreatePrivateKey {
        /// `rsa`, `ec`, `ed25519` or `ed448`.
        algo: String = "rsa".into(),
        /// Its size: 2048, 3072, 4096 for RSA; 256, 384, 521 for EC.
        keysize: Option<i64> = None,
        /// What it is encrypted with.
        passphrase: Option<String> = None,
        /// `pem`, or `der` without a passphrase.
        encoding: String = "pem".into(),
        /// The file that it is written to; its text is returned where there is none.
        path: Option<String> = None,
        ..kwargs
    });

    /// Make a request for a certificate. Subject and extensions are keywords, as for the state `x509.csr_managed`.
    fn create_csr(CreateCsr {
        /// The private key that asks.
        private_key: String,
        /// Its passphrase.
        private_key_passphrase: Option<String> = None,
        /// The digest.
        digest: String = "sha256".into(),
        /// `pem` or `der`.
        encoding: String = "pem".into(),
        /// The file that it is written to; its text is returned where there is none.
        path: Option<String> = None,
        ..kwargs
    });

    /// Whether a certificate's time is over.
    fn expires(Expires {
        /// The certificate.
        certificate: String,
        /// In so many days.
        days: f64 = 0.0,
    });

    /// Whether a certificate's time is over now, with its name.
    fn expired(Expired {
        /// The certificate.
        certificate: String,
    });

    /// Whether a certificate's time is over in some days, with its name.
    fn will_expire(WillExpire {
        /// The certificate.
        certificate: String,
        /// In so many days.
        days: f64,
    });

    /// The first block of a PEM text, put right.
    fn get_pem_entry(GetPemEntry {
        /// The text, or a file.
        text: String,
        /// What it must be, such as `CERTIFICATE`.
        pem_type: Option<String> = None,
    });

    /// The size of a private key; None where there is only one.
    fn get_private_key_size(GetPrivateKeySize {
        /// The key.
        private_key: String,
        /// Its passphrase.
        passphrase: Option<String> = None,
    });

    /// The public key of a key, a certificate or a request.
    fn get_public_key(GetPublicKey {
        /// It.
        key: String,
        /// Its passphrase.
        passphrase: Option<String> = None,
    });

    /// A signing policy: of the pillar or the configuration, or of another minion.
    fn get_signing_policy(GetSigningPolicy {
        /// Its name.
        signing_policy: Option<String> = None,
        /// The other minion.
        ca_server: Option<String> = None,
    });

    /// What a certificate says.
    fn read_certificate(ReadCertificate {
        /// It.
        certificate: String,
    });

    /// What a request for a certificate says.
    fn read_csr(ReadCsr {
        /// It.
        csr: String,
    });

    /// Sign for another minion.
    fn sign_remote_certificate(SignRemoteCertificate {
        /// The signing policy here.
        signing_policy: String,
        /// The other settings.
        kwargs: Map,
        /// Only tell the policy.
        get_signing_policy_only: bool = false,
        ..more_kwargs
    });

    /// Whether a private and a public key belong together.
    fn verify_private_key(VerifyPrivateKey {
        /// The private one.
        private_key: String,
        /// The public one, or what has it.
        public_key: String,
        /// The passphrase of the private one.
        passphrase: Option<String> = None,
    });

    /// Whether a certificate is signed by a key; by its own where none is named.
    fn verify_signature(VerifySignature {
        /// The certificate.
        certificate: String,
        /// The key, or what has it.
        signing_pub_key: Option<String> = None,
        /// Its passphrase.
        signing_pub_key_passphrase: Option<String> = None,
    });

    /// Write a PEM text to a file, put right, for its owner alone.
    fn write_pem(WritePem {
        /// The text.
        text: String,
        /// The file.
        path: String,
        /// Accepted: what else a file holds is not kept.
        overwrite: bool = true,
        /// What it must be, such as `CERTIFICATE`.
        pem_type: Option<String> = None,
    });
}

/// How something is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Pem,
    Der,
}

impl Encoding {
    /// By its name.
    ///
    /// # Errors
    /// When it is none of `allowed`, or cannot be written here.
    pub(crate) fn of(name: &str, allowed: &str) -> Result<Self, Error> {
        match name {
            "pem" => Ok(Self::Pem),
            "der" => Ok(Self::Der),
            other if allowed.split(", ").any(|one| one == other) => Err(Error::refused(format!(
                "The encoding {other} is not supported here: use pem or der"
            ))),
            other => Err(Error::refused(format!(
                "Invalid value '{other}' for encoding. Valid: {allowed}"
            ))),
        }
    }

    /// DER as it is written.
    pub(crate) fn bytes(self, kind: &str, der: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Pem => pem::text(kind, &der).into_bytes(),
            Self::Der => der,
        }
    }
}

/// What a certificate may be written as.
pub(crate) const OF_CERTIFICATES: &str = "der, pem, pkcs7_der, pkcs7_pem, pkcs12";
/// What a private key may be written as.
pub(crate) const OF_KEYS: &str = "der, pem, pkcs12";
/// What a request may be written as.
pub(crate) const OF_REQUESTS: &str = "der, pem";

/// Certificates that follow another one.
///
/// # Errors
/// When one is none.
pub(crate) fn appended(given: &Value) -> Result<Vec<Parts>, Error> {
    match given {
        Value::Null => Ok(Vec::new()),
        Value::List(items) => items.iter().map(Parts::of).collect(),
        one => Ok(vec![Parts::of(one)?]),
    }
}

/// A certificate with those that follow it.
pub(crate) fn encoded(der: Vec<u8>, encoding: Encoding, chain: &[Parts]) -> Vec<u8> {
    let mut all = encoding.bytes("CERTIFICATE", der);
    for one in chain {
        all.push(b'\n');
        all.extend(encoding.bytes("CERTIFICATE", one.der.clone()));
    }
    all
}

/// Returns what was made, or writes it to a file.
fn delivered(cx: &Exec, bytes: Vec<u8>, path: Option<&str>, written: &str) -> Result<Value, Error> {
    match path.filter(|path| !path.is_empty()) {
        Some(path) => {
            place(cx, path, &bytes)?;
            Ok(format!("{written} written to {path}").into())
        }
        None => Ok(match String::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(binary) => crate::base64s::encode(binary.as_bytes()).into(),
        }),
    }
}

/// Writes a file for its owner alone.
fn place(cx: &Exec, path: &str, bytes: &[u8]) -> Result<(), Error> {
    let owner = Owner {
        mode: Some(0o600),
        ..Owner::default()
    };
    fs::write(cx, Path::new(path), bytes, owner)
}

/// Has a certificate made here or by `ca_server`: its DER. `args` are those of `create_certificate`.
///
/// # Errors
/// When they make no sense, or openssl or the other minion says something against it.
pub(crate) fn made(
    cx: &Exec,
    mut args: Map,
    ca_server: Option<&str>,
    policy: Option<&str>,
) -> Result<Vec<u8>, Error> {
    renamed(&mut args);
    let digest = given(&args, "digest").map_or_else(|| "sha256".into(), Value::to_text);
    check_digest(&digest)?;
    match ca_server {
        None => {
            merge(&mut args, own_policy(cx, policy)?);
            Draft::of(cx, &args, false)?.signed(cx)
        }
        Some(server) => {
            let policy = policy.ok_or(
                "signing_policy must be specified to request a certificate from a remote ca_server",
            )?;
            remote(cx, server, policy, args)
        }
    }
}

/// Has another minion sign.
fn remote(cx: &Exec, server: &str, policy: &str, mut args: Map) -> Result<Vec<u8>, Error> {
    let passphrase = args
        .remove("private_key_passphrase")
        .map(|text| text.to_text());
    let key = match args.remove("private_key").filter(Value::is_true) {
        Some(private) => Some(Private::of(cx, &private, passphrase.as_deref())?.key),
        None => {
            let public = given(&args, "public_key").filter(|key| key.is_true());
            public
                .map(|public| keys::public(cx, public, None))
                .transpose()?
        }
    };
    if let Some(key) = key {
        args.insert("public_key", pem::text("PUBLIC KEY", &key));
    }
    if let Some(request) = given(&args, "csr").filter(|csr| csr.is_true()) {
        let bytes = pem::source(request)?;
        let der = pem::der(&bytes, &["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"]);
        let (der, _) = der.ok_or("Could not load PEM-encoded certificate signing request.")?;
        args.insert("csr", pem::text("CERTIFICATE REQUEST", &der));
    }
    args.retain(|_, value| !value.is_null());
    let told = asked(cx, server, policy, args, false)?;
    let read = Parts::of(&told).map_err(|_| {
        Error::refused(format!(
            "ca_server did not return a certificate: {}",
            told.to_text()
        ))
    });
    Ok(read?.der)
}

fn asked(
    cx: &Exec,
    server: &str,
    policy: &str,
    args: Map,
    only_policy: bool,
) -> Result<Value, Error> {
    let words = Value::list([policy.into(), args.into(), only_policy.into()]);
    let options = Map::new().with("arg", words).with("timeout", REMOTE_S);
    let fun = "x509.sign_remote_certificate";
    let told = cx.call("publish.publish", vec![server.into(), fun.into()], options)?;
    let first = told
        .as_map()
        .and_then(Map::first)
        .map(|(_, answer)| answer.clone());
    let answer = first.ok_or("ca_server did not respond. Salt master must permit peers to call the sign_remote_certificate function.")?;
    let errors = answer.get("errors").map(Value::texts).unwrap_or_default();
    if !errors.is_empty() {
        return Err(Error::refused(format!(
            "ca_server reported errors:\n{}",
            errors.join("\n")
        )));
    }
    let data = answer.get("data").cloned();
    data.ok_or_else(|| {
        "Received invalid return value from ca_server. See minion log for details".into()
    })
}

/// A signing policy of this machine: of the pillar, or of the configuration. Nothing where none is named.
///
/// # Errors
/// When the pillar cannot be had.
pub(crate) fn own_policy(cx: &Exec, name: Option<&str>) -> Result<Map, Error> {
    const POLICIES: &str = "x509_signing_policies";
    let Some(name) = name else {
        return Ok(Map::new());
    };
    let of = |all: Option<&Value>| {
        all.and_then(|all| all.get(name))
            .filter(|policy| policy.is_true())
            .cloned()
    };
    let policy = match of(cx.pillar()?.get(POLICIES)) {
        Some(policy) => Some(policy),
        None => of(Some(&cx.call(
            "config.get",
            vec![POLICIES.into(), Map::new().into()],
            Map::new(),
        )?)),
    };
    Ok(match policy {
        Some(Value::Map(policy)) => policy,
        Some(Value::List(items)) => items
            .iter()
            .filter_map(Value::as_map)
            .flat_map(Map::iter)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
        _ => Map::new(),
    })
}

/// A signing policy here or of another minion, with the newer names of its settings.
///
/// # Errors
/// When the pillar cannot be had, or the other minion does not answer.
pub(crate) fn policy(cx: &Exec, name: Option<&str>, ca_server: Option<&str>) -> Result<Map, Error> {
    let mut policy = match (ca_server, name) {
        (Some(server), Some(name)) => {
            let told = asked(cx, server, name, Map::new(), true)?;
            told.as_map().cloned().unwrap_or_default()
        }
        _ => own_policy(cx, name)?,
    };
    renamed(&mut policy);
    Ok(policy)
}

fn create_certificate(cx: &Exec, args: CreateCertificate) -> Result<Value, Error> {
    let encoding = Encoding::of(&args.encoding, OF_CERTIFICATES)?;
    let mut all = args.kwargs;
    let chain = appended(&args.append_certs)?;
    if encoding == Encoding::Der && !chain.is_empty() {
        return Err("Cannot encode a certificate chain in DER".into());
    }
    let has_policy = args.signing_policy.is_some();
    if args.ca_server.is_none() && !has_policy && given(&all, "signing_private_key").is_none() {
        return Err(
            "Creating a certificate locally at least requires a signing private key.".into(),
        );
    }
    if given(&all, "days_valid").is_none() && given(&all, "not_after").is_none() {
        all.insert("days_valid", 365);
    }
    let path = args.path.as_deref();
    if let Some(path) = path.filter(|path| !args.overwrite && Path::new(path).is_file()) {
        return Ok(format!("The file at {path} exists and overwrite was set to false").into());
    }
    let der = made(
        cx,
        all,
        args.ca_server.as_deref(),
        args.signing_policy.as_deref(),
    )?;
    let written = if encoding == Encoding::Pem {
        "PEM"
    } else {
        "Certificate"
    };
    delivered(cx, encoded(der, encoding, &chain), path, written)
}

fn create_private_key(cx: &Exec, mut args: CreatePrivateKey) -> Result<Value, Error> {
    let encoding = Encoding::of(&args.encoding, OF_KEYS)?;
    let size = match args.kwargs.remove("bits") {
        Some(bits) => bits.as_int(),
        None => args.keysize,
    };
    let bytes = new_key(cx, &args.algo, size, args.passphrase.as_deref(), encoding)?;
    delivered(cx, bytes, args.path.as_deref(), "PEM")
}

/// A new private key as it is written.
///
/// # Errors
/// When there is no such kind or size, or it cannot be written so.
pub(crate) fn new_key(
    cx: &Exec,
    algo: &str,
    size: Option<i64>,
    passphrase: Option<&str>,
    encoding: Encoding,
) -> Result<Vec<u8>, Error> {
    as_written(
        keys::generate(cx, algo, size, passphrase)?,
        passphrase,
        encoding,
    )
}

/// The PEM of a private key as it is written.
///
/// # Errors
/// When it cannot be written so.
pub(crate) fn as_written(
    text: String,
    passphrase: Option<&str>,
    encoding: Encoding,
) -> Result<Vec<u8>, Error> {
    match (encoding, passphrase) {
        (Encoding::Pem, _) => Ok(text.into_bytes()),
        (Encoding::Der, _) => {
            let block = pem::blocks(text.as_bytes()).into_iter().next();
            block
                .map(|(_, der)| der)
                .ok_or_else(|| "openssl gave no private key".into())
        }
    }
}

fn create_csr(cx: &Exec, args: CreateCsr) -> Result<Value, Error> {
    let encoding = Encoding::of(&args.encoding, OF_REQUESTS)?;
    let mut all = args.kwargs;
    all.insert("private_key", args.private_key);
    all.insert("private_key_passphrase", args.private_key_passphrase);
    all.insert("digest", args.digest);
    let der = request(cx, all)?;
    delivered(
        cx,
        encoding.bytes("CERTIFICATE REQUEST", der),
        args.path.as_deref(),
        "PEM",
    )
}

/// A request's DER, from the arguments of `create_csr`.
///
/// # Errors
/// When they make no sense, or openssl says something against it.
pub(crate) fn request(cx: &Exec, mut args: Map) -> Result<Vec<u8>, Error> {
    renamed(&mut args);
    check_digest(&given(&args, "digest").map_or_else(|| "sha256".into(), Value::to_text))?;
    Asking::of(cx, &args)?.signed(cx)
}

fn expires(_: &Exec, args: Expires) -> Result<Value, Error> {
    Ok(is_over(&Parts::of(&args.certificate.into())?, args.days)?.into())
}

/// Where a certificate is, and what it is for.
fn about(certificate: &str, parts: &Parts) -> Map {
    let mut all = Map::new();
    if Path::new(certificate).is_file() {
        all.insert("path", certificate);
    }
    if let Some(name) = parts.subject_name().map().remove("CN") {
        all.insert("cn", name);
    }
    all
}

fn expired(_: &Exec, args: Expired) -> Result<Value, Error> {
    let parts = Parts::of(&args.certificate.as_str().into())?;
    Ok(about(&args.certificate, &parts)
        .with("expired", is_over(&parts, 0.0)?)
        .into())
}

fn will_expire(_: &Exec, args: WillExpire) -> Result<Value, Error> {
    let parts = Parts::of(&args.certificate.as_str().into())?;
    let mut all = Map::new().with("check_days", args.days as i64);
    all.update(about(&args.certificate, &parts));
    Ok(all.with("will_expire", is_over(&parts, args.days)?).into())
}

fn get_pem_entry(_: &Exec, args: GetPemEntry) -> Result<Value, Error> {
    Ok(pem::entry(&args.text.into(), args.pem_type.as_deref())?.into())
}

fn get_private_key_size(cx: &Exec, args: GetPrivateKeySize) -> Result<Value, Error> {
    let private = Private::of(cx, &args.private_key.into(), args.passphrase.as_deref())?;
    Ok(keys::kind(&private.key)?.1.into())
}

fn get_public_key(cx: &Exec, args: GetPublicKey) -> Result<Value, Error> {
    let key = keys::public(cx, &args.key.into(), args.passphrase.as_deref())?;
    Ok(pem::text("PUBLIC KEY", &key).into())
}

fn get_signing_policy(cx: &Exec, args: GetSigningPolicy) -> Result<Value, Error> {
    Ok(policy(
        cx,
        args.signing_policy.as_deref(),
        args.ca_server.as_deref(),
    )?
    .into())
}

/// `0A:FF`.
fn colons(hex: &str) -> String {
    let digits: Vec<char> = hex.to_uppercase().chars().collect();
    digits
        .chunks(2)
        .map(|pair| pair.iter().collect::<String>())
        .collect::<Vec<_>>()
        .join(":")
}

/// A moment as Salt shows it: `2026-01-31 12:00:00`.
fn shown(stamp: &str) -> String {
    let part = |from: usize, to: usize| stamp.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-{} {}:{}:{}",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14)
    )
}

fn read_certificate(_: &Exec, args: ReadCertificate) -> Result<Value, Error> {
    let parts = Parts::of(&args.certificate.into())?;
    let told = crate::x509::shown::Certificate::read(&parts.der)
        .ok_or("Could not load PEM-encoded certificate.")?;
    let (kind, size) = keys::kind(&parts.key)?;
    let mut prints = Map::new();
    for kind in ["sha1", "sha256", "md5"] {
        prints.insert(kind, colons(&hashes::of_bytes(&parts.der, kind)?));
    }
    let serial: String = parts
        .serial
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    let extensions: Map = told
        .extensions
        .into_iter()
        .map(|(name, text)| (Value::from(name), Value::from(text)))
        .collect();
    let (subject, issuer) = (parts.subject_name(), parts.issuer_name());
    Ok(Map::new()
        .with("version", told.version + 1)
        .with("key_size", size)
        .with("key_type", kind.name())
        .with("serial_number", colons(&serial))
        .with("fingerprints", prints)
        .with("subject", subject.map())
        .with("subject_str", subject.shown())
        .with("issuer", issuer.map())
        .with("issuer_str", issuer.shown())
        .with("not_before", shown(&parts.not_before))
        .with("not_after", shown(&parts.not_after))
        .with("public_key", pem::text("PUBLIC KEY", &parts.key))
        .with("extensions", extensions)
        .with("signature_algorithm", told.signature_algorithm)
        .into())
}

fn read_csr(_: &Exec, args: ReadCsr) -> Result<Value, Error> {
    let request = Request::of(&args.csr.into())?;
    let (kind, size) = keys::kind(&request.key)?;
    let subject = crate::x509::names::Name::read(&request.subject).unwrap_or_default();
    let identifier: String = keys::identifier(&request.key)?
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    let names = request.extensions.iter();
    let names = names.map(|one| Value::from(crate::x509::extensions::name_of(&one.oid)));
    Ok(Map::new()
        .with("key_size", size)
        .with("key_type", kind.name())
        .with("subject", subject.map())
        .with("subject_str", subject.shown())
        .with("public_key_hash", colons(&identifier))
        .with("extensions", Value::list(names))
        .into())
}

fn sign_remote_certificate(cx: &Exec, args: SignRemoteCertificate) -> Result<Value, Error> {
    let (data, errors) = match signed_for(cx, args) {
        Ok(data) => (data, Vec::new()),
        Err(error) => (Value::Null, vec![Value::from(error.to_string())]),
    };
    let told = Map::new().with("data", data);
    Ok(told.with("errors", Value::list(errors)).into())
}

fn signed_for(cx: &Exec, args: SignRemoteCertificate) -> Result<Value, Error> {
    let mut policy = own_policy(cx, Some(&args.signing_policy))?;
    if policy.is_empty() {
        return Err("signing_policy must be specified and defined on signing minion".into());
    }
    if let Some(minions) = policy.remove("minions") {
        let id = args.more_kwargs.get("__pub_id").map(Value::to_text);
        let id = id.ok_or("minion sending this request could not be identified")?;
        let minions = minions.to_text();
        if minions.contains('@') || !value::glob::fnmatch(&minions, &id) {
            return Err("minion not permitted to use specified signing policy".into());
        }
    }
    if args.get_signing_policy_only {
        policy.remove("signing_private_key");
        policy.remove("signing_private_key_passphrase");
        if let Some(certificate) = given(&policy, "signing_cert").cloned() {
            policy.insert(
                "signing_cert",
                pem::text("CERTIFICATE", &Parts::of(&certificate)?.der),
            );
        }
        return Ok(policy.into());
    }
    let mut all = args.kwargs;
    all.remove("ca_server");
    merge(&mut all, policy);
    let der = Draft::of(cx, &all, false)?.signed(cx)?;
    Ok(pem::text("CERTIFICATE", &der).into())
}

fn verify_private_key(cx: &Exec, args: VerifyPrivateKey) -> Result<Value, Error> {
    let private = Private::of(cx, &args.private_key.into(), args.passphrase.as_deref())?;
    Ok((keys::public(cx, &args.public_key.into(), None)? == private.key).into())
}

fn verify_signature(cx: &Exec, args: VerifySignature) -> Result<Value, Error> {
    let parts = Parts::of(&args.certificate.into())?;
    let key = match args.signing_pub_key {
        Some(key) => keys::public(cx, &key.into(), args.signing_pub_key_passphrase.as_deref())?,
        None => parts.key.clone(),
    };
    let digest = crate::x509::issue::digest_of(&parts.algorithm).unwrap_or("sha256");
    Ok(keys::verify(cx, &key, &parts.signed, &parts.signature, digest)?.into())
}

fn write_pem(cx: &Exec, args: WritePem) -> Result<Value, Error> {
    let text = pem::entry(&args.text.into(), args.pem_type.as_deref())?;
    place(cx, &args.path, text.as_bytes())?;
    Ok(format!("PEM written to {}", args.path).into())
}
