//! The `pkg` state module: packages that are there, gone, current or held, whatever the package manager.

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
use state::module::{Error, Given, Ret};
use value::{Map, Value};

use crate::pkg::transaction::refresh_mark;
use crate::pkg::{self, Provider};

state::state_module! {
    /// Packages.
    mod pkg;

    /// Make sure that packages are installed, in a version that is asked for.
    fn installed(Installed {
        /// The package, where `pkgs` and `sources` name none.
        name: Value,
        /// Its version: exact, a glob, or conditions such as `>=1.2, <2`; `latest` for the newest.
        version: Value = Value::Null,
        /// Read the repositories' lists anew first; once a run where nothing is said.
        refresh: Option<bool> = None,
        /// The repository or release to take it from.
        fromrepo: Option<String> = None,
        /// Do not look at signatures.
        skip_verify: bool = false,
        /// Do not look for similar names where one is not found.
        skip_suggestions: bool = false,
        /// Packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        /// Package files, each a name with a URL or path.
        sources: Value = Value::Null,
        /// Be content with a newer version.
        allow_updates: bool = false,
        /// Install again where files were altered; a list holds `ignore_types` and `verify_options`.
        pkg_verify: Value = false.into(),
        /// Leave out the machine's own architecture in names.
        normalize: bool = true,
        /// Compare versions without what stands before the colon.
        ignore_epoch: Option<bool> = None,
        /// Install again what is there in that version.
        reinstall: bool = false,
        /// Change packages that are held.
        update_holds: bool = false,
        ..kwargs
    });

    /// Make sure that packages are installed and as new as the repositories have them.
    fn latest(Latest {
        /// The package, where `pkgs` names none.
        name: String,
        /// Read the repositories' lists anew first; once a run where nothing is said.
        refresh: Option<bool> = None,
        /// The repository or release to take it from.
        fromrepo: Option<String> = None,
        /// Do not look at signatures.
        skip_verify: bool = false,
        /// Packages.
        pkgs: Value = Value::Null,
        /// Of Gentoo only.
        watch_flags: bool = true,
        ..kwargs
    });

    /// Make sure that packages are not installed; their configuration stays.
    fn removed(Removed {
        /// The package, where `pkgs` names none.
        name: String,
        /// Only if it is this version.
        version: Value = Value::Null,
        /// Packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        /// Leave out the machine's own architecture in names.
        normalize: bool = true,
        /// Compare versions without what stands before the colon.
        ignore_epoch: Option<bool> = None,
        ..kwargs
    });

    /// Make sure that packages are not installed and have left no configuration.
    fn purged(Purged {
        /// The package, where `pkgs` names none.
        name: String,
        /// Only if it is this version.
        version: Value = Value::Null,
        /// Packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        /// Leave out the machine's own architecture in names.
        normalize: bool = true,
        /// Compare versions without what stands before the colon.
        ignore_epoch: Option<bool> = None,
        ..kwargs
    });

    /// Make sure that all packages, or these, are as new as the repositories have them.
    fn uptodate(Uptodate {
        /// Any name.
        name: String,
        /// Read the repositories' lists anew first.
        refresh: Value = false.into(),
        /// The packages that matter.
        pkgs: Value = Value::Null,
        ..kwargs
    });

    /// Make sure that packages stay at their version.
    fn held(Held {
        /// The package, where `pkgs` names none.
        name: String,
        /// The version to hold it at, where the package manager notes one.
        version: Value = Value::Null,
        /// Packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        /// Let all others go.
        replace: bool = false,
        ..kwargs
    });

    /// Make sure that packages are not held.
    fn unheld(Unheld {
        /// The package, where `pkgs` names none.
        name: String,
        /// Only if it is held at this version.
        version: Value = Value::Null,
        /// Packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        /// Let all packages go.
        all: bool = false,
        ..kwargs
    });

    /// Make sure that packages are downloaded.
    fn downloaded(Downloaded {
        /// The package, where `pkgs` names none.
        name: String,
        /// Its version.
        version: Value = Value::Null,
        /// Packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        /// The repository or release to take it from.
        fromrepo: Option<String> = None,
        /// Compare versions without what stands before the colon.
        ignore_epoch: Option<bool> = None,
        ..kwargs
    });

    /// Make sure that the packages of a group are installed.
    fn group_installed(GroupInstalled {
        /// The group.
        name: String,
        /// Packages that are left out where they need not be there.
        skip: Value = Value::Null,
        /// Further packages.
        include: Value = Value::Null,
        ..kwargs
    });

    /// What a watched state's change leads to: the same function again.
    fn mod_watch(ModWatch {
        /// As of the function that watches, like the other arguments.
        name: String,
        /// The function that watches.
        sfun: Option<String> = None,
        ..kwargs
    });
}

