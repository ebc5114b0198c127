//! `pkg.uptodate`.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::{Uptodate, change};
use crate::exec::pkg::providers::{Provider, listing, transaction};

pub(super) fn run(cx: &Exec, provider: &dyn Provider, args: &Uptodate) -> Result<Ret, Error> {
    let Some(refresh) = args.refresh.as_bool() else {
        return Ok(Ret::failed("refresh must be either True or False"));
    };
    let expected = match expected(cx, provider, args, refresh) {
        Ok(expected) => expected,
        Err(error) => return Ok(Ret::failed(error.to_string())),
    };
    if expected.is_empty() {
        return Ok(Ret::ok("System is already up-to-date"));
    }
    let would = Ret::would("System update will be performed").changes(expected.clone());
    cx.apply(would, || upgraded(cx, provider, args, refresh, &expected))
}

/// Returns the changes of an upgrade, restricted to the packages in `pkgs`.
fn expected(
    cx: &Exec,
    provider: &dyn Provider,
    args: &Uptodate,
    refresh: bool,
) -> Result<Map, Error> {
    if refresh {
        transaction::refresh(cx, provider, &args.kwargs)?;
    }
    let here = listing::stringified(&listing::listed(cx, provider)?.here());
    let matters = |name: &Value| args.pkgs.as_list().is_none_or(|pkgs| pkgs.contains(name));
    let upgrades = provider.upgrades(cx, &args.kwargs)?;
    let upgrades = upgrades.iter().filter(|(name, _)| matters(name));
    let expected = upgrades.map(|(name, version)| {
        let old = here.get_value(name).cloned().unwrap_or_else(|| "".into());
        (name.clone(), Value::from(change(old, version.clone())))
    });
    Ok(expected.collect())
}

fn upgraded(
    cx: &Exec,
    provider: &dyn Provider,
    args: &Uptodate,
    refresh: bool,
    expected: &Map,
) -> Result<Ret, Error> {
    if refresh {
        transaction::refresh(cx, provider, &args.kwargs)?;
    }
    let kwargs = args.kwargs.clone().with("pkgs", args.pkgs.clone());
    let changes = match transaction::upgrade(cx, provider, &kwargs) {
        Ok(changes) => changes,
        Err(failed) => return Ok(failed.ret("updating packages")),
    };
    let missing = expected.keys().filter(|name| !changes.contains_value(name));
    let missing: Vec<String> = missing.map(Value::to_text).collect();
    let ret = match missing.is_empty() || args.pkgs.as_list().is_none() {
        true => Ret::ok("Upgrade ran successfully"),
        false => Ret::failed(format!(
            "The following package(s) failed to update: {}",
            missing.join(", ")
        )),
    };
    Ok(ret.changes(changes))
}
