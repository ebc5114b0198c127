//! [`Source`]: the program, file or server that knows a user's password.

use state::exec::Exec;
use state::module::Error;
use state::opts::Opts;
use value::Map;

use crate::cluster::tokens::is_equal;
use crate::jobs::hosts;

use super::{Eauth, Known, custom, file, ldap, pam, rest};

/// The kinds that are built in.
const KINDS: [&str; 6] = ["auto", "file", "ldap", "pam", "rest", "sharedsecret"];

/// A source of `external_auth`. Its functions block.
pub(super) struct Source {
    eauth: String,
    /// The settings and rules of the source.
    pub(super) table: Map,
    pub(super) cx: Exec,
}

impl Source {
    pub(super) fn new(service: &Eauth, eauth: &str) -> Self {
        Self {
            eauth: eauth.to_owned(),
            table: service.table(eauth).cloned().unwrap_or_default(),
            cx: hosts::context(&service.opts, service.registry, &service.events),
        }
    }

    pub(super) fn opts(&self) -> &Opts {
        self.cx.opts()
    }

    /// Returns a setting of the source, which begins with a circumflex.
    pub(super) fn setting(&self, name: &str) -> Option<String> {
        let value = self.table.get(&format!("^{name}"))?;
        Some(value.to_text())
    }

    /// Checks a password. Returns `None` if it is wrong. A custom module goes before a built-in source
    /// of its name.
    pub(super) fn check(&self, name: &str, password: &str) -> Result<Option<Known>, Error> {
        if custom::has(self, &self.eauth) || !KINDS.contains(&self.eauth.as_str()) {
            return custom::check(self, &self.eauth, name, password);
        }
        let known = match self.eauth.as_str() {
            "auto" => Some(Known::default()),
            "file" => file::check(self, name, password)?.then(Known::default),
            "ldap" => ldap::check(self, name, password)?,
            "pam" => pam::check(self, name, password)?,
            "rest" => rest::check(self, name, password)?,
            _ => shared_secret(self.opts(), password).then(Known::default),
        };
        self.with_acl(known, name, password)
    }

    /// Adds the rules of the module of `eauth_acl_module`, if one is configured.
    fn with_acl(
        &self,
        known: Option<Known>,
        name: &str,
        password: &str,
    ) -> Result<Option<Known>, Error> {
        let module = self.opts().text("eauth_acl_module");
        let module = module.filter(|module| !module.is_empty() && *module != self.eauth);
        match (known, module) {
            (Some(known), Some(module)) => Ok(Some(Known {
                acl: custom::acl(self, module, name, password)?,
                ..known
            })),
            (known, _) => Ok(known),
        }
    }
}

/// Compares a password with the option `sharedsecret`. Without the option, every password is wrong.
fn shared_secret(opts: &Opts, password: &str) -> bool {
    let secret = opts
        .text("sharedsecret")
        .filter(|secret| !secret.is_empty());
    secret.is_some_and(|secret| is_equal(secret, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_compared_whole() {
        assert!(is_equal("abc", "abc"));
        for other in ["abd", "ab", "abcd", ""] {
            assert!(!is_equal("abc", other), "{other}");
        }
        let opts = |secret: &str| Opts::new(Map::new().with("sharedsecret", secret));
        assert!(shared_secret(&opts("s"), "s"));
        assert!(!shared_secret(&opts("s"), "t"));
        assert!(!shared_secret(&opts(""), ""));
        assert!(!shared_secret(&Opts::new(Map::new()), ""));
    }
}
