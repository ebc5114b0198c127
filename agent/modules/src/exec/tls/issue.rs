//! Creates requests, self-signed certificates, and certificates that an authority signs.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log, secret};

use super::authority::{exists, fix, issued, path_or_text};
use super::folder::{Authority, file_name, hidden, is, made, public, serial, subject};
use super::{
    CreateCaSignedCert, CreateCsr, CreatePkcs12, CreateSelfSignedCert, GetCaSignedCert,
    GetCaSignedKey, GetExtensions, index, read,
};
use crate::exec::x509::format::containers::{self, Encoding, Pkcs12};
use crate::exec::x509::format::extensions::EXTENSIONS;
use crate::exec::x509::format::issue::{Asking, Draft, check_digest};
use crate::exec::x509::format::keys::{self, Private};
use crate::exec::x509::format::names::Name;
use crate::exec::x509::format::parts::Request;

pub(super) fn get_ca_signed_cert(cx: &Exec, args: GetCaSignedCert) -> Result<Value, Error> {
    let authority = Authority::new(cx, &args.ca_name, args.cacert_path.as_deref(), None)?;
    let name = file_name(args.cert_filename, &args.CN)?;
    let path = format!("{}/{name}.crt", authority.certificates());
    path_or_text(path, args.as_text, missing(&args.CN))
}

pub(super) fn get_ca_signed_key(cx: &Exec, args: GetCaSignedKey) -> Result<Value, Error> {
    let authority = Authority::new(cx, &args.ca_name, args.cacert_path.as_deref(), None)?;
    let name = file_name(args.key_filename, &args.CN)?;
    let path = format!("{}/{name}.key", authority.certificates());
    let told = path_or_text(path, args.as_text, missing(&args.CN))?;
    if args.as_text {
        secret::keep(&[], &told);
    }
    Ok(told)
}

fn missing(name: &str) -> String {
    format!("Certificate does not exists for {name}")
}

/// Returns the default extensions of a type, which apply if the pillar does not define the type,
/// for requests and certificates.
fn usual(kind: &str) -> Map {
    let of = |csr: &[(&str, &str)], cert: &[(&str, &str)]| {
        let map = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<Map>();
        Map::new().with("csr", map(csr)).with("cert", map(cert))
    };
    let purpose = |purpose, usage| of(&[("extendedKeyUsage", purpose), ("keyUsage", usage)], &[]);
    match kind {
        "common" => of(
            &[("basicConstraints", "CA:FALSE")],
            &[
                ("authorityKeyIdentifier", "keyid,issuer:always"),
                ("subjectKeyIdentifier", "hash"),
            ],
        ),
        "server" => purpose("serverAuth", "digitalSignature, keyEncipherment"),
        "client" => purpose(
            "clientAuth",
            "nonRepudiation, digitalSignature, keyEncipherment",
        ),
        _ => Map::new(),
    }
}

/// Returns the extensions of a type, merged over those that all types have in common.
fn extensions(cx: &Exec, kind: &str) -> Result<Map, Error> {
    let pillar = cx.pillar()?;
    let of = |kind: &str| {
        let own = pillar.get("tls.extensions").and_then(|all| all.get(kind));
        let own = own.filter(|own| own.is_true()).and_then(Value::as_map);
        own.cloned().unwrap_or_else(|| usual(kind))
    };
    if kind.is_empty() {
        log::error("cert_type set to empty in tls_ca.get_extensions(); defaulting to ``server``");
    }
    let kind = if kind.is_empty() { "server" } else { kind };
    let own = of(kind);
    if own.is_empty() {
        return Err(Error::refused(format!(
            "Unknown cert_type {kind}: use server or client, or define it in the pillar under tls.extensions"
        )));
    }
    let over = |(used, values): (&Value, &Value)| {
        let mut values = values.as_map().cloned().unwrap_or_default();
        if let Some(Value::Map(own)) = own.get(&used.to_text()) {
            values.update(own.clone());
        }
        (used.clone(), Value::Map(values))
    };
    Ok(of("common").iter().map(over).collect())
}

