//! The `ssh_pki` execution module: keys and certificates of OpenSSH, with the programs `openssl`
//! and, for encrypted private keys, `ssh-keygen`.

use std::path::Path;

use machine::fs::{self, Owner};
use machine::hashes;
use python::base64;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use crate::exec::x509::format::issue::given;
use crate::exec::x509::format::pem;
use crate::exec::x509::{OWN_SETTINGS, call_ca_server, place, policy_of};

pub(crate) mod certificate;
pub(crate) mod draft;
pub(crate) mod private;
pub(crate) mod public;
#[cfg(test)]
mod tests;
mod wire;

use certificate::{Certificate, Options};
use draft::{Draft, merge, moment_text, named, now, seconds, signer};
use private::Private;
use public::Public;

state::exec_module! {
    /// Manage keys and certificates of OpenSSH.
    #[needs("openssl", "The program openssl is not in the path: install it")]
    mod ssh_pki;

    /// Create a certificate. The key and the other contents are keywords, as in the state
    /// `ssh_pki.certificate_managed`.
    ///
    ///     salt-call ssh_pki.create_certificate signing_private_key=/etc/ssl/ssh_ca cert_type=user public_key=/etc/ssl/alice.pub valid_principals='[alice]' path=/etc/ssl/alice-cert.pub overwrite=True
    fn create_certificate(CreateCertificate {
        /// The ID of the minion that signs the certificate.
        ca_server: Option<String> = None,
        /// The signing policy, whose settings override all others.
        signing_policy: Option<String> = None,
        /// The path of the file to write; the text is returned if not given.
        path: Option<String> = None,
        /// True to overwrite an existing file.
        overwrite: bool = false,
        /// True to return bytes instead of text.
        raw: bool = false,
        ..kwargs
    });

    /// Create a private key.
    ///
    ///     salt-call ssh_pki.create_private_key algo=ed25519 path=/etc/ssl/ssh_key overwrite=True
    fn create_private_key(CreatePrivateKey {
        /// The algorithm: `rsa`, `ec` or `ed25519`.
        algo: String = "rsa".into(),
        /// The size of the key: 2048, 3072 or 4096 for RSA; 256, 384 or 521 for EC.
        keysize: Option<i64> = None,
        /// The passphrase that encrypts the key.
        passphrase: Option<String> = None,
        /// The path of the file to write; both keys are returned if not given.
        path: Option<String> = None,
        /// The suffix of the path of the public key, or False to not write it.
        pubkey_suffix: Value = ".pub".into(),
        /// True to overwrite an existing file.
        overwrite: bool = false,
        /// True to return bytes instead of text.
        raw: bool = false,
    });

    /// Encrypt a private key with a passphrase, or decrypt it.
    ///
    ///     salt-call ssh_pki.encode_private_key /etc/ssl/ssh_ca
    fn encode_private_key(EncodePrivateKey {
        /// The path or the text of the private key.
        private_key: Value,
        /// The passphrase of the given private key.
        private_key_passphrase: Option<String> = None,
        /// The passphrase that encrypts the result.
        passphrase: Option<String> = None,
        /// True to return bytes instead of text.
        raw: bool = false,
    });

    /// Return whether a certificate has expired or expires within a period.
    ///
    ///     salt-call ssh_pki.expires /etc/ssl/alice-cert.pub ttl=7d
    fn expires(Expires {
        /// The path or the text of the certificate.
        certificate: Value,
        /// The period in seconds, or a text such as `30d` or `1.5h`.
        ttl: Value = 0.into(),
    });

    /// Return the size of a private key, or None if its algorithm has only one size.
    ///
    ///     salt-call ssh_pki.get_private_key_size /etc/ssl/ssh_ca
    fn get_private_key_size(GetPrivateKeySize {
        /// The path or the text of the private key.
        private_key: Value,
        /// The passphrase of the private key.
        passphrase: Option<String> = None,
    });

    /// Return the public key of a key or a certificate.
    ///
    ///     salt-call ssh_pki.get_public_key /etc/ssl/ssh_ca
    fn get_public_key(GetPublicKey {
        /// The path or the text of the key or the certificate.
        key: Value,
        /// The passphrase of the key.
        passphrase: Option<String> = None,
    });

    /// Return a signing policy of the pillar, the configuration, or another minion.
    ///
    ///     salt-call ssh_pki.get_signing_policy www_host ca_server=ca1
    fn get_signing_policy(GetSigningPolicy {
        /// The name of the signing policy.
        signing_policy: Option<String>,
        /// The ID of the other minion.
        ca_server: Option<String> = None,
    });

    /// Return the contents of a certificate.
    ///
    ///     salt-call ssh_pki.read_certificate /etc/ssl/alice-cert.pub
    fn read_certificate(ReadCertificate {
        /// The path or the text of the certificate.
        certificate: Value,
    });

    /// Sign a certificate for another minion.
    ///
    ///     salt-call ssh_pki.sign_remote_certificate www_host '{public_key: ssh-ed25519 AAAA, valid_principals: [web1]}'
    fn sign_remote_certificate(SignRemoteCertificate {
        /// The name of the signing policy on this machine.
        signing_policy: String,
        /// The other settings of the certificate.
        kwargs: Map,
        /// True to return only the signing policy.
        get_signing_policy_only: bool = false,
        ..more_kwargs
    });

    /// Return whether a private and a public key belong together.
    ///
    ///     salt-call ssh_pki.verify_private_key /etc/ssl/ssh_ca /etc/ssl/ssh_ca.pub
    fn verify_private_key(VerifyPrivateKey {
        /// The path or the text of the private key.
        private_key: Value,
        /// The public key, or a source that contains it.
        public_key: Value,
        /// The passphrase of the private key.
        passphrase: Option<String> = None,
    });

    /// Return whether a certificate is signed by a key.
    ///
    ///     salt-call ssh_pki.verify_signature /etc/ssl/alice-cert.pub /etc/ssl/ssh_ca.pub
    fn verify_signature(VerifySignature {
        /// The path or the text of the certificate.
        certificate: Value,
        /// The public key of the authority, or a source that contains it.
        signing_pub_key: Value,
        /// The passphrase of the source.
        signing_pub_key_passphrase: Option<String> = None,
    });
}

