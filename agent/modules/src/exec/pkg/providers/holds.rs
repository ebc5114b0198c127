//! Holding packages at their version.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::capabilities::Holds;
use super::{Provider, Wanted, listing, transaction};

/// The messages about holds of a package manager.
#[derive(Debug)]
pub(crate) struct Words {
    /// True if only packages that it lists can be held.
    known_only: bool,
    /// The state of a package that is not held, in the changes.
    free: &'static str,
    /// The message when a package to be released is not held.
    already_free: &'static str,
    /// Test mode's message about a package to be released.
    would_free: &'static str,
    /// The message after a release.
    freed: &'static str,
    /// The text before the program's own output when a hold fails, and when a release fails.
    failed: [&'static str; 2],
}

/// The messages for dpkg and opkg.
pub(crate) static SELECTIONS: Words = Words {
    known_only: true,
    free: "install",
    already_free: "is already set not to be held.",
    would_free: "is set not to be held.",
    freed: "is no longer being held.",
    failed: ["", ""],
};

/// The messages for dnf and yum.
pub(crate) static VERSIONLOCK: Words = Words {
    known_only: false,
    free: "",
    already_free: "is not being held.",
    would_free: "is set to be unheld.",
    freed: "is no longer held.",
    failed: ["was unable to be held.", "was unable to be unheld."],
};

/// The messages for Zypper.
pub(crate) static LOCKS: Words = Words {
    already_free: "was already unheld.",
    failed: ["", ""],
    ..VERSIONLOCK
};

/// Returns the packages of a `pkg.hold` call.
///
/// # Errors
/// When no package is named, or several arguments name packages.
pub(crate) fn targets(
    name: Option<&str>,
    pkgs: &Value,
    sources: &Value,
) -> Result<Vec<Wanted>, Error> {
    let given = match (pkgs.is_true(), sources.is_true()) {
        (true, true) => return Err("Only one of pkgs or sources can be specified.".into()),
        (true, false) => entries(pkgs),
        (false, true) => entries(sources),
        (false, false) => name
            .into_iter()
            .map(|name| (name.to_owned(), None))
            .collect(),
    };
    if let Some((name, _)) = given.iter().find(|(name, _)| name.starts_with('-')) {
        return Err(Error::refused(format!("invalid package name {name:?}")));
    }
    if given.is_empty() {
        return Err("One of name, pkgs, or sources must be specified.".into());
    }
    let wanted = given.into_iter().map(|(name, version)| Wanted {
        name,
        version,
        path: None,
    });
    Ok(wanted.collect())
}

/// Returns names with versions, from a list or a dictionary.
fn entries(given: &Value) -> Vec<(String, Option<String>)> {
    let text = |version: &Value| Some(version).filter(|v| !v.is_null()).map(Value::to_text);
    let of_map = |map: &Map| -> Vec<(String, Option<String>)> {
        let entries = map.iter();
        entries
            .map(|(name, version)| (name.to_text(), text(version)))
            .collect()
    };
    match given {
        Value::Map(map) => of_map(map),
        Value::List(items) => items
            .iter()
            .flat_map(|item| match item {
                Value::Map(map) => of_map(map),
                name => vec![(name.to_text(), None)],
            })
            .collect(),
        name => vec![(name.to_text(), None)],
    }
}

/// Holds or releases packages, and returns the result for each.
///
/// # Errors
/// When the package manager cannot hold packages, or cannot list the held ones.
pub(crate) fn set(
    cx: &Exec,
    provider: &dyn Provider,
    wanted: &[Wanted],
    hold: bool,
) -> Result<Map, Error> {
    let holds = provider.require(provider.holds(), "hold")?;
    let (held, words) = (holds.held(cx)?, holds.words());
    let listed = listing::listed(cx, provider)?;
    let mut all = Map::new();
    for one in wanted {
        let is_known = !words.known_only
            || listed.here().contains(&one.name)
            || listed.removed.contains(&one.name);
        let lock = held.iter().find(|other| other.name == one.name);
        let found = match (is_known, lock) {
            (false, _) => unknown(one, hold),
            (true, Some(_)) if hold => already(words, one, hold),
            (true, None) if !hold => already(words, one, hold),
            (true, None) => set_one(cx, provider, holds, one, hold)?,
            (true, Some(lock)) if is_other(one, lock) => found(
                Some(false),
                format!(
                    "Unable to unhold package {} as it is held with the other version.",
                    one.name
                ),
            ),
            // A lock is released exactly as it was set, with its version.
            (true, Some(lock)) => set_one(cx, provider, holds, lock, hold)?,
        };
        let ret = Map::new()
            .with("name", one.name.as_str())
            .with("changes", found.changes)
            .with("result", found.result)
            .with("comment", found.comment);
        all.insert(one.name.as_str(), ret);
    }
    Ok(all)
}

struct Found {
    result: Option<bool>,
    changes: Map,
    comment: String,
}

fn found(result: Option<bool>, comment: String) -> Found {
    Found {
        result,
        changes: Map::new(),
        comment,
    }
}

/// Returns true if the package is held at a version other than the named one.
fn is_other(one: &Wanted, lock: &Wanted) -> bool {
    let versions = (&one.version, &lock.version);
    matches!(versions, (Some(one), Some(held)) if one != held)
}

fn unknown(one: &Wanted, hold: bool) -> Found {
    let name = &one.name;
    found(
        Some(false),
        match hold {
            true => format!("Package {name} not currently held."),
            false => format!("Package {name} does not have a state."),
        },
    )
}

fn already(words: &Words, one: &Wanted, hold: bool) -> Found {
    let said = match hold {
        true => "is already set to be held.",
        false => words.already_free,
    };
    found(Some(true), format!("Package {} {said}", one.name))
}

fn set_one(
    cx: &Exec,
    provider: &dyn Provider,
    holds: &dyn Holds,
    one: &Wanted,
    hold: bool,
) -> Result<Found, Error> {
    let (name, words) = (&one.name, holds.words());
    let [not_held, not_freed] = words.failed;
    let (would, done, failed, new, old) = match hold {
        true => (
            "is set to be held.",
            "is now being held.",
            not_held,
            "hold",
            words.free,
        ),
        false => (words.would_free, words.freed, not_freed, words.free, "hold"),
    };
    if cx.test {
        return Ok(found(None, format!("Package {name} {would}")));
    }
    if let Some(error) = transaction::set_hold(cx, provider, &holds.hold(cx, one, hold)?)? {
        let comment = match failed.is_empty() {
            true => error,
            false => format!("Package {name} {failed} {error}"),
        };
        return Ok(found(Some(false), comment));
    }
    Ok(Found {
        changes: Map::new().with("new", new).with("old", old),
        ..found(Some(true), format!("Package {name} {done}"))
    })
}
