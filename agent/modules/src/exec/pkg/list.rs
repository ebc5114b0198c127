//! The part of the `pkg` execution module that reports installed packages.

use state::exec::Exec;
use state::module::Error;
use value::glob::fnmatch;
use value::{Map, Value};

use crate::exec::pkg::providers::{self, listing};

state::exec_module! {
    /// Manage packages.
    mod pkg;

    /// List the installed packages with their versions.
    ///
    ///     salt-call pkg.list_pkgs
    fn list_pkgs(ListPkgs {
        /// True to return a list of versions for each package, instead of a text with commas.
        versions_as_list: bool = false,
        /// True to list the packages that are removed but whose configuration is kept.
        removed: bool = false,
        /// True to list the packages that are installed but marked to be purged.
        purge_desired: bool = false,
        ..kwargs
    });

    /// Return the installed version of a package, or a dictionary for several packages. Names may
    /// be globs.
    ///
    ///     salt-call pkg.version nginx
    fn version(Version {
        *rest,
        ..kwargs
    });

    /// Return the name and the version of each package file that was downloaded and not removed
    /// since.
    ///
    ///     salt-call pkg.list_downloaded
    fn list_downloaded(ListDownloaded {
        /// The root folder of another system.
        root: Option<String> = None,
        ..kwargs
    });

    /// Return the name under which a package is listed.
    ///
    ///     salt-call pkg.normalize_name nginx:amd64
    fn normalize_name(NormalizeName {
        /// The name, with or without an architecture.
        name: String,
    });

    /// Split the name of a package into name and architecture.
    ///
    ///     salt-call pkg.parse_arch nginx:amd64
    fn parse_arch(ParseArch {
        /// The name, with or without an architecture.
        name: String,
    });

    /// Remove the packages that no other package needs any more.
    ///
    ///     salt-call pkg.autoremove list_only=True
    fn autoremove(Autoremove {
        /// True to list the packages without removing them.
        list_only: bool = false,
        /// True to remove their configuration files too.
        purge: bool = false,
    });
}

fn list_pkgs(cx: &Exec, args: ListPkgs) -> Result<Value, Error> {
    if args.kwargs.get("root").is_some_and(Value::is_true) {
        return Err("pkg.list_pkgs only lists packages of this machine: leave out root".into());
    }
    let listed = listing::listed(cx, providers::provider(cx)?)?;
    let packages = match args.removed {
        true => listed.removed,
        false if args.purge_desired => listed.purge_desired,
        false => listed.here(),
    };
    Ok(match args.versions_as_list {
        true => packages,
        false => listing::stringified(&packages),
    }
    .into())
}

fn version(cx: &Exec, args: Version) -> Result<Value, Error> {
    let as_list = args.kwargs.get("versions_as_list");
    let as_list = as_list.is_some_and(Value::is_true);
    let mut found = Map::new();
    if !args.rest.is_empty() {
        let packages = listing::listed(cx, providers::provider(cx)?)?.here();
        for name in args.rest.iter().map(Value::to_text) {
            if name.contains('*') {
                let matching = packages.iter();
                let matching = matching.filter(|(package, _)| fnmatch(&name, &package.to_text()));
                found.extend(matching.map(|(name, versions)| (name.clone(), versions.clone())));
            } else {
                let versions = packages.get(&name).cloned();
                found.insert(name, versions.unwrap_or_else(|| Value::list([])));
            }
        }
    }
    let globbed = args.rest.iter().any(|name| name.to_text().contains('*'));
    let shown = match as_list {
        true => found,
        false => listing::stringified(&found),
    };
    match shown.first() {
        Some((_, version)) if shown.len() == 1 && !globbed => Ok(version.clone()),
        _ => Ok(shown.into()),
    }
}

fn list_downloaded(cx: &Exec, args: ListDownloaded) -> Result<Value, Error> {
    let provider = providers::provider(cx)?;
    let found = providers::downloads::listed(cx, provider, args.root.as_deref().unwrap_or("/"))?;
    Ok(found.into())
}

fn normalize_name(cx: &Exec, args: NormalizeName) -> Result<Value, Error> {
    Ok(providers::provider(cx)?.normalize(cx, &args.name).into())
}

fn parse_arch(cx: &Exec, args: ParseArch) -> Result<Value, Error> {
    Ok(providers::parse_arch(cx, &args.name).into())
}

fn autoremove(cx: &Exec, args: Autoremove) -> Result<Value, Error> {
    providers::transaction::autoremove(cx, providers::provider(cx)?, args.list_only, args.purge)
}
