//! `x509.crl_managed`.

use std::path::Path;

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::{CrlManaged, Plan, error_as_failure, file_from_kwargs, unknown};
use crate::exec::x509::format::containers::{Encoding, OF_REQUESTS};
use crate::exec::x509::format::crl::{Draft, List};
use crate::exec::x509::format::der::stamp;
use crate::exec::x509::format::issue::{check_digest, digest_of, in_days};
use crate::exec::x509::format::pem;

/// The extension with the number of the list, which an authority increases with each list.
const NUMBER: &str = "cRLNumber";

pub(super) fn crl_managed(cx: &Exec, args: CrlManaged) -> Result<Ret, Error> {
    let mut all = args.kwargs.clone();
    let file = file_from_kwargs(cx, &args.name, "certificate revocation list", &mut all);
    unknown(&all)?;
    let wanted = Wanted {
        name: &args.name,
        days_remaining: args.days_remaining.unwrap_or(30.0),
        digest: &args.digest,
        encoding_name: &args.encoding,
        extensions: args.extensions.as_map().cloned().unwrap_or_default(),
        all: Map::new()
            .with("signing_private_key", args.signing_private_key.clone())
            .with("revoked", args.revoked.clone())
            .with("signing_cert", args.signing_cert.clone())
            .with(
                "signing_private_key_passphrase",
                args.signing_private_key_passphrase.clone(),
            )
            .with("include_expired", args.include_expired)
            .with("days_valid", args.days_valid.unwrap_or(100.0)),
    };
    error_as_failure(file.run(|there| wanted.plan(cx, there)))
}

/// The wanted properties of a revocation list.
struct Wanted<'a> {
    name: &'a str,
    days_remaining: f64,
    digest: &'a str,
    encoding_name: &'a str,
    extensions: Map,
    /// The other arguments of `create_crl`.
    all: Map,
}

impl<'a> Wanted<'a> {
    fn plan(self, cx: &'a Exec, file: Option<&Path>) -> Result<Plan<'a>, Error> {
        let encoding = Encoding::parse(self.encoding_name, OF_REQUESTS)?;
        check_digest(self.digest)?;
        let mut changes = Map::new();
        let current = match file {
            Some(path) => List::from_bytes(&pem::file(path)?),
            None => None,
        };
        match &current {
            Some((current, is_pem)) => changes = self.changes(cx, current, *is_pem)?,
            None if file.is_some() => drop(changes.insert("replaced", self.name)),
            None => drop(changes.insert("created", self.name)),
        }
        let is_there = current.is_some();
        let is_same = changes.keys().all(|key| key.as_str() == Some("encoding"));
        Ok(Plan {
            is_there,
            encoding,
            encrypts: false,
            changes,
            make: Box::new(move || {
                let der = match current {
                    Some((current, _)) if is_same => current.der,
                    current => self.made(cx, current.map(|(current, _)| current))?,
                };
                Ok(encoding.bytes("X509 CRL", der))
            }),
        })
    }

    fn counts(&self) -> bool {
        self.extensions.get(NUMBER).and_then(Value::as_str) == Some("auto")
    }

    /// Returns the arguments of `create_crl`. A list number of `auto` is replaced by the given
    /// number, or removed if there is none.
    fn with_number(&self, number: Option<Value>) -> Map {
        let mut extensions = self.extensions.clone();
        if self.counts() {
            match number {
                Some(number) => drop(extensions.insert(NUMBER, number)),
                None => drop(extensions.remove(NUMBER)),
            }
        }
        self.all.clone().with("extensions", extensions)
    }

    fn made(&self, cx: &Exec, current: Option<List>) -> Result<Vec<u8>, Error> {
        let number = current.map_or_else(|| 1.into(), |current| current.next_number());
        let draft = Draft::from_arguments(cx, &self.with_number(Some(number)))?;
        draft.signed(cx, self.digest)
    }

    fn changes(&self, cx: &Exec, current: &List, is_pem: bool) -> Result<Map, Error> {
        let mut changes = Map::new();
        if let Some(digest) = digest_of(&current.algorithm)
            && digest != self.digest.to_lowercase()
        {
            changes.insert("digest", self.digest);
        }
        if is_pem != (self.encoding_name == "pem") {
            changes.insert("encoding", self.encoding_name);
        }
        let is_short = current.next_update < stamp(in_days(self.days_remaining)?);
        if self.days_remaining != 0.0 && is_short {
            changes.insert("expiration", true);
        }
        // A list number of `auto` is compared as the current number of the list, if there is one.
        let number = current.number().or_else(|| self.counts().then(|| 1.into()));
        let draft = Draft::from_arguments(cx, &self.with_number(number))?;
        changes.update(draft.changes(cx, current)?);
        Ok(changes)
    }
}
