//! Loading the configuration of a minion or a master.

use std::fs;
use std::path::{Path, PathBuf};

use value::{Map, Value, python};

use super::files::{self, Files};
use super::option::{Known, Status};
use super::{ConfigError, complete, id, known, known_of_master, master_table, table};
use value::yaml::Yaml;

/// Where the configuration is when nobody says.
pub const DEFAULT_DIR: &str = "/etc/salt";

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Every option with its value, Salt's defaults included.
    pub opts: Map,
    /// What to tell the user.
    pub warnings: Vec<String>,
    /// The files that it came from.
    pub files: Vec<PathBuf>,
    /// An id that was made up and is to be kept.
    pub new_id: Option<NewId>,
}

/// An id that was made up, and the file to keep it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewId {
    /// The file.
    pub file: PathBuf,
    /// The id.
    pub id: String,
}

/// Whose configuration it is.
struct Role {
    /// `minion` or `master`: the main file, and what others call it.
    name: &'static str,
    /// The variable that names the main file.
    variable: &'static str,
    known: fn(&str) -> Option<&'static Known>,
    defaults: fn() -> Map,
}

const MINION: Role = Role {
    name: "minion",
    variable: "SALT_MINION_CONFIG",
    known,
    defaults: minion_defaults,
};

const MASTER: Role = Role {
    name: "master",
    variable: "SALT_MASTER_CONFIG",
    known: known_of_master,
    defaults: master_defaults,
};

/// Reads the minion's configuration in `dir`, checks it, completes it, and lays `overrides` over it.
///
/// # Errors
/// When a file cannot be read or parsed, or an option has a value of a wrong type.
pub fn load(dir: &Path, overrides: Map, yaml: &dyn Yaml) -> Result<Loaded, ConfigError> {
    let mut loaded = read(&MINION, dir, yaml)?;
    let opts = &mut loaded.opts;
    complete::environment(opts, MINION.name, &mut loaded.warnings);
    loaded.new_id = settle_id(opts, &overrides);
    complete::id_and_folders(opts);
    let below = &complete::BELOW_ROOT;
    complete::paths(opts, MINION.name, below, &mut loaded.warnings);
    finished(loaded, &MINION, "salt-call", overrides)
}

/// Reads the master's configuration in `dir` for one of its programs, checks it, completes it, and lays `overrides` over it.
///
/// # Errors
/// When a file cannot be read or parsed, or an option has a value of a wrong type.
pub fn load_master(
    dir: &Path,
    program: &str,
    overrides: Map,
    yaml: &dyn Yaml,
) -> Result<Loaded, ConfigError> {
    let mut loaded = read(&MASTER, dir, yaml)?;
    let opts = &mut loaded.opts;
    complete::environment(opts, MASTER.name, &mut loaded.warnings);
    complete::master_id(opts);
    let below = &complete::MASTER_BELOW_ROOT;
    complete::paths(opts, MASTER.name, below, &mut loaded.warnings);
    complete::nodegroups(opts);
    finished(loaded, &MASTER, program, overrides)
}

/// The defaults, and what the files say.
fn read(role: &Role, dir: &Path, yaml: &dyn Yaml) -> Result<Loaded, ConfigError> {
    let mut warnings = Vec::new();
    if !dir.is_dir() {
        warnings.push(format!(
            "CONFIG '{}' directory does not exist.",
            dir.display()
        ));
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
    let files = read.paths();
    warnings.extend(read.warnings);
    Ok(Loaded {
        opts,
        warnings,
        files,
        new_id: None,
    })
}

/// With the options of the command line, which an environment of the system must not make look like the file's.
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

/// The grains that the file `grains` beside the configuration sets.
///
/// # Errors
/// When the file is there and is no mapping.
pub fn static_grains(dir: &Path, yaml: &dyn Yaml) -> Result<Map, ConfigError> {
    let path = dir.join("grains");
    match fs::read_to_string(&path) {
        Ok(text) => files::parse(&path, &text, yaml),
        Err(_) if !path.exists() => Ok(Map::new()),
        Err(source) => Err(ConfigError::Read { path, source }),
    }
}

/// A variable names the main file, unless a folder was named.
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
    let shared = master_table::SHARED.iter().filter_map(|name| known(name));
    shared
        .chain(master_table::TABLE)
        .filter_map(|known| Some((known.name, known.default.value()?)))
        .collect()
}

/// Options that let minions do something, and nothing where they are not a mapping. Salt only warns of these as well.
const GRANTS: [&str; 2] = ["peer", "peer_run"];

/// The options with the values that the table lets them have; a known option without a value keeps its default.
fn checked(
    given: &Map,
    known: fn(&str) -> Option<&'static Known>,
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
            Ok(value) => {
                out.insert(name, value);
            }
            Err(_) if value.is_null() => warnings.push(format!(
                "{}option `{name}` has no value: its default is used",
                before(place(name))
            )),
            // Who may do something by them may do nothing then: what is wrong opens nothing.
            Err(expected) if GRANTS.contains(&name) => {
                let found = value.type_name();
                warnings.push(format!(
                    "{}option `{name}` must be {expected} and is {found}: it lets nobody do anything",
                    before(place(name))
                ));
            }
            Err(expected) => {
                return Err(ConfigError::WrongType {
                    place: place(name).unwrap_or_else(|| "command line".into()),
                    option: name.into(),
                    value: shortened(value),
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

fn before(place: Option<String>) -> String {
    place.map(|place| format!("{place}: ")).unwrap_or_default()
}

/// Enough of a value to know it again.
fn shortened(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = python::repr(value);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn settle_id(opts: &mut Map, overrides: &Map) -> Option<NewId> {
    let has = |map: &Map| map.get("id").is_some_and(Value::is_true);
    if has(opts) || has(overrides) {
        return None;
    }
    let root = complete::text(opts, "root_dir");
    let found = id::id(opts, &root);
    opts.insert("id", found.name.as_str());
    found.generated.then(|| NewId {
        file: id::cache_file(&root),
        id: found.name,
    })
}

/// Options of the command line stand over the files'; a cache folder takes the extension modules with it.
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
