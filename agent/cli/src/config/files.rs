//! Reads the configuration files: the main one and those that it includes.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use value::{Map, Value};

use super::ConfigError;
use super::glob::glob;
use crate::options::absolute;
use value::yaml::Yaml;

/// The maximum depth to which files include each other.
const INCLUDES: usize = 16;

/// The options in the files, and the text of the files, which is needed to find the line of an
/// option.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) opts: Map,
    read: Vec<(PathBuf, String)>,
    pub(super) warnings: Vec<String>,
}

impl Files {
    /// Reads the main file and the files that it includes. A missing main file counts as empty.
    pub(super) fn load(
        path: &Path,
        main: &Path,
        default_include: &str,
        yaml: &dyn Yaml,
    ) -> Result<Self, ConfigError> {
        let mut files = Self::default();
        if let Some(opts) = files.read(main, yaml)? {
            files.opts = opts;
            files
                .opts
                .insert("conf_file", main.to_string_lossy().into_owned());
        }
        let include = files
            .opts
            .get("default_include")
            .cloned()
            .unwrap_or_else(|| Value::from(default_include));
        let more = files.opts.get("include").cloned();
        let included = files.include(&include, path, false, yaml, 0)?;
        files.opts.update(included);
        if let Some(include) = more {
            let included = files.include(&include, path, true, yaml, 0)?;
            files.opts.update(included);
        }
        Ok(files)
    }

    /// Returns the place of an option: the last file that sets it, and the line.
    pub(super) fn place(&self, option: &str) -> Option<String> {
        self.read.iter().rev().find_map(|(path, text)| {
            let line = text.lines().position(|line| is_key(line, option))? + 1;
            Some(format!("{}:{line}", path.display()))
        })
    }

    /// Returns the paths of the files that were read.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.read.iter().map(|(path, _)| path.clone()).collect()
    }

    fn read(&mut self, path: &Path, yaml: &dyn Yaml) -> Result<Option<Map>, ConfigError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(source) => {
                return Err(ConfigError::Read {
                    path: path.into(),
                    source,
                });
            }
        };
        let value = parse(path, &text, yaml)?;
        self.read.push((path.into(), text));
        Ok(Some(value))
    }

    /// Reads the files that match, in order. Each one is merged over the earlier ones.
    fn include(
        &mut self,
        include: &Value,
        from: &Path,
        named: bool,
        yaml: &dyn Yaml,
        depth: usize,
    ) -> Result<Map, ConfigError> {
        if depth > INCLUDES {
            return Err(ConfigError::TooDeep {
                path: from.into(),
                limit: INCLUDES,
            });
        }
        let mut merged = Map::new();
        let one = [include.clone()];
        let patterns = include.as_list().unwrap_or(&one);
        for pattern in patterns
            .iter()
            .filter_map(Value::as_str)
            .filter(|pattern| !pattern.is_empty())
        {
            let pattern = self.pattern(pattern, from);
            let found = glob(&pattern);
            if found.is_empty() && named {
                self.warnings.push(format!("Warning parsing configuration file: \"include\" path/glob '{}' matches no files", pattern.display()));
            }
            for path in found {
                let Some(mut opts) = self.read(&path, yaml)? else {
                    continue;
                };
                if let Some(include) = opts.get("include").cloned() {
                    let more = self.include(&include, &path, named, yaml, depth + 1)?;
                    opts.update(more);
                }
                merge(&mut merged, &opts);
            }
        }
        Ok(merged)
    }

    fn pattern(&self, pattern: &str, from: &Path) -> PathBuf {
        if pattern.starts_with('~') {
            return absolute(pattern, &|name| std::env::var(name).ok());
        }
        from.parent()
            .unwrap_or_else(|| Path::new("/"))
            .join(pattern)
    }
}

/// Reads one file as options.
pub(super) fn parse(path: &Path, text: &str, yaml: &dyn Yaml) -> Result<Map, ConfigError> {
    let value = yaml.load(text).map_err(|fault| ConfigError::Syntax {
        path: path.into(),
        line: fault.line,
        column: fault.column,
        message: fault.message,
    })?;
    match value {
        Value::Map(mut map) => {
            if let Some(id) = map.get("id").filter(|id| !id.is_null()).map(Value::to_text) {
                map.insert("id", id);
            }
            Ok(map)
        }
        empty if !empty.is_true() => Ok(Map::new()),
        other => Err(ConfigError::NotAMapping {
            path: path.into(),
            found: other.type_name(),
        }),
    }
}

/// Merges mappings, appends the new items of lists, and replaces all other values.
fn merge(into: &mut Map, from: &Map) {
    for (key, value) in from.iter() {
        match (into.get_value_mut(key), value) {
            (Some(Value::Map(old)), Value::Map(new)) => merge(old, new),
            (Some(old @ Value::List(_)), Value::List(new)) => {
                let Some(items) = old.as_list_mut() else {
                    continue;
                };
                let added: Vec<Value> = new
                    .iter()
                    .filter(|item| !items.contains(item))
                    .cloned()
                    .collect();
                items.extend(added);
            }
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Reports whether a line sets the option: `option: …` at the left margin, quoted or not.
fn is_key(line: &str, option: &str) -> bool {
    let rest = line
        .strip_prefix(['"', '\''])
        .unwrap_or(line)
        .strip_prefix(option);
    rest.is_some_and(|rest| {
        rest.trim_start_matches(['"', '\''])
            .trim_start()
            .starts_with(':')
    })
}
