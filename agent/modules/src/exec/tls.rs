//! The `tls` execution module: what certificates say, whether they are valid, and authorities in folders.
#![allow(
    non_snake_case,
    reason = "parts of a name are arguments, with the names that certificates give them"
)]

use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::hashes;
use crate::process::Process;
use crate::x509::parts::Parts;
use crate::x509::shown::{Certificate, decimal};
use crate::x509::{keys, pem, told};

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
    /// Certificates for TLS.
    mod tls;

    /// What a certificate says.
    fn cert_info(CertInfo {
        /// The certificate: a file or its text.
        cert: String,
        /// The digest of its fingerprint.
        digest: String = "sha256".into(),
    });

    /// When a certificate's time is over.
    fn get_expiration_date(GetExpirationDate {
        /// The certificate.
        cert: String,
        /// The form of the date.
        date_format: String = "%Y-%m-%d".into(),
    });

    /// Whether a certificate is of an authority in the folder `ca.cert_base_path`, and not revoked.
    fn validate(Validate {
        /// The certificate: a file or its text.
        cert: String,
        /// The authority's name.
        ca_name: String,
        /// Its list of revoked certificates.
        crl_file: Option<String> = None,
    });

    /// Return the folder of authorities.
    fn cert_base_path(CertBasePath {
        /// One that goes before the option.
        cacert_path: Option<String> = None,
    });

    /// Name the folder of authorities for what follows in this run.
    fn set_ca_path(SetCaPath {
        /// The folder.
        cacert_path: Option<String>,
    });

    /// Make an authority's certificate again where its version is none.
    fn maybe_fix_ssl_version(MaybeFixSslVersion {
        /// The authority's name.
        ca_name: String,
        /// The folder of authorities instead of `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The name of the authority's files; `NAME_ca_cert` where there is none.
        ca_filename: Option<String> = None,
    });

    /// Whether there is an authority.
    fn ca_exists(CaExists {
        /// The authority's name.
        ca_name: String,
        /// The folder of authorities instead of `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The name of the authority's files; `NAME_ca_cert` where there is none.
        ca_filename: Option<String> = None,
    });

    /// Return the path or the text of an authority's certificate.
    fn get_ca(GetCa {
        /// The authority's name.
        ca_name: String,
        /// Return its text instead of its path.
        as_text: bool = false,
        /// The folder of authorities instead of `ca.cert_base_path`.
        cacert_path: Option<String> = None,
    });

    /// Return the path or the text of a certificate of an authority.
    fn get_ca_signed_cert(GetCaSignedCert {
        /// The authority's name.
        ca_name: String,
        /// Whom it is for.
        CN: String = "localhost".into(),
        /// Return its text instead of its path.
        as_text: bool = false,
        /// The folder of authorities instead of `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The name of its file; the CN where there is none.
        cert_filename: Option<String> = None,
    });

    /// Return the path or the text of the key of a certificate of an authority.
    fn get_ca_signed_key(GetCaSignedKey {
        /// The authority's name.
        ca_name: String,
        /// Whom it is for.
        CN: String = "localhost".into(),
        /// Return its text instead of its path.
        as_text: bool = false,
        /// The folder of authorities instead of `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The name of its file; the CN where there is none.
        key_filename: Option<String> = None,
    });

    /// Make an authority: a key and a certificate. A key that is there is used.
    fn create_ca(CreateCa {
        /// The authority's name.
        ca_name: String,
        /// How large the key is.
        bits: i64 = 2048,
        /// For how many days it is valid.
        days: f64 = 365.0,
        /// Whom it is for.
        CN: Option<String> = Some("localhost".into()),
        /// The country, in two letters.
        C: Option<String> = Some("US".into()),
        /// The state.
        ST: Option<String> = Some("Utah".into()),
        /// The place.
        L: Option<String> = Some("Salt Lake City".into()),
        /// The organization.
        O: Option<String> = Some("SaltStack".into()),
        /// Its unit.
        OU: Option<String> = None,
        /// Whom to write to.
        emailAddress: Option<String> = None,
        /// Make the certificate again that is there.
        fixmode: bool = false,
        /// The folder of authorities instead of `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The name of the authority's files; `NAME_ca_cert` where there is none.
        ca_filename: Option<String> = None,
        /// The digest that is signed.
        digest: String = "sha256".into(),
        /// Make nothing where this command fails.
        onlyif: Value = Value::Null,
        /// Make nothing where this command succeeds.
        unless: Value = Value::Null,
        /// Whether files may be there already.
        replace: bool = false,
    });

    /// Return the extensions of requests and certificates: those of the pillar below `tls.extensions`, or usual ones.
    fn get_extensions(GetExtensions {
        /// `server`, `client` or another one of the pillar.
        cert_type: String,
    });

    /// Make a key and a request for a certificate of an authority.
    fn create_csr(CreateCsr {
        /// The authority's name.
        ca_name: String,
        /// How large the key is.
        bits: i64 = 2048,
        /// Whom it is for.
        CN: Option<String> = Some("localhost".into()),
        /// The country, in two letters.
        C: Option<String> = Some("US".into()),
        /// The state.
        ST: Option<String> = Some("Utah".into()),
        /// The place.
        L: Option<String> = Some("Salt Lake City".into()),
        /// The organization.
        O: Option<String> = Some("SaltStack".into()),
        /// Its unit.
        OU: Option<String> = None,
        /// Whom to write to.
        emailAddress: Option<String> = None,
        /// Its other names, such as `DNS:www.example.com`.
        subjectAltName: Value = Value::Null,
        /// The folder of authorities instead of `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The name of the authority's files; `NAME_ca_cert` where there is none.
        ca_filename: Option<String> = None,
        /// The folder of the files.
        csr_path: Option<String> = None,
        /// Their name; the CN where there is none.
        csr_filename: Option<String> = None,
        /// The digest that is signed.
        digest: String = "sha256".into(),
        /// Whether the type stands in the name of the files.
        type_ext: bool = false,
        /// Whose extensions it asks for: as of `tls.get_extensions`.
        cert_type: String = "server".into(),
        /// Whether files may be there already.
        replace: bool = false,
    });

    /// Make a key and a certificate that signs itself.
    fn create_self_signed_cert(CreateSelfSignedCert {
        /// The folder below `ca.cert_base_path`.
        tls_dir: String = "tls".into(),
        /// How large the key is.
        bits: i64 = 2048,
        /// For how many days it is valid.
        days: f64 = 365.0,
        /// Whom it is for.
        CN: Option<String> = Some("localhost".into()),
        /// The country, in two letters.
        C: Option<String> = Some("US".into()),
        /// The state.
        ST: Option<String> = Some("Utah".into()),
        /// The place.
        L: Option<String> = Some("Salt Lake City".into()),
        /// The organization.
        O: Option<String> = Some("SaltStack".into()),
        /// Its unit.
        OU: Option<String> = None,
        /// Whom to write to.
        emailAddress: Option<String> = None,
        /// The folder of authorities instead of `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The name of its files; the CN where there is none.
        cert_filename: Option<String> = None,
        /// The digest that is signed.
        digest: String = "sha256".into(),
        /// Whether files may be there already.
        replace: bool = false,
    });

    /// Sign a request with an authority.
    fn create_ca_signed_cert(CreateCaSignedCert {
        /// The authority's name.
        ca_name: String,
        /// Whom the certificate is for.
        CN: String,
        /// For how many days it is valid.
        days: f64 = 365.0,
        /// The folder of authorities instead of `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The name of the authority's files; `NAME_ca_cert` where there is none.
        ca_filename: Option<String> = None,
        /// The folder of the request and the certificate.
        cert_path: Option<String> = None,
        /// The name of the certificate's file; the CN where there is none.
        cert_filename: Option<String> = None,
        /// The digest that is signed.
        digest: String = "sha256".into(),
        /// The type of the request.
        cert_type: Option<String> = None,
        /// Whether the type stands in the name of the files.
        type_ext: bool = false,
        /// Whether files may be there already.
        replace: bool = false,
    });

    /// Put a certificate, its key and the authority's certificate into one PKCS#12 file.
    fn create_pkcs12(CreatePkcs12 {
        /// The authority's name.
        ca_name: String,
        /// Whom the certificate is for.
        CN: String,
        /// What it is encrypted with.
        passphrase: Option<String> = None,
        /// The folder of authorities instead of `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// Whether files may be there already.
        replace: bool = false,
    });

    /// Make a list of revoked certificates that is empty.
    fn create_empty_crl(CreateEmptyCrl {
        /// The authority's name.
        ca_name: String,
        /// The folder of authorities instead of `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The name of the authority's files; `NAME_ca_cert` where there is none.
        ca_filename: Option<String> = None,
        /// The file of the list; `crl.pem` in the authority's folder where there is none.
        crl_file: Option<String> = None,
        /// The digest that is signed.
        digest: String = "sha256".into(),
    });

    /// Revoke a certificate, and write the list of revoked ones.
    fn revoke_cert(RevokeCert {
        /// The authority's name.
        ca_name: String,
        /// Whom the certificate is for.
        CN: String,
        /// The folder of authorities instead of `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The name of the authority's files; `NAME_ca_cert` where there is none.
        ca_filename: Option<String> = None,
        /// The folder of the certificate.
        cert_path: Option<String> = None,
        /// The name of its file; the CN where there is none.
        cert_filename: Option<String> = None,
        /// The file of the list; `crl.pem` in the authority's folder where there is none.
        crl_file: Option<String> = None,
        /// The digest that is signed.
        digest: String = "sha256".into(),
    });
}

/// The moment that `YYYYMMDDhhmmssZ` says, in seconds since 1970.
///
/// # Errors
/// When it is none.
pub(crate) fn seconds(stamp: &str) -> Result<i64, Error> {
    let wrong = || Error::refused(format!("{stamp} is no moment"));
    let civil = DateTime::strptime("%Y%m%d%H%M%SZ", stamp).map_err(|_| wrong())?;
    let zoned = civil.to_zoned(TimeZone::UTC).map_err(|_| wrong())?;
    Ok(zoned.timestamp().as_second())
}

/// A certificate by a file's name or its text.
///
/// # Errors
/// When it is none, or the file cannot be read.
pub(crate) fn read(cert: &str) -> Result<Parts, Error> {
    match cert.contains("-----BEGIN") {
        true => Parts::of(&cert.into()),
        false => Parts::of(&Value::Bytes(pem::file(Path::new(cert))?.into())),
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
        .with("fingerprint", told::colons(&print))
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
    let authority = Authority::of(cx, &args.ca_name, None, None)?;
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
