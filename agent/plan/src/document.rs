//! [`Document`]: the form of a plan that is stored in a file.

use std::path::PathBuf;
use std::sync::Arc;

use state::low::{LowChunk, RequisiteKind};
use value::json::{self, Layout};
use value::{Map, Value, secret};

use crate::keyed_hash::KeyedHash;
use crate::scope::Scope;

/// The version of the document. A document of another version is rejected.
pub const VERSION: i64 = 1;

/// The value of `kind` in every plan.
const KIND: &str = "pinch plan";

/// The key of a chunk: the tag of the step in which it runs, and its own tag.
pub(crate) type Key = (Option<String>, String);

/// The predicted outcome of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The chunk has nothing to do, or is not run.
    #[default]
    Unchanged,
    /// The chunk would make the changes in the plan.
    Change,
    /// The outcome depends on an earlier change.
    Depends,
    /// The chunk would fail.
    Fail,
}

impl Outcome {
    pub(crate) const ALL: [Self; 4] = [Self::Unchanged, Self::Change, Self::Depends, Self::Fail];

    /// Returns the word for the outcome in the document.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Change => "change",
            Self::Depends => "depends",
            Self::Fail => "fail",
        }
    }

    /// Returns the outcome that a return of the test run shows.
    pub(crate) fn from_return(ret: Option<&Map>) -> Self {
        let Some(ret) = ret else { return Self::Fail };
        let truth = |key: &str| ret.get(key).is_some_and(Value::is_true);
        let comment = ret
            .get("comment")
            .and_then(Value::as_str)
            .unwrap_or_default();
        match ret.get("result").and_then(Value::as_bool) {
            Some(false) => Self::Fail,
            _ if ret.get("__state_ran__") == Some(&Value::Bool(false)) => Self::Unchanged,
            // This is the engine's own comment, which is the same when a run applies changes (not
            // test mode).
            None if comment.starts_with("Failed to meet global state conditions") => {
                Self::Unchanged
            }
            None => Self::Change,
            Some(true) if truth("changes") => Self::Change,
            Some(true) => Self::Unchanged,
        }
    }
}

/// The reason of a chunk that runs only if a later one fails.
pub(crate) const COMPENSATE: &str = "compensate";

/// The reason why a chunk's outcome depends on an earlier change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) reason: &'static str,
    pub(crate) tag: String,
}

/// The contents that a file would have.
#[derive(Clone, Debug)]
pub(crate) struct After {
    pub(crate) path: PathBuf,
    pub(crate) sha256: String,
    pub(crate) size: usize,
    pub(crate) diff: Option<String>,
}

/// A chunk and everything that is known about it.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) key: Key,
    pub(crate) low: Arc<LowChunk>,
    pub(crate) needs: Vec<(RequisiteKind, Key)>,
    pub(crate) scope: Scope,
    /// The paths that the chunk works on, with their current state.
    pub(crate) files: Vec<(PathBuf, Value)>,
    /// The files of this machine that the chunk reads, with their current state.
    pub(crate) sources: Vec<(PathBuf, Value)>,
    pub(crate) then: Vec<After>,
    /// The hash of the return of its function in test mode; `None` if the function is not called.
    pub(crate) returns: Option<String>,
    pub(crate) ret: Option<Map>,
    /// True if its template may call execution functions.
    pub(crate) asks: bool,
    /// The packages and services that the chunk changes.
    pub(crate) more: Map,
    pub(crate) outcome: Outcome,
    pub(crate) because: Vec<Reason>,
    /// True if the chunk runs other states, which follow it.
    pub(crate) is_step: bool,
}

