//! The function `gpg.verify`, and the verification of signatures for the states that fetch files.

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, remove};

use super::keyring::Keyring;
use crate::fileserver::fetch::{self, How, Url};

state::exec_module! {
    /// Manage keys, signatures and encryption with GnuPG.
    mod gpg;

    /// Verify the signature of a message or a file.
    ///
    ///     salt-call gpg.verify filename=/srv/app.tar.gz signature=/srv/app.sig
    fn verify(Verify {
        /// The signed message.
        text: Option<String> = None,
        /// The user whose keyring is used.
        user: Option<String> = None,
        /// The path of the signed file.
        filename: Option<String> = None,
        /// The folder of the keyring. The default is the user's.
        gnupghome: Option<String> = None,
        /// The path of the file with the signature, if it is not part of the signed file.
        signature: Option<String> = None,
        /// The trust model: `pgp`, `classic`, `tofu`, `tofu+pgp`, `direct`, `always` or `auto`.
        trustmodel: Option<String> = None,
        /// Fingerprints of keys. At least one of them must have signed.
        signed_by_any: Value = Value::Null,
        /// Fingerprints of keys. All of them must have signed.
        signed_by_all: Value = Value::Null,
        /// The path of the file with the public keys, if it is not the default one.
        keyring: Option<String> = None,
    });
}

const TRUST_MODELS: [&str; 7] = [
    "pgp", "classic", "tofu", "tofu+pgp", "direct", "always", "auto",
];

/// The trust in a key: the status word of `gpg`, and the text that Salt shows.
const TRUST: [(&str, &str); 6] = [
    ("TRUST_EXPIRED", "Expired"),
    ("TRUST_UNDEFINED", "Undefined"),
    ("TRUST_NEVER", "Never"),
    ("TRUST_MARGINAL", "Marginal"),
    ("TRUST_FULLY", "Fully"),
    ("TRUST_ULTIMATE", "Ultimate"),
];

/// A signature, as reported by `gpg`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    key_id: String,
    username: Option<String>,
    /// The fingerprint of the primary key, even if a subkey made the signature.
    fingerprint: String,
    trust: Option<&'static str>,
    status: &'static str,
}

impl Seen {
    /// Returns whether the signature is good and its key is not revoked. As in Salt, the level of
    /// trust does not matter.
    fn is_good(&self) -> bool {
        self.trust.is_some() && self.status != REVOKED
    }

    fn to_value(&self) -> Value {
        Map::new()
            .with("username", self.username.clone())
            .with("key_id", self.key_id.as_str())
            .with("fingerprint", self.fingerprint.as_str())
            .with("trust_level", self.trust)
            .with("status", self.status)
            .into()
    }
}

const REVOKED: &str = "signing key was revoked";

/// Returns the good signatures from the status lines (`[GNUPG:]`).
fn seen(stderr: &str) -> Vec<Seen> {
    let mut all: Vec<Seen> = Vec::new();
    // The lines of a bad signature have no `SIG_ID`, and belong to no signature in the list.
    let mut is_open = false;
    let lines = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("[GNUPG:] "));
    for line in lines {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "SIG_ID" => {
                all.push(Seen::default());
                is_open = true;
            }
            "NEWSIG" => is_open = false,
            _ => {}
        }
        let Some(last) = all.last_mut().filter(|_| is_open) else {
            continue;
        };
        let (key, name) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "GOODSIG" => {
                last.key_id = key.to_owned();
                last.username = Some(name.to_owned());
                last.status = "signature good";
            }
            "EXPKEYSIG" => {
                last.key_id = key.to_owned();
                last.status = "signing key has expired";
            }
            "REVKEYSIG" => {
                last.key_id = key.to_owned();
                last.status = REVOKED;
            }
            "VALIDSIG" => {
                let primary = rest.split_whitespace().nth(9);
                last.fingerprint = primary.unwrap_or_default().to_owned();
                if last.status != REVOKED {
                    last.status = "signature valid";
                }
            }
            _ => {
                let known = TRUST.iter().find(|(known, _)| *known == word);
                if let Some((_, shown)) = known {
                    last.trust = Some(shown);
                    is_open = false;
                }
            }
        }
    }
    all
}

