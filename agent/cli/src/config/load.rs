//! Loads the configuration of a minion or a master.

use std::fs;
use std::path::{Path, PathBuf};

use value::hint::nearest_within;
use value::{Map, Value, python};

use super::files::{self, Files};
use super::option::{KnownOption, Status};
use super::{ConfigError, complete, find_option, id, known_of_master, table};
use crate::log;
use value::yaml::Yaml;

/// The folder of the configuration if the user names none.
pub const DEFAULT_DIR: &str = "/etc/salt";

/// The loaded options of a run.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// All options with their values, including Salt's defaults.
    pub opts: Map,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The files that the options were read from.
    pub files: Vec<PathBuf>,
    /// The names of the options that these files set.
    pub given: Vec<String>,
    /// A generated id that is to be saved.
    pub new_id: Option<NewId>,
}

/// A generated id and the file to save it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewId {
    /// The file to save the id in.
    pub file: PathBuf,
    /// The id.
    pub id: String,
}

/// The kind of a configuration: a minion's or a master's.
struct Role {
    /// `minion` or `master`: the name of the main file, and of the role in messages.
    name: &'static str,
    /// The environment variable that names the main file.
    variable: &'static str,
    known: fn(&str) -> Option<&'static KnownOption>,
    defaults: fn() -> Map,
}

const MINION: Role = Role {
    name: "minion",
    variable: "SALT_MINION_CONFIG",
    known: find_option,
    defaults: minion_defaults,
};

const MASTER: Role = Role {
    name: "master",
    variable: "SALT_MASTER_CONFIG",
    known: known_of_master,
    defaults: master_defaults,
};

/// Reads the minion's configuration in `dir`, checks and completes it, and applies `overrides`.
///
/// # Errors
/// If a file cannot be read or parsed, or an option has a value of a wrong type.
pub fn load(dir: &Path, overrides: Map, yaml: &dyn Yaml) -> Result<Loaded, ConfigError> {
    let mut loaded = read(&MINION, dir, yaml)?;
    let opts = &mut loaded.opts;
    complete::environment(opts, MINION.name, &mut loaded.warnings);
    loaded.new_id = settle_id(opts, &overrides)?;
    complete::id_and_folders(opts);
    let below = &complete::BELOW_ROOT;
    complete::paths(opts, MINION.name, below, &mut loaded.warnings);
    finished(loaded, &MINION, "salt-call", overrides)
}

/// Reads the master's configuration in `dir` for one of its programs, checks and completes it, and
/// applies `overrides`.
///
/// # Errors
/// If a file cannot be read or parsed, or an option has a value of a wrong type.
pub fn load_master(
    dir: &Path,
    program: &str,
    overrides: Map,
    yaml: &dyn Yaml,
) -> Result<Loaded, ConfigError> {
    let mut loaded = read(&MASTER, dir, yaml)?;
    let opts = &mut loaded.opts;
    complete::environment(opts, MASTER.name, &mut loaded.warnings);
    complete::master_id(opts)?;
    let below = &complete::MASTER_BELOW_ROOT;
    complete::paths(opts, MASTER.name, below, &mut loaded.warnings);
    complete::nodegroups(opts);
    finished(loaded, &MASTER, program, overrides)
}

/// Returns the defaults, overridden by the options in the files.
fn read(role: &Role, dir: &Path, yaml: &dyn Yaml) -> Result<Loaded, ConfigError> {
    let mut warnings = Vec::new();
    if !dir.is_dir() {
        warnings.push(no_directory(role, dir));
    }
    let path = dir.join(role.name);
    let main = from_environment(dir, role.variable).unwrap_or_else(|| path.clone());
    let mut opts = (role.defaults)();
    let default_include = complete::text(&opts, "default_include");
    let read = Files::load(&path, &main, &default_include, yaml)?;
    opts.insert("conf_file", path.to_string_lossy().into_owned());
    opts.update(checked(
        &read.opts,
        role.known,
        |option| read.place(option),
        &mut warnings,
    )?);
    warnings.extend(read.opts.keys().filter_map(|key| misspelt(key, &read)));
    let files = read.paths();
    let given = read.opts.keys().map(Value::to_text).collect();
    warnings.extend(read.warnings);
    Ok(Loaded {
        opts,
        warnings,
        files,
        given,
        new_id: None,
    })
}

