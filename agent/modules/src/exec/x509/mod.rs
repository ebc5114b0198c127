//! The `x509` execution module: keys, certificates and requests, with the program `openssl`.

#![allow(non_snake_case, reason = "`asObj` is Salt's name of an argument")]

use std::path::Path;

use machine::fs::{self, Owner};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::x509::format::containers::{
    self, Encoding, OF_CERTIFICATES, OF_KEYS, OF_REQUESTS, Pkcs12,
};
use crate::exec::x509::format::crl;
use crate::exec::x509::format::issue::{
    Asking, Draft, check_digest, expires as is_over, given, merge, renamed,
};
use crate::exec::x509::format::keys::{self, Private};
use crate::exec::x509::format::parts::Parts;
use crate::exec::x509::format::pem;

mod encode;
pub mod format;
mod policies;
mod read;

use encode::{Delivery, encode_certificate, encode_crl, encode_csr, encode_private_key, keep_copy};
use policies::remote;
pub(crate) use policies::{call_ca_server, own_policy, policy, policy_of};
use read::{
    expired, expires, get_pem_entries, get_pem_entry, read_certificate, read_certificates,
    read_crl, read_csr, verify_crl, verify_private_key, verify_signature, will_expire,
};

state::exec_module! {
    /// Manage keys, certificates and certificate signing requests.
    #[needs("openssl", "The program openssl is not in the path: install it")]
    mod x509;

    /// Create a certificate. The subject, the extensions and further settings are keywords, as in
    /// the state `x509.certificate_managed`.
    ///
    ///     salt-call x509.create_certificate signing_private_key=/etc/ssl/ca.key CN=shop.example.com path=/etc/ssl/shop.crt
    fn create_certificate(CreateCertificate {
        /// The ID of the minion that signs the certificate.
        ca_server: Option<String> = None,
        /// The signing policy, whose settings override all others.
        signing_policy: Option<String> = None,
        /// The encoding: `pem`, `der`, `pkcs7_pem`, `pkcs7_der` or `pkcs12`.
        encoding: String = "pem".into(),
        /// The certificates to append.
        append_certs: Value = Value::Null,
        /// The passphrase that encrypts a PKCS#12 container.
        pkcs12_passphrase: Option<String> = None,
        /// True to encrypt the container so that older systems can read it.
        pkcs12_encryption_compat: bool = false,
        /// The name of the certificate in a PKCS#12 container.
        pkcs12_friendlyname: Option<String> = None,
        /// The path of the file to write; the text is returned if not given.
        path: Option<String> = None,
        /// True to overwrite an existing file.
        overwrite: bool = true,
        /// True to return bytes instead of text.
        raw: bool = false,
        ..kwargs
    });

    /// Create a certificate revocation list.
    ///
    ///     salt-call x509.create_crl /etc/ssl/ca.key '[{certificate: /etc/ssl/old.crt}]' signing_cert=/etc/ssl/ca.crt
    fn create_crl(CreateCrl {
        /// The private key of the CA.
        signing_private_key: Value,
        /// The revoked certificates: dictionaries with `certificate` or `serial_number`, and
        /// `revocation_date`, `not_after` and `extensions`.
        revoked: Value,
        /// The certificate of the CA.
        signing_cert: Value = Value::Null,
        /// The passphrase of the CA's private key.
        signing_private_key_passphrase: Option<String> = None,
        /// True to include expired certificates.
        include_expired: bool = false,
        /// The number of days for which the list is valid.
        days_valid: Option<f64> = None,
        /// The hash algorithm of the signature.
        digest: String = "sha256".into(),
        /// The encoding: `pem` or `der`.
        encoding: String = "pem".into(),
        /// The extensions of the list, such as `cRLNumber` and `authorityKeyIdentifier`.
        extensions: Value = Value::Null,
        /// The path of the file to write; the text is returned if not given.
        path: Option<String> = None,
        /// True to return bytes instead of text.
        raw: bool = false,
        ..kwargs
    });

    /// Convert a certificate to another encoding, or combine it with other certificates.
    ///
    ///     salt-call x509.encode_certificate /etc/ssl/shop.crt encoding=der
    fn encode_certificate(EncodeCertificate {
        /// The path or the text of the certificate.
        certificate: Value,
        /// The encoding: `pem`, `der`, `pkcs7_pem`, `pkcs7_der` or `pkcs12`.
        encoding: String = "pem".into(),
        /// The certificates to append.
        append_certs: Value = Value::Null,
        /// The private key of the certificate, for a PKCS#12 container.
        private_key: Value = Value::Null,
        /// The passphrase of the private key.
        private_key_passphrase: Option<String> = None,
        /// The passphrase that encrypts a PKCS#12 container.
        pkcs12_passphrase: Option<String> = None,
        /// True to encrypt the container so that older systems can read it.
        pkcs12_encryption_compat: bool = false,
        /// The name of the certificate in a PKCS#12 container.
        pkcs12_friendlyname: Option<String> = None,
        /// True to return bytes instead of text.
        raw: bool = false,
    });

    /// Convert a certificate revocation list to another encoding.
    ///
    ///     salt-call x509.encode_crl /etc/ssl/ca.crl encoding=der
    fn encode_crl(EncodeCrl {
        /// The revocation list.
        crl: Value,
        /// The encoding: `pem` or `der`.
        encoding: String = "pem".into(),
        /// True to return bytes instead of text.
        raw: bool = false,
    });

    /// Convert a certificate signing request to another encoding.
    ///
    ///     salt-call x509.encode_csr /etc/ssl/shop.csr encoding=der
    fn encode_csr(EncodeCsr {
        /// The certificate signing request.
        csr: Value,
        /// The encoding: `pem` or `der`.
        encoding: String = "pem".into(),
        /// True to return bytes instead of text.
        raw: bool = false,
    });

    /// Convert a private key to another encoding.
    ///
    ///     salt-call x509.encode_private_key /etc/ssl/shop.key encoding=der
    fn encode_private_key(EncodePrivateKey {
        /// The key.
        private_key: Value,
        /// The encoding: `pem`, `der` or `pkcs12`.
        encoding: String = "pem".into(),
        /// The passphrase that encrypts the result.
        passphrase: Option<String> = None,
        /// The passphrase of the given private key.
        private_key_passphrase: Option<String> = None,
        /// True to encrypt a PKCS#12 container so that older systems can read it.
        pkcs12_encryption_compat: bool = false,
        /// True to return bytes instead of text.
        raw: bool = false,
    });

    /// Create a private key.
    ///
    ///     salt-call x509.create_private_key algo=ec path=/etc/ssl/shop.key
    fn create_private_key(CreatePrivateKey {
        /// The algorithm: `rsa`, `ec`, `ed25519` or `ed448`.
        algo: String = "rsa".into(),
        /// The size of the key: 2048, 3072 or 4096 for RSA; 256, 384 or 521 for EC.
        keysize: Option<i64> = None,
        /// The passphrase that encrypts the key.
        passphrase: Option<String> = None,
        /// The encoding: `pem`, `der` or `pkcs12`.
        encoding: String = "pem".into(),
        /// True to encrypt a PKCS#12 container so that older systems can read it.
        pkcs12_encryption_compat: bool = false,
        /// The path of the file to write; the text is returned if not given.
        path: Option<String> = None,
        /// True to return bytes instead of text.
        raw: bool = false,
        ..kwargs
    });

    /// Create a certificate signing request. The subject and the extensions are keywords, as in the
    /// state `x509.csr_managed`.
    ///
    ///     salt-call x509.create_csr /etc/ssl/shop.key CN=shop.example.com
    fn create_csr(CreateCsr {
        /// The private key that signs the request.
        private_key: String,
        /// The passphrase of the private key.
        private_key_passphrase: Option<String> = None,
        /// The hash algorithm of the signature.
        digest: String = "sha256".into(),
        /// The encoding: `pem` or `der`.
        encoding: String = "pem".into(),
        /// The path of the file to write; the text is returned if not given.
        path: Option<String> = None,
        /// True to return bytes instead of text.
        raw: bool = false,
        ..kwargs
    });

    /// Return whether a certificate expires within a number of days.
    ///
    ///     salt-call x509.expires /etc/ssl/shop.crt days=30
    fn expires(Expires {
        /// The path or the text of the certificate.
        certificate: String,
        /// The number of days.
        days: f64 = 0.0,
    });

    /// Return whether a certificate has expired, with its common name.
    ///
    ///     salt-call x509.expired /etc/ssl/shop.crt
    fn expired(Expired {
        /// The path or the text of the certificate.
        certificate: String,
    });

    /// Return whether a certificate expires within a number of days, with its common name.
    ///
    ///     salt-call x509.will_expire /etc/ssl/shop.crt 30
    fn will_expire(WillExpire {
        /// The path or the text of the certificate.
        certificate: String,
        /// The number of days.
        days: f64,
    });

    /// Return the first PEM block of each file that a pattern matches.
    ///
    ///     salt-call x509.get_pem_entries '/etc/ssl/*.crt'
    fn get_pem_entries(GetPemEntries {
        /// The glob pattern, such as `/etc/pki/*.crt`.
        glob_path: String,
    });

    /// Return the first block of a PEM text in normalized form.
    ///
    ///     salt-call x509.get_pem_entry /etc/ssl/shop.crt
    fn get_pem_entry(GetPemEntry {
        /// The text, or the path of a file.
        text: String,
        /// The required type, such as `CERTIFICATE`.
        pem_type: Option<String> = None,
    });

    /// Return the size of a private key, or None if its algorithm has only one size.
    ///
    ///     salt-call x509.get_private_key_size /etc/ssl/shop.key
    fn get_private_key_size(GetPrivateKeySize {
        /// The key.
        private_key: String,
        /// The passphrase of the private key.
        passphrase: Option<String> = None,
    });

    /// Return the public key of a key, a certificate or a request.
    ///
    ///     salt-call x509.get_public_key /etc/ssl/shop.key
    fn get_public_key(GetPublicKey {
        /// The key, the certificate or the request.
        key: String,
        /// The passphrase of the key.
        passphrase: Option<String> = None,
        /// Not supported: there is no object of Python that could be returned.
        asObj: Option<bool> = None,
    });

    /// Return a signing policy of the pillar, the configuration, or another minion.
    ///
    ///     salt-call x509.get_signing_policy web ca_server=ca1
    fn get_signing_policy(GetSigningPolicy {
        /// The name of the signing policy.
        signing_policy: Option<String>,
        /// The ID of the other minion.
        ca_server: Option<String> = None,
    });

    /// Return the contents of a certificate.
    ///
    ///     salt-call x509.read_certificate /etc/ssl/shop.crt
    fn read_certificate(ReadCertificate {
        /// The path or the text of the certificate.
        certificate: String,
    });

    /// Return the contents of each certificate whose file a pattern matches.
    ///
    ///     salt-call x509.read_certificates '/etc/ssl/*.crt'
    fn read_certificates(ReadCertificates {
        /// The glob pattern, such as `/etc/pki/*.crt`.
        glob_path: String,
    });

    /// Return the contents of a certificate revocation list.
    ///
    ///     salt-call x509.read_crl /etc/ssl/ca.crl
    fn read_crl(ReadCrl {
        /// The path or the text of the revocation list.
        crl: String,
    });

    /// Return the contents of a certificate signing request.
    ///
    ///     salt-call x509.read_csr /etc/ssl/shop.csr
    fn read_csr(ReadCsr {
        /// The path or the text of the request.
        csr: String,
    });

    /// Sign a certificate for another minion.
    ///
    ///     salt-call x509.sign_remote_certificate web '{CN: shop.example.com}'
    fn sign_remote_certificate(SignRemoteCertificate {
        /// The name of the signing policy on this machine.
        signing_policy: String,
        /// The other settings of the certificate.
        kwargs: Map,
        /// True to return only the signing policy.
        get_signing_policy_only: bool = false,
        ..more_kwargs
    });

    /// Return whether a certificate revocation list is signed by the key of a certificate.
    ///
    ///     salt-call x509.verify_crl /etc/ssl/ca.crl /etc/ssl/ca.crt
    fn verify_crl(VerifyCrl {
        /// The revocation list.
        crl: String,
        /// The certificate, or another source of its public key.
        cert: String,
    });

    /// Return whether a private and a public key belong together.
    ///
    ///     salt-call x509.verify_private_key /etc/ssl/shop.key /etc/ssl/shop.crt
    fn verify_private_key(VerifyPrivateKey {
        /// The private key.
        private_key: String,
        /// The public key, or a source that contains it.
        public_key: String,
        /// The passphrase of the private key.
        passphrase: Option<String> = None,
    });

    /// Return whether a certificate is signed by a key, by default its own.
    ///
    ///     salt-call x509.verify_signature /etc/ssl/shop.crt /etc/ssl/ca.key
    fn verify_signature(VerifySignature {
        /// The path or the text of the certificate.
        certificate: String,
        /// The key, or a source that contains it.
        signing_pub_key: Option<String> = None,
        /// The passphrase of the key.
        signing_pub_key_passphrase: Option<String> = None,
    });

    /// Write a PEM text in normalized form to a file that only its owner can read.
    ///
    ///     salt-call x509.write_pem /srv/shop.pem /etc/ssl/shop.crt
    fn write_pem(WritePem {
        /// The PEM text.
        text: String,
        /// The path of the file.
        path: String,
        /// Accepted and ignored: other contents of the file are not kept.
        overwrite: bool = true,
        /// The required type, such as `CERTIFICATE`.
        pem_type: Option<String> = None,
    });
}

