//! Debian's `/etc/network/interfaces`, with the same options in the same order as Salt's
//! `debian_ip` writes.

use std::net::{Ipv4Addr, Ipv6Addr};

use ::python::shlex;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, python};

use super::debian_types::{bonding, bridging, peer, pppoe};
use super::options::{Options, int};
use super::{File, Plan, lines, read};

const FILE: &str = "/etc/network/interfaces";
const FOLDER: &str = "/etc/network/interfaces.d";

const TYPES: &str = "eth|bond|alias|clone|ipsec|dialup|bridge|slave|vlan|pppoe|source";

/// The options of an interface, in the order in which they are written.
const WRITTEN: &str = "autoconf privext dhcp hwaddress hwaddr vlan_raw_device address addresses netmask metric gateway \
    pointopoint scope hostname media leasehours leasetime vendor client bootfile server mode endpoint dstaddr local ttl mtu \
    provider unit options master dns_nameservers wireless_mode wpa_ap_scan wpa_conf wpa_driver wpa_group wpa_key_mgmt \
    wpa_pairwise wpa_proto wpa_psk wpa_roam wpa_ssid accept_ra up_cmds down_cmds pre_up_cmds post_up_cmds pre_down_cmds \
    post_down_cmds";

/// The options that have another name in the file.
const CALLED: [(&str, &str); 10] = [
    ("addresses", "address"),
    ("hwaddr", "hwaddress"),
    ("up_cmds", "up"),
    ("down_cmds", "down"),
    ("pre_up_cmds", "pre-up"),
    ("post_up_cmds", "post-up"),
    ("pre_down_cmds", "pre-down"),
    ("post_down_cmds", "post-down"),
    ("master", "bond-master"),
    ("accept_ra", "accept_ra"),
];

/// The commands that run when an interface goes up or down.
const COMMANDS: [&str; 6] = ["up", "pre-up", "post-up", "down", "pre-down", "post-down"];

/// The names in the file for the settings of `ethtool`.
const ETHTOOL: [(&str, &str); 11] = [
    ("autoneg", "ethernet-autoneg"),
    ("duplex", "link-duplex"),
    ("speed", "link-speed"),
    ("rx", "offload-rx"),
    ("tx", "offload-tx"),
    ("sg", "offload-sg"),
    ("tso", "offload-tso"),
    ("ufo", "offload-ufo"),
    ("gso", "offload-gso"),
    ("gro", "offload-gro"),
    ("lro", "offload-lro"),
];

/// Further options for `ethtool` that a file may contain.
const ETHTOOL_ONLY: &str = "ethernet-port ethernet-wol driver-message-level ethernet-pause-rx ethernet-pause-tx \
    ethernet-pause-autoneg hardware-irq-coalesce-adaptive-rx hardware-irq-coalesce-adaptive-tx \
    hardware-irq-coalesce-rx-usecs hardware-irq-coalesce-rx-frames hardware-dma-ring-rx hardware-dma-ring-rx-mini \
    hardware-dma-ring-rx-jumbo hardware-dma-ring-tx";

/// The groups of options, with the prefix of their names in the file, such as `bond-`.
const GROUPS: [(&str, &str); 3] = [
    ("ethtool", ""),
    ("bonding", "bond-"),
    ("bridging", "bridge_"),
];