/// Returns the warning about a missing folder of the configuration. For a folder that the user
/// named, it is Salt's.
fn no_directory(role: &Role, dir: &Path) -> String {
    let shown = dir.display();
    match role.name {
        "minion" if dir == Path::new(DEFAULT_DIR) => {
            format!("{shown} does not exist: using defaults; `pinch init` writes a configuration")
        }
        _ => format!("CONFIG '{shown}' directory does not exist."),
    }
}

/// Checks the options of the command line and applies them to the loaded ones. Wrong values are
/// reported as those of the command line, not of a file.
fn finished(
    mut loaded: Loaded,
    role: &Role,
    program: &str,
    overrides: Map,
) -> Result<Loaded, ConfigError> {
    for (key, value) in [("__role", role.name), ("__cli", program)] {
        loaded.opts.insert(key, value);
    }
    let overrides = checked(&overrides, role.known, |_| None, &mut loaded.warnings)?;
    lay_over(&mut loaded.opts, overrides);
    Ok(loaded)
}

/// Returns the grains that the file `grains` next to the configuration sets.
///
/// # Errors
/// If the file exists and cannot be read, or is not a mapping.
pub fn static_grains(dir: &Path, yaml: &dyn Yaml) -> Result<Map, ConfigError> {
    let path = dir.join("grains");
    match fs::read_to_string(&path) {
        Ok(text) => files::parse(&path, &text, yaml),
        Err(_) if !path.exists() => Ok(Map::new()),
        Err(source) => Err(ConfigError::Read { path, source }),
    }
}

/// Returns the main file that the environment variable names, unless the user named a configuration
/// folder.
fn from_environment(dir: &Path, variable: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    named.filter(|file| dir == Path::new(DEFAULT_DIR) && file.is_file())
}

fn minion_defaults() -> Map {
    table::TABLE
        .iter()
        .filter_map(|known| Some((known.name, known.default.value()?)))
        .collect()
}

fn master_defaults() -> Map {
    super::all_of_master()
        .filter_map(|known| Some((known.name, known.default.value()?)))
        .collect()
}

/// Options that grant minions permissions. If they are not mappings, they grant nothing. Salt, too,
/// only warns about that.
const GRANTS: [&str; 2] = ["peer", "peer_run"];

