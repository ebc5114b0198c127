//! [`Files`]: a file of the configuration and those of the folder next to it, with the place of each
//! entry.

use std::path::{Path, PathBuf};

use render::yaml::SaltYaml;
use value::trust::{self, Untrusted};
use value::yaml::Yaml;
use value::{Map, Value};

use crate::fault::Fault;

/// The maximum size of a file in bytes.
const SIZE_MAX: usize = 4 << 20;
/// The maximum number of files.
const FILES_MAX: usize = 1_000;

/// The entries of some files.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// The entries by name.
    pub(crate) map: Map,
    /// The files with their texts.
    read: Vec<(PathBuf, String)>,
}

/// Keys that are no entries.
const OTHERS: [&str; 4] = ["conf_file", "include", "default_include", "user"];

impl Files {
    /// Reads a file and those that match `include`, relative to its folder, or that the file itself
    /// includes. A missing file counts as empty.
    ///
    /// # Errors
    /// When a file cannot be read, another user can change it, it is not a dictionary in YAML, or
    /// two files have the same entry.
    pub(crate) fn load(path: &Path, include: &str) -> Result<Self, Fault> {
        let mut files = Self::default();
        files.add(path, false)?;
        let named = files.map.get("default_include").and_then(Value::as_str);
        let patterns = [named.unwrap_or(include).to_owned()];
        let more = files.map.get("include").map(Value::split_input);
        let folder = path.parent().unwrap_or_else(|| Path::new("/"));
        for pattern in patterns.into_iter().chain(more.unwrap_or_default()) {
            let pattern = folder.join(pattern).to_string_lossy().into_owned();
            for found in modules::globbed(&pattern) {
                files.add(Path::new(&found), true)?;
            }
        }
        for key in OTHERS {
            files.map.remove(key);
        }
        Ok(files)
    }

    fn add(&mut self, path: &Path, must_exist: bool) -> Result<(), Fault> {
        let Some(text) = text(path, must_exist)? else {
            return Ok(());
        };
        if self.read.len() >= FILES_MAX {
            return Err(Fault::wrong(format!(
                "{}: there are more than {FILES_MAX} files of the cloud configuration",
                path.display()
            )));
        }
        let entries = dictionary(path, &text)?;
        let is_old = |name: &&str| !OTHERS.contains(name) && self.map.contains(name);
        let twice = {
            let mut names = entries.keys().filter_map(Value::as_str);
            names.find(is_old).map(str::to_owned)
        };
        self.read.push((path.to_owned(), text));
        if let Some(twice) = twice {
            let places: Vec<String> = self.places(&twice).collect();
            return Err(Fault::wrong(format!(
                "{twice} is defined twice: {}",
                places.join(" and ")
            )));
        }
        self.map.update(entries);
        Ok(())
    }

    /// Adds entries of the pillar, which replace those of files.
    ///
    /// # Errors
    /// When they are not a dictionary.
    pub(crate) fn add_pillar(&mut self, entries: Option<&Value>) -> Result<(), Fault> {
        match entries {
            None | Some(Value::Null) => Ok(()),
            Some(Value::Map(entries)) => {
                self.map.update(entries.clone());
                Ok(())
            }
            Some(other) => Err(Fault::wrong(format!(
                "the pillar below `cloud` must be a dictionary, but is a {}",
                other.type_name()
            ))),
        }
    }

    /// Returns the place of an entry and a colon, for the beginning of an error; nothing for one of
    /// the pillar.
    pub(crate) fn place(&self, entry: &str) -> String {
        let place = self.places(entry).last();
        place.map(|place| format!("{place}: ")).unwrap_or_default()
    }

    fn places(&self, entry: &str) -> impl Iterator<Item = String> {
        self.read.iter().filter_map(move |(path, text)| {
            let line = text.lines().position(|line| is_key(line, entry))? + 1;
            Some(format!("{}:{line}:1", path.display()))
        })
    }
}

/// Returns the text of a file that no other user can change; `None` if it is missing and may be.
fn text(path: &Path, must_exist: bool) -> Result<Option<String>, Fault> {
    let wrong = |error: String| Fault::wrong(format!("Cannot read {}: {error}", path.display()));
    match trust::path(path, trust::user()) {
        Ok(()) => {}
        Err(Untrusted::Unreadable { source, .. })
            if !must_exist && source.kind() == std::io::ErrorKind::NotFound =>
        {
            return Ok(None);
        }
        Err(error) => return Err(wrong(error.sentence())),
    }
    let text = machine::fs::raw::text(path).map_err(|error| wrong(error.to_string()))?;
    match text.len() > SIZE_MAX {
        true => Err(wrong(format!("it has more than {} MiB", SIZE_MAX >> 20))),
        false => Ok(Some(text)),
    }
}

/// Reads a text as a dictionary.
fn dictionary(path: &Path, text: &str) -> Result<Map, Fault> {
    let value = SaltYaml.load(text).map_err(|fault| {
        Fault::wrong(format!(
            "{}:{}:{}: {}",
            path.display(),
            fault.line,
            fault.column,
            fault.message
        ))
    })?;
    match value {
        Value::Map(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        other => Err(Fault::wrong(format!(
            "{}:1:1: expected a dictionary, found a {}",
            path.display(),
            other.type_name()
        ))),
    }
}

/// Returns whether a line begins with a key at the left margin, quoted or not.
fn is_key(line: &str, key: &str) -> bool {
    let line = line.trim_start_matches(['"', '\'']);
    let rest = line.strip_prefix(key);
    let rest = rest.map(|rest| rest.trim_start_matches(['"', '\'', ' ']));
    rest.is_some_and(|rest| rest.starts_with(':'))
}
