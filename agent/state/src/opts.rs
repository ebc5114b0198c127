//! [`Opts`]: the configuration as the run needs it.

use std::path::{Path, PathBuf};

use value::{Map, Value};

/// The configuration: what `config.get` and templates see, and the parts that the engine itself uses.
#[derive(Clone, Debug, Default)]
pub struct Opts {
    /// Every option, as `opts` in templates.
    pub map: Map,
}

impl Opts {
    /// The configuration of a run. Its values were checked when it was read.
    #[must_use]
    pub fn new(map: Map) -> Self {
        Self { map }
    }

    /// An option as it stands.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// An option that is text; nothing where it is not set.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    /// True when an option is set and true.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(Value::is_true)
    }

    /// An option that is a whole number.
    #[must_use]
    pub fn int(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_int)
    }

    /// An option that is text or a list of texts.
    #[must_use]
    pub fn texts(&self, name: &str) -> Vec<String> {
        self.get(name).map(Value::texts).unwrap_or_default()
    }

    /// The names of the options that another configuration has otherwise, or that only one of both has, in their order.
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

    /// True for the configuration of a program of the minion's, where all that it says stays on this machine.
    #[must_use]
    pub fn is_of_minion(&self) -> bool {
        self.text("__cli") == Some("salt-call")
    }

    /// The minion's id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.text("id").unwrap_or_default()
    }

    /// An option that is a path.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(self.text(name).unwrap_or_default())
    }

    /// Where caches and run records are kept.
    #[must_use]
    pub fn cachedir(&self) -> PathBuf {
        self.path("cachedir")
    }

    /// The environment that a function works in when none is named.
    #[must_use]
    pub fn saltenv(&self) -> &str {
        self.text("saltenv").unwrap_or("base")
    }

    /// The environments of `file_roots` or `pillar_roots`, in their order.
    #[must_use]
    pub fn environments(&self, roots: &str) -> Vec<String> {
        self.get(roots)
            .and_then(Value::as_map)
            .map(|map| map.keys().map(Value::to_text).collect())
            .unwrap_or_default()
    }

    /// The folders of an environment of `file_roots` or `pillar_roots`; those of `__env__` where it is not named.
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
