//! The `network` execution module: the functions that need no external program, and the host name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use machine::fs;
use machine::net::interfaces::{self, Address, Interface};
use machine::process::{Process, which};
use machine::systemd::booted;
use state::exec::Exec;
use state::module::Error;
use value::glob::fnmatch;
use value::{Map, Value, log};

use value::networks::{self, Network};

state::exec_module! {
    /// Return information about the network of this machine, and set its host name.
    mod network;

    /// Return all interfaces with information about them.
    ///
    ///     salt-call network.interfaces
    fn interfaces(Interfaces {});

    /// Return the IPv4 addresses of an interface with information about them.
    ///
    ///     salt-call network.interface eth0
    fn interface(IfaceInfo {
        /// The name of the interface.
        iface: String,
    });

    /// Return the first IPv4 address of an interface.
    ///
    ///     salt-call network.interface_ip eth0
    fn interface_ip(InterfaceIp {
        /// The name of the interface.
        iface: String,
    });

    /// Return the hardware address of an interface.
    ///
    ///     salt-call network.hw_addr eth0
    fn hw_addr(HwAddr {
        /// The name of the interface.
        iface: String,
    });

    /// Return the hardware address of an interface. Same as `network.hw_addr`.
    ///
    ///     salt-call network.hwaddr eth0
    fn hwaddr(Hwaddr {
        /// The name of the interface.
        iface: String,
    });

    /// Return the IPv4 addresses of this machine.
    ///
    ///     salt-call network.ip_addrs
    fn ip_addrs(IpAddrs {
        /// The interfaces whose addresses are returned: globs with commas between them, or a list.
        /// The default is all interfaces.
        interface: Value = Value::Null,
        /// Whether to include loopback addresses such as 127.0.0.1.
        include_loopback: bool = false,
        /// The network that the addresses have to be in.
        cidr: Option<String> = None,
        /// Whether to return only `public` or only `private` addresses. The default is both.
        r#type: Option<String> = None,
    });

    /// Return the IPv4 addresses of this machine. Same as `network.ip_addrs`.
    ///
    ///     salt-call network.ipaddrs
    fn ipaddrs(Ipaddrs {
        /// The interfaces whose addresses are returned: globs with commas between them, or a list.
        /// The default is all interfaces.
        interface: Value = Value::Null,
        /// Whether to include loopback addresses such as 127.0.0.1.
        include_loopback: bool = false,
        /// The network that the addresses have to be in.
        cidr: Option<String> = None,
        /// Whether to return only `public` or only `private` addresses. The default is both.
        r#type: Option<String> = None,
    });

    /// Return the IPv6 addresses of this machine.
    ///
    ///     salt-call network.ip_addrs6
    fn ip_addrs6(IpAddrs6 {
        /// The interfaces whose addresses are returned: globs with commas between them, or a list.
        /// The default is all interfaces.
        interface: Value = Value::Null,
        /// Whether to include loopback addresses such as ::1.
        include_loopback: bool = false,
        /// The network that the addresses have to be in.
        cidr: Option<String> = None,
    });

    /// Return the IPv6 addresses of this machine. Same as `network.ip_addrs6`.
    ///
    ///     salt-call network.ipaddrs6
    fn ipaddrs6(Ipaddrs6 {
        /// The interfaces whose addresses are returned: globs with commas between them, or a list.
        /// The default is all interfaces.
        interface: Value = Value::Null,
        /// Whether to include loopback addresses such as ::1.
        include_loopback: bool = false,
        /// The network that the addresses have to be in.
        cidr: Option<String> = None,
    });

    /// Return the IPv4 networks that this machine is in.
    ///
    ///     salt-call network.subnets
    fn subnets(Subnets {
        /// The interfaces whose networks are returned: a name or a list of names. The default is
        /// all interfaces.
        interfaces: Option<Vec<String>> = None,
    });

    /// Return the IPv6 networks that this machine is in.
    ///
    ///     salt-call network.subnets6
    fn subnets6(Subnets6 {});

    /// Return True if an address of this machine is in a network.
    ///
    ///     salt-call network.in_subnet 10.0.0.0/8
    fn in_subnet(InSubnet {
        /// The network.
        cidr: String,
    });

    /// Return True if an address is in a network.
    ///
    ///     salt-call network.ip_in_subnet 10.0.0.7 10.0.0.0/8
    fn ip_in_subnet(IpInSubnet {
        /// The address.
        ip_addr: String,
        /// The network.
        cidr: String,
    });

    /// Return the network that an address belongs to.
    ///
    ///     salt-call network.calc_net 10.0.0.7 255.255.255.0
    fn calc_net(CalcNet {
        /// The address, with or without a prefix length.
        ip_addr: String,
        /// The netmask or the prefix length.
        netmask: Option<String> = None,
    });

    /// Return the first address, the netmask and the last address of a network.
    ///
    ///     salt-call network.convert_cidr 10.0.0.0/24
    fn convert_cidr(ConvertCidr {
        /// The network.
        cidr: String,
    });

    /// Return the routes.
    ///
    ///     salt-call network.routes
    fn routes(Routes {
        /// The address family: `inet` or `inet6`. The default is both.
        family: Option<String> = None,
    });

    /// Return the default routes.
    ///
    ///     salt-call network.default_route
    fn default_route(DefaultRoute {
        /// The address family: `inet` or `inet6`. The default is both.
        family: Option<String> = None,
    });

    /// Return the name for a reverse DNS lookup of an address.
    ///
    ///     salt-call network.reverse_ip 10.0.0.7
    fn reverse_ip(ReverseIp {
        /// The address.
        ip_addr: String,
    });

    /// Return True if an address is private.
    ///
    ///     salt-call network.is_private 10.0.0.7
    fn is_private(IsPrivate {
        /// The address.
        ip_addr: String,
    });

    /// Return True if an address is a loopback address.
    ///
    ///     salt-call network.is_loopback 127.0.0.1
    fn is_loopback(IsLoopback {
        /// The address.
        ip_addr: String,
    });

    /// Return the host name.
    ///
    ///     salt-call network.get_hostname
    fn get_hostname(GetHostname {});

    /// Return the fully qualified host name, as in `/etc/hosts`.
    ///
    ///     salt-call network.get_fqdn
    fn get_fqdn(GetFqdn {});

    /// Set the host name for the running system and for its next start. The new name also replaces
    /// the old one in `/etc/hosts`.
    ///
    ///     salt-call network.mod_hostname web1.example.com
    fn mod_hostname(ModHostname {
        /// The new host name.
        hostname: Option<String>,
    });
}

