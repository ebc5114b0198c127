//! Merges dictionaries with Salt's strategies.

use crate::{Map, Value};

/// A strategy to merge two dictionaries, as in `pillar_source_merging_strategy` and
/// `slsutil.merge`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Dictionaries are merged level by level; every other value is replaced.
    Recurse,
    /// Values that `yamlex` has marked are merged. No renderer here marks any, so the second
    /// dictionary's values replace those of the first.
    Aggregate,
    /// Like `Recurse`, but a key of the second dictionary replaces that of the first as a whole.
    Overwrite,
    /// The two values of a key become a list of two.
    List,
    /// Only the last dictionary counts. Here this is like `Recurse`, because the caller passes only
    /// one.
    None,
}

impl Strategy {
    /// Returns the strategy of a name: `smart` depends on the renderer; an unknown name is `None`.
    #[must_use]
    pub fn from_name(word: &str, renderer: &str) -> Option<Self> {
        Some(match word {
            "smart"
                if renderer.rsplit('|').next() == Some("yamlex")
                    || renderer.starts_with("yamlex_") =>
            {
                Self::Aggregate
            }
            "smart" | "recurse" => Self::Recurse,
            "aggregate" => Self::Aggregate,
            "overwrite" => Self::Overwrite,
            "list" => Self::List,
            "none" => Self::None,
            _ => return None,
        })
    }
}

/// Merges `upper` into a copy of `lower`.
#[must_use]
pub fn merge(lower: &Map, upper: &Map, strategy: Strategy, merge_lists: bool) -> Map {
    match strategy {
        Strategy::Recurse => recurse(lower, upper, merge_lists),
        Strategy::None => recurse(lower, upper, false),
        Strategy::Aggregate => {
            let mut merged = lower.clone();
            merged.update(upper.clone());
            merged
        }
        Strategy::Overwrite => {
            let mut lower = lower.clone();
            for (key, value) in upper {
                if let Some(old) = lower.get_value_mut(key) {
                    *old = value.clone();
                }
            }
            recurse(&lower, upper, merge_lists)
        }
        Strategy::List => lower
            .iter()
            .map(|(key, value)| match upper.get_value(key) {
                Some(over) => (key.clone(), Value::list([value.clone(), over.clone()])),
                None => (key.clone(), value.clone()),
            })
            .collect(),
    }
}

/// Merges like Salt's `dictupdate.update`, level by level. Lists are replaced, or with
/// `merge_lists` joined without duplicates.
#[must_use]
pub fn recurse(lower: &Map, upper: &Map, merge_lists: bool) -> Map {
    let mut merged = lower.clone();
    for (key, value) in upper {
        match (merged.get_value_mut(key), value) {
            (Some(Value::Map(old)), Value::Map(new)) => *old = recurse(old, new, merge_lists),
            (Some(old @ Value::List(_)), Value::List(new)) if merge_lists => join(old, new),
            (Some(old), new) => *old = new.clone(),
            (None, new) => {
                merged.insert(key.clone(), new.clone());
            }
        }
    }
    merged
}

fn join(old: &mut Value, new: &[Value]) {
    if let Some(old) = old.as_list_mut() {
        for item in new {
            if !old.contains(item) {
                old.push(item.clone());
            }
        }
    }
}
