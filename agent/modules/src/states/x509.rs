//! The `x509` state module.

use std::path::Path;

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::x509::format::containers::{
    self, Encoding, Found, Missing, OF_CERTIFICATES, OF_KEYS, OF_REQUESTS, Pkcs12,
};
use crate::exec::x509::format::issue::{Asking, Draft, expires, merge, renamed};
use crate::exec::x509::format::keys::{self, Kind, Private, Refusal};
use crate::exec::x509::format::parts::Request;
use crate::exec::x509::format::pem;
use crate::exec::x509::{appended, as_written, embedded, made, new_key, policy, request};

mod crl;
pub(super) mod file;

use crl::crl_managed;
use file::{File, Plan, error_as_failure};

state::state_module! {
    /// Manage private keys, certificates and certificate requests.
    #[needs("openssl", "The program openssl is not in the path: install it")]
    #[facts(effects = Effects::Files(&[]), free_arguments = true)]
    mod x509;

    /// Make sure that a certificate exists, has the given properties, and does not expire soon. The
    /// other keywords are the names of the subject (`CN`, `O` …), extensions (`subjectAltName`,
    /// `keyUsage` …) and arguments of `file.managed`.
    ///
    ///     /etc/ssl/shop.crt:
    ///       x509.certificate_managed:
    ///         - signing_private_key: /etc/ssl/ca.key
    ///         - signing_cert: /etc/ssl/ca.crt
    ///         - private_key: /etc/ssl/shop.key
    ///         - CN: shop.example.com
    ///         - days_valid: 90
    fn certificate_managed(CertificateManaged {
        /// The file.
        name: String,
        /// The minimum number of remaining days. With fewer days left the certificate is created
        /// again.
        days_remaining: Option<f64> = None,
        /// The minion that signs. Default: this one.
        ca_server: Option<String> = None,
        /// The signing policy. Its settings take precedence over all others.
        signing_policy: Option<String> = None,
        /// `pem`, `der`, `pkcs7_pem`, `pkcs7_der` or `pkcs12`.
        encoding: String = "pem".into(),
        /// Certificates to append to it in the file.
        append_certs: Value = Value::Null,
        /// The digest for the signature.
        digest: String = "sha256".into(),
        /// The private key that signs.
        signing_private_key: Value = Value::Null,
        /// The passphrase of the signing key.
        signing_private_key_passphrase: Value = Value::Null,
        /// The certificate of the authority. Default: the certificate is self-signed.
        signing_cert: Value = Value::Null,
        /// The public key of the certificate.
        public_key: Value = Value::Null,
        /// The private key of the certificate.
        private_key: Value = Value::Null,
        /// The passphrase of the private key.
        private_key_passphrase: Value = Value::Null,
        /// A certificate request. It supplies properties that are not given here.
        csr: Value = Value::Null,
        /// The whole subject as one text.
        subject: Value = Value::Null,
        /// The serial number. Default: a random number.
        serial_number: Value = Value::Null,
        /// The time at which it becomes valid, in UTC: `2026-01-31 12:00:00`.
        not_before: Value = Value::Null,
        /// The time at which it expires.
        not_after: Value = Value::Null,
        /// The number of days for which it is valid.
        days_valid: Value = Value::Null,
        /// The passphrase that encrypts a PKCS#12 container.
        pkcs12_passphrase: Option<String> = None,
        /// True to encrypt it in a way that older systems can read.
        pkcs12_encryption_compat: bool = false,
        /// The name of the certificate in the PKCS#12 container.
        pkcs12_friendlyname: Option<String> = None,
        ..kwargs
    });

    /// Make sure that a certificate revocation list exists, has the given contents, and does not
    /// expire soon. The other keywords are arguments of `file.managed`.
    ///
    ///     /etc/ssl/ca.crl:
    ///       x509.crl_managed:
    ///         - signing_private_key: /etc/ssl/ca.key
    ///         - signing_cert: /etc/ssl/ca.crt
    ///         - revoked:
    ///           - certificate: /etc/ssl/old.crt
    fn crl_managed(CrlManaged {
        /// The file.
        name: String,
        /// The private key of the authority.
        signing_private_key: Value,
        /// The revoked certificates: dictionaries with `certificate` or `serial_number`, and
        /// `revocation_date`, `not_after`, `extensions`.
        revoked: Value,
        /// The minimum number of remaining days. With fewer days left the list is created again.
        days_remaining: Option<f64> = None,
        /// The certificate of the authority.
        signing_cert: Value = Value::Null,
        /// The passphrase of the authority's key.
        signing_private_key_passphrase: Value = Value::Null,
        /// True to include certificates that have expired.
        include_expired: bool = false,
        /// The number of days for which the list is valid.
        days_valid: Option<f64> = None,
        /// The digest for the signature.
        digest: String = "sha256".into(),
        /// `pem` or `der`.
        encoding: String = "pem".into(),
        /// The extensions of the list. If `cRLNumber` is `auto`, it is one more than the last
        /// number.
        extensions: Value = Value::Null,
        ..kwargs
    });

    /// Make sure that a certificate request exists. The other keywords are the names of the
    /// subject, extensions and arguments of `file.managed`.
    ///
    ///     /etc/ssl/shop.csr:
    ///       x509.csr_managed:
    ///         - private_key: /etc/ssl/shop.key
    ///         - CN: shop.example.com
    fn csr_managed(CsrManaged {
        /// The file.
        name: String,
        /// The private key of the request.
        private_key: Value,
        /// The passphrase of the private key.
        private_key_passphrase: Value = Value::Null,
        /// The digest for the signature.
        digest: String = "sha256".into(),
        /// `pem` or `der`.
        encoding: String = "pem".into(),
        /// The whole subject as one text.
        subject: Value = Value::Null,
        ..kwargs
    });

    /// Make sure that a file contains a PEM text in its normalized form. The other keywords are
    /// arguments of `file.managed`.
    ///
    ///     /etc/ssl/shop.crt:
    ///       x509.pem_managed:
    ///         - text: {{ pillar['shop_certificate'] }}
    fn pem_managed(PemManaged {
        /// The file.
        name: String,
        /// The text.
        text: Value,
        ..kwargs
    });

    /// Make sure that a private key exists. The other keywords are arguments of `file.managed`.
    /// Default mode: 0400.
    ///
    ///     /etc/ssl/shop.key:
    ///       x509.private_key_managed:
    ///         - algo: rsa
    ///         - keysize: 4096
    fn private_key_managed(PrivateKeyManaged {
        /// The file.
        name: String,
        /// The type of the key: `rsa`, `ec`, `ed25519` or `ed448`.
        algo: String = "rsa".into(),
        /// The size of the key in bits: 2048, 3072, 4096 for RSA; 256, 384, 521 for EC.
        keysize: Option<i64> = None,
        /// The passphrase that encrypts the key.
        passphrase: Option<String> = None,
        /// `pem`, `der` or `pkcs12`.
        encoding: String = "pem".into(),
        /// True to create a new key in any case.
        new: bool = false,
        /// True to create a new key if the file cannot be read with the passphrase.
        overwrite: bool = false,
        /// True to encrypt a PKCS#12 container in a way that older systems can read.
        pkcs12_encryption_compat: bool = false,
        ..kwargs
    });
}

