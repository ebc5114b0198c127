//! The `x509` execution module: keys, certificates and requests, with the `openssl` program.

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::fs::{self, Owner};
use crate::x509::containers::{self, Encoding, OF_CERTIFICATES, OF_KEYS, OF_REQUESTS, Pkcs12};
use crate::x509::crl;
use crate::x509::issue::{Asking, Draft, check_digest, expires as is_over, given, merge, renamed};
use crate::x509::keys::{self, Private};
use crate::x509::parts::{Parts, Request};
use crate::x509::pem;

mod encode;
mod read;

use encode::{Delivery, encode_certificate, encode_crl, encode_csr, encode_private_key, keep_copy};
use read::{
    expired, expires, get_pem_entries, get_pem_entry, read_certificate, read_certificates,
    read_crl, read_csr, verify_crl, verify_private_key, verify_signature, will_expire,
};

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
        /// `pem`, `der`, `pkcs7_pem`, `pkcs7_der` or `pkcs12`.
        encoding: String = "pem".into(),
        /// Certificates that follow it.
        append_certs: Value = Value::Null,
        /// What a PKCS#12 container is encrypted with.
        pkcs12_passphrase: Option<String> = None,
        /// Encrypt it so that older systems can read it.
        pkcs12_encryption_compat: bool = false,
        /// What the certificate is called in it.
        pkcs12_friendlyname: Option<String> = None,
        /// The file that it is written to; its text is returned where there is none.
        path: Option<String> = None,
        /// Whether a file may be there already.
        overwrite: bool = true,
        /// Return bytes instead of text.
        raw: bool = false,
        ..kwargs
    });

    /// Make a list of revoked certificates.
    fn create_crl(CreateCrl {
        /// The authority's private key.
        signing_private_key: Value,
        /// The certificates: dictionaries with `certificate` or `serial_number`, and `revocation_date`, `not_after`, `extensions`.
        revoked: Value,
        /// The authority's certificate.
        signing_cert: Value = Value::Null,
        /// The passphrase of its key.
        signing_private_key_passphrase: Option<String> = None,
        /// Whether certificates whose time is over stand in it.
        include_expired: bool = false,
        /// For how many days it is valid.
        days_valid: f64 = 100.0,
        /// The digest that is signed.
        digest: String = "sha256".into(),
        /// `pem` or `der`.
        encoding: String = "pem".into(),
        /// Its extensions, such as `cRLNumber` and `authorityKeyIdentifier`.
        extensions: Value = Value::Null,
        /// The file that it is written to; its text is returned where there is none.
        path: Option<String> = None,
        /// Return bytes instead of text.
        raw: bool = false,
        ..kwargs
    });

    /// Write a certificate in another way, or with others in one.
    fn encode_certificate(EncodeCertificate {
        /// The certificate.
        certificate: Value,
        /// `pem`, `der`, `pkcs7_pem`, `pkcs7_der` or `pkcs12`.
        encoding: String = "pem".into(),
        /// Certificates that follow it.
        append_certs: Value = Value::Null,
        /// Its private key, for a PKCS#12 container.
        private_key: Value = Value::Null,
        /// The passphrase of that.
        private_key_passphrase: Option<String> = None,
        /// What a PKCS#12 container is encrypted with.
        pkcs12_passphrase: Option<String> = None,
        /// Encrypt it so that older systems can read it.
        pkcs12_encryption_compat: bool = false,
        /// What the certificate is called in it.
        pkcs12_friendlyname: Option<String> = None,
        /// Return bytes instead of text.
        raw: bool = false,
    });

    /// Write a list of revoked certificates in another way.
    fn encode_crl(EncodeCrl {
        /// The list.
        crl: Value,
        /// `pem` or `der`.
        encoding: String = "pem".into(),
        /// Return bytes instead of text.
        raw: bool = false,
    });

    /// Write a request in another way.
    fn encode_csr(EncodeCsr {
        /// The request.
        csr: Value,
        /// `pem` or `der`.
        encoding: String = "pem".into(),
        /// Return bytes instead of text.
        raw: bool = false,
    });

    /// Write a private key in another way.
    fn encode_private_key(EncodePrivateKey {
        /// The key.
        private_key: Value,
        /// `pem`, `der` or `pkcs12`.
        encoding: String = "pem".into(),
        /// What it is encrypted with.
        passphrase: Option<String> = None,
        /// What it has been encrypted with.
        private_key_passphrase: Option<String> = None,
        /// Encrypt a PKCS#12 container so that older systems can read it.
        pkcs12_encryption_compat: bool = false,
        /// Return bytes instead of text.
        raw: bool = false,
    });

    /// Make a private key.
    fn create_private_key(CreatePrivateKey {
        /// `rsa`, `ec`, `ed25519` or `ed448`.
        algo: String = "rsa".into(),
        /// Its size: 2048, 3072, 4096 for RSA; 256, 384, 521 for EC.
        keysize: Option<i64> = None,
        /// What it is encrypted with.
        passphrase: Option<String> = None,
        /// `pem`, `der` or `pkcs12`.
        encoding: String = "pem".into(),
        /// Encrypt a PKCS#12 container so that older systems can read it.
        pkcs12_encryption_compat: bool = false,
        /// The file that it is written to; its text is returned where there is none.
        path: Option<String> = None,
        /// Return bytes instead of text.
        raw: bool = false,
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
        /// Return bytes instead of text.
        raw: bool = false,
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

    /// The first block of every file that a pattern matches.
    fn get_pem_entries(GetPemEntries {
        /// The pattern, such as `/etc/pki/*.crt`.
        glob_path: String,
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

    /// What every certificate says whose file a pattern matches.
    fn read_certificates(ReadCertificates {
        /// The pattern, such as `/etc/pki/*.crt`.
        glob_path: String,
    });

    /// What a list of revoked certificates says.
    fn read_crl(ReadCrl {
        /// It.
        crl: String,
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

    /// Whether a list of revoked certificates is signed by the key of a certificate.
    fn verify_crl(VerifyCrl {
        /// The list.
        crl: String,
        /// The certificate, or what has its key.
        cert: String,
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

/// Writes a file for its owner alone.
fn place(cx: &Exec, path: &str, bytes: &[u8]) -> Result<(), Error> {
    let owner = Owner {
        mode: Some(0o600),
        ..Owner::default()
    };
    fs::write(cx, Path::new(path), bytes, owner)
}

/// Has a certificate made here or by `ca_server`. `args` are those of `create_certificate`.
///
/// # Errors
/// When they make no sense, or openssl or the other minion says something against it.
pub(crate) fn made(
    cx: &Exec,
    mut args: Map,
    ca_server: Option<&str>,
    policy: Option<&str>,
) -> Result<Parts, Error> {
    renamed(&mut args);
    let digest = given(&args, "digest").map_or_else(|| "sha256".into(), Value::to_text);
    check_digest(&digest)?;
    match ca_server {
        None => {
            merge(&mut args, own_policy(cx, policy)?);
            let der = Draft::of(cx, &args, false)?.signed(cx)?;
            let made = Parts::read(&der).ok_or("openssl gave no certificate")?;
            keep_copy(cx, &made, &args)?;
            Ok(made)
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
fn remote(cx: &Exec, server: &str, policy: &str, mut args: Map) -> Result<Parts, Error> {
    let passphrase = args
        .remove("private_key_passphrase")
        .filter(Value::is_true)
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
        let der = Request::der(request)?;
        args.insert("csr", pem::text("CERTIFICATE REQUEST", &der));
    }
    args.retain(|_, value| !value.is_null());
    let told = asked(cx, server, policy, args, false)?;
    Parts::of(&told).map_err(|_| {
        Error::refused(format!(
            "ca_server did not return a certificate: {}",
            told.to_text()
        ))
    })
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
    let told = cx.call_internal("publish.publish", vec![server.into(), fun.into()], options)?;
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
        None => of(Some(&cx.call_internal(
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
    let (server, policy) = (args.ca_server.as_deref(), args.signing_policy.as_deref());
    let key = match encoding {
        Encoding::Pkcs12 => embedded(cx, &all, policy, server.is_some())?,
        _ => None,
    };
    let certificate = made(cx, all, server, policy)?;
    let container = Pkcs12 {
        passphrase: args.pkcs12_passphrase,
        is_older: args.pkcs12_encryption_compat,
        friendlyname: args.pkcs12_friendlyname,
    };
    let bytes = containers::encoded(
        cx,
        encoding,
        (&certificate, &chain),
        key.as_ref(),
        &container,
    )?;
    let delivery = Delivery {
        encoding,
        path,
        is_raw: args.raw,
    };
    delivery.done(cx, bytes, "Certificate")
}

/// The private key that a container gets with its certificate: its own, or the one that signs where it signs itself.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn embedded(
    cx: &Exec,
    args: &Map,
    policy: Option<&str>,
    is_remote: bool,
) -> Result<Option<Private>, Error> {
    let mut all = args.clone();
    if !is_remote {
        merge(&mut all, own_policy(cx, policy)?);
    }
    let text = |name: &str| given(&all, name).map(Value::to_text);
    let own = given(&all, "private_key").filter(|key| key.is_true());
    let signs_itself = !is_remote && given(&all, "signing_cert").is_none();
    let (key, passphrase) = match own {
        Some(own) if !signs_itself => (own, text("private_key_passphrase")),
        _ if signs_itself => (
            given(&all, "signing_private_key").unwrap_or(&Value::Null),
            text("signing_private_key_passphrase"),
        ),
        _ => return Ok(None),
    };
    Private::of(cx, key, passphrase.as_deref()).map(Some)
}

fn create_crl(cx: &Exec, args: CreateCrl) -> Result<Value, Error> {
    let encoding = Encoding::of(&args.encoding, OF_REQUESTS)?;
    check_digest(&args.digest)?;
    let all = args
        .kwargs
        .with("signing_private_key", args.signing_private_key)
        .with("revoked", args.revoked)
        .with("signing_cert", args.signing_cert)
        .with(
            "signing_private_key_passphrase",
            args.signing_private_key_passphrase,
        )
        .with("include_expired", args.include_expired)
        .with("days_valid", args.days_valid)
        .with("extensions", args.extensions);
    let der = crl::Draft::of(cx, &all)?.signed(cx, &args.digest)?;
    let delivery = Delivery {
        encoding,
        path: args.path.as_deref(),
        is_raw: args.raw,
    };
    delivery.done(cx, encoding.bytes("X509 CRL", der), "CRL")
}

fn create_private_key(cx: &Exec, mut args: CreatePrivateKey) -> Result<Value, Error> {
    let encoding = Encoding::of(&args.encoding, OF_KEYS)?;
    let size = match args.kwargs.remove("bits") {
        Some(bits) => bits.as_int(),
        None => args.keysize,
    };
    let older = args.pkcs12_encryption_compat;
    let bytes = new_key(cx, &args.algo, size, args.passphrase, (encoding, older))?;
    let delivery = Delivery {
        encoding,
        path: args.path.as_deref(),
        is_raw: args.raw,
    };
    delivery.done(cx, bytes, "Private key")
}

/// A new private key as it is written, in an encoding, and in a container for older systems or for others.
///
/// # Errors
/// When there is no such kind or size, or it cannot be written so.
pub(crate) fn new_key(
    cx: &Exec,
    algo: &str,
    size: Option<i64>,
    passphrase: Option<String>,
    (encoding, is_older): (Encoding, bool),
) -> Result<Vec<u8>, Error> {
    let inside = passphrase
        .as_deref()
        .filter(|_| encoding != Encoding::Pkcs12);
    let text = keys::generate(cx, algo, size, inside)?;
    match encoding {
        Encoding::Pkcs12 => {
            let key = Private::of(cx, &text.into(), None)?;
            as_written(cx, &key, passphrase, encoding, is_older)
        }
        _ => of_pem(text, encoding),
    }
}

/// A private key as it is written.
///
/// # Errors
/// When it cannot be written so.
pub(crate) fn as_written(
    cx: &Exec,
    key: &Private,
    passphrase: Option<String>,
    encoding: Encoding,
    is_older: bool,
) -> Result<Vec<u8>, Error> {
    match encoding {
        Encoding::Pkcs12 => {
            let container = Pkcs12 {
                passphrase,
                is_older,
                friendlyname: None,
            };
            containers::pkcs12(cx, key, None, &container)
        }
        _ => of_pem(key.text(cx, passphrase.as_deref())?, encoding),
    }
}

fn of_pem(text: String, encoding: Encoding) -> Result<Vec<u8>, Error> {
    if encoding == Encoding::Pem {
        return Ok(text.into_bytes());
    }
    let block = pem::blocks(text.as_bytes()).into_iter().next();
    block
        .map(|(_, der)| der)
        .ok_or_else(|| "openssl gave no private key".into())
}

fn create_csr(cx: &Exec, args: CreateCsr) -> Result<Value, Error> {
    let encoding = Encoding::of(&args.encoding, OF_REQUESTS)?;
    let mut all = args.kwargs;
    all.insert("private_key", args.private_key);
    all.insert("private_key_passphrase", args.private_key_passphrase);
    all.insert("digest", args.digest);
    let der = request(cx, all)?;
    let delivery = Delivery {
        encoding,
        path: args.path.as_deref(),
        is_raw: args.raw,
    };
    delivery.done(cx, encoding.bytes("CERTIFICATE REQUEST", der), "CSR")
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
    merge(&mut all, policy.clone());
    let der = Draft::of(cx, &all, false)?.signed(cx)?;
    // Who asks has no say in where this machine keeps copies.
    let made = Parts::read(&der).ok_or("openssl gave no certificate")?;
    keep_copy(cx, &made, &policy)?;
    Ok(pem::text("CERTIFICATE", &der).into())
}

fn write_pem(cx: &Exec, args: WritePem) -> Result<Value, Error> {
    let text = pem::entry(&args.text.into(), args.pem_type.as_deref())?;
    place(cx, &args.path, text.as_bytes())?;
    Ok(format!("PEM written to {}", args.path).into())
}
