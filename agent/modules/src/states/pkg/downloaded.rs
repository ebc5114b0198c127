//! `pkg.downloaded`.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use super::installed::is_installed;
use super::{Downloaded, Named, alone, is_empty_list, names, pinned_all, text};
use crate::exec::pkg::providers::transaction::{self, Install};
use crate::exec::pkg::providers::{Packages, Provider, downloads, listing, spec, targets};

pub(super) fn run(cx: &Exec, provider: &dyn Provider, args: &Downloaded) -> Result<Ret, Error> {
    if provider.downloads().is_none() {
        let comment = "The pkg.downloaded state is not available on this platform";
        return Ok(Ret::failed(comment));
    }
    if is_empty_list(&args.pkgs) {
        return Ok(Ret::ok("No packages to download provided"));
    }
    let pkgs = match args.pkgs.is_true() {
        true => args.pkgs.clone(),
        false => alone(&args.name.as_str().into(), text(&args.version).as_deref()),
    };
    let there = there(cx, provider)?;
    let targets = match find(cx, provider, args, &pkgs, &there)? {
        Ok(targets) => targets,
        Err(ret) => return Ok(ret),
    };
    let would = format!(
        "The following packages would be downloaded: {}",
        names(&targets)
    );
    cx.apply(Ret::would(would), || {
        fetched(cx, provider, args, pkgs, &targets)
    })
}

fn there(cx: &Exec, provider: &dyn Provider) -> Result<Packages, Error> {
    Ok(downloads::versions(&downloads::listed(cx, provider, "/")?))
}

/// Returns the packages to download. The inner error is the state's return if there are none.
fn find(
    cx: &Exec,
    provider: &dyn Provider,
    args: &Downloaded,
    pkgs: &Value,
    there: &Packages,
) -> Result<Result<Named, Ret>, Error> {
    let Some(wanted) = targets::repacked(cx, provider, pkgs, true)? else {
        let comment = "Invalidly formatted pkgs parameter. See minion log.";
        return Ok(Err(Ret::failed(comment)));
    };
    let (mut targets, mut version_spec) = (Named::new(), false);
    for one in wanted {
        let versions = listing::versions_of(there, &one.name);
        let version = one.version.as_deref().filter(|version| !version.is_empty());
        version_spec |= version.is_some() && !versions.is_empty();
        let is_met =
            |version: &str| spec::is_met(provider, &versions, version, args.ignore_epoch, false);
        if versions.is_empty() || !version.is_none_or(is_met) {
            targets.push((one.name, one.version));
        }
    }
    if !targets.is_empty() {
        return Ok(Ok(targets));
    }
    let matching = if version_spec {
        " (matching specified versions)"
    } else {
        ""
    };
    let comment = format!("All specified packages{matching} are already downloaded");
    Ok(Err(Ret::ok(comment)))
}

fn fetched(
    cx: &Exec,
    provider: &dyn Provider,
    args: &Downloaded,
    pkgs: Value,
    targets: &Named,
) -> Result<Ret, Error> {
    let install = Install {
        pkgs,
        fromrepo: args.fromrepo.clone(),
        downloadonly: true,
        ignore_epoch: args.ignore_epoch.unwrap_or(false),
        normalize: true,
        kwargs: args.kwargs.clone(),
        ..Install::default()
    };
    let changes = match transaction::install(cx, provider, &install) {
        Ok(changes) => changes,
        Err(failed) => return Ok(failed.ret("downloading package(s)")),
    };
    let there = there(cx, provider)?;
    let is_missing = |one: &&(String, Option<String>)| {
        !is_installed(cx, provider, one, &there, args.ignore_epoch)
    };
    let missing: Named = targets.iter().filter(is_missing).cloned().collect();
    Ok(match missing.is_empty() {
        true => Ret::ok(format!("Packages downloaded: {}", names(targets))),
        false => Ret::failed(format!(
            "The following packages failed to download: {}",
            pinned_all(&missing)
        )),
    }
    .changes(changes))
}
