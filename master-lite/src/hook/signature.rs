//! [`Signatures`]: the check that a sender knows the secret.
//!
//! There are two headers. `X-Pinch-Signature: t=UNIX,v1=HEX` signs the time, method, target and
//! body, each on a separate line (the body unchanged). It is valid for one request, and for
//! `hook_tolerance` seconds.
//!
//! `X-Hub-Signature-256: sha256=HEX`, which GitHub and others send, signs the body alone. An
//! attacker who captures such a request could send it again, to any path. It is therefore accepted
//! only at the paths in `hook_github_paths`, and each body only once for as long as the log keeps
//! its event.
//!
//! Both use HMAC-SHA256 with the same secret, so a text signed for one header must never be valid
//! for the other. A text for the first begins with a digit, and a body that begins with a digit is
//! refused under the second.
//!
//! A shell computes the first one with `printf '%s\nPOST\n%s\n%s' "$t" "$path" "$body" | openssl
//! dgst -sha256 -hmac "$secret"`.

use ring::hmac;

use crate::http::quoted::digit;
use crate::http::{Head, Refusal};
use crate::store::Retention;

const OWN: &str = "X-Pinch-Signature";
const HUB: &str = "X-Hub-Signature-256";

/// The length of an HMAC-SHA256 code in bytes.
pub(super) const LENGTH: usize = 32;
pub(super) type Mac = [u8; LENGTH];

/// The signature that a request shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestSignature {
    /// A signature in our own header, with its time.
    Timed { at: u64, mac: Mac },
    /// A signature of the body alone.
    Hub { mac: Mac },
}

fn no(why: impl Into<String>) -> Refusal {
    Refusal::new(401, why)
}

impl RequestSignature {
    /// Returns the signature in a head.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn from_head(head: &Head) -> Result<Self, Refusal> {
        let unreadable = |name| no(format!("the header {name} is malformed"));
        if let Some(text) = head.header(OWN) {
            return Self::timed(text).ok_or_else(|| unreadable(OWN));
        }
        let Some(text) = head.header(HUB) else {
            return Err(no(format!(
                "the request is not signed: use {OWN}, or {HUB} where hook_github_paths allows it"
            )));
        };
        let mac = text.strip_prefix("sha256=").and_then(mac);
        mac.map(|mac| Self::Hub { mac })
            .ok_or_else(|| unreadable(HUB))
    }

    /// Returns the signature in a header of an event.
    pub(super) fn of_header(name: &str, text: &str) -> Option<Self> {
        match name {
            OWN => Self::timed(text),
            HUB => Some(Self::Hub {
                mac: mac(text.strip_prefix("sha256=")?)?,
            }),
            _ => None,
        }
    }

    fn timed(text: &str) -> Option<Self> {
        let (mut at, mut code) = (None, None);
        for part in text.split(',') {
            match part.trim().split_once('=')? {
                ("t", time) if at.is_none() => at = Some(number(time)?),
                ("v1", hex) if code.is_none() => code = Some(mac(hex)?),
                ("t" | "v1", _) => return None,
                _ => {}
            }
        }
        Some(Self::Timed {
            at: at?,
            mac: code?,
        })
    }

    pub(super) fn mac(&self) -> Mac {
        match self {
            Self::Timed { mac, .. } | Self::Hub { mac } => *mac,
        }
    }

    /// Returns the second until which a signature accepted now must be kept. One with a time is
    /// kept until it is no longer valid, one of the body alone for as long as the log keeps events.
    pub(super) fn until(&self, tolerance_s: u64, now_s: u64) -> u64 {
        match self {
            Self::Timed { at, .. } => at.saturating_add(tolerance_s),
            Self::Hub { .. } => now_s.saturating_add(Retention::default().events_seconds),
        }
    }
}

fn number(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn mac(hex: &str) -> Option<Mac> {
    let mut mac = [0; LENGTH];
    if hex.len() != 2 * LENGTH {
        return None;
    }
    for (byte, pair) in mac.iter_mut().zip(hex.as_bytes().chunks(2)) {
        let [high, low] = pair else {
            return None;
        };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(mac)
}

/// The secrets, and how long their signatures are valid.
pub(super) struct Signatures {
    keys: Vec<hmac::Key>,
    tolerance_s: u64,
}

impl Signatures {
    pub(super) fn new(secrets: &[Vec<u8>], tolerance_s: u64) -> Self {
        let key = |secret: &Vec<u8>| hmac::Key::new(hmac::HMAC_SHA256, secret);
        Self {
            keys: secrets.iter().map(key).collect(),
            tolerance_s,
        }
    }

    fn signs(&self, signed: &[u8], mac: &Mac) -> bool {
        let mut keys = self.keys.iter();
        keys.any(|key| hmac::verify(key, signed, mac).is_ok())
    }

    /// Checks a signature against the request. Returns the second until which it must be kept.
    ///
    /// # Errors
    /// When it does not match the request, or its time is too far from now.
    pub(super) fn check(
        &self,
        shown: &RequestSignature,
        head: &Head,
        body: &[u8],
        now_s: u64,
    ) -> Result<u64, Refusal> {
        let is_right = match shown {
            RequestSignature::Timed { at, mac } => {
                let mut signed = format!("{at}\n{}\n{}\n", head.method, head.target).into_bytes();
                signed.extend(body);
                self.signs(&signed, mac)
            }
            RequestSignature::Hub { .. } if body.first().is_some_and(u8::is_ascii_digit) => {
                return Err(no(format!(
                    "{HUB} is not allowed for bodies that begin with a digit"
                )));
            }
            RequestSignature::Hub { mac } => self.signs(body, mac),
        };
        if !is_right {
            return Err(no("the signature is wrong"));
        }
        if let RequestSignature::Timed { at, .. } = shown
            && at.abs_diff(now_s) > self.tolerance_s
        {
            let (away, tolerance) = (at.abs_diff(now_s), self.tolerance_s);
            let why = format!(
                "the request's time differs from the master's by {away} s; hook_tolerance is {tolerance}"
            );
            return Err(no(why));
        }
        Ok(shown.until(self.tolerance_s, now_s))
    }
}