/// The arguments of Salt's old module that no longer have an effect.
const IGNORED: [&str; 5] = ["cipher", "verbose", "text", "version", "serial_bits"];

/// Moves the arguments of `file.managed` out of `kwargs`, and removes those without an effect.
fn file_from_kwargs<'a>(
    cx: &'a Exec,
    name: &'a str,
    what: &'static str,
    kwargs: &mut Map,
) -> File<'a> {
    for name in IGNORED {
        kwargs.remove(name);
    }
    File::from_kwargs(cx, name, what, kwargs)
}

fn unknown(kwargs: &Map) -> Result<(), Error> {
    let names: Vec<Value> = kwargs.keys().cloned().collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "Unrecognized keyword arguments: {}",
            value::python::repr(&Value::list(names))
        ))),
    }
}

fn private_key_managed(cx: &Exec, mut args: PrivateKeyManaged) -> Result<Ret, Error> {
    if let Some(bits) = args.kwargs.remove("bits") {
        args.keysize = bits.as_int();
    }
    let mut kwargs = std::mem::take(&mut args.kwargs);
    let name = args.name.clone();
    let mut file = file_from_kwargs(cx, &name, "private key", &mut kwargs);
    unknown(&kwargs)?;
    if !file.args.get("mode").is_some_and(Value::is_true) {
        file.args.insert("mode", "0400");
    }
    if args.keysize.is_some_and(|size| size != 0) && args.algo.starts_with("ed") {
        let algo = &args.algo;
        return Ok(Ret::failed(format!(
            "keysize is an invalid parameter for {algo}"
        )));
    }
    error_as_failure(file.run(|there| key_plan(cx, &args, there)))
}