/// Returns the extensions of a type for requests or certificates. Unknown extensions are left out.
fn extensions_for(cx: &Exec, kind: &str, used: &str) -> Result<Map, Error> {
    let all = extensions(cx, kind)?;
    let all = all.get(used).and_then(Value::as_map).cloned();
    let all = all.unwrap_or_default();
    let is_known = |name: &Value| {
        EXTENSIONS
            .iter()
            .any(|(known, ..)| name.as_str() == Some(known))
    };
    if let Some(name) = all.keys().find(|name| !is_known(name)) {
        return Err(Error::refused(format!(
            "The extension {} of cert_type {kind} is not supported",
            name.to_text()
        )));
    }
    Ok(all)
}

pub(super) fn get_extensions(cx: &Exec, args: GetExtensions) -> Result<Value, Error> {
    extensions(cx, &args.cert_type).map(Value::from)
}

pub(super) fn create_csr(cx: &Exec, args: CreateCsr) -> Result<Value, Error> {
    let (name, base) = (&args.ca_name, args.cacert_path.as_deref());
    if !exists(cx, name, base, args.ca_filename.clone())? {
        return Ok(format!(
            "Certificate for CA named \"{name}\" does not exist, please create it first."
        )
        .into());
    }
    let authority = Authority::new(cx, name, base, args.ca_filename)?;
    let folder = args.csr_path.filter(|path| !path.is_empty());
    let folder = folder.unwrap_or_else(|| authority.certificates() + "/");
    made(cx, &folder)?;
    let CN = args.CN.unwrap_or_default();
    let behind = if args.type_ext {
        format!("_{}", args.cert_type)
    } else {
        String::new()
    };
    let file = file_name(args.csr_filename, &format!("{CN}{behind}"))?;
    let path = format!("{folder}/{file}.csr");
    if !args.replace && is(&path) {
        return Ok(format!("Certificate Request \"{path}\" already exists").into());
    }
    check_digest(&args.digest)?;
    let parts = [
        Some(CN.clone()),
        args.C,
        args.ST,
        args.L,
        args.O,
        args.OU,
        args.emailAddress,
    ];
    let key = keys::generate_rsa(cx, args.bits)?;
    let mut all = extensions_for(cx, &args.cert_type, "csr")?
        .with("private_key", key.as_str())
        .with("subject", subject(parts)?)
        .with("digest", args.digest);
    if args.subjectAltName.is_true() {
        all.insert("subjectAltName", args.subjectAltName);
    }
    let der = Asking::from_arguments(cx, &all)?.signed(cx)?;
    hidden(cx, &format!("{folder}/{file}.key"), key.as_bytes())?;
    public(cx, &path, "CERTIFICATE REQUEST", &der)?;
    let shown = python::path::join(&folder, &file);
    Ok(
        format!("Created Private Key: \"{shown}.key\" Created CSR for \"{CN}\": \"{shown}.csr\"")
            .into(),
    )
}

pub(super) fn create_self_signed_cert(
    cx: &Exec,
    args: CreateSelfSignedCert,
) -> Result<Value, Error> {
    let place = Authority::new(cx, &args.tls_dir, args.cacert_path.as_deref(), None)?;
    let folder = place.certificates();
    let name = file_name(args.cert_filename, args.CN.as_deref().unwrap_or_default())?;
    let (key_path, path) = (
        format!("{folder}/{name}.key"),
        format!("{folder}/{name}.crt"),
    );
    if !args.replace && is(&path) {
        return Ok(format!("Certificate \"{name}\" already exists").into());
    }
    check_digest(&args.digest)?;
    let parts = [
        args.CN,
        args.C,
        args.ST,
        args.L,
        args.O,
        args.OU,
        args.emailAddress,
    ];
    let parts = subject(parts)?;
    let key = keys::generate_rsa(cx, args.bits)?;
    let all = Map::new()
        .with("signing_private_key", key.as_str())
        .with("subject", parts)
        .with("serial_number", serial()?)
        .with("days_valid", args.days.trunc())
        .with("digest", args.digest);
    let der = Draft::from_arguments(cx, &all, false)?.signed(cx)?;
    made(cx, &folder)?;
    hidden(cx, &key_path, key.as_bytes())?;
    public(cx, &path, "CERTIFICATE", &der)?;
    index::add(cx, &place.folder, &issued(&der)?)?;
    Ok(format!("Created Private Key: \"{key_path}\" Created Certificate: \"{path}\"").into())
}

