//! [`Heads`]: the commits to which the branches and tags of a repository pointed at its last update.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use state::module::Error;
use value::json::{self, Layout};
use value::{Map, Value};

use super::remotes::Kind;

/// The name of the file in the folder of a mirror.
const FILE: &str = "heads";

/// The commits of a repository, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heads {
    /// The time of the last update, in seconds since 1970.
    pub(super) updated: u64,
    pub(super) branches: BTreeMap<String, String>,
    pub(super) tags: BTreeMap<String, String>,
    /// The numbers of commits that the configuration names, perhaps abbreviated.
    pub(super) pins: BTreeMap<String, String>,
    /// The digest of the keys of `verify`; empty without keys.
    pub(super) keys: String,
    /// The kinds, names and commits of references that no key has signed.
    pub(super) refused: BTreeSet<(String, String, String)>,
}

impl Heads {
    /// Reads the file in the folder of a mirror; `None` if there was no update yet.
    ///
    /// # Errors
    /// When it cannot be read, or has an unknown form.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(FILE);
        let Some(text) = machine::fs::text_or_none(&path)? else {
            return Ok(None);
        };
        let read = json::read(&text).ok().and_then(|value| Self::of(&value));
        read.map(Some).ok_or_else(|| {
            Error::refused(format!(
                "{} has an unknown form. Remove the folder; the next update makes it again",
                path.display()
            ))
        })
    }

    /// Returns the inode and the time of the file, which every update changes.
    pub(super) fn version(folder: &Path) -> Option<(u64, SystemTime)> {
        let metadata = std::fs::metadata(folder.join(FILE)).ok()?;
        Some((metadata.ino(), metadata.modified().ok()?))
    }

    fn of(value: &Value) -> Option<Self> {
        let commits = |key: &str| {
            let map = value.get(key)?.as_map()?;
            let commits = map.iter();
            let commits = commits.map(|(name, commit)| (name.to_text(), commit.to_text()));
            Some(commits.collect())
        };
        let refused = value.get("refused").and_then(Value::as_list);
        let refused = refused.unwrap_or_default().iter().map(|entry| {
            let [kind, name, commit] = entry.texts().try_into().ok()?;
            Some((kind, name, commit))
        });
        Some(Self {
            updated: u64::try_from(value.get("updated")?.as_int()?).ok()?,
            branches: commits("branches")?,
            tags: commits("tags")?,
            pins: commits("pins")?,
            keys: value.get("keys").map(Value::to_text).unwrap_or_default(),
            refused: refused.collect::<Option<_>>()?,
        })
    }

    /// Replaces the file, durably.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Error> {
        let commits = |all: &BTreeMap<String, String>| {
            let pairs = all
                .iter()
                .map(|(name, commit)| (name.as_str(), commit.as_str()));
            Value::Map(pairs.collect::<Map>())
        };
        let refused = self.refused.iter().map(|(kind, name, commit)| {
            let texts = [kind, name, commit];
            Value::list(texts.map(Value::from))
        });
        let value = Map::new()
            .with("updated", self.updated)
            .with("branches", commits(&self.branches))
            .with("tags", commits(&self.tags))
            .with("pins", commits(&self.pins))
            .with("keys", self.keys.as_str())
            .with("refused", Value::list(refused));
        let text = json::write(&value.into(), Layout::default());
        machine::durable::write(folder, FILE, text.as_bytes()).map_err(Error::io(folder.join(FILE)))
    }

    /// Returns the commit of a reference, which may be of several kinds: the first one applies.
    pub(super) fn commit(&self, kinds: &[Kind], reference: &str) -> Option<&str> {
        let found = kinds.iter().find_map(|kind| match kind {
            Kind::Branch => self.branches.get(reference),
            Kind::Tag => self.tags.get(reference),
            Kind::Commit => self.pins.get(reference),
        });
        found.map(String::as_str)
    }

    /// Returns the commits of one kind of reference.
    pub(super) fn of_kind(&mut self, kind: Kind) -> &mut BTreeMap<String, String> {
        match kind {
            Kind::Branch => &mut self.branches,
            Kind::Tag => &mut self.tags,
            Kind::Commit => &mut self.pins,
        }
    }

    /// Returns whether no key has signed a reference, of any kind.
    pub(super) fn is_refused(&self, reference: &str) -> bool {
        self.refused.iter().any(|(_, name, _)| name == reference)
    }

    /// Returns all commits.
    pub(super) fn commits(&self) -> impl Iterator<Item = &str> {
        let all = self.branches.values().chain(self.tags.values());
        all.chain(self.pins.values()).map(String::as_str)
    }
}
