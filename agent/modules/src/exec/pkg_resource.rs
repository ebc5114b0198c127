//! The `pkg_resource` execution module: what the package modules share.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use crate::pkg::{self, Wanted, listing, spec, targets};
use crate::version::loose;

state::exec_module! {
    /// What the package modules share.
    mod pkg_resource;

    /// Return the installed version of a package, or of each of several; names may be globs.
    fn version(Version {
        *rest,
        ..kwargs
    });

    /// Whether a comparison of two versions holds, whatever the package manager.
    fn version_compare(VersionCompare {
        /// The one version.
        ver1: Value,
        /// `==`, `!=`, `<`, `<=`, `>` or `>=`.
        oper: String,
        /// The other.
        ver2: Value,
        /// Leave out what stands before the colon.
        ignore_epoch: bool = false,
    });

    /// Return a version as it is compared: as it is.
    fn version_clean(VersionClean {
        /// The version.
        verstr: Value,
    });

    /// Whether a package is there with everything that is asked for besides its version.
    fn check_extra_requirements(CheckExtraRequirements {
        /// Its name.
        pkgname: Value,
        /// Its version.
        pkgver: Value,
    });

    /// Return package files by the names of their packages.
    fn pack_sources(PackSources {
        /// A list of names, each with a URL or path.
        sources: Value,
        /// Leave out the machine's own architecture in names.
        normalize: bool = true,
    });

    /// Return the packages that arguments of `pkg.install` name, and whether they come from a repository or from files.
    fn parse_targets(ParseTargets {
        /// A package, or several with commas between.
        name: Option<String> = None,
        /// Packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        /// Package files, each a name with a URL or path.
        sources: Value = Value::Null,
        /// The environment that files come from.
        saltenv: String = "base".into(),
        /// Leave out the machine's own architecture in names.
        normalize: bool = true,
        ..kwargs
    });

    /// Return a list of packages as `pkg.list_pkgs` is asked for it.
    fn format_pkg_list(FormatPkgList {
        /// By name a list of what is known of each version.
        packages: Map,
        /// Give each package a list of versions, and not one text with commas.
        versions_as_list: bool,
        /// What is returned of each version in place of its text, or `all`.
        attr: Value,
    });

    /// Put a version together.
    fn format_version(FormatVersion {
        /// What stands before the colon.
        epoch: Value,
        /// The version.
        version: Value,
        /// What stands after the dash.
        release: Value,
    });
}

fn version(cx: &Exec, args: Version) -> Result<Value, Error> {
    cx.call_internal("pkg.version", args.rest, args.kwargs)
}

fn version_compare(_: &Exec, args: VersionCompare) -> Result<Value, Error> {
    let (one, other) = (args.ver1.to_text(), args.ver2.to_text());
    let order = match args.ignore_epoch {
        true => loose(spec::without_epoch(&one), spec::without_epoch(&other)),
        false => loose(&one, &other),
    };
    Ok(spec::is(order, &args.oper).into())
}

fn version_clean(_: &Exec, args: VersionClean) -> Result<Value, Error> {
    Ok(args.verstr)
}

fn check_extra_requirements(_: &Exec, _: CheckExtraRequirements) -> Result<Value, Error> {
    Ok(true.into())
}

/// Sources by name; none where they are no list of them.
fn packed(cx: &Exec, sources: &Value, normalize: bool) -> Result<Vec<(String, String)>, Error> {
    let provider = pkg::provider(cx)?;
    Ok(targets::sources(cx, provider, sources, normalize)?.unwrap_or_default())
}

fn pack_sources(cx: &Exec, args: PackSources) -> Result<Value, Error> {
    let sources = packed(cx, &args.sources, args.normalize)?;
    let pairs = sources.into_iter();
    Ok(pairs
        .map(|(name, place)| (Value::from(name), Value::from(place)))
        .collect())
}

fn parse_targets(cx: &Exec, args: ParseTargets) -> Result<Value, Error> {
    let (targets, kind) = match parsed(cx, &args)? {
        Some((targets, kind)) => (targets, kind.into()),
        None => (Value::Null, Value::Null),
    };
    Ok(Value::Tuple(vec![targets, kind].into()))
}

