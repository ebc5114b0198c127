//! Holding packages at their version.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{Provider, Wanted, listing, transaction};

/// The packages that `pkg.hold` is to look at.
///
/// # Errors
/// When none is named, or some are in two ways.
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
        return Err(Error::refused(format!("{name:?} is no name of a package")));
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

/// Names with versions, from a list or a dictionary.
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

/// Holds these packages or lets them go, and says of each what came of it.
///
/// # Errors
/// When the package manager cannot hold, or cannot be asked.
pub(crate) fn set(
    cx: &Exec,
    provider: &dyn Provider,
    wanted: &[Wanted],
    hold: bool,
) -> Result<Map, Error> {
    let held = provider.held(cx)?;
    let listed = listing::listed(cx, provider)?;
    let mut all = Map::new();
    for one in wanted {
        let is_known = listed.here().contains(&one.name) || listed.removed.contains(&one.name);
        let is_held = held.iter().any(|other| other.name == one.name);
        let found = match (is_known, is_held == hold) {
            (false, _) => unknown(one, hold),
            (true, true) => already(one, hold),
            (true, false) => set_one(cx, provider, one, hold)?,
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

fn already(one: &Wanted, hold: bool) -> Found {
    let (name, not) = (&one.name, if hold { "" } else { "not " });
    found(
        Some(true),
        format!("Package {name} is already set {not}to be held."),
    )
}

fn set_one(cx: &Exec, provider: &dyn Provider, one: &Wanted, hold: bool) -> Result<Found, Error> {
    let name = &one.name;
    if cx.test {
        let not = if hold { "" } else { "not " };
        return Ok(found(
            None,
            format!("Package {name} is set {not}to be held."),
        ));
    }
    if let Some(error) = transaction::set_hold(cx, provider, one, hold)? {
        return Ok(found(Some(false), error));
    }
    let (old, new, now) = match hold {
        true => ("install", "hold", "now"),
        false => ("hold", "install", "no longer"),
    };
    Ok(Found {
        changes: Map::new().with("old", old).with("new", new),
        ..found(Some(true), format!("Package {name} is {now} being held."))
    })
}
