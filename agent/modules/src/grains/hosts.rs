//! `/etc/hosts`, read as the C library reads it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::files::Root;

/// The lines of the file: an address, the canonical name, and aliases.
pub(super) struct Hosts(Vec<(IpAddr, Vec<String>)>);

impl Hosts {
    /// Reads the file. A machine without it has no names.
    pub(super) fn read(root: &Root) -> Self {
        Self::parse(&root.read("etc/hosts").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(line).collect())
    }

    fn lines_of(&self, name: &str) -> impl Iterator<Item = &(IpAddr, Vec<String>)> {
        self.0
            .iter()
            .filter(move |(_, names)| names.iter().any(|known| known.eq_ignore_ascii_case(name)))
    }

    /// Returns the canonical name for a name.
    pub(super) fn canonical(&self, name: &str) -> Option<String> {
        let (_, names) = self.lines_of(name).next()?;
        names.first().cloned()
    }

    /// Returns the addresses of a name. Without `ipv6`, the IPv6 loopback address counts as the
    /// IPv4 one.
    pub(super) fn addresses(&self, name: &str, ipv6: bool) -> Vec<IpAddr> {
        let mut found = Vec::new();
        for (address, _) in self.lines_of(name) {
            let address = match address {
                IpAddr::V6(Ipv6Addr::LOCALHOST) if !ipv6 => IpAddr::V4(Ipv4Addr::LOCALHOST),
                other => *other,
            };
            if address.is_ipv6() == ipv6 && !found.contains(&address) {
                found.push(address);
            }
        }
        found
    }

    /// Returns all names of an address.
    pub(super) fn names_of(&self, address: IpAddr) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(known, _)| *known == address)
            .flat_map(|(_, names)| names.iter().map(String::as_str))
    }
}

fn line(line: &str) -> Option<(IpAddr, Vec<String>)> {
    let line = line.split('#').next()?;
    let mut words = line.split_whitespace();
    let address = words.next()?.split('%').next()?.parse().ok()?;
    let names: Vec<String> = words.map(str::to_owned).collect();
    (!names.is_empty()).then_some((address, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_the_line_is_the_name_proper() {
        let hosts = Hosts::parse(
            "127.0.0.1 localhost # not vm\n127.0.1.1\tvm.example.com VM\n10.0.0.1 vm\n::1 ip6-localhost\n",
        );
        assert_eq!(hosts.canonical("vm").as_deref(), Some("vm.example.com"));
        assert_eq!(hosts.canonical("other"), None);
        let texts: Vec<String> = hosts
            .addresses("vm", false)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(texts, ["127.0.1.1", "10.0.0.1"]);
        assert_eq!(
            hosts.addresses("ip6-localhost", false),
            [IpAddr::from([127, 0, 0, 1])]
        );
        assert!(hosts.addresses("vm", true).is_empty());
    }
}