/// The function that signs on another minion.
const SIGN: &str = "ssh_pki.sign_remote_certificate";

/// The option, and the value of the pillar, with the signing policies of this machine.
const POLICIES: &str = "ssh_signing_policies";

fn existing(path: Option<&str>, overwrite: bool) -> Result<(), Error> {
    match path.filter(|path| !overwrite && Path::new(path).is_file()) {
        None => Ok(()),
        Some(path) => Err(Error::refused(format!(
            "The file at {path} exists and overwrite was set to false"
        ))),
    }
}

fn text_or_bytes(text: String, raw: bool) -> Value {
    match raw {
        true => Value::Bytes(text.into_bytes().into()),
        false => text.into(),
    }
}

fn create_certificate(cx: &Exec, args: CreateCertificate) -> Result<Value, Error> {
    let mut all = args.kwargs;
    all.retain(|name, _| !name.to_text().starts_with('_'));
    let server = args.ca_server.as_deref();
    if named(&all, "signing_private_key").is_none() && server.is_none() {
        return Err(
            "Creating a certificate locally at least requires a signing private key.".into(),
        );
    }
    let path = args.path.as_deref().filter(|path| !path.is_empty());
    existing(path, args.overwrite)?;
    let certificate = match server {
        Some(server) => {
            let policy = args.signing_policy.as_deref();
            let policy = policy.ok_or(
                "signing_policy must be specified to request a certificate from a remote ca_server",
            )?;
            remote(cx, server, policy, all)?
        }
        None => {
            let policy = policy_of(cx, POLICIES, args.signing_policy.as_deref())?;
            merge(&mut all, policy)?;
            let copypath = all.remove("copypath");
            signed(cx, all, copypath.as_ref())?
        }
    };
    let line = certificate.line();
    let Some(path) = path else {
        return Ok(text_or_bytes(line, args.raw));
    };
    fs::write(cx, Path::new(path), line.as_bytes(), Owner::default())?;
    Ok(format!("Certificate written to {path}").into())
}

