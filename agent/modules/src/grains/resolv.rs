//! `resolv.conf`, as the `dns` grain shows it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use value::{Map, Value};

/// Returns the file as a dictionary.
pub(super) fn parse(path: &str, text: &str) -> Map {
    let mut found = Resolv::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(directive) = words.next() else {
            continue;
        };
        let words: Vec<&str> = words
            .take_while(|word| !word.starts_with(['#', ';']))
            .collect();
        found.take(path, &directive.to_lowercase(), &words);
    }
    found.into_map()
}

#[derive(Default)]
struct Resolv {
    nameservers: Vec<(String, bool)>,
    search: Vec<String>,
    sortlist: Vec<String>,
    domain: String,
    options: Vec<String>,
}

impl Resolv {
    fn take(&mut self, path: &str, directive: &str, words: &[&str]) {
        match (directive, words) {
            ("nameserver", [address, ..]) => match parse_address(address) {
                Some(found) if !self.nameservers.contains(&found) => self.nameservers.push(found),
                Some(_) => {}
                None => value::log::error(format_args!(
                    "/{path}: '{address}' does not appear to be an IPv4 or IPv6 address"
                )),
            },
            ("domain", [domain, ..]) => (*domain).clone_into(&mut self.domain),
            ("search", words) => {
                self.search = words.iter().map(|word| (*word).to_owned()).collect();
            }
            ("sortlist", words) => {
                for network in words.iter().filter_map(|word| parse_network(word)) {
                    if !self.sortlist.contains(&network) {
                        self.sortlist.push(network);
                    }
                }
            }
            ("options", [option, ..]) if !self.options.iter().any(|known| known == option) => {
                self.options.push((*option).to_owned());
            }
            _ => {}
        }
    }

    fn into_map(self) -> Map {
        let of = |wanted: Option<bool>| {
            let found = self
                .nameservers
                .iter()
                .filter(|(_, ipv6)| wanted.is_none_or(|wanted| wanted == *ipv6));
            Value::list(found.map(|(address, _)| address.as_str().into()))
        };
        let texts = |list: &[String]| Value::list(list.iter().map(Value::from));
        Map::new()
            .with("nameservers", of(None))
            .with("ip4_nameservers", of(Some(false)))
            .with("ip6_nameservers", of(Some(true)))
            .with("sortlist", texts(&self.sortlist))
            .with("domain", self.domain.as_str())
            .with("search", texts(&self.search))
            .with("options", texts(&self.options))
    }
}

/// Returns an address in its canonical form, with its zone, and whether it is an IPv6 address.
fn parse_address(text: &str) -> Option<(String, bool)> {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, format!("%{zone}")),
        None => (text, String::new()),
    };
    let address: IpAddr = address.parse().ok()?;
    Some((format!("{address}{zone}"), address.is_ipv6()))
}

/// Returns a network as `address/mask`. Without a mask, that of the address's old class is used.
fn parse_network(text: &str) -> Option<String> {
    let (address, mask) = match text.split_once('/') {
        Some((address, mask)) => (address, Some(mask)),
        None => (text, None),
    };
    match address.parse().ok()? {
        IpAddr::V4(address) => {
            let mask = match mask {
                Some(mask) => v4_mask(mask)?,
                None => natural_mask(address),
            };
            (u32::from(address) & !mask == 0).then(|| format!("{address}/{}", Ipv4Addr::from(mask)))
        }
        IpAddr::V6(address) => {
            let length: u32 = mask.map_or(Some(128), |mask| mask.parse().ok())?;
            let mask = u128::MAX
                .checked_shl(128_u32.checked_sub(length)?)
                .unwrap_or(0);
            (u128::from(address) & !mask == 0)
                .then(|| format!("{address}/{}", Ipv6Addr::from(mask)))
        }
    }
}

fn v4_mask(text: &str) -> Option<u32> {
    if let Ok(mask) = text.parse::<Ipv4Addr>() {
        return Some(u32::from(mask));
    }
    let free = 32_u32.checked_sub(text.parse().ok()?)?;
    Some(u32::MAX.checked_shl(free).unwrap_or(0))
}

fn natural_mask(address: Ipv4Addr) -> u32 {
    let [first, ..] = address.octets();
    match first {
        0..128 => 0xff00_0000,
        128..192 => 0xffff_0000,
        _ => 0xffff_ff00,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_everything_reads_as_salt_shows_it() {
        let text = "# comment\nnameserver 10.0.0.1 # first\nnameserver fe80::1%eth0\nnameserver x\nnameserver 10.0.0.1\n\
            domain example.com\nsearch a b ; c\nsortlist 130.155.160.0/255.255.240.0 130.155.0.0\noptions ndots:2 rotate\n";
        assert_eq!(
            value::python::str(&parse("etc/resolv.conf", text).into()),
            "{'nameservers': ['10.0.0.1', 'fe80::1%eth0'], 'ip4_nameservers': ['10.0.0.1'], \
             'ip6_nameservers': ['fe80::1%eth0'], 'sortlist': ['130.155.160.0/255.255.240.0', \
             '130.155.0.0/255.255.0.0'], 'domain': 'example.com', 'search': ['a', 'b'], 'options': ['ndots:2']}"
        );
    }
}
