//! Reports whether services run.

use std::time::{Duration, Instant};

use value::{Map, Value};

use super::{Ask, Beacon, Settings};

struct Service {
    name: String,
    onchangeonly: bool,
    emitatstartup: bool,
    delay: Duration,
    is_running_state: Option<bool>,
    /// The path of a file that the service leaves behind when it is killed.
    uncleanshutdown: Option<String>,
    last: Option<bool>,
    /// The time of a change that is not reported yet.
    changed: Option<Instant>,
}

struct Services(Vec<Service>);

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    let services = settings
        .get("services")
        .ok_or("Configuration for service beacon requires services.")?;
    let services = services.as_map();
    let services =
        services.ok_or("Services configuration item for service beacon must be a dictionary.")?;
    let mut all = Vec::new();
    for (name, said) in services.iter() {
        let said = said
            .as_map()
            .ok_or("Configuration for service beacon must be a list of dictionaries.")?;
        let flag = |name: &str, default: bool| said.get(name).map_or(default, Value::is_true);
        let delay = said.get("delay").and_then(Value::as_float).unwrap_or(0.0);
        all.push(Service {
            name: name.to_text(),
            onchangeonly: flag("onchangeonly", false),
            emitatstartup: flag("emitatstartup", true),
            delay: Duration::try_from_secs_f64(delay).unwrap_or_default(),
            is_running_state: said.get("is_running_state").and_then(Value::as_bool),
            uncleanshutdown: said.get("uncleanshutdown").map(Value::to_text),
            last: None,
            changed: None,
        });
    }
    Ok(Box::new(Services(all)))
}

impl Service {
    /// Returns true if the service's status is to be reported.
    fn tells(&mut self, runs: bool, now: Instant) -> bool {
        if self.is_running_state.is_some_and(|wanted| wanted != runs) {
            return false;
        }
        if !self.onchangeonly {
            return true;
        }
        let last = self.last.replace(runs);
        if last.is_none() && !self.emitatstartup {
            return false;
        }
        if last != Some(runs) {
            if self.delay.is_zero() {
                return true;
            }
            self.changed = Some(now);
        }
        let waited = |since: Instant| now.duration_since(since) > self.delay;
        let tells = self.changed.is_some_and(waited);
        self.changed = self.changed.filter(|_| !tells);
        tells
    }

    fn event(&self, runs: bool) -> Map {
        let mut state = Map::new().with("running", runs);
        if let Some(file) = self.uncleanshutdown.as_ref().filter(|_| !runs) {
            state.insert("uncleanshutdown", std::path::Path::new(file).exists());
        }
        let name = self.name.as_str();
        Map::new()
            .with(name, state)
            .with("service_name", name)
            .with("tag", name)
    }
}

impl Beacon for Services {
    fn poll(&mut self, ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        let mut told = Vec::new();
        for service in &mut self.0 {
            let status = ask("service.status", vec![service.name.as_str().into()])?;
            let runs = status.is_true();
            if service.tells(runs, Instant::now()) {
                told.push(service.event(runs));
            }
        }
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fired(said: &str, states: &[bool]) -> Vec<bool> {
        let said = value::json::read(said).unwrap();
        let flag = |name: &str, default: bool| said.get(name).map_or(default, Value::is_true);
        let mut service = Service {
            name: "a".to_owned(),
            onchangeonly: flag("onchangeonly", false),
            emitatstartup: flag("emitatstartup", true),
            delay: Duration::from_secs(
                said.get("delay").and_then(Value::as_int).unwrap_or(0) as u64
            ),
            is_running_state: said.get("is_running_state").and_then(Value::as_bool),
            uncleanshutdown: None,
            last: None,
            changed: None,
        };
        let start = Instant::now();
        let at = |second: usize| start + Duration::from_secs(second as u64);
        states
            .iter()
            .enumerate()
            .map(|(second, runs)| service.tells(*runs, at(second)))
            .collect()
    }

    #[test]
    fn a_service_is_told_each_time_or_when_it_changes_or_later() {
        let states = [true, true, false, false, false, true];
        assert_eq!(fired("{}", &states), [true; 6]);
        assert_eq!(
            fired(r#"{"is_running_state": false}"#, &states),
            [false, false, true, true, true, false]
        );
        assert_eq!(
            fired(r#"{"onchangeonly": true}"#, &states),
            [true, false, true, false, false, true]
        );
        assert_eq!(
            fired(r#"{"onchangeonly": true, "emitatstartup": false}"#, &states),
            [false, false, true, false, false, true]
        );
        assert_eq!(
            fired(r#"{"onchangeonly": true, "delay": 1}"#, &states),
            [false, false, false, false, true, false]
        );
    }
}
