//! [`Marks`]: keys whose values are masked whatever they are.

use super::EVERYWHERE;
use crate::{Value, glob};

/// The maximum number of additional keys above a learnt path in an output: `local`, or a minion's
/// id.
const ABOVE_MAX: usize = 1;

#[derive(Default)]
pub(super) struct Marks {
    /// The option `secret_keys`: the last keys of a path, with globs.
    patterns: Vec<Vec<String>>,
    /// The paths of pillar secrets that are too short to search for.
    places: Vec<Vec<String>>,
}

impl Marks {
    pub(super) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    pub(super) fn has_pattern(&self, parts: &[String]) -> bool {
        self.patterns.iter().any(|known| known == parts)
    }

    pub(super) fn add_pattern(&mut self, parts: Vec<String>) {
        self.patterns.push(parts);
    }

    pub(super) fn has_place(&self, path: &[&str]) -> bool {
        self.places.iter().any(|known| known == path)
    }

    /// Adds the path of a secret. A path that is empty or only a key that every return has is
    /// ignored.
    pub(super) fn add_place(&mut self, path: &[&str]) {
        let is_everywhere = matches!(path, []) || matches!(path, [key] if EVERYWHERE.contains(key));
        if !is_everywhere && !self.has_place(path) {
            self.places
                .push(path.iter().map(|&key| key.to_owned()).collect());
        }
    }

    /// True when `secret_keys` names a path.
    pub(super) fn names(&self, path: &[&str]) -> bool {
        self.patterns.iter().any(|pattern| {
            let start = path.len().checked_sub(pattern.len());
            let last = start
                .and_then(|start| path.get(start..))
                .unwrap_or_default();
            !last.is_empty()
                && last
                    .iter()
                    .zip(pattern)
                    .all(|(key, part)| glob::fnmatch(part, key))
        })
    }

    pub(super) fn covers(&self, path: &[&str]) -> bool {
        let is_place = |place: &Vec<String>| {
            let above = path.len().checked_sub(place.len());
            let below = above.filter(|above| *above <= ABOVE_MAX);
            below
                .and_then(|above| path.get(above..))
                .is_some_and(|path| path == place)
        };
        self.names(path) || self.places.iter().any(is_place)
    }

    /// Returns the paths in a value that are learnt or that `secret_keys` names.
    pub(super) fn found_in(&self, value: &Value) -> Vec<Value> {
        let mut found = Vec::new();
        self.look(&mut Vec::new(), value, &mut found);
        found
    }

    fn look<'a>(&self, path: &mut Vec<&'a str>, value: &'a Value, found: &mut Vec<Value>) {
        match value {
            Value::Map(map) => {
                for (key, value) in map {
                    path.push(key.as_str().unwrap_or_default());
                    if self.covers(path) {
                        found.push(Value::list(path.iter().map(|&key| key.into())));
                    } else {
                        self.look(path, value, found);
                    }
                    path.pop();
                }
            }
            Value::List(items) => items.iter().for_each(|item| self.look(path, item, found)),
            _ => {}
        }
    }
}