fn key_plan<'a>(
    cx: &'a Exec,
    args: &PrivateKeyManaged,
    file: Option<&Path>,
) -> Result<Plan<'a>, Error> {
    let encoding = Encoding::parse(&args.encoding, OF_KEYS)?;
    let mut changes = Map::new();
    let current = match file.filter(|_| !args.new) {
        Some(path) => current_key(cx, args, path, &mut changes)?,
        None => None,
    };
    match &current {
        Some(current) => changes.update(key_changes(args, current, encoding)?),
        None if file.is_some() && args.new => drop(changes.insert("replaced", args.name.as_str())),
        None => drop(changes.insert("created", args.name.as_str())),
    }
    let is_same = current.is_some()
        && changes
            .keys()
            .all(|key| matches!(key.as_str(), Some("encoding" | "passphrase")));
    let (algo, size, passphrase) = (args.algo.clone(), args.keysize, args.passphrase.clone());
    let older = args.pkcs12_encryption_compat;
    Ok(Plan {
        is_there: file.is_some(),
        encoding,
        encrypts: false,
        changes,
        make: Box::new(move || match current.filter(|_| is_same) {
            Some(current) => as_written(cx, &current, passphrase, encoding, older),
            None => new_key(cx, &algo, size, passphrase, (encoding, older)),
        }),
    })
}

/// Returns the key in a file, read with the passphrase.
fn current_key(
    cx: &Exec,
    args: &PrivateKeyManaged,
    path: &Path,
    changes: &mut Map,
) -> Result<Option<Private>, Error> {
    let place = Value::from(path.display().to_string());
    let refusal = match Private::load_or_refusal(cx, &place, args.passphrase.as_deref()) {
        Ok(private) => return Ok(Some(private)),
        Err(Refusal::NotEncrypted) => {
            changes.insert("passphrase", true);
            return Private::load(cx, &place, None).map(Some);
        }
        Err(Refusal::Other(error)) => return Err(error),
        Err(refusal) => refusal,
    };
    let why = match refusal {
        Refusal::WrongPassphrase => {
            "The provided passphrase cannot decrypt the private key. Pass overwrite: true to force regeneration"
        }
        Refusal::NoPassphrase => {
            "The existing file is encrypted. Pass overwrite: true to force regeneration without passphrase"
        }
        _ => {
            "The existing file does not seem to be a private key formatted as DER, PEM or embedded in PKCS12. Pass overwrite: true to force regeneration"
        }
    };
    if !args.overwrite {
        return Err(why.into());
    }
    if !matches!(refusal, Refusal::NoKey) {
        changes.insert("passphrase", true);
    }
    Ok(None)
}

