//! The part of the `pkg` execution module that needs no package manager: the comparison of
//! versions.

use std::cmp::Ordering;

use state::exec::Exec;
use state::module::Error;
use value::Value;

use crate::exec::pkg::version;

state::exec_module! {
    /// Manage packages.
    mod pkg;

    /// Compare two versions as the package manager of this machine does. Return -1, 0 or 1, or None
    /// if one of them is not a version.
    ///
    ///     salt-call pkg.version_cmp 1.22.1 1.24.0
    #[facts(pure = true)]
    fn version_cmp(VersionCmp {
        /// The first version.
        pkg1: Value,
        /// The second version.
        pkg2: Value,
        /// True to ignore the epoch (the part before the colon).
        ignore_epoch: bool = false,
        ..kwargs
    });
}

fn version_cmp(cx: &Exec, args: VersionCmp) -> Result<Value, Error> {
    let grains = cx.grains();
    let family = grains
        .get("os_family")
        .map(Value::to_text)
        .unwrap_or_default();
    let text = |version: &Value| {
        let text = version.to_text();
        match text.split_once(':') {
            Some((_, rest)) if args.ignore_epoch => rest.to_owned(),
            _ => text,
        }
    };
    let order = compare(&family, &text(&args.pkg1), &text(&args.pkg2));
    Ok(order.map_or(Value::Null, |order| (order as i64).into()))
}

/// Compares versions according to the family of the distribution: dpkg's order for Debian and opkg,
/// rpm's order for the others.
fn compare(family: &str, one: &str, other: &str) -> Option<Ordering> {
    match family {
        "Debian" | "OpenWrt" | "NILinuxRT" | "Poky" => version::debian(one, other),
        _ => Some(version::rpm(one, other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_order_versions_differently() {
        let (one, other) = ("1.0a", "1.0.1");
        assert_eq!(compare("Debian", one, other), Some(Ordering::Less));
        assert_eq!(compare("RedHat", one, other), Some(Ordering::Less));
        assert_eq!(compare("Debian", "1.0", "1.0-1"), Some(Ordering::Less));
        assert_eq!(compare("RedHat", "1.0", "1.0-1"), Some(Ordering::Equal));
    }
}