/// A package and its version; none takes any.
pub(super) type Named = Vec<(String, Option<String>)>;

fn installed(cx: &Exec, args: Installed) -> Result<Ret, Error> {
    let provider = pkg::provider(cx)?;
    init(cx);
    installed::run(cx, provider, args)
}

fn latest(cx: &Exec, args: Latest) -> Result<Ret, Error> {
    let provider = pkg::provider(cx)?;
    init(cx);
    latest::run(cx, provider, args)
}

fn removed(cx: &Exec, args: Removed) -> Result<Ret, Error> {
    let asked = removed::Asked {
        purge: false,
        name: args.name,
        version: text(&args.version),
        pkgs: args.pkgs,
        normalize: args.normalize,
        ignore_epoch: args.ignore_epoch,
        kwargs: args.kwargs,
    };
    removed::run(cx, pkg::provider(cx)?, &asked)
}

fn purged(cx: &Exec, args: Purged) -> Result<Ret, Error> {
    let asked = removed::Asked {
        purge: true,
        name: args.name,
        version: text(&args.version),
        pkgs: args.pkgs,
        normalize: args.normalize,
        ignore_epoch: args.ignore_epoch,
        kwargs: args.kwargs,
    };
    removed::run(cx, pkg::provider(cx)?, &asked)
}

fn uptodate(cx: &Exec, args: Uptodate) -> Result<Ret, Error> {
    uptodate::run(cx, pkg::provider(cx)?, &args)
}

fn held(cx: &Exec, args: Held) -> Result<Ret, Error> {
    held::held(cx, pkg::provider(cx)?, &args)
}

fn unheld(cx: &Exec, args: Unheld) -> Result<Ret, Error> {
    held::unheld(cx, pkg::provider(cx)?, &args)
}

fn downloaded(cx: &Exec, args: Downloaded) -> Result<Ret, Error> {
    downloaded::run(cx, pkg::provider(cx)?, &args)
}

fn group_installed(cx: &Exec, args: GroupInstalled) -> Result<Ret, Error> {
    group::run(cx, args)
}

fn mod_watch(cx: &Exec, args: ModWatch) -> Result<Ret, Error> {
    let sfun = args.sfun.unwrap_or_default();
    if !["purged", "latest", "removed", "installed"].contains(&sfun.as_str()) {
        return Ok(Ret::failed(format!(
            "pkg.{sfun} does not work with the watch requisite"
        )));
    }
    let full = format!("pkg.{sfun}");
    let function = cx.state_function(&full);
    let function = function.ok_or_else(|| Error::not_available(full.clone()))?;
    let kwargs = args.kwargs.with("name", args.name);
    function.invoke(&full, cx, Given::new(Vec::new(), kwargs))
}

/// The first state of a run that installs leaves a mark, so that the lists are read anew once: Salt's `mod_init`.
fn init(cx: &Exec) {
    const DONE: &str = "pkg.mod_init";
    let jid = cx.run.as_ref().map(|run| run.jid.as_str());
    let jid = Value::from(jid.unwrap_or_default());
    let known = cx.context(|context| context.insert(DONE, jid.clone()));
    let mark = refresh_mark(cx);
    if known.as_ref() != Some(&jid) && !mark.exists() {
        let made = crate::fs::write(cx, &mark, b"", crate::fs::Owner::default());
        if let Err(error) = made {
            value::log::warning(format_args!("Encountered error writing rtag: {error}"));
        }
    }
}

/// Whether the lists are to be read anew: when it is asked for, or the run has not done so and nobody forbids it.
fn is_refresh_due(cx: &Exec, asked: Option<bool>) -> bool {
    asked == Some(true) || asked.is_none() && refresh_mark(cx).is_file()
}

/// A version as text.
fn text(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| value.to_text())
}

/// True for an empty list: nothing was asked for.
fn is_empty_list(pkgs: &Value) -> bool {
    pkgs.as_list().is_some_and(<[Value]>::is_empty)
}

/// `pkgs` for one name.
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

/// `name=version`, or with the sign that the version brings.
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

/// `old` and `new` of a package.
fn change(old: impl Into<Value>, new: impl Into<Value>) -> Map {
    Map::new().with("new", new).with("old", old)
}

/// Which packages would come in which versions, as far as the repositories say: the `changes` of test mode.
fn installable(
    cx: &Exec,
    provider: &dyn Provider,
    targets: &[(String, Option<String>)],
    current: &Map,
    refresh: bool,
) -> Result<Map, Error> {
    if refresh {
        pkg::transaction::refresh(cx, provider, &Map::new())?;
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