/// What is to be installed, and where it comes from; nothing where that is not said as it should be.
fn parsed(cx: &Exec, args: &ParseTargets) -> Result<Option<(Value, &'static str)>, Error> {
    let (has_pkgs, has_sources) = (args.pkgs.is_true(), args.sources.is_true());
    let version = args
        .kwargs
        .get("version")
        .filter(|version| !version.is_null());
    if has_pkgs && has_sources {
        log::error("Only one of \"pkgs\" and \"sources\" can be used.");
        return Ok(None);
    }
    if let Some(ids) = args.kwargs.get("advisory_ids") {
        if has_pkgs {
            log::error("Cannot use \"advisory_ids\" and \"pkgs\" at the same time");
            return Ok(None);
        }
        let named = Value::list([args.name.clone().into()]);
        let ids = Some(ids).filter(|ids| ids.is_true()).cloned();
        return Ok(Some((ids.unwrap_or(named), "advisory")));
    }
    if version.is_some() && (has_pkgs || has_sources) {
        log::warning("'version' argument will be ignored for multiple package targets");
    }
    if has_sources {
        let files = files(cx, args)?;
        return Ok((!files.is_empty()).then(|| (files.into(), "file")));
    }
    let (provider, name) = (pkg::provider(cx)?, args.name.as_deref());
    let wanted = targets::of(cx, provider, name, &args.pkgs, args.normalize)?;
    if wanted.is_empty() && !has_pkgs {
        log::error("No package sources provided");
    }
    let version_of = |one: Wanted| match (has_pkgs, one.version) {
        (true, version) => version.into(),
        (false, _) => version.cloned().unwrap_or_default(),
    };
    let names = wanted.into_iter();
    let pairs = names.map(|one| (Value::from(one.name.as_str()), version_of(one)));
    let pairs: Map = pairs.collect();
    Ok((!pairs.is_empty()).then(|| (pairs.into(), "repository")))
}

/// The package files, once they are fetched.
fn files(cx: &Exec, args: &ParseTargets) -> Result<Vec<String>, Error> {
    let kwargs = Map::new().with("saltenv", args.saltenv.as_str());
    let sources = packed(cx, &args.sources, args.normalize)?;
    let files = sources.iter();
    files
        .map(|(name, place)| targets::fetched(cx, name, place, &kwargs))
        .collect()
}

/// What can be asked for of a version.
const ATTRIBUTES: [&str; 6] = [
    "epoch",
    "version",
    "release",
    "arch",
    "install_date",
    "install_date_time_t",
];

fn format_pkg_list(cx: &Exec, args: FormatPkgList) -> Result<Value, Error> {
    let mut all = Map::new();
    for (name, versions) in &args.packages {
        let name = name.to_text();
        for about in versions.as_list().unwrap_or_default() {
            let part = |key| about.get(key).cloned().unwrap_or_default();
            let (key, shown) = match args.attr.is_true() {
                true => attributes(cx, &name, about, &args.attr),
                false => (
                    name.clone(),
                    version_text(part("epoch"), part("version"), part("release")),
                ),
            };
            if let Some(list) = all.entry(key, || Value::list([])).as_list_mut() {
                list.push(shown);
            }
        }
    }
    Ok(match args.attr.is_true() || args.versions_as_list {
        true => all.into(),
        false => listing::stringified(&all).into(),
    })
}

/// What is asked for of a version, and the name of the package, without its architecture where that is told beside it.
fn attributes(cx: &Exec, name: &str, about: &Value, attr: &Value) -> (String, Value) {
    let asked = attr.texts();
    let is_asked = |key: &&str| {
        attr.as_str() == Some("all")
            || matches!(*key, "version" | "arch")
            || asked.iter().any(|one| one == key)
    };
    let known = ATTRIBUTES.into_iter().filter(is_asked);
    let shown: Map = known
        .filter_map(|key| Some((Value::from(key), about.get(key)?.clone())))
        .collect();
    let parts = pkg::parse_arch(cx, name);
    let arch = shown.get("arch").cloned().unwrap_or_default();
    let is_told = parts.get("arch") == Some(&arch);
    let bare = parts.get("name").filter(|_| is_told).map(Value::to_text);
    (bare.unwrap_or_else(|| name.to_owned()), shown.into())
}

fn format_version(_: &Exec, args: FormatVersion) -> Result<Value, Error> {
    Ok(version_text(args.epoch, args.version, args.release))
}

fn version_text(epoch: Value, version: Value, release: Value) -> Value {
    if !epoch.is_true() && !release.is_true() {
        return version;
    }
    let version = version.to_text();
    let epoch = match epoch.is_true() {
        true => format!("{}:", epoch.to_text()),
        false => String::new(),
    };
    let release = match release.is_true() {
        true => format!("-{}", release.to_text()),
        false => String::new(),
    };
    format!("{epoch}{version}{release}").into()
}
