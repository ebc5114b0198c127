//! The `pkg` state module: packages that are installed, removed, up to date or held, for all
//! package managers.

pub(crate) mod aggregate;
mod downloaded;
mod find;
mod group;
mod held;
mod installed;
mod latest;
mod removed;
mod uptodate;

use state::exec::Exec;
use state::module::{Arguments, Error, Ret};
use value::{Map, Value};

use crate::exec::pkg::providers::transaction::refresh_mark;
use crate::exec::pkg::providers::{self, Provider};
use crate::states::beacon::Wanted;

/// Arguments that states of packages pass on to the package manager of this machine.
const PROVIDER_ARGUMENTS: &[&str] = &[
    "allow_downgrades",
    "attr",
    "auto_remove_deps",
    "cache_valid_time",
    "cacheonly",
    "disableexcludes",
    "disablerepo",
    "dist_upgrade",
    "download_only",
    "downloadonly",
    "dryrun",
    "enablerepo",
    "env",
    "force_conf_new",
    "force_yes",
    "hold",
    "ignore_types",
    "install_recommends",
    "minimal",
    "no_recommends",
    "novendorchange",
    "obsoletes",
    "only_upgrade",
    "refresh_modules",
    "resolve_capabilities",
    "root",
    "setopt",
    "skip_verify",
    "sysupgrade",
    "update_holds",
];

state::state_module! {
    /// Manage packages.
    #[module(aggregate = aggregate::joined)]
    #[facts(also_takes = PROVIDER_ARGUMENTS)]
    mod pkg;

    /// Make sure that packages are installed, optionally in a given version.
    ///
    ///     web packages:
    ///       pkg.installed:
    ///         - pkgs: [nginx, certbot]
    fn installed(Installed {
        /// The package, if neither `pkgs` nor `sources` is given.
        name: Value,
        /// The version: exact, a glob, or conditions such as `>=1.2, <2`; `latest` for the newest.
        version: Value = Value::Null,
        /// Whether to refresh the package lists of the repositories first. Default: once per run.
        refresh: Option<bool> = None,
        /// The repository or release to install from.
        fromrepo: Option<String> = None,
        /// True to skip the verification of signatures.
        skip_verify: bool = false,
        /// Accepted but ignored; similar names are not searched.
        skip_suggestions: bool = false,
        /// A list of packages, each a name or a dictionary with a name and a version.
        pkgs: Value = Value::Null,
        /// A list of package files, each a dictionary with a name and a URL or path.
        sources: Value = Value::Null,
        /// True to accept a newer version.
        allow_updates: bool = false,
        /// True to reinstall packages with altered files; or a list with `ignore_types` and
        /// `verify_options`.
        pkg_verify: Value = false.into(),
        /// True to omit the machine's native architecture from names.
        normalize: bool = true,
        /// True to compare versions without the epoch (the part before the colon).
        ignore_epoch: Option<bool> = None,
        /// True to reinstall packages that are installed in that version already.
        reinstall: bool = false,
        /// True to change packages that are held.
        update_holds: bool = false,
        ..kwargs
    });

    /// Make sure that packages are installed in the newest version of the repositories.
    ///
    ///     nginx:
    ///       pkg.latest:
    ///         - refresh: True
    fn latest(Latest {
        /// The package, if `pkgs` is not given.
        name: String,
        /// Whether to refresh the package lists of the repositories first. Default: once per run.
        refresh: Option<bool> = None,
        /// The repository or release to install from.
        fromrepo: Option<String> = None,
        /// True to skip the verification of signatures.
        skip_verify: bool = false,
        /// A list of packages.
        pkgs: Value = Value::Null,
        /// Accepted but ignored; only Gentoo needs it.
        watch_flags: bool = true,
        ..kwargs
    });

    /// Make sure that packages are not installed. Their configuration files are kept.
    ///
    ///     telnet:
    ///       pkg.removed
    fn removed(Removed {
        /// The package, if `pkgs` is not given.
        name: String,
        /// A version. Only this version is removed.
        version: Value = Value::Null,
        /// A list of packages, each a name or a dictionary with a name and a version.
        pkgs: Value = Value::Null,
        /// True to omit the machine's native architecture from names.
        normalize: bool = true,
        /// True to compare versions without the epoch (the part before the colon).
        ignore_epoch: Option<bool> = None,
        ..kwargs
    });

    /// Make sure that packages are not installed and that no configuration files are left.
    ///
    ///     telnet:
    ///       pkg.purged
    fn purged(Purged {
        /// The package, if `pkgs` is not given.
        name: String,
        /// A version. Only this version is removed.
        version: Value = Value::Null,
        /// A list of packages, each a name or a dictionary with a name and a version.
        pkgs: Value = Value::Null,
        /// True to omit the machine's native architecture from names.
        normalize: bool = true,
        /// True to compare versions without the epoch (the part before the colon).
        ignore_epoch: Option<bool> = None,
        ..kwargs
    });

    /// Make sure that all packages, or those in `pkgs`, are in the newest version of the
    /// repositories.
    ///
    ///     all packages:
    ///       pkg.uptodate:
    ///         - refresh: True
    fn uptodate(Uptodate {
        /// Any name.
        name: String,
        /// True to refresh the package lists of the repositories first.
        refresh: Value = false.into(),
        /// The packages to upgrade. Default: all.
        pkgs: Value = Value::Null,
        ..kwargs
    });

    /// Make sure that packages are held at their version.
    ///
    ///     nginx:
    ///       pkg.held
    fn held(Held {
        /// The package, if `pkgs` is not given.
        name: String,
        /// The version to hold, if the package manager records one.
        version: Value = Value::Null,
        /// A list of packages, each a name or a dictionary with a name and a version.
        pkgs: Value = Value::Null,
        /// True to unhold all other packages.
        replace: bool = false,
        ..kwargs
    });

    /// Make sure that packages are not held.
    ///
    ///     nginx:
    ///       pkg.unheld
    fn unheld(Unheld {
        /// The package, if `pkgs` is not given.
        name: String,
        /// A version. The package is only unheld if it is held at this version.
        version: Value = Value::Null,
        /// A list of packages, each a name or a dictionary with a name and a version.
        pkgs: Value = Value::Null,
        /// True to unhold all packages.
        all: bool = false,
        ..kwargs
    });

    /// Make sure that packages are downloaded.
    ///
    ///     nginx:
    ///       pkg.downloaded
    fn downloaded(Downloaded {
        /// The package, if `pkgs` is not given.
        name: String,
        /// The version of the package.
        version: Value = Value::Null,
        /// A list of packages, each a name or a dictionary with a name and a version.
        pkgs: Value = Value::Null,
        /// The repository or release to download from.
        fromrepo: Option<String> = None,
        /// True to compare versions without the epoch (the part before the colon).
        ignore_epoch: Option<bool> = None,
        ..kwargs
    });

    /// Make sure that the packages of a group are installed.
    ///
    ///     Development Tools:
    ///       pkg.group_installed
    fn group_installed(GroupInstalled {
        /// The group.
        name: String,
        /// Packages of the group that are not installed unless they are mandatory.
        skip: Value = Value::Null,
        /// Additional packages.
        include: Value = Value::Null,
        ..kwargs
    });

    /// Add a beacon for the packages of a state `pkg.installed` or `pkg.removed` with the argument
    /// `beacon`.
    ///
    ///     nginx:
    ///       pkg.installed:
    ///         - beacon: True
    fn mod_beacon(ModBeacon {
        /// The package.
        name: String,
        #[group] wanted: Wanted,
        ..kwargs
    });

    /// Run the watching function again because a watched state changed something.
    ///
    ///     nginx:
    ///       pkg.installed:
    ///         - watch:
    ///           - file: /etc/nginx/nginx.conf
    fn mod_watch(ModWatch {
        /// The package, as in the watching function, which also describes the other arguments.
        name: String,
        ..kwargs
    });
}

