//! The driver `libvirt`: domains that are copies of a base, by the program `virsh`.
//!
//! A new domain is defined without disks before these are copied, so that a call that is cut short
//! leaves a domain that is listed: its metadata has the token and the names of the volumes. A repeated
//! call copies what is missing, and starts the domain.

mod domain;
mod seed;
#[cfg(test)]
mod tests;
mod virsh;
mod volumes;

use state::exec::Exec;
use value::{Map, Value, log};

use crate::driver::{Boot, Driver, Machine, Offer, Wanted};
use crate::drivers::xml::Element;
use crate::fault::Fault;
use domain::{Disk, Mark};
use virsh::Virsh;

/// The word for this driver in faults.
const LIBVIRT: &str = "libvirt";
/// The number of letters of the token in the names of volumes.
const SHORT: usize = 8;

/// A hypervisor.
pub(super) struct Libvirt {
    virsh: Virsh,
}

/// Returns whether libvirt says that something does not exist.
fn is_missing(fault: &Fault) -> bool {
    let text = fault.to_string().to_lowercase();
    matches!(fault, Fault::Refused { .. })
        && (text.contains("not found") || text.contains("failed to get domain"))
}

fn option(name: &str, value: &str) -> String {
    format!("--{name}={value}")
}

impl Libvirt {
    /// Opens a hypervisor.
    ///
    /// # Errors
    /// When a setting is missing or not well formed.
    pub(super) fn new(settings: &Map) -> Result<Self, Fault> {
        Ok(Self {
            virsh: Virsh::of(settings)?,
        })
    }

    /// Runs a command about a domain.
    fn of(&self, cx: &Exec, command: &str, domain: &str, more: &[&str]) -> Result<String, Fault> {
        let domain = option("domain", domain);
        let words = [&[command, &domain], more].concat();
        self.virsh.run(cx, &words)
    }

    /// Returns the description with which a domain starts the next time.
    fn dump(&self, cx: &Exec, domain: &str) -> Result<Element, Fault> {
        let text = self.of(cx, "dumpxml", domain, &["--inactive"])?;
        Element::read(&text).map_err(|problem| {
            Fault::unanswered(
                LIBVIRT,
                &format!("the XML of {domain} is not well formed: {problem}"),
            )
        })
    }

    fn define(&self, cx: &Exec, domain: &Element) -> Result<(), Fault> {
        let words = ["define", "--file=/dev/stdin"];
        let most = virsh::CALL_MAX;
        self.virsh.fed(cx, &words, Some(domain.written()), most)?;
        Ok(())
    }

