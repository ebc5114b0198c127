//! Providers: one or several drivers under an alias, which may extend others.

use value::{Map, Value};

use super::{Files, Provider, is_full};
use crate::fault::Fault;

/// An entry of a file: a driver's settings, or only settings that others extend.
struct Entry {
    alias: String,
    driver: Option<String>,
    settings: Map,
}

impl Entry {
    /// Returns the driver for an error, as Salt names that of an entry without one.
    fn named(&self) -> &str {
        self.driver.as_deref().unwrap_or("-only-extendable-")
    }
}

/// Reads the providers of some files.
///
/// # Errors
/// When an entry is not well formed, or extends one that does not exist or extends itself.
pub(super) fn read(files: &Files) -> Result<Vec<Provider>, Fault> {
    let mut entries: Vec<Entry> = Vec::new();
    for (alias, value) in &files.map {
        let alias = alias.to_text();
        let place = files.place(&alias);
        let one = [value.clone()];
        for item in value.as_list().unwrap_or(&one) {
            let entry = entry(&alias, item, &place)?;
            let is_same = |other: &&Entry| {
                other.alias == entry.alias && entry.driver.is_some() && other.driver == entry.driver
            };
            if entries.iter().any(|other| is_same(&other)) {
                return Err(Fault::wrong(format!(
                    "{place}The cloud provider alias '{alias}' has multiple entries for the '{}' driver.",
                    entry.named()
                )));
            }
            if is_full(entries.len()) {
                return Err(Fault::wrong(format!("{place}there are too many providers")));
            }
            entries.push(entry);
        }
    }
    let mut providers = Vec::new();
    for index in 0..entries.len() {
        let mut above = Vec::new();
        let Some((driver, mut settings)) = extended(&entries, index, files, &mut above)? else {
            continue;
        };
        settings.remove("extends");
        settings.insert("driver", driver.as_str());
        let alias = entries.get(index).map(|entry| entry.alias.clone());
        providers.push(Provider {
            alias: alias.unwrap_or_default(),
            driver,
            settings,
        });
    }
    Ok(providers)
}

/// Reads one entry. `provider` is the old word for `driver`.
fn entry(alias: &str, item: &Value, place: &str) -> Result<Entry, Fault> {
    let Value::Map(settings) = item else {
        return Err(Fault::wrong(format!(
            "{place}the provider {alias} must be a dictionary, but is a {}",
            item.type_name()
        )));
    };
    let named = settings.get("driver").or_else(|| settings.get("provider"));
    let driver = named.map(Value::to_text).filter(|name| !name.is_empty());
    // `ALIAS:DRIVER` is another alias.
    let (alias, driver) = match driver.as_deref().and_then(|name| name.split_once(':')) {
        Some((other, driver)) => (other.to_owned(), Some(driver.to_owned())),
        None => (alias.to_owned(), driver),
    };
    let is_word = |name: &String| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    if let Some(wrong) = driver.as_ref().filter(|name| !is_word(name)) {
        return Err(Fault::wrong(format!(
            "{place}the provider {alias}: invalid driver {wrong:?}"
        )));
    }
    Ok(Entry {
        alias,
        driver,
        settings: settings.clone(),
    })
}

/// Returns the driver and the settings of an entry, above those that it extends. `None` if it has no
/// driver, because only others use it.
fn extended(
    entries: &[Entry],
    index: usize,
    files: &Files,
    above: &mut Vec<usize>,
) -> Result<Option<(String, Map)>, Fault> {
    let Some(entry) = entries.get(index) else {
        return Ok(None);
    };
    let Some(extends) = entry.settings.get("extends").map(Value::to_text) else {
        let settings = entry.settings.clone();
        return Ok(entry.driver.clone().map(|driver| (driver, settings)));
    };
    let place = files.place(&entry.alias);
    above.push(index);
    let below = found(entries, entry, &extends, &place)?;
    if above.contains(&below) {
        return Err(Fault::wrong(format!(
            "{place}the provider {} extends itself",
            entry.alias
        )));
    }
    // One that is only extended has no driver.
    let (driver, lower) = match extended(entries, below, files, above)? {
        Some((driver, lower)) => (Some(driver), lower),
        None => (
            None,
            entries
                .get(below)
                .map(|entry| entry.settings.clone())
                .unwrap_or_default(),
        ),
    };
    let mut settings = value::merge::recurse(&lower, &entry.settings, false);
    settings.remove("extends");
    Ok(entry
        .driver
        .clone()
        .or(driver)
        .map(|driver| (driver, settings)))
}

/// Returns the position of the entry that another one extends.
fn found(entries: &[Entry], entry: &Entry, extends: &str, place: &str) -> Result<usize, Fault> {
    let (own, alias) = (entry.named(), &entry.alias);
    let missing = |name: &str| {
        Fault::wrong(format!(
            "{place}The '{own}' cloud provider entry in '{alias}' is trying to extend data from '{name}' though '{name}' is not defined in the salt cloud providers loaded data."
        ))
    };
    let has_alias = |name: &str| entries.iter().any(|other| other.alias == name);
    let Some((other, driver)) = extends.split_once(':') else {
        return Err(match has_alias(extends) {
            true => Fault::wrong(format!(
                "{place}The '{own}' cloud provider entry in '{alias}' is trying to extend from '{extends}' and no provider was specified. Not extending!"
            )),
            false => missing(extends),
        });
    };
    if !has_alias(other) {
        return Err(missing(other));
    }
    let mut all = entries.iter();
    let fits = |entry: &Entry| entry.alias == other && entry.driver.as_deref() == Some(driver);
    all.position(fits).ok_or_else(|| {
        Fault::wrong(format!(
            "{place}The '{own}' cloud provider entry in '{alias}' is trying to extend data from '{other}:{driver}' though '{driver}' is not defined in '{alias}'"
        ))
    })
}