/// The check for the value of an option.
#[derive(Clone, Copy)]
enum Check {
    Any,
    Ipv4,
    Ipv6,
    Int,
    Mac,
    /// A prefix length up to this number of bits; for 32 also a netmask.
    Mask(i64),
    Words,
    /// One of these words, which are separated by `|`.
    Of(&'static str),
    /// A number from 0 to this maximum.
    To(i64),
}

const MODES: &str = "gre|GRE|ipip|IPIP|802.3ad";

/// The options of both address families and of wireless networks.
const ANY: &str = "addresses slaves vlan-raw-device test enable_ipv4 enable_ipv6 wireless-essid wireless-mode wpa-conf \
    wpa-driver wpa-group wpa-key-mgmt wpa-pairwise wpa-psk wpa-proto wpa-roam wpa-ssid";
/// The options of IPv4 only.
const ANY4: &str = "hostname vendor client bootfile provider options network";

/// Returns the check for an option of an address family; `None` if the family does not have this
/// option.
fn check(option: &str, is_six: bool) -> Option<Check> {
    let among = |list: &str| list.split_whitespace().any(|word| word == option);
    Some(match (option, is_six) {
        ("mtu" | "ttl", _) => Check::Int,
        ("mode", _) => Check::Of(MODES),
        ("endpoint" | "local", _) => Check::Ipv4,
        ("hwaddress", _) | ("hwaddr", false) => Check::Mac,
        ("dns-nameservers" | "dns-search", _) => Check::Words,
        ("wpa-ap-scan", _) => Check::To(2),
        _ if among(ANY) => Check::Any,
        ("proto", false) => Check::Of("bootp|dhcp|static|manual|loopback|ppp"),
        ("netmask", false) => Check::Mask(32),
        ("scope", false) => Check::Of("global|link|host"),
        ("address" | "broadcast" | "gateway" | "pointopoint" | "server" | "dstaddr", false) => {
            Check::Ipv4
        }
        ("metric" | "leasehours" | "leasetime" | "unit", false) => Check::Int,
        _ if !is_six => return among(ANY4).then_some(Check::Any),
        ("proto", _) => Check::Of("auto|loopback|static|manual|dhcp|v4tunnel|6to4"),
        ("address" | "broadcast" | "gateway", _) => Check::Ipv6,
        ("netmask", _) => Check::Mask(128),
        ("scope", _) => Check::Of("global|site|link|host"),
        ("privext" | "accept_ra", _) => Check::To(2),
        ("dhcp" | "autoconf", _) => Check::To(1),
        ("media", _) => Check::Any,
        ("preferred-lifetime" | "dad-attempts" | "dad-interval", _) => Check::Int,
        _ => return None,
    })
}

/// Returns whether a text is an address of a family, with or without a prefix length.
pub(super) fn is_address(text: &str, is_six: bool) -> bool {
    let bits = if is_six { 128 } else { 32 };
    let (ip, mask) = match text.rsplit_once('/') {
        Some((ip, mask)) => (ip, mask.trim().parse().ok()),
        None => (text, Some(bits)),
    };
    let is_ip = match is_six {
        true => ip.parse::<Ipv6Addr>().is_ok(),
        false => ip.parse::<Ipv4Addr>().is_ok(),
    };
    is_ip && mask.is_some_and(|mask| (1..=bits).contains(&mask))
}

/// Returns whether a text is a hardware address: six pairs of hexadecimal digits with the same
/// separator between them.
pub(super) fn is_mac(text: &str) -> bool {
    let is_pair = |pair: &str| {
        (1..=2).contains(&pair.len()) && pair.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let by = |sign: char| text.split(sign).count() == 6 && text.split(sign).all(is_pair);
    ['-', ':', '.'].into_iter().any(by)
}

fn is_mask(text: &str) -> bool {
    value::networks::Network::parse(&format!("0.0.0.0/{text}"), false).is_ok()
}

/// Returns whether the value of an option is valid, and the value to write.
fn checked(check: Check, value: &Value) -> (bool, Value) {
    let number = |valid: &dyn Fn(i64) -> bool| match int(value) {
        Some(number) => (valid(number), number.into()),
        None => (false, value.clone()),
    };
    let text = value.as_str();
    let valid = match check {
        Check::Any => true,
        Check::Ipv4 => text.is_some_and(|text| is_address(text, false)),
        Check::Ipv6 => text.is_some_and(|text| is_address(text, true)),
        Check::Mac => text.is_some_and(is_mac),
        Check::Int => return number(&|_| true),
        Check::To(most) => return number(&|number| (0..=most).contains(&number)),
        Check::Mask(32) if text.is_some_and(|text| int(value).is_none() && is_mask(text)) => true,
        Check::Mask(most) => return number(&|number| (0..=most).contains(&number)),
        Check::Of(words) => {
            let text = python::str(value);
            return (words.split('|').any(|word| word == text), text.into());
        }
        Check::Words => {
            let words = match text {
                Some(text) => Value::list(text.split_whitespace().map(Value::from)),
                None => value.clone(),
            };
            return (
                words.as_list().is_some_and(|words| !words.is_empty()),
                words,
            );
        }
    };
    (valid, value.clone())
}

/// An interface in the file.
#[derive(Default)]
struct Adapter {
    name: String,
    enabled: bool,
    hotplug: bool,
    /// Further files that are read. They belong to the pseudo interface with the name `source`.
    sources: Vec<String>,
    /// True if the `source` lines are written. They are not written for files that were read,
    /// because the contents of those files are written instead.
    is_source: bool,
    /// The options for IPv4 and for IPv6; `None` if the file has no block for the family.
    families: [Option<Map>; 2],
}

impl Adapter {
    fn is_known(&self) -> bool {
        self.name == "source" || self.families.iter().any(Option::is_some)
    }

    /// Returns the lines of the interface in the file.
    fn text(&self) -> String {
        let name = &self.name;
        if self.is_source || name == "source" {
            let sources = self.sources.iter();
            return sources
                .map(|source| format!("\nsource {source}\n"))
                .collect();
        }
        let mut out = String::new();
        if self.enabled {
            out += &format!("auto {name}\n");
        }
        if self.hotplug {
            out += &format!("allow-hotplug {name}\n");
        }
        for (family, block) in ["inet", "inet6"].iter().zip(&self.families) {
            if let Some((block, proto)) = block.as_ref().zip(option_text(block.as_ref(), "proto")) {
                out += &format!("iface {name} {family} {proto}\n");
                write_block(&mut out, block);
            }
        }
        out
    }
}

fn option_text(block: Option<&Map>, option: &str) -> Option<String> {
    let value = block?.get(option).filter(|value| value.is_true());
    value.map(python::str)
}

/// Writes the options of a family in Salt's order. As in Salt, an option of a group is left out if
/// its value is a number instead of a text.
fn write_block(out: &mut String, block: &Map) {
    for option in WRITTEN.split_whitespace() {
        let Some(value) = block.get(option).filter(|value| value.is_true()) else {
            continue;
        };
        let called = CALLED.iter().find(|(name, _)| *name == option);
        let called = called.map_or_else(|| option.replace('_', "-"), |(_, to)| (*to).to_owned());
        match value.as_list() {
            Some(items) if option == "dns_nameservers" => {
                let items: Vec<String> = items.iter().map(python::str).collect();
                *out += &format!("    {called} {}\n", items.join(" "));
            }
            Some(items) => {
                for item in items {
                    *out += &format!("    {called} {}\n", python::str(item));
                }
            }
            None => *out += &format!("    {called} {}\n", python::str(value)),
        }
    }
    for (group, before) in GROUPS {
        let mut entries = block.get(group).and_then(Value::as_map).cloned();
        let entries = entries.get_or_insert_default();
        entries.sort_keys();
        for (key, value) in entries.iter() {
            let text = match value {
                Value::Str(text) => text.to_string(),
                Value::List(_) | Value::Tuple(_) => value.texts().join(" "),
                _ => continue,
            };
            *out += &format!("    {before}{} {text}\n", key.to_text());
        }
    }
}

/// Returns the interfaces of all files, in the order in which they first occur.
fn parsed() -> Result<Vec<Adapter>, Error> {
    let mut files = vec![FILE.to_owned()];
    if let Some(folder) = machine::fs::list_or_none(FOLDER)? {
        let names = folder.into_iter().filter(|entry| !entry.path().is_dir());
        let mut names: Vec<String> = names
            .map(|entry| entry.path().display().to_string())
            .collect();
        names.sort_unstable();
        files.append(&mut names);
    }
    let mut adapters = Vec::new();
    for file in files {
        parse(&read(&file)?, &mut adapters)?;
    }
    adapters.retain(Adapter::is_known);
    Ok(adapters)
}

fn found<'a>(adapters: &'a mut Vec<Adapter>, name: &str) -> Option<&'a mut Adapter> {
    if !adapters.iter().any(|adapter| adapter.name == name) {
        adapters.push(Adapter {
            name: name.to_owned(),
            ..Adapter::default()
        });
    }
    adapters.iter_mut().find(|adapter| adapter.name == name)
}

