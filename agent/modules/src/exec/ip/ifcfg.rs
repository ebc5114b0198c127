//! Red Hat's `/etc/sysconfig/network-scripts`, with the same options in the same order as Salt's
//! `rh_ip` writes.

use ::python::text;
use machine::net::interfaces;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, python};

use super::ifupdown::{is_address, is_mac};
use super::options::{Options, SWITCH, int};
use super::{File, Plan, read};

const FOLDER: &str = "/etc/sysconfig/network-scripts";

const TYPES: &str = "eth|bond|team|alias|clone|ipsec|dialup|bridge|slave|teamport|vlan|ipip|ib";

/// The lines of the file: each has the key in the file and the name of the option. A prefix
/// `?option:` means that this option must be present too, `'` that the value has single quotes, `=`
/// that it has no quotes, and `*` that it is a list.
const LINES: &str = "DEVICE name
NAME nickname
HWADDR hwaddr
MACADDR macaddr
UUID uuid
USERCTL userctl
MASTER master
SLAVE slave
VLAN vlan
REORDER_HDR ?vlan:reorder_hdr
VID ?vlan:vlan_id
PHYSDEV ?vlan:phys_dev
TYPE devtype
DEVICETYPE devicetype
TEAM_CONFIG 'team_config
TEAM_PORT_CONFIG 'team_port_config
TEAM_MASTER team_master
BOOTPROTO proto
ONBOOT onboot
ONPARENT =onparent
IPV4_FAILURE_FATAL ipv4_failure_fatal
IPADDR ipaddr
IPADDR_START ipaddr_start
IPADDR_END ipaddr_end
CLONENUM_START clonenum_start
NETMASK netmask
PREFIX prefix
IPADDRS ipaddrs
GATEWAY gateway
ARPCHECK arpcheck
IPV6INIT ipv6init
IPV6_AUTOCONF ?enable_ipv6:ipv6_autoconf
DHCPV6C ?enable_ipv6:dhcpv6c
IPV6ADDR ?enable_ipv6:ipv6addr
IPV6_DEFAULTGW ?enable_ipv6:ipv6gateway
IPV6ADDR_SECONDARIES ?enable_ipv6:*ipv6addrs
IPV6_PEERDNS ?enable_ipv6:ipv6_peerdns
IPV6_DEFROUTE ?enable_ipv6:ipv6_defroute
IPV6_PEERROUTES ?enable_ipv6:ipv6_peerroutes
SRCADDR srcaddr
PEERDNS peerdns
PEERROUTES peerroutes
DEFROUTE defroute
BRIDGE bridge
STP stp
DELAY delay
MTU mtu
ZONE zone
MY_INNER_IPADDR =my_inner_ipaddr
MY_OUTER_IPADDR =my_outer_ipaddr
BONDING_OPTS bonding
ETHTOOL_OPTS ethtool
DOMAIN *domain
NM_CONTROLLED nm_controlled";

/// The options whose values are written unchanged.
const PLAIN: &str = "ipaddr master srcaddr delay domain gateway uuid nickname zone ipv6addr ipv6gateway enable_ipv6 \
    ipaddr_start ipaddr_end clonenum_start macaddr";

/// The options that are either on or off.
const SWITCHES: &str = "onparent peerdns peerroutes slave vlan defroute stp ipv6_peerdns ipv6_defroute ipv6_peerroutes \
    ipv6_autoconf ipv4_failure_fatal dhcpv6c";

const ADVERTISED: &str = "0x001|0x002|0x004|0x008|0x010|0x020|0x20000|0x8000|0x1000|0x40000|0x80000|0x200000|0x400000|\
    0x800000|0x1000000|0x2000000|0x4000000";

const BRIDGE_SYSCTL: [&str; 3] = [
    "net.bridge.bridge-nf-call-ip6tables",
    "net.bridge.bridge-nf-call-iptables",
    "net.bridge.bridge-nf-call-arptables",
];

/// Returns the path of a file of an interface: its configuration (`ifcfg`) or its routes (`route`,
/// `route6`).
pub(super) fn path(kind: &str, iface: &str) -> String {
    format!("{FOLDER}/{kind}-{iface}")
}

/// Returns the lines of a text without their line ends. As in Salt, the first empty line is left
/// out.
fn compared(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text::bare_lines(text)
        .into_iter()
        .map(str::to_owned)
        .collect();
    if let Some(empty) = lines.iter().position(String::is_empty) {
        lines.remove(empty);
    }
    lines
}

