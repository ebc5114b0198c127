//! [`Scope`]: the part of the machine that a chunk works on, as far as its function shows.

use std::path::{Path, PathBuf};

use python::path::expand_user;
use state::exec::{Registry, facts};
use state::facts::Effects;
use state::low::LowChunk;
use value::Value;

/// The part of the machine that a chunk works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// No part of the machine.
    Nothing,
    /// These files and folders.
    Files(Vec<Place>),
    /// Unknown, because it runs something that the SLS names.
    Command,
    /// The changes of the states of an orchestration step, which have scopes themselves.
    Step,
    /// A part of the machine that paths do not describe.
    Machine,
}

/// A path, and whether everything below it belongs to the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) deep: bool,
}

impl Scope {
    /// Returns the scope of a chunk, by what its function declares.
    pub(crate) fn from_chunk(registry: &Registry, low: &LowChunk) -> Self {
        let set = |key: &&str| low.data.get(key).is_some_and(Value::is_true);
        let facts = facts(registry.states, &low.function());
        match facts.effects {
            _ if facts.step.is_some() => Self::Step,
            Effects::None => Self::Nothing,
            Effects::Files(args) if !args.is_empty() => Self::Files(places(low, args, false)),
            Effects::Trees(args) => Self::Files(places(low, args, true)),
            Effects::TreeIf(args) => Self::Files(places(low, &["name"], args.iter().any(set))),
            Effects::Command | Effects::Runs => Self::Command,
            Effects::Files(_) | Effects::MoreThanFiles { .. } | Effects::Unknown => Self::Machine,
        }
    }

    /// Returns the places in the scope.
    pub(crate) fn places(&self) -> &[Place] {
        match self {
            Self::Files(places) => places,
            _ => &[],
        }
    }

    /// Returns whether two scopes have a path in common.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let meet = |place: &Place| other.places().iter().any(|other| place.meets(other));
        self.places().iter().any(meet)
    }
}

impl Place {
    fn meets(&self, other: &Self) -> bool {
        let holds = |outer: &Self, inner: &Self| outer.deep && inner.path.starts_with(&outer.path);
        self.path == other.path || holds(self, other) || holds(other, self)
    }

    /// Returns the place, or the topmost missing folder above it, which would be created first.
    pub(crate) fn made(&self) -> Self {
        let missing = self
            .path
            .ancestors()
            .take_while(|path| path.symlink_metadata().is_err());
        match missing.last() {
            Some(path) => Self {
                path: path.to_path_buf(),
                deep: true,
            },
            None => self.clone(),
        }
    }
}

/// Returns the places that these arguments of a chunk name.
fn places(low: &LowChunk, args: &[&str], deep: bool) -> Vec<Place> {
    let names = args.iter().filter_map(|arg| match *arg {
        "name" => Some(low.name.as_str()),
        arg => low.data.get(arg).and_then(Value::as_str),
    });
    let mut all = Vec::new();
    for path in names.map(expand_user).filter(|path| path.is_absolute()) {
        let beside = by_its_folder(&path);
        // A symlink counts, and so does its target.
        let led = beside.canonicalize().ok().filter(|led| *led != beside);
        all.extend(
            [Some(beside), led]
                .into_iter()
                .flatten()
                .map(|path| Place { path, deep }),
        );
    }
    all
}

/// Returns the path with the symlinks of its folder resolved, as far as the folder exists.
pub(crate) fn by_its_folder(path: &Path) -> PathBuf {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return path.to_path_buf();
    };
    let folder = folder
        .canonicalize()
        .unwrap_or_else(|_| by_its_folder(folder));
    folder.join(name)
}

/// Returns the paths of this machine that a chunk reads as its sources.
pub(crate) fn local_sources(low: &LowChunk) -> Vec<PathBuf> {
    let given = ["source", "sources"]
        .into_iter()
        .filter_map(|key| low.data.get(key));
    let texts = given.flat_map(|value| match value {
        Value::List(items) => items.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect::<Vec<_>>(),
    });
    let local = texts.map(|text| text.strip_prefix("file://").unwrap_or(text));
    local
        .filter(|text| text.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

/// Returns the files of the tree that a chunk names, by environment and path.
pub(crate) fn salt_sources(low: &LowChunk) -> Vec<(String, String)> {
    let mut all = Vec::new();
    low.data
        .values()
        .for_each(|value| named(value, low, &mut all));
    all
}

fn named(value: &Value, low: &LowChunk, all: &mut Vec<(String, String)>) {
    match value {
        Value::Str(text) => {
            for word in text.split_whitespace() {
                if let Some(rest) = word.strip_prefix("salt://") {
                    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
                    let own = low.data.get("saltenv").and_then(Value::as_str);
                    let env = query.strip_prefix("saltenv=").or(own);
                    let env = env.unwrap_or(&low.saltenv);
                    let env = if env.is_empty() { "base" } else { env };
                    all.push((
                        env.to_owned(),
                        path.trim_start_matches(['/', '|']).to_owned(),
                    ));
                }
            }
        }
        Value::List(items) => items.iter().for_each(|item| named(item, low, all)),
        Value::Map(map) => map.iter().for_each(|(key, value)| {
            named(key, low, all);
            named(value, low, all);
        }),
        _ => {}
    }
}