fn verify(cx: &Exec, args: Verify) -> Result<Value, Error> {
    if let Some(model) = &args.trustmodel
        && !TRUST_MODELS.contains(&model.as_str())
    {
        let known = TRUST_MODELS.join(", ");
        let text = format!("Invalid trustmodel defined: {model}. Use one of: {known}");
        return Ok(super::reply(false, text));
    }
    let (user, home) = (args.user.as_deref(), args.gnupghome.as_deref());
    let keyring = Keyring::open(cx, user, home, args.keyring.as_deref())?;
    let mut words = vec!["--verify"];
    if let Some(model) = &args.trustmodel {
        words.extend(["--trust-model", model]);
    }
    let by = Signers::new(args.signed_by_any, args.signed_by_all);
    if by.are_named() {
        // Without this option gpg stops at the first bad signature.
        words.push("--no-batch");
    }
    let text = args.text.filter(|text| !text.is_empty());
    match (&text, &args.filename) {
        (Some(_), _) => {}
        (None, Some(file)) => {
            words.push("--");
            words.extend(args.signature.as_deref());
            words.push(file);
        }
        (None, None) => return Err("filename or text must be passed.".into()),
    }
    for file in args.filename.iter().chain(&args.signature) {
        if text.is_none() && !Path::new(file).is_file() {
            return Err(format!("{file} does not exist or is not a file").into());
        }
    }
    let seen = seen(&keyring.gpg(cx, &words, text)?.stderr);
    Ok(match by.are_named() {
        true => by.answer(&seen),
        false => answer(seen.last()),
    })
}

/// Returns the result if no signers are required.
fn answer(last: Option<&Seen>) -> Value {
    let Some(good) = last.filter(|seen| seen.is_good()) else {
        return super::reply(false, "The signature could not be verified.");
    };
    Map::new()
        .with("res", true)
        .with("username", good.username.clone())
        .with("key_id", good.key_id.as_str())
        .with("trust_level", good.trust)
        .with("message", "The signature is verified.")
        .into()
}

state::argument_group! {
    /// The keys that must have signed a file, and where to find them.
    pub(crate) struct SigningKeys {
        /// Fingerprints of keys. At least one of them must have signed.
        signed_by_any: Value = Value::Null,
        /// Fingerprints of keys. All of them must have signed.
        signed_by_all: Value = Value::Null,
        /// The file that contains the public keys.
        keyring: Value = Value::Null,
        /// The folder of GnuPG's files.
        gnupghome: Value = Value::Null,
    }
}

state::argument_group! {
    /// The keys that must have signed a file, and the module that verifies it.
    pub(crate) struct Signers {
        #[group] keys: SigningKeys,
        /// The execution module that verifies signatures.
        sig_backend: String = "gpg".into(),
    }
}

impl Default for Signers {
    fn default() -> Self {
        Self::new(Value::Null, Value::Null)
    }
}

impl Signers {
    fn new(signed_by_any: Value, signed_by_all: Value) -> Self {
        let (keyring, gnupghome) = (Value::Null, Value::Null);
        Self {
            keys: SigningKeys {
                signed_by_any,
                signed_by_all,
                keyring,
                gnupghome,
            },
            sig_backend: "gpg".to_owned(),
        }
    }

    fn are_named(&self) -> bool {
        self.keys.signed_by_any.is_true() || self.keys.signed_by_all.is_true()
    }

    /// Returns the result if signers are required.
    fn answer(&self, seen: &[Seen]) -> Value {
        let has_signed = |signer: &String| {
            let mut good = seen.iter().filter(|seen| seen.is_good());
            good.any(|seen| seen.fingerprint == *signer)
        };
        let lacks = |message: String| (false, message);
        let (any, all) = (&self.keys.signed_by_any, &self.keys.signed_by_all);
        let lacking = names(all).into_iter().find(|one| !has_signed(one));
        let (res, message) = if any.is_true() && !names(any).iter().any(has_signed) {
            lacks(
                "None of the public keys listed in signed_by_any provided a valid signature".into(),
            )
        } else if let Some(signer) = lacking {
            lacks(format!(
                "Public key {signer} has not provided a valid signature, but was listed in signed_by_all"
            ))
        } else {
            (true, "All required keys have provided a signature".into())
        };
        Map::new()
            .with("res", res)
            .with("message", message)
            .with("signatures", Value::list(seen.iter().map(Seen::to_value)))
            .into()
    }

    /// Returns whether the execution module that verifies signatures is available.
    pub(crate) fn are_able(&self, cx: &Exec) -> bool {
        let name = format!("{}.verify", self.sig_backend);
        cx.function(&name).is_some() || cx.is_custom(&name)
    }
}

/// A required signature: part of the file itself (`True`), or at an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signed<'a> {
    signature: &'a Value,
    by: &'a Signers,
}