fn parsed(text: &str) -> Result<IpAddr, Error> {
    text.parse().map_err(|_| {
        Error::refused(format!(
            "'{text}' does not appear to be an IPv4 or IPv6 address"
        ))
    })
}

fn mask(address: &Address) -> String {
    Network::new(address.ip, address.prefix)
        .netmask()
        .to_string()
}

fn inet(address: &Address, name: &str) -> Map {
    Map::new()
        .with("address", address.ip.to_string())
        .with("netmask", mask(address))
        .with("broadcast", address.broadcast.map(|ip| ip.to_string()))
        .with("label", address.label.as_deref().unwrap_or(name))
}

fn inet6(address: &Address) -> Map {
    Map::new()
        .with("address", address.ip.to_string())
        .with("prefixlen", address.prefix.to_string())
        .with("scope", address.scope)
}

fn interface_map(interface: &Interface) -> Map {
    let mut shown = Map::new().with("up", interface.up);
    if let Some(parent) = &interface.parent {
        shown.insert("parent", parent.as_str());
    }
    if let Some(hwaddr) = &interface.hwaddr {
        shown.insert("hwaddr", hwaddr.as_str());
    }
    for address in &interface.addresses {
        let (kind, entry) = if address.ip.is_ipv4() {
            ("inet", inet(address, &interface.name))
        } else {
            ("inet6", inet6(address))
        };
        let (list, entry) = if address.secondary {
            let typed = Map::new().with("type", kind);
            ("secondary", typed.into_iter().chain(entry).collect())
        } else {
            (kind, entry)
        };
        let list = shown.entry(list, || Value::list([]));
        if let Some(list) = list.as_list_mut() {
            list.push(entry.into());
        }
    }
    shown
}

fn interfaces(_cx: &Exec, _args: Interfaces) -> Result<Value, Error> {
    let all = interfaces::all();
    Ok(all
        .iter()
        .map(|one| (one.name.as_str(), interface_map(one)))
        .collect())
}

/// Returns an interface by name. If it does not exist, the error is Salt's message with the
/// available interfaces, which the function returns as its result.
fn named(name: &str) -> Result<Interface, Value> {
    let all = interfaces::all();
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    let sentence = format!(
        "Interface \"{name}\" not in available interfaces: \"{}\"",
        names.join("\", \"")
    );
    let found = all.into_iter().find(|one| one.name == name);
    found.ok_or_else(|| {
        log::error(&sentence);
        sentence.into()
    })
}

