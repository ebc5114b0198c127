//! Password hashes in the formats of PostgreSQL.

use machine::hashes;
use python::base64;
use sha2::{Digest, Sha256};
use state::module::Error;
use value::{Value, log, random};

use crate::exec::hashutil::hmac;

/// The format in which a password is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// The password itself.
    Clear,
    Md5,
    Scram,
}

/// The number of iterations of new hashes, as in PostgreSQL.
const ITERATIONS: u32 = 4096;

/// The maximum number of iterations of existing hashes. A larger number would keep the machine busy
/// for minutes.
const ITERATIONS_MAX: u32 = 10_000_000;

impl Method {
    /// Returns the method that the argument `encrypted` names.
    pub(crate) fn parse(encrypted: &Value) -> Result<Self, Error> {
        match encrypted {
            Value::Null | Value::Bool(true) => Ok(Self::Md5),
            Value::Bool(false) => Ok(Self::Clear),
            other => match other.to_text().as_str() {
                "md5" => Ok(Self::Md5),
                "scram-sha-256" => Ok(Self::Scram),
                word => Err(format!("Unknown password algorithm: {word}").into()),
            },
        }
    }

    /// Returns the password in the form that is sent to the server. A text that is already a hash
    /// is not changed.
    pub(crate) fn encrypt(self, role: &str, password: &str) -> Result<String, Error> {
        Ok(match self {
            Self::Md5 if !password.starts_with("md5") => {
                log::warning("The md5 password algorithm was deprecated in PostgreSQL 10");
                md5(role, password)
            }
            Self::Scram if !password.starts_with("SCRAM-SHA-256") => {
                scram(password, &random::array::<16>()?, ITERATIONS)
            }
            Self::Clear => {
                log::warning("Unencrypted passwords were removed in PostgreSQL 10");
                password.to_owned()
            }
            _ => password.to_owned(),
        })
    }

    /// Returns whether the stored text matches the password.
    pub(crate) fn verify(self, role: &str, password: &str, kept: &str) -> bool {
        match self {
            Self::Clear => kept == password,
            Self::Md5 if !password.starts_with("md5") => kept == md5(role, password),
            Self::Scram if !password.starts_with("SCRAM-SHA-256") => {
                salt_of(kept).is_some_and(|(salt, count)| kept == scram(password, &salt, count))
            }
            _ => kept == password,
        }
    }
}

fn md5(role: &str, password: &str) -> String {
    let hash = hashes::of_bytes(format!("{password}{role}").as_bytes(), "md5");
    format!("md5{}", hash.unwrap_or_default())
}

/// Returns the salt and the number of iterations of a hash.
fn salt_of(kept: &str) -> Option<(Vec<u8>, u32)> {
    let rest = kept.strip_prefix("SCRAM-SHA-256$")?;
    let (count, salt) = rest.split_once('$')?.0.split_once(':')?;
    let count = count.parse().ok()?;
    (1..=ITERATIONS_MAX).contains(&count).then_some(())?;
    Some((base64::decode(salt).ok()?, count))
}

/// Returns the SCRAM verifier of RFC 7677.
fn scram(password: &str, salt: &[u8], iterations: u32) -> String {
    let salted = pbkdf2(password.as_bytes(), salt, iterations);
    let stored = Sha256::digest(code(&salted, b"Client Key"));
    let server = code(&salted, b"Server Key");
    let [salt, stored, server] = [salt, &stored, &server].map(base64::encode);
    format!("SCRAM-SHA-256${iterations}:{salt}${stored}:{server}")
}

/// Returns one block of PBKDF2 (RFC 8018) with SHA-256.
fn pbkdf2(password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
    let mut last = code(password, &[salt, &1_u32.to_be_bytes()].concat());
    let mut whole = last.clone();
    for _ in 1..iterations {
        last = code(password, &last);
        whole
            .iter_mut()
            .zip(&last)
            .for_each(|(to, from)| *to ^= from);
    }
    whole
}

fn code(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::<Sha256>(key, text, 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_server() {
        // PostgreSQL 15 generated this hash for the role `pinch` and the password `secret`.
        let kept = "SCRAM-SHA-256$4096:+MVkoEtC1h6szGyQDUeBfg==$XAAq0icxfpIZ0/8lXQRiA10MJmpTk16QHCZnGJUt4Qg=:YnlUm3/dZmDkquaOhw4jOZ3Pi7znpEoKv7kKLkmX4Js=";
        assert!(Method::Scram.verify("pinch", "secret", kept));
        assert!(!Method::Scram.verify("pinch", "Secret", kept));
        assert!(Method::Md5.verify("pinch", "secret", "md50f2649d2313ff0464f8e29cdf970b9f4"));
        let made = Method::Scram.encrypt("pinch", "secret").unwrap();
        assert!(Method::Scram.verify("pinch", "secret", &made), "{made}");
        assert_eq!(Method::Md5.encrypt("pinch", "md5ab").unwrap(), "md5ab");
        assert!(Method::parse(&"rot13".into()).is_err());
    }
}
