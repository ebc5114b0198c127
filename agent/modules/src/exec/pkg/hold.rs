//! The `pkg` execution module: packages that stay at their version.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::pkg::holds;
use crate::pkg::{self};

state::exec_module! {
    /// Packages.
    mod pkg;

    /// Hold packages at their version.
    fn hold(Hold {
        /// A package.
        name: Option<String> = None,
        /// Packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        /// Package files, each a name with a URL or path.
        sources: Value = Value::Null,
        ..kwargs
    });

    /// Let packages go that are held.
    fn unhold(Unhold {
        /// A package.
        name: Option<String> = None,
        /// Packages, each a name or a name with a version.
        pkgs: Value = Value::Null,
        /// Package files, each a name with a URL or path.
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
    let all: Map = holds::set(cx, pkg::provider(cx)?, &wanted, hold)?;
    Ok(all.into())
}