/// Packages with their versions. `None` means any version.
pub(super) type Named = Vec<(String, Option<String>)>;

fn installed(cx: &Exec, args: Installed) -> Result<Ret, Error> {
    let provider = providers::provider(cx)?;
    init(cx);
    installed::run(cx, provider, args)
}

fn latest(cx: &Exec, args: Latest) -> Result<Ret, Error> {
    let provider = providers::provider(cx)?;
    init(cx);
    latest::run(cx, provider, args)
}

fn removed(cx: &Exec, args: Removed) -> Result<Ret, Error> {
    let asked = removed::RemoveOptions {
        purge: false,
        name: args.name,
        version: text(&args.version),
        pkgs: args.pkgs,
        normalize: args.normalize,
        ignore_epoch: args.ignore_epoch,
        kwargs: args.kwargs,
    };
    removed::run(cx, providers::provider(cx)?, &asked)
}

fn purged(cx: &Exec, args: Purged) -> Result<Ret, Error> {
    let asked = removed::RemoveOptions {
        purge: true,
        name: args.name,
        version: text(&args.version),
        pkgs: args.pkgs,
        normalize: args.normalize,
        ignore_epoch: args.ignore_epoch,
        kwargs: args.kwargs,
    };
    removed::run(cx, providers::provider(cx)?, &asked)
}

fn uptodate(cx: &Exec, args: Uptodate) -> Result<Ret, Error> {
    uptodate::run(cx, providers::provider(cx)?, &args)
}

fn held(cx: &Exec, args: Held) -> Result<Ret, Error> {
    held::held(cx, providers::provider(cx)?, &args)
}

fn unheld(cx: &Exec, args: Unheld) -> Result<Ret, Error> {
    held::unheld(cx, providers::provider(cx)?, &args)
}

fn downloaded(cx: &Exec, args: Downloaded) -> Result<Ret, Error> {
    downloaded::run(cx, providers::provider(cx)?, &args)
}

fn group_installed(cx: &Exec, args: GroupInstalled) -> Result<Ret, Error> {
    group::run(cx, args)
}

