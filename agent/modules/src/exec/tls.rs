//! The `tls` execution module: what certificates say, and whether they are valid.

use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::x509::new_key;
use crate::fs::{self, Owner};
use crate::hashes;
use crate::process::Process;
use crate::x509::containers::Encoding;
use crate::x509::issue::Draft;
use crate::x509::parts::Parts;
use crate::x509::shown::{Certificate, decimal};
use crate::x509::{keys, pem, told};

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

    /// Make a key and a certificate that signs itself. Keywords are the names of its subject: CN, C, ST, L, O, OU and emailAddress.
    fn create_self_signed_cert(CreateSelfSignedCert {
        /// The folder below `ca.cert_base_path`.
        tls_dir: String = "tls".into(),
        /// How large the key is.
        bits: i64 = 2048,
        /// For how many days it is valid.
        days: f64 = 365.0,
        /// The folder instead of `ca.cert_base_path`.
        cacert_path: Option<String> = None,
        /// The name of its files; the CN where there is none.
        cert_filename: Option<String> = None,
        /// The digest that is signed.
        digest: String = "sha256".into(),
        /// Whether files may be there already.
        replace: bool = false,
        ..kwargs
    });
}

/// The subject of a certificate that signs itself where nothing else is said.
const SUBJECT: [(&str, &str); 5] = [
    ("CN", "localhost"),
    ("C", "US"),
    ("ST", "Utah"),
    ("L", "Salt Lake City"),
    ("O", "SaltStack"),
];

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

/// The folder of authorities.
fn base(cx: &Exec, given: Option<String>) -> String {
    let option = || cx.opts().text("ca.cert_base_path").map(str::to_owned);
    given
        .filter(|path| !path.is_empty())
        .or_else(option)
        .unwrap_or_else(|| "/etc/pki".to_owned())
}

fn validate(cx: &Exec, args: Validate) -> Result<Value, Error> {
    let certificate = keys::temporary(pem::text("CERTIFICATE", &read(&args.cert)?.der).as_bytes())?;
    let place = certificate.path().display().to_string();
    let (base, name) = (base(cx, None), &args.ca_name);
    let authority = format!("{base}/{name}/{name}_ca_cert.crt");
    let mut words = vec!["openssl", "verify", "-CAfile", &authority];
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
        false => Map::new().with("valid", false).with("error", why).into(),
    })
}

fn create_self_signed_cert(cx: &Exec, args: CreateSelfSignedCert) -> Result<Value, Error> {
    let base = base(cx, args.cacert_path);
    let folder = format!("{base}/{}/certs", args.tls_dir);
    let given = |name: &str| {
        args.kwargs
            .get(name)
            .filter(|value| value.is_true())
            .map(Value::to_text)
    };
    let name = args.cert_filename.or_else(|| given("CN"));
    let name = name.unwrap_or_else(|| "localhost".to_owned());
    if name.contains('/') {
        return Err(Error::refused(format!("{name:?} is no name of a file")));
    }
    let (key_path, path) = (
        format!("{folder}/{name}.key"),
        format!("{folder}/{name}.crt"),
    );
    if !args.replace && Path::new(&path).exists() {
        return Ok(format!("Certificate \"{name}\" already exists").into());
    }
    let key = new_key(cx, "rsa", Some(args.bits), None, (Encoding::Pem, false))?;
    let mut subject = Map::new()
        .with("OU", given("OU"))
        .with("MAIL", given("emailAddress"));
    for (name, default) in SUBJECT {
        subject.insert(name, given(name).unwrap_or_else(|| default.to_owned()));
    }
    let all = Map::new()
        .with(
            "signing_private_key",
            String::from_utf8_lossy(&key).into_owned(),
        )
        .with("subject", subject)
        .with("days_valid", args.days)
        .with("digest", args.digest);
    let der = Draft::of(cx, &all, false)?.signed(cx)?;
    cx.call(
        "file.makedirs",
        vec![format!("{folder}/").into()],
        Map::new(),
    )?;
    let owner = |mode: u32| Owner {
        mode: Some(mode),
        ..Owner::default()
    };
    fs::write(cx, Path::new(&key_path), &key, owner(0o600))?;
    let text = pem::text("CERTIFICATE", &der);
    fs::write(cx, Path::new(&path), text.as_bytes(), owner(0o644))?;
    Ok(format!("Created Private Key: \"{key_path}\" Created Certificate: \"{path}\"").into())
}