/// Reads the certificates to append to another one.
///
/// # Errors
/// When one of them is not a certificate.
pub(crate) fn appended(given: &Value) -> Result<Vec<Parts>, Error> {
    match given {
        Value::Null => Ok(Vec::new()),
        Value::List(items) => items.iter().map(Parts::load).collect(),
        one => Ok(vec![Parts::load(one)?]),
    }
}

/// Writes a file that only its owner can read.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn place(cx: &Exec, path: &str, bytes: &[u8]) -> Result<(), Error> {
    let owner = Owner {
        mode: Some(0o600),
        ..Owner::default()
    };
    fs::write(cx, Path::new(path), bytes, owner)
}

/// Creates a certificate, on this machine or on `ca_server`. `args` are the arguments of
/// `create_certificate`.
///
/// # Errors
/// When the arguments are not valid, or openssl or the other minion reports an error.
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
            let der = Draft::from_arguments(cx, &args, false)?.signed(cx)?;
            let made = Parts::read(&der).ok_or("openssl returned no certificate")?;
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

fn create_certificate(cx: &Exec, args: CreateCertificate) -> Result<Value, Error> {
    let encoding = Encoding::parse(&args.encoding, OF_CERTIFICATES)?;
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

/// Returns the private key to include in a container with its certificate: the key of the
/// certificate or, if it is self-signed, the signing key.
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
    Private::load(cx, key, passphrase.as_deref()).map(Some)
}

