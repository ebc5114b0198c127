//! The driver `proxmox`: machines of Proxmox VE, which are clones of a template, and containers.
//!
//! A clone has its name and, in its description, the token of the call from its beginning. Its
//! settings are changed afterwards, together with its tag, so that a machine without the tag is one
//! that a call has left behind: a repeated call finishes it.

mod client;
mod read;
mod settings;
#[cfg(test)]
mod tests;

use std::time::Duration;

use state::exec::Exec;
use value::{Map, Value, log};

use super::api::{self, field, items, path};
use crate::driver::{Boot, Driver, Machine, Offer, RUN_TAG, Wanted};
use crate::fault::Fault;
use crate::spec::Spec;
use client::{Client, Form, form};
use read::{machine, made, of_cards, of_config, place};
use settings::{configuration, container, plain};

/// The word for this driver in faults.
const PROXMOX: &str = "proxmox";
/// The maximum number of attempts to get a number that is free.
const NUMBERS_MAX: u32 = 5;
/// The maximum time until a machine that is cloned can be changed.
const LOCKED_MAX: Duration = Duration::from_secs(1_800);
/// A cluster.
pub(super) struct Proxmox {
    client: Client,
}

impl Proxmox {
    /// Opens a cluster.
    ///
    /// # Errors
    /// When a setting is missing or not well formed.
    pub(super) fn new(settings: &Map) -> Result<Self, Fault> {
        Ok(Self {
            client: Client::of(settings)?,
        })
    }

    /// Returns all machines and templates.
    fn resources(&self, cx: &Exec) -> Result<Vec<Value>, Fault> {
        self.client.list(cx, "/cluster/resources?type=vm")
    }

    /// Returns the machines without their addresses. Templates are left out.
    fn machines(&self, cx: &Exec) -> Result<Vec<Machine>, Fault> {
        let resources = self.resources(cx)?;
        let is_template = |one: &&Value| one.get("template").is_some_and(Value::is_true);
        let machines = resources.iter().filter(|one| !is_template(one));
        Ok(machines.filter_map(machine).collect())
    }

    /// Sets the addresses of a machine, if they are known.
    fn locate(&self, cx: &Exec, machine: &mut Machine) -> Result<(), Fault> {
        let place = place(machine)?;
        let (path, list) = match place.contains("/qemu/") {
            true => ("/agent/network-get-interfaces", "result"),
            false => ("/interfaces", ""),
        };
        // Neither answers until the machine has started.
        let found = match self
            .client
            .call(cx, ("GET", &format!("{place}{path}")), None)
        {
            Ok(cards) => of_cards(match list {
                "" => cards.as_list().unwrap_or_default(),
                list => items(&cards, list),
            }),
            Err(Fault::Refused { text, .. }) => {
                log::debug(format_args!("{}: {text}", machine.name));
                Vec::new()
            }
            Err(fault) => return Err(fault),
        };
        let found = match found.is_empty() {
            true => of_config(&self.config(cx, &place)?),
            false => found,
        };
        (machine.private_ips, machine.public_ips) = super::sorted_addresses(&found);
        Ok(())
    }

    fn config(&self, cx: &Exec, place: &str) -> Result<Map, Fault> {
        let config = self
            .client
            .call(cx, ("GET", &format!("{place}/config")), None)?;
        let Value::Map(config) = config else {
            return Err(Fault::unanswered(
                PROXMOX,
                "a configuration is no dictionary",
            ));
        };
        Ok(config)
    }

    /// Returns the machine that an earlier attempt has begun.
    fn own(&self, cx: &Exec, wanted: &Wanted<'_>) -> Result<Option<Machine>, Fault> {
        for machine in self.machines(cx)? {
            if machine.token.as_deref() == Some(wanted.token) {
                return Ok(Some(machine));
            }
            if machine.name == wanted.spec.name.as_str() {
                let config = self.config(cx, &place(&machine)?)?;
                let about = config.get("description").map(Value::to_text);
                if about.unwrap_or_default().contains(wanted.token) {
                    return Ok(Some(machine));
                }
            }
        }
        Ok(None)
    }