/// Creates a certificate on this machine, and a copy in the folder `copypath`.
fn signed(cx: &Exec, args: Map, copypath: Option<&Value>) -> Result<Certificate, Error> {
    let signer = signer(cx, &args)?;
    let draft = Draft::from_arguments(cx, &args)?;
    let certificate = draft.contents.signed(cx, &signer)?;
    if let Some(folder) = copypath.filter(|folder| folder.is_true()) {
        let name = format!("{:x}.crt", certificate.contents.serial);
        let path = python::path::join(&folder.to_text(), &name);
        let line = certificate.line();
        fs::write(cx, Path::new(&path), line.as_bytes(), Owner::default())?;
    }
    Ok(certificate)
}

/// Requests a certificate from another minion. The private key stays on this machine.
fn remote(cx: &Exec, server: &str, policy: &str, mut args: Map) -> Result<Certificate, Error> {
    let passphrase = args.remove("private_key_passphrase");
    let passphrase = passphrase.filter(Value::is_true).map(|text| text.to_text());
    let private = args.remove("private_key").filter(Value::is_true);
    let key = match (private, named(&args, "public_key")) {
        (Some(private), _) => Some(Private::load(cx, &private, passphrase.as_deref())?.public),
        (None, Some(public)) => Some(Public::load(public)?),
        (None, None) => None,
    };
    if let Some(key) = key {
        args.insert("public_key", key.line());
    }
    args.retain(|_, value| !value.is_null());
    let words = [policy.into(), args.into(), false.into()];
    let answer = call_ca_server(cx, server, SIGN, words)?;
    Certificate::load(cx, &answer).map_err(|_| {
        let answer = answer.to_text();
        Error::refused(format!("ca_server did not return a certificate: {answer}"))
    })
}

fn create_private_key(cx: &Exec, args: CreatePrivateKey) -> Result<Value, Error> {
    let path = args.path.as_deref().filter(|path| !path.is_empty());
    existing(path, args.overwrite)?;
    let size = match args.algo.as_str() {
        "rsa" => args.keysize.or(Some(3072)),
        _ => args.keysize,
    };
    let key = Private::generate(cx, &args.algo, size)?;
    let (text, public) = (key.text(cx, args.passphrase.as_deref())?, key.public.line());
    let Some(path) = path else {
        return Ok(match args.raw {
            true => text_or_bytes(text, true),
            false => Map::new()
                .with("private_key", text)
                .with("public_key", public)
                .into(),
        });
    };
    place(cx, path, text.as_bytes())?;
    if args.pubkey_suffix.is_true() {
        let suffix = args.pubkey_suffix.to_text();
        place(cx, &format!("{path}{suffix}"), public.as_bytes())?;
    }
    Ok(format!("Private key written to {path}").into())
}

fn encode_private_key(cx: &Exec, args: EncodePrivateKey) -> Result<Value, Error> {
    let key = Private::load(
        cx,
        &args.private_key,
        args.private_key_passphrase.as_deref(),
    )?;
    let text = key.text(cx, args.passphrase.as_deref())?;
    Ok(text_or_bytes(text, args.raw))
}

fn expires(cx: &Exec, args: Expires) -> Result<Value, Error> {
    let certificate = Certificate::load(cx, &args.certificate)?;
    Ok(is_over(&certificate, &args.ttl)?.into())
}

/// Returns true if a certificate expires within a period from now.
///
/// # Errors
/// When the period is invalid.
pub(crate) fn is_over(certificate: &Certificate, period: &Value) -> Result<bool, Error> {
    let limit = now() + seconds(period)?.unwrap_or_default();
    Ok(certificate.contents.valid_before as f64 <= limit)
}