/// Returns the lines of these files.
pub(super) fn current_lines(paths: &[&str]) -> Result<Vec<String>, Error> {
    let mut all = Vec::new();
    for path in paths {
        all.extend(compared(&read(path)?));
    }
    Ok(all)
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
    let refused = Options {
        iface,
        given: settings,
    };
    if !TYPES.split('|').any(|known| known == kind) {
        return Err(refused.invalid(kind, TYPES));
    }
    match kind {
        "slave" if !given.contains("master") => {
            return Err("master is a required setting for slave interfaces".into());
        }
        "slave" => drop(given.insert("slave", "yes")),
        "vlan" => drop(given.insert("vlan", "yes")),
        "bond" if !given.contains("mode") => {
            return Err("mode is required for bond interfaces".into());
        }
        "teamport" => {
            let master = given.remove("master");
            if let Some(master) = master.filter(|_| !given.contains("team_master")) {
                given.insert("team_master", master);
            }
            if !given.contains("team_master") {
                return Err(
                    "master or team_master is a required setting for teamport interfaces".into(),
                );
            }
        }
        "clone" | "ipsec" | "dialup" => {
            return Err(format!("interface type {kind} is not supported").into());
        }
        _ => {}
    }
    let options = Options {
        iface,
        given: &given,
    };
    let text = written(cx, options, kind, enabled)?;
    let sysctl = match (kind, options.switch("bypassfirewall")) {
        ("bridge", Ok(bypasses)) => {
            let value = i64::from(bypasses == Some(false));
            BRIDGE_SYSCTL.map(|name| (name, value)).to_vec()
        }
        ("bridge", Err(_)) => {
            let shown = options.text("bypassfirewall").unwrap_or_default();
            return Err(options.invalid(&shown, SWITCH));
        }
        _ => Vec::new(),
    };
    let packages = match kind {
        "bridge" => vec!["bridge-utils"],
        "team" => vec!["teamd"],
        _ => vec![],
    };
    Ok(Plan {
        new: compared(&text),
        files: vec![File::new(path("ifcfg", iface), text)],
        packages,
        sysctl,
        ..Plan::default()
    })
}

/// Returns the text of the configuration file.
fn written(cx: &Exec, options: Options<'_>, kind: &str, enabled: bool) -> Result<String, Error> {
    let values = values(cx, options, kind, enabled)?;
    let mut out = String::new();
    for line in LINES.lines() {
        let (key, option) = line.split_once(' ').unwrap_or((line, ""));
        let option = match option.strip_prefix('?').and_then(|it| it.split_once(':')) {
            Some((needed, _)) if !values.get(needed).is_some_and(Value::is_true) => continue,
            Some((_, option)) => option,
            None => option,
        };
        let name = option.trim_start_matches(['=', '\'', '*']);
        let Some(value) = values.get(name) else {
            continue;
        };
        let is_zero_delay = name == "delay" && *value == Value::Int(0);
        if !(value.is_true() || is_zero_delay) {
            continue;
        }
        let text = match value.as_list() {
            Some(items) if option.starts_with('*') => {
                items.iter().map(python::str).collect::<Vec<_>>().join(" ")
            }
            _ => python::str(value),
        };
        match option.chars().next() {
            _ if name == "ipaddrs" => {
                for (number, item) in (1..).zip(value.texts()) {
                    let (ip, prefix) = item.split_once('/').unwrap_or((&item, ""));
                    let (ip, prefix) = (ip.trim(), prefix.trim());
                    out += &format!("IPADDR{number}=\"{ip}\"\nPREFIX{number}=\"{prefix}\"\n");
                }
            }
            Some('=') => out += &format!("{key}={text}\n"),
            Some('\'') => out += &format!("{key}='{text}'\n"),
            _ => out += &format!("{key}=\"{text}\"\n"),
        }
    }
    let servers = values.get("dns").map(Value::texts).unwrap_or_default();
    for (number, server) in (1..).zip(servers) {
        out += &format!("DNS{number}=\"{server}\"\n");
    }
    Ok(out)
}

fn yes_or_no(on: bool) -> &'static str {
    if on { "yes" } else { "no" }
}