    /// Returns the node and the number of the template that a profile names.
    fn template(&self, cx: &Exec, spec: &Spec) -> Result<(String, String), Fault> {
        let given = spec.text("clone_from").or_else(|| spec.text("image"));
        let missing = || Fault::wrong(format!("{}: the profile has no clone_from", spec.name));
        let given = given.ok_or_else(missing)?;
        let (node, name) = match given.split_once(':') {
            Some((node, name)) => (Some(node), name),
            None => (None, given.as_str()),
        };
        let resources = self.resources(cx)?;
        let fits = |one: &&Value| {
            (field(one, "vmid") == name || field(one, "name") == name)
                && node.is_none_or(|node| field(one, "node") == node)
        };
        let found = resources.iter().find(fits);
        found
            .map(|one| (field(one, "node"), field(one, "vmid")))
            .ok_or_else(|| {
                Fault::wrong(format!(
                    "{PROXMOX}: there is no template {given:?} to clone"
                ))
            })
    }

    /// Clones a template to a machine with this number.
    fn clone_to(&self, cx: &Exec, wanted: &Wanted<'_>, id: &str) -> Result<Machine, Fault> {
        let spec = wanted.spec;
        let (node, template) = self.template(cx, spec)?;
        let about = spec.text("clone_description").unwrap_or_default();
        let about = format!("{about}\n\n{RUN_TAG}: {}", wanted.token);
        let mut all = form(&[
            ("newid", id),
            ("name", spec.name.as_str()),
            ("description", about.trim()),
        ]);
        for (name, key) in [
            ("full", "clone_full"),
            ("format", "clone_format"),
            ("storage", "clone_storage"),
            ("pool", "pool"),
        ] {
            let given = spec.get(key).map(plain);
            all.extend(given.map(|text| (name.to_owned(), text)));
        }
        let host = spec.text("host").unwrap_or_else(|| node.clone());
        if host != node {
            all.extend(form(&[("target", &host)]));
        }
        let path = path(&["nodes", &node, "qemu", &template, "clone"]);
        self.client.task(cx, ("POST", &path), all)?;
        Ok(made(spec, (&host, "qemu", id)))
    }

    /// Creates a container with this number.
    fn contain(&self, cx: &Exec, wanted: &Wanted<'_>, id: &str) -> Result<Machine, Fault> {
        let spec = wanted.spec;
        let need = |key: &str| {
            let missing = || Fault::wrong(format!("{}: the profile has no {key}", spec.name));
            spec.text(key).ok_or_else(missing)
        };
        let host = need("host")?;
        let mut all = form(&[("vmid", id), ("ostemplate", &need("image")?)]);
        all.extend(container(spec, wanted.token));
        self.client
            .task(cx, ("POST", &path(&["nodes", &host, "lxc"])), all)?;
        let mut machine = made(spec, (&host, "lxc", id));
        machine.token = Some(wanted.token.to_owned());
        Ok(machine)
    }

    /// Creates a machine with a number that is free. Another call may take it at the same time.
    fn begin(&self, cx: &Exec, wanted: &Wanted<'_>) -> Result<Machine, Fault> {
        let kind = wanted
            .spec
            .text("technology")
            .unwrap_or_else(|| "qemu".to_owned());
        let mut attempt = 1;
        loop {
            let id = self
                .client
                .call(cx, ("GET", "/cluster/nextid"), None)?
                .to_text();
            let made = match kind.as_str() {
                "qemu" => self.clone_to(cx, wanted, &id),
                "lxc" => self.contain(cx, wanted, &id),
                other => Err(Fault::wrong(format!(
                    "{}: technology is {other:?}; expected qemu or lxc",
                    wanted.spec.name
                ))),
            };
            match made {
                Err(Fault::Refused { text, .. })
                    if text.contains("already exists") && attempt < NUMBERS_MAX =>
                {
                    log::debug(format_args!(
                        "{}: {text}: trying the next number",
                        wanted.spec.name
                    ));
                    attempt += 1;
                }
                made => return made,
            }
        }
    }

