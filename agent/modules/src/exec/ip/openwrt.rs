//! OpenWrt's `network` configuration, which is changed with the program `uci`: a section for the
//! interface, one for its device if the device needs settings, and sections for its routes. Other
//! options in these sections are kept.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::options::Options;
use super::wanted::{Route, Wanted, is_on, renamed};
use super::{Plan, named};
use crate::exec::uci::{self, Section};

const CONFIG: &str = "network";

/// The options of an interface that the settings determine. An option that is not given is removed.
const DECIDED: [&str; 11] = [
    "auto",
    "device",
    "dns",
    "dns_search",
    "gateway",
    "ifname",
    "ip6addr",
    "ip6gw",
    "ipaddr",
    "netmask",
    "proto",
];

/// The options of a device that the settings determine, if the device's section was created by this
/// module.
const OF_DEVICE: [&str; 12] = [
    "ageing_time",
    "forward_delay",
    "hello_time",
    "ifname",
    "macaddr",
    "max_age",
    "mtu",
    "ports",
    "priority",
    "stp",
    "type",
    "vid",
];

const BRIDGE: [(&str, &str); 6] = [
    ("fd", "forward_delay"),
    ("forward_delay", "forward_delay"),
    ("ageing", "ageing_time"),
    ("maxage", "max_age"),
    ("hello", "hello_time"),
    ("priority", "priority"),
];

/// Returns the name of the section of an interface. Names in uci have no dots.
pub(super) fn id(iface: &str) -> String {
    let part = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    iface.chars().map(part).collect()
}

fn sections(cx: &Exec) -> Result<Vec<Section>, Error> {
    Ok(uci::sections(cx, CONFIG)?.unwrap_or_default())
}

fn find<'a>(all: &'a [Section], id: &str) -> Option<&'a Section> {
    all.iter().find(|section| section.id == id)
}

fn text(section: &Section, option: &str) -> Option<String> {
    section.options.get(option).map(Value::to_text)
}

/// Returns the device of an interface that has a section, such as `br-lan` for `lan` (old releases
/// call the option `ifname`); otherwise the name itself.
fn device_of(all: &[Section], iface: &str) -> String {
    let own = find(all, &id(iface));
    let device = own.and_then(|own| text(own, "device").or_else(|| text(own, "ifname")));
    device.unwrap_or_else(|| iface.to_owned())
}

/// Returns the section of a device.
fn about<'a>(all: &'a [Section], device: &str) -> Option<&'a Section> {
    let is_it = |one: &&Section| text(one, "name").as_deref() == Some(device);
    all.iter().filter(|one| one.kind == "device").find(is_it)
}

/// Returns the device of an interface.
pub(super) fn device(cx: &Exec, iface: &str) -> Result<String, Error> {
    Ok(device_of(&sections(cx)?, iface))
}

/// Returns the sections of an interface: its own section, the section for IPv6 over DHCP in
/// addition to IPv4, and the section of its device.
fn of_interface(all: &[Section], iface: &str) -> Vec<Section> {
    let id = id(iface);
    let own = find(all, &id).into_iter();
    let found = own
        .chain(find(all, &format!("{id}_6")))
        .chain(about(all, &device_of(all, iface)));
    found.cloned().collect()
}

/// Returns a section with the given options at the positions of the existing ones. Existing options
/// that are listed in `decided` and not given are left out.
fn merged(there: Option<&Section>, id: &str, kind: &str, given: Map, decided: &[&str]) -> Section {
    let mut options = Map::new();
    for (name, value) in there.iter().flat_map(|section| &section.options) {
        let new = given.get_value(name);
        let goes = decided.contains(&name.to_text().as_str());
        if new.is_some() || !goes {
            options.insert(name.clone(), new.unwrap_or(value).clone());
        }
    }
    options.update(given);
    Section {
        id: there.map_or(id, |section| &section.id).to_owned(),
        kind: kind.to_owned(),
        options,
    }
}

/// Returns the options as the texts that uci stores. Empty values are left out.
fn stored(options: Map) -> Result<Map, Error> {
    let mut all = Map::new();
    for (name, value) in options.iter().filter(|(_, value)| value.is_true()) {
        all.insert(name.clone(), uci::stored(value)?);
    }
    Ok(all)
}