fn key_changes(
    args: &PrivateKeyManaged,
    current: &Private,
    encoding: Encoding,
) -> Result<Map, Error> {
    let mut changes = Map::new();
    let (kind, size) = keys::kind(&current.key)?;
    let wanted = args.keysize.or(match kind {
        Kind::Rsa => Some(2048),
        Kind::Ec => Some(256),
        _ => None,
    });
    if Kind::from_name(&args.algo) != Some(kind) {
        changes.insert("algo", args.algo.as_str());
    } else if kind.hashes() && size != wanted {
        changes.insert("keysize", wanted);
    }
    if encoding != current.encoding {
        changes.insert("encoding", args.encoding.as_str());
    }
    Ok(changes)
}

fn pem_managed(cx: &Exec, mut args: PemManaged) -> Result<Ret, Error> {
    let name = args.name;
    let file = file_from_kwargs(cx, &name, "PEM text", &mut args.kwargs);
    unknown(&args.kwargs)?;
    match pem::entry(&args.text, None) {
        Ok(text) => file.managed(cx, true, Some(&text)),
        Err(error) => Ok(Ret::failed(error.to_string())),
    }
}

fn csr_managed(cx: &Exec, args: CsrManaged) -> Result<Ret, Error> {
    let mut all = args.kwargs;
    let file = file_from_kwargs(cx, &args.name, "certificate signing request", &mut all);
    all.insert("private_key", args.private_key);
    all.insert("private_key_passphrase", args.private_key_passphrase);
    all.insert("digest", args.digest);
    all.insert("subject", args.subject);
    renamed(&mut all);
    let (name, encoding) = (args.name.as_str(), args.encoding.as_str());
    error_as_failure(file.run(|there| request_plan(cx, name, encoding, all, there)))
}

fn request_plan<'a>(
    cx: &'a Exec,
    name: &str,
    encoding_name: &str,
    all: Map,
    file: Option<&Path>,
) -> Result<Plan<'a>, Error> {
    let encoding = Encoding::parse(encoding_name, OF_REQUESTS)?;
    let mut changes = Map::new();
    let current = match file {
        Some(path) => Request::from_bytes(&pem::file(path)?),
        None => None,
    };
    match &current {
        None if file.is_some() => drop(changes.insert("replaced", name)),
        None => drop(changes.insert("created", name)),
        Some((current, is_pem)) => {
            changes = Asking::from_arguments(cx, &all)?.changes(current, &all);
            if *is_pem != (encoding == Encoding::Pem) {
                changes.insert("encoding", encoding_name);
            }
        }
    }
    Ok(Plan {
        is_there: current.is_some(),
        encoding,
        encrypts: false,
        changes,
        make: Box::new(move || Ok(encoding.bytes("CERTIFICATE REQUEST", request(cx, all)?))),
    })
}

fn certificate_managed(cx: &Exec, args: CertificateManaged) -> Result<Ret, Error> {
    let mut all = args.kwargs;
    let file = file_from_kwargs(cx, &args.name, "certificate", &mut all);
    let days = args.days_valid;
    let defaults = match days.is_null() && args.not_after.is_null() {
        true => 365.into(),
        false => days,
    };
    let own = [
        ("digest", args.digest.into()),
        ("signing_private_key", args.signing_private_key),
        (
            "signing_private_key_passphrase",
            args.signing_private_key_passphrase,
        ),
        ("signing_cert", args.signing_cert),
        ("public_key", args.public_key),
        ("private_key", args.private_key),
        ("private_key_passphrase", args.private_key_passphrase),
        ("csr", args.csr),
        ("subject", args.subject),
        ("serial_number", args.serial_number),
        ("not_before", args.not_before),
        ("not_after", args.not_after),
        ("days_valid", defaults),
    ];
    for (name, value) in own {
        if !all.contains(name) {
            all.insert(name, value);
        }
    }
    renamed(&mut all);
    let wanted = Wanted {
        name: &args.name,
        days_remaining: args.days_remaining.unwrap_or(90.0),
        ca_server: args.ca_server,
        policy: args.signing_policy,
        encoding_name: &args.encoding,
        chain: args.append_certs,
        container: Pkcs12 {
            passphrase: args.pkcs12_passphrase,
            is_older: args.pkcs12_encryption_compat,
            friendlyname: args.pkcs12_friendlyname,
        },
        all,
    };
    error_as_failure(file.run(|there| wanted.plan(cx, there)))
}

