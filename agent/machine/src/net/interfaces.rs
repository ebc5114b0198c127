//! Interfaces, addresses and default routes, read from the kernel over netlink.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    index: u32,
    /// The name.
    pub name: String,
    /// True if it is switched on.
    pub up: bool,
    /// The interface that it is built on or linked to, if that is another one.
    pub parent: Option<String>,
    /// The hardware address, in the format of `ip link`.
    pub hwaddr: Option<String>,
    /// The addresses in the kernel's order.
    pub addresses: Vec<Address>,
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The local address.
    pub ip: IpAddr,
    /// The length of the network prefix in bits.
    pub prefix: u8,
    /// The scope: `global`, `site`, `link`, `host`.
    pub scope: &'static str,
    /// The broadcast address.
    pub broadcast: Option<IpAddr>,
    /// The label of the address.
    pub label: Option<String>,
    /// True for the second and later IPv4 addresses of a network.
    pub secondary: bool,
}

/// A default route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Default {
    /// A default route other than through a plain gateway.
    Some,
    /// The address of the gateway.
    Via(String),
}

const DONE: u16 = 3;
const ERROR: u16 = 2;
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;

/// Returns the interfaces with their addresses, in the kernel's order; none when the kernel does
/// not answer.
#[must_use]
pub fn all() -> Vec<Interface> {
    const IFLA_EXT_MASK: [u8; 2] = 29_u16.to_ne_bytes();
    const SKIP_STATISTICS: [u8; 4] = 8_u32.to_ne_bytes();
    let mut request = vec![0; 16];
    request.extend(8_u16.to_ne_bytes());
    request.extend(IFLA_EXT_MASK);
    request.extend(SKIP_STATISTICS);
    let mut links: Vec<Interface> = Vec::new();
    let mut leads = Vec::new();
    dump(GET_LINK, &request, |kind, body| {
        if kind == NEW_LINK
            && let Some((link, to)) = link(body)
        {
            links.push(link);
            leads.push(to);
        }
        true
    });
    let names: Vec<_> = links
        .iter()
        .map(|link| (link.index, link.name.clone()))
        .collect();
    for (link, to) in links.iter_mut().zip(leads) {
        link.parent = to
            .filter(|to| *to != link.index)
            .map(|to| parent(to, &names));
    }
    dump(GET_ADDRESS, &[0; 8], |kind, body| {
        if kind == NEW_ADDRESS
            && let Some((index, address)) = address(body)
            && let Some(link) = links.iter_mut().find(|link| link.index == index)
        {
            link.addresses.push(address);
        }
        true
    });
    links
}

/// Returns the first default route of the main table.
#[must_use]
pub fn default_route(ipv6: bool) -> Option<Default> {
    let family = if ipv6 {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let family = u8::try_from(family.as_raw()).ok()?;
    let request = [family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut found = None;
    dump(GET_ROUTE, &request, |kind, body| {
        if kind == NEW_ROUTE {
            found = route(body, family);
        }
        found.is_none()
    });
    found
}

/// Requests a list from the kernel and passes each message's kind and body to `take` until it
/// returns false.
fn dump(kind: u16, request: &[u8], mut take: impl FnMut(u16, &[u8]) -> bool) {
    const DUMP_REQUEST: u16 = 0x301;
    let Ok(socket) = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    ) else {
        return;
    };
    let length = u32::try_from(16 + request.len()).unwrap_or_default();
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(DUMP_REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(request);
    if rustix::net::send(&socket, &message, SendFlags::empty()).is_ok() {
        receive(&socket, &mut take);
    }
}

fn receive(socket: &OwnedFd, take: &mut impl FnMut(u16, &[u8]) -> bool) {
    let mut buffer = vec![0; 32_768];
    while let Ok((length, _)) = rustix::net::recv(socket, buffer.as_mut_slice(), RecvFlags::empty())
    {
        let mut rest = buffer.get(..length).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        while let Some((kind, body, after)) = message(rest) {
            if kind == DONE || kind == ERROR || !take(kind, body) {
                return;
            }
            rest = after;
        }
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns the kind and body of the first message, and the remaining bytes.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(word(bytes, 0)?).ok()?;
    let body = bytes.get(16..length)?;
    let after = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((half(bytes, 4)?, body, after))
}

/// Returns the attributes after a message's fixed part.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(half(bytes, 0)?);
        let value = bytes.get(4..length)?;
        let kind = half(bytes, 2)? & 0x3fff;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes)
        .find(|(kind, _)| *kind == wanted)
        .map(|(_, value)| value)
}

/// Returns an interface without its addresses, and the number of the interface it is linked to.
fn link(body: &[u8]) -> Option<(Interface, Option<u32>)> {
    const IFLA_ADDRESS: u16 = 1;
    const IFLA_IFNAME: u16 = 3;
    const IFLA_LINK: u16 = 5;
    const IFF_UP: u32 = 1;
    let fields = body.get(16..)?;
    let kind = half(body, 2)?;
    let hwaddr = attribute(fields, IFLA_ADDRESS).filter(|address| !address.is_empty());
    let link = Interface {
        index: word(body, 4)?,
        name: name(attribute(fields, IFLA_IFNAME)?),
        up: word(body, 8)? & IFF_UP != 0,
        parent: None,
        hwaddr: hwaddr.map(|address| hardware_address(kind, address)),
        addresses: Vec::new(),
    };
    let to = attribute(fields, IFLA_LINK).and_then(|to| word(to, 0));
    Some((link, to))
}

fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .trim_end_matches('\0')
        .to_owned()
}