/// Returns the values to write, by option name.
fn values(cx: &Exec, options: Options<'_>, kind: &str, enabled: bool) -> Result<Map, Error> {
    let shown = |name: &str| options.get(name).map(python::str).unwrap_or_default();
    let mut all = Map::new().with("name", options.iface);
    let valid = "none|bootp|dhcp";
    if let Some(proto) = options.get("proto") {
        options
            .one_of("proto", valid)
            .map_err(|_| options.invalid(&shown("proto"), valid))?;
        all.insert("proto", proto.clone());
    }
    if let Some(dns) = options.get("dns") {
        all.insert("dns", super::options::words(Some(dns)));
        all.insert("peerdns", "yes");
    }
    if let Some(mtu) = options.number("mtu")? {
        all.insert("mtu", int(mtu));
    }
    if options.get("hwaddr").is_some() && options.get("macaddr").is_some() {
        return Err(
            "Cannot pass both hwaddr and macaddr. Must use either hwaddr or macaddr".into(),
        );
    }
    if kind != "bridge" {
        let ethtool = ethtool(cx, options)?;
        let words = ethtool
            .iter()
            .map(|(key, value)| format!("{} {}", key.to_text(), python::str(value)));
        let words: Vec<String> = words.collect();
        all.insert("ethtool", words.join(" "));
    }
    of_kind(cx, options, kind, &mut all)?;
    if let Some(hwaddr) = hwaddr(options, kind)? {
        all.insert("hwaddr", hwaddr);
    }
    if kind != "bridge" {
        let bridge = options.get("bridge").cloned();
        bridge.map(|bridge| all.insert("bridge", bridge));
    }
    if options.get("prefix").is_some() && options.get("netmask").is_some() {
        return Err("Cannot use prefix and netmask together".into());
    }
    addresses(options, &mut all)?;
    if options.get("enable_ipv6").is_some_and(Value::is_true) {
        all.insert("ipv6init", "yes");
    }
    for name in SWITCHES.split_whitespace() {
        let on = options
            .switch(name)
            .map_err(|_| options.invalid(&shown(name), SWITCH))?;
        on.map(|on| all.insert(name, yes_or_no(on)));
    }
    all.insert("onboot", yes_or_no(enabled));
    for name in ["userctl", "nm_controlled"] {
        let on = options
            .switch(name)
            .map_err(|_| options.invalid(&shown(name), SWITCH))?;
        all.insert(name, yes_or_no(on.unwrap_or(false)));
    }
    if options.switch("arpcheck").ok().flatten() == Some(false) {
        all.insert("arpcheck", "no");
    }
    Ok(all)
}

/// Adds the addresses, and the options whose values are written unchanged.
fn addresses(options: Options<'_>, all: &mut Map) -> Result<(), Error> {
    for name in PLAIN.split_whitespace().chain(["prefix", "netmask"]) {
        let given = options.get(name).cloned();
        given.map(|given| all.insert(name, given));
    }
    for (name, is_six, what) in [("ipaddrs", false, "ipv4"), ("ipv6addrs", true, "ipv6")] {
        if let Some(given) = options.get(name) {
            let is_whole =
                |text: &String| is_address(text, is_six) && (is_six || text.contains('/'));
            if !given.texts().iter().all(is_whole) {
                return Err(format!("{what} CIDR is invalid").into());
            }
            all.insert(name, given.clone());
        }
    }
    Ok(())
}

