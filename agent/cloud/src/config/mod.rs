//! The configuration: the files `cloud`, `cloud.providers` and `cloud.profiles` next to that of the
//! master or minion, and the folders with their names and `.d`.

mod files;
mod profiles;
mod providers;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use state::exec::Exec;
use value::{Map, Value};

pub(crate) use files::Files;

use crate::fault::Fault;

/// The maximum number of providers or profiles.
const ENTRIES_MAX: usize = 10_000;

/// A provider: a driver with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Provider {
    /// The name in the configuration.
    pub alias: String,
    /// The name of the driver.
    pub driver: String,
    /// The settings.
    pub settings: Map,
}

impl Provider {
    /// Returns the name of the provider and its driver, as profiles name them.
    #[must_use]
    pub fn full(&self) -> String {
        format!("{}:{}", self.alias, self.driver)
    }
}

/// A profile: settings of machines of one provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name.
    pub name: String,
    /// The alias and the driver of the provider.
    pub provider: (String, String),
    /// The settings, in which `provider` is complete and `profile` is the name.
    pub settings: Map,
}

/// The whole configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The settings of the file `cloud`.
    pub main: Map,
    /// The providers in the order of their files.
    pub providers: Vec<Provider>,
    /// The profiles in the order of their files.
    pub profiles: Vec<Profile>,
    /// The profiles that cannot be used, with the reason.
    pub unusable: Vec<(String, String)>,
    /// The maps of the pillar.
    pub maps: Map,
    /// The folder of the files.
    pub folder: PathBuf,
}

/// Returns the folder of the configuration, next to that of the master or minion.
#[must_use]
pub fn folder(cx: &Exec) -> PathBuf {
    let main = cx.opts().text("conf_file").unwrap_or("/etc/salt/master");
    let folder = Path::new(main).parent();
    folder.unwrap_or_else(|| Path::new("/etc/salt")).to_owned()
}

impl Config {
    /// Reads the configuration. `settings` are added to those of the file `cloud`, and `pillar` may
    /// have more `providers`, `profiles` and `maps`.
    ///
    /// # Errors
    /// When a file cannot be read, another user can change it, or it is not well formed.
    pub fn load(folder: &Path, settings: &Map, pillar: &Map) -> Result<Self, Fault> {
        let main = Files::load(&folder.join("cloud"), "cloud.conf.d/*.conf")?.map;
        let next_to = |key: &str, default: &str| {
            let named = main.get(key).and_then(Value::as_str);
            folder.join(named.unwrap_or(default))
        };
        let providers = next_to("providers_config", "cloud.providers");
        let profiles = next_to("profiles_config", "cloud.profiles");
        let mut of_providers = Files::load(&providers, "cloud.providers.d/*.conf")?;
        of_providers.add_pillar(pillar.get("providers"))?;
        if let Some(old) = main.get("providers").and_then(Value::as_map) {
            if !of_providers.map.is_empty() {
                return Err(Fault::wrong(format!(
                    "Do not mix the old cloud providers configuration with the new one. The providers configuration should now go in the file `{0}` or a separate `*.conf` file within `cloud.providers.d/` which is relative to `{0}`.",
                    providers.display()
                )));
            }
            of_providers.map = old.clone();
        }
        let mut of_profiles = Files::load(&profiles, "cloud.profiles.d/*.conf")?;
        of_profiles.add_pillar(pillar.get("profiles"))?;
        let known = providers::read(&of_providers)?;
        let (usable, unusable) = profiles::read(&of_profiles, &known)?;
        let mut config = Self {
            main,
            providers: known,
            profiles: usable,
            unusable,
            maps: pillar
                .get("maps")
                .and_then(Value::as_map)
                .cloned()
                .unwrap_or_default(),
            folder: folder.to_owned(),
        };
        let rest = pillar
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), Some("providers" | "profiles" | "maps")));
        let rest: Map = rest
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        config.main.update(rest);
        config.main = value::merge::recurse(&config.main, settings, false);
        Ok(config)
    }

    /// Returns a provider by its alias and driver.
    #[must_use]
    pub fn provider(&self, alias: &str, driver: &str) -> Option<&Provider> {
        let mut all = self.providers.iter();
        all.find(|provider| provider.alias == alias && provider.driver == driver)
    }

    /// Returns a profile by its name.
    ///
    /// # Errors
    /// Salt's sentence when it does not exist, with the reason if it cannot be used.
    pub fn profile(&self, name: &str) -> Result<&Profile, Fault> {
        if let Some(profile) = self.profiles.iter().find(|profile| profile.name == name) {
            return Ok(profile);
        }
        let text = format!("Profile {name} is not defined");
        let reason = self.unusable.iter().find(|(unusable, _)| unusable == name);
        Err(Fault::Wrong(match reason {
            Some((_, reason)) => format!("{text}: {reason}"),
            None => text,
        }))
    }

    /// Returns the providers that a word means: an alias, a driver, `ALIAS:DRIVER`, or `all`.
    ///
    /// # Errors
    /// Salt's sentence when there is none.
    pub fn matching(&self, word: &str) -> Result<Vec<&Provider>, Fault> {
        if self.providers.is_empty() {
            return Err(Fault::wrong("There are no cloud providers configured."));
        }
        if word.is_empty() || word == "all" {
            return Ok(self.providers.iter().collect());
        }
        let all = self.selections().join(", ");
        if let Some((alias, driver)) = word.split_once(':') {
            let found = self.provider(alias, driver);
            return found.map(|provider| vec![provider]).ok_or_else(|| {
                Fault::wrong(format!(
                    "No cloud providers matched '{word}'. Available: {all}"
                ))
            });
        }
        let fits = |provider: &&Provider| provider.alias == word || provider.driver == word;
        let found: Vec<_> = self.providers.iter().filter(fits).collect();
        match found.is_empty() {
            true => Err(Fault::wrong(format!(
                "No cloud providers matched '{word}'. Available selections: {all}"
            ))),
            false => Ok(found),
        }
    }

    /// Returns the words by which the providers can be selected.
    fn selections(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for provider in &self.providers {
            let same = |other: &&Provider| other.alias == provider.alias;
            let word = match self.providers.iter().filter(same).count() {
                1 => provider.alias.clone(),
                _ => provider.full(),
            };
            words.push(word);
        }
        words
    }
}

/// Returns whether one more entry is too many.
fn is_full(entries: usize) -> bool {
    entries >= ENTRIES_MAX
}
