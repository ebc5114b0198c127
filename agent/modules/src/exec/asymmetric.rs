//! The `asymmetric` execution module: signs and verifies texts and files with the `openssl`
//! program.

use std::path::Path;

use machine::fs;
use machine::fs::Temporary;
use machine::hashes;
use python::base64;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use crate::exec::x509::format::keys::{self, Private};

state::exec_module! {
    /// Create and verify signatures.
    mod asymmetric;

    /// Sign a text or a file, and return the signature in base64.
    ///
    ///     salt-call asymmetric.sign /etc/app/sign.key filename=/srv/app.tar.gz path=/srv/app.sig
    fn sign(Sign {
        /// The private key.
        privkey: Value,
        /// The passphrase of the private key.
        passphrase: Option<String> = None,
        /// The text to sign.
        text: Option<String> = None,
        /// The path of the file to sign, instead of `text`.
        filename: Option<String> = None,
        /// The digest, for RSA and EC keys. The default is `sha256`.
        digest: Option<String> = None,
        /// True for the raw bytes of the signature instead of base64. This is the default if `path`
        /// is given.
        raw: Option<bool> = None,
        /// The path of the file to write the signature to.
        path: Option<String> = None,
    });

    /// Verify signatures of a text or a file.
    ///
    ///     salt-call asymmetric.verify filename=/srv/app.tar.gz pubkey=/etc/app/sign.pub signature=/srv/app.sig
    fn verify(Verify {
        /// The text that was signed.
        text: Option<String> = None,
        /// The path of the file that was signed, instead of `text`.
        filename: Option<String> = None,
        /// The public key of the signer.
        pubkey: Value = Value::Null,
        /// The signature: a path, base64 or a URL; or several of them if several keys are given.
        signature: Value = Value::Null,
        /// The digest, for RSA and EC keys. The default is `sha256`.
        digest: Option<String> = None,
        /// The public keys of which at least one must have signed.
        signed_by_any: Value = Value::Null,
        /// The public keys of which all must have signed.
        signed_by_all: Value = Value::Null,
        ..kwargs
    });
}

/// The digests that a signature may use, by Salt's names. The names of `openssl` have `-` instead
/// of `_`.
const DIGESTS: [&str; 13] = [
    "md5",
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "sha512_224",
    "sha512_256",
    "sha3_224",
    "sha3_256",
    "sha3_384",
    "sha3_512",
    "sm3",
];

/// The options of `openssl` that sign with an RSA key.
const SIGNING: [&str; 4] = [
    "-sigopt",
    "rsa_padding_mode:pss",
    "-sigopt",
    "rsa_pss_saltlen:max",
];
const VERIFYING: [&str; 4] = [
    "-sigopt",
    "rsa_padding_mode:pss",
    "-sigopt",
    "rsa_pss_saltlen:auto",
];

fn digest(named: Option<String>) -> Result<String, Error> {
    let named = named.filter(|digest| !digest.is_empty());
    let digest = named.map_or_else(|| "sha256".to_owned(), |digest| digest.to_lowercase());
    match DIGESTS.contains(&digest.as_str()) {
        true => Ok(digest.replace('_', "-")),
        false => Err(Error::refused(format!("Invalid hash type: {digest}"))),
    }
}

/// The data to sign or verify: a text, stored in a temporary file, or a path.
enum Data {
    Text(Temporary),
    File(String),
}

impl Data {
    fn text(text: &str) -> Result<Self, Error> {
        keys::temporary(text.as_bytes()).map(Self::Text)
    }

    /// Returns the data of a file. The path is made absolute so that `openssl` cannot read it as an
    /// option.
    fn file(path: &str) -> Result<Self, Error> {
        let whole = std::path::absolute(path).map_err(Error::io(path))?;
        Ok(Self::File(whole.display().to_string()))
    }

    fn place(&self) -> String {
        match self {
            Self::Text(file) => file.path().display().to_string(),
            Self::File(path) => path.clone(),
        }
    }
}

fn sign(cx: &Exec, args: Sign) -> Result<Value, Error> {
    let filename = args.filename.filter(|path| !path.is_empty());
    let data = match (args.text, filename) {
        (Some(text), _) => Data::text(&text)?,
        (None, Some(path)) => {
            std::fs::metadata(&path).map_err(Error::io(&path))?;
            Data::file(&path)?
        }
        (None, None) => return Err("Either `text` or `filename` is required".into()),
    };
    let digest = digest(args.digest)?;
    let key = Private::load(cx, &args.privkey, args.passphrase.as_deref())?;
    let signature = key.sign_file(cx, &data.place(), &digest, &SIGNING)?;
    let path = args.path.filter(|path| !path.is_empty());
    let is_raw = args.raw.unwrap_or_else(|| path.is_some());
    let Some(path) = path else {
        return Ok(match is_raw {
            true => Value::Bytes(signature.into()),
            false => base64::encode(&signature).into(),
        });
    };
    let bytes = match is_raw {
        true => signature,
        false => base64::encode(&signature).into_bytes(),
    };
    fs::write(cx, Path::new(&path), &bytes, fs::Owner::default())?;
    Ok(format!("Signature written to '{path}'").into())
}

/// Returns the items of a list, or a single value as a list of one. An empty value gives an empty
/// list.
fn several(given: Value) -> Vec<Value> {
    match given {
        Value::List(items) => items.to_vec(),
        one if one.is_true() => vec![one],
        _ => Vec::new(),
    }
}