/// Returns a line for each option, in the form of `uci show`.
fn lines<'a>(sections: impl IntoIterator<Item = &'a Section>) -> Vec<String> {
    let mut lines = Vec::new();
    for Section { id, kind, options } in sections {
        lines.push(format!("{CONFIG}.{id}={kind}\n"));
        for (name, value) in options {
            let all = value
                .as_list()
                .map_or_else(|| vec![value], |all| all.iter().collect());
            let quoted: Vec<String> = all.into_iter().map(uci::quoted).collect();
            let (name, quoted) = (name.to_text(), quoted.join(" "));
            lines.push(format!("{CONFIG}.{id}.{name}={quoted}\n"));
        }
    }
    lines
}

/// Returns the lines of a batch that changes the old sections into the new ones.
fn batch(old: &[Section], new: &[Section]) -> Vec<String> {
    let mut lines = Vec::new();
    for Section { id, kind, options } in new {
        let there = find(old, id);
        if there.is_none_or(|there| there.kind != *kind) {
            lines.push(format!("set {CONFIG}.{id}={kind}"));
        }
        let none = Map::new();
        let before = there.map_or(&none, |there| &there.options);
        for (name, value) in options {
            let key = format!("{CONFIG}.{id}.{}", name.to_text());
            let was = before.get_value(name);
            if was != Some(value) {
                lines.extend(uci::setting(&key, value, was.is_some()));
            }
        }
        let gone = before
            .iter()
            .filter(|(name, _)| !options.contains_value(name));
        lines.extend(gone.map(|(name, _)| format!("delete {CONFIG}.{id}.{}", name.to_text())));
    }
    // The deletions come last and in reverse order, because uci numbers the sections without a
    // name.
    let gone = old.iter().rev();
    let gone = gone.filter(|one| find(new, &one.id).is_none());
    lines.extend(gone.map(|gone| format!("delete {CONFIG}.{}", gone.id)));
    lines
}

fn plan(old: &[Section], new: &[Section]) -> Plan {
    Plan {
        new: lines(new),
        uci: batch(old, new),
        ..Plan::default()
    }
}

/// Runs the lines of a batch. Does not touch changes of another process that are not committed yet.
pub(super) fn carry_out(cx: &Exec, lines: &[String]) -> Result<(), Error> {
    if uci::sections(cx, CONFIG)?.is_none() {
        uci::make(cx, CONFIG)?;
    }
    let pending = uci::pending(cx, Some(CONFIG))?;
    if !pending.is_empty() {
        return Err(format!(
            "{CONFIG} has uncommitted changes: commit or revert them first (uci changes {CONFIG})"
        )
        .into());
    }
    match uci::change(cx, CONFIG, lines, |_| true)? {
        None => Ok(()),
        Some(why) => Err(format!("cannot change the configuration {CONFIG}: {why}").into()),
    }
}

/// Returns the current sections of an interface as lines, one for each option.
pub(super) fn current_lines(cx: &Exec, iface: &str) -> Result<Vec<String>, Error> {
    Ok(lines(&of_interface(&sections(cx)?, iface)))
}

/// Returns the changes that apply these settings to an interface.
pub(super) fn interface(
    cx: &Exec,
    iface: &str,
    kind: &str,
    enabled: bool,
    given: &Map,
) -> Result<Plan, Error> {
    if matches!(kind, "bond" | "slave") {
        return Err(format!("OpenWrt supports interface types bridge, eth, vlan; got '{kind}' (a bridge names its members in `ports`)").into());
    }
    let options = Options { iface, given };
    let wanted = Wanted::parse(options, kind, "OpenWrt")?;
    let (all, id) = (sections(cx)?, id(iface));
    let own = find(&all, &id);
    let device = match options.text("device").filter(|_| kind == "eth") {
        Some(device) => named(&device)?.to_owned(),
        None if kind == "eth" => device_of(&all, iface),
        None => iface.to_owned(),
    };
    let is_old =
        own.is_some_and(|own| own.options.contains("ifname") && !own.options.contains("device"));
    let mut settings = settings(options, &wanted, enabled);
    settings.insert(if is_old { "ifname" } else { "device" }, device.as_str());
    let settings = stored(settings)?;
    let mut new = vec![merged(own, &id, "interface", settings, &DECIDED)];
    let (six_id, device_id) = (format!("{id}_6"), format!("{id}_dev"));
    if wanted.dhcp4 && wanted.dhcp6 {
        let six = Map::new()
            .with("proto", "dhcpv6")
            .with("device", format!("@{id}"));
        new.push(merged(find(&all, &six_id), &six_id, "interface", six, &[]));
    }
    // A section that was not created by this module keeps its options. A section that was created
    // here is removed when the device needs no settings.
    let there = about(&all, &device);
    let is_theirs = there.is_some_and(|there| there.id != device_id);
    let given = stored(about_device(options, &wanted, &device))?;
    if is_theirs || given.len() > 1 {
        let decided: &[&str] = if is_theirs { &[] } else { &OF_DEVICE };
        new.push(merged(there, &device_id, "device", given, decided));
    }
    let mut old = of_interface(&all, iface);
    old.retain(|one| find(&new, &one.id).is_some() || [&six_id, &device_id].contains(&&one.id));
    Ok(plan(&old, &new))
}

