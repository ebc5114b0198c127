//! [`Spec`]: a machine that is wanted, with its settings.

use std::time::Duration;

use value::{Map, Value};
use wire::Id;

use crate::config::{Config, Profile, Provider};
use crate::fault::Fault;

/// A machine that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The name, which is the id of its minion.
    pub name: Id,
    /// The provider.
    pub provider: Provider,
    /// The profile, if it is made by one.
    pub profile: Option<String>,
    /// All settings: of the file `cloud`, the provider, the profile and the call, merged.
    pub settings: Map,
}

/// Returns a name as the id of a minion.
///
/// # Errors
/// When it is not one.
pub fn id(name: &str) -> Result<Id, Fault> {
    name.parse().map_err(|error| {
        let start: String = name.chars().take(64).collect();
        Fault::wrong(format!("the name {start:?} is no id of a minion: {error}"))
    })
}

impl Spec {
    /// Merges the settings of a machine.
    ///
    /// # Errors
    /// When its name is no id of a minion.
    pub fn new(
        config: &Config,
        provider: &Provider,
        profile: Option<&Profile>,
        (name, overrides): (&str, &Map),
    ) -> Result<Self, Fault> {
        let mut settings = value::merge::recurse(&config.main, &provider.settings, false);
        if let Some(profile) = profile {
            settings = value::merge::recurse(&settings, &profile.settings, false);
        }
        settings = value::merge::recurse(&settings, overrides, false);
        settings.insert("name", name);
        settings.insert("driver", provider.driver.as_str());
        settings.insert("provider", provider.full());
        Ok(Self {
            name: id(name)?,
            provider: provider.clone(),
            profile: profile.map(|profile| profile.name.clone()),
            settings,
        })
    }

    /// Returns the settings without these, if the machine has them from its provider.
    #[must_use]
    pub fn without(&self, keys: &[&str]) -> Self {
        let mut spec = self.clone();
        for key in keys {
            if self.settings.get(key) == self.provider.settings.get(key) {
                spec.settings.remove(key);
            }
        }
        spec
    }

    /// Returns a setting that is not empty.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let found = self.settings.get(key);
        found.filter(|value| !value.is_null() && value.as_str() != Some(""))
    }

    /// Returns a setting as text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<String> {
        self.get(key).map(Value::to_text)
    }

    /// Returns a setting that is true or false.
    #[must_use]
    pub fn flag(&self, key: &str, default: bool) -> bool {
        self.get(key).map_or(default, Value::is_true)
    }

    /// Returns a setting that is one of two words, the first one by default.
    ///
    /// # Errors
    /// When it is another word.
    pub fn one_of(&self, key: &str, words: [&str; 2]) -> Result<String, Fault> {
        let [first, second] = words;
        match self.text(key) {
            None => Ok(first.to_owned()),
            Some(word) if words.contains(&word.as_str()) => Ok(word),
            Some(word) => Err(Fault::wrong(format!(
                "{}: '{key}' must be one of {first} or {second}. Got '{word}'",
                self.name
            ))),
        }
    }

    /// Returns a setting in seconds.
    #[must_use]
    pub fn time(&self, key: &str, default: Duration) -> Duration {
        let seconds = self.get(key).and_then(Value::as_float);
        let given = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        given.unwrap_or(default)
    }

    /// Returns a setting that is a dictionary; empty if it is none.
    #[must_use]
    pub fn map(&self, key: &str) -> Map {
        let found = self.get(key).and_then(Value::as_map);
        found.cloned().unwrap_or_default()
    }

    /// Returns the data of the machine's events.
    #[must_use]
    pub fn event(&self) -> Map {
        Map::new()
            .with("name", self.name.as_str())
            .with("profile", self.profile.clone())
            .with("provider", self.provider.driver.as_str())
            .with("driver", self.provider.driver.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_id_is_refused_with_its_start() {
        for wrong in ["../x", "a b", "", "a/b", "-x\n"] {
            let error = id(wrong).unwrap_err().to_string();
            assert!(error.contains("is no id of a minion"), "{error}");
        }
        assert_eq!(id("web1.example.com").unwrap().as_str(), "web1.example.com");
    }

    #[test]
    fn a_machine_does_not_get_the_credentials_of_its_provider() {
        let mut spec = crate::testing::spec_of("web1", "mine", "proxmox");
        spec.provider.settings.insert("password", "of the cloud");
        spec.settings.insert("password", "of the cloud");
        assert_eq!(spec.without(&["password"]).text("password"), None);
        assert!(spec.without(&[]).text("password").is_some());
        spec.settings.insert("password", "own");
        let own = spec.without(&["password"]).text("password");
        assert_eq!(own.as_deref(), Some("own"));
    }
}
