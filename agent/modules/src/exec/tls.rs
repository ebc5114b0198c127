//! The `tls` execution module: reads and validates certificates, and manages certificate
//! authorities (CAs) in folders.
#![allow(
    non_snake_case,
    reason = "parts of a name are arguments, with the names that certificates give them"
)]

use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use machine::hashes;
use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::x509::format::parts::Parts;
use crate::exec::x509::format::print::{Certificate, decimal};
use crate::exec::x509::format::{keys, pem, read};

mod authority;
mod folder;
mod index;
mod issue;
mod revoke;

use authority::{ca_exists, create_ca, get_ca, maybe_fix_ssl_version};
use folder::{Authority, cert_base_path, set_ca_path};
use issue::{
    create_ca_signed_cert, create_csr, create_pkcs12, create_self_signed_cert, get_ca_signed_cert,
    get_ca_signed_key, get_extensions,
};
use revoke::{create_empty_crl, revoke_cert};

state::exec_module! {
    /// Manage TLS certificates.
    #[needs("openssl", "The program openssl is not in the path: install it")]
    mod tls;

    /// Return the contents of a certificate.
    ///
    ///     salt-call tls.cert_info /etc/ssl/shop.crt
    fn cert_info(CertInfo {
        /// The path or the text of the certificate.
        cert: String,
        /// The hash algorithm of the fingerprint.
        digest: String = "sha256".into(),
    });

    /// Return the date on which a certificate expires.
    ///
    ///     salt-call tls.get_expiration_date /etc/ssl/shop.crt
    fn get_expiration_date(GetExpirationDate {
        /// The path or the text of the certificate.
        cert: String,
        /// The format of the date.
        date_format: String = "%Y-%m-%d".into(),
    });

    /// Return whether a certificate was issued by a CA in the folder `ca.cert_base_path` and is not
    /// revoked.
    ///
    ///     salt-call tls.validate /etc/ssl/shop.crt office
    fn validate(Validate {
        /// The path or the text of the certificate.
        cert: String,
        /// The name of the CA.
        ca_name: String,
        /// The path of the certificate revocation list; that of the CA's folder if not given.
        crl_file: Option<String> = None,
    });

    /// Return the folder of the CAs.
    ///
    ///     salt-call tls.cert_base_path
    fn cert_base_path(CertBasePath {
        /// A folder that overrides the option.
        cacert_path: Option<String> = None,
    });

    /// Set the folder of the CAs for the rest of this run.
    ///
    ///     salt-call tls.set_ca_path /etc/pki
    fn set_ca_path(SetCaPath {
        /// The path of the folder.
        cacert_path: Option<String>,
    });

    /// Create the certificate of a CA again if its version number is invalid.
    ///
    ///     salt-call tls.maybe_fix_ssl_version office
    fn maybe_fix_ssl_version(MaybeFixSslVersion {
        /// The name of the CA.
        ca_name: String,
        /// The folder of the CAs; overrides `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The file name of the CA's files; `NAME_ca_cert` if not given.
        ca_filename: Option<String> = None,
    });

    /// Return whether a CA exists.
    ///
    ///     salt-call tls.ca_exists office
    fn ca_exists(CaExists {
        /// The name of the CA.
        ca_name: String,
        /// The folder of the CAs; overrides `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The file name of the CA's files; `NAME_ca_cert` if not given.
        ca_filename: Option<String> = None,
    });

    /// Return the path or the text of a CA's certificate.
    ///
    ///     salt-call tls.get_ca office
    fn get_ca(GetCa {
        /// The name of the CA.
        ca_name: String,
        /// True to return the text instead of the path.
        as_text: bool = false,
        /// The folder of the CAs; overrides `ca.cert_base_path`.
        cacert_path: Option<String> = None,
    });

    /// Return the path or the text of a certificate that a CA issued.
    ///
    ///     salt-call tls.get_ca_signed_cert office shop.example.com
    fn get_ca_signed_cert(GetCaSignedCert {
        /// The name of the CA.
        ca_name: String,
        /// The common name of the certificate.
        CN: String = "localhost".into(),
        /// True to return the text instead of the path.
        as_text: bool = false,
        /// The folder of the CAs; overrides `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The file name of the certificate; the common name if not given.
        cert_filename: Option<String> = None,
    });

    /// Return the path or the text of the key of a certificate that a CA issued.
    ///
    ///     salt-call tls.get_ca_signed_key office shop.example.com
    fn get_ca_signed_key(GetCaSignedKey {
        /// The name of the CA.
        ca_name: String,
        /// The common name of the certificate.
        CN: String = "localhost".into(),
        /// True to return the text instead of the path.
        as_text: bool = false,
        /// The folder of the CAs; overrides `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The file name of the key; the common name if not given.
        key_filename: Option<String> = None,
    });

    /// Create a CA with a key and a certificate. An existing key is used again.
    ///
    ///     salt-call tls.create_ca office CN=ca.example.com
    fn create_ca(CreateCa {
        /// The name of the CA.
        ca_name: String,
        /// The size of the key in bits.
        bits: i64 = 2048,
        /// The number of days for which the certificate is valid.
        days: f64 = 365.0,
        /// The common name.
        CN: Option<String> = Some("localhost".into()),
        /// The country code with two letters.
        C: Option<String> = Some("US".into()),
        /// The state.
        ST: Option<String> = Some("Utah".into()),
        /// The locality.
        L: Option<String> = Some("Salt Lake City".into()),
        /// The organization.
        O: Option<String> = Some("SaltStack".into()),
        /// The organizational unit.
        OU: Option<String> = None,
        /// The e-mail address.
        emailAddress: Option<String> = None,
        /// True to create an existing certificate again.
        fixmode: bool = false,
        /// The folder of the CAs; overrides `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The file name of the CA's files; `NAME_ca_cert` if not given.
        ca_filename: Option<String> = None,
        /// The hash algorithm of the signature.
        digest: String = "sha256".into(),
        /// Create nothing if this command fails.
        onlyif: Value = Value::Null,
        /// Create nothing if this command succeeds.
        unless: Value = Value::Null,
        /// True to replace existing files.
        replace: bool = false,
    });

    /// Return the extensions of requests and certificates: those of the pillar below
    /// `tls.extensions`, or the defaults.
    ///
    ///     salt-call tls.get_extensions server
    fn get_extensions(GetExtensions {
        /// The type: `server`, `client`, or a type that the pillar defines.
        cert_type: String,
    });

    /// Create a key and a certificate signing request for a CA.
    ///
    ///     salt-call tls.create_csr office CN=shop.example.com
    fn create_csr(CreateCsr {
        /// The name of the CA.
        ca_name: String,
        /// The size of the key in bits.
        bits: i64 = 2048,
        /// The common name.
        CN: Option<String> = Some("localhost".into()),
        /// The country code with two letters.
        C: Option<String> = Some("US".into()),
        /// The state.
        ST: Option<String> = Some("Utah".into()),
        /// The locality.
        L: Option<String> = Some("Salt Lake City".into()),
        /// The organization.
        O: Option<String> = Some("SaltStack".into()),
        /// The organizational unit.
        OU: Option<String> = None,
        /// The e-mail address.
        emailAddress: Option<String> = None,
        /// The alternative names, such as `DNS:www.example.com`.
        subjectAltName: Value = Value::Null,
        /// The folder of the CAs; overrides `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The file name of the CA's files; `NAME_ca_cert` if not given.
        ca_filename: Option<String> = None,
        /// The folder of the files.
        csr_path: Option<String> = None,
        /// The file name of the request; the common name if not given.
        csr_filename: Option<String> = None,
        /// The hash algorithm of the signature.
        digest: String = "sha256".into(),
        /// True to include the type in the names of the files.
        type_ext: bool = false,
        /// The type whose extensions are requested, as in `tls.get_extensions`.
        cert_type: String = "server".into(),
        /// True to replace existing files.
        replace: bool = false,
    });

    /// Create a key and a self-signed certificate.
    ///
    ///     salt-call tls.create_self_signed_cert CN=shop.example.com
    fn create_self_signed_cert(CreateSelfSignedCert {
        /// The folder below `ca.cert_base_path`.
        tls_dir: String = "tls".into(),
        /// The size of the key in bits.
        bits: i64 = 2048,
        /// The number of days for which the certificate is valid.
        days: f64 = 365.0,
        /// The common name.
        CN: Option<String> = Some("localhost".into()),
        /// The country code with two letters.
        C: Option<String> = Some("US".into()),
        /// The state.
        ST: Option<String> = Some("Utah".into()),
        /// The locality.
        L: Option<String> = Some("Salt Lake City".into()),
        /// The organization.
        O: Option<String> = Some("SaltStack".into()),
        /// The organizational unit.
        OU: Option<String> = None,
        /// The e-mail address.
        emailAddress: Option<String> = None,
        /// The folder of the CAs; overrides `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The file name of the certificate; the common name if not given.
        cert_filename: Option<String> = None,
        /// The hash algorithm of the signature.
        digest: String = "sha256".into(),
        /// True to replace existing files.
        replace: bool = false,
    });

    /// Sign a request with a CA.
    ///
    ///     salt-call tls.create_ca_signed_cert office shop.example.com
    fn create_ca_signed_cert(CreateCaSignedCert {
        /// The name of the CA.
        ca_name: String,
        /// The common name of the certificate.
        CN: String,
        /// The number of days for which the certificate is valid.
        days: f64 = 365.0,
        /// The folder of the CAs; overrides `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The file name of the CA's files; `NAME_ca_cert` if not given.
        ca_filename: Option<String> = None,
        /// The folder of the request and of the certificate.
        cert_path: Option<String> = None,
        /// The file name of the certificate; the common name if not given.
        cert_filename: Option<String> = None,
        /// The hash algorithm of the signature.
        digest: String = "sha256".into(),
        /// The type of the request.
        cert_type: Option<String> = None,
        /// True to include the type in the names of the files.
        type_ext: bool = false,
        /// True to replace existing files.
        replace: bool = false,
    });

    /// Write a certificate, its key and the CA's certificate to one PKCS#12 file.
    ///
    ///     salt-call tls.create_pkcs12 office shop.example.com
    fn create_pkcs12(CreatePkcs12 {
        /// The name of the CA.
        ca_name: String,
        /// The common name of the certificate.
        CN: String,
        /// The passphrase that encrypts the file.
        passphrase: String = String::new(),
        /// The folder of the CAs; overrides `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// True to replace existing files.
        replace: bool = false,
    });

    /// Create an empty certificate revocation list.
    ///
    ///     salt-call tls.create_empty_crl office
    fn create_empty_crl(CreateEmptyCrl {
        /// The name of the CA.
        ca_name: String,
        /// The folder of the CAs; overrides `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The file name of the CA's files; `NAME_ca_cert` if not given.
        ca_filename: Option<String> = None,
        /// The path of the revocation list; `crl.pem` in the CA's folder if not given.
        crl_file: Option<String> = None,
        /// The hash algorithm of the signature.
        digest: String = "sha256".into(),
    });

    /// Revoke a certificate and write the revocation list.
    ///
    ///     salt-call tls.revoke_cert office shop.example.com
    fn revoke_cert(RevokeCert {
        /// The name of the CA.
        ca_name: String,
        /// The common name of the certificate.
        CN: String,
        /// The folder of the CAs; overrides `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The file name of the CA's files; `NAME_ca_cert` if not given.
        ca_filename: Option<String> = None,
        /// The folder of the certificate.
        cert_path: Option<String> = None,
        /// The file name of the certificate; the common name if not given.
        cert_filename: Option<String> = None,
        /// The path of the revocation list; `crl.pem` in the CA's folder if not given.
        crl_file: Option<String> = None,
        /// The hash algorithm of the signature.
        digest: String = "sha256".into(),
    });
}