/// Returns the name of the interface that another one is linked to, as `ip link` shows it.
fn parent(to: u32, names: &[(u32, String)]) -> String {
    match names.iter().find(|(index, _)| *index == to) {
        Some((_, name)) => name.clone(),
        None if to == 0 => "NONE".into(),
        None => format!("if{to}"),
    }
}

/// Formats a hardware address. For tunnels it is an IP address.
fn hardware_address(kind: u16, address: &[u8]) -> String {
    const TUNNELS: [u16; 5] = [768, 769, 776, 778, 823];
    match ip(address) {
        Some(ip) if TUNNELS.contains(&kind) => ip.to_string(),
        _ => {
            let parts: Vec<String> = address.iter().map(|byte| format!("{byte:02x}")).collect();
            parts.join(":")
        }
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(four).into());
    }
    let sixteen = <[u8; 16]>::try_from(bytes).ok()?;
    Some(Ipv6Addr::from(sixteen).into())
}

fn address(body: &[u8]) -> Option<(u32, Address)> {
    const IFA_ADDRESS: u16 = 1;
    const IFA_LOCAL: u16 = 2;
    const IFA_LABEL: u16 = 3;
    const IFA_BROADCAST: u16 = 4;
    const IFA_F_SECONDARY: u8 = 1;
    let [_, prefix, flags, scope, ..] = *body else {
        return None;
    };
    let fields = body.get(8..)?;
    let ip_in = |wanted| attribute(fields, wanted).and_then(ip);
    let ip = ip_in(IFA_LOCAL).or_else(|| ip_in(IFA_ADDRESS))?;
    let address = Address {
        ip,
        prefix,
        scope: match scope {
            0 => "global",
            200 => "site",
            253 => "link",
            254 => "host",
            _ => "nowhere",
        },
        broadcast: ip_in(IFA_BROADCAST),
        label: attribute(fields, IFA_LABEL).map(name),
        // For IPv6, this flag of the kernel means a temporary address.
        secondary: ip.is_ipv4() && flags & IFA_F_SECONDARY != 0,
    };
    Some((word(body, 4)?, address))
}

/// Returns the default route in a message, if it is one of the main table.
fn route(body: &[u8], family: u8) -> Option<Default> {
    const MAIN: u8 = 254;
    const UNICAST: u8 = 1;
    const CLONED: u32 = 0x200;
    const RTA_GATEWAY: u16 = 5;
    const RTA_VIA: u16 = 18;
    const RTA_ENCAP: u16 = 22;
    const RTA_NH_ID: u16 = 30;
    let [its_family, 0, source, _, MAIN, _, _, UNICAST, ..] = *body else {
        return None;
    };
    if its_family != family || word(body, 8)? & CLONED != 0 {
        return None;
    }
    let fields = body.get(12..)?;
    let has = |kind| attribute(fields, kind).is_some();
    if source != 0 || has(RTA_NH_ID) || has(RTA_ENCAP) {
        return Some(Default::Some);
    }
    if has(RTA_VIA) {
        // Salt takes the word after `via`, which is the address family here.
        return Some(Default::Via("inet6".to_owned()));
    }
    let gateway = attribute(fields, RTA_GATEWAY).and_then(ip);
    Some(gateway.map_or(Default::Some, |gateway| Default::Via(gateway.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_its_address() {
        let all = all();
        let lo = all.iter().find(|interface| interface.name == "lo").unwrap();
        assert!(lo.up && lo.parent.is_none());
        assert_eq!(lo.hwaddr.as_deref(), Some("00:00:00:00:00:00"));
        let address = lo.addresses.iter().find(|own| own.ip.is_ipv4()).unwrap();
        assert_eq!(address.ip, Ipv4Addr::LOCALHOST);
        assert_eq!((address.prefix, address.scope), (8, "host"));
        assert_eq!(address.label.as_deref(), Some("lo"));
    }

    #[test]
    fn a_cut_message_ends_the_list() {
        assert!(message(&[20, 0, 0, 0, 16, 0]).is_none());
        assert_eq!(attributes(&[8, 0, 1, 0, 9]).count(), 0);
        assert!(link(&[0; 15]).is_none());
        assert!(address(&[2, 8, 0]).is_none());
        assert!(address(&[2, 8, 0, 0, 1, 0, 0, 0, 200, 0, 1, 0]).is_none());
        assert!(route(&[2, 0, 0, 0, 254, 0, 0, 1, 0], 2).is_none());
    }

    #[test]
    fn a_tunnel_has_an_ip_address_for_hardware_address() {
        assert_eq!(hardware_address(776, &[10, 0, 0, 1]), "10.0.0.1");
        assert_eq!(
            hardware_address(1, &[0, 1, 2, 3, 4, 255]),
            "00:01:02:03:04:ff"
        );
    }
}