fn create_crl(cx: &Exec, args: CreateCrl) -> Result<Value, Error> {
    let encoding = Encoding::parse(&args.encoding, OF_REQUESTS)?;
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
        .with("days_valid", args.days_valid.unwrap_or(100.0))
        .with("extensions", args.extensions);
    let der = crl::Draft::from_arguments(cx, &all)?.signed(cx, &args.digest)?;
    let delivery = Delivery {
        encoding,
        path: args.path.as_deref(),
        is_raw: args.raw,
    };
    delivery.done(cx, encoding.bytes("X509 CRL", der), "CRL")
}

fn create_private_key(cx: &Exec, mut args: CreatePrivateKey) -> Result<Value, Error> {
    let encoding = Encoding::parse(&args.encoding, OF_KEYS)?;
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

/// Creates a private key and returns it in an encoding. `is_older` selects a PKCS#12 container for
/// older systems.
///
/// # Errors
/// When the algorithm or the size is unknown, or the key cannot be written in the encoding.
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
            let key = Private::load(cx, &text.into(), None)?;
            as_written(cx, &key, passphrase, encoding, is_older)
        }
        _ => of_pem(text, encoding),
    }
}

/// Returns a private key in an encoding.
///
/// # Errors
/// When the key cannot be written in the encoding.
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
        .ok_or_else(|| "openssl returned no private key".into())
}

