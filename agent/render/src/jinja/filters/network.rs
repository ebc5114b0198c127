//! Filters for addresses and networks, as Python's `ipaddress` reads and prints them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use ::value::networks::{Network, is_private, within};
use minijinja::value::ValueKind;
use minijinja::{Error, State, Value};

use super::super::args::{self, Args, items};
use super::super::containers::{Dict, List};
use super::super::errors::{fault, value_error};
use super::super::print;
use super::{Table, builtin};
use crate::Kind;

/// The maximum number of hosts that a template may list for a network.
const HOSTS_MAX: u128 = 1 << 20;

/// The filters of this topic.
pub(super) const FILTERS: Table = &[
    ("is_ip", |_, a| {
        Ok(Value::from(one(a, 4)?.is_some() || one(a, 6)?.is_some()))
    }),
    ("is_ipv4", |_, a| Ok(Value::from(one(a, 4)?.is_some()))),
    ("is_ipv6", |_, a| Ok(Value::from(one(a, 6)?.is_some()))),
    ("ipv4", |_, a| filtered(a, &[4])),
    ("ipv6", |_, a| filtered(a, &[6])),
    ("ipaddr", |_, a| filtered(a, &[4, 6])),
    ("ip_host", |_, a| {
        each(a, |address| Ok(Value::from(address.with_length())))
    }),
    ("network_hosts", |_, a| each(a, hosts)),
    ("network_size", |_, a| each(a, |address| Ok(size(address)))),
    ("filter_by_networks", filter_by_networks),
    ("ipwrap", ipwrap),
    ("mac_str_to_bytes", mac_bytes),
    ("dns_check", dns_check),
];

/// An address, with the length of its network's prefix if it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address {
    ip: IpAddr,
    /// Its network; if none was written, the network of this address alone.
    network: Network,
    has_length: bool,
}

impl Address {
    fn parse(text: &str) -> Option<Self> {
        let ip = text.split_once('/').map_or(text, |(ip, _)| ip);
        Some(Self {
            ip: ip.parse().ok()?,
            network: Network::parse(text, false).ok()?,
            has_length: text.contains('/'),
        })
    }

    fn version(self) -> u8 {
        if self.ip.is_ipv4() { 4 } else { 6 }
    }

    fn with_length(self) -> String {
        format!("{}/{}", self.ip, self.network.prefix)
    }

    fn text(self) -> String {
        if self.has_length {
            self.with_length()
        } else {
            self.ip.to_string()
        }
    }

    fn has(self, option: &str) -> bool {
        match option {
            "global" | "public" => !is_private(self.ip),
            "private" => is_private(self.ip),
            "loopback" | "lo" => self.ip.is_loopback(),
            "multicast" => self.ip.is_multicast(),
            "link-local" | "linklocal" | "ll" | "link_local" => {
                within(self.ip, &["169.254.0.0/16", "fe80::/10"])
            }
            "reserved" => within(self.ip, RESERVED),
            "site-local" | "sl" | "site_local" => within(self.ip, &["fec0::/10"]),
            "unspecified" => self.ip.is_unspecified(),
            _ => true,
        }
    }
}

const RESERVED: &[&str] = &[
    "240.0.0.0/4",
    "::/8",
    "100::/8",
    "200::/7",
    "400::/6",
    "800::/5",
    "1000::/4",
    "4000::/3",
    "6000::/3",
    "8000::/3",
    "a000::/3",
    "c000::/3",
    "e000::/4",
    "f000::/5",
    "f800::/6",
    "fe00::/9",
];

/// Returns the address of a value, if it has this version and all the options.
fn address(value: &Value, version: u8, options: &str) -> Option<Address> {
    let address = match value.as_i64().filter(|_| value.is_integer()) {
        Some(number) => {
            let ip = Ipv4Addr::from(u32::try_from(number).ok()?).into();
            Address {
                ip,
                network: Network::new(ip, 32),
                has_length: false,
            }
        }
        None => Address::parse(value.as_str()?)?,
    };
    if address.version() != version {
        return None;
    }
    let wanted = options
        .split(',')
        .map(str::trim)
        .filter(|option| !option.is_empty());
    wanted
        .clone()
        .all(|option| address.has(option))
        .then_some(address)
}

fn one(args: &Args, version: u8) -> Result<Option<Address>, Error> {
    Ok(address(
        args.subject()?,
        version,
        &args.text_or(1, "options", "")?,
    ))
}

/// Returns the addresses of a list, or the only one of a text; `None` for any other value.
fn chosen(args: &Args, versions: &[u8]) -> Result<Option<Vec<Address>>, Error> {
    let value = args.subject()?;
    let options = args.text_or(1, "options", "")?;
    let values = match value.kind() {
        ValueKind::String => vec![value.clone()],
        ValueKind::Seq | ValueKind::Iterable => items(value)?,
        _ => return Ok(None),
    };
    let of = |version: &u8| {
        values
            .iter()
            .filter_map(|value| address(value, *version, &options))
            .collect::<Vec<_>>()
    };
    Ok(Some(versions.iter().flat_map(of).collect()))
}

