//! The part of the `pkg` execution module that installs, upgrades and removes packages.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::pkg::providers::transaction::{self, Install};
use crate::exec::pkg::providers::{self, Wanted, targets};

state::exec_module! {
    /// Manage packages.
    #[module(inverses = [&super::inverse::PACKAGE])]
    mod pkg;

    /// Install packages and return what changed.
    ///
    ///     salt-call pkg.install nginx
    fn install(InstallArgs {
        /// The name of a package, or several names separated by commas.
        name: Option<String> = None,
        /// True to refresh the package lists of the repositories first.
        refresh: bool = false,
        /// The repository or release to install from.
        fromrepo: Option<String> = None,
        /// True to skip the check of signatures.
        skip_verify: bool = false,
        /// A file with answers for debconf.
        debconf: Value = Value::Null,
        /// A list of packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        /// A list of package files, each a name with a URL or path.
        sources: Value = Value::Null,
        /// True to reinstall packages that already have the requested version.
        reinstall: bool = false,
        /// True to download the packages without installing them.
        downloadonly: bool = false,
        /// True to ignore the epoch (the part before the colon) when versions are compared.
        ignore_epoch: bool = false,
        /// True to omit the native architecture of the machine from names.
        normalize: bool = true,
        ..kwargs
    });

    /// Remove packages and return what changed. Their configuration files stay.
    ///
    ///     salt-call pkg.remove nginx
    fn remove(Remove {
        /// The name of a package, or several names separated by commas.
        name: Option<String> = None,
        /// A list of packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        ..kwargs
    });

    /// Remove packages and their configuration files, and return what changed.
    ///
    ///     salt-call pkg.purge nginx
    fn purge(Purge {
        /// The name of a package, or several names separated by commas.
        name: Option<String> = None,
        /// A list of packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        ..kwargs
    });

    /// Upgrade all packages and return what changed.
    ///
    ///     salt-call pkg.upgrade
    fn upgrade(Upgrade {
        /// True to refresh the package lists of the repositories first.
        refresh: bool = true,
        /// True to install and remove other packages if an upgrade needs it.
        dist_upgrade: bool = false,
        ..kwargs
    });

    /// Refresh the package lists of the repositories.
    ///
    ///     salt-call pkg.refresh_db
    fn refresh_db(RefreshDb {
        /// The age in seconds up to which the lists are not refreshed again.
        cache_valid_time: Value = 0.into(),
        /// True to fail if any list cannot be fetched.
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
    Ok(transaction::install(cx, providers::provider(cx)?, &install)?.into())
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
    let provider = providers::provider(cx)?;
    let wanted: Vec<Wanted> = targets::parse(cx, provider, name.as_deref(), pkgs, true)?;
    Ok(transaction::remove(cx, provider, &wanted, purge, kwargs)?.into())
}

fn upgrade(cx: &Exec, args: Upgrade) -> Result<Value, Error> {
    let provider = providers::provider(cx)?;
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
    transaction::refresh(cx, providers::provider(cx)?, &kwargs)
}