impl Chunk {
    /// Returns the chunk in the form of the document, without secrets.
    fn written(&self, names: &Names, blind: &KeyedHash) -> Map {
        let low = &self.low;
        let ret = |key: &str| {
            let value = self.ret.as_ref().and_then(|ret| ret.get(key));
            crate::settled(value.unwrap_or(&Value::Null))
        };
        let mut map = Map::new()
            .with("tag", names.display_name(&self.key.1))
            .with(
                "step",
                self.key.0.as_deref().map(|step| names.display_name(step)),
            )
            .with("id", low.id.as_str())
            .with("function", low.function())
            .with("name", low.name.as_str())
            .with("sls", low.sls.as_str())
            .with("saltenv", low.saltenv.as_str())
            .with("outcome", self.outcome.word())
            .with("result", ret("result"))
            .with("comment", ret("comment"))
            .with("changes", ret("changes"))
            .with("low", blind.hash(&crate::hash_of(&low.data.clone().into())))
            .with(
                "returns",
                self.returns.as_deref().map(|hash| blind.hash(hash)),
            );
        if !self.because.is_empty() {
            let because = self.because.iter().map(|because| {
                let map = Map::new().with("reason", because.reason);
                map.with("state", names.display_name(&because.tag)).into()
            });
            map.insert("because", Value::list(because));
        }
        if !self.files.is_empty() {
            map.insert(
                "files",
                Value::list(self.files.iter().map(|file| self.file(file, blind))),
            );
        }
        if !self.sources.is_empty() {
            let sources = self.sources.iter().map(|(path, now)| {
                let map = Map::new().with("path", path_text(path));
                map.with("now", blind.image(now)).into()
            });
            map.insert("sources", Value::list(sources));
        }
        if low.state == "cmd" && self.outcome != Outcome::Unchanged && !low.options.no_log {
            map.insert("commands", Value::list([low.name.as_str().into()]));
        }
        map.update(self.more.clone());
        secret::map(map)
    }

    fn file(&self, (path, now): &(PathBuf, Value), blind: &KeyedHash) -> Value {
        let mut map = Map::new()
            .with("path", path_text(path))
            .with("now", blind.image(now));
        if let Some(then) = self.then.iter().find(|then| then.path == *path) {
            let held = Map::new()
                .with("kind", "file")
                .with("sha256", blind.hash(&then.sha256));
            map.insert("then", held.with("size", then.size));
            if let Some(diff) = &then.diff {
                map.insert("diff", diff.as_str());
            }
        }
        map.into()
    }
}

