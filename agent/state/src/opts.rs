//! [`Opts`]: the configuration of a run.

use std::path::{Path, PathBuf};

use value::{Map, Value};

/// The configuration: the options that `config.get` and templates see, and typed access to those
/// that the engine itself uses.
#[derive(Clone, Debug, Default)]
pub struct Opts {
    /// All options (`opts` in templates).
    pub map: Map,
}

impl Opts {
    /// Returns the configuration of a run. The caller has already checked the values.
    #[must_use]
    pub fn new(map: Map) -> Self {
        Self { map }
    }

    /// Returns an option, if it is set and not null.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Returns an option that is text, if it is set.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    /// Returns true if an option is set and true.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(Value::is_true)
    }

    /// Returns an option that is a whole number, if it is set.
    #[must_use]
    pub fn int(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_int)
    }

    /// Returns an option that is a text or a list of texts. Empty if it is not set.
    #[must_use]
    pub fn texts(&self, name: &str) -> Vec<String> {
        self.get(name).map(Value::texts).unwrap_or_default()
    }

    /// Returns the names of the options that differ between two configurations, or that only one of
    /// them has, sorted.
    #[must_use]
    pub fn changed(&self, other: &Self) -> Vec<String> {
        let only_there = other
            .map
            .keys()
            .filter(|name| !self.map.contains_value(name));
        let mut names: Vec<String> = self
            .map
            .keys()
            .chain(only_there)
            .filter(|name| self.map.get_value(name) != other.map.get_value(name))
            .map(Value::to_text)
            .collect();
        value::sorted::sort(&mut names);
        names
    }

    /// Returns true for the configuration of `salt-call`. All output of it stays on this machine.
    #[must_use]
    pub fn is_of_minion(&self) -> bool {
        self.text("__cli") == Some("salt-call")
    }

    /// Returns the minion's id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.text("id").unwrap_or_default()
    }

    /// Returns an option that is a path. Empty if it is not set.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(self.text(name).unwrap_or_default())
    }

    /// Returns the folder for caches and run records.
    #[must_use]
    pub fn cachedir(&self) -> PathBuf {
        self.path("cachedir")
    }

    /// Returns the default environment of a function.
    #[must_use]
    pub fn saltenv(&self) -> &str {
        self.text("saltenv").unwrap_or("base")
    }

    /// Returns the environments of `file_roots` or `pillar_roots`, in their order.
    #[must_use]
    pub fn environments(&self, roots: &str) -> Vec<String> {
        self.get(roots)
            .and_then(Value::as_map)
            .map(|map| map.keys().map(Value::to_text).collect())
            .unwrap_or_default()
    }

    /// Returns the folders of an environment of `file_roots` or `pillar_roots`. If the option does
    /// not name the environment, returns those of `__env__`.
    #[must_use]
    pub fn roots(&self, roots: &str, saltenv: &str) -> Vec<PathBuf> {
        let Some(map) = self.get(roots).and_then(Value::as_map) else {
            return Vec::new();
        };
        let folders = map.get(saltenv).or_else(|| map.get("__env__"));
        let folders = folders.and_then(Value::as_list).unwrap_or_default();
        folders
            .iter()
            .map(|folder| Path::new(&folder.to_text().replace("__env__", saltenv)).to_path_buf())
            .collect()
    }
}