    /// Returns the state of a machine that nothing changes any more.
    fn settled(&self, cx: &Exec, place: &str) -> Result<String, Fault> {
        let path = format!("{place}/status/current");
        api::until((PROXMOX, "the change of the machine"), LOCKED_MAX, || {
            let status = self.client.call(cx, ("GET", &path), None)?;
            Ok(field(&status, "lock")
                .is_empty()
                .then(|| field(&status, "status")))
        })
    }

    /// Changes the settings of a machine that has none, and starts it.
    fn finish(
        &self,
        cx: &Exec,
        wanted: &Wanted<'_>,
        mut machine: Machine,
    ) -> Result<Machine, Fault> {
        let place = place(&machine)?;
        let state = self.settled(cx, &place)?;
        if machine.token.as_deref() != Some(wanted.token) {
            let old = self.config(cx, &place)?;
            let new = configuration(wanted.spec, wanted.token, &old);
            self.client
                .call(cx, ("PUT", &format!("{place}/config")), Some(new))?;
            machine.token = Some(wanted.token.to_owned());
        }
        if state != "running" {
            self.client
                .task(cx, ("POST", &format!("{place}/status/start")), Form::new())?;
        }
        "running".clone_into(&mut machine.state);
        Ok(machine)
    }
}

impl Driver for Proxmox {
    fn boot(&self) -> Boot {
        Boot::Ssh
    }

    fn credentials(&self) -> &'static [&'static str] {
        &["password"]
    }

    fn list(&self, cx: &Exec) -> Result<Vec<Machine>, Fault> {
        let mut all = self.machines(cx)?;
        // The addresses of each machine are another request, which only those of calls get.
        let own = all.iter_mut().filter(|machine| machine.token.is_some());
        for machine in own.filter(|machine| machine.state == "running") {
            self.locate(cx, machine)?;
        }
        Ok(all)
    }

    fn create(&self, cx: &Exec, wanted: &Wanted<'_>) -> Result<Machine, Fault> {
        let machine = match self.own(cx, wanted)? {
            Some(machine) => machine,
            None => self.begin(cx, wanted)?,
        };
        self.finish(cx, wanted, machine)
    }

    fn resume(&self, cx: &Exec, wanted: &Wanted<'_>, machine: Machine) -> Result<Machine, Fault> {
        self.finish(cx, wanted, machine)
    }

    fn destroy(&self, cx: &Exec, machine: &Machine) -> Result<Value, Fault> {
        let place = place(machine)?;
        match self.settled(cx, &place) {
            Ok(state) if state == "stopped" => {}
            Ok(_) => {
                let path = format!("{place}/status/stop");
                self.client.task(cx, ("POST", &path), Form::new())?;
            }
            Err(Fault::Refused { text, .. }) if text.contains("does not exist") => {
                return Ok(super::destroyed(&machine.name));
            }
            Err(fault) => return Err(fault),
        }
        self.client
            .task(cx, ("DELETE", &format!("{place}?purge=1")), Form::new())?;
        Ok(super::destroyed(&machine.name))
    }

    fn action(
        &self,
        cx: &Exec,
        fun: &str,
        machine: &Machine,
        _kwargs: &Map,
    ) -> Result<Option<Value>, Fault> {
        let Some(done) = super::acted(fun, &machine.name) else {
            return Ok(None);
        };
        let path = format!("{}/status/{fun}", place(machine)?);
        self.client.task(cx, ("POST", &path), Form::new())?;
        Ok(Some(done))
    }

    fn offers(&self, cx: &Exec, offer: Offer) -> Result<Map, Fault> {
        match offer {
            Offer::Images => {
                let mut all = self.resources(cx)?;
                all.retain(|one| one.get("template").is_some_and(Value::is_true));
                Ok(api::by(all, &["name", "vmid"]))
            }
            Offer::Sizes => Ok(Map::new()),
            Offer::Locations => Ok(api::by(self.client.list(cx, "/nodes")?, &["node"])),
        }
    }
}
