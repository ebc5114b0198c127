//! The `pkg` execution module: what is installed.

use state::exec::Exec;
use state::module::Error;
use value::glob::fnmatch;
use value::{Map, Value};

use crate::pkg::{self, listing};

state::exec_module! {
    /// Packages.
    mod pkg;

    /// List the installed packages with their versions.
    fn list_pkgs(ListPkgs {
        /// Give each package a list of versions, and not one text with commas.
        versions_as_list: bool = false,
        /// List those that are removed, with their configuration kept.
        removed: bool = false,
        /// List those that are installed and to be purged.
        purge_desired: bool = false,
        ..kwargs
    });

    /// Return the installed version of a package, or of each of several; names may be globs.
    fn version(Version {
        *rest,
        ..kwargs
    });

    /// Return name and version of each package file that was downloaded and not removed.
    fn list_downloaded(ListDownloaded {
        /// A folder that is the root of another system.
        root: Option<String> = None,
        ..kwargs
    });

    /// Return the name under which a package is listed.
    fn normalize_name(NormalizeName {
        /// The name, perhaps with an architecture.
        name: String,
    });

    /// Take the architecture off the name of a package.
    fn parse_arch(ParseArch {
        /// The name, perhaps with an architecture.
        name: String,
    });

    /// Remove the packages that nothing needs any more.
    fn autoremove(Autoremove {
        /// Only list them.
        list_only: bool = false,
        /// Remove their configuration too.
        purge: bool = false,
    });
}

fn list_pkgs(cx: &Exec, args: ListPkgs) -> Result<Value, Error> {
    if args.kwargs.get("root").is_some_and(Value::is_true) {
        return Err(
            "pkg.list_pkgs lists the packages of this machine alone: leave out root".into(),
        );
    }
    let listed = listing::listed(cx, pkg::provider(cx)?)?;
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
        let packages = listing::listed(cx, pkg::provider(cx)?)?.here();
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
    let provider = pkg::provider(cx)?;
    let found = pkg::downloads::listed(cx, provider, args.root.as_deref().unwrap_or("/"))?;
    Ok(found.into())
}

fn normalize_name(cx: &Exec, args: NormalizeName) -> Result<Value, Error> {
    Ok(pkg::provider(cx)?.normalize(cx, &args.name).into())
}

fn parse_arch(cx: &Exec, args: ParseArch) -> Result<Value, Error> {
    Ok(pkg::parse_arch(cx, &args.name).into())
}

fn autoremove(cx: &Exec, args: Autoremove) -> Result<Value, Error> {
    pkg::transaction::autoremove(cx, pkg::provider(cx)?, args.list_only, args.purge)
}