/// Parses a time of the form `YYYYMMDDhhmmssZ` and returns it in seconds since 1970.
///
/// # Errors
/// When the text has another form.
pub(crate) fn seconds(stamp: &str) -> Result<i64, Error> {
    let wrong = || Error::refused(format!("invalid time {stamp}: expected YYYYMMDDhhmmssZ"));
    let civil = DateTime::strptime("%Y%m%d%H%M%SZ", stamp).map_err(|_| wrong())?;
    let zoned = civil.to_zoned(TimeZone::UTC).map_err(|_| wrong())?;
    Ok(zoned.timestamp().as_second())
}

/// Reads a certificate from a path or from its text.
///
/// # Errors
/// When it is not a certificate, or the file cannot be read.
pub(crate) fn read(cert: &str) -> Result<Parts, Error> {
    match cert.contains("-----BEGIN") {
        true => Parts::load(&cert.into()),
        false => Parts::load(&Value::Bytes(pem::file(Path::new(cert))?.into())),
    }
}

fn cert_info(_: &Exec, args: CertInfo) -> Result<Value, Error> {
    let parts = read(&args.cert)?;
    let shown = Certificate::read(&parts.der).ok_or("Could not load PEM-encoded certificate.")?;
    let print = pem::unhexed(&hashes::of_bytes(&parts.der, &args.digest)?).unwrap_or_default();
    let serial = decimal(&[&[0], parts.serial.as_slice()].concat());
    let serial = serial
        .parse()
        .map_or_else(|_| Value::Big(serial.as_str().into()), Value::Int);
    let map = |pairs: &[(String, String)]| -> Map {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect()
    };
    let mut all = Map::new()
        .with("fingerprint", read::colons(&print))
        .with("subject", map(&shown.subject))
        .with("issuer", map(&shown.issuer))
        .with("serial_number", serial)
        .with("not_before", seconds(&parts.not_before)?)
        .with("not_after", seconds(&parts.not_after)?)
        .with("extensions", map(&shown.extensions));
    let names = shown
        .extensions
        .iter()
        .find(|(name, _)| name == "subjectAltName");
    if let Some((_, names)) = names {
        let names = names.split(", ").filter_map(|name| name.split_once(':'));
        let names = names.filter(|(kind, _)| matches!(*kind, "DNS" | "IP Address"));
        all.insert(
            "subject_alt_names",
            Value::list(names.map(|(_, name)| name.into())),
        );
    }
    Ok(all
        .with("signature_algorithm", shown.signature_algorithm)
        .into())
}

