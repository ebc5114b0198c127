//! The drivers. A file of `_clouds` goes before the built-in driver of its name.

mod api;
mod custom;
mod digitalocean;
mod ec2;
mod hetzner;
mod libvirt;
mod openstack;
mod proxmox;
mod saltify;
mod xml;

use std::net::IpAddr;

use state::custom::Kind;
use state::exec::Exec;
use value::hint::nearest;
use value::{Map, Value};

use crate::config::Provider;
use crate::driver::Driver;
use crate::fault::Fault;

/// The built-in drivers.
const NAMES: [&str; 7] = [
    "digitalocean",
    "ec2",
    "hetzner",
    "libvirt",
    "openstack",
    "proxmox",
    "saltify",
];

/// Opens the driver of a provider. Its secrets are read, and registered as such.
///
/// # Errors
/// When there is no such driver, or a setting that it needs is missing or cannot be read.
pub(crate) fn open(cx: &Exec, provider: &Provider) -> Result<Box<dyn Driver>, Fault> {
    let name = provider.driver.as_str();
    if cx.is_disabled(Kind::Cloud, name) {
        return Err(Fault::wrong(format!(
            "the cloud driver {name} is disabled by disable_clouds"
        )));
    }
    let settings = revealed(cx, &provider.settings)?;
    if cx.shared.custom.has_file(Kind::Cloud, name) {
        return Ok(Box::new(custom::Program::new(name, settings)));
    }
    match name {
        // Salt has two more names for this driver.
        "digitalocean" | "digital_ocean" | "do" => {
            Ok(Box::new(digitalocean::DigitalOcean::new(&settings)?))
        }
        "ec2" => Ok(Box::new(ec2::Ec2::new(settings)?)),
        "hetzner" => Ok(Box::new(hetzner::Hetzner::new(&settings)?)),
        "libvirt" => Ok(Box::new(libvirt::Libvirt::new(&settings)?)),
        "openstack" => Ok(Box::new(openstack::OpenStack::new(&settings)?)),
        "proxmox" => Ok(Box::new(proxmox::Proxmox::new(&settings)?)),
        "saltify" => Ok(Box::new(saltify::Saltify)),
        other => Err(unknown(provider, other)),
    }
}

/// Returns settings in which each `sdb://` reference is the value that it names.
pub(crate) fn revealed(cx: &Exec, settings: &Map) -> Result<Map, Fault> {
    let revealed = ssh::roster::revealed(cx, &settings.clone().into()).map_err(Fault::Wrong)?;
    Ok(revealed.as_map().cloned().unwrap_or_default())
}

/// Returns a setting as text, if it is not empty.
fn text(settings: &Map, key: &str) -> Option<String> {
    let found = settings.get(key).filter(|value| value.is_true());
    found.map(Value::to_text)
}

/// Returns the answer of Salt's drivers to the removal of a machine.
fn destroyed(name: &str) -> Value {
    Map::new()
        .with("Destroyed", format!("{name} was destroyed."))
        .into()
}

/// Returns the answer of Salt's drivers to a change of a machine's state; `None` if this is none.
fn acted(fun: &str, name: &str) -> Option<Value> {
    let (key, verb) = match fun {
        "start" => ("Started", "started"),
        "stop" => ("Stopped", "stopped"),
        "shutdown" => ("Shutdown", "shutdown"),
        "reboot" => ("Rebooted", "rebooted"),
        _ => return None,
    };
    Some(Map::new().with(key, format!("{name} was {verb}.")).into())
}

/// Sorts addresses into those of a local network and the others. Those that no other machine reaches
/// are left out.
fn sorted_addresses(texts: &[String]) -> (Vec<String>, Vec<String>) {
    let is_reached = |address: &IpAddr| match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    };
    let is_private = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => address.is_unique_local(),
    };
    let parsed = texts.iter().filter_map(|text| text.parse::<IpAddr>().ok());
    let (private, public): (Vec<_>, Vec<_>) = parsed.filter(is_reached).partition(is_private);
    let written = |all: Vec<IpAddr>| all.iter().map(ToString::to_string).collect();
    (written(private), written(public))
}

fn unknown(provider: &Provider, name: &str) -> Fault {
    let hint = nearest(name, NAMES).map(|near| format!("; did you mean {near}?"));
    Fault::wrong(format!(
        "The cloud driver, '{name}', configured under the '{}' cloud provider alias, could not be loaded: expected {}, or a file of _clouds that saltutil.sync_clouds has copied{}",
        provider.alias,
        NAMES.join(", "),
        hint.unwrap_or_default()
    ))
}