/// Returns the options, converted to the types that the table lists. A known option without a value
/// keeps its default.
fn checked(
    given: &Map,
    known: fn(&str) -> Option<&'static KnownOption>,
    place: impl Fn(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> Result<Map, ConfigError> {
    let mut out = Map::new();
    for (key, value) in given.iter() {
        let known = key.as_str().and_then(|name| Some((name, known(name)?)));
        let Some((name, known)) = known else {
            out.insert(key.clone(), value.clone());
            continue;
        };
        match known.accept(value) {
            Ok(value) if LEVELS.contains(&name) && !is_level(&value) => warnings.push(format!(
                "{}option `{name}` is not a log level: {} (the levels are {}): using warning",
                before(place(name)),
                shown(name, &value),
                log::LEVELS.join(", ")
            )),
            Ok(value) => {
                out.insert(name, value);
            }
            Err(_) if value.is_null() => warnings.push(format!(
                "{}option `{name}` has no value: using its default",
                before(place(name))
            )),
            // Without this option, the minions that it names have no permission. A wrong value
            // therefore grants nothing.
            Err(expected) if GRANTS.contains(&name) => {
                let found = value.type_name();
                warnings.push(format!(
                    "{}option `{name}` needs {expected}, found {found}: it grants no permissions",
                    before(place(name))
                ));
            }
            Err(expected) => {
                return Err(ConfigError::WrongType {
                    place: place(name).unwrap_or_else(|| "command line".into()),
                    option: name.into(),
                    value: shown(name, value),
                    found: value.type_name(),
                    expected,
                });
            }
        }
        let is_set = known.default.value().as_ref() != Some(value);
        if known.status == Status::Restricting && is_set && value.is_true() {
            return Err(ConfigError::Restricting {
                place: place(name).unwrap_or_else(|| "command line".into()),
                option: name.into(),
            });
        }
        if known.status == Status::Unsupported && known.default.value().as_ref() != Some(value) {
            warnings.push(format!(
                "{}option `{name}` is not supported and has no effect",
                before(place(name))
            ));
        }
    }
    Ok(out)
}

/// Options whose value is the name of a log level.
const LEVELS: [&str; 2] = ["log_level", "log_level_logfile"];

/// Reports whether a value of one of [`LEVELS`] names a level.
fn is_level(value: &Value) -> bool {
    value.is_null() || log::level(&value.to_text()).is_some()
}

/// The minimum length of an unknown option that is compared with the known ones. Shorter words
/// resemble too many of them.
const MISSPELT_LENGTH_MIN: usize = 5;

/// The maximum number of letters in which an unknown option differs from the one it resembles.
const MISSPELT_LETTERS_MAX: usize = 2;

/// Returns a warning about an unknown option whose name resembles that of a known one. Other
/// unknown options are the user's own, which `config.get` returns.
fn misspelt(key: &Value, files: &Files) -> Option<String> {
    let name = key
        .as_str()
        .filter(|name| name.len() >= MISSPELT_LENGTH_MIN)?;
    if name.starts_with('_') || known_of_master(name).is_some() {
        return None;
    }
    let known = super::all().iter().chain(super::all_of_master());
    let names = known.map(|known| known.name);
    let near = nearest_within(MISSPELT_LETTERS_MAX, name, names)?;
    Some(format!(
        "{}unknown option `{name}`; did you mean `{near}`?",
        before(files.place(name))
    ))
}

fn before(place: Option<String>) -> String {
    place.map(|place| format!("{place}: ")).unwrap_or_default()
}

/// Returns the start of an option's value, long enough to recognise it. A value that may be or have a
/// secret is not shown.
fn shown(name: &str, value: &Value) -> String {
    const LONGEST: usize = 60;
    let is_secret = ["pass", "secret", "token", "key"]
        .iter()
        .any(|part| name.contains(part));
    if is_secret || value.as_list().is_some() || value.as_map().is_some() {
        return "another value".to_owned();
    }
    let text = python::repr(value);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn settle_id(opts: &mut Map, overrides: &Map) -> Result<Option<NewId>, ConfigError> {
    let has = |map: &Map| map.get("id").is_some_and(Value::is_true);
    if has(opts) || has(overrides) {
        return Ok(None);
    }
    let root = complete::text(opts, "root_dir");
    let found = id::id(opts, &root)?;
    opts.insert("id", found.name.as_str());
    Ok(found.generated.then(|| NewId {
        file: id::cache_file(&root),
        id: found.name,
    }))
}

/// Applies the options of the command line. If `cachedir` changes, a default `extension_modules`
/// moves with it.
fn lay_over(opts: &mut Map, mut overrides: Map) {
    let generated = complete::join(&complete::text(opts, "__cachedir"), "extmods");
    if let Some(folder) = overrides.remove("cachedir") {
        if complete::text(opts, "extension_modules") == generated {
            opts.insert(
                "extension_modules",
                complete::join(&folder.to_text(), "extmods"),
            );
            opts.insert("cachedir", folder);
            complete::below_root(opts, &["cachedir", "extension_modules"]);
        } else {
            opts.insert("cachedir", folder);
        }
    }
    for key in ["file_roots", "pillar_roots"] {
        if let Some(roots) = overrides
            .get(key)
            .and_then(Value::as_map)
            .map(complete::roots)
        {
            overrides.insert(key, roots);
        }
    }
    opts.update(overrides);
}

#[cfg(test)]
mod tests;
