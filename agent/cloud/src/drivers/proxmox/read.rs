//! Machines of the answers of Proxmox VE: their places, tokens and addresses.

use value::{Map, Value};

use super::PROXMOX;
use super::settings::{is_numbered, token};
use crate::driver::Machine;
use crate::drivers::api::{address, field, items, path};
use crate::fault::Fault;
use crate::spec::Spec;

/// Returns a machine of the list of resources, without its addresses.
pub(super) fn machine(resource: &Value) -> Option<Machine> {
    let (id, memory) = (field(resource, "vmid"), resource.get("maxmem"));
    let memory = memory.and_then(Value::as_int).unwrap_or_default() >> 20;
    let name = field(resource, "name");
    (!id.is_empty()).then(|| Machine {
        name: if name.is_empty() { id.clone() } else { name },
        id,
        size: format!("{} cores, {memory} MiB", field(resource, "maxcpu")),
        state: field(resource, "status"),
        token: token(&field(resource, "tags")).map(str::to_owned),
        full: resource.as_map().cloned().unwrap_or_default(),
        ..Machine::default()
    })
}

/// Returns the path of a machine: its node, its kind and its number.
pub(super) fn place(machine: &Machine) -> Result<String, Fault> {
    let full = Value::from(machine.full.clone());
    let (node, kind) = (field(&full, "node"), field(&full, "type"));
    match node.is_empty() || !["qemu", "lxc"].contains(&kind.as_str()) {
        true => Err(Fault::unanswered(
            PROXMOX,
            &format!("{} has no node or type", machine.name),
        )),
        false => Ok(path(&["nodes", &node, &kind, &machine.id])),
    }
}

/// Returns the addresses of the network cards: of a guest agent, or of a container.
pub(super) fn of_cards(cards: &[Value]) -> Vec<String> {
    let of_card = |card: &Value| {
        let agent = items(card, "ip-addresses").iter();
        let own = ["inet", "inet6"].map(|key| field(card, key));
        let all = agent.map(|one| field(one, "ip-address")).chain(own);
        all.filter_map(|text| address(text.split('/').next()?))
            .collect::<Vec<_>>()
    };
    cards.iter().flat_map(of_card).collect()
}

/// Returns the fixed addresses of a configuration: `ip=10.0.0.5/24,gw=10.0.0.1`.
pub(super) fn of_config(config: &Map) -> Vec<String> {
    let is_net = |key: &str| is_numbered(key, "ipconfig") || is_numbered(key, "net");
    let nets = config.iter().filter(|(key, _)| is_net(&key.as_text()));
    let fixed = |text: String| {
        let mut parts = text.split(',').filter_map(|part| part.strip_prefix("ip="));
        address(parts.next()?.split('/').next()?)
    };
    nets.filter_map(|(_, text)| fixed(text.to_text())).collect()
}

/// Returns a machine that has been made at a node, by its kind and number.
pub(super) fn made(spec: &Spec, (node, kind, id): (&str, &str, &str)) -> Machine {
    Machine {
        name: spec.name.to_string(),
        id: id.to_owned(),
        state: "stopped".to_owned(),
        full: Map::new().with("node", node).with("type", kind),
        ..Machine::default()
    }
}