fn get_expiration_date(_: &Exec, args: GetExpirationDate) -> Result<Value, Error> {
    let end = Timestamp::from_second(seconds(&read(&args.cert)?.not_after)?);
    let end = end.map_err(|error| Error::refused(error.to_string()))?;
    let text = jiff::fmt::strtime::format(&args.date_format, &end.to_zoned(TimeZone::UTC));
    Ok(text
        .map_err(|error| Error::refused(error.to_string()))?
        .into())
}

fn validate(cx: &Exec, args: Validate) -> Result<Value, Error> {
    let parts = read(&args.cert)?;
    let certificate = keys::temporary(pem::text("CERTIFICATE", &parts.der).as_bytes())?;
    let place = certificate.path().display().to_string();
    let authority = Authority::new(cx, &args.ca_name, None, None)?;
    if args.crl_file.is_none() && index::is_revoked(&authority.folder, &parts.serial)? {
        return Ok(invalid("certificate revoked"));
    }
    let of = authority.certificate();
    let mut words = vec!["openssl", "verify", "-CAfile", &of];
    if let Some(list) = &args.crl_file {
        words.extend(["-crl_check_all", "-CRLfile", list]);
    }
    words.push(&place);
    let said = Process::words(words).quiet().run(cx)?;
    let wrong = said
        .stderr
        .lines()
        .find_map(|line| line.split_once("lookup: "));
    let why = wrong.map_or_else(|| said.stderr.trim(), |(_, why)| why);
    Ok(match said.success() {
        true => Map::new().with("valid", true).into(),
        false => invalid(why),
    })
}

fn invalid(why: &str) -> Value {
    Map::new().with("valid", false).with("error", why).into()
}
