//! The `hashutil` execution module.

use std::path::Path;

use machine::fs;
use machine::hashes;
use python::{base64, path};
use sha2::Digest;
use state::exec::Exec;
use state::module::Error;
use value::Value;
use value::python::hex;

state::exec_module! {
    /// A collection of hashing and encoding functions.
    #[facts(pure = true)]
    mod hashutil;

    /// Return a checksum digest for a string.
    ///
    ///     salt-call hashutil.digest secret sha256
    fn digest(DigestString {
        /// The string.
        instr: Value,
        /// The hash: md5, sha256 or sha512.
        checksum: String = "md5".into(),
    });

    /// Return a checksum digest for a file.
    ///
    ///     salt-call hashutil.digest_file /etc/hosts sha256
    fn digest_file(DigestFile {
        /// The path of the file.
        infile: String,
        /// The hash: md5, sha256 or sha512.
        checksum: String = "md5".into(),
    });

    /// Encode a string as base64 on one line.
    ///
    ///     salt-call hashutil.base64_b64encode secret
    fn base64_b64encode(Base64B64encode {
        /// The string.
        instr: Value,
    });

    /// Decode a base64-encoded string.
    ///
    ///     salt-call hashutil.base64_b64decode c2VjcmV0
    fn base64_b64decode(Base64B64decode {
        /// The base64 text.
        instr: Value,
    });

    /// Encode a string as base64 in lines of 76 characters.
    ///
    ///     salt-call hashutil.base64_encodestring secret
    fn base64_encodestring(Base64Encodestring {
        /// The string.
        instr: Value,
    });

    /// Read a file and return it as base64 in lines of 76 characters.
    ///
    ///     salt-call hashutil.base64_encodefile /etc/hosts
    fn base64_encodefile(Base64Encodefile {
        /// The path of the file.
        fname: String,
    });

    /// Decode a base64-encoded string of many lines.
    ///
    ///     salt-call hashutil.base64_decodestring c2VjcmV0
    fn base64_decodestring(Base64Decodestring {
        /// The base64 text.
        instr: Value,
    });

    /// Decode a base64-encoded string and write the result to a file.
    ///
    ///     salt-call hashutil.base64_decodefile c2VjcmV0 /srv/secret
    fn base64_decodefile(Base64Decodefile {
        /// The base64 text.
        instr: String,
        /// The path of the file.
        outfile: String,
    });

    /// Return the md5 hash of a string.
    ///
    ///     salt-call hashutil.md5_digest secret
    fn md5_digest(Md5Digest {
        /// The string.
        instr: Value,
    });

    /// Return the sha256 hash of a string.
    ///
    ///     salt-call hashutil.sha256_digest secret
    fn sha256_digest(Sha256Digest {
        /// The string.
        instr: Value,
    });

    /// Return the sha512 hash of a string.
    ///
    ///     salt-call hashutil.sha512_digest secret
    fn sha512_digest(Sha512Digest {
        /// The string.
        instr: Value,
    });

    /// Verify a base64 hmac signature (sha256) of a string.
    ///
    ///     salt-call hashutil.hmac_signature message key 5vNhxOXuGHqxFB7WXCTbAR0Rf2qTgMqKTCkM7oL0vyc=
    fn hmac_signature(HmacSignature {
        /// The string.
        string: Value,
        /// The secret.
        shared_secret: Value,
        /// The signature.
        challenge_hmac: String,
    });

    /// Return the hmac (sha256) of a string in hexadecimal.
    ///
    ///     salt-call hashutil.hmac_compute message key
    fn hmac_compute(HmacCompute {
        /// The string.
        string: Value,
        /// The secret.
        shared_secret: Value,
    });

    /// Verify a GitHub webhook signature: `sha1=…` or `sha256=…`.
    ///
    ///     salt-call hashutil.github_signature message key challenge_hmac=sha1=5c1d8bd2a0e5d4d5e9e7a2f0c8f1ef2a5b3fbe0a
    fn github_signature(GithubSignature {
        /// The string.
        string: Value,
        /// The secret.
        shared_secret: Value,
        /// The signature with the name of its hash.
        challenge_hmac: String,
    });
}

/// Returns the hash of bytes. The hash is one of those that `hashutil.digest` supports.
///
/// # Errors
/// When the hash is not supported.
pub(crate) fn digest_of(data: &[u8], checksum: &str) -> Result<String, Error> {
    if !matches!(checksum, "md5" | "sha256" | "sha512") {
        return Err(Error::refused(format!(
            "Hash func '{checksum}' is not supported."
        )));
    }
    hashes::of_bytes(data, checksum)
}

fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::Bytes(bytes) => bytes.to_vec(),
        other => other.to_text().into_bytes(),
    }
}