pub(crate) fn path_text(path: &std::path::Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The command that the plan was made for, so that it can be repeated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Invocation {
    /// `state.sls`, `state.highstate` or `state.orchestrate`.
    pub fun: String,
    /// The arguments of the function.
    pub args: Vec<Value>,
    /// The named arguments of the function.
    pub kwargs: Map,
    /// The folder of the configuration.
    pub config_dir: String,
    /// The options that override the configuration.
    pub overrides: Map,
}

impl Invocation {
    fn written(&self) -> Map {
        Map::new()
            .with("fun", self.fun.as_str())
            .with("args", Value::list(self.args.iter().cloned()))
            .with("kwargs", self.kwargs.clone())
            .with("config_dir", self.config_dir.as_str())
            .with("overrides", self.overrides.clone())
    }

    /// Returns whether the command contains secrets, which no plan stores.
    #[must_use]
    pub fn has_secrets(&self) -> bool {
        let written = self.written();
        secret::is_any() && secret::map(written.clone()) != written
    }
}

/// The reason why a text is no plan.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Problem(pub String);

/// A plan as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Document(Map);

/// The tags of a plan that contain secrets, each with its form in the document. The forms are
/// distinct, even if two tags look alike without their secrets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(Vec<(String, String)>);

impl Names {
    pub(crate) fn of_all(chunks: &[Chunk]) -> Self {
        let mut names: Vec<(String, String)> = Vec::new();
        for tag in chunks.iter().map(|chunk| &chunk.key.1) {
            let shown = secret::text(tag).into_owned();
            if shown != *tag && !names.iter().any(|(known, _)| known == tag) {
                let is_used = |text: &str| names.iter().any(|(_, shown)| shown == text);
                let shown = secret::unused(shown, is_used);
                names.push((tag.clone(), shown));
            }
        }
        Self(names)
    }

    pub(crate) fn display_name(&self, tag: &str) -> String {
        let mut all = self.0.iter();
        let found = all.find(|(known, _)| known == tag);
        found.map_or(tag, |(_, shown)| shown).to_owned()
    }

    pub(crate) fn of_key(&self, (step, tag): &Key) -> Key {
        (
            step.as_deref().map(|step| self.display_name(step)),
            self.display_name(tag),
        )
    }
}

/// The inputs that a plan is based on.
pub(crate) struct Basis {
    pub(crate) tree: Map,
    pub(crate) pillar: Map,
    pub(crate) grains: Map,
}

impl Document {
    /// Returns the document of chunks whose outcomes are known.
    pub(crate) fn from_chunks(
        id: &str,
        basis: Basis,
        chunks: &[Chunk],
        (names, blind): (&Names, &KeyedHash),
    ) -> Self {
        let states = Value::list(
            chunks
                .iter()
                .map(|chunk| chunk.written(names, blind).into()),
        );
        let mut summary = Map::new();
        for outcome in Outcome::ALL {
            let counted = chunks
                .iter()
                .filter(|chunk| !chunk.is_step && chunk.outcome == outcome);
            summary.insert(outcome.word(), counted.count());
        }
        let hashed = |map: Map| {
            let whole = crate::hash_of(&map.clone().into());
            Map::new().with("sha256", whole).with("parts", map)
        };
        let basis = Map::new()
            .with("tree", hashed(basis.tree))
            .with("pillar", hashed(basis.pillar))
            .with("grains", hashed(basis.grains));
        let map = Map::new()
            .with("kind", KIND)
            .with("version", VERSION)
            .with("pinch", env!("CARGO_PKG_VERSION"))
            .with("id", id)
            .with("asked", Map::new())
            .with("basis", basis)
            .with("summary", summary)
            .with("states", states);
        Self(map).again()
    }

    /// Returns the document in the form that reading its file gives, because JSON has fewer types
    /// of values.
    fn again(self) -> Self {
        let text = json::write(&Value::Map(self.0.clone()), Layout::default());
        match json::read(&text) {
            Ok(Value::Map(map)) => Self(map),
            _ => self,
        }
    }

    /// Adds the command that the plan was made for, without secrets. A command that contained any
    /// cannot be repeated.
    #[must_use]
    pub fn asked_as(mut self, asked: &Invocation) -> Self {
        let map = secret::map(asked.written());
        self.0.insert("asked", map);
        self.again()
    }

    /// Parses a plan.
    ///
    /// # Errors
    /// When the text is no plan, or one of another version.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let problem = |text: String| Problem(text);
        let value =
            json::read(text).map_err(|error| problem(format!("is not valid JSON: {error}")))?;
        let Value::Map(map) = value else {
            return Err(problem("is not a plan".into()));
        };
        if map.get("kind").and_then(Value::as_str) != Some(KIND) {
            return Err(problem("is not a plan".into()));
        }
        match map.get("version").and_then(Value::as_int) {
            Some(VERSION) => {}
            other => {
                let found = other.map_or_else(|| "none".to_owned(), |version| version.to_string());
                let text =
                    format!("has plan version {found}; this program reads version {VERSION}");
                return Err(problem(text));
            }
        }
        let document = Self(map);
        let complete = document.map("basis").is_some()
            && document
                .0
                .get("states")
                .is_some_and(|states| states.as_list().is_some());
        if complete {
            Ok(document)
        } else {
            Err(problem("is an incomplete plan".into()))
        }
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        let layout = Layout {
            indent: Some(1),
            ..Layout::default()
        };
        json::write(&Value::Map(self.0.clone()), layout) + "\n"
    }

    /// Returns the command that the plan was made for.
    #[must_use]
    pub fn invocation(&self) -> Invocation {
        let Some(asked) = self.map("asked") else {
            return Invocation::default();
        };
        let text = |key: &str| asked.get(key).map(Value::to_text).unwrap_or_default();
        let map = |key: &str| {
            asked
                .get(key)
                .and_then(Value::as_map)
                .cloned()
                .unwrap_or_default()
        };
        Invocation {
            fun: text("fun"),
            args: asked
                .get("args")
                .and_then(Value::as_list)
                .unwrap_or_default()
                .to_vec(),
            kwargs: map("kwargs"),
            config_dir: text("config_dir"),
            overrides: map("overrides"),
        }
    }

    /// Returns one of the document's dictionaries.
    pub(crate) fn map(&self, key: &str) -> Option<&Map> {
        self.0.get(key)?.as_map()
    }

    /// Returns the hashes of the parts of one input: of the tree, the pillar or the grains.
    pub(crate) fn parts(&self, of: &str) -> Map {
        let parts = self
            .map("basis")
            .and_then(|basis| basis.get(of)?.get("parts")?.as_map());
        parts.cloned().unwrap_or_default()
    }

    /// Returns the states.
    pub(crate) fn states(&self) -> &[Value] {
        self.0
            .get("states")
            .and_then(Value::as_list)
            .unwrap_or_default()
    }

    /// Returns the number of states with an outcome.
    #[must_use]
    pub(crate) fn count(&self, outcome: Outcome) -> i64 {
        let summary = self.map("summary");
        summary
            .and_then(|summary| summary.get(outcome.word())?.as_int())
            .unwrap_or_default()
    }

    /// Returns the number of states that would fail.
    #[must_use]
    pub fn failures(&self) -> i64 {
        self.count(Outcome::Fail)
    }

    /// Returns whether any state would change something or depends on an earlier change.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.count(Outcome::Change) + self.count(Outcome::Depends) > 0
    }
}
