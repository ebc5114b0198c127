//! The driver `saltify`: machines that exist, and are reached by ssh.
//!
//! Its machines are the minions with the grain `salt-cloud:driver:saltify`, which [`crate::boot`] sets.

use state::exec::Exec;
use value::{Map, Value, log};

use crate::boot;
use crate::driver::{Boot, Driver, Machine, Offer, Wanted};
use crate::fault::Fault;

/// The driver of machines that exist.
pub(super) struct Saltify;

/// The target that matches its machines.
const TARGET: &str = "salt-cloud:driver:saltify";

/// Returns a machine by the grains of its minion.
fn machine(name: &str, grains: &Map) -> Machine {
    let addresses = ["ipv4", "ipv6"]
        .into_iter()
        .filter_map(|key| grains.get(key));
    let addresses = addresses.flat_map(Value::texts);
    let (private_ips, public_ips) = super::sorted_addresses(&addresses.collect::<Vec<_>>());
    let profile = grains.get("salt-cloud").and_then(|own| own.get("profile"));
    Machine {
        name: name.to_owned(),
        id: grains.get("id").map(Value::to_text).unwrap_or_default(),
        image: profile.map(Value::to_text).unwrap_or_default(),
        state: "running".to_owned(),
        public_ips,
        private_ips,
        full: grains.clone(),
        ..Machine::default()
    }
}

/// Runs a function on the minion of a machine, which need not succeed.
fn on_minion(cx: &Exec, name: &str, fun: &str, args: Vec<Value>) {
    let targets = &cx.shared.targets;
    let ids = [name.to_owned()];
    let ran = targets.run(cx, &ids, fun, args, Map::new());
    let failed = match ran {
        Ok(returns) => returns
            .iter()
            .find(|ret| ret.retcode != 0)
            .map(|ret| ret.ret.to_text()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(failed) = failed {
        log::warning(format_args!(
            "{name}: {fun} failed before its removal: {failed}"
        ));
    }
}

impl Driver for Saltify {
    fn boot(&self) -> Boot {
        Boot::Ssh
    }

    fn list(&self, cx: &Exec) -> Result<Vec<Machine>, Fault> {
        let targets = &cx.shared.targets;
        if !boot::is_master(cx) {
            // Without a master no other machine answers.
            return Ok(Vec::new());
        }
        let ids = targets.resolve(cx, &TARGET.into(), "grain")?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let returns = targets.run(cx, &ids, "grains.items", Vec::new(), Map::new())?;
        let answered = returns.iter().filter(|ret| !ret.is_missing);
        Ok(answered
            .filter_map(|ret| Some(machine(&ret.id, ret.ret.as_map()?)))
            .collect())
    }

    fn create(&self, cx: &Exec, wanted: &Wanted<'_>) -> Result<Machine, Fault> {
        let host = boot::host(cx, wanted.spec, None)?;
        ssh::install::log_in(cx, &host)
            .map_err(|fault| Fault::refused("saltify", "", &fault.text))?;
        Ok(Machine {
            name: wanted.spec.name.to_string(),
            id: wanted.spec.name.to_string(),
            image: wanted.spec.profile.clone().unwrap_or_default(),
            state: "running".to_owned(),
            public_ips: vec![host.host],
            ..Machine::default()
        })
    }

    fn destroy(&self, cx: &Exec, machine: &Machine) -> Result<Value, Fault> {
        let name = machine.name.as_str();
        let service = Value::from(ssh::install::SERVICE);
        on_minion(cx, name, "service.disable", vec![service]);
        let file = Value::from(ssh::install::CONFIGURATION);
        on_minion(cx, name, "file.remove", vec![file]);
        Ok(super::destroyed(name))
    }

    fn action(
        &self,
        cx: &Exec,
        fun: &str,
        machine: &Machine,
        _kwargs: &Map,
    ) -> Result<Option<Value>, Fault> {
        let ids = [machine.name.clone()];
        match fun {
            "reboot" => {
                let targets = &cx.shared.targets;
                let returns = targets.run(cx, &ids, "system.reboot", Vec::new(), Map::new())?;
                Ok(returns.into_iter().next().map(|ret| ret.ret))
            }
            _ => Ok(None),
        }
    }

    fn offers(&self, _cx: &Exec, _offer: Offer) -> Result<Map, Fault> {
        Ok(Map::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_grains_are_public_or_private_and_not_of_loopback() {
        let addresses = ["127.0.0.1", "10.0.0.1", "192.0.2.1"].map(Value::from);
        let grains = Map::new()
            .with("id", "web1")
            .with("ipv4", Value::list(addresses))
            .with("salt-cloud", Map::new().with("profile", "web"));
        let machine = machine("web1", &grains);
        assert_eq!(machine.private_ips, ["10.0.0.1"]);
        assert_eq!(machine.public_ips, ["192.0.2.1"]);
        assert_eq!(machine.image, "web");
    }
}