/// Adds the options that depend on the type of the interface.
fn of_kind(cx: &Exec, options: Options<'_>, kind: &str, all: &mut Map) -> Result<(), Error> {
    let json = |name: &str| {
        let ascii = value::json::Layout {
            ascii: true,
            ..value::json::Layout::default()
        };
        options
            .get(name)
            .map(|config| value::json::write(config, ascii))
    };
    match kind {
        "eth" => drop(all.insert("devtype", "Ethernet")),
        "ib" => drop(all.insert("devtype", "InfiniBand")),
        "bridge" => drop(all.insert("devtype", "Bridge")),
        "slave" => drop(all.insert("proto", "none")),
        "team" | "teamport" => {
            let (devicetype, config) = match kind {
                "team" => ("Team", "team_config"),
                _ => ("TeamPort", "team_port_config"),
            };
            all.insert("devicetype", devicetype);
            let master = options.get("team_master").cloned();
            master
                .filter(|_| kind == "teamport")
                .map(|it| all.insert("team_master", it));
            json(config).map(|it| all.insert(config, it));
        }
        "bond" => {
            let bond = bonding(cx, options)?;
            let words = bond
                .iter()
                .map(|(key, value)| format!("{}={}", key.to_text(), python::str(value)));
            let words: Vec<String> = words.collect();
            all.insert("bonding", words.join(" "));
            all.insert("devtype", "Bond");
        }
        "vlan" => vlan(options, all)?,
        "ipip" => {
            all.insert("devtype", "IPIP");
            for name in ["my_inner_ipaddr", "my_outer_ipaddr"] {
                let given = options.get(name).cloned();
                let given = given.ok_or_else(|| options.invalid(name, "1.2.3.4"))?;
                all.insert(name, given);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Adds the options of a VLAN.
fn vlan(options: Options<'_>, all: &mut Map) -> Result<(), Error> {
    let shown = |name: &str| options.get(name).cloned();
    if let Some(header) = shown("reorder_hdr") {
        options.switch("reorder_hdr")?;
        all.insert("reorder_hdr", header);
    }
    if let Some(id) = shown("vlan_id") {
        if int(&id).is_none_or(|id| id <= 0) {
            return Err(options.invalid("vlan_id", "Positive integer"));
        }
        all.insert("vlan_id", id);
    }
    if let Some(device) = shown("phys_dev") {
        if !device.is_true() {
            return Err(options.invalid("phys_dev", "Non-empty string"));
        }
        all.insert("phys_dev", device);
    }
    let has_any = ["reorder_hdr", "vlan_id", "phys_dev"]
        .iter()
        .any(|name| all.contains(name));
    if has_any {
        all.insert("devtype", "Vlan");
    }
    Ok(())
}

/// Returns the hardware address: the given one, or that of the device. `auto` and `none` are not
/// addresses.
fn hwaddr(options: Options<'_>, kind: &str) -> Result<Option<String>, Error> {
    let given = options.get("hwaddr").map(python::str);
    let has_none = ["bond", "team", "vlan", "bridge", "ipip"].contains(&kind);
    match given.as_deref() {
        Some("none") => Ok(None),
        Some(address) if address != "auto" && (has_none || is_mac(address)) => Ok(given),
        Some(other) if other != "auto" => {
            Err(options.invalid(other, "AA:BB:CC:DD:EE:FF|auto|none"))
        }
        _ if has_none || kind == "slave" => Ok(None),
        _ => {
            let mut all = interfaces::all().into_iter();
            let found = all.find(|interface| interface.name == options.iface);
            Ok(found.and_then(|interface| interface.hwaddr))
        }
    }
}

fn ethtool(cx: &Exec, options: Options<'_>) -> Result<Map, Error> {
    let mut all = options.link()?;
    if let Some(advertise) = options.one_of("advertise", ADVERTISED)? {
        all.insert("advertise", advertise.clone());
    }
    if let Some(channels) = options.get("channels").and_then(Value::as_map) {
        let most = cx.grain("num_cpus").parse().unwrap_or(1);
        let mut words = Vec::new();
        for name in ["rx", "tx", "other", "combined"] {
            let Some(given) = channels.get(name) else {
                continue;
            };
            if !given
                .as_int()
                .is_some_and(|number| (1..=most).contains(&number))
            {
                let valid: Vec<String> = (1..=most).map(|number| number.to_string()).collect();
                return Err(options.invalid(&python::str(given), &valid.join("|")));
            }
            words.push(format!("{name} {}", python::str(given)));
        }
        if !words.is_empty() {
            all.insert(format!("-L {}", options.iface.trim()), words.join(" "));
        }
    }
    all.update(options.offloads()?);
    Ok(all)
}

const BOND_MODES: &str =
    "0|1|2|3|4|5|6|balance-rr|active-backup|balance-xor|broadcast|802.3ad|balance-tlb|balance-alb";

/// Returns the options of a bond; they depend on its mode.
fn bonding(cx: &Exec, options: Options<'_>) -> Result<Map, Error> {
    let mode = options.get("mode").map(python::str).unwrap_or_default();
    let place = BOND_MODES.split('|').position(|known| known == mode);
    let number = place.ok_or_else(|| options.invalid("mode", BOND_MODES))? % 7;
    let mut bond = Map::new().with("mode", number.to_string());
    watched(options, &mut bond)?;
    let has_arp = matches!(number, 0 | 2) && options.get("arp_interval").is_some();
    if has_arp {
        let interval = options.number("arp_interval")?.cloned();
        bond.insert("arp_interval", interval.unwrap_or_default());
        bond.insert("arp_ip_target", options.targets()?);
    }
    let has_mii = options.get("miimon").is_some();
    match number {
        0 | 2 if !has_mii && !has_arp => {
            return Err(options.invalid(
                "miimon or arp_interval",
                "at least one of these is required",
            ));
        }
        1 | 3..=6 if !has_mii => return Err(options.invalid("miimon", "integer")),
        _ => {}
    }
    if number == 4 {
        if let Some(rate) = options.one_of("lacp_rate", "fast|1|slow|0")? {
            let rate = match rate.as_str() {
                Some("fast") => "1".into(),
                Some("slow") => "0".into(),
                _ => rate.clone(),
            };
            bond.insert("lacp_rate", rate);
        } else {
            bond.insert("lacp_rate", "0");
        }
        let select = options.number("ad_select")?.cloned();
        bond.insert("ad_select", select.unwrap_or_else(|| "0".into()));
    }
    if matches!(number, 2 | 4) {
        let is_old = cx
            .grain("osmajorrelease")
            .parse()
            .is_ok_and(|major: u32| major < 8);
        let valid = match number {
            2 => "layer2|layer2+3|layer3+4",
            _ if is_old => "layer2|layer2+3|layer3+4|encap2+3|encap3+4",
            _ => "layer2|layer2+3|layer3+4|encap2+3|encap3+4|vlan+srcmac",
        };
        let hash = options.one_of("hashing-algorithm", valid)?.cloned();
        hash.map(|hash| bond.insert("xmit_hash_policy", hash));
    }
    if matches!(number, 1 | 5 | 6) {
        let primary = options.get("primary").cloned();
        primary.map(|primary| bond.insert("primary", primary));
    }
    Ok(bond)
}

/// Adds the options for monitoring the links of a bond.
fn watched(options: Options<'_>, bond: &mut Map) -> Result<(), Error> {
    for name in ["miimon", "downdelay", "updelay"] {
        let given = options.number(name)?.cloned();
        given.map(|given| bond.insert(name, given));
    }
    let Some(miimon) = bond.get("miimon").and_then(int) else {
        return Ok(());
    };
    if miimon == 0 {
        return Err(options.invalid("miimon", "nonzero integer"));
    }
    if !bond.contains("downdelay") {
        bond.insert("downdelay", miimon * 2);
    }
    for name in ["downdelay", "updelay"] {
        if bond
            .get(name)
            .and_then(int)
            .is_some_and(|delay| delay % miimon != 0)
        {
            return Err(options.invalid(name, &format!("0 or a multiple of miimon ({miimon})")));
        }
    }
    let on = options.switch("use_carrier")?;
    bond.insert("use_carrier", if on == Some(true) { "1" } else { "0" });
    Ok(())
}

/// Returns the changes that write these routes, in one file for each address family.
pub(super) fn routes(cx: &Exec, iface: &str, given: &[Value]) -> Result<Plan, Error> {
    let told = |route: &Value, name: &str| {
        let value = route.get(name).filter(|value| value.is_true());
        value.map(python::str)
    };
    for route in given {
        told(route, "ipaddr").ok_or_else(|| format!("a route of {iface} has no ipaddr"))?;
    }
    let release = cx.grain("osrelease");
    let is_old = release.starts_with(['1', '2', '3', '4', '5']);
    let text = |is_six: bool| {
        let of_it = |route: &&Value| {
            told(route, "ipaddr").is_some_and(|ip| is_address(&ip, true) == is_six)
        };
        let mut text = String::new();
        for (number, route) in given.iter().filter(of_it).enumerate() {
            let part = |name: &str, before: &str, after: &str| {
                told(route, name).map_or_else(String::new, |it| format!("{before}{it}{after}"))
            };
            if is_old {
                text += &part("name", "# ", "\n");
                text += &part("ipaddr", &format!("ADDRESS{number}=\""), "\"\n");
                text += &part("netmask", &format!("NETMASK{number}=\""), "\"\n");
                text += &part("gateway", &format!("GATEWAY{number}=\""), "\"\n");
                text += "\n";
                continue;
            }
            text += &(part("name", "# ", "") + "\n" + &part("ipaddr", "", ""));
            text += &part("netmask", "/", "");
            text += &told(route, "gateway")
                .map_or_else(|| format!(" dev {iface}"), |it| format!(" via {it}"));
            text += &(part("metric", " metric ", "") + "\n");
        }
        text
    };
    let texts = [("route", text(false)), ("route6", text(true))];
    Ok(Plan {
        new: texts.iter().flat_map(|(_, text)| compared(text)).collect(),
        files: texts
            .map(|(kind, text)| File::new(path(kind, iface), text))
            .into(),
        ..Plan::default()
    })
}
