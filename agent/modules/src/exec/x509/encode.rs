//! Converts certificates, keys, requests and revocation lists to other encodings, and writes or
//! returns them.

use state::exec::Exec;
use state::module::Error;
use value::python::hex;
use value::{Map, Value};

use super::{
    EncodeCertificate, EncodeCrl, EncodeCsr, EncodePrivateKey, appended, as_written, place,
};
use crate::exec::x509::format::containers::{
    self, Encoding, OF_CERTIFICATES, OF_KEYS, OF_REQUESTS, Pkcs12,
};
use crate::exec::x509::format::crl;
use crate::exec::x509::format::keys::Private;
use crate::exec::x509::format::parts::{Parts, Request};
use crate::exec::x509::format::pem;

/// The encoding of a result, and whether it is written to a file or returned.
pub(super) struct Delivery<'a> {
    pub(super) encoding: Encoding,
    pub(super) path: Option<&'a str>,
    pub(super) is_raw: bool,
}

impl Delivery<'_> {
    /// Writes the result to the file, or returns it. Salt's answer contains `what` as the kind of
    /// the result.
    pub(super) fn done(&self, cx: &Exec, bytes: Vec<u8>, what: &str) -> Result<Value, Error> {
        if let Some(path) = self.path.filter(|path| !path.is_empty()) {
            place(cx, path, &bytes)?;
            let what = match self.encoding {
                Encoding::Pem => "PEM",
                _ => what,
            };
            return Ok(format!("{what} written to {path}").into());
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) if self.encoding.is_text() && !self.is_raw => text.into(),
            Ok(text) => binary(text.as_bytes(), self.is_raw),
            Err(bytes) => binary(bytes.as_bytes(), self.is_raw),
        })
    }
}

/// Stores a copy of a certificate as PEM in the folder `copypath` of the settings, if it is set.
/// The name of the file is the serial number, after the common name if `prepend_cn` is true. The
/// common name may come from the request of another machine, so a name with a `/` is an error; Salt
/// would write to any such path.
pub(super) fn keep_copy(cx: &Exec, certificate: &Parts, settings: &Map) -> Result<(), Error> {
    let Some(folder) = settings.get("copypath").filter(|folder| folder.is_true()) else {
        return Ok(());
    };
    let prepend_cn = settings.get("prepend_cn").is_some_and(Value::is_true);
    let names = certificate.subject_name().map();
    let name = names.get("CN").filter(|_| prepend_cn).map(Value::to_text);
    if let Some(name) = name.as_deref().filter(|name| name.contains(['/', '\0'])) {
        return Err(format!(
            "The common name {name} cannot be part of a file name: leave out prepend_cn"
        )
        .into());
    }
    let before = name.map(|name| format!("{name}-")).unwrap_or_default();
    let serial = hex(&certificate.serial);
    let file = format!("{before}{}.crt", serial.trim_start_matches('0'));
    let path = python::path::join(&folder.to_text(), &file);
    place(
        cx,
        &path,
        pem::text("CERTIFICATE", &certificate.der).as_bytes(),
    )
}

fn binary(bytes: &[u8], is_raw: bool) -> Value {
    match is_raw {
        true => Value::Bytes(bytes.into()),
        false => python::base64::encode(bytes).into(),
    }
}

pub(super) fn encode_certificate(cx: &Exec, args: EncodeCertificate) -> Result<Value, Error> {
    let encoding = Encoding::parse(&args.encoding, OF_CERTIFICATES)?;
    let key = match (encoding, args.private_key.is_true()) {
        (Encoding::Pkcs12, true) => {
            let passphrase = args.private_key_passphrase.as_deref();
            Some(Private::load(cx, &args.private_key, passphrase)?)
        }
        (_, true) => {
            return Err("Embedding private keys is only supported for pkcs12 encoding".into());
        }
        _ => None,
    };
    let chain = appended(&args.append_certs)?;
    let certificate = Parts::load(&args.certificate)?;
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
    returned(cx, encoding, args.raw, bytes)
}

fn returned(cx: &Exec, encoding: Encoding, is_raw: bool, bytes: Vec<u8>) -> Result<Value, Error> {
    let delivery = Delivery {
        encoding,
        path: None,
        is_raw,
    };
    delivery.done(cx, bytes, "")
}

pub(super) fn encode_crl(cx: &Exec, args: EncodeCrl) -> Result<Value, Error> {
    let encoding = Encoding::parse(&args.encoding, OF_REQUESTS)?;
    let bytes = encoding.bytes("X509 CRL", crl::List::load(&args.crl)?.der);
    returned(cx, encoding, args.raw, bytes)
}

pub(super) fn encode_csr(cx: &Exec, args: EncodeCsr) -> Result<Value, Error> {
    let encoding = Encoding::parse(&args.encoding, OF_REQUESTS)?;
    let bytes = encoding.bytes("CERTIFICATE REQUEST", Request::der(&args.csr)?);
    returned(cx, encoding, args.raw, bytes)
}

pub(super) fn encode_private_key(cx: &Exec, args: EncodePrivateKey) -> Result<Value, Error> {
    let encoding = Encoding::parse(&args.encoding, OF_KEYS)?;
    let key = Private::load(
        cx,
        &args.private_key,
        args.private_key_passphrase.as_deref(),
    )?;
    let bytes = as_written(
        cx,
        &key,
        args.passphrase,
        encoding,
        args.pkcs12_encryption_compat,
    )?;
    returned(cx, encoding, args.raw, bytes)
}