fn interface(_cx: &Exec, args: IfaceInfo) -> Result<Value, Error> {
    Ok(match named(&args.iface) {
        Ok(found) => interface_map(&found)
            .remove("inet")
            .unwrap_or_else(|| "".into()),
        Err(sentence) => sentence,
    })
}

fn interface_ip(_cx: &Exec, args: InterfaceIp) -> Result<Value, Error> {
    Ok(match named(&args.iface) {
        Ok(found) => {
            let mut own = found
                .addresses
                .iter()
                .filter(|a| a.ip.is_ipv4() && !a.secondary);
            own.next()
                .map_or_else(String::new, |a| a.ip.to_string())
                .into()
        }
        Err(sentence) => sentence,
    })
}

fn hw_addr(_cx: &Exec, args: HwAddr) -> Result<Value, Error> {
    Ok(hardware(&args.iface))
}

fn hwaddr(_cx: &Exec, args: Hwaddr) -> Result<Value, Error> {
    Ok(hardware(&args.iface))
}

fn hardware(name: &str) -> Value {
    match named(name) {
        Ok(found) => found.hwaddr.unwrap_or_default().into(),
        Err(sentence) => sentence,
    }
}

/// Returns the selected interfaces: all of them, or those whose names match.
pub(super) fn chosen(interface: &Value) -> impl Iterator<Item = Interface> + use<> {
    let globs: Vec<String> = match interface {
        Value::Null => vec!["*".into()],
        Value::List(items) => items.iter().map(Value::to_text).collect(),
        text => text
            .to_text()
            .split(',')
            .map(|glob| glob.trim().to_owned())
            .collect(),
    };
    let all = interfaces::all().into_iter();
    all.filter(move |one| globs.iter().any(|glob| fnmatch(glob, &one.name)))
}

/// Returns the addresses of a family in the order of Python's sorting.
pub(super) fn addresses(interface: &Value, loopback: bool, four: bool) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = chosen(interface)
        .flat_map(|one| one.addresses)
        .map(|address| address.ip)
        .filter(|ip| ip.is_ipv4() == four && (loopback || !ip.is_loopback()))
        .collect();
    value::sorted::sort(&mut found);
    found.dedup();
    found
}

fn texts(ips: Vec<IpAddr>) -> Value {
    Value::list(ips.into_iter().map(|ip| ip.to_string().into()))
}

/// Returns whether an address is in a network. An invalid network is logged and contains no
/// address.
fn within(cidr: &str, ip: IpAddr) -> bool {
    match Network::parse(cidr, true) {
        Ok(network) => network.contains(ip),
        Err(_) => {
            log::error(format_args!("Invalid CIDR '{cidr}'"));
            false
        }
    }
}

fn ip_addrs(_cx: &Exec, args: IpAddrs) -> Result<Value, Error> {
    let mut found = addresses(&args.interface, args.include_loopback, true);
    match (
        args.cidr.filter(|cidr| !cidr.is_empty()),
        args.r#type.as_deref(),
    ) {
        (Some(cidr), _) => found.retain(|ip| within(&cidr, *ip)),
        (None, Some("public")) => found.retain(|ip| !networks::is_private(*ip)),
        (None, Some("private")) => found.retain(|ip| networks::is_private(*ip)),
        (None, _) => {}
    }
    Ok(texts(found))
}

fn ipaddrs(cx: &Exec, args: Ipaddrs) -> Result<Value, Error> {
    let same = IpAddrs {
        interface: args.interface,
        include_loopback: args.include_loopback,
        cidr: args.cidr,
        r#type: args.r#type,
    };
    ip_addrs(cx, same)
}

fn ip_addrs6(_cx: &Exec, args: IpAddrs6) -> Result<Value, Error> {
    let mut found = addresses(&args.interface, args.include_loopback, false);
    if let Some(cidr) = args.cidr.filter(|cidr| !cidr.is_empty()) {
        found.retain(|ip| within(&cidr, *ip));
    }
    Ok(texts(found))
}

fn ipaddrs6(cx: &Exec, args: Ipaddrs6) -> Result<Value, Error> {
    let same = IpAddrs6 {
        interface: args.interface,
        include_loopback: args.include_loopback,
        cidr: args.cidr,
    };
    ip_addrs6(cx, same)
}