/// Returns the path of the fetched file if the value is a URL, else the value itself.
fn fetched(cx: &Exec, given: &Value) -> Result<Value, Error> {
    let Some((scheme, rest)) = given.as_str().and_then(|text| text.split_once("://")) else {
        return Ok(given.clone());
    };
    let path = match scheme {
        "file" => Some(rest.to_owned()),
        _ => {
            let told = cx.call_internal("cp.cache_file", vec![given.clone()], Map::new());
            told.ok().filter(Value::is_true).map(|path| path.to_text())
        }
    };
    let path = path.filter(|path| Path::new(path).exists());
    let missing = || Error::refused(format!("Failed fetching '{}'", given.to_text()));
    path.map(Value::from).ok_or_else(missing)
}

/// Returns the bytes of a signature, which is given as bytes, a path or base64.
fn loaded(given: &Value) -> Result<Vec<u8>, Error> {
    let bytes = match given {
        Value::Bytes(bytes) => bytes.to_vec(),
        other => {
            let text = other.to_text();
            match Path::new(&text).is_file() {
                true => fs::read(&text)?,
                false => text.into_bytes(),
            }
        }
    };
    let text = String::from_utf8(bytes.clone()).unwrap_or_default();
    let line = text.replace('\n', "");
    let decoded = base64::decode(&line).ok();
    let decoded = decoded.filter(|bytes| !line.is_empty() && base64::encode(bytes) == line);
    Ok(decoded.unwrap_or(bytes))
}

/// The data against which signatures are verified.
struct Check<'a> {
    cx: &'a Exec,
    place: String,
    digest: String,
}

impl Check<'_> {
    /// Removes the signatures that a key made from the list.
    ///
    /// # Errors
    /// When the key made none of them, or is not a valid key.
    fn take(&self, signer: &Value, signatures: &mut Vec<Vec<u8>>) -> Result<(), Error> {
        let key = keys::public(self.cx, &fetched(self.cx, signer)?, None)?;
        let mut others = Vec::new();
        let all = signatures.len();
        for signature in signatures.drain(..) {
            let how = (self.digest.as_str(), VERIFYING.as_slice());
            if !keys::verify_file(self.cx, &key, &self.place, &signature, how)? {
                others.push(signature);
            }
        }
        *signatures = others;
        match signatures.len() < all {
            true => Ok(()),
            false => Err(Error::refused(format!(
                "Invalid signature for key {}",
                hashes::of_bytes(&key, "sha256")?
            ))),
        }
    }
}

fn answer(res: bool, message: impl Into<Value>) -> Value {
    Map::new().with("res", res).with("message", message).into()
}

/// Returns the data to verify.
fn data(text: Option<String>, filename: Option<String>) -> Result<Data, Error> {
    match (text, filename) {
        (Some(_), Some(_)) => Err("`text` and `filename` arguments are mutually exclusive".into()),
        (Some(text), None) => Data::text(&text),
        (None, Some(path)) if Path::new(&path).exists() => Data::file(&path),
        (None, Some(path)) => Err(Error::refused(format!("Path '{path}' does not exist"))),
        (None, None) => Err("Missing data to verify. Either specify `text` or `filename`".into()),
    }
}

fn verify(cx: &Exec, args: Verify) -> Result<Value, Error> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let (text, filename) = (given(args.text), given(args.filename));
    if !args.signature.is_true() {
        return Err("Missing `signature` parameter".into());
    }
    let (any, mut every) = (several(args.signed_by_any), several(args.signed_by_all));
    let one = Some(args.pubkey).filter(Value::is_true);
    let is_one = one.is_some();
    match (one, any.is_empty() && every.is_empty()) {
        (Some(_), false) => {
            return Err("Either specify pubkey + signature or signed_by_(any|all)".into());
        }
        (None, true) => return Err("Missing pubkey(s) to check against".into()),
        (Some(_), true) if args.signature.as_list().is_some() => {
            return Err(
                "`signature` must be a string or bytes when verifying a single signing `pubkey`"
                    .into(),
            );
        }
        (one, _) => every.extend(one),
    }
    let data = data(text, filename)?;
    let check = Check {
        cx,
        place: data.place(),
        digest: digest(args.digest)?,
    };
    let mut signatures = Vec::new();
    for signature in several(args.signature) {
        match fetched(cx, &signature) {
            Ok(found) => signatures.push(loaded(&found)?),
            Err(error) if is_one => return Ok(answer(false, error.to_string())),
            Err(error) => log::error(error),
        }
    }
    if signatures.is_empty() {
        return Err("Unable to locate any of the provided signatures".into());
    }
    check.answer(&any, &every, signatures, is_one)
}

impl Check<'_> {
    fn answer(
        &self,
        any: &[Value],
        every: &[Value],
        mut signatures: Vec<Vec<u8>>,
        is_one: bool,
    ) -> Result<Value, Error> {
        let has_signed = |signer: &Value| self.take(signer, &mut signatures.clone()).is_ok();
        if !any.is_empty() && !any.iter().any(has_signed) {
            return Ok(answer(
                false,
                "None of the public keys listed in signed_by_any provided a valid signature",
            ));
        }
        for signer in every {
            if let Err(error) = self.take(signer, &mut signatures) {
                let what = match is_one {
                    true => "Failed checking signature",
                    false => "Failed while checking `signed_by_all`",
                };
                return Ok(answer(false, format!("{what}: {error}")));
            }
        }
        Ok(match is_one {
            true => answer(true, "The signature is valid"),
            false => answer(true, "All required keys have provided a signature"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_base64_or_what_it_is() {
        assert_eq!(loaded(&"QUJD\n".into()).unwrap(), b"ABC");
        assert_eq!(loaded(&"no base64".into()).unwrap(), b"no base64");
        assert_eq!(
            loaded(&Value::Bytes(vec![0xff, 1].into())).unwrap(),
            [0xff, 1]
        );
        assert_eq!(digest(Some("SHA3_256".into())).unwrap(), "sha3-256");
        assert!(digest(Some("nonsense".into())).is_err());
    }
}