/// Returns the options of the interface itself.
fn settings(options: Options<'_>, wanted: &Wanted, enabled: bool) -> Map {
    let of = |six: bool| -> Vec<String> {
        let family = wanted
            .addresses
            .iter()
            .filter(|one| one.contains(':') == six);
        family.cloned().collect()
    };
    let gateway = |six: bool| {
        let mut all = wanted.gateways.iter();
        all.find(|one| one.contains(':') == six)
            .cloned()
            .unwrap_or_default()
    };
    let given = options.text("proto").unwrap_or_default().to_lowercase();
    let proto = match (wanted.dhcp4, wanted.dhcp6, wanted.addresses.is_empty()) {
        (true, ..) => "dhcp",
        (false, _, false) => "static",
        (false, true, true) => "dhcpv6",
        (false, false, true) if ["", "manual", "static"].contains(&given.as_str()) => "none",
        // A protocol of OpenWrt, such as pppoe. Its other options are in the section already.
        (false, false, true) => &given,
    };
    Map::new()
        .with("proto", proto)
        .with("ipaddr", of(false))
        .with("gateway", gateway(false))
        .with("ip6addr", of(true))
        .with("ip6gw", gateway(true))
        .with("dns", wanted.dns.clone())
        .with("dns_search", wanted.search.clone())
        .with("auto", if enabled { "" } else { "0" })
}

/// Returns the options of a device that is a bridge or a VLAN, or that has settings.
fn about_device(options: Options<'_>, wanted: &Wanted, device: &str) -> Map {
    let mut about = Map::new().with("name", device);
    if wanted.kind == "bridge" {
        about.insert("type", "bridge");
        about.insert("ports", wanted.members.clone());
        let stp = options
            .get("stp")
            .map(|stp| if is_on(stp) { "1" } else { "0" });
        stp.map(|stp| about.insert("stp", stp));
        about.extend(renamed(options.given, &BRIDGE));
    }
    if let Some((id, parent)) = &wanted.vlan {
        about.insert("type", "8021q");
        about.insert("ifname", parent.as_str());
        about.insert("vid", *id);
    }
    wanted.mtu.map(|mtu| about.insert("mtu", mtu));
    let address = options.text("macaddr").or_else(|| options.text("hwaddr"));
    address.map(|address| about.insert("macaddr", address));
    about
}

fn of_routes(all: &[Section], iface: &str) -> Vec<Section> {
    let id = id(iface);
    let is_one = |one: &&Section| {
        matches!(one.kind.as_str(), "route" | "route6")
            && text(one, "interface").as_deref() == Some(id.as_str())
    };
    all.iter().filter(is_one).cloned().collect()
}

/// Returns the lines of the current route sections of an interface.
pub(super) fn shown_routes(cx: &Exec, iface: &str) -> Result<Vec<String>, Error> {
    Ok(lines(&of_routes(&sections(cx)?, iface)))
}

/// Returns the changes that replace the routes of an interface with these.
pub(super) fn routes(cx: &Exec, iface: &str, given: &[Value]) -> Result<Plan, Error> {
    let (all, id) = (sections(cx)?, id(iface));
    let old = of_routes(&all, iface);
    let mut free = (1..).map(|number| format!("{id}_route{number}"));
    let mut new = Vec::new();
    for (at, route) in Route::all(given)?.into_iter().enumerate() {
        let kind = if route.to.contains(':') {
            "route6"
        } else {
            "route"
        };
        let options = Map::new()
            .with("interface", id.as_str())
            .with("target", route.to)
            .with("gateway", route.via.unwrap_or_default())
            .with("metric", route.metric);
        let there = old.get(at);
        let name = match there {
            Some(there) => there.id.clone(),
            None => free.find(|id| find(&all, id).is_none()).unwrap_or_default(),
        };
        let options = stored(options)?;
        let decided = ["gateway", "metric", "netmask"];
        new.push(merged(there, &name, kind, options, &decided));
    }
    Ok(plan(&old, &new))
}