/// Returns Salt's answer for something that does not exist.
fn not_found(comment: String) -> Value {
    Map::new()
        .with("retcode", 1)
        .with("comment", comment)
        .into()
}

pub(super) fn create_ca_signed_cert(cx: &Exec, args: CreateCaSignedCert) -> Result<Value, Error> {
    let (name, base) = (&args.ca_name, args.cacert_path.as_deref());
    let authority = Authority::new(cx, name, base, args.ca_filename)?;
    let folder = args.cert_path.filter(|path| !path.is_empty());
    let folder = folder.unwrap_or_else(|| authority.certificates());
    let kind = args.cert_type.filter(|kind| !kind.is_empty());
    let asked = match (&kind, args.type_ext) {
        (None, true) => {
            log::error("type_ext = True but cert_type is unset. Certificate not written.");
            return Ok(Map::new().into());
        }
        (Some(kind), true) => format!("{}_{kind}", args.CN),
        (_, false) => args.CN.clone(),
    };
    let asked = file_name(None, &asked)?;
    let file = file_name(args.cert_filename, &asked)?;
    if !args.replace && is(&format!("{}/{file}.crt", authority.certificates())) {
        return Ok(format!("Certificate \"{file}\" already exists").into());
    }
    if !authority.is_whole() {
        return Ok(not_found(format!("There is no CA named \"{name}\"")));
    }
    fix(cx, name, &authority)?;
    let request = format!("{folder}/{asked}.csr");
    if !is(&request) {
        return Ok(not_found(format!(
            "There is no CSR that matches the CN \"{file}\""
        )));
    }
    let subject = Name::read(&Request::load(&request.as_str().into())?.subject);
    // Salt names these extensions but does not write them. Without them, OpenSSL's strict checks
    // reject the certificate.
    let all = extensions_for(cx, kind.as_deref().unwrap_or("server"), "cert")?
        .with("signing_private_key", authority.key())
        .with("signing_cert", authority.certificate())
        .with("csr", request)
        .with("subject", subject.unwrap_or_default().to_rfc4514())
        .with("serial_number", serial()?)
        .with("days_valid", args.days.trunc())
        .with("digest", args.digest);
    let der = Draft::from_arguments(cx, &all, false)?.signed(cx)?;
    let path = format!("{folder}/{file}.crt");
    public(cx, &path, "CERTIFICATE", &der)?;
    index::add(cx, &authority.folder, &issued(&der)?)?;
    Ok(format!("Created Certificate for \"{}\": \"{path}\"", args.CN).into())
}

pub(super) fn create_pkcs12(cx: &Exec, args: CreatePkcs12) -> Result<Value, Error> {
    let (name, CN) = (&args.ca_name, &args.CN);
    let authority = Authority::new(cx, name, args.cacert_path.as_deref(), None)?;
    let stem = format!("{}/{}", authority.certificates(), file_name(None, CN)?);
    let path = format!("{stem}.p12");
    if !args.replace && is(&path) {
        return Ok(format!("Certificate \"{CN}\" already exists").into());
    }
    if !is(&authority.certificate()) {
        return Ok(format!("There is no CA named \"{name}\"").into());
    }
    let (certificate, key) = (format!("{stem}.crt"), format!("{stem}.key"));
    if !is(&certificate) || !is(&key) {
        return Ok(format!("There is no certificate that matches the CN \"{CN}\"").into());
    }
    let container = Pkcs12 {
        passphrase: Some(args.passphrase).filter(|passphrase| !passphrase.is_empty()),
        is_older: false,
        friendlyname: Some(CN.clone()),
    };
    let key = Private::load(cx, &key.into(), None)?;
    let (own, chain) = (read(&certificate)?, [read(&authority.certificate())?]);
    let bytes = containers::encoded(cx, Encoding::Pkcs12, (&own, &chain), Some(&key), &container)?;
    hidden(cx, &path, &bytes)?;
    Ok(format!("Created PKCS#12 Certificate for \"{CN}\": \"{path}\"").into())
}