fn filtered(args: &Args, versions: &[u8]) -> Result<Value, Error> {
    let none = Value::from(());
    let Some(found) = chosen(args, versions)? else {
        return Ok(none);
    };
    let mut texts = found.into_iter().map(|address| Value::from(address.text()));
    if args.subject()?.as_str().is_some() {
        return Ok(texts.next().unwrap_or(none));
    }
    Ok(List::value(texts.collect()))
}

/// Applies `of` to every address, or to the only one.
fn each(args: &Args, of: impl Fn(Address) -> Result<Value, Error>) -> Result<Value, Error> {
    let version = match args.at(2, "version").filter(|version| version.is_true()) {
        Some(version) => vec![u8::try_from(args::int(version)?).unwrap_or(0)],
        None => vec![4, 6],
    };
    let found = chosen(args, &version)?.unwrap_or_default();
    let Some(first) = found.first() else {
        return Ok(Value::from(()));
    };
    if args.subject()?.as_str().is_some() {
        return of(*first);
    }
    Ok(List::value(
        found.into_iter().map(of).collect::<Result<_, _>>()?,
    ))
}

fn hosts(address: Address) -> Result<Value, Error> {
    let size = address.network.size();
    if size > HOSTS_MAX {
        return Err(value_error(format!(
            "The network {} has more than {HOSTS_MAX} hosts.",
            address.with_length()
        )));
    }
    let (from, to) = match (address.version(), size) {
        (_, 1 | 2) => (0, size - 1),
        (4, _) => (1, size - 2),
        _ => (1, size - 1),
    };
    let texts = address.network.addresses(from, to).map(|ip| ip.to_string());
    Ok(List::value(texts.map(Value::from).collect()))
}

fn size(address: Address) -> Value {
    let count = address.network.size();
    i64::try_from(count).map_or_else(|_| Value::from(count), Value::from)
}

fn filter_by_networks(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    let wanted = args.need(1, "networks")?;
    if wanted.is_none() {
        return Ok(value.clone());
    }
    let bad = |value: &Value| {
        value_error(format!(
            "{} does not appear to be an IPv4 or IPv6 network",
            print::repr(value)
        ))
    };
    let mut networks = Vec::new();
    for network in items(wanted)? {
        networks.push(
            network
                .as_str()
                .and_then(Address::parse)
                .ok_or_else(|| bad(&network))?,
        );
    }
    let filter = |ips: &Value| -> Result<Value, Error> {
        let inside = |ip: &Value| {
            ip.as_str()
                .and_then(Address::parse)
                .is_some_and(|ip| networks.iter().any(|known| known.network.contains(ip.ip)))
        };
        Ok(List::value(
            items(ips)?.into_iter().filter(inside).collect(),
        ))
    };
    if value.kind() != ValueKind::Map {
        return filter(value);
    }
    let mut kept = indexmap::IndexMap::new();
    for pair in builtin::pairs(value)? {
        kept.insert(
            pair.get_item_by_index(0)?,
            filter(&pair.get_item_by_index(1)?)?,
        );
    }
    Ok(Dict::value(kept))
}

fn ipwrap(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    let wrap = |value: &Value| match address(value, 6, "") {
        Some(address) => Value::from(format!("[{}]", address.ip)),
        None => value.clone(),
    };
    match value.kind() {
        ValueKind::Seq => Ok(List::value(items(value)?.iter().map(wrap).collect())),
        _ => Ok(wrap(value)),
    }
}

fn mac_bytes(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let text = args.text(0, "mac_str")?;
    let digits = match text.chars().count() {
        12 => text,
        17 => text.replace(text.chars().nth(2).unwrap_or(':'), ""),
        _ => return Err(value_error("Invalid MAC address")),
    };
    let byte = |at: usize| {
        digits
            .get(at..at + 2)
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    let bytes = (0..12).step_by(2).map(byte).collect::<Option<Vec<u8>>>();
    bytes
        .map(Value::from_bytes)
        .ok_or_else(|| value_error("Invalid MAC address"))
}

/// Returns the first address of a name that answers, or else its first address.
fn dns_check(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let name = args.text(0, "addr")?;
    let port = u16::try_from(args::int(args.need(1, "port")?)?)
        .map_err(|_| value_error("port must be 0-65535."))?;
    let wanted = args
        .at(3, "ipv6")
        .filter(|ipv6| !ipv6.is_none())
        .map(Value::is_true);
    let fits = |address: &SocketAddr| wanted.is_none_or(|six| address.is_ipv6() == six);
    let found: Vec<SocketAddr> = (name.as_str(), port)
        .to_socket_addrs()
        .into_iter()
        .flatten()
        .filter(fits)
        .collect();
    let answers =
        |address: &&SocketAddr| TcpStream::connect_timeout(address, Duration::from_secs(2)).is_ok();
    let Some(address) = found.iter().find(answers).or_else(|| found.first()) else {
        return Err(fault(
            Kind::Jinja,
            format!("DNS lookup or connection check of '{name}' failed."),
        ));
    };
    Ok(Value::from(match address.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }))
}
