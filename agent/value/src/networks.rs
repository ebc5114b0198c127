//! IP networks, as in Python's `ipaddress`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network: an address and the number of its leading bits that identify the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    /// The first address.
    pub address: IpAddr,
    /// The number of leading bits that identify the network.
    pub prefix: u8,
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

/// Returns an address of the same family as `ip`, with these bits.
fn same_family(ip: IpAddr, bits: u128) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::from(bits as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from(bits).into(),
    }
}

fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// Returns a mask of the bits of an address that do not identify its network.
fn host_bits(ip: IpAddr, prefix: u8) -> u128 {
    let host = u32::from(width(ip) - prefix.min(width(ip)));
    1_u128.checked_shl(host).map_or(u128::MAX, |bit| bit - 1)
}

impl Network {
    /// Returns the network of an address.
    #[must_use]
    pub fn new(ip: IpAddr, prefix: u8) -> Self {
        let address = same_family(ip, bits(ip) & !host_bits(ip, prefix));
        Self { address, prefix }
    }

    /// Reads `10.0.0.5/20`, `10.0.0.5/255.255.240.0` or an address alone. With `strict`, the
    /// address must be the first of the network.
    ///
    /// # Errors
    /// When the text is not a network, with Python's message.
    pub fn parse(text: &str, strict: bool) -> Result<Self, String> {
        let wrong = || format!("'{text}' does not appear to be an IPv4 or IPv6 network");
        let (ip, mask) = match text.split_once('/') {
            Some((ip, mask)) => (ip, Some(mask)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
        let prefix = match mask {
            None => width(ip),
            Some(mask) => prefix_of(ip, mask).ok_or_else(wrong)?,
        };
        let network = Self::new(ip, prefix);
        if strict && network.address != ip {
            return Err(format!("{text} has host bits set"));
        }
        Ok(network)
    }

    /// True when the network contains an address.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.address.is_ipv4() && Self::new(ip, self.prefix) == *self
    }

    /// Returns the number of addresses; for `::/0` one less than there are, as the number is
    /// limited to 128 bits.
    #[must_use]
    pub fn size(&self) -> u128 {
        host_bits(self.address, self.prefix).saturating_add(1)
    }

    /// Returns the addresses from one index to another, both counted from the network's first
    /// address.
    pub fn addresses(&self, from: u128, to: u128) -> impl Iterator<Item = IpAddr> + use<> {
        let first = self.address;
        (from..=to).map(move |at| same_family(first, bits(first) + at))
    }

    /// Returns the network mask.
    #[must_use]
    pub fn netmask(&self) -> IpAddr {
        same_family(self.address, !host_bits(self.address, self.prefix))
    }

    /// Returns the last address.
    #[must_use]
    pub fn broadcast(&self) -> IpAddr {
        let bits = bits(self.address) | host_bits(self.address, self.prefix);
        same_family(self.address, bits)
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Reads a number of bits, a mask whose set bits are all at its start, or one whose set bits are
/// all at its end.
fn prefix_of(ip: IpAddr, mask: &str) -> Option<u8> {
    if mask.bytes().all(|byte| byte.is_ascii_digit()) {
        let prefix = mask.parse::<u8>().ok()?;
        return (prefix <= width(ip)).then_some(prefix);
    }
    let mask: Ipv4Addr = mask.parse().ok().filter(|_| ip.is_ipv4())?;
    let mask = u32::from(mask);
    let prefix = if mask.leading_ones() + mask.trailing_zeros() >= 32 {
        mask.leading_ones()
    } else if mask.leading_zeros() + mask.trailing_ones() == 32 {
        mask.leading_zeros()
    } else {
        return None;
    };
    u8::try_from(prefix).ok()
}

/// The networks that Python treats as private.
const PRIVATE: [&str; 21] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/29",
    "192.0.0.170/31",
    "192.0.2.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "240.0.0.0/4",
    "::1/128",
    "::/128",
    "::ffff:0:0/96",
    "100::/64",
    "2001::/23",
    "2001:db8::/32",
    "fc00::/7",
    "fe80::/10",
];

/// True when an address is in a private network, which is not routed on the internet.
#[must_use]
pub fn is_private(ip: IpAddr) -> bool {
    within(ip, &PRIVATE)
}

/// True when an address is in one of these networks.
#[must_use]
pub fn within(ip: IpAddr, networks: &[&str]) -> bool {
    let holds = |network: &&str| Network::parse(network, true).is_ok_and(|net| net.contains(ip));
    networks.iter().any(holds)
}

/// Returns the DNS name for a reverse lookup of an address.
#[must_use]
pub fn reverse_pointer(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(ip) => {
            let digits = format!("{:032x}", u128::from(ip));
            let reversed: Vec<String> = digits.chars().rev().map(String::from).collect();
            format!("{}.ip6.arpa", reversed.join("."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_shown_as_python_does() {
        for (text, wanted) in [
            ("10.0.0.5/20", "10.0.0.0/20"),
            ("10.0.0.5/255.255.0.0", "10.0.0.0/16"),
            ("10.0.0.5", "10.0.0.5/32"),
            ("fe80::1/64", "fe80::/64"),
            ("1.2.3.4/0", "0.0.0.0/0"),
        ] {
            assert_eq!(Network::parse(text, false).unwrap().to_string(), wanted);
        }
        assert!(Network::parse("10.0.0.5/20", true).is_err());
        assert!(Network::parse("10.0.0.0/255.0.255.0", false).is_err());
        assert!(Network::parse("10.0.0.0/33", false).is_err());
        let net = Network::parse("10.0.0.0/20", true).unwrap();
        assert_eq!(net.netmask().to_string(), "255.255.240.0");
        assert_eq!(net.broadcast().to_string(), "10.0.15.255");
    }

    #[test]
    fn addresses_are_told_apart() {
        for (ip, private) in [
            ("10.1.2.3", true),
            ("8.8.8.8", false),
            ("fd00::1", true),
            ("2600::1", false),
        ] {
            assert_eq!(is_private(ip.parse().unwrap()), private, "{ip}");
        }
        assert_eq!(
            reverse_pointer("1.2.3.4".parse().unwrap()),
            "4.3.2.1.in-addr.arpa"
        );
        assert!(reverse_pointer("::1".parse().unwrap()).starts_with("1.0.0."));
    }
}
