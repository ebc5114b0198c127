//! Combines many `pkg` states into one transaction.

use value::{Map, Value};

/// The functions whose packages can be combined.
const FUNCTIONS: [&str; 4] = ["installed", "latest", "removed", "purged"];

/// The arguments that may differ between two combined states: the packages, and arguments that only
/// the state engine uses.
const OWN: [&str; 12] = [
    "name",
    "pkgs",
    "sources",
    "version",
    "require",
    "require_in",
    "watch_in",
    "onchanges_in",
    "listen_in",
    "order",
    "aggregate",
    "names",
];

/// Returns the low data of a state with the packages of other states added, and for each of the
/// others whether it was added. States are combined if they have the same function and otherwise
/// the same arguments. Salt compares only `fromrepo`.
pub(crate) fn joined(low: &Map, others: &[Map]) -> (Map, Vec<bool>) {
    let kind = match low.contains("sources") {
        true => "sources",
        false => "pkgs",
    };
    let is_one = |map: &Map| text(map, "fun").is_some_and(|fun| FUNCTIONS.contains(&fun));
    let (true, Some(mut packages)) = (is_one(low), packages(low, kind)) else {
        return (low.clone(), vec![false; others.len()]);
    };
    let taken = others.iter().map(|other| {
        let fits = is_alike(low, other) && other.contains("sources") == (kind == "sources");
        fits && add(&mut packages, other, kind)
    });
    let taken = taken.collect();
    let mut joined = low.clone();
    joined.remove("version");
    joined.insert(kind, Value::list(packages.into_iter().map(entry)));
    (joined, taken)
}

fn text<'a>(low: &'a Map, key: &str) -> Option<&'a str> {
    low.get(key).and_then(Value::as_str)
}

/// Returns whether two states differ only in their packages. A state with `hold` is never combined.
fn is_alike(one: &Map, other: &Map) -> bool {
    let relevant = |map: &Map| {
        let mut relevant = map.clone();
        relevant.retain(|key, _| {
            let key = key.as_str().unwrap_or_default();
            !key.starts_with("__") && !OWN.contains(&key)
        });
        relevant
    };
    !other.contains("hold") && relevant(one) == relevant(other)
}

type Package = (Value, Value);

/// Returns the packages of one state, each with its version or source, or `None` if they are not
/// well-formed.
fn packages(low: &Map, kind: &str) -> Option<Vec<Package>> {
    let list = match low.get(kind) {
        Some(list) => list.as_list()?,
        None => {
            let version = low.get("version").cloned().unwrap_or_default();
            return Some(vec![(low.get("name")?.clone(), version)]);
        }
    };
    let package = |item: &Value| match item {
        Value::Map(map) if map.len() == 1 => {
            let (name, version) = map.first()?;
            Some((name.clone(), version.clone()))
        }
        Value::Str(_) => Some((item.clone(), Value::Null)),
        _ => None,
    };
    list.iter().map(package).collect()
}

/// Adds the packages of another state, unless one of them is in the list in another version.
fn add(packages: &mut Vec<Package>, other: &Map, kind: &str) -> bool {
    let Some(more) = self::packages(other, kind) else {
        return false;
    };
    let clashes = |(name, version): &Package| {
        let mut known = packages.iter().filter(|(known, _)| known == name);
        known.any(|(_, known)| known != version)
    };
    if more.iter().any(clashes) {
        return false;
    }
    for one in more {
        if !packages.contains(&one) {
            packages.push(one);
        }
    }
    true
}

fn entry((name, version): Package) -> Value {
    if version.is_null() {
        return name;
    }
    let mut entry = Map::new();
    entry.insert(name, version);
    entry.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json;

    #[test]
    fn packages_of_like_states_are_put_together() {
        let low = json(r#"{"state": "pkg", "fun": "installed", "name": "a", "__id__": "a"}"#);
        let others = [
            r#"{"state": "pkg", "fun": "installed", "name": "b", "version": "1.0"}"#,
            r#"{"state": "pkg", "fun": "installed", "name": "x", "pkgs": ["a", {"c": "2"}]}"#,
            r#"{"state": "pkg", "fun": "removed", "name": "d"}"#,
            r#"{"state": "pkg", "fun": "installed", "name": "b", "version": "1.1"}"#,
            r#"{"state": "pkg", "fun": "installed", "name": "e", "hold": true}"#,
            r#"{"state": "pkg", "fun": "installed", "name": "f", "fromrepo": "sid"}"#,
        ];
        let (joined, taken) = joined(&low, &others.map(json));
        assert_eq!(taken, [true, true, false, false, false, false]);
        let expected = json(r#"{"pkgs": ["a", {"b": "1.0"}, {"c": "2"}]}"#);
        assert_eq!(joined.get("pkgs"), expected.get("pkgs"));
    }
}