fn nets(names: Option<&[String]>, four: bool) -> Value {
    let mut nets: Vec<Network> = interfaces::all()
        .into_iter()
        .filter(|one| names.is_none_or(|names| names.contains(&one.name)))
        .flat_map(|one| one.addresses)
        .filter(|address| address.ip.is_ipv4() == four && !address.ip.is_loopback())
        .map(|address| Network::new(address.ip, address.prefix))
        .collect();
    value::sorted::sort(&mut nets);
    nets.dedup();
    Value::list(nets.into_iter().map(|net| net.to_string().into()))
}

fn subnets(_cx: &Exec, args: Subnets) -> Result<Value, Error> {
    Ok(nets(args.interfaces.as_deref(), true))
}

fn subnets6(_cx: &Exec, _args: Subnets6) -> Result<Value, Error> {
    Ok(nets(None, false))
}

fn in_subnet(_cx: &Exec, args: InSubnet) -> Result<Value, Error> {
    let mut all = addresses(&Value::Null, false, true);
    all.extend(addresses(&Value::Null, false, false));
    Ok(all.into_iter().any(|ip| within(&args.cidr, ip)).into())
}

fn ip_in_subnet(_cx: &Exec, args: IpInSubnet) -> Result<Value, Error> {
    Ok(within(&args.cidr, parsed(&args.ip_addr)?).into())
}

fn calc_net(_cx: &Exec, args: CalcNet) -> Result<Value, Error> {
    let text = match args.netmask {
        Some(netmask) => format!("{}/{netmask}", args.ip_addr),
        None => args.ip_addr,
    };
    Ok(Network::parse(&text, false)?.to_string().into())
}

fn convert_cidr(_cx: &Exec, args: ConvertCidr) -> Result<Value, Error> {
    let network = Network::parse(&args.cidr, false)?;
    Ok(Map::new()
        .with("network", network.address.to_string())
        .with("netmask", network.netmask().to_string())
        .with("broadcast", network.broadcast().to_string())
        .into())
}

fn routes(_cx: &Exec, args: Routes) -> Result<Value, Error> {
    Ok(Value::list(
        routes_of(args.family.as_deref())?
            .into_iter()
            .map(Value::from),
    ))
}

fn default_route(_cx: &Exec, args: DefaultRoute) -> Result<Value, Error> {
    let mut routes = routes_of(args.family.as_deref())?;
    routes.retain(|route| {
        let destination = route.get("destination").and_then(Value::as_str);
        matches!(destination, Some("0.0.0.0" | "::/0"))
    });
    Ok(Value::list(routes.into_iter().map(Value::from)))
}

fn routes_of(family: Option<&str>) -> Result<Vec<Map>, Error> {
    let read = |name: &str| machine::procfs::text(format!("/proc/net/{name}"));
    let four = || read("route").lines().filter_map(route).collect::<Vec<_>>();
    let six = || {
        read("ipv6_route")
            .lines()
            .filter_map(route6)
            .collect::<Vec<_>>()
    };
    match family {
        Some("inet") => Ok(four()),
        Some("inet6") => Ok(six()),
        None => Ok(four().into_iter().chain(six()).collect()),
        Some(other) => Err(Error::refused(format!("Invalid address family {other}"))),
    }
}

/// Parses a line of `/proc/net/route`. Its numbers are in native byte order.
fn route(line: &str) -> Option<Map> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let ip = |index: usize| {
        let bits = u32::from_str_radix(fields.get(index)?, 16).ok()?;
        Some(Ipv4Addr::from(bits.to_ne_bytes()).to_string())
    };
    Some(
        Map::new()
            .with("addr_family", "inet")
            .with("destination", ip(1)?)
            .with("gateway", ip(2)?)
            .with("netmask", ip(7)?)
            .with("flags", letters(fields.get(3)?)?)
            .with("interface", *fields.first()?),
    )
}

/// Parses a line of `/proc/net/ipv6_route`.
fn route6(line: &str) -> Option<Map> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let ip = |index: usize| {
        Some(Ipv6Addr::from(
            u128::from_str_radix(fields.get(index)?, 16).ok()?,
        ))
    };
    let prefix = u8::from_str_radix(fields.get(1)?, 16).ok()?;
    Some(
        Map::new()
            .with("addr_family", "inet6")
            .with("destination", format!("{}/{prefix}", ip(0)?))
            .with("gateway", ip(4)?.to_string())
            .with("netmask", "")
            .with("flags", letters(fields.get(8)?)?)
            .with("interface", *fields.get(9)?),
    )
}

