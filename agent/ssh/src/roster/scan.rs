//! The roster `scan`: the addresses of a target on which a port of ssh is open.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use smol::future::FutureExt;
use smol::lock::Semaphore;
use smol::net::TcpStream;
use state::opts::Opts;
use value::networks::Network;
use value::{Map, Value};

/// The maximum number of addresses of a target.
const ADDRESSES_MAX: u128 = 1 << 16;
/// The maximum number of ports.
const PORTS_MAX: usize = 64;
/// The number of connections at a time.
const AT_ONCE: usize = 256;
/// The maximum time for a connection that can be configured, in seconds.
const TIME_MAX: f64 = 60.0;
/// Salt's default of `ssh_scan_timeout`, in seconds.
const TIME: f64 = 0.01;

/// The settings of a scan.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scan {
    ports: Vec<u16>,
    time: Duration,
}

impl Scan {
    /// Reads `ssh_scan_ports` and `ssh_scan_timeout`.
    ///
    /// # Errors
    /// When one is not well formed.
    pub(super) fn from_opts(opts: &Opts) -> Result<Self, String> {
        let given = opts.get("ssh_scan_ports");
        let texts = match given {
            None => vec!["22".to_owned()],
            Some(Value::Str(text)) => text.split(',').map(str::to_owned).collect(),
            Some(list) if list.as_list().is_some() => list.texts(),
            Some(number) => vec![number.to_text()],
        };
        let port = |text: &String| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
        let ports: Option<Vec<u16>> = texts.iter().map(port).collect();
        let ports = ports.filter(|ports| !ports.is_empty() && ports.len() <= PORTS_MAX);
        let ports = ports.ok_or_else(|| {
            format!("ssh_scan_ports must be at most {PORTS_MAX} ports with commas between them")
        })?;
        let time = opts.get("ssh_scan_timeout");
        let time = match time {
            None => Some(TIME),
            Some(Value::Str(text)) => text.parse().ok(),
            Some(number) => number.as_float(),
        };
        let time = time.filter(|time| *time > 0.0 && *time <= TIME_MAX);
        let time = time.ok_or_else(|| {
            format!("ssh_scan_timeout must be a number of seconds up to {TIME_MAX}")
        })?;
        Ok(Self {
            ports,
            time: Duration::from_secs_f64(time),
        })
    }

    /// Connects to all addresses of a target, a limited number at a time. Returns the entries of
    /// those with an open port, by id; as in Salt, the last open port of the list counts.
    ///
    /// # Errors
    /// When the target has too many addresses.
    pub(super) fn entries(&self, tgt: &Value) -> Result<Map, String> {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let tasks: Vec<_> = addresses(tgt)?
            .into_iter()
            .map(|ip| {
                let (scan, turns) = (self.clone(), turns.clone());
                smol::spawn(async move {
                    // No deadline: each connection before it has one.
                    let _turn = turns.acquire().await;
                    (ip, scan.open(ip).await)
                })
            })
            .collect();
        let mut entries = Map::new();
        for task in tasks {
            // No deadline: each connection has one.
            if let (ip, Some(port)) = smol::block_on(task) {
                let entry = Map::new().with("host", ip.to_string());
                entries.insert(id(ip), entry.with("port", i64::from(port)));
            }
        }
        Ok(entries)
    }

    async fn open(&self, ip: IpAddr) -> Option<u16> {
        for port in self.ports.iter().rev() {
            let late = async {
                smol::Timer::after(self.time).await;
                Err(std::io::ErrorKind::TimedOut.into())
            };
            let connection = TcpStream::connect(SocketAddr::new(ip, *port));
            if connection.or(late).await.is_ok() {
                return Some(*port);
            }
        }
        None
    }
}

/// Returns the addresses of a target: an address, a network, or a list of them. Other words are no
/// addresses, and have none.
fn addresses(tgt: &Value) -> Result<Vec<IpAddr>, String> {
    let words = match tgt.as_list() {
        Some(_) => tgt.texts(),
        None => tgt.to_text().split(',').map(str::to_owned).collect(),
    };
    let mut addresses = Vec::new();
    for word in words {
        let Ok(network) = Network::parse(word.trim(), true) else {
            continue;
        };
        let size = network.size();
        if size.saturating_add(addresses.len() as u128) > ADDRESSES_MAX {
            return Err(format!(
                "the target has more than {ADDRESSES_MAX} addresses"
            ));
        }
        // The first and the last address of a network are no hosts; IPv6 has no broadcast.
        let (from, to) = match (size, network.address) {
            (1 | 2, _) => (0, size - 1),
            (_, IpAddr::V4(_)) => (1, size - 2),
            (_, IpAddr::V6(_)) => (1, size - 1),
        };
        addresses.extend(network.addresses(from, to));
    }
    Ok(addresses)
}

/// Returns the id of an address. Ids contain no colons.
fn id(ip: IpAddr) -> String {
    let text = ip.to_string().replace(':', "-");
    match text.starts_with('-') {
        true => format!("0{text}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tgt: &str) -> Vec<String> {
        let found = addresses(&tgt.into()).unwrap();
        found.iter().map(IpAddr::to_string).collect()
    }

    #[test]
    fn a_target_is_an_address_or_the_hosts_of_a_network() {
        assert_eq!(shown("10.0.0.1"), ["10.0.0.1"]);
        assert_eq!(shown("10.0.0.0/30"), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(shown("10.0.0.0/31"), ["10.0.0.0", "10.0.0.1"]);
        assert_eq!(shown("10.0.0.1,fe80::1"), ["10.0.0.1", "fe80::1"]);
        assert_eq!(shown("fe80::/126"), ["fe80::1", "fe80::2", "fe80::3"]);
        for none in ["*", "web1", "10.0.0.1/8", "10.0.0.0/99", ""] {
            assert!(shown(none).is_empty(), "{none}");
        }
        assert_eq!(id("fe80::1".parse().unwrap()), "fe80--1");
        assert_eq!(id("::1".parse().unwrap()), "0--1");
    }

    /// Attack: a target that would take years.
    #[test]
    fn a_target_with_too_many_addresses_is_refused() {
        for tgt in ["10.0.0.0/8", "::/0", "10.0.0.0/16,10.1.0.0/30"] {
            assert!(addresses(&tgt.into()).is_err(), "{tgt}");
        }
    }

    #[test]
    fn only_hosts_with_an_open_port_are_found() {
        let open = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let ports = [&open, &closed].map(|one| one.local_addr().unwrap().port());
        drop(closed);
        let opts = |ports: String| {
            Opts::new(
                Map::new()
                    .with("ssh_scan_ports", ports)
                    .with("ssh_scan_timeout", Value::Float(0.5)),
            )
        };
        let scan = Scan::from_opts(&opts(format!("{}, {}", ports[0], ports[1]))).unwrap();
        let found = scan.entries(&"127.0.0.1".into()).unwrap();
        let wanted = format!(
            "{{'127.0.0.1': {{'host': '127.0.0.1', 'port': {}}}}}",
            ports[0]
        );
        assert_eq!(Value::Map(found).to_text(), wanted);
        let scan = Scan::from_opts(&opts(ports[1].to_string())).unwrap();
        assert!(scan.entries(&"127.0.0.1".into()).unwrap().is_empty());
        for wrong in ["", "0", "x", "22 -v", "70000"] {
            assert!(Scan::from_opts(&opts(wrong.to_owned())).is_err(), "{wrong}");
        }
    }
}
