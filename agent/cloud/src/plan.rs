//! The plan: the machines that exist, compared with those that are wanted.

use std::collections::BTreeSet;

use value::{Map, Value};

use crate::driver::Machine;
use crate::fault::Fault;
use crate::spec::Spec;

/// The machines of one provider.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) alias: String,
    pub(crate) driver: String,
    /// The machines, or the reason why they are not known.
    pub(crate) machines: Result<Vec<Machine>, String>,
}

/// The machines of all providers.
#[derive(Clone, Debug, Default)]
pub struct Listing(pub(crate) Vec<Listed>);

impl Listing {
    /// Returns the machines with the providers that have them.
    pub(crate) fn machines(&self) -> impl Iterator<Item = (&Listed, &Machine)> {
        self.0.iter().flat_map(|listed| {
            let machines = listed.machines.iter().flatten();
            machines.map(move |machine| (listed, machine))
        })
    }

    /// Returns the machine with a name, and its provider.
    pub(crate) fn find(&self, name: &str) -> Option<(&Listed, &Machine)> {
        self.machines().find(|(_, machine)| machine.name == name)
    }

    /// Returns the error of a provider whose machines are not known.
    pub(crate) fn error_of(&self, alias: &str, driver: &str) -> Option<&str> {
        let mut all = self.0.iter();
        let listed = all.find(|listed| listed.alias == alias && listed.driver == driver)?;
        listed.machines.as_ref().err().map(String::as_str)
    }

    /// Returns the machines as a query shows them: by alias, driver and name. A provider whose
    /// machines are not known has an `Error` instead.
    pub(crate) fn shown(&self, show: impl Fn(&Machine) -> Map) -> Map {
        let mut all = Map::new();
        for listed in &self.0 {
            let machines: Map = match &listed.machines {
                Ok(machines) => machines
                    .iter()
                    .map(|machine| (machine.name.as_str(), show(machine)))
                    .collect(),
                Err(error) => Map::new().with("Error", error.as_str()),
            };
            if machines.is_empty() {
                continue;
            }
            let alias = all.entry(listed.alias.as_str(), || Map::new().into());
            if let Some(alias) = alias.as_map_mut() {
                alias.insert(listed.driver.as_str(), machines);
            }
        }
        all
    }
}

/// Sorts machines into groups, so that each comes after those that it `requires`.
///
/// # Errors
/// Salt's sentences when machines require each other, or one that is not in the map.
pub(crate) fn ordered(specs: Vec<Spec>, existing: &[String]) -> Result<Vec<Vec<Spec>>, Fault> {
    let names: BTreeSet<String> = specs.iter().map(|spec| spec.name.to_string()).collect();
    let mut done: BTreeSet<String> = existing.iter().cloned().collect();
    let (mut left, mut sorted) = (specs, Vec::new());
    while !left.is_empty() {
        let (ready, later): (Vec<_>, Vec<_>) = left.into_iter().partition(|spec| {
            let requires = spec.get("requires").map(Value::texts).unwrap_or_default();
            requires.iter().all(|name| done.contains(name))
        });
        if ready.is_empty() {
            let wants = |spec: &Spec| spec.get("requires").map(Value::texts).unwrap_or_default();
            let is_missing = |name: &String| !names.contains(name) && !done.contains(name);
            return Err(Fault::wrong(
                match later.iter().flat_map(wants).any(|name| is_missing(&name)) {
                    true => "Missing dependency in cloud map",
                    false => "Uh-oh, that cloud map has a dependency loop!",
                },
            ));
        }
        done.extend(ready.iter().map(|spec| spec.name.to_string()));
        sorted.push(ready);
        left = later;
    }
    Ok(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::spec_of;

    fn wants(name: &str, requires: &[&str]) -> Spec {
        let mut spec = spec_of(name, "mine", "ec2");
        let requires = requires.iter().map(|name| (*name).into());
        spec.settings.insert("requires", Value::list(requires));
        spec
    }

    #[test]
    fn machines_come_after_those_that_they_require() {
        let specs = vec![wants("web", &["db", "old"]), wants("db", &[])];
        let sorted = ordered(specs, &["old".to_owned()]).unwrap();
        let names = sorted.iter().map(|group| group[0].name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["db", "web"]);
    }

    #[test]
    fn machines_that_require_each_other_or_none_of_the_map_are_refused() {
        let ring = vec![wants("a", &["b"]), wants("b", &["a"])];
        let error = ordered(ring, &[]).unwrap_err().to_string();
        assert_eq!(error, "Uh-oh, that cloud map has a dependency loop!");
        let error = ordered(vec![wants("a", &["nosuch"])], &[]).unwrap_err();
        assert_eq!(error.to_string(), "Missing dependency in cloud map");
    }

    #[test]
    fn a_provider_that_does_not_answer_is_an_error_and_not_empty() {
        let listed = |alias: &str, machines| Listed {
            alias: alias.to_owned(),
            driver: "ec2".to_owned(),
            machines,
        };
        let machine = Machine {
            name: "web1".to_owned(),
            ..Machine::default()
        };
        let listing = Listing(vec![
            listed("a", Ok(vec![machine])),
            listed("b", Err("no route".to_owned())),
            listed("c", Ok(Vec::new())),
        ]);
        let shown = Value::from(listing.shown(Machine::summary));
        assert!(shown.traverse("a:ec2:web1", ":").is_some());
        assert_eq!(shown.traverse("b:ec2:Error", ":"), Some(&"no route".into()));
        assert_eq!(shown.get("c"), None);
        assert_eq!(listing.error_of("b", "ec2"), Some("no route"));
        assert_eq!(listing.find("web1").unwrap().0.alias, "a");
    }
}
