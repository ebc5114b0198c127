//! Netplan's YAML files: one for each interface, as Salt's `netplan_ip` writes it, and one for the
//! routes of each.

use render::yaml::{self, Dump};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::options::Options;
use super::wanted::{Route, Wanted, is_on, renamed};
use super::{File, Plan, lines, read};

const FOLDER: &str = "/etc/netplan";

const BOND: [(&str, &str); 8] = [
    ("mode", "mode"),
    ("miimon", "mii-monitor-interval"),
    ("lacp_rate", "lacp-rate"),
    ("xmit_hash_policy", "transmit-hash-policy"),
    ("downdelay", "down-delay"),
    ("updelay", "up-delay"),
    ("arp_interval", "arp-interval"),
    ("primary", "primary"),
];

const BRIDGE: [(&str, &str); 6] = [
    ("fd", "forward-delay"),
    ("forward_delay", "forward-delay"),
    ("ageing", "ageing-time"),
    ("maxage", "max-age"),
    ("hello", "hello-time"),
    ("priority", "priority"),
];

/// Returns the path of the file of an interface. Its name sorts after the files of the
/// distribution.
pub(super) fn path(iface: &str) -> String {
    format!("{FOLDER}/90-salt-{iface}.yaml")
}

/// Returns the path of the file with the routes of an interface. Netplan merges the lists of
/// several files.
pub(super) fn route_path(iface: &str) -> String {
    format!("{FOLDER}/90-salt-{iface}-routes.yaml")
}

/// Returns the renderer of netplan: the one that a file sets, or the default.
fn renderer() -> Result<String, Error> {
    let Some(folder) = machine::fs::list_or_none(FOLDER)? else {
        return Ok("networkd".to_owned());
    };
    let names = folder
        .into_iter()
        .map(|entry| entry.path().display().to_string());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    let is_yaml = |name: &&String| name.ends_with(".yaml") || name.ends_with(".yml");
    for name in names.iter().filter(is_yaml) {
        let given = yaml::load(&read(name)?).unwrap_or_default();
        let given = given
            .get("network")
            .and_then(|network| network.get("renderer"));
        if let Some(given) = given.filter(|given| given.is_true()) {
            return Ok(given.to_text());
        }
    }
    Ok("networkd".to_owned())
}

fn dumped(value: Map) -> Result<String, Error> {
    let layout = Dump {
        default_flow_style: Some(false),
        ..Dump::default()
    };
    let document = Map::new().with("network", value);
    yaml::dump(&document.into(), &layout).map_err(|error| Error::refused(error.to_string()))
}

/// Returns the changes that apply these settings to an interface.
pub(super) fn interface(
    _cx: &Exec,
    iface: &str,
    kind: &str,
    enabled: bool,
    given: &Map,
) -> Result<Plan, Error> {
    let wanted = Wanted::parse(Options { iface, given }, kind, "netplan")?;
    let mut ethernets = Map::new();
    let parent = wanted.vlan.as_ref().map(|(_, parent)| parent);
    for member in wanted.members.iter().chain(parent) {
        ethernets.insert(member.as_str(), Map::new());
    }
    let section = match kind {
        "bond" => "bonds",
        "bridge" => "bridges",
        "vlan" => "vlans",
        _ => "ethernets",
    };
    let mut network = Map::new().with("version", 2).with("renderer", renderer()?);
    if !ethernets.is_empty() {
        network.insert("ethernets", ethernets);
    }
    let device = device(&wanted, enabled, given);
    network.insert(section, Map::new().with(iface, device));
    let text = dumped(network)?;
    Ok(Plan {
        new: lines(&text),
        files: vec![File::new(path(iface), text).with_mode(0o600)],
        ..Plan::default()
    })
}

/// Returns the settings of the interface itself.
fn device(wanted: &Wanted, enabled: bool, given: &Map) -> Map {
    let mut device = Map::new().with("dhcp4", wanted.dhcp4);
    let mut keep = |name: &str, value: Value| {
        if value.is_true() {
            device.insert(name, value);
        }
    };
    keep("dhcp6", wanted.dhcp6.into());
    keep("addresses", wanted.addresses.clone().into());
    let routes = wanted.gateways.iter();
    let routes = routes.map(|via| {
        Map::new()
            .with("to", "default")
            .with("via", via.as_str())
            .into()
    });
    keep("routes", Value::list(routes));
    let servers = [("addresses", &wanted.dns), ("search", &wanted.search)];
    let servers = servers.into_iter().filter(|(_, list)| !list.is_empty());
    let servers = servers.map(|(name, list)| (name, Value::from(list.clone())));
    keep("nameservers", servers.collect::<Map>().into());
    keep("mtu", wanted.mtu.into());
    if !enabled {
        keep("activation-mode", "manual".into());
    }
    keep("interfaces", wanted.members.clone().into());
    if let Some((id, link)) = &wanted.vlan {
        keep("id", (*id).into());
        keep("link", link.as_str().into());
    }
    let mut parameters = Map::new();
    let stp = given.get("stp").filter(|_| wanted.kind == "bridge");
    stp.map(|stp| parameters.insert("stp", is_on(stp)));
    parameters.extend(match wanted.kind.as_str() {
        "bond" => renamed(given, &BOND),
        "bridge" => renamed(given, &BRIDGE),
        _ => Vec::new(),
    });
    keep("parameters", parameters.into());
    device
}

/// Returns the changes that apply these routes to an interface. Salt only shows them and writes
/// nothing.
pub(super) fn routes(_cx: &Exec, iface: &str, given: &[Value]) -> Result<Plan, Error> {
    let mut all = Vec::new();
    for route in Route::all(given)? {
        let mut entry = Map::new().with("to", route.to);
        route.via.map(|via| entry.insert("via", via));
        route.metric.map(|metric| entry.insert("metric", metric));
        all.push(entry.into());
    }
    let managed = yaml::load(&read(&path(iface))?).unwrap_or_default();
    let sections = managed.get("network").and_then(Value::as_map);
    let mut sections = sections.into_iter().flat_map(Map::iter);
    let section = sections.find(|(_, interfaces)| interfaces.get(iface).is_some());
    let section = section.map_or_else(|| "ethernets".to_owned(), |(name, _)| name.to_text());
    let device = Map::new().with("routes", Value::list(all));
    let mut network = Map::new().with("version", 2);
    network.insert(section, Map::new().with(iface, device));
    let text = dumped(network)?;
    Ok(Plan {
        new: lines(&text),
        files: vec![File::new(route_path(iface), text).with_mode(0o600)],
        ..Plan::default()
    })
}
