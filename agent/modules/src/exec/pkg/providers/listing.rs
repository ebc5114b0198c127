//! The list of installed packages. It is read once and cached until a package changes.

use std::os::unix::fs::MetadataExt;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{Listed, Packages, Provider};

/// The key of the list in Salt's `__context__`.
const KEPT: &str = "pkg.list_pkgs";

impl Listed {
    /// Returns all installed packages, including those marked for removal.
    pub(crate) fn here(&self) -> Packages {
        let mut all = self.purge_desired.clone();
        all.update(self.installed.clone());
        all
    }

    /// Sorts the versions of each package as texts, and removes duplicates.
    pub(crate) fn sorted(mut self) -> Self {
        for packages in [
            &mut self.installed,
            &mut self.removed,
            &mut self.purge_desired,
        ] {
            for (_, versions) in packages.iter_mut() {
                if let Some(versions) = versions.as_list_mut().filter(|list| list.len() > 1) {
                    value::sorted::sort(versions);
                    versions.dedup();
                }
            }
        }
        self
    }
}

/// Adds a version to those of a package.
pub(crate) fn add(packages: &mut Packages, name: &str, version: &str) {
    let versions = packages.entry(name, || Value::list([]));
    if let Some(versions) = versions.as_list_mut() {
        versions.push(version.into());
    }
}

/// Returns the packages with their versions as one text each.
pub(crate) fn stringified(packages: &Packages) -> Map {
    let joined = |versions: &Value| Value::from(joined(versions));
    packages
        .iter()
        .map(|(name, versions)| (name.clone(), joined(versions)))
        .collect::<Map>()
}

/// Returns the versions of one package as one text.
pub(crate) fn joined(versions: &Value) -> String {
    let texts = versions.as_list().unwrap_or_default().iter();
    texts.map(Value::to_text).collect::<Vec<_>>().join(",")
}

/// Returns the versions of a package in a list; none when it is not listed.
pub(crate) fn versions_of(packages: &Packages, name: &str) -> Vec<String> {
    let versions = packages.get(name).and_then(Value::as_list);
    let versions = versions.unwrap_or_default().iter();
    versions.map(Value::to_text).collect()
}

/// Returns the installed packages.
pub(crate) fn listed(cx: &Exec, provider: &dyn Provider) -> Result<Listed, Error> {
    let stamp = stamp(provider);
    let kept = cx.context(|context| context.get(KEPT).cloned());
    if let Some(listed) = kept.and_then(|kept| unpacked(&kept, &stamp)) {
        return Ok(listed);
    }
    let listed = provider.list(cx)?.sorted();
    let packed = Map::new()
        .with("stamp", stamp)
        .with("installed", listed.installed.clone())
        .with("removed", listed.removed.clone())
        .with("purge_desired", listed.purge_desired.clone());
    cx.context(|context| context.insert(KEPT, packed));
    Ok(listed)
}

/// Drops the cached list after a change.
pub(crate) fn forget(cx: &Exec) {
    cx.context(|context| context.remove(KEPT));
}

fn unpacked(kept: &Value, stamp: &str) -> Option<Listed> {
    let packages = |name: &str| Some(kept.get(name)?.as_map()?.clone());
    (kept.get("stamp")?.as_str()? == stamp).then_some(Listed {
        installed: packages("installed")?,
        removed: packages("removed")?,
        purge_desired: packages("purge_desired")?,
    })
}

/// Returns a text that changes whenever a package changes.
fn stamp(provider: &dyn Provider) -> String {
    let mut stamp = String::new();
    for path in provider.about().databases {
        if let Ok(found) = std::fs::metadata(path) {
            let (time, nanos) = (found.mtime(), found.mtime_nsec());
            stamp += &format!("{}:{}:{time}.{nanos} ", found.ino(), found.size());
        }
    }
    stamp
}

/// Returns the differences between two lists as Salt's `compare_dicts` does, sorted by name.
pub(crate) fn changes(old: &Map, new: &Map) -> Map {
    let mut changes = Map::new();
    let of = |map: &Map, name: &Value| map.get_value(name).cloned();
    for name in new.keys().chain(old.keys()) {
        let (before, after) = (of(old, name), of(new, name));
        if before != after && !changes.contains_value(name) {
            let text = |version: Option<Value>| version.unwrap_or_else(|| "".into());
            let change = match after {
                None => Map::new().with("new", "").with("old", text(before)),
                after => Map::new()
                    .with("old", text(before))
                    .with("new", text(after)),
            };
            changes.insert(name.clone(), change);
        }
    }
    changes.sort_keys();
    changes
}
