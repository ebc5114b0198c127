//! The `pkg` execution module: what the repositories have.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::pkg::{self, transaction};

state::exec_module! {
    /// Packages.
    mod pkg;

    /// Return the newest version of a package, or of each of several; an empty text where what is installed is as new.
    fn latest_version(LatestVersion {
        *rest,
        ..kwargs
    });

    /// The same as `latest_version`.
    fn available_version(AvailableVersion {
        *rest,
        ..kwargs
    });

    /// Return the versions of the repositories: of these packages, or of all.
    fn list_repo_pkgs(ListRepoPkgs {
        *rest,
        ..kwargs
    });

    /// List what an upgrade would install.
    fn list_upgrades(ListUpgrades {
        /// Read the repositories' lists anew first.
        refresh: bool = true,
        /// Count what needs other packages to be installed or removed.
        dist_upgrade: bool = true,
        ..kwargs
    });

    /// Whether there is a newer version of a package.
    fn upgrade_available(UpgradeAvailable {
        /// Its name.
        name: String,
        ..kwargs
    });

    /// Return what zypper says of packages.
    fn info_available(InfoAvailable {
        *rest,
        ..kwargs
    });

    /// Return what the repositories say of packages.
    fn show(Show {
        *rest,
        ..kwargs
    });
}

fn names(given: &[Value]) -> Result<Vec<String>, Error> {
    let names: Vec<String> = given.iter().map(Value::to_text).collect();
    match names.iter().find(|name| name.starts_with('-')) {
        Some(option) => Err(Error::refused(format!(
            "{option:?} is no name of a package"
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
    let provider = pkg::provider(cx)?;
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
    Ok(pkg::provider(cx)?
        .available(cx, &names, &args.kwargs)?
        .into())
}

fn list_upgrades(cx: &Exec, args: ListUpgrades) -> Result<Value, Error> {
    let provider = pkg::provider(cx)?;
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
    let (provider, mut names) = (pkg::provider(cx)?, names(&args.rest)?);
    value::sorted::sort(&mut names);
    names.dedup();
    if names.is_empty() {
        return Ok(Map::new().into());
    }
    if args.kwargs.get("refresh").is_none_or(Value::is_true) {
        transaction::refresh(cx, provider, &args.kwargs)?;
    }
    Ok(provider.show(cx, &names, &args.kwargs)?.into())
}

fn show(cx: &Exec, args: Show) -> Result<Value, Error> {
    let provider = pkg::provider(cx)?;
    if args.kwargs.get("refresh").is_some_and(Value::is_true) {
        transaction::refresh(cx, provider, &Map::new())?;
    }
    match names(&args.rest)? {
        names if names.is_empty() => Ok(Map::new().into()),
        names => Ok(provider.show(cx, &names, &args.kwargs)?.into()),
    }
}