/// Returns text if the bytes are valid UTF-8, else the bytes.
fn text_or_bytes(data: Vec<u8>) -> Value {
    match String::from_utf8(data) {
        Ok(text) => text.into(),
        Err(error) => Value::Bytes(error.into_bytes().into()),
    }
}

fn digest(_cx: &Exec, args: DigestString) -> Result<Value, Error> {
    digest_of(&bytes(&args.instr), &args.checksum).map(Value::from)
}

fn digest_file(_cx: &Exec, args: DigestFile) -> Result<Value, Error> {
    let path = path::expand_user(&args.infile);
    if !path.is_file() {
        return Err(Error::refused(format!(
            "File path '{}' not found.",
            args.infile
        )));
    }
    let data = fs::read(&path)?;
    digest_of(&data, &args.checksum).map(Value::from)
}

fn base64_b64encode(_cx: &Exec, args: Base64B64encode) -> Result<Value, Error> {
    Ok(base64::encode(&bytes(&args.instr)).into())
}

fn base64_b64decode(_cx: &Exec, args: Base64B64decode) -> Result<Value, Error> {
    Ok(text_or_bytes(base64::decode(&args.instr.to_text())?))
}

fn base64_encodestring(_cx: &Exec, args: Base64Encodestring) -> Result<Value, Error> {
    Ok(base64::encode_lines(&bytes(&args.instr)).into())
}

fn base64_encodefile(_cx: &Exec, args: Base64Encodefile) -> Result<Value, Error> {
    let data = fs::read(&args.fname)?;
    Ok(base64::encode_lines(&data).into())
}

fn base64_decodestring(_cx: &Exec, args: Base64Decodestring) -> Result<Value, Error> {
    Ok(text_or_bytes(base64::decode(&args.instr.to_text())?))
}

fn base64_decodefile(cx: &Exec, args: Base64Decodefile) -> Result<Value, Error> {
    let data = base64::decode_lines(&args.instr)?;
    fs::write(cx, Path::new(&args.outfile), &data, fs::Owner::default())?;
    Ok(true.into())
}

fn md5_digest(_cx: &Exec, args: Md5Digest) -> Result<Value, Error> {
    digest_of(&bytes(&args.instr), "md5").map(Value::from)
}

fn sha256_digest(_cx: &Exec, args: Sha256Digest) -> Result<Value, Error> {
    digest_of(&bytes(&args.instr), "sha256").map(Value::from)
}

fn sha512_digest(_cx: &Exec, args: Sha512Digest) -> Result<Value, Error> {
    digest_of(&bytes(&args.instr), "sha512").map(Value::from)
}

fn hmac_signature(_cx: &Exec, args: HmacSignature) -> Result<Value, Error> {
    let made = hmac::<sha2::Sha256>(&bytes(&args.shared_secret), &bytes(&args.string), 64);
    Ok(same(&base64::encode(&made), &args.challenge_hmac).into())
}

fn hmac_compute(_cx: &Exec, args: HmacCompute) -> Result<Value, Error> {
    let made = hmac::<sha2::Sha256>(&bytes(&args.shared_secret), &bytes(&args.string), 64);
    Ok(hex(&made).into())
}

fn github_signature(_cx: &Exec, args: GithubSignature) -> Result<Value, Error> {
    let (kind, challenge) = args
        .challenge_hmac
        .split_once('=')
        .ok_or("not enough values to unpack (expected 2, got 1)")?;
    let (key, text) = (bytes(&args.shared_secret), bytes(&args.string));
    let made = match kind {
        "md5" => hmac::<md5::Md5>(&key, &text, 64),
        "sha1" => hmac::<sha1::Sha1>(&key, &text, 64),
        "sha224" => hmac::<sha2::Sha224>(&key, &text, 64),
        "sha256" => hmac::<sha2::Sha256>(&key, &text, 64),
        "sha384" => hmac::<sha2::Sha384>(&key, &text, 128),
        "sha512" => hmac::<sha2::Sha512>(&key, &text, 128),
        other => {
            return Err(Error::refused(format!(
                "module 'hashlib' has no attribute '{other}'"
            )));
        }
    };
    Ok(same(&hex(&made), challenge).into())
}

/// Returns the HMAC as in RFC 2104. The hash processes its input in blocks of `block` bytes.
pub(crate) fn hmac<D: Digest>(key: &[u8], text: &[u8], block: usize) -> Vec<u8> {
    let mut key = if key.len() > block {
        D::digest(key).to_vec()
    } else {
        key.to_vec()
    };
    key.resize(block, 0);
    let pad = |with: u8| key.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    let inner = D::new().chain_update(pad(0x36)).chain_update(text);
    let outer = D::new().chain_update(pad(0x5c));
    outer.chain_update(inner.finalize()).finalize().to_vec()
}

/// Compares two texts in a time that does not depend on where they differ.
fn same(a: &str, b: &str) -> bool {
    let differ = a
        .bytes()
        .zip(b.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && differ == 0
}
