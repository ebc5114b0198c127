//! [`Noted`]: what a run has noted of its changes, put together by what was changed.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use modules::fs::image::{self, Image};
use value::{Map, Value};

use crate::inverse::Thing;

/// The images that a path had during the run which are looked at: the last one, and the one before it where the run was killed between
/// the note and the change.
const LOOKED_AT: usize = 2;

/// A path that a run has changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// Where it is.
    pub path: PathBuf,
    /// What it was before the run.
    pub was: Image,
    /// What the run made of it, the last first.
    pub is: Vec<Image>,
    /// Why it cannot be made what it was, if it cannot.
    pub lost: Option<String>,
    /// The tags of the states that changed it.
    pub by: Vec<String>,
}

/// What a run has noted, each in the order in which it was changed first.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    /// Paths.
    pub places: Vec<Place>,
    /// What is no file.
    pub things: Vec<Thing>,
    /// What was changed first, second …
    pub order: Vec<Which>,
}

/// A change among those of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// A place.
    Place(usize),
    /// A thing.
    Thing(usize),
}

impl Noted {
    /// Of the lines of a record.
    #[must_use]
    pub fn of(changes: &[Map]) -> Self {
        let mut noted = Self::default();
        let mut known = HashMap::new();
        for entry in changes {
            let word = |key| entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let key = (word("inverse"), word("changed"));
            let which = *known.entry(key).or_insert_with(|| noted.add(key.0, key.1));
            let by = word("by");
            match which {
                Which::Place(at) => {
                    if let Some(place) = noted.places.get_mut(at) {
                        place.add(entry);
                        add_once(&mut place.by, by);
                    }
                }
                Which::Thing(at) => {
                    if let Some(thing) = noted.things.get_mut(at) {
                        thing.add(entry);
                        add_once(&mut thing.by, by);
                    }
                }
            }
        }
        noted
    }

    fn add(&mut self, inverse: &str, name: &str) -> Which {
        let which = if inverse.is_empty() {
            self.places.push(Place {
                path: name.into(),
                ..Place::default()
            });
            Which::Place(self.places.len() - 1)
        } else {
            self.things.push(Thing::of(inverse, name));
            Which::Thing(self.things.len() - 1)
        };
        self.order.push(which);
        which
    }

    /// What is noted of a path.
    pub fn place(&self, path: &Path) -> Option<&Place> {
        self.places.iter().find(|place| place.path == path)
    }
}

fn add_once(all: &mut Vec<String>, one: &str) {
    if !one.is_empty() && all.iter().all(|known| known != one) {
        all.push(one.to_owned());
    }
}

impl Place {
    /// Adds a line: what was noted first of what it was counts, and what was noted last of what it is.
    fn add(&mut self, entry: &Map) {
        let map = |key| entry.get(key).and_then(Value::as_map);
        let lost = || entry.get("lost").map(Value::to_text);
        match map("was") {
            // Written to in place, or not to be looked at.
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

    /// Whether the run changed more than how it looks: mode, owner, times.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is.iter().any(|is| is.contains("kind"))
    }

    /// What it is to be again: all of it, or that of how it looks which the run has changed.
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

/// What lies at a path as it was noted. Where a link leads there now, it is another place.
pub(crate) fn now(path: &Path) -> std::io::Result<Image> {
    let Some(above) = path.parent() else {
        return image::of(path);
    };
    match above.canonicalize() {
        Ok(real) if real == above => image::of(path),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(error),
        _ => Ok(image::absent()),
    }
}

/// In what an image of a path now differs from one that was noted; nothing where it does not.
#[must_use]
pub(crate) fn difference(path: &Path, now: &Image, noted: &Image) -> Option<String> {
    for key in ["kind", "target", "type", "device", "mode", "uid", "gid"] {
        let (Some(wanted), found) = (noted.get(key), now.get(key)) else {
            continue;
        };
        if found != Some(wanted) {
            let text = |value: Option<&Value>| shown(key, value);
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

/// A value of an image as people write it.
pub(crate) fn shown(key: &str, value: Option<&Value>) -> String {
    match value {
        Some(value) if key == "mode" => format!("{:04o}", value.as_int().unwrap_or_default()),
        Some(value) => value.to_text(),
        None => "none".to_owned(),
    }
}