/// Returns the flags of a route in the form of `netstat`.
fn letters(flags: &str) -> Option<String> {
    const LETTERS: [(u32, char); 9] = [
        (0x200, '!'),
        (0x1, 'U'),
        (0x2, 'G'),
        (0x4, 'H'),
        (0x1_0000, 'D'),
        (0x4_0000, 'A'),
        (0x100_0000, 'C'),
        (0x20_0000, 'n'),
        (0x40_0000, 'e'),
    ];
    let flags = u32::from_str_radix(flags, 16).ok()?;
    Some(
        LETTERS
            .iter()
            .filter(|(bit, _)| flags & bit != 0)
            .map(|(_, letter)| letter)
            .collect(),
    )
}

fn reverse_ip(_cx: &Exec, args: ReverseIp) -> Result<Value, Error> {
    Ok(networks::reverse_pointer(parsed(&args.ip_addr)?).into())
}

fn is_private(_cx: &Exec, args: IsPrivate) -> Result<Value, Error> {
    Ok(networks::is_private(parsed(&args.ip_addr)?).into())
}

fn is_loopback(_cx: &Exec, args: IsLoopback) -> Result<Value, Error> {
    Ok(parsed(&args.ip_addr)?.is_loopback().into())
}

/// Returns the host name.
pub(super) fn hostname() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

fn get_hostname(_cx: &Exec, _args: GetHostname) -> Result<Value, Error> {
    Ok(hostname().into())
}

fn get_fqdn(_cx: &Exec, _args: GetFqdn) -> Result<Value, Error> {
    Ok(fqdn()?.into())
}

fn fqdn() -> Result<String, Error> {
    let hosts = fs::text_or_none("/etc/hosts")?.unwrap_or_default();
    let host = hostname();
    Ok(qualified(&hosts, &host).unwrap_or(host))
}

fn mod_hostname(cx: &Exec, args: ModHostname) -> Result<Value, Error> {
    let Some(new) = args.hostname else {
        return Ok(false.into());
    };
    Ok(rename(cx, &new)?.into())
}

/// Sets the host name, now and for the next start. Returns false if `hostnamectl` fails.
pub(super) fn rename(cx: &Exec, new: &str) -> Result<bool, Error> {
    let allowed = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '.' | '-' | '_');
    if new.is_empty() || new.starts_with(['-', '.']) || !new.chars().all(allowed) {
        return Err(Error::refused(format!("invalid host name '{new}'")));
    }
    let old = fqdn()?;
    let hostnamectl = which("hostnamectl").filter(|_| booted());
    if let Some(hostnamectl) = hostnamectl {
        let words = [hostnamectl.as_str(), "set-hostname", new];
        if !Process::words(words).run(cx)?.success() {
            return Ok(false);
        }
    } else {
        rustix::system::sethostname(new.as_bytes())
            .map_err(|problem| Error::refused(format!("cannot set the host name: {problem}")))?;
    }
    rewrite(cx, "/etc/hosts", |line| renamed(line, &old, new))?;
    let grains = cx.grains();
    match grains.get("os_family").and_then(Value::as_str) {
        Some("RedHat") => rewrite(cx, "/etc/sysconfig/network", |line| {
            let value = line.strip_prefix("HOSTNAME=")?;
            let quote = value
                .chars()
                .next()
                .filter(|sign| matches!(sign, '"' | '\''));
            let quote = quote.map(String::from).unwrap_or_default();
            Some(format!("HOSTNAME={quote}{new}{quote}"))
        })?,
        Some("Debian") => {
            let path = Path::new("/etc/hostname");
            fs::write(
                cx,
                path,
                format!("{new}\n").as_bytes(),
                fs::Owner::default(),
            )?;
        }
        _ => {}
    }
    Ok(true)
}

/// Replaces the lines of a file for which `changed` returns a new line. A missing file is not
/// created.
fn rewrite(cx: &Exec, path: &str, changed: impl Fn(&str) -> Option<String>) -> Result<(), Error> {
    let Some(text) = fs::text_or_none(path)? else {
        return Ok(());
    };
    let mut new = String::new();
    for line in text.lines() {
        new.push_str(&changed(line).unwrap_or_else(|| line.to_owned()));
        new.push('\n');
    }
    fs::write(cx, Path::new(path), new.as_bytes(), fs::Owner::default())
}

