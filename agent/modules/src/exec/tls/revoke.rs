//! Writes certificate revocation lists.

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::folder::{Authority, file_name, is, written};
use super::{CreateEmptyCrl, RevokeCert, index, read};
use crate::exec::x509::format::issue::check_digest;
use crate::exec::x509::format::{crl, pem};

/// The validity of a revocation list in days. It practically never expires, because each revocation
/// writes a new list.
const DAYS: i64 = 36500;

/// Returns the path of the revocation list.
fn place(authority: &Authority, named: Option<String>) -> String {
    let named = named.filter(|path| !path.is_empty());
    named.unwrap_or_else(|| format!("{}/crl.pem", authority.folder))
}

/// Writes the revocation list.
fn write(
    cx: &Exec,
    authority: &Authority,
    path: &str,
    revoked: Value,
    digest: &str,
) -> Result<(), Error> {
    let all = Map::new()
        .with("signing_private_key", authority.key())
        .with("signing_cert", authority.certificate())
        .with("revoked", revoked)
        .with("days_valid", DAYS);
    let der = crl::Draft::from_arguments(cx, &all)?.signed(cx, digest)?;
    written(cx, path, pem::text("X509 CRL", &der).as_bytes(), None)
}

fn no_authority(name: &str) -> Value {
    format!("There is no CA named \"{name}\"").into()
}

pub(super) fn create_empty_crl(cx: &Exec, args: CreateEmptyCrl) -> Result<Value, Error> {
    let (name, base) = (&args.ca_name, args.cacert_path.as_deref());
    let authority = Authority::new(cx, name, base, args.ca_filename)?;
    let path = place(&authority, args.crl_file);
    if is(&path) {
        return Ok(format!("CRL \"{path}\" already exists").into());
    }
    if !authority.is_whole() {
        return Ok(no_authority(name));
    }
    check_digest(&args.digest)?;
    write(cx, &authority, &path, Value::list([]), &args.digest)?;
    Ok(format!("Created an empty CRL: \"{path}\"").into())
}

pub(super) fn revoke_cert(cx: &Exec, args: RevokeCert) -> Result<Value, Error> {
    let (name, base) = (&args.ca_name, args.cacert_path.as_deref());
    let authority = Authority::new(cx, name, base, args.ca_filename)?;
    let folder = args.cert_path.unwrap_or_else(|| authority.certificates());
    let file = file_name(args.cert_filename, &args.CN)?;
    if !authority.is_whole() {
        return Ok(no_authority(name));
    }
    let path = format!("{folder}/{file}.crt");
    let Ok(certificate) = read(&path) else {
        return Ok(format!("There is no client certificate named \"{}\"", args.CN).into());
    };
    let serial = index::digits(&certificate.serial);
    if index::is_revoked(&authority.folder, &certificate.serial)? {
        return Ok(format!("\"{path}\" was already revoked, serial number: {serial}").into());
    }
    let list = place(&authority, args.crl_file);
    if Path::new(&list).is_dir() {
        let comment = format!("crl_file \"{list}\" is an existing directory");
        return Ok(Map::new()
            .with("retcode", 1)
            .with("comment", comment)
            .into());
    }
    check_digest(&args.digest)?;
    index::revoke(cx, &authority.folder, &certificate)?;
    let revoked = index::revoked(&authority.folder)?;
    write(cx, &authority, &list, revoked, &args.digest)?;
    Ok(format!("Revoked Certificate: \"{path}\", serial number: {serial}").into())
}
