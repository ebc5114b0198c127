//! Creates certificate authorities.

use std::path::Path;

use jiff::Timestamp;
use machine::fs;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::folder::{Authority, hidden, is, made, public, serial, subject};
use super::{CaExists, CreateCa, GetCa, MaybeFixSslVersion, index, read, seconds};
use crate::exec::x509::format::issue::{Draft, check_digest};
use crate::exec::x509::format::keys::{self, Private, Refusal};
use crate::exec::x509::format::parts::Parts;

const DAY_S: i64 = 24 * 60 * 60;

/// The invalid version that Salt once wrote to certificates, counted from 1. Only versions 1 to 3
/// exist.
const NO_VERSION: i64 = 4;

pub(super) fn ca_exists(cx: &Exec, args: CaExists) -> Result<Value, Error> {
    exists(
        cx,
        &args.ca_name,
        args.cacert_path.as_deref(),
        args.ca_filename,
    )
    .map(Value::from)
}

/// Returns whether an authority exists. A certificate with an invalid version is fixed.
pub(super) fn exists(
    cx: &Exec,
    name: &str,
    base: Option<&str>,
    file: Option<String>,
) -> Result<bool, Error> {
    let authority = Authority::new(cx, name, base, file)?;
    if !is(&authority.certificate()) {
        return Ok(false);
    }
    fix(cx, name, &authority)?;
    Ok(true)
}

pub(super) fn maybe_fix_ssl_version(cx: &Exec, args: MaybeFixSslVersion) -> Result<Value, Error> {
    let base = args.cacert_path.as_deref();
    let authority = Authority::new(cx, &args.ca_name, base, args.ca_filename)?;
    fix(cx, &args.ca_name, &authority)?;
    Ok(Value::Null)
}

/// Replaces a certificate that has an invalid version.
pub(super) fn fix(cx: &Exec, name: &str, authority: &Authority) -> Result<(), Error> {
    let old = read(&authority.certificate())?;
    if old.version != NO_VERSION {
        return Ok(());
    }
    let (_, bits) = keys::kind(&old.key).unwrap_or((keys::Kind::Rsa, None));
    let days = (seconds(&old.not_after)? - Timestamp::now().as_second()).div_euclid(DAY_S);
    let names = old.subject_name().map();
    let part = |name: &str| names.get(name).map(Value::to_text);
    let args = CreateCa {
        ca_name: name.to_owned(),
        bits: bits.unwrap_or(2048),
        days: days as f64,
        CN: part("CN"),
        C: part("C"),
        ST: part("ST"),
        L: part("L"),
        O: part("O"),
        OU: part("OU"),
        emailAddress: part("MAIL"),
        fixmode: true,
        cacert_path: None,
        ca_filename: Some(authority.file.clone()),
        digest: "sha256".into(),
        onlyif: Value::Null,
        unless: Value::Null,
        replace: false,
    };
    create_ca(cx, args).map(drop)
}

pub(super) fn get_ca(cx: &Exec, args: GetCa) -> Result<Value, Error> {
    let authority = Authority::new(cx, &args.ca_name, args.cacert_path.as_deref(), None)?;
    let missing = format!("Certificate does not exist for {}", args.ca_name);
    path_or_text(authority.certificate(), args.as_text, missing)
}

/// Returns the path or the text of a file.
///
/// # Errors
/// The error `missing` if the file does not exist.
pub(super) fn path_or_text(path: String, as_text: bool, missing: String) -> Result<Value, Error> {
    match (is(&path), as_text) {
        (false, _) => Err(Error::refused(missing)),
        (true, false) => Ok(path.into()),
        (true, true) => {
            let text = fs::text(&path)?;
            Ok(text.into())
        }
    }
}

/// Returns whether a condition holds: whether a command succeeds, or whether another value is true.
fn holds(cx: &Exec, condition: &Value) -> Result<bool, Error> {
    match condition {
        Value::Str(_) => {
            let code = cx.call_internal("cmd.retcode", vec![condition.clone()], Map::new())?;
            Ok(code.as_int() == Some(0))
        }
        other => Ok(other.is_true()),
    }
}

pub(super) fn create_ca(cx: &Exec, args: CreateCa) -> Result<Value, Error> {
    let is_off = |condition: &Value, off: bool| -> Result<bool, Error> {
        Ok(!condition.is_null() && holds(cx, condition)? == off)
    };
    if is_off(&args.onlyif, false)? || is_off(&args.unless, true)? {
        return Ok(Value::Null);
    }
    let (name, base) = (&args.ca_name, args.cacert_path.as_deref());
    let authority = Authority::new(cx, name, base, args.ca_filename.clone())?;
    let (path, key_path) = (authority.certificate(), authority.key());
    if !args.replace && !args.fixmode && exists(cx, name, base, args.ca_filename)? {
        return Ok(format!("Certificate for CA named \"{name}\" already exists").into());
    }
    if args.fixmode && !is(&path) {
        return Err(Error::refused(format!("{path} does not exists, can't fix")));
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
    let all = Map::new()
        .with("signing_private_key", key_path.as_str())
        .with("subject", subject(parts)?)
        .with("serial_number", serial()?)
        .with("days_valid", args.days.trunc())
        .with("digest", args.digest)
        .with("basicConstraints", "critical, CA:TRUE, pathlen:0")
        .with("keyUsage", "critical, keyCertSign, cRLSign")
        .with("subjectKeyIdentifier", "hash")
        .with("authorityKeyIdentifier", "keyid:always");
    made(cx, &authority.folder)?;
    key_is_there(cx, &key_path, args.bits)?;
    let der = Draft::from_arguments(cx, &all, false)?.signed(cx)?;
    public(cx, &path, "CERTIFICATE", &der)?;
    index::add(cx, &authority.folder, &issued(&der)?)?;
    Ok(format!("Created Private Key: \"{key_path}\" Created CA \"{name}\": \"{path}\"").into())
}

/// Parses a certificate that was just signed.
pub(super) fn issued(der: &[u8]) -> Result<Parts, Error> {
    Parts::read(der).ok_or_else(|| "openssl returned no certificate".into())
}

/// Creates a key if it does not exist. An existing file that contains no key is renamed.
fn key_is_there(cx: &Exec, path: &str, bits: i64) -> Result<(), Error> {
    if is(path) {
        match Private::load_or_refusal(cx, &path.into(), None) {
            Ok(_) => return Ok(()),
            Err(Refusal::NoKey) => {}
            Err(other) => return Err(other.into()),
        }
        let now = Timestamp::now().strftime("%Y%m%d%H%M%S");
        let aside = format!("{path}.unloadable.{now}");
        log::warning(format_args!(
            "Error loading existing private key {path}, generating a new key; the existing file is renamed to {aside}"
        ));
        fs::rename(cx, Path::new(path), Path::new(&aside)).map_err(Error::io(path))?;
    }
    hidden(cx, path, keys::generate_rsa(cx, bits)?.as_bytes())
}
