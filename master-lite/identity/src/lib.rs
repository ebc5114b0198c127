//! Documents by which a cloud says what an instance is, checked against keys that were given before: nobody is asked.
//!
//! | cloud | document | whose it is | how it is bound to a minion's key |
//! |---|---|---|---|
//! | `aws` | [`aws`]: the instance identity document with its base64 or its RSA-2048 signature | instance, account, region, type, image; when it was launched | not at all |
//! | `gcp` | [`gcp`]: an identity token in its full form | instance, project, zone; when the token was made and ends | by its audience, which ends with the key's fingerprint |
//! | `azure` | [`azure`]: the attested document | virtual machine and subscription; when it was made and ends | by its nonce, ten digits that follow from the key |
//!
//! # What that proves, and what not
//!
//! A document proves that some program on the instance, or one that can make the instance ask its metadata service, had it. It proves
//! nothing of what runs there, nor which id the minion may have: that is for the rule to say.
//!
//! - AWS signs the same document for everybody on the instance for as long as it runs, and for no audience. Whoever has read it can
//!   show it as his own, until it is too old (`max_age`, counted from the launch) or the instance is in: a master takes one key an
//!   instance, so that the second to come is refused and noticed. A master that was shown the document could show it elsewhere.
//! - Google makes a token for the audience that it is asked for. A token for this key is worth nothing with another one, wherever it leaks.
//! - Azure signs ten digits. Who makes keys until one has these digits needs some 2^33 of them, within the hours that a document lasts
//!   and before the instance itself is in: a hurdle, and no proof, so that the document is used once per instance as well.
//!
//! Each customer of a cloud gets documents with the same good signature: the account, project or subscription must be compared always.
//!
//! A certificate for AWS stands for its key and nothing else: neither its dates nor its own signature are looked at, as it was given by hand.
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

/// What a document proves.
#[derive(Clone, Debug, PartialEq)]
pub struct Proven {
    /// The instance, with what makes its name the only one: `aws/123456789012/i-0abc`.
    pub instance: String,
    /// What is said of it: `cloud`, `instance_id` and what the cloud has besides.
    pub facts: Map,
}

/// Why a document proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is not in the form of its cloud.
    #[error("the document cannot be read: {0}")]
    Form(&'static str),
    /// It says nothing of something that it must tell.
    #[error("the document does not say its {0}")]
    Silent(&'static str),
    /// The signature was made by nobody who is trusted.
    #[error("the document is forged, or signed with a key that is not in the configuration")]
    Forged,
    /// The certificate that it brings along does not lead to one that is trusted.
    #[error("the document's certificate is not to be trusted: {0}")]
    Certificate(String),
    /// It was made for somebody else.
    #[error("the document was made for another {what}: {found:?}, and not {expected:?}")]
    Bound {
        /// What it is bound by.
        what: &'static str,
        /// What it says.
        found: String,
        /// What it should say.
        expected: String,
    },
    /// It is too old.
    #[error("the document has expired: {what} {ago_s} s ago, and {limit_s} s are allowed")]
    Expired {
        /// What happened then.
        what: &'static str,
        /// How long ago, in seconds.
        ago_s: i64,
        /// How long ago it may be.
        limit_s: i64,
    },
    /// It is from the future.
    #[error("the document is from {ahead_s} s in the future: compare the clocks")]
    Future {
        /// How far, in seconds.
        ahead_s: i64,
    },
}

/// What is in a document under a name; nothing is invented where it is not there.
fn said<'a>(map: &'a Map, name: &'static str) -> Result<&'a str, Error> {
    let text = map.get(name).and_then(Value::as_str);
    text.filter(|text| !text.is_empty())
        .ok_or(Error::Silent(name))
}

/// How long a name may be that goes into the name of an instance.
const NAME_MAX: usize = 128;

/// The same for a name that stands for an instance: it is no more than letters, digits and what joins them.
fn name<'a>(map: &'a Map, key: &'static str) -> Result<&'a str, Error> {
    let text = said(map, key)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    match text.len() <= NAME_MAX && text.bytes().all(is_plain) {
        true => Ok(text),
        false => Err(Error::Form("a name in it is none")),
    }
}

/// The facts of a cloud, without those that its document leaves out.
fn facts<const N: usize>(cloud: &str, known: [(&str, Option<String>); N]) -> Map {
    let known = known.into_iter();
    let known = known.filter_map(|(name, value)| Some((Value::from(name), Value::from(value?))));
    let cloud = (Value::from("cloud"), Value::from(cloud));
    std::iter::once(cloud).chain(known).collect()
}

#[cfg(test)]
mod tests;