/// The wanted properties of a certificate.
struct Wanted<'a> {
    name: &'a str,
    days_remaining: f64,
    ca_server: Option<String>,
    policy: Option<String>,
    encoding_name: &'a str,
    chain: Value,
    container: Pkcs12,
    /// The arguments of `create_certificate`.
    all: Map,
}

impl<'a> Wanted<'a> {
    fn plan(self, cx: &'a Exec, file: Option<&Path>) -> Result<Plan<'a>, Error> {
        let encoding = Encoding::parse(self.encoding_name, OF_CERTIFICATES)?;
        let mut changes = Map::new();
        let current = match file {
            Some(path) => {
                let passphrase = self.container.passphrase.as_deref();
                let found = containers::found(cx, path, &pem::file(path)?, passphrase)?;
                match &found {
                    Ok(found) => changes = self.changes(cx, found, encoding)?,
                    Err(Missing::WrongPassphrase) => {
                        changes.insert("pkcs12_passphrase", true);
                    }
                    Err(Missing::NoCertificate) => drop(changes.insert("replaced", self.name)),
                }
                found.ok()
            }
            None => {
                changes.insert("created", self.name);
                None
            }
        };
        let is_same = changes.keys().all(|key| {
            let key = key.as_str().unwrap_or_default();
            matches!(key, "additional_certs" | "encoding" | "pkcs12_friendlyname")
        });
        let is_there = current.is_some();
        let kept = current.filter(|_| is_same);
        Ok(Plan {
            is_there,
            encoding,
            encrypts: false,
            changes,
            make: Box::new(move || self.written(cx, encoding, kept)),
        })
    }

    /// Returns the encoded file with the existing certificate, if it is kept, or with a new one.
    fn written(self, cx: &Exec, encoding: Encoding, kept: Option<Found>) -> Result<Vec<u8>, Error> {
        let chain = appended(&self.chain)?;
        if encoding == Encoding::Der && !chain.is_empty() {
            return Err("Cannot encode a certificate chain in DER".into());
        }
        let (server, policy) = (self.ca_server.as_deref(), self.policy.as_deref());
        let key = match encoding {
            Encoding::Pkcs12 => embedded(cx, &self.all, policy, server.is_some())?,
            _ => None,
        };
        let certificate = match kept {
            Some(kept) => kept.certificate,
            None => made(cx, self.all, server, policy)?,
        };
        let certificates = (&certificate, chain.as_slice());
        containers::encoded(cx, encoding, certificates, key.as_ref(), &self.container)
    }

    fn changes(&self, cx: &Exec, found: &Found, encoding: Encoding) -> Result<Map, Error> {
        let mut changes = Map::new();
        let name = &self.container.friendlyname;
        if found.encoding != encoding {
            changes.insert("encoding", self.encoding_name);
        } else if encoding == Encoding::Pkcs12 && found.friendlyname != *name {
            changes.insert("pkcs12_friendlyname", name.clone());
        }
        if expires(&found.certificate, self.days_remaining)? {
            changes.insert("expiration", true);
        }
        let chain = appended(&self.chain)?;
        let chain = chain.iter().map(|one| &one.der);
        if !chain.eq(found.chain.iter().map(|one| &one.der)) {
            changes.insert("additional_certs", true);
        }
        let mut all = self.all.clone();
        let server = self.ca_server.as_deref();
        merge(&mut all, policy(cx, self.policy.as_deref(), server)?);
        let draft = Draft::from_arguments(cx, &all, server.is_some())?;
        changes.update(draft.changes(cx, &found.certificate, &self.all)?);
        Ok(changes)
    }
}
