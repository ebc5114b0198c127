//! Documents with which a cloud attests what an instance is. They are checked offline, against keys
//! from the configuration.
//!
//! - `aws` ([`aws`]): the instance identity document with its base64 or its RSA-2048 signature. It
//!   names instance, account, region, type, image and the time of the launch. It is not bound to a
//!   minion's key.
//! - `gcp` ([`gcp`]): an identity token in its full form. It names instance, project, zone, and the
//!   times of its creation and expiry. Its audience, which ends with the fingerprint of the
//!   minion's key, binds it to that key.
//! - `azure` ([`azure`]): the attested document. It names virtual machine and subscription, and the
//!   times of its creation and expiry. Its nonce, ten digits that are derived from the minion's
//!   key, binds it to that key.
//!
//! # What a document proves, and what it does not
//!
//! A document proves that a program had access to it: one on the instance, or one that can make the
//! instance ask its metadata service. It does not prove what runs on the instance, nor which id the
//! minion may have: that is up to the rule.
//!
//! - AWS signs the same document for every program on the instance for as long as the instance
//!   runs, and for no audience. Anyone with a copy can present it as their own, until it is
//!   too old (`max_age`, counted from the launch) or the instance has enrolled: a master accepts
//!   one key per instance, so that a second attempt is refused and noticed. A master that receives
//!   the document can present it to another master.
//! - Google issues a token for the audience in the request. A leaked token for this key is useless
//!   with another key.
//! - Azure signs ten digits. An attacker who generates keys until one has the same digits needs
//!   about 2^33 keys, within the hours for which a document is valid, and before the instance has
//!   enrolled. That is an obstacle and no proof. Therefore such a document is used once per
//!   instance as well.
//!
//! Every customer of a cloud gets documents with equally valid signatures: the account, project or
//! subscription must always be compared.
//!
//! A certificate for AWS is only a container of its key. Its dates and its own signature are not
//! checked, because an administrator put it into the configuration.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests make what they need in folders of their own"
    )
)]

pub mod aws;
pub mod azure;
mod ber;
mod certificate;
mod cms;
pub mod gcp;
mod keys;
mod when;

pub use keys::{Key, keys};
pub use when::{CLOCK_SKEW_MAX_S, When};

use value::{Map, Value};

/// The facts that a document proves.
#[derive(Clone, Debug, PartialEq)]
pub struct Proven {
    /// The name of the instance, which is unique among all clouds: `aws/123456789012/i-0abc`.
    pub instance: String,
    /// The facts about it: `cloud`, `instance_id` and others that depend on the cloud.
    pub facts: Map,
}

/// The reason why a document proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The document is not in the form of its cloud.
    #[error("invalid document: {0}")]
    Form(&'static str),
    /// A field is missing or empty.
    #[error("the document has no {0}")]
    Silent(&'static str),
    /// No trusted key made the signature.
    #[error("the document is forged, or signed with a key that is not in the configuration")]
    Forged,
    /// The certificate in the document does not lead to a trusted one.
    #[error("the document's certificate is not trusted: {0}")]
    Certificate(String),
    /// The document was made for another key, or by another issuer.
    #[error("the document is for another {what}: {found:?}, not {expected:?}")]
    Bound {
        /// The field that binds it.
        what: &'static str,
        /// The value in the document.
        found: String,
        /// The expected value.
        expected: String,
    },
    /// The document is too old.
    #[error("the document has expired: {what} {ago_s} s ago (limit: {limit_s} s)")]
    Expired {
        /// The event from which the age counts.
        what: &'static str,
        /// Its age in seconds.
        ago_s: i64,
        /// The maximum age in seconds.
        limit_s: i64,
    },
    /// The document is from the future.
    #[error("the document is dated {ahead_s} s in the future: check the clocks")]
    Future {
        /// The difference in seconds.
        ahead_s: i64,
    },
}

/// Returns a text field of a document, or an error if it is missing or empty.
fn text_field<'a>(map: &'a Map, name: &'static str) -> Result<&'a str, Error> {
    let text = map.get(name).and_then(Value::as_str);
    text.filter(|text| !text.is_empty())
        .ok_or(Error::Silent(name))
}

/// The maximum length of a part of an instance's name, in bytes.
const NAME_MAX: usize = 128;

/// Like [`text_field`], for a part of an instance's name: only letters, digits and `-_.:` are allowed.
fn name<'a>(map: &'a Map, key: &'static str) -> Result<&'a str, Error> {
    let text = text_field(map, key)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    match text.len() <= NAME_MAX && text.bytes().all(is_plain) {
        true => Ok(text),
        false => Err(Error::Form(
            "a name in it is too long or has invalid characters",
        )),
    }
}

/// Returns the facts of a cloud, without those that are missing in its document.
fn facts<const N: usize>(cloud: &str, known: [(&str, Option<String>); N]) -> Map {
    let known = known.into_iter();
    let known = known.filter_map(|(name, value)| Some((Value::from(name), Value::from(value?))));
    let cloud = (Value::from("cloud"), Value::from(cloud));
    std::iter::once(cloud).chain(known).collect()
}

#[cfg(test)]
mod tests;
