//! Profiles: settings of machines, which may extend those of another profile.

use value::{Map, Value};

use super::{Files, Profile, Provider, is_full};
use crate::fault::Fault;

/// The maximum depth of profiles that extend others.
const DEPTH_MAX: usize = 32;

/// The profiles that cannot be used, with the reason.
type Unusable = Vec<(String, String)>;

/// Reads the profiles of some files, and those that cannot be used: their provider does not exist, or
/// they extend a profile that does not.
///
/// # Errors
/// When an entry is not a dictionary, or there are too many.
pub(super) fn read(
    files: &Files,
    providers: &[Provider],
) -> Result<(Vec<Profile>, Unusable), Fault> {
    let (mut usable, mut unusable) = (Vec::new(), Vec::new());
    for (name, entry) in &files.map {
        let name = name.to_text();
        let place = files.place(&name);
        if entry.as_map().is_none() {
            return Err(Fault::wrong(format!(
                "{place}The VM profiles configuration is not in the proper format: the profile {name} must be a dictionary, but is a {}",
                entry.type_name()
            )));
        }
        if is_full(usable.len()) {
            return Err(Fault::wrong(format!("{place}there are too many profiles")));
        }
        match profile(&name, files, providers) {
            Ok(profile) => usable.push(profile),
            Err(reason) => unusable.push((name, format!("{place}{reason}"))),
        }
    }
    Ok((usable, unusable))
}

fn profile(name: &str, files: &Files, providers: &[Provider]) -> Result<Profile, String> {
    let mut settings = extended(name, files, 0)?;
    settings.remove("extends");
    let named = settings
        .get("provider")
        .map(Value::to_text)
        .unwrap_or_default();
    if named.is_empty() {
        return Err("it names no provider".to_owned());
    }
    let (alias, driver) = match named.split_once(':') {
        Some((alias, driver)) => (alias, Some(driver)),
        None => (named.as_str(), None),
    };
    let fits = |provider: &&Provider| {
        provider.alias == alias && driver.is_none_or(|driver| provider.driver == driver)
    };
    let provider = providers.iter().find(fits);
    let provider = provider.ok_or_else(|| format!("its provider '{named}' is not configured"))?;
    settings.insert("provider", provider.full());
    settings.insert("profile", name);
    Ok(Profile {
        name: name.to_owned(),
        provider: (provider.alias.clone(), provider.driver.clone()),
        settings,
    })
}

/// Returns the settings of a profile above those that it extends.
fn extended(name: &str, files: &Files, depth: usize) -> Result<Map, String> {
    if depth > DEPTH_MAX {
        return Err("it extends itself".to_owned());
    }
    let own = files.map.get(name).and_then(Value::as_map);
    let own = own.cloned().unwrap_or_default();
    let Some(below) = own.get("extends").map(Value::to_text) else {
        return Ok(own);
    };
    if !files.map.contains(&below) {
        return Err(format!(
            "The '{name}' profile is trying to extend data from '{below}' though '{below}' is not defined in the salt profiles loaded data"
        ));
    }
    let lower = extended(&below, files, depth + 1)?;
    Ok(value::merge::recurse(&lower, &own, false))
}
