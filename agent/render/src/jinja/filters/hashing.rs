//! Filters for digests and base64.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use minijinja::{Error, State, Value};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use value::python::hex;

use super::super::args::{self, Args};
use super::super::errors::{type_error, value_error};
use super::super::print;
use super::Table;

/// The filters of this topic.
pub(super) const FILTERS: Table = &[
    ("base64_encode", |_, a| {
        Ok(Value::from(STANDARD.encode(bytes(a.subject()?)?)))
    }),
    ("base64_decode", base64_decode),
    ("md5", |_, a| digest(a, "md5")),
    ("sha1", |_, a| digest(a, "sha1")),
    ("sha256", |_, a| digest(a, "sha256")),
    ("sha512", |_, a| digest(a, "sha512")),
    ("hmac", |_, a| {
        let wanted = STANDARD.encode(signature(a)?);
        Ok(Value::from(wanted == a.text(2, "challenge_hmac")?))
    }),
    ("hmac_compute", |_, a| Ok(Value::from(hex(&signature(a)?)))),
    ("file_hashsum", file_hashsum),
    ("uuid", uuid),
];

/// The namespace of Salt's UUIDs: 91633EBF-1C86-5E33-935A-28061F4B480E.
const NAMESPACE: [u8; 16] = [
    0x91, 0x63, 0x3e, 0xbf, 0x1c, 0x86, 0x5e, 0x33, 0x93, 0x5a, 0x28, 0x06, 0x1f, 0x4b, 0x48, 0x0e,
];

fn bytes(value: &Value) -> Result<Vec<u8>, Error> {
    let value = args::defined(value)?;
    match (value.as_str(), value.as_bytes()) {
        (Some(text), _) => Ok(text.as_bytes().to_vec()),
        (None, Some(bytes)) => Ok(bytes.to_vec()),
        (None, None) => Err(type_error(format!(
            "expected str, bytes, or bytearray not <class '{}'>",
            print::type_name(value)
        ))),
    }
}

fn base64_decode(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    // Python skips characters that are not base64, requires the padding, and ignores unused
    // trailing bits.
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    let engine = GeneralPurpose::new(&base64::alphabet::STANDARD, config);
    let mut input = bytes(args.subject()?)?;
    input.retain(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte));
    let decoded = engine
        .decode(&input)
        .map_err(|_| value_error("Incorrect padding"))?;
    Ok(String::from_utf8(decoded)
        .map_or_else(|error| Value::from_bytes(error.into_bytes()), Value::from))
}

/// Returns a digest by the name of its algorithm.
pub(super) fn hash(algorithm: &str, data: &[u8]) -> Result<String, Error> {
    Ok(match algorithm {
        "md5" => hex(&md5::Md5::digest(data)),
        "sha1" => hex(&sha1::Sha1::digest(data)),
        "sha224" => hex(&Sha224::digest(data)),
        "sha256" => hex(&Sha256::digest(data)),
        "sha384" => hex(&Sha384::digest(data)),
        "sha512" => hex(&Sha512::digest(data)),
        other => return Err(value_error(format!("Invalid hash type: {other}"))),
    })
}

fn digest(args: &Args, algorithm: &str) -> Result<Value, Error> {
    Ok(Value::from(hash(algorithm, &bytes(args.subject()?)?)?))
}

fn signature(args: &Args) -> Result<Vec<u8>, Error> {
    let key = bytes(args.need(1, "shared_secret")?)?;
    let mut mac =
        Hmac::<Sha256>::new_from_slice(&key).map_err(|error| value_error(error.to_string()))?;
    mac.update(&bytes(args.subject()?)?);
    Ok(mac.finalize().into_bytes().to_vec())
}

fn file_hashsum(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let path = args.text(0, "path")?;
    let algorithm = args.text_or(1, "form", "sha256")?;
    // Reading a device might never end.
    if std::fs::metadata(&path).is_ok_and(|file| !file.is_file() && !file.is_dir()) {
        return Err(value_error(format!("{path} is not a regular file")));
    }
    let data = std::fs::read(&path).map_err(|error| value_error(format!("{path}: {error}")))?;
    Ok(Value::from(hash(&algorithm, &data)?))
}

fn uuid(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let mut digest = sha1::Sha1::new();
    digest.update(NAMESPACE);
    digest.update(args.text(0, "val")?);
    let mut bytes: Vec<u8> = digest.finalize().iter().take(16).copied().collect();
    if let [_, _, _, _, _, _, version, _, variant, ..] = bytes.as_mut_slice() {
        *version = (*version & 0x0f) | 0x50;
        *variant = (*variant & 0x3f) | 0x80;
    }
    let digits = hex(&bytes);
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    Ok(Value::from(format!(
        "{}-{}-{}-{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32)
    )))
}
