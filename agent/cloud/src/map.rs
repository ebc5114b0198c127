//! Maps: the machines that are wanted, by profile.

use std::path::{Path, PathBuf};

use render::{Context, render};
use state::exec::Exec;
use state::host::ExecHost;
use value::{Map, Value, trust};

use crate::config::Config;
use crate::fault::Fault;
use crate::spec::Spec;

/// The maximum depth to which maps include each other.
const DEPTH_MAX: usize = 16;
/// The maximum number of machines in a map.
const MACHINES_MAX: usize = 10_000;

/// The machines of a map, and the profiles that do not exist with Salt's sentence.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) specs: Vec<Spec>,
    pub(crate) errors: Map,
}

/// Reads the map that the settings name: the file `map`, the data `map_data`, or `map_pillar`, a name
/// below `cloud:maps` of the pillar.
///
/// # Errors
/// When there is none, it cannot be read, includes itself, or is not well formed.
pub(crate) fn read(cx: &Exec, config: &Config) -> Result<Read, Fault> {
    let given = |key: &str| config.main.get(key).filter(|value| value.is_true());
    let by_profile = if let Some(path) = given("map") {
        file(cx, config, &path.to_text(), &mut Vec::new())?
    } else if let Some(data) = given("map_data") {
        data.as_map()
            .cloned()
            .ok_or_else(|| Fault::wrong("map_data must be a dictionary"))?
    } else if let Some(name) = given("map_pillar") {
        let found = config.maps.get(&name.to_text()).and_then(Value::as_map);
        found.cloned().ok_or_else(|| {
            Fault::wrong(format!(
                "The specified map not found in pillar at 'cloud:maps:{}'",
                name.to_text()
            ))
        })?
    } else {
        Map::new()
    };
    if by_profile.is_empty() {
        return Err(Fault::wrong("No nodes defined in this map"));
    }
    let mut read = Read::default();
    for (profile, machines) in &by_profile {
        add(config, &profile.to_text(), &entries(machines)?, &mut read)?;
    }
    Ok(read)
}

/// Adds the machines of one profile.
fn add(config: &Config, profile: &str, machines: &Map, read: &mut Read) -> Result<(), Fault> {
    let Ok(profile) = config.profile(profile) else {
        let names: Vec<String> = machines
            .keys()
            .map(|name| format!("'{}'", name.as_text()))
            .collect();
        read.errors.insert(profile, format!(
            "The required profile, '{profile}', defined in the map does not exist. The defined nodes, {}, will not be created.",
            names.join(", ")
        ));
        return Ok(());
    };
    for (name, overrides) in machines {
        let (name, overrides) = (name.to_text(), overridden(overrides));
        if read.specs.iter().any(|spec| spec.name.as_str() == name) {
            return Err(Fault::wrong(format!("the map has {name} twice")));
        }
        if read.specs.len() >= MACHINES_MAX {
            return Err(Fault::wrong(format!(
                "the map has more than {MACHINES_MAX} machines"
            )));
        }
        let (alias, driver) = match overrides.get("provider").map(Value::to_text) {
            None => profile.provider.clone(),
            Some(full) => {
                let (alias, driver) = full.split_once(':').unwrap_or((&full, ""));
                (alias.to_owned(), driver.to_owned())
            }
        };
        let word = match driver.is_empty() {
            true => alias,
            false => format!("{alias}:{driver}"),
        };
        let providers = config.matching(&word)?;
        let Some(provider) = providers.first() else {
            continue;
        };
        read.specs.push(Spec::new(
            config,
            provider,
            Some(profile),
            (&name, &overrides),
        )?);
    }
    Ok(())
}

/// Returns the settings of one machine, in which the old names with `map_` are the new ones.
fn overridden(given: &Value) -> Map {
    let mut overrides = given.as_map().cloned().unwrap_or_default();
    for setting in ["grains", "master", "minion", "volumes", "requires"] {
        if let Some(value) = overrides.remove(&format!("map_{setting}")) {
            overrides.insert(setting, value);
        }
    }
    overrides
}