fn create_csr(cx: &Exec, args: CreateCsr) -> Result<Value, Error> {
    let encoding = Encoding::parse(&args.encoding, OF_REQUESTS)?;
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

/// Returns a certificate signing request in DER, from the arguments of `create_csr`.
///
/// # Errors
/// When the arguments are not valid, or openssl reports an error.
pub(crate) fn request(cx: &Exec, mut args: Map) -> Result<Vec<u8>, Error> {
    renamed(&mut args);
    check_digest(&given(&args, "digest").map_or_else(|| "sha256".into(), Value::to_text))?;
    Asking::from_arguments(cx, &args)?.signed(cx)
}

fn get_private_key_size(cx: &Exec, args: GetPrivateKeySize) -> Result<Value, Error> {
    let private = Private::load(cx, &args.private_key.into(), args.passphrase.as_deref())?;
    Ok(keys::kind(&private.key)?.1.into())
}

fn get_public_key(cx: &Exec, args: GetPublicKey) -> Result<Value, Error> {
    if args.asObj == Some(true) {
        return Err("asObj: there is no object of Python that could be returned".into());
    }
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

/// The settings that only this machine chooses when it signs for another one. A path of the
/// requester would be one of this machine.
pub(crate) const OWN_SETTINGS: [&str; 5] = [
    "ca_server",
    "private_key",
    "private_key_passphrase",
    "signing_private_key",
    "signing_private_key_passphrase",
];

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
        // A list as a text would be a glob with a class of characters.
        let minions = minions.as_str().unwrap_or_default();
        if minions.contains('@') || !value::glob::fnmatch(minions, &id) {
            return Err("minion not permitted to use specified signing policy".into());
        }
    }
    if args.get_signing_policy_only {
        policy.remove("signing_private_key");
        policy.remove("signing_private_key_passphrase");
        if let Some(certificate) = given(&policy, "signing_cert").cloned() {
            policy.insert(
                "signing_cert",
                pem::text("CERTIFICATE", &Parts::load(&certificate)?.der),
            );
        }
        return Ok(policy.into());
    }
    let mut all = args.kwargs;
    for name in OWN_SETTINGS {
        all.remove(name);
    }
    merge(&mut all, policy.clone());
    let der = Draft::from_arguments(cx, &all, false)?.signed(cx)?;
    // The settings of the requesting minion must not decide where this machine stores copies.
    let made = Parts::read(&der).ok_or("openssl returned no certificate")?;
    keep_copy(cx, &made, &policy)?;
    Ok(pem::text("CERTIFICATE", &der).into())
}

fn write_pem(cx: &Exec, args: WritePem) -> Result<Value, Error> {
    let text = pem::entry(&args.text.into(), args.pem_type.as_deref())?;
    place(cx, &args.path, text.as_bytes())?;
    Ok(format!("PEM written to {}", args.path).into())
}