fn mod_beacon(cx: &Exec, args: ModBeacon) -> Result<Ret, Error> {
    let subject = ("pkg", args.name.as_str());
    let refusal =
        |sfun: &str| format!("pkg.{sfun} does not work with the mod_beacon state function");
    args.wanted
        .added(cx, subject, &["installed", "removed"], refusal, |_| {
            let own = || Value::list([args.name.as_str().into()]);
            let pkgs = args.kwargs.get("pkgs").cloned().unwrap_or_else(own);
            Map::new().with("pkgs", pkgs).with("interval", 60)
        })
}

fn mod_watch(cx: &Exec, mut args: ModWatch) -> Result<Ret, Error> {
    let sfun = args.kwargs.remove("sfun").map(|sfun| sfun.to_text());
    let sfun = sfun.unwrap_or_default();
    if !["purged", "latest", "removed", "installed"].contains(&sfun.as_str()) {
        return Ok(Ret::failed(format!(
            "pkg.{sfun} does not work with the watch requisite"
        )));
    }
    let full = format!("pkg.{sfun}");
    let function = cx.state_function(&full);
    let function = function.ok_or_else(|| Error::not_available(full.clone()))?;
    let kwargs = args.kwargs.with("name", args.name);
    function.invoke(&full, cx, Arguments::new(Vec::new(), kwargs))
}

/// Creates a mark at the first state of a run that installs packages, so that the package lists are
/// refreshed once. This is Salt's `mod_init`.
fn init(cx: &Exec) {
    const DONE: &str = "pkg.mod_init";
    let jid = cx.run.as_ref().map(|run| run.jid.as_str());
    let jid = Value::from(jid.unwrap_or_default());
    let known = cx.context(|context| context.insert(DONE, jid.clone()));
    let mark = refresh_mark(cx);
    if known.as_ref() != Some(&jid) && !mark.exists() {
        let made = machine::fs::write(cx, &mark, b"", machine::fs::Owner::default());
        if let Err(error) = made {
            value::log::warning(format_args!("Encountered error writing rtag: {error}"));
        }
    }
}

/// Returns whether to refresh the package lists: if `refresh` is true, or if it is not given and
/// the run has not refreshed them yet.
fn is_refresh_due(cx: &Exec, asked: Option<bool>) -> bool {
    asked == Some(true) || asked.is_none() && refresh_mark(cx).is_file()
}

/// Returns a version as text.
fn text(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| value.to_text())
}

/// Returns true for an empty list, which means that no packages are requested.
fn is_empty_list(pkgs: &Value) -> bool {
    pkgs.as_list().is_some_and(<[Value]>::is_empty)
}

/// Returns the value of `pkgs` for a single name.
fn alone(name: &Value, version: Option<&str>) -> Value {
    let entry = match version.filter(|version| !version.is_empty()) {
        Some(version) => {
            let mut entry = Map::new();
            entry.insert(name.clone(), version);
            entry.into()
        }
        None => name.clone(),
    };
    Value::list([entry])
}

/// Returns `name=version`, or the name followed by a version that starts with its own operator.
fn pinned((name, version): &(String, Option<String>)) -> String {
    match version.as_deref().filter(|version| !version.is_empty()) {
        None => name.clone(),
        Some(version) if version.starts_with(['<', '>', '=']) => format!("{name}{version}"),
        Some(version) => format!("{name}={version}"),
    }
}

fn pinned_all(named: &[(String, Option<String>)]) -> String {
    named.iter().map(pinned).collect::<Vec<_>>().join(", ")
}

fn names(named: &[(String, Option<String>)]) -> String {
    let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
    names.join(", ")
}

/// Returns the entry of a package in the changes.
fn change(old: impl Into<Value>, new: impl Into<Value>) -> Map {
    Map::new().with("new", new).with("old", old)
}

/// Returns the versions of the packages that would be installed, according to the repositories.
/// They are the `changes` of test mode.
fn installable(
    cx: &Exec,
    provider: &dyn Provider,
    targets: &[(String, Option<String>)],
    current: &Map,
    refresh: bool,
) -> Result<Map, Error> {
    if refresh {
        providers::transaction::refresh(cx, provider, &Map::new())?;
    }
    let parts = |pinned: bool| {
        let chosen = targets
            .iter()
            .filter(move |one| one.1.as_ref().is_some_and(|v| !v.is_empty()) == pinned);
        chosen.map(self::pinned).collect::<Vec<String>>()
    };
    let (newest, pinned) = (parts(false), parts(true));
    let mut versions = match newest.is_empty() {
        true => Map::new(),
        false => provider.latest(cx, &newest, &Map::new())?,
    };
    if !pinned.is_empty() {
        for (name, list) in &provider.available(cx, &pinned, &Map::new())? {
            if let Some(first) = list.as_list().and_then(<[Value]>::first) {
                versions.insert(name.clone(), first.clone());
            }
        }
    }
    let changes = targets.iter().map(|(name, _)| {
        let new = versions.get(name).filter(|version| version.is_true());
        let new = new.cloned().unwrap_or_else(|| "installed".into());
        let old = current.get(name).cloned().unwrap_or_else(|| "".into());
        (Value::from(name), Value::from(change(old, new)))
    });
    Ok(changes.collect())
}
