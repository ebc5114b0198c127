//! [`Changes`]: the changes that a run has noted, combined by path or thing.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use machine::fs::image::{self, Image};
use value::{Map, Value};

use crate::inverse::Resource;

/// The number of states during the run that are kept for each path: the last one, and the one
/// before it in case the run was killed between the note and the change.
const LOOKED_AT: usize = 2;

/// A path that a run has changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathChange {
    /// The path.
    pub path: PathBuf,
    /// The state of the path before the run.
    pub was: Image,
    /// The states that the run gave it, the latest first.
    pub is: Vec<Image>,
    /// The reason why it cannot be restored; `None` if it can.
    pub lost: Option<String>,
    /// The tags of the states that changed it.
    pub by: Vec<String>,
}

/// The noted changes of a run, each in the order of the first change.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The changed paths.
    pub places: Vec<PathChange>,
    /// The changed things that are no files.
    pub things: Vec<Resource>,
    /// The order of the first changes across paths and things.
    pub order: Vec<ChangeIndex>,
}

/// The index of a change among those of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeIndex {
    /// An index into the places.
    PathChange(usize),
    /// An index into the things.
    Resource(usize),
}

impl Changes {
    /// Combines the lines of a record.
    #[must_use]
    pub fn from_entries(changes: &[Map]) -> Self {
        let mut noted = Self::default();
        let mut known = HashMap::new();
        for entry in changes {
            let word = |key| entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let key = (word("inverse"), word("changed"));
            let which = *known.entry(key).or_insert_with(|| noted.add(key.0, key.1));
            let by = word("by");
            match which {
                ChangeIndex::PathChange(at) => {
                    if let Some(place) = noted.places.get_mut(at) {
                        place.add(entry);
                        add_once(&mut place.by, by);
                    }
                }
                ChangeIndex::Resource(at) => {
                    if let Some(thing) = noted.things.get_mut(at) {
                        thing.add(entry);
                        add_once(&mut thing.by, by);
                    }
                }
            }
        }
        noted
    }

    fn add(&mut self, inverse: &str, name: &str) -> ChangeIndex {
        let which = if inverse.is_empty() {
            self.places.push(PathChange {
                path: name.into(),
                ..PathChange::default()
            });
            ChangeIndex::PathChange(self.places.len() - 1)
        } else {
            self.things.push(Resource::new(inverse, name));
            ChangeIndex::Resource(self.things.len() - 1)
        };
        self.order.push(which);
        which
    }

    /// Returns the changes noted for a path.
    pub fn place(&self, path: &Path) -> Option<&PathChange> {
        self.places.iter().find(|place| place.path == path)
    }
}

fn add_once(all: &mut Vec<String>, one: &str) {
    if !one.is_empty() && all.iter().all(|known| known != one) {
        all.push(one.to_owned());
    }
}

impl PathChange {
    /// Adds a line of the notes. The earliest state before the run and the latest states after it
    /// count.
    fn add(&mut self, entry: &Map) {
        let map = |key| entry.get(key).and_then(Value::as_map);
        let lost = || entry.get("lost").map(Value::to_text);
        match map("was") {
            // The path was written in place, or cannot be examined.
            None => self.lost = self.lost.take().or_else(lost),
            Some(was) if self.was.is_empty() => {
                self.was = was.clone();
                self.lost = lost();
            }
            Some(was) if self.lacks_contents() && image::kind(was) == "file" => {
                for key in ["sha256", "size"] {
                    if let Some(value) = was.get(key) {
                        self.was.insert(key, value.clone());
                    }
                }
                self.lost = self.lost.take().or_else(lost);
            }
            Some(_) => {}
        }
        let Some(is) = map("is") else {
            return;
        };
        let mut now = match self.is.first() {
            Some(before) if !is.contains("kind") => before.clone(),
            _ => Map::new(),
        };
        now.update(is.clone());
        now.retain(|_, value| !value.is_null());
        self.is.insert(0, now);
        self.is.truncate(LOOKED_AT);
    }

    fn lacks_contents(&self) -> bool {
        image::kind(&self.was) == "file" && !self.was.contains("sha256")
    }

    /// Returns whether the run changed more than the mode, owner and times.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is.iter().any(|is| is.contains("kind"))
    }

    /// Returns the state to restore: all of it, or only the parts of mode, owner and times that the
    /// run changed.
    #[must_use]
    pub fn goal(&self) -> Image {
        let mut goal = self.was.clone();
        if !self.is_whole() {
            let changed = |key: &Value| self.is.iter().any(|is| is.contains_value(key));
            goal.retain(|key, _| key.as_str() == Some("kind") || changed(key));
        }
        goal
    }
}

/// Returns the current state of a path, in the form of a note. If a symlink now leads there, it is
/// a different place and counts as absent.
pub(crate) fn now(path: &Path) -> std::io::Result<Image> {
    let Some(above) = path.parent() else {
        return image::read(path);
    };
    match above.canonicalize() {
        Ok(real) if real == above => image::read(path),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(error),
        _ => Ok(image::absent()),
    }
}

/// Returns how the current state of a path differs from a noted one; `None` if it does not.
#[must_use]
pub(crate) fn difference(path: &Path, now: &Image, noted: &Image) -> Option<String> {
    for key in ["kind", "target", "type", "device", "mode", "uid", "gid"] {
        let (Some(wanted), found) = (noted.get(key), now.get(key)) else {
            continue;
        };
        if found != Some(wanted) {
            let text = |value: Option<&Value>| format_value(key, value);
            return Some(format!(
                "its {key} is {}, not {}",
                text(found),
                text(Some(wanted))
            ));
        }
    }
    if image::kind(now) != "file" {
        return None;
    }
    let size = |image: &Image| image.get("size").and_then(Value::as_int);
    if size(noted).is_some_and(|wanted| size(now) != Some(wanted)) {
        return Some("its contents differ".to_owned());
    }
    if let Some(wanted) = noted.get("sha256").map(Value::to_text) {
        match image::hash(path) {
            Ok(hash) if hash == wanted => {}
            Ok(_) => return Some("its contents differ".to_owned()),
            Err(error) => return Some(error.to_string()),
        }
    }
    let changed = |times: &Value| {
        times
            .as_list()
            .and_then(|times| times.get(2..).map(<[_]>::to_vec))
    };
    let wanted = noted.get("times").and_then(changed);
    let found = path
        .metadata()
        .ok()
        .and_then(|found| changed(&image::times(&found)));
    (wanted.is_some() && wanted != found).then(|| "its times differ".to_owned())
}

/// Formats a value of a state for people.
pub(crate) fn format_value(key: &str, value: Option<&Value>) -> String {
    match value {
        Some(value) if key == "mode" => format!("{:04o}", value.as_int().unwrap_or_default()),
        Some(value) => value.to_text(),
        None => "none".to_owned(),
    }
}
