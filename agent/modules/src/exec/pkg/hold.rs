//! The part of the `pkg` execution module that holds packages at their version.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::pkg::providers::holds;
use crate::exec::pkg::providers::{self};

state::exec_module! {
    /// Manage packages.
    mod pkg;

    /// Hold packages at their installed version.
    ///
    ///     salt-call pkg.hold nginx
    fn hold(Hold {
        /// The name of a package.
        name: Option<String> = None,
        /// A list of packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        /// A list of package files, each a name with a URL or path.
        sources: Value = Value::Null,
        ..kwargs
    });

    /// Release packages that are held.
    ///
    ///     salt-call pkg.unhold nginx
    fn unhold(Unhold {
        /// The name of a package.
        name: Option<String> = None,
        /// A list of packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        /// A list of package files, each a name with a URL or path.
        sources: Value = Value::Null,
        ..kwargs
    });
}

fn hold(cx: &Exec, args: Hold) -> Result<Value, Error> {
    set(cx, args.name, &args.pkgs, &args.sources, true)
}

fn unhold(cx: &Exec, args: Unhold) -> Result<Value, Error> {
    set(cx, args.name, &args.pkgs, &args.sources, false)
}

fn set(
    cx: &Exec,
    name: Option<String>,
    pkgs: &Value,
    sources: &Value,
    hold: bool,
) -> Result<Value, Error> {
    let wanted = holds::targets(name.as_deref(), pkgs, sources)?;
    let all: Map = holds::set(cx, providers::provider(cx)?, &wanted, hold)?;
    Ok(all.into())
}
