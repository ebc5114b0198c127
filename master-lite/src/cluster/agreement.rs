//! [`Agreement`]: the options that must be the same on all masters, since any of them may lead, and any
//! of them lets minions in. Masters compare the hashes of the values.

use std::collections::BTreeMap;

use machine::hashes;
use state::opts::Opts;
use value::json::{self, Layout};
use value::{Map, Value};

/// The options whose values are compared.
const VALUES: [&str; 23] = [
    "auto_accept",
    "autoreject_file",
    "autosign_file",
    "autosign_grains_dir",
    "autosign_grains_match",
    "autosign_policy",
    "autosign_timeout",
    "event_return",
    "event_return_blacklist",
    "event_return_whitelist",
    "ext_job_cache",
    "ext_pillar",
    "keep_jobs_seconds",
    "master_job_cache",
    "nodegroups",
    "open_mode",
    "peer",
    "peer_run",
    "pillar_opts",
    "presence_events",
    "publisher_acl",
    "publisher_acl_blacklist",
    "reactor",
];
/// The options of which only the names of the environments are compared: folders may differ.
const ENVIRONMENTS: [&str; 2] = ["file_roots", "pillar_roots"];
/// The number of letters of a hash.
const HASH: usize = 16;
/// The maximum number of options in the report of another master.
const OPTIONS_MAX: usize = 64;

/// The hashes of the options by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Agreement(BTreeMap<String, String>);

impl Agreement {
    /// Returns that of this master.
    pub(super) fn of(opts: &Opts) -> Self {
        let values = VALUES.iter().map(|name| {
            let value = opts.get(name).cloned().unwrap_or_default();
            (*name, value)
        });
        let environments = ENVIRONMENTS.iter().map(|name| {
            let roots = opts.get(name).and_then(Value::as_map);
            let names = roots.into_iter().flat_map(Map::iter);
            let mut names: Vec<Value> = names.map(|(name, _)| name.clone()).collect();
            names.sort_by_key(Value::to_text);
            (*name, Value::list(names))
        });
        let hash = |value: &Value| {
            let text = json::write(value, Layout::default());
            let hash = hashes::of_bytes(text.as_bytes(), "sha256").unwrap_or_default();
            hash.chars().take(HASH).collect::<String>()
        };
        let all = values.chain(environments);
        Self(
            all.map(|(name, value)| (name.to_owned(), hash(&value)))
                .collect(),
        )
    }

    /// Returns the options that differ. One that only one of both releases compares does not.
    pub(super) fn differences(&self, other: &Self) -> Vec<&str> {
        let differs = |(name, hash): &(&String, &String)| {
            other.0.get(*name).is_some_and(|other| other != *hash)
        };
        let differing = self.0.iter().filter(differs);
        differing.map(|(name, _)| name.as_str()).collect()
    }

    pub(super) fn value(&self) -> Value {
        let hashes = self.0.iter();
        let hashes =
            hashes.map(|(name, hash)| (Value::from(name.as_str()), Value::from(hash.as_str())));
        hashes.collect::<Map>().into()
    }

    /// Reads the report of another master.
    pub(super) fn from_value(value: &Value) -> Option<Self> {
        let map = value.as_map()?;
        let pair = |(name, hash): (&Value, &Value)| {
            Some((name.as_str()?.to_owned(), hash.as_str()?.to_owned()))
        };
        let pairs: Option<BTreeMap<_, _>> = map.iter().take(OPTIONS_MAX).map(pair).collect();
        Some(Self(pairs?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreement(pairs: &[(&str, Value)]) -> Agreement {
        let pairs = pairs.iter().cloned();
        let map: Map = pairs
            .map(|(name, value)| (Value::from(name), value))
            .collect();
        Agreement::of(&Opts::new(map))
    }

    fn roots(environment: &str, folder: &str) -> Value {
        let folders = Value::list([folder.into()]);
        Map::new().with(environment, folders).into()
    }

    #[test]
    fn options_with_other_values_differ_but_not_the_folders_of_roots() {
        let own = agreement(&[
            ("auto_accept", true.into()),
            ("file_roots", roots("base", "/srv/a")),
            ("pillar_roots", roots("base", "/srv/p")),
            ("interface", "10.0.0.1".into()),
        ]);
        let other = agreement(&[
            ("auto_accept", false.into()),
            ("file_roots", roots("base", "/srv/b")),
            ("pillar_roots", roots("prod", "/srv/p")),
            ("interface", "10.0.0.2".into()),
        ]);
        assert_eq!(own.differences(&other), ["auto_accept", "pillar_roots"]);
        assert!(own.differences(&own).is_empty());
        assert!(own.differences(&Agreement::default()).is_empty());
    }

    #[test]
    fn a_report_is_read_back() {
        let own = agreement(&[("peer", Map::new().into())]);
        assert_eq!(Agreement::from_value(&own.value()), Some(own));
        assert_eq!(Agreement::from_value(&Value::Null), None);
        let wrong = Map::new().with("peer", 1);
        assert_eq!(Agreement::from_value(&wrong.into()), None);
    }
}