fn get_private_key_size(cx: &Exec, args: GetPrivateKeySize) -> Result<Value, Error> {
    let key = Private::load(cx, &args.private_key, args.passphrase.as_deref())?;
    Ok(key.public.size().into())
}

/// Returns the public key from a user's argument: a public or private key, or a certificate.
///
/// # Errors
/// When it is none of these.
pub(crate) fn public_key(
    cx: &Exec,
    source: &Value,
    passphrase: Option<&str>,
) -> Result<Public, Error> {
    let private = || Private::load(cx, source, passphrase).map(|key| key.public);
    Public::load(source)
        .or_else(|_| private())
        .map_err(|_| "Could not load key as certificate, public key or private key".into())
}

fn get_public_key(cx: &Exec, args: GetPublicKey) -> Result<Value, Error> {
    Ok(public_key(cx, &args.key, args.passphrase.as_deref())?
        .line()
        .into())
}

fn get_signing_policy(cx: &Exec, args: GetSigningPolicy) -> Result<Value, Error> {
    let policy = args.signing_policy.as_deref();
    let (Some(server), Some(policy)) = (args.ca_server.as_deref(), policy) else {
        return Ok(policy_of(cx, POLICIES, policy)?.into());
    };
    call_ca_server(
        cx,
        server,
        SIGN,
        [policy.into(), Map::new().into(), true.into()],
    )
}

fn read_certificate(cx: &Exec, args: ReadCertificate) -> Result<Value, Error> {
    let certificate = Certificate::load(cx, &args.certificate)?;
    let contents = &certificate.contents;
    let key = &certificate.key;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let principals = contents.principals.iter().map(|name| text(name));
    let principals = match contents.principals.is_empty() {
        true => "all".into(),
        false => Value::from(principals.collect::<Vec<String>>()),
    };
    let mut all = Map::new()
        .with("cert_type", contents.cert_type.name())
        .with("valid_principals", principals)
        .with("key_id", text(&contents.key_id))
        .with("key_size", key.size())
        .with("key_type", key.kind.name())
        .with("serial_number", serial_text(contents.serial))
        .with("issuer_public_key", certificate.authority.line())
        .with("not_before", moment_text(contents.valid_after))
        .with("not_after", moment_text(contents.valid_before))
        .with("public_key", key.line())
        .with("critical_options", options(&contents.critical_options))
        .with("extensions", options(&contents.extensions));
    let is_fips = cx.opts().flag("fips_mode");
    for (name, key) in [
        ("issuer_public_key", &certificate.authority),
        ("public_key", key),
    ] {
        let fingerprints = fingerprints(key, is_fips)?;
        all.insert(format!("{name}_fingerprints"), fingerprints);
    }
    Ok(all.into())
}

/// Returns a serial number in hexadecimal digits, two between colons.
fn serial_text(serial: u64) -> String {
    let digits = format!("{serial:X}");
    let digits = match digits.len() % 2 {
        0 => digits,
        _ => format!("0{digits}"),
    };
    pairs(&digits)
}

fn pairs(digits: &str) -> String {
    let pairs = digits.as_bytes().chunks(2);
    let pairs: Vec<String> = pairs
        .map(|pair| String::from_utf8_lossy(pair).into_owned())
        .collect();
    pairs.join(":")
}

fn options(options: &Options) -> Map {
    let text = |bytes: &[u8]| match String::from_utf8(bytes.to_vec()) {
        Ok(text) => Some(text),
        Err(error) => {
            log::warning(format_args!("Failed decoding option: {error}"));
            None
        }
    };
    options
        .iter()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
        .map(|(name, value)| match value.is_empty() {
            true => (name, Value::from(true)),
            false => (name, value.into()),
        })
        .collect()
}