/// Returns the machines of one profile with their settings: a dictionary, a list of names and of
/// dictionaries, or one name.
fn entries(machines: &Value) -> Result<Map, Fault> {
    let mut all = Map::new();
    match machines {
        Value::Map(map) => all = map.clone(),
        Value::List(items) | Value::Tuple(items) => {
            for item in items.iter() {
                match item {
                    Value::Map(map) => all.update(map.clone()),
                    name => {
                        all.insert(name.to_text(), Value::Null);
                    }
                }
            }
        }
        Value::Null => {}
        name => {
            all.insert(name.to_text(), Value::Null);
        }
    }
    let is_wrong =
        |settings: &Value| !matches!(settings, Value::Map(_) | Value::Null | Value::Bool(_));
    match all.iter().find(|(_, settings)| is_wrong(settings)) {
        Some((name, settings)) => Err(Fault::wrong(format!(
            "the map: the settings of {} must be a dictionary, but are a {}",
            name.as_text(),
            settings.type_name()
        ))),
        None => Ok(all),
    }
}

/// Returns the path of a map: as given, or in `cloud.maps.d` next to the configuration.
fn path(config: &Config, name: &str) -> PathBuf {
    let given = Path::new(name);
    match given.is_absolute() || given.exists() {
        true => given.to_owned(),
        false => config.folder.join("cloud.maps.d").join(name),
    }
}

/// Renders a file and those that it includes.
fn file(cx: &Exec, config: &Config, name: &str, above: &mut Vec<String>) -> Result<Map, Fault> {
    if above.iter().any(|other| other == name) || above.len() > DEPTH_MAX {
        return Err(Fault::wrong(format!(
            "the map {name} includes itself: {} -> {name}",
            above.join(" -> ")
        )));
    }
    above.push(name.to_owned());
    let mut map = rendered(cx, config, name)?;
    if let Some(include) = map.remove("include") {
        for other in include.split_input() {
            let folder = Path::new(name).parent().unwrap_or_else(|| Path::new(""));
            let pattern = folder.join(&other).to_string_lossy().into_owned();
            let found = modules::globbed(&pattern);
            if found.is_empty() {
                return Err(Fault::wrong(format!(
                    "{name}: the included map {pattern} does not exist"
                )));
            }
            for path in found {
                let lower = file(cx, config, &path, above)?;
                map = value::merge::recurse(&map, &lower, true);
            }
        }
    }
    above.pop();
    Ok(map)
}

/// Renders one file.
fn rendered(cx: &Exec, config: &Config, name: &str) -> Result<Map, Fault> {
    let path = match name.starts_with("salt://") {
        true => {
            let cached = cx.call_internal("cp.cache_file", vec![name.into()], Map::new())?;
            PathBuf::from(cached.as_str().unwrap_or_default())
        }
        false => {
            let path = path(config, name);
            let missing =
                || Fault::wrong(format!("The specified map file does not exist: '{name}'"));
            if !path.is_file() {
                return Err(missing());
            }
            trust::path(&path, trust::user()).map_err(|error| Fault::Wrong(error.sentence()))?;
            path
        }
    };
    let text = machine::fs::text(&path).map_err(|error| Fault::wrong(error.to_string()))?;
    let variables = Map::new()
        .with("grains", cx.grains())
        .with("opts", cx.opts().map.clone());
    let context = Context {
        name: name.to_owned(),
        variables,
        ..Context::default()
    };
    let default = cx.opts().text("renderer").unwrap_or("jinja|yaml");
    let rendered = render(&text, default, &context, &ExecHost::in_state_tree(cx));
    match rendered
        .map_err(|error| Fault::Wrong(error.to_string()))?
        .value
    {
        Value::Map(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        other => Err(Fault::wrong(format!(
            "the map {name} must be a dictionary, but is a {}",
            other.type_name()
        ))),
    }
}
