//! The part of the `pkg` execution module that reports packages of the repositories.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::pkg::providers::{self, transaction};

state::exec_module! {
    /// Manage packages.
    mod pkg;

    /// Return the newest available version of a package, or an empty text if the installed version
    /// is as new. With several packages, return a dictionary.
    ///
    ///     salt-call pkg.latest_version nginx
    fn latest_version(LatestVersion {
        *rest,
        ..kwargs
    });

    /// The same as `pkg.latest_version`.
    ///
    ///     salt-call pkg.available_version nginx
    fn available_version(AvailableVersion {
        *rest,
        ..kwargs
    });

    /// Return the versions that the repositories have of these packages, or of all packages.
    ///
    ///     salt-call pkg.list_repo_pkgs nginx
    fn list_repo_pkgs(ListRepoPkgs {
        *rest,
        ..kwargs
    });

    /// List the upgrades that are available.
    ///
    ///     salt-call pkg.list_upgrades
    fn list_upgrades(ListUpgrades {
        /// True to refresh the package lists of the repositories first.
        refresh: bool = true,
        /// True to include upgrades that need other packages to be installed or removed.
        dist_upgrade: bool = true,
        ..kwargs
    });

    /// Return True when a newer version of a package is available.
    ///
    ///     salt-call pkg.upgrade_available nginx
    fn upgrade_available(UpgradeAvailable {
        /// The name of the package.
        name: String,
        ..kwargs
    });

    /// Return the information of zypper about packages.
    ///
    ///     salt-call pkg.info_available nginx
    fn info_available(InfoAvailable {
        *rest,
        ..kwargs
    });

    /// Return the information of the repositories about packages.
    ///
    ///     salt-call pkg.show nginx
    fn show(Show {
        *rest,
        ..kwargs
    });
}

fn names(given: &[Value]) -> Result<Vec<String>, Error> {
    let names: Vec<String> = given.iter().map(Value::to_text).collect();
    match names.iter().find(|name| name.starts_with('-')) {
        Some(option) => Err(Error::refused(format!(
            "invalid package name {option:?}: it starts with `-`"
        ))),
        None => Ok(names),
    }
}

fn latest_version(cx: &Exec, args: LatestVersion) -> Result<Value, Error> {
    newest(cx, &args.rest, args.kwargs)
}

fn available_version(cx: &Exec, args: AvailableVersion) -> Result<Value, Error> {
    newest(cx, &args.rest, args.kwargs)
}

fn newest(cx: &Exec, rest: &[Value], kwargs: Map) -> Result<Value, Error> {
    if kwargs.contains("repo") {
        return Err("The 'repo' argument is invalid, use 'fromrepo' instead".into());
    }
    let names = names(rest)?;
    if names.is_empty() {
        return Ok("".into());
    }
    let provider = providers::provider(cx)?;
    if kwargs.get("refresh").is_none_or(Value::is_true) {
        transaction::refresh(cx, provider, &kwargs)?;
    }
    let latest = provider.latest(cx, &names, &kwargs)?;
    match (latest.first(), names.as_slice()) {
        (Some((_, version)), [_]) if latest.len() == 1 => Ok(version.clone()),
        _ => Ok(latest.into()),
    }
}

fn list_repo_pkgs(cx: &Exec, args: ListRepoPkgs) -> Result<Value, Error> {
    let names = names(&args.rest)?;
    Ok(providers::provider(cx)?
        .available(cx, &names, &args.kwargs)?
        .into())
}

fn list_upgrades(cx: &Exec, args: ListUpgrades) -> Result<Value, Error> {
    let provider = providers::provider(cx)?;
    if args.refresh {
        transaction::refresh(cx, provider, &args.kwargs)?;
    }
    let kwargs = args.kwargs.with("dist_upgrade", args.dist_upgrade);
    Ok(provider.upgrades(cx, &kwargs)?.into())
}

fn upgrade_available(cx: &Exec, args: UpgradeAvailable) -> Result<Value, Error> {
    let latest = newest(cx, &[args.name.into()], args.kwargs)?;
    Ok((latest.as_str() != Some("")).into())
}

fn info_available(cx: &Exec, args: InfoAvailable) -> Result<Value, Error> {
    let (provider, mut names) = (providers::provider(cx)?, names(&args.rest)?);
    value::sorted::sort(&mut names);
    names.dedup();
    if names.is_empty() {
        return Ok(Map::new().into());
    }
    if args.kwargs.get("refresh").is_none_or(Value::is_true) {
        transaction::refresh(cx, provider, &args.kwargs)?;
    }
    let descriptions = provider.require(provider.descriptions(), "show")?;
    Ok(descriptions.describe(cx, &names, &args.kwargs)?.into())
}

fn show(cx: &Exec, args: Show) -> Result<Value, Error> {
    let provider = providers::provider(cx)?;
    if args.kwargs.get("refresh").is_some_and(Value::is_true) {
        transaction::refresh(cx, provider, &Map::new())?;
    }
    let names = names(&args.rest)?;
    if names.is_empty() {
        return Ok(Map::new().into());
    }
    let descriptions = provider.require(provider.descriptions(), "show")?;
    Ok(descriptions.describe(cx, &names, &args.kwargs)?.into())
}