fn fingerprints(key: &Public, is_fips: bool) -> Result<Map, Error> {
    let blob = key.blob();
    let sha256 = pem::unhexed(&hashes::of_bytes(&blob, "sha256")?).unwrap_or_default();
    let mut all = Map::new().with("sha256", base64::encode(&sha256));
    if !is_fips {
        all.insert("md5", pairs(&hashes::of_bytes(&blob, "md5")?));
    }
    Ok(all)
}

fn sign_remote_certificate(cx: &Exec, args: SignRemoteCertificate) -> Result<Value, Error> {
    let (data, errors) = match signed_for(cx, args) {
        Ok(data) => (data, Vec::new()),
        Err(error) => (Value::Null, vec![Value::from(error.to_string())]),
    };
    let answer = Map::new().with("data", data);
    Ok(answer.with("errors", Value::list(errors)).into())
}

/// Returns a certificate for another minion, or the signing policy without secrets.
fn signed_for(cx: &Exec, args: SignRemoteCertificate) -> Result<Value, Error> {
    let mut policy = policy_of(cx, POLICIES, Some(&args.signing_policy))?;
    if policy.is_empty() {
        return Err("signing_policy must be specified and defined on signing minion".into());
    }
    if let Some(minions) = policy.remove("minions") {
        let id = args.more_kwargs.get("__pub_id").map(Value::to_text);
        let id = id.ok_or("minion sending this request could not be identified")?;
        if !is_permitted(cx, &minions, &id)? {
            return Err("minion not permitted to use specified signing policy".into());
        }
    }
    if args.get_signing_policy_only {
        let signing = given(&policy, "signing_private_key").is_some();
        let signer = signing.then(|| signer(cx, &policy)).transpose()?;
        policy.remove("signing_private_key");
        policy.remove("signing_private_key_passphrase");
        if let Some(signer) = signer {
            policy.insert("signing_public_key", signer.public.line());
        }
        return Ok(policy.into());
    }
    let mut all = args.kwargs;
    for name in OWN_SETTINGS.into_iter().chain(["copypath"]) {
        all.remove(name);
    }
    if let Some(key) = named(&all, "public_key") {
        // A path would be one of this machine.
        let key = Public::from_text(&key.to_text())?;
        all.insert("public_key", key.line());
    }
    merge(&mut all, policy)?;
    let copypath = all.remove("copypath");
    Ok(signed(cx, all, copypath.as_ref())?.line().into())
}

/// Returns true if a minion matches a glob, or a compound expression, which the master evaluates.
fn is_permitted(cx: &Exec, minions: &Value, id: &str) -> Result<bool, Error> {
    let Value::Str(minions) = minions else {
        return Err("`minions` of the signing policy is not a text: it must be a glob or a compound expression".into());
    };
    if !minions.contains('@') {
        return Ok(value::glob::fnmatch(minions, id));
    }
    let words = Value::list([Value::Str(minions.clone()), id.into()]);
    let matched = cx.call_internal(
        "publish.runner",
        vec!["match.compound_matches".into()],
        Map::new().with("arg", words),
    )?;
    if matched.is_null() {
        return Err("Could not check minion match for compound expression. Is this minion allowed to run `match.compound_matches` on the master?".into());
    }
    let matched = matched
        .get("res")
        .ok_or("Invalid return value of match.compound_matches.")?;
    Ok(matched.as_str() == Some(id))
}

fn verify_private_key(cx: &Exec, args: VerifyPrivateKey) -> Result<Value, Error> {
    let key = Private::load(cx, &args.private_key, args.passphrase.as_deref())?;
    Ok((key.public == public_key(cx, &args.public_key, None)?).into())
}

fn verify_signature(cx: &Exec, args: VerifySignature) -> Result<Value, Error> {
    let certificate = Certificate::load_unverified(&args.certificate)?;
    let passphrase = args.signing_pub_key_passphrase.as_deref();
    let authority = public_key(cx, &args.signing_pub_key, passphrase)?;
    Ok((certificate.is_signed(cx)? && certificate.authority == authority).into())
}
