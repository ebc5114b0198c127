//! The `pkg` execution module: what changes packages.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::pkg::transaction::{self, Install};
use crate::pkg::{self, Wanted, targets};

state::exec_module! {
    /// Packages.
    mod pkg;

    /// Install packages and return what changed.
    fn install(InstallArgs {
        /// A package, or several with commas between.
        name: Option<String> = None,
        /// Read the repositories' lists anew first.
        refresh: bool = false,
        /// The repository or release to take it from.
        fromrepo: Option<String> = None,
        /// Do not look at signatures.
        skip_verify: bool = false,
        /// A file with answers for debconf.
        debconf: Value = Value::Null,
        /// Packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        /// Package files, each a name with a URL or path.
        sources: Value = Value::Null,
        /// Install again what is there in that version.
        reinstall: bool = false,
        /// Only fetch the packages.
        downloadonly: bool = false,
        /// Compare versions without what stands before the colon.
        ignore_epoch: bool = false,
        /// Leave out the machine's own architecture in names.
        normalize: bool = true,
        ..kwargs
    });

    /// Remove packages and return what changed; their configuration stays.
    fn remove(Remove {
        /// A package, or several with commas between.
        name: Option<String> = None,
        /// Packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        ..kwargs
    });

    /// Remove packages with their configuration and return what changed.
    fn purge(Purge {
        /// A package, or several with commas between.
        name: Option<String> = None,
        /// Packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        ..kwargs
    });

    /// Upgrade all packages and return what changed.
    fn upgrade(Upgrade {
        /// Read the repositories' lists anew first.
        refresh: bool = true,
        /// Install and remove other packages where an upgrade needs it.
        dist_upgrade: bool = false,
        ..kwargs
    });

    /// Read the repositories' lists anew.
    fn refresh_db(RefreshDb {
        /// How many seconds old they may be.
        cache_valid_time: Value = 0.into(),
        /// Fail when one of them cannot be had.
        failhard: bool = false,
        ..kwargs
    });
}

fn install(cx: &Exec, args: InstallArgs) -> Result<Value, Error> {
    let mut kwargs = args.kwargs;
    if args.debconf.is_true() {
        cx.call_internal("debconf.set_file", vec![args.debconf], Map::new())?;
    }
    let text = |value: Option<Value>| value.filter(Value::is_true).map(|value| value.to_text());
    let install = Install {
        name: args.name,
        version: text(kwargs.remove("version")),
        pkgs: args.pkgs,
        sources: args.sources,
        refresh: args.refresh,
        fromrepo: args.fromrepo.or_else(|| text(kwargs.remove("repo"))),
        skip_verify: args.skip_verify,
        reinstall: args.reinstall,
        downloadonly: args.downloadonly,
        ignore_epoch: args.ignore_epoch,
        normalize: args.normalize,
        kwargs,
    };
    Ok(transaction::install(cx, pkg::provider(cx)?, &install)?.into())
}

fn remove(cx: &Exec, args: Remove) -> Result<Value, Error> {
    removed(cx, args.name, &args.pkgs, false, &args.kwargs)
}

fn purge(cx: &Exec, args: Purge) -> Result<Value, Error> {
    removed(cx, args.name, &args.pkgs, true, &args.kwargs)
}

fn removed(
    cx: &Exec,
    name: Option<String>,
    pkgs: &Value,
    purge: bool,
    kwargs: &Map,
) -> Result<Value, Error> {
    let provider = pkg::provider(cx)?;
    let wanted: Vec<Wanted> = targets::of(cx, provider, name.as_deref(), pkgs, true)?;
    Ok(transaction::remove(cx, provider, &wanted, purge, kwargs)?.into())
}

fn upgrade(cx: &Exec, args: Upgrade) -> Result<Value, Error> {
    let provider = pkg::provider(cx)?;
    if args.refresh {
        transaction::refresh(cx, provider, &args.kwargs)?;
    }
    let kwargs = args.kwargs.with("dist_upgrade", args.dist_upgrade);
    Ok(transaction::upgrade(cx, provider, &kwargs)?.into())
}

fn refresh_db(cx: &Exec, args: RefreshDb) -> Result<Value, Error> {
    let kwargs = args
        .kwargs
        .with("cache_valid_time", args.cache_valid_time)
        .with("failhard", args.failhard);
    transaction::refresh(cx, pkg::provider(cx)?, &kwargs)
}
