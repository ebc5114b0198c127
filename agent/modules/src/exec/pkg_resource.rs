//! The `pkg_resource` execution module: what the package modules share.

use state::exec::Exec;
use state::module::Error;
use value::Value;

use crate::pkg::spec;
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
    cx.call("pkg.version", args.rest, args.kwargs)
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

fn format_version(_: &Exec, args: FormatVersion) -> Result<Value, Error> {
    if !args.epoch.is_true() && !args.release.is_true() {
        return Ok(args.version);
    }
    let (epoch, version, release) = (args.epoch, args.version.to_text(), args.release);
    let epoch = match epoch.is_true() {
        true => format!("{}:", epoch.to_text()),
        false => String::new(),
    };
    let release = match release.is_true() {
        true => format!("-{}", release.to_text()),
        false => String::new(),
    };
    Ok(format!("{epoch}{version}{release}").into())
}
