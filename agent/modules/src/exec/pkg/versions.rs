//! The `pkg` execution module: so far only what needs no package manager.

use std::cmp::Ordering;

use state::exec::Exec;
use state::module::Error;
use value::Value;

use crate::version;

state::exec_module! {
    /// Packages.
    mod pkg;

    /// Compare two versions as this machine's package manager does: -1, 0 or 1, or None when one is not a version.
    fn version_cmp(VersionCmp {
        /// The one version.
        pkg1: Value,
        /// The other.
        pkg2: Value,
        /// Leave out what stands before the colon.
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

/// Compares by the family of the distribution: dpkg's order for Debian and opkg, rpm's for the others.
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