/// Returns a line of `/etc/hosts` with the new name, if it contains the old one.
fn renamed(line: &str, old: &str, new: &str) -> Option<String> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let found = words.iter_mut().find(|word| **word == old)?;
    *found = new;
    Some(words.join("\t"))
}

/// Returns the qualified name of a host in the same way as `getfqdn`: it finds the address of the
/// host, then the first line with that address, and in that line the first name with a dot.
fn qualified(hosts: &str, host: &str) -> Option<String> {
    let lines = hosts.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        Some((words.next()?, words.collect::<Vec<_>>()))
    });
    let lines: Vec<(&str, Vec<&str>)> = lines.collect();
    let (ip, _) = lines.iter().find(|(_, names)| names.contains(&host))?;
    let (_, names) = lines.iter().find(|(other, _)| other == ip)?;
    let dotted = names.iter().find(|name| name.contains('.'));
    Some((*dotted.or_else(|| names.first())?).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::exec;

    fn call(function: &str, args: &[&str]) -> String {
        let args = args.iter().map(|arg| Value::from(*arg)).collect();
        let answer = exec().call(&format!("network.{function}"), args, Map::new());
        answer.map_or_else(
            |error| error.to_string(),
            |value| value::python::repr(&value),
        )
    }

    #[test]
    fn addresses_are_reckoned_as_salt_reckons_them() {
        for (function, args, wanted) in [
            (
                "calc_net",
                &["10.0.0.5", "255.255.0.0"][..],
                "'10.0.0.0/16'",
            ),
            (
                "convert_cidr",
                &["10.0.0.5/20"],
                "{'network': '10.0.0.0', 'netmask': '255.255.240.0', 'broadcast': '10.0.15.255'}",
            ),
            (
                "convert_cidr",
                &["fe80::/64"],
                "{'network': 'fe80::', 'netmask': 'ffff:ffff:ffff:ffff::', 'broadcast': 'fe80::ffff:ffff:ffff:ffff'}",
            ),
            ("ip_in_subnet", &["10.1.1.1", "10.0.0.0/8"], "True"),
            ("ip_in_subnet", &["11.1.1.1", "10.0.0.0/8"], "False"),
            ("reverse_ip", &["1.2.3.4"], "'4.3.2.1.in-addr.arpa'"),
            ("is_private", &["10.0.0.1"], "True"),
            ("is_loopback", &["127.0.0.1"], "True"),
            (
                "is_loopback",
                &["x"],
                "'x' does not appear to be an IPv4 or IPv6 address",
            ),
            ("interface_ip", &["lo"], "'127.0.0.1'"),
            (
                "interface",
                &["lo"],
                "[{'address': '127.0.0.1', 'netmask': '255.0.0.0', 'broadcast': None, 'label': 'lo'}]",
            ),
            ("default_route", &["foo"], "Invalid address family foo"),
        ] {
            assert_eq!(call(function, args), wanted, "{function} {args:?}");
        }
        assert!(
            call("interface_ip", &["nosuch"])
                .starts_with("'Interface \"nosuch\" not in available interfaces: \"lo\"")
        );
    }

    #[test]
    fn routes_are_read_from_the_kernels_lists() {
        let four = route("eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0").unwrap();
        assert_eq!(
            value::python::repr(&four.into()),
            "{'addr_family': 'inet', 'destination': '0.0.0.0', 'gateway': '192.0.2.1', 'netmask': '0.0.0.0', 'flags': 'UG', 'interface': 'eth0'}"
        );
        let zero = "0".repeat(32);
        let six = route6(&format!(
            "{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo"
        ))
        .unwrap();
        assert_eq!(
            value::python::repr(&six.into()),
            "{'addr_family': 'inet6', 'destination': '::/0', 'gateway': '::', 'netmask': '', 'flags': '!n', 'interface': 'lo'}"
        );
        assert!(route("Iface\tDestination").is_none());
    }

    #[test]
    fn the_domain_comes_from_the_hosts_file() {
        let hosts = "127.0.0.1 localhost\n# 1.1.1.1 x\n10.0.0.1 web web.example.org # me\n";
        assert_eq!(qualified(hosts, "web").as_deref(), Some("web.example.org"));
        assert_eq!(
            qualified("127.0.0.1 localhost vm", "vm").as_deref(),
            Some("localhost")
        );
        assert_eq!(qualified(hosts, "nosuch"), None);
    }
}
