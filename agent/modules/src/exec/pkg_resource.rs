//! The `pkg_resource` execution module: functions that the package modules share.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use crate::exec::pkg::providers::{self, Wanted, listing, spec, targets};
use crate::exec::pkg::version::loose;

state::exec_module! {
    /// Functions that the package modules share.
    mod pkg_resource;

    /// Return the installed version of a package, or a dictionary for several packages. Names may
    /// be globs.
    ///
    ///     salt-call pkg_resource.version nginx
    fn version(Version {
        *rest,
        ..kwargs
    });

    /// Return True when a comparison of two versions holds, independent of the package manager.
    ///
    ///     salt-call pkg_resource.version_compare 1.22.1 '<' 1.24.0
    fn version_compare(VersionCompare {
        /// The first version.
        ver1: Value,
        /// The operator: `==`, `!=`, `<`, `<=`, `>` or `>=`.
        oper: String,
        /// The second version.
        ver2: Value,
        /// True to ignore the epoch (the part before the colon).
        ignore_epoch: bool = false,
    });

    /// Return a version in the form in which it is compared, which is the version itself.
    ///
    ///     salt-call pkg_resource.version_clean 1:1.22.1
    fn version_clean(VersionClean {
        /// The version.
        verstr: Value,
    });

    /// Return True when an installed package meets the requirements other than its version. Always
    /// True.
    ///
    ///     salt-call pkg_resource.check_extra_requirements nginx 1.22.1
    fn check_extra_requirements(CheckExtraRequirements {
        /// The name of the package.
        pkgname: Value,
        /// The version of the package.
        pkgver: Value,
    });

    /// Return a dictionary of package files with the names of their packages as keys.
    ///
    ///     salt-call pkg_resource.pack_sources '[{app: salt://app.deb}]'
    fn pack_sources(PackSources {
        /// A list of names, each with a URL or path.
        sources: Value,
        /// True to omit the native architecture of the machine from names.
        normalize: bool = true,
    });

    /// Return the packages that arguments of `pkg.install` name, and whether they come from a
    /// repository or from files.
    ///
    ///     salt-call pkg_resource.parse_targets nginx
    fn parse_targets(ParseTargets {
        /// The name of a package, or several names separated by commas.
        name: Option<String> = None,
        /// A list of packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        /// A list of package files, each a name with a URL or path.
        sources: Value = Value::Null,
        /// The environment to fetch files from.
        saltenv: String = "base".into(),
        /// True to omit the native architecture of the machine from names.
        normalize: bool = true,
        ..kwargs
    });

    /// Format a list of packages for `pkg.list_pkgs`.
    ///
    ///     salt-call pkg_resource.format_pkg_list '{nginx: [{version: 1.22.1}]}' True version
    fn format_pkg_list(FormatPkgList {
        /// A dictionary of packages, each with a list of dictionaries that describe its versions.
        packages: Map,
        /// True to return a list of versions for each package, instead of a text with commas.
        versions_as_list: bool,
        /// The attributes to return for each version instead of its text, or `all`.
        attr: Value,
    });

    /// Build the text of a version from its parts.
    ///
    ///     salt-call pkg_resource.format_version 1 1.22.1 3
    fn format_version(FormatVersion {
        /// The epoch (the part before the colon).
        epoch: Value,
        /// The version.
        version: Value,
        /// The release (the part after the dash).
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

/// Returns sources as pairs of name and place; empty if they are not a valid list of sources.
fn packed(cx: &Exec, sources: &Value, normalize: bool) -> Result<Vec<(String, String)>, Error> {
    let provider = providers::provider(cx)?;
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

/// Returns the packages to install and the kind of their origin. Returns `None` if the arguments
/// are not valid.
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
    let (provider, name) = (providers::provider(cx)?, args.name.as_deref());
    let wanted = targets::parse(cx, provider, name, &args.pkgs, args.normalize)?;
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

/// Returns the paths of the package files after fetching them.
fn files(cx: &Exec, args: &ParseTargets) -> Result<Vec<String>, Error> {
    let kwargs = Map::new().with("saltenv", args.saltenv.as_str());
    let sources = packed(cx, &args.sources, args.normalize)?;
    let files = sources.iter();
    files
        .map(|(name, place)| targets::fetched(cx, name, place, &kwargs))
        .collect()
}

/// The attributes of a version that a caller can request.
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

/// Returns the name of the package and the requested attributes of a version. The name omits the
/// architecture if the attributes contain the same one.
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
    let parts = providers::parse_arch(cx, name);
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
