//! The network as grains: interfaces, addresses, gateways, name servers and the machine's names.

use std::net::IpAddr;

use machine::net::interfaces::{self, Address, Default, Interface};
use state::opts::Opts;
use value::{Map, Value};

use super::files::Root;
use super::hosts::Hosts;
use super::resolv;

/// The source of all network grains. Salt collects them at several points among its other grains,
/// so each group has its own function.
pub(super) struct Network {
    links: Vec<Interface>,
    hosts: Hosts,
    fqdn: String,
}

impl Network {
    /// Reads the interfaces from the kernel, and `/etc/hosts`.
    pub(super) fn read(root: &Root) -> Self {
        let hosts = Hosts::read(root);
        let name = nodename();
        let fqdn = hosts.canonical(&name).unwrap_or(name);
        let mut links = interfaces::all();
        let plain = |sign: char| sign.is_alphanumeric() || "_.-".contains(sign);
        links.retain(|link| link.name.chars().all(plain)); // Salt does not see the others
        Self { links, hosts, fqdn }
    }

    /// Returns `fqdn`, `host`, `domain` and `localhost`.
    pub(super) fn names(&self) -> Map {
        let (host, domain) = self.fqdn.split_once('.').unwrap_or((&self.fqdn, ""));
        Map::new()
            .with("localhost", nodename())
            .with("fqdn", self.fqdn.as_str())
            .with("host", host)
            .with("domain", domain)
    }

    /// Returns `fqdns`: the names of all addresses, if the option enables it.
    pub(super) fn fqdns(&self, opts: &Opts) -> Map {
        let mut names = Vec::new();
        if opts.flag("enable_fqdns_grains") {
            value::log::warning(
                "enable_fqdns_grains: the fqdns grain comes from /etc/hosts only, without DNS queries",
            );
            names = self
                .addresses(|_| true)
                .into_iter()
                .filter(|ip| !ip.is_loopback())
                .collect();
        }
        let mut names: Vec<&str> = names
            .iter()
            .flat_map(|ip| self.hosts.names_of(*ip))
            .collect();
        names.sort_unstable();
        names.dedup();
        Map::new().with("fqdns", Value::list(names.into_iter().map(Value::from)))
    }

    /// Returns `hwaddr_interfaces`.
    pub(super) fn hwaddr_interfaces(&self) -> Map {
        let pairs = self.links.iter().filter_map(|link| {
            let address = link.hwaddr.as_deref()?;
            Some((link.name.as_str(), address))
        });
        Map::new().with("hwaddr_interfaces", pairs.collect::<Map>())
    }

    /// Returns `ip4_interfaces`, `ip6_interfaces`, `ipv4`, `ipv6`, `fqdn_ip4`, `fqdn_ip6` and
    /// `ip_interfaces`.
    pub(super) fn addresses_by_interface(&self) -> Map {
        let four = |address: &Address| address.ip.is_ipv4();
        let six = |address: &Address| address.ip.is_ipv6();
        let mut grains = Map::new()
            .with("ip4_interfaces", self.by_interface(four))
            .with("ip6_interfaces", self.by_interface(six));
        let (ipv4, ipv6) = (self.addresses(four), self.addresses(six));
        let fqdn_ip = |own: &[IpAddr], ipv6| {
            let found = if own.is_empty() {
                Vec::new()
            } else {
                self.hosts.addresses(&self.fqdn, ipv6)
            };
            texts(&found)
        };
        let (fqdn_ip4, fqdn_ip6) = (fqdn_ip(&ipv4, false), fqdn_ip(&ipv6, true));
        grains.insert("ipv4", texts(&ipv4));
        grains.insert("ipv6", texts(&ipv6));
        grains.insert("fqdn_ip4", fqdn_ip4);
        grains.insert("fqdn_ip6", fqdn_ip6);
        grains.insert("ip_interfaces", self.by_interface(|_| true));
        grains
    }

    /// Returns the addresses of each interface: IPv4, IPv6, then the secondary ones.
    fn by_interface(&self, wanted: impl Fn(&Address) -> bool) -> Map {
        let rank = |address: &&Address| match address {
            address if address.secondary => 2,
            address if address.ip.is_ipv6() => 1,
            _ => 0,
        };
        let of = |link: &Interface| {
            let mut addresses: Vec<&Address> = link
                .addresses
                .iter()
                .filter(|address| wanted(address))
                .collect();
            value::sorted::sort_by_key(&mut addresses, rank);
            Value::list(
                addresses
                    .into_iter()
                    .map(|address| address.ip.to_string().into()),
            )
        };
        self.links
            .iter()
            .map(|link| (link.name.as_str(), of(link)))
            .collect()
    }

    /// Returns all addresses of a kind, sorted and without duplicates.
    fn addresses(&self, wanted: impl Fn(&Address) -> bool) -> Vec<IpAddr> {
        let all = self.links.iter().flat_map(|link| &link.addresses);
        let mut found: Vec<IpAddr> = all
            .filter(|address| wanted(address))
            .map(|address| address.ip)
            .collect();
        value::sorted::sort(&mut found);
        found.dedup();
        found
    }
}

fn texts(addresses: &[IpAddr]) -> Value {
    Value::list(addresses.iter().map(|address| address.to_string().into()))
}

/// Returns the machine's own host name.
fn nodename() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Returns `ip_gw`, `ip4_gw` and `ip6_gw`: the gateway, or whether there is a default route.
pub(super) fn gateways() -> Map {
    let (four, six) = (
        interfaces::default_route(false),
        interfaces::default_route(true),
    );
    let any = four.is_some() || six.is_some();
    let grain = |route: Option<Default>| match route {
        None => Value::from(false),
        Some(Default::Some) => true.into(),
        Some(Default::Via(gateway)) => gateway.into(),
    };
    Map::new()
        .with("ip_gw", any)
        .with("ip4_gw", grain(four))
        .with("ip6_gw", grain(six))
}

/// Returns `dns`.
pub(super) fn dns(root: &Root) -> Map {
    let path = if root.exists("run/systemd/resolve/resolv.conf") {
        "run/systemd/resolve/resolv.conf"
    } else {
        "etc/resolv.conf"
    };
    let text = root.read(path);
    text.map_or_else(Map::new, |text| {
        Map::new().with("dns", resolv::parse(path, &text))
    })
}