    /// Returns the domains with their states, without addresses. One that is removed meanwhile is left
    /// out.
    fn domains(&self, cx: &Exec) -> Result<Vec<(Element, Machine)>, Fault> {
        let listed = |kind: &str| self.virsh.lines(cx, &["list", "--uuid", kind]);
        let all = listed("--all")?;
        let (running, paused) = (listed("--state-running")?, listed("--state-paused")?);
        let mut domains = Vec::new();
        for id in all {
            let state = match (running.contains(&id), paused.contains(&id)) {
                (true, _) => "running",
                (_, true) => "paused",
                _ => "shutdown",
            };
            match self.dump(cx, &id) {
                Ok(domain) => {
                    let machine = domain::machine(&domain, state);
                    domains.push((domain, machine));
                }
                Err(fault) if is_missing(&fault) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(domains)
    }

    /// Returns the addresses of a domain; none until it has some.
    fn addresses(&self, cx: &Exec, machine: &Machine, source: &str) -> Result<Vec<String>, Fault> {
        let source = option("source", source);
        let text = match self.of(cx, "domifaddr", &machine.id, &[&source]) {
            Ok(text) => text,
            Err(Fault::Refused { text, .. }) => {
                log::debug(format_args!("{}: {text}", machine.name));
                return Ok(Vec::new());
            }
            Err(fault) => return Err(fault),
        };
        let last = text
            .lines()
            .filter_map(|line| line.split_whitespace().last());
        let addresses = last.filter_map(|word| word.split_once('/'));
        Ok(addresses.map(|(address, _)| address.to_owned()).collect())
    }

    /// Returns the base of a machine. Its disks can only be copied while it does not run.
    fn base(&self, cx: &Exec, name: &str) -> Result<Element, Fault> {
        let state = self.of(cx, "domstate", name, &[])?;
        match state.trim() {
            "shut off" => self.dump(cx, name),
            state => Err(Fault::wrong(format!(
                "{LIBVIRT}: the state of the base domain {name} is {state}; shut it down, so that its disks can be copied"
            ))),
        }
    }

    fn disks(base: &Element) -> Result<Vec<Disk>, Fault> {
        let failed = |problem| Fault::wrong(format!("{LIBVIRT}: {problem}"));
        domain::disks(base).map_err(failed)
    }

    /// Defines a machine without disks.
    fn begin(&self, cx: &Exec, wanted: &Wanted<'_>) -> Result<Machine, Fault> {
        let spec = wanted.spec;
        let name = spec.text("base_domain").or_else(|| spec.text("image"));
        let missing = || Fault::wrong(format!("{}: the profile has no base_domain", spec.name));
        let name = name.ok_or_else(missing)?;
        spec.one_of("clone_strategy", ["full", "quick"])?;
        let source = spec.one_of("ip_source", ["ip-learning", "qemu-agent"])?;
        let base = self.base(cx, &name)?;
        let short = wanted.token.get(..SHORT).unwrap_or(wanted.token);
        let mut volumes = Vec::new();
        for disk in Self::disks(&base)? {
            let pool = self
                .virsh
                .run(cx, &["vol-pool", &option("vol", &disk.path)])?;
            let (target, format) = (&disk.target, &disk.format);
            let own = format!("{}-{short}-{target}.{format}", spec.name);
            volumes.push((pool.trim().to_owned(), own));
        }
        if wanted.user_data.is_some() {
            seed::program()?;
            let pool = volumes.first().map(|(pool, _)| pool.clone());
            let none = || {
                Fault::wrong(format!(
                    "{LIBVIRT}: {name} has no disk, and no place for user data"
                ))
            };
            let own = format!("{}-{short}-{}", spec.name, seed::END);
            volumes.push((pool.ok_or_else(none)?, own));
        }
        let mark = Mark {
            token: wanted.token.to_owned(),
            base: name,
            source: if source == "qemu-agent" {
                "agent"
            } else {
                "lease"
            }
            .to_owned(),
            volumes,
            is_ready: false,
        };
        let mut copy = domain::copy(&base, spec.name.as_str());
        mark.put(&mut copy);
        self.define(cx, &copy)?;
        let made = self.dump(cx, spec.name.as_str())?;
        Ok(domain::machine(&made, "shutdown"))
    }

    /// Gives a domain the disks that it lacks.
    fn complete(
        &self,
        cx: &Exec,
        wanted: &Wanted<'_>,
        domain: &Element,
        mut mark: Mark,
    ) -> Result<(), Fault> {
        let base = self.base(cx, &mark.base)?;
        let quick = wanted.spec.one_of("clone_strategy", ["full", "quick"])? == "quick";
        let (seeds, own): (Vec<_>, Vec<_>) = mark
            .volumes
            .iter()
            .partition(|(_, name)| name.ends_with(seed::END));
        let disks = Self::disks(&base)?;
        if disks.len() != own.len() {
            return Err(Fault::wrong(format!(
                "{LIBVIRT}: the disks of {} were changed while {} was made: remove it by cloud.destroy",
                mark.base, wanted.spec.name
            )));
        }
        let mut paths = Vec::new();
        for (disk, own) in disks.iter().zip(own) {
            let path = self.copied(cx, disk, own, quick)?;
            paths.push((disk.target.clone(), path));
        }
        let mut full = domain::with_disks(domain, &base, &paths);
        for own in seeds {
            let path = self.seeded(cx, wanted, own)?;
            full.at("devices").inner.push(domain::seed(&path));
        }
        mark.is_ready = true;
        mark.put(&mut full);
        self.define(cx, &full)
    }

    /// Copies the disks of a machine that has none, and starts it.
    fn finish(
        &self,
        cx: &Exec,
        wanted: &Wanted<'_>,
        mut machine: Machine,
    ) -> Result<Machine, Fault> {
        let domain = self.dump(cx, &machine.id)?;
        let mark = Mark::of(&domain).filter(|mark| mark.token == wanted.token);
        let Some(mark) = mark else {
            let text = format!("the domain {} is not one of this call", machine.name);
            return Err(Fault::refused(LIBVIRT, "", &text));
        };
        if !mark.is_ready {
            self.complete(cx, wanted, &domain, mark)?;
        }
        if machine.state == "shutdown" {
            self.of(cx, "start", &machine.id, &[])?;
            "running".clone_into(&mut machine.state);
        }
        Ok(machine)
    }

    /// Runs a command about a domain, which need not exist any more.
    fn removed(&self, cx: &Exec, words: &[&str]) -> Result<(), Fault> {
        match self.virsh.run(cx, words) {
            Err(fault) if !is_missing(&fault) => Err(fault),
            _ => Ok(()),
        }
    }
}

impl Driver for Libvirt {
    fn boot(&self) -> Boot {
        Boot::Ssh
    }

    fn list(&self, cx: &Exec) -> Result<Vec<Machine>, Fault> {
        let mut all = Vec::new();
        for (domain, mut machine) in self.domains(cx)? {
            if machine.state == "running" {
                let mark = Mark::of(&domain);
                let source = mark.as_ref().map_or("lease", |mark| mark.source.as_str());
                let found = self.addresses(cx, &machine, source)?;
                (machine.private_ips, machine.public_ips) = super::sorted_addresses(&found);
            }
            all.push(machine);
        }
        Ok(all)
    }

    fn create(&self, cx: &Exec, wanted: &Wanted<'_>) -> Result<Machine, Fault> {
        let all = self.domains(cx)?.into_iter().map(|(_, machine)| machine);
        let is_own = |machine: &Machine| machine.token.as_deref() == Some(wanted.token);
        let machine = match all.into_iter().find(is_own) {
            Some(machine) => machine,
            None => self.begin(cx, wanted)?,
        };
        self.finish(cx, wanted, machine)
    }

    fn resume(&self, cx: &Exec, wanted: &Wanted<'_>, machine: Machine) -> Result<Machine, Fault> {
        self.finish(cx, wanted, machine)
    }

    /// Removes a domain, and the volumes that were made for it. The disks of a domain that no call has
    /// made are kept.
    fn destroy(&self, cx: &Exec, machine: &Machine) -> Result<Value, Fault> {
        let domain = option("domain", &machine.id);
        let described = match self.dump(cx, &machine.id) {
            Ok(described) => described,
            Err(fault) if is_missing(&fault) => return Ok(super::destroyed(&machine.name)),
            Err(fault) => return Err(fault),
        };
        if machine.state != "shutdown" {
            match self.virsh.run(cx, &["destroy", &domain]) {
                Err(Fault::Refused { text, .. }) if text.contains("not running") => {}
                done => {
                    done?;
                }
            }
        }
        let volumes = Mark::of(&described).map(|mark| mark.volumes);
        for (pool, name) in volumes.unwrap_or_default() {
            let (pool, name) = (option("pool", &pool), option("vol", &name));
            self.removed(cx, &["vol-delete", &pool, &name])?;
        }
        let mut more = vec!["--managed-save", "--snapshots-metadata"];
        if described
            .find("os")
            .is_some_and(|os| os.find("nvram").is_some())
        {
            more.push("--nvram");
        }
        self.removed(cx, &[&["undefine", &domain][..], &more].concat())?;
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
        let command = if fun == "stop" { "shutdown" } else { fun };
        self.of(cx, command, &machine.id, &[])?;
        Ok(Some(done))
    }

    fn offers(&self, cx: &Exec, offer: Offer) -> Result<Map, Fault> {
        if offer != Offer::Images {
            return Ok(Map::new());
        }
        let all = self.domains(cx)?.into_iter();
        let bases = all.filter(|(_, machine)| machine.state == "shutdown");
        Ok(bases
            .map(|(_, machine)| (machine.name.clone(), machine.details()))
            .collect())
    }
}
