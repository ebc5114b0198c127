//! Parses the settings of an interface for the software other than ifupdown: netplan,
//! NetworkManager and systemd-networkd.

use state::module::Error;
use value::networks::Network;
use value::{Map, Value, python};

use super::options::{Options, int, words};

/// The settings that only ifupdown and ifcfg files support.
const UNSUPPORTED: [&str; 17] = [
    "advertise",
    "channels",
    "down_cmds",
    "ethtool",
    "gro",
    "gso",
    "lro",
    "post_down_cmds",
    "post_up_cmds",
    "pre_down_cmds",
    "pre_up_cmds",
    "rx",
    "sg",
    "tso",
    "tx",
    "ufo",
    "up_cmds",
];

/// The parsed settings of an interface.
pub(super) struct Wanted {
    /// The type of the interface: `eth`, `slave`, `bond`, `bridge` or `vlan`.
    pub(super) kind: String,
    pub(super) dhcp4: bool,
    pub(super) dhcp6: bool,
    /// The addresses with their prefix lengths, those of IPv4 first.
    pub(super) addresses: Vec<String>,
    pub(super) gateways: Vec<String>,
    pub(super) dns: Vec<String>,
    pub(super) search: Vec<String>,
    pub(super) mtu: Option<i64>,
    /// The members of a bond or a bridge.
    pub(super) members: Vec<String>,
    /// The number of a VLAN and the interface that it is based on.
    pub(super) vlan: Option<(i64, String)>,
    /// The bond or bridge that the interface belongs to.
    pub(super) master: Option<String>,
}

/// A route: its target with the prefix length, its gateway and its metric.
pub(super) struct Route {
    pub(super) to: String,
    pub(super) via: Option<String>,
    pub(super) metric: Option<i64>,
}

/// Returns an address with its prefix length.
fn with_bits(address: &str, mask: Option<&str>) -> Result<String, Error> {
    let whole = match (address.contains('/'), mask) {
        (true, _) => address.to_owned(),
        (false, Some(mask)) => format!("{address}/{mask}"),
        (false, None) => return Err(format!("No netmask supplied for address {address}").into()),
    };
    let network = Network::parse(&whole, false);
    let network = network.map_err(|_| format!("Invalid address/netmask {whole}"))?;
    let address = address.split('/').next().unwrap_or(address);
    Ok(format!("{address}/{}", network.prefix))
}

fn listed(options: Options<'_>, names: &[&str]) -> Vec<String> {
    let mut given = names.iter().filter_map(|name| options.get(name));
    words(given.find(|value| value.is_true()))
}

impl Wanted {
    pub(super) fn parse(options: Options<'_>, kind: &str, program: &str) -> Result<Self, Error> {
        if !["bond", "bridge", "eth", "slave", "vlan"].contains(&kind) {
            return Err(format!(
                "{program} supports interface types bond, bridge, eth, slave, vlan; got '{kind}'"
            )
            .into());
        }
        let set = |name: &&&str| options.get(name).is_some_and(Value::is_true);
        let odd: Vec<&str> = UNSUPPORTED.iter().filter(set).copied().collect();
        if !odd.is_empty() {
            let odd = odd.join(", ");
            return Err(format!("{program} does not support these network.managed options: {odd}. Manage them outside network.managed on {program} systems.").into());
        }
        let text = |name: &str| options.text(name);
        let proto = |name: &str| text(name).unwrap_or_default().to_lowercase();
        let mut addresses = Vec::new();
        for (single, mask, lists) in [
            (&["ipaddr"][..], "netmask", &["ipaddrs", "addresses"][..]),
            (
                &["ipv6ipaddr", "ipv6addr"],
                "ipv6netmask",
                &["ipv6addrs", "ipv6ipaddrs"],
            ),
        ] {
            let mask = text(mask);
            let all = listed(options, single)
                .into_iter()
                .chain(listed(options, lists));
            for address in all {
                addresses.push(with_bits(&address, mask.as_deref())?);
            }
        }
        let members = match kind {
            "bond" => listed(options, &["slaves", "interfaces"]),
            "bridge" => listed(options, &["ports", "bridge_ports", "interfaces"]),
            _ => Vec::new(),
        };
        for member in &members {
            super::named(member)?;
        }
        Ok(Self {
            kind: kind.to_owned(),
            dhcp4: matches!(proto("proto").as_str(), "dhcp" | "dhcp4" | "bootp"),
            dhcp6: matches!(proto("ipv6proto").as_str(), "dhcp" | "dhcp6"),
            addresses,
            gateways: ["gateway", "ipv6gateway"]
                .into_iter()
                .filter_map(text)
                .collect(),
            dns: listed(options, &["dns", "nameservers"]),
            search: listed(options, &["dns_search", "search", "domain"]),
            mtu: options.number("mtu")?.and_then(int).filter(|mtu| *mtu > 0),
            members,
            vlan: match kind {
                "vlan" => Some(vlan(options)?),
                _ => None,
            },
            master: text("master").filter(|_| kind == "slave"),
        })
    }
}

fn vlan(options: Options<'_>) -> Result<(i64, String), Error> {
    let iface = options.iface;
    let named = iface.rsplit_once('.');
    let first = |names: &[&str]| {
        let mut given = names.iter().filter_map(|name| options.text(name));
        given.next()
    };
    let id = first(&["vlan_id", "id"]).or_else(|| named.map(|(_, id)| id.to_owned()));
    let link = first(&["vlan-raw-device", "vlan_raw_device", "parent", "link"]);
    let link = link.or_else(|| named.map(|(link, _)| link.to_owned()));
    match (id.and_then(|id| id.parse().ok()), link) {
        (Some(id), Some(link)) => Ok((id, super::named(&link)?.to_owned())),
        _ => Err(format!("vlan interface '{iface}' needs both a vlan id and a parent (set vlan_id/id and parent, or name it like eth0.100)").into()),
    }
}

/// Returns the given options under the names that a program uses for them, such as
/// `mii-monitor-interval` for `miimon`.
pub(super) fn renamed(given: &Map, names: &[(&str, &'static str)]) -> Vec<(&'static str, Value)> {
    let value = |name: &str| given.get(name).filter(|value| !value.is_null()).cloned();
    let named = names.iter();
    named
        .filter_map(|(name, to)| Some((*to, value(name)?)))
        .collect()
}

/// Returns whether the value of a switch means "on".
pub(super) fn is_on(value: &Value) -> bool {
    let text = python::str(value).to_lowercase();
    ["true", "yes", "on", "1"].contains(&text.as_str())
}

impl Route {
    pub(super) fn all(given: &[Value]) -> Result<Vec<Self>, Error> {
        given.iter().map(Self::parse).collect()
    }

    fn parse(route: &Value) -> Result<Self, Error> {
        let told = |name: &str| {
            let value = route.get(name).filter(|value| value.is_true());
            value.map(python::str)
        };
        let to = told("ipaddr").or_else(|| told("destination"));
        let to = to.filter(|to| !["default", "0.0.0.0", "::"].contains(&to.as_str()));
        let via = told("gateway");
        let is_six = via.as_ref().is_some_and(|via| via.contains(':'));
        let to = match (to, is_six) {
            (Some(to), _) => {
                let host = if to.contains(':') { "128" } else { "32" };
                with_bits(
                    &to,
                    Some(&told("netmask").unwrap_or_else(|| host.to_owned())),
                )?
            }
            (None, true) => "::/0".to_owned(),
            (None, false) => "0.0.0.0/0".to_owned(),
        };
        let metric = route.get("metric").and_then(int);
        Ok(Self { to, via, metric })
    }
}
