//! Signing policies of this machine and of other minions, which sign on request.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::format::issue::{given, renamed};
use super::format::keys::{self, Private};
use super::format::parts::{Parts, Request};
use super::format::pem;

/// The function that signs on another minion.
const SIGN: &str = "x509.sign_remote_certificate";

/// The maximum time in seconds that another machine may take to sign.
const REMOTE_S: i64 = 60;

/// Requests the signature from another minion.
pub(super) fn remote(cx: &Exec, server: &str, policy: &str, mut args: Map) -> Result<Parts, Error> {
    let passphrase = args
        .remove("private_key_passphrase")
        .filter(Value::is_true)
        .map(|text| text.to_text());
    let key = match args.remove("private_key").filter(Value::is_true) {
        Some(private) => Some(Private::load(cx, &private, passphrase.as_deref())?.key),
        None => {
            let public = given(&args, "public_key").filter(|key| key.is_true());
            public
                .map(|public| keys::public(cx, public, None))
                .transpose()?
        }
    };
    if let Some(key) = key {
        args.insert("public_key", pem::text("PUBLIC KEY", &key));
    }
    if let Some(request) = given(&args, "csr").filter(|csr| csr.is_true()) {
        let der = Request::der(request)?;
        args.insert("csr", pem::text("CERTIFICATE REQUEST", &der));
    }
    args.retain(|_, value| !value.is_null());
    let told = call_ca_server(cx, server, SIGN, [policy.into(), args.into(), false.into()])?;
    Parts::load(&told).map_err(|_| {
        Error::refused(format!(
            "ca_server did not return a certificate: {}",
            told.to_text()
        ))
    })
}

/// Calls a function that signs on another minion, and returns its data.
///
/// # Errors
/// When the other minion does not answer, or refuses.
pub(crate) fn call_ca_server(
    cx: &Exec,
    server: &str,
    fun: &str,
    args: [Value; 3],
) -> Result<Value, Error> {
    let options = Map::new()
        .with("arg", Value::list(args))
        .with("timeout", REMOTE_S);
    let told = cx.call_internal("publish.publish", vec![server.into(), fun.into()], options)?;
    let first = told
        .as_map()
        .and_then(Map::first)
        .map(|(_, answer)| answer.clone());
    let answer = first.ok_or("ca_server did not respond. Salt master must permit peers to call the sign_remote_certificate function.")?;
    let errors = answer.get("errors").map(Value::texts).unwrap_or_default();
    if !errors.is_empty() {
        return Err(Error::refused(format!(
            "ca_server reported errors:\n{}",
            errors.join("\n")
        )));
    }
    let data = answer.get("data").cloned();
    data.ok_or_else(|| {
        "Received invalid return value from ca_server. See minion log for details".into()
    })
}

/// Returns a signing policy of the pillar or the configuration of this machine; empty if no name is
/// given.
///
/// # Errors
/// When the pillar cannot be read.
pub(crate) fn own_policy(cx: &Exec, name: Option<&str>) -> Result<Map, Error> {
    policy_of(cx, "x509_signing_policies", name)
}

/// Returns a signing policy of an option or of the pillar's value of this name.
///
/// # Errors
/// When the pillar cannot be read.
pub(crate) fn policy_of(cx: &Exec, option: &str, name: Option<&str>) -> Result<Map, Error> {
    let Some(name) = name else {
        return Ok(Map::new());
    };
    let of = |all: Option<&Value>| {
        all.and_then(|all| all.get(name))
            .filter(|policy| policy.is_true())
            .cloned()
    };
    let policy = match of(cx.pillar()?.get(option)) {
        Some(policy) => Some(policy),
        None => of(Some(&cx.call_internal(
            "config.get",
            vec![option.into(), Map::new().into()],
            Map::new(),
        )?)),
    };
    Ok(match policy {
        Some(Value::Map(policy)) => policy,
        Some(Value::List(items)) => items
            .iter()
            .filter_map(Value::as_map)
            .flat_map(Map::iter)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
        _ => Map::new(),
    })
}

/// Returns a signing policy of this machine or another minion. Its settings have their newer names.
///
/// # Errors
/// When the pillar cannot be read, or the other minion does not answer.
pub(crate) fn policy(cx: &Exec, name: Option<&str>, ca_server: Option<&str>) -> Result<Map, Error> {
    let mut policy = match (ca_server, name) {
        (Some(server), Some(name)) => {
            let args = [name.into(), Map::new().into(), true.into()];
            let told = call_ca_server(cx, server, SIGN, args)?;
            told.as_map().cloned().unwrap_or_default()
        }
        _ => own_policy(cx, name)?,
    };
    renamed(&mut policy);
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{exec, exec_with};

    /// Attack A17: a minion that requests a certificate names a key of the authority.
    #[test]
    fn a_requesting_minion_does_not_choose_the_signing_key_of_the_authority() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        std::fs::write(&path, keys::generate(&exec(), "ec", None, None).unwrap()).unwrap();
        let path = path.display().to_string();
        let sign = |policy: Map, named: &str| {
            let policies = Map::new().with("www", policy.with("minions", "web*"));
            let opts = Map::new().with("x509_signing_policies", policies);
            let kwargs = Map::new().with("CN", "web1").with(named, path.as_str());
            let by = Map::new().with("__pub_id", "web1");
            let answer = exec_with(opts, Map::new())
                .call(SIGN, vec!["www".into(), kwargs.into()], by)
                .unwrap();
            answer.get("data").cloned().unwrap()
        };
        let keyless = || Map::new().with("days_valid", 10);
        let with_key = || keyless().with("signing_private_key", path.as_str());
        assert!(sign(with_key(), "public_key").is_true());
        assert_eq!(sign(keyless(), "signing_private_key"), Value::Null);
        let own = sign(with_key(), "private_key");
        assert!(own.is_true(), "the key of the policy signs");
    }
}