fn parse(text: &str, adapters: &mut Vec<Adapter>) -> Result<(), Error> {
    let mut current: Option<(String, bool)> = None;
    for line in text.lines() {
        if line.trim_start().starts_with('#') || line.trim().is_empty() {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with("iface") {
            let [_, name, family, proto] = words[..] else {
                let words = Value::list(words.into_iter().map(Value::from));
                let words = python::repr(&words);
                return Err(format!("Interface file malformed: {words}.").into());
            };
            let is_six = match family {
                "inet" => false,
                "inet6" => true,
                // Salt drops such a block from the file that it writes.
                other => {
                    return Err(format!(
                        "Interface {name}: unknown address family {other}; expected inet or inet6"
                    )
                    .into());
                }
            };
            current = Some((name.to_owned(), is_six));
            let adapter = found(adapters, name);
            if let Some([four, six]) = adapter.map(|adapter| &mut adapter.families) {
                let block = if is_six { six } else { four };
                block.get_or_insert_default().insert("proto", proto);
            }
        } else if line.starts_with(char::is_whitespace) {
            let Some((option, value)) = line.trim().split_once(char::is_whitespace) else {
                return Err(format!("Interface file malformed: {line:?} has no value.").into());
            };
            if let Some((name, is_six)) = &current
                && let Some(Adapter {
                    families: [four, six],
                    ..
                }) = found(adapters, name)
            {
                let block = if *is_six { six } else { four };
                take(block.get_or_insert_default(), option, value.trim(), *is_six);
            }
        } else {
            for word in words.iter().skip(1) {
                let starts = |with: &str| line.starts_with(with);
                let name = match () {
                    () if starts("source") => "source",
                    () if starts("auto") || starts("allow-hotplug") => word,
                    () => break,
                };
                if let Some(adapter) = found(adapters, name) {
                    adapter.enabled |= starts("auto");
                    adapter.hotplug |= starts("allow-hotplug");
                    let source = starts("source").then(|| (*word).to_owned());
                    adapter.sources.extend(source);
                }
            }
        }
    }
    Ok(())
}

/// Stores an option of the file. An unknown option is left out.
fn take(block: &mut Map, option: &str, text: &str, is_six: bool) {
    let key = option.replace('-', "_");
    let mut grouped = |group: &str, key: &str| {
        let group = block.entry(group, || Map::new().into());
        if let Some(group) = group.as_map_mut() {
            group.insert(key, text);
        }
    };
    let of_ethtool = ETHTOOL.iter().any(|(_, name)| *name == option);
    let after = |word: &str| {
        let rest = option.strip_prefix(word)?;
        rest.split_once(['-', '_']).map(|(_, key)| key)
    };
    if check(option, false)
        .or_else(|| check(option, true))
        .is_some()
    {
        let value = check(option, is_six).map(|check| checked(check, &text.into()).1);
        let value = value.unwrap_or_else(|| text.into());
        match (key.as_str(), block.contains("address")) {
            ("address", true) => push(block, "addresses", value),
            _ => drop(block.insert(key, value)),
        }
    } else if of_ethtool || ETHTOOL_ONLY.split_whitespace().any(|name| name == option) {
        grouped("ethtool", option);
    } else if let Some(key) = after("bond") {
        grouped("bonding", key);
    } else if let Some(key) = after("bridge") {
        grouped("bridging", key);
    } else if COMMANDS.contains(&option) {
        push(block, &format!("{key}_cmds"), text.into());
    }
}

fn push(block: &mut Map, key: &str, value: Value) {
    let list = block.entry(key, || Value::list([]));
    if let Some(list) = list.as_list_mut() {
        list.push(value);
    }
}

/// Returns the lines that Salt compares: there is an additional empty one at the end.
fn compared(text: &str) -> Vec<String> {
    text.split('\n').map(|line| format!("{line}\n")).collect()
}

/// Returns the lines of an interface in the files.
pub(super) fn current_lines(iface: &str) -> Result<Vec<String>, Error> {
    let adapters = parsed()?;
    let mut adapters = adapters.iter();
    let found = adapters.find(|adapter| adapter.name == iface);
    Ok(found.map_or_else(Vec::new, |adapter| compared(&adapter.text())))
}

/// Returns the changes that apply these settings to an interface.
pub(super) fn interface(
    cx: &Exec,
    iface: &str,
    kind: &str,
    enabled: bool,
    settings: &Map,
) -> Result<Plan, Error> {
    let mut given = settings.clone();
    let options = Options {
        iface,
        given: settings,
    };
    if !TYPES.split('|').any(|known| known == kind) {
        return Err(options.invalid(kind, TYPES));
    }
    let needed = match kind {
        "slave" => Some(("master", "slave interfaces")),
        "bond" => Some(("slaves", "bond interfaces")),
        "bridge" => Some((
            "ports",
            "bridge interfaces on Debian or Ubuntu based systems",
        )),
        "source" => Some(("source", "the type source")),
        "eth" | "vlan" | "pppoe" => None,
        other => return Err(format!("interface type {other} is not supported").into()),
    };
    if let Some((name, what)) = needed.filter(|(name, _)| !settings.contains(name)) {
        return Err(format!("{name} is a required setting for {what}").into());
    }
    if kind == "slave" {
        given.insert("proto", "manual");
    }
    let adapter = match settings.get("source").filter(|_| kind == "source") {
        Some(source) => Adapter {
            name: iface.to_owned(),
            sources: vec![python::str(source)],
            is_source: true,
            ..Adapter::default()
        },
        None => wanted(cx, iface, kind, enabled, &given)?,
    };
    let text = adapter.text();
    let new = compared(&text);
    let mut files = Vec::new();
    if kind == "pppoe" {
        files.push(peer(&given)?);
    }
    files.push(match settings.get("filename").map(python::str) {
        Some(path) if path.starts_with('/') => File::new(path, text),
        Some(path) => File::new(format!("{FOLDER}/{path}"), text),
        None => File::new(FILE, full_text(adapter)?),
    });
    let packages = match kind {
        "vlan" => vec!["vlan"],
        "pppoe" => vec!["ppp"],
        "bridge" => vec!["bridge-utils"],
        _ => vec![],
    };
    Ok(Plan {
        new,
        files,
        packages,
        ..Plan::default()
    })
}

/// Returns the text of the whole configuration with this interface in its new state. As in Salt,
/// the contents of the files in `interfaces.d` become part of the one file, which no longer sources
/// them.
fn full_text(adapter: Adapter) -> Result<String, Error> {
    let mut adapters = parsed()?;
    match adapters.iter_mut().find(|it| it.name == adapter.name) {
        Some(found) => *found = adapter,
        None => adapters.push(adapter),
    }
    let written = adapters
        .iter()
        .filter(|it| it.is_source || it.name != "source");
    Ok(written.map(Adapter::text).collect())
}

/// Returns Debian's name of an option.
fn called(option: &str) -> &str {
    match option {
        "dns" => "dns-nameservers",
        "search" => "dns-search",
        "hwaddr" => "hwaddress",
        "ipaddr" | "addr" => "address",
        "ipaddrs" | "addrs" => "addresses",
        other => other,
    }
}

fn wanted(
    cx: &Exec,
    iface: &str,
    kind: &str,
    enabled: bool,
    given: &Map,
) -> Result<Adapter, Error> {
    let options = Options { iface, given };
    let mut common = Map::new();
    if kind != "bridge" {
        let ethtool = ethtool(options)?;
        if !ethtool.is_empty() {
            common.insert("ethtool", ethtool);
        }
    }
    match kind {
        "bridge" => drop(common.insert("bridging", bridging(options)?)),
        "bond" => {
            let mut bonding = bonding(cx, options)?;
            bonding.insert("slaves", given.get("slaves").cloned().unwrap_or_default());
            common.insert("bonding", bonding);
        }
        "slave" => drop(common.insert("master", given.get("master").cloned().unwrap_or_default())),
        "vlan" => drop(common.insert("vlan_raw_device", raw_device(iface))),
        "pppoe" => common.update(pppoe(options)?),
        _ => {}
    }
    // The types above configure both address families. The other types configure only the families
    // that an option refers to.
    let is_special = ["bridge", "bond", "slave", "vlan", "pppoe"].contains(&kind);
    let (mut blocks, mut spoken) = ([common.clone(), common], [is_special; 2]);
    for (key, value) in given {
        let key = key.to_text();
        let (option, family) = match (key.strip_prefix("ipv4"), key.strip_prefix("ipv6")) {
            (Some(option), _) => (option, Some(0)),
            (_, Some(option)) => (option, Some(1)),
            _ if is_of_four(&key) => (key.as_str(), Some(0)),
            _ => (key.as_str(), None),
        };
        if key == "mode" {
            continue;
        }
        let option = called(option);
        for (number, (block, spoken)) in blocks.iter_mut().zip(&mut spoken).enumerate() {
            let is_its = family == Some(number);
            *spoken |= is_its;
            let Some(check) = check(option, number == 1) else {
                continue;
            };
            let (valid, value) = checked(check, value);
            let name = option.replace('-', "_");
            if valid && (is_its || family.is_none() && !block.contains(&name)) {
                block.insert(name, value);
            }
        }
    }
    commands(given, &mut blocks);
    let [four, six] = blocks;
    let is_off = |option: &str| given.get(option) == Some(&Value::Bool(false));
    Ok(Adapter {
        name: iface.to_owned(),
        enabled,
        hotplug: given.get("hotplug").is_some_and(Value::is_true),
        families: [
            Some(four).filter(|_| spoken[0] && !is_off("enable_ipv4")),
            Some(six).filter(|_| spoken[1] && !is_off("enable_ipv6")),
        ],
        ..Adapter::default()
    })
}

/// Copies the commands that run when an interface goes up or down.
fn commands(given: &Map, blocks: &mut [Map; 2]) {
    for command in COMMANDS {
        let name = format!("{}_cmds", command.replace('-', "_"));
        if let Some(commands) = given.get(&name) {
            for block in blocks.iter_mut() {
                block.insert(name.as_str(), commands.clone());
            }
        }
    }
}

fn is_of_four(option: &str) -> bool {
    let words = "ipaddr address ipaddresses addresses gateway proto";
    words.split(' ').any(|word| word == option)
}

/// Returns the interface that a VLAN is based on: its name without the digits after each full stop.
fn raw_device(iface: &str) -> String {
    let mut parts = iface.split('.');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        name += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    name
}

fn ethtool(options: Options<'_>) -> Result<Map, Error> {
    let mut all = options.link()?;
    all.update(options.offloads()?);
    let name = |key: &Value| {
        let mut names = ETHTOOL.iter();
        names.find(|(name, _)| key.as_str() == Some(name))
    };
    let named = all
        .iter()
        .filter_map(|(key, value)| Some((name(key)?.1, value.clone())));
    Ok(named.collect())
}

/// Returns the paths of the scripts that add and remove the routes of an interface. `run-parts`
/// ignores names with a full stop, so it is replaced.
pub(super) fn route_paths(iface: &str) -> [String; 2] {
    let name = iface.replace('.', "_");
    ["up", "down"].map(|way| format!("/etc/network/if-{way}.d/route-{name}"))
}

/// Returns the changes that write the scripts for these routes.
pub(super) fn routes(_cx: &Exec, iface: &str, given: &[Value]) -> Result<Plan, Error> {
    let texts = ["add", "del"].map(|verb| {
        let mut text =
            format!("#!/bin/sh\n# {verb}\ntest \"${{IFACE}}\" = \"{iface}\" || exit 0\n");
        for route in given {
            text += &route_line(verb, iface, route);
        }
        text
    });
    let new = [lines(&texts[0]), lines(&texts[1])].concat();
    let files = route_paths(iface).into_iter().zip(texts);
    let files = files.map(|(path, text)| File::new(path, text).with_mode(0o755));
    Ok(Plan {
        new,
        files: files.collect(),
        ..Plan::default()
    })
}

/// Returns a line of the scripts. Its values are quoted for the shell.
fn route_line(verb: &str, iface: &str, route: &Value) -> String {
    let told = |name: &str, before: &str| {
        let value = route.get(name).filter(|value| value.is_true());
        value.map_or_else(String::new, |value| {
            format!("{before}{}", shlex::quote(&python::str(value)))
        })
    };
    let name = route.get("name").filter(|name| name.is_true());
    let name = name.map(|name| format!("# {}\n", python::str(name).replace('\n', " ")));
    let (to, mask) = (told("ipaddr", ""), told("netmask", "/"));
    let (via, metric) = (told("gateway", "via "), told("metric", " metric "));
    let name = name.unwrap_or_default();
    format!("{name}ip route {verb} {to}{mask} {via} dev {iface}{metric}\n")
}

/// Returns the path of the kernel module configuration of a bond.
pub(super) fn module_path(iface: &str) -> String {
    format!("/etc/modprobe.d/{iface}.conf")
}

/// Returns the changes that configure the kernel module for a bond.
pub(super) fn module(cx: &Exec, iface: &str, given: &Map) -> Result<Plan, Error> {
    let bond = bonding(cx, Options { iface, given })?;
    let told = bond
        .iter()
        .map(|(key, value)| format!("{}={} ", key.to_text(), python::str(value)));
    let text = format!(
        "alias {iface} bonding\noptions {iface} {}",
        told.collect::<String>()
    );
    let path = module_path(iface);
    Ok(Plan {
        old: lines(&read(&path)?),
        new: lines(&text),
        files: vec![File::new(path, text)],
        packages: vec!["ifenslave"],
        kmod: Some("bonding"),
        ..Plan::default()
    })
}
