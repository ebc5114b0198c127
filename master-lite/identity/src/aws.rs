//! AWS: checks the instance identity document, which the metadata service has under
//! `dynamic/instance-identity/`.
//!
//! `document` is JSON. `signature` is a signature of its bytes (base64, RSA, SHA-256, in most
//! regions with a key of 1,024 bits). `rsa2048` is a signed message that contains the document
//! (base64, PKCS#7), made with a longer key. `pkcs7` is signed with DSA and SHA-1, which are not
//! secure any more, and is ignored. The certificates are those that AWS publishes for each region.
//! The certificate in the configuration decides which of the signatures is accepted.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use value::{Map, Value, json};

use crate::cms::Signed;
use crate::keys::{Hash, Key};
use crate::{Error, Proven, When, facts, name, text_field};

/// The event from which a document's age counts, for messages.
const LAUNCHED: &str = "the instance was launched";

/// Checks a document with its signatures: a dictionary of `document` and `signature`, or of
/// `rsa2048`, or of all three.
///
/// # Errors
/// Returns an error if none of these keys made a signature, the document is incomplete, or the
/// instance was launched too long ago.
pub fn check(shown: &Map, keys: &[Key], when: When) -> Result<Proven, Error> {
    let document = trusted(shown, keys)?;
    let text = String::from_utf8(document).map_err(|_| Error::Form("it is not UTF-8"))?;
    let document = json::read(&text).map_err(|_| Error::Form("it is not JSON"))?;
    let document = document
        .as_map()
        .ok_or(Error::Form("it is not a dictionary"))?;
    let launched: Timestamp = text_field(document, "pendingTime")?
        .parse()
        .map_err(|_| Error::Form("its pendingTime is not a time"))?;
    when.recent(LAUNCHED, launched.as_second())?;
    proven(document)
}

fn proven(document: &Map) -> Result<Proven, Error> {
    let instance = name(document, "instanceId")?;
    let account = name(document, "accountId")?;
    let known = |key: &str| document.get(key).and_then(Value::as_str).map(str::to_owned);
    Ok(Proven {
        instance: format!("aws/{account}/{instance}"),
        facts: facts(
            "aws",
            [
                ("instance_id", Some(instance.to_owned())),
                ("account", Some(account.to_owned())),
                ("region", known("region")),
                ("availability_zone", known("availabilityZone")),
                ("instance_type", known("instanceType")),
                ("image", known("imageId")),
            ],
        ),
    })
}

/// Returns the document, if a trusted key signed it.
fn trusted(shown: &Map, keys: &[Key]) -> Result<Vec<u8>, Error> {
    let text = |name: &str| shown.get(name).and_then(Value::as_str);
    let document = text("document").map(str::as_bytes);
    if let Some(message) = text("rsa2048") {
        let message = decoded(message)?;
        let signed = Signed::read(&message)?;
        let content = signed.content.clone();
        let content = content.or_else(|| Some(document?.to_vec()));
        let content = content.ok_or(Error::Silent("content"))?;
        if keys.iter().any(|key| signed.is_by(key, &content)) {
            return Ok(content);
        }
    }
    if let Some((document, signature)) = document.zip(text("signature")) {
        let signature = decoded(signature)?;
        let is_by = |key: &Key| key.signed(Hash::Sha256, document, &signature);
        if keys.iter().any(is_by) {
            return Ok(document.to_vec());
        }
    }
    Err(Error::Forged)
}

/// Decodes base64, which the metadata service splits into lines.
pub(crate) fn decoded(text: &str) -> Result<Vec<u8>, Error> {
    let text: String = text.split_ascii_whitespace().collect();
    let bytes = STANDARD.decode(text);
    bytes.map_err(|_| Error::Form("a signature is not base64"))
}
