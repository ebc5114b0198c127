//! The targets of a call: packages with versions, or files to install.

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use value::glob::fnmatch;
use value::{Map, Value, log, python};

use super::{Packages, Provider, Wanted};
use crate::fileserver::fetch;

/// Returns `pkgs` as names with versions; `None` if it is not a list of names and one-key
/// dictionaries.
///
/// # Errors
/// When a package is listed twice, or a name would be an option.
pub(crate) fn repacked(
    cx: &Exec,
    provider: &dyn Provider,
    pkgs: &Value,
    normalize: bool,
) -> Result<Option<Vec<Wanted>>, Error> {
    let read = as_list(pkgs);
    let Some(list) = read.as_list() else {
        log::error("Invalid input: pkgs is not a list");
        return Ok(None);
    };
    let mut wanted: Vec<Wanted> = Vec::new();
    for item in list {
        let Some((name, version)) = entry(item) else {
            log::error(format_args!(
                "Invalid input: {} is neither a name nor a name with a version",
                python::repr(item)
            ));
            return Ok(None);
        };
        let name = named(cx, provider, &name, normalize)?;
        if wanted.iter().any(|other| other.name == name) {
            return Err(Error::refused(format!(
                "You are passing a list of packages that contains duplicated packages names: {}. This cannot be processed. In case you are targeting different versions of the same package, please target them individually",
                python::repr(&read)
            )));
        }
        wanted.push(Wanted {
            name,
            version,
            path: None,
        });
    }
    Ok((!wanted.is_empty()).then_some(wanted))
}

/// Returns the packages in `name` (separated by commas) or `pkgs`.
///
/// # Errors
/// When an argument is malformed.
pub(crate) fn parse(
    cx: &Exec,
    provider: &dyn Provider,
    name: Option<&str>,
    pkgs: &Value,
    normalize: bool,
) -> Result<Vec<Wanted>, Error> {
    if pkgs.is_true() {
        return Ok(repacked(cx, provider, pkgs, normalize)?.unwrap_or_default());
    }
    let names = name.unwrap_or_default().split(',');
    names
        .filter(|name| !name.is_empty())
        .map(|name| {
            Ok(Wanted {
                name: named(cx, provider, name, normalize)?,
                ..Wanted::default()
            })
        })
        .collect()
}

/// Returns a list. A text is parsed as YAML.
fn as_list(given: &Value) -> Value {
    match given {
        Value::Str(text) => render::yaml::load(text).unwrap_or_default(),
        other => other.clone(),
    }
}

fn entry(item: &Value) -> Option<(String, Option<String>)> {
    match item {
        Value::Map(map) if map.len() == 1 => {
            let (name, version) = map.first()?;
            let version = Some(version).filter(|version| !version.is_null());
            Some((name.to_text(), version.map(Value::to_text)))
        }
        Value::Str(_) | Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Float(_) => {
            Some((item.to_text(), None))
        }
        _ => None,
    }
}

/// Returns the name under which a package is looked up.
///
/// # Errors
/// When the program would take it for an option, or for the opposite request (`apt-get install
/// NAME-` removes).
pub(crate) fn named(
    cx: &Exec,
    provider: &dyn Provider,
    name: &str,
    normalize: bool,
) -> Result<String, Error> {
    if name.starts_with('-') || name.ends_with('-') || name.trim().is_empty() {
        return Err(Error::refused(format!("invalid package name {name:?}")));
    }
    Ok(match normalize {
        true => provider.normalize(cx, name),
        false => name.to_owned(),
    })
}

/// Returns `sources` as names with the source of each; `None` if it is not a list of one-key
/// dictionaries.
///
/// # Errors
/// When a name would be an option.
pub(crate) fn sources(
    cx: &Exec,
    provider: &dyn Provider,
    sources: &Value,
    normalize: bool,
) -> Result<Option<Vec<(String, String)>>, Error> {
    let read = as_list(sources);
    let mut all: Vec<(String, String)> = Vec::new();
    for item in read.as_list().unwrap_or_default() {
        let entry = item.as_map().filter(|map| map.len() == 1);
        let Some((name, place)) = entry.and_then(Map::first) else {
            log::error("Invalid input: sources must be a list of 1-element dicts");
            return Ok(None);
        };
        let name = named(cx, provider, &name.to_text(), normalize)?;
        all.retain(|(known, _)| *known != name);
        all.push((name, place.to_text()));
    }
    Ok((!all.is_empty()).then_some(all))
}

/// Returns the local path of a package file, which is fetched first if it is a URL.
///
/// # Errors
/// When it cannot be fetched, or is neither a URL nor an absolute path.
pub(crate) fn fetched(cx: &Exec, name: &str, place: &str, kwargs: &Map) -> Result<String, Error> {
    if !place.contains("://") {
        return match Path::new(place).is_absolute() {
            true => Ok(place.to_owned()),
            false => Err(Error::refused(format!(
                "Path {place} for package {name} is either not absolute or an invalid protocol"
            ))),
        };
    }
    let saltenv = kwargs.get("saltenv").map(Value::to_text);
    let saltenv = saltenv.unwrap_or_else(|| cx.saltenv.clone());
    fetch::cached(cx, place, &saltenv, fetch::How::default())?
        .ok_or_else(|| Error::refused(format!("Unable to cache source {place} for package {name}")))
}

/// Replaces globs among the names by the packages that they match.
pub(crate) fn expanded(packages: &Packages, wanted: &[Wanted]) -> Vec<Wanted> {
    let mut all: Vec<Wanted> = Vec::new();
    for one in wanted {
        let matching = packages.keys().map(Value::to_text);
        let matching: Vec<String> = match one.name.contains('*') {
            true => matching.filter(|name| fnmatch(&one.name, name)).collect(),
            false => vec![one.name.clone()],
        };
        for name in matching {
            if all.iter().all(|known| known.name != name) {
                let version = one.version.clone();
                all.push(Wanted {
                    name,
                    version,
                    path: None,
                });
            }
        }
    }
    all
}
