//! Reads and verifies certificates, requests and revocation lists.

use std::path::Path;

use machine::hashes;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{
    Expired, Expires, GetPemEntries, GetPemEntry, ReadCertificate, ReadCertificates, ReadCrl,
    ReadCsr, VerifyCrl, VerifyPrivateKey, VerifySignature, WillExpire, is_over,
};
use crate::exec::file::paths::globbed;
use crate::exec::x509::format::keys::{self, Private};
use crate::exec::x509::format::names::Name;
use crate::exec::x509::format::parts::{Parts, Request};
use crate::exec::x509::format::read::{self, colons};
use crate::exec::x509::format::{crl, pem};

pub(super) fn expires(_: &Exec, args: Expires) -> Result<Value, Error> {
    Ok(is_over(&Parts::load(&args.certificate.into())?, args.days)?.into())
}

/// Returns the path and the common name of a certificate.
fn about(certificate: &str, parts: &Parts) -> Map {
    let mut all = Map::new();
    if Path::new(certificate).is_file() {
        all.insert("path", certificate);
    }
    if let Some(name) = parts.subject_name().map().remove("CN") {
        all.insert("cn", name);
    }
    all
}

pub(super) fn expired(_: &Exec, args: Expired) -> Result<Value, Error> {
    let parts = Parts::load(&args.certificate.as_str().into())?;
    Ok(about(&args.certificate, &parts)
        .with("expired", is_over(&parts, 0.0)?)
        .into())
}

pub(super) fn will_expire(_: &Exec, args: WillExpire) -> Result<Value, Error> {
    let parts = Parts::load(&args.certificate.as_str().into())?;
    let mut all = Map::new().with("check_days", args.days as i64);
    all.update(about(&args.certificate, &parts));
    Ok(all.with("will_expire", is_over(&parts, args.days)?).into())
}

pub(super) fn get_pem_entry(_: &Exec, args: GetPemEntry) -> Result<Value, Error> {
    Ok(pem::entry(&args.text.into(), args.pem_type.as_deref())?.into())
}

/// Returns the contents of the files that a pattern matches. Files that cannot be parsed are left
/// out.
fn matched(pattern: &str, read: impl Fn(&str) -> Result<Value, Error>) -> Result<Value, Error> {
    let all = globbed(pattern)
        .into_iter()
        .filter(|path| Path::new(path).is_file());
    let told = all.filter_map(|path| Some((path.clone(), read(&path).ok()?)));
    Ok(told.collect::<Map>().into())
}

pub(super) fn get_pem_entries(_: &Exec, args: GetPemEntries) -> Result<Value, Error> {
    matched(&args.glob_path, |path| {
        Ok(pem::entry(&path.into(), None)?.into())
    })
}

pub(super) fn read_certificates(_: &Exec, args: ReadCertificates) -> Result<Value, Error> {
    matched(&args.glob_path, certificate)
}

/// Returns the hash by which OpenSSL identifies a name: the first bytes of its SHA-1 hash in
/// reverse order.
fn name_hash(name: &[u8]) -> Result<String, Error> {
    let hash = pem::unhexed(&hashes::of_bytes(name, "sha1")?).unwrap_or_default();
    let first: Vec<u8> = hash.iter().take(4).rev().copied().collect();
    Ok(colons(&first))
}

pub(super) fn read_certificate(_: &Exec, args: ReadCertificate) -> Result<Value, Error> {
    certificate(&args.certificate)
}

fn certificate(given: &str) -> Result<Value, Error> {
    let parts = Parts::load(&given.into())?;
    let (kind, size) = keys::kind(&parts.key)?;
    let print = |kind: &str| -> Result<String, Error> {
        Ok(colons(
            &pem::unhexed(&hashes::of_bytes(&parts.der, kind)?).unwrap_or_default(),
        ))
    };
    let prints = Map::new()
        .with("sha1", print("sha1")?)
        .with("sha256", print("sha256")?)
        .with("md5", print("md5")?);
    let (subject, issuer) = (parts.subject_name(), parts.issuer_name());
    Ok(Map::new()
        .with("version", parts.version)
        .with("key_size", size)
        .with("key_type", kind.name())
        .with("serial_number", read::number(&parts.serial))
        .with("fingerprints", prints)
        .with("subject", subject.map())
        .with("subject_hash", name_hash(&parts.subject)?)
        .with("subject_str", subject.to_rfc4514())
        .with("issuer", issuer.map())
        .with("issuer_hash", name_hash(&parts.issuer)?)
        .with("issuer_str", issuer.to_rfc4514())
        .with("not_before", read::moment(&parts.not_before))
        .with("not_after", read::moment(&parts.not_after))
        .with("public_key", pem::text("PUBLIC KEY", &parts.key))
        .with("extensions", read::all(&parts.extensions))
        .with("signature_algorithm", read::algorithm(&parts.algorithm))
        .into())
}

pub(super) fn read_crl(_: &Exec, args: ReadCrl) -> Result<Value, Error> {
    Ok(crl::List::load(&args.crl.into())?.to_map().into())
}

pub(super) fn read_csr(_: &Exec, args: ReadCsr) -> Result<Value, Error> {
    let request = Request::load(&args.csr.into())?;
    let (kind, size) = keys::kind(&request.key)?;
    let subject = Name::read(&request.subject).unwrap_or_default();
    Ok(Map::new()
        .with("key_size", size)
        .with("key_type", kind.name())
        .with("subject", subject.map())
        .with("subject_hash", name_hash(&request.subject)?)
        .with("subject_str", subject.to_rfc4514())
        .with("public_key_hash", colons(&keys::identifier(&request.key)?))
        .with("extensions", read::all(&request.extensions))
        .into())
}

pub(super) fn verify_crl(cx: &Exec, args: VerifyCrl) -> Result<Value, Error> {
    let key = keys::public(cx, &args.cert.into(), None)?;
    Ok(crl::List::load(&args.crl.into())?
        .is_signed_by(cx, &key)?
        .into())
}

pub(super) fn verify_private_key(cx: &Exec, args: VerifyPrivateKey) -> Result<Value, Error> {
    let private = Private::load(cx, &args.private_key.into(), args.passphrase.as_deref())?;
    Ok((keys::public(cx, &args.public_key.into(), None)? == private.key).into())
}

pub(super) fn verify_signature(cx: &Exec, args: VerifySignature) -> Result<Value, Error> {
    let parts = Parts::load(&args.certificate.into())?;
    let key = match args.signing_pub_key {
        Some(key) => keys::public(cx, &key.into(), args.signing_pub_key_passphrase.as_deref())?,
        None => parts.key.clone(),
    };
    let digest = crate::exec::x509::format::issue::digest_of(&parts.algorithm).unwrap_or("sha256");
    Ok(keys::verify(cx, &key, &parts.signed, &parts.signature, digest)?.into())
}