impl<'a> Signed<'a> {
    /// Returns the signature that the arguments of a state require; `None` if they require none.
    pub(crate) fn by(signature: &'a Value, by: &'a Signers) -> Option<Self> {
        signature.is_true().then_some(Self { signature, by })
    }

    /// Verifies a file that was fetched from an address. A file that fails is removed from the
    /// cache together with its signature.
    ///
    /// # Errors
    /// When the signature is missing or not good.
    pub(crate) fn check(
        self,
        cx: &Exec,
        (address, file): (&str, &str),
        (saltenv, verify_ssl): (&str, bool),
    ) -> Result<(), Error> {
        let by = self.by;
        if !by.are_able(cx) {
            return Err(format!(
                "Signature verification requires the {} module, which could not be found. Make sure you have the necessary tools and libraries intalled",
                by.sig_backend
            )
            .into());
        }
        let mut beside = None;
        if let Some(url) = self.signature.as_str() {
            let how = How {
                verify_ssl,
                ..How::default()
            };
            let found = fetch::cached(cx, url, saltenv, how)?;
            let missing = || Error::refused(format!("Detached signature file {url} not found"));
            beside = Some((url, found.ok_or_else(missing)?));
        }
        let named = Map::new()
            .with("filename", file)
            .with("signature", beside.as_ref().map(|(_, path)| path.as_str()))
            .with("keyring", by.keys.keyring.clone())
            .with("gnupghome", by.keys.gnupghome.clone())
            .with("signed_by_any", by.keys.signed_by_any.clone())
            .with("signed_by_all", by.keys.signed_by_all.clone());
        let told = cx.call_internal(&format!("{}.verify", by.sig_backend), Vec::new(), named)?;
        if told.get("res") == Some(&Value::Bool(true)) {
            return Ok(());
        }
        let fetched = beside.iter().map(|(url, path)| (*url, path.as_str()));
        for (url, path) in fetched.chain([(address, file)]) {
            forget(cx, url, path);
        }
        let message = told.get("message").map(Value::to_text);
        Err(format!(
            "The file's signature could not be verified: {}",
            message.unwrap_or_default()
        )
        .into())
    }
}

/// Removes a copy from the cache. A file of the machine itself or of the state tree is kept.
fn forget(cx: &Exec, url: &str, path: &str) {
    if Url::parse(url).is_remote() {
        // A copy that cannot be removed does no harm here: it is missing or is fetched again.
        remove::or_log(path, machine::fs::remove(cx, Path::new(path)));
    }
}

/// Returns fingerprints from a list or from a single value. YAML reads one that has only digits as
/// a number.
fn names(given: &Value) -> Vec<String> {
    match given {
        Value::List(_) => given.texts(),
        other if other.is_true() => vec![other.to_text()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[GNUPG:] NEWSIG
[GNUPG:] SIG_ID abc 2026-11-23 1795000000
[GNUPG:] GOODSIG 87654321 A <a@b>
[GNUPG:] VALIDSIG SUB 2026-11-23 1795000000 0 4 0 1 10 00 PRIMARY
[GNUPG:] TRUST_ULTIMATE 0 pgp
[GNUPG:] NEWSIG
[GNUPG:] BADSIG 12345678 B <b@b>
";

    #[test]
    fn a_bad_signature_is_none() {
        let all = seen(GOOD);
        let a = Seen {
            key_id: "87654321".into(),
            username: Some("A <a@b>".into()),
            fingerprint: "PRIMARY".into(),
            trust: Some("Ultimate"),
            status: "signature valid",
        };
        assert_eq!(all, [a]);
        let revoked = GOOD.replace("GOODSIG", "REVKEYSIG");
        assert!(!seen(&revoked).iter().any(Seen::is_good));
        assert!(seen("gpg: no signature\n").is_empty());
    }

    #[test]
    fn all_or_any_of_those_named_must_have_signed() {
        let told = |any: &[&str], all: &[&str]| {
            let list = |names: &[&str]| Value::list(names.iter().map(|name| Value::from(*name)));
            let by = Signers::new(list(any), list(all));
            by.answer(&seen(GOOD)).get("res").cloned()
        };
        let (yes, no) = (Some(Value::Bool(true)), Some(Value::Bool(false)));
        assert_eq!(told(&["OTHER", "PRIMARY"], &[]), yes);
        assert_eq!(told(&["OTHER"], &[]), no);
        assert_eq!(told(&[], &["PRIMARY"]), yes);
        assert_eq!(told(&[], &["PRIMARY", "OTHER"]), no);
        assert_eq!(told(&["PRIMARY"], &["OTHER"]), no);
    }
}
