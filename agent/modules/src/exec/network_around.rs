//! The `network` execution module: the networks, neighbours, routes to other hosts, and network
//! cards of this machine.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

use machine::process::{Output, Process, Stderr, which};
use state::exec::Exec;
use state::module::Error;
use value::networks::Network;
use value::sorted::sort;
use value::{Map, Value, log};

use super::network::{addresses, chosen};
use super::network_programs::{host, run};

state::exec_module! {
    /// Return information about the network of this machine and about its neighbours.
    mod network;

    /// Return the IPv4 networks that this machine is in.
    ///
    ///     salt-call network.ip_networks
    fn ip_networks(IpNetworks {
        /// The interfaces whose networks are returned: globs with commas between them, or a list.
        /// The default is all interfaces.
        interface: Value = Value::Null,
        /// Whether to include loopback networks such as 127.0.0.0/8.
        include_loopback: bool = false,
        /// Whether to return information about each network.
        verbose: bool = false,
    });

    /// Return the IPv6 networks that this machine is in.
    ///
    ///     salt-call network.ip_networks6
    fn ip_networks6(IpNetworks6 {
        /// The interfaces whose networks are returned: globs with commas between them, or a list.
        /// The default is all interfaces.
        interface: Value = Value::Null,
        /// Whether to include loopback networks such as ::1/128.
        include_loopback: bool = false,
        /// Whether to return information about each network.
        verbose: bool = false,
    });

    /// Return the names of this machine's addresses from the hosts file and from name servers.
    ///
    ///     salt-call network.fqdns
    fn fqdns(Fqdns {});

    /// Return the IPv4 addresses of the neighbours by hardware address.
    ///
    ///     salt-call network.ip_neighs
    fn ip_neighs(IpNeighs {});

    /// Return the IPv4 addresses of the neighbours. Same as `network.ip_neighs`.
    ///
    ///     salt-call network.ipneighs
    fn ipneighs(Ipneighs {});

    /// Return the IPv6 addresses of the neighbours by hardware address.
    ///
    ///     salt-call network.ip_neighs6
    fn ip_neighs6(IpNeighs6 {});

    /// Return the IPv6 addresses of the neighbours. Same as `network.ip_neighs6`.
    ///
    ///     salt-call network.ipneighs6
    fn ipneighs6(Ipneighs6 {});

    /// Send a Wake-on-LAN packet to a machine.
    ///
    ///     salt-call network.wol 08-00-27-13-69-77
    fn wol(Wol {
        /// The hardware address of the machine, with or without separators.
        mac: String,
        /// The address to send the packet to.
        bcast: String = "255.255.255.255".into(),
        /// The port to send the packet to.
        destport: i64 = 9,
    });

    /// Return the current and the maximum buffer sizes of a network card.
    ///
    ///     salt-call network.get_bufsize eth0
    fn get_bufsize(GetBufsize {
        /// The interface.
        iface: String,
    });

    /// Set the buffer sizes of a network card: `rx`, `tx`, `rx-mini`, `rx-jumbo`.
    ///
    ///     salt-call network.mod_bufsize eth0 rx=1024
    fn mod_bufsize(ModBufsize {
        /// The interface.
        iface: String,
        *rest,
        ..kwargs
    });

    /// Return the hosts on the route to a host.
    ///
    ///     salt-call network.traceroute example.com
    fn traceroute(Traceroute {
        /// The host.
        host: String,
    });
}

fn networks(interface: &Value, loopback: bool, verbose: bool, four: bool) -> Value {
    let is_loopback = |net: &Network| net.address.is_loopback() && net.broadcast().is_loopback();
    let mut found: Vec<Network> = chosen(interface)
        .flat_map(|one| one.addresses)
        .filter(|address| address.ip.is_ipv4() == four)
        .map(|address| Network::new(address.ip, address.prefix))
        .filter(|net| loopback || !is_loopback(net))
        .collect();
    sort(&mut found);
    found.dedup();
    if !verbose {
        return Value::list(found.into_iter().map(|net| net.to_string().into()));
    }
    let entry = |net: Network| (net.to_string(), described(net));
    found.into_iter().map(entry).collect()
}

fn described(net: Network) -> Map {
    Map::new()
        .with("address", net.address.to_string())
        .with("netmask", net.netmask().to_string())
        .with(
            "num_addresses",
            i128::try_from(net.size()).unwrap_or(i128::MAX),
        )
        .with("prefixlen", i64::from(net.prefix))
}

fn ip_networks(_cx: &Exec, args: IpNetworks) -> Result<Value, Error> {
    let loopback = args.include_loopback;
    Ok(networks(&args.interface, loopback, args.verbose, true))
}

fn ip_networks6(_cx: &Exec, args: IpNetworks6) -> Result<Value, Error> {
    let loopback = args.include_loopback;
    Ok(networks(&args.interface, loopback, args.verbose, false))
}

/// Returns the names of each address that has any, the canonical name first. `getent` uses the
/// sources that are configured on the machine.
fn names_of(cx: &Exec, ips: &[IpAddr]) -> Result<Vec<Vec<String>>, Error> {
    if ips.is_empty() {
        return Ok(Vec::new());
    }
    let ips: Vec<String> = ips.iter().map(ToString::to_string).collect();
    let words: Vec<&str> = ["getent", "hosts"]
        .into_iter()
        .chain(ips.iter().map(String::as_str))
        .collect();
    let words_of = |line: &str| line.split_whitespace().skip(1).map(str::to_owned).collect();
    let lines = run(cx, &words)?.into_stdout_regardless();
    Ok(lines.lines().map(words_of).collect())
}

/// Returns the qualified name in the same way as Python's `getfqdn`: the first name with a dot
/// among the names of its address.
fn qualified(cx: &Exec, name: String) -> Result<String, Error> {
    let found = (name.as_str(), 0).to_socket_addrs().ok();
    let Some(address) = found.and_then(|mut all| all.next()) else {
        return Ok(name);
    };
    let names = names_of(cx, &[address.ip()])?.into_iter().next();
    let names = names.unwrap_or_default();
    let dotted = names.iter().find(|name| name.contains('.'));
    Ok(dotted.or_else(|| names.first()).cloned().unwrap_or(name))
}

fn fqdns(cx: &Exec, _args: Fqdns) -> Result<Value, Error> {
    let mut all = addresses(&Value::Null, false, true);
    all.extend(addresses(&Value::Null, false, false));
    let mut names = Vec::new();
    for own in names_of(cx, &all)? {
        if let Some(name) = own.into_iter().next() {
            names.push(qualified(cx, name)?);
        }
    }
    names.sort();
    names.dedup();
    Ok(Map::new().with("fqdns", names).into())
}

fn neighbours(cx: &Exec, sign: char) -> Result<Value, Error> {
    let done = run(cx, &["ip", "neigh", "show"])?;
    if !done.success() {
        return Err(done.stderr.into());
    }
    // The format is `ADDRESS dev INTERFACE lladdr HARDWARE STATE`. A neighbour that does not
    // respond has no hardware address.
    let mut found = Map::new();
    for line in done.stdout_regardless().lines() {
        let mut words = line.split_whitespace();
        let ip = words.next().filter(|ip| ip.contains(sign));
        if let (Some(ip), Some(hardware)) = (ip, words.nth(3)) {
            found.insert(hardware, ip);
        }
    }
    Ok(found.into())
}

fn ip_neighs(cx: &Exec, _args: IpNeighs) -> Result<Value, Error> {
    neighbours(cx, '.')
}

fn ipneighs(cx: &Exec, _args: Ipneighs) -> Result<Value, Error> {
    neighbours(cx, '.')
}

fn ip_neighs6(cx: &Exec, _args: IpNeighs6) -> Result<Value, Error> {
    neighbours(cx, ':')
}

fn ipneighs6(cx: &Exec, _args: Ipneighs6) -> Result<Value, Error> {
    neighbours(cx, ':')
}

/// Returns the six bytes of a hardware address.
fn hardware_address(text: &str) -> Option<Vec<u8>> {
    let digits = match text.chars().nth(2).filter(|_| text.len() == 17) {
        Some(sign) => text.replace(sign, ""),
        None => text.to_owned(),
    };
    let digits: Option<Vec<u32>> = digits.chars().map(|digit| digit.to_digit(16)).collect();
    let pair = |pair: &[u32]| u8::try_from(pair.iter().fold(0, |sum, digit| sum * 16 + digit)).ok();
    digits
        .filter(|digits| digits.len() == 12)?
        .chunks(2)
        .map(pair)
        .collect()
}

fn wol(_cx: &Exec, args: Wol) -> Result<Value, Error> {
    let address = hardware_address(&args.mac)
        .ok_or_else(|| Error::refused(format!("Invalid MAC address '{}'", args.mac)))?;
    let port = u16::try_from(args.destport)
        .map_err(|_| Error::refused(format!("{} is not a port", args.destport)))?;
    let packet = [[0xff; 6].as_slice(), &address.repeat(16)].concat();
    let sent = || -> std::io::Result<usize> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.set_broadcast(true)?;
        socket.send_to(&packet, (args.bcast.as_str(), port))
    };
    sent().map_err(Error::io(&args.bcast))?;
    Ok(true.into())
}

/// Runs ethtool. Its error messages can be in either output stream.
fn ethtool(cx: &Exec, letter: &str, iface: &str, words: &[String]) -> Result<Output, Error> {
    let Some(program) = which("ethtool") else {
        return Err("The 'ethtool' binary was not found in $PATH.".into());
    };
    let first = [program, letter.to_owned(), host(iface)?];
    let words = first.into_iter().chain(words.iter().cloned());
    let process = Process {
        stderr: Stderr::Merged,
        ..Process::words(words).quiet()
    };
    process.run(cx)
}

/// Parses the buffer sizes in the output of ethtool. `rx-max` is the maximum of `rx`.
fn sizes(text: &str) -> Map {
    let (mut found, mut suffix) = (Map::new(), "");
    for line in text.lines() {
        if line.ends_with("maximums:") {
            suffix = "-max";
        } else if line.ends_with("settings:") {
            suffix = "";
        }
        let size = line.rsplit_once(':');
        let size = size.and_then(|(name, size)| Some((name, size.trim().parse::<i64>().ok()?)));
        if let Some((name, size)) = size {
            let name = name.to_lowercase().replace(' ', "-");
            found.insert(format!("{name}{suffix}"), size);
        }
    }
    found
}

fn get_bufsize(cx: &Exec, args: GetBufsize) -> Result<Value, Error> {
    let out = ethtool(cx, "-g", &args.iface, &[])?.into_stdout_regardless();
    let sizes = sizes(&out);
    let mut ret = Map::new().with("result", !sizes.is_empty());
    if sizes.is_empty() {
        ret.insert("comment", out);
    }
    ret.update(sizes);
    Ok(ret.into())
}

fn mod_bufsize(cx: &Exec, args: ModBufsize) -> Result<Value, Error> {
    let ret = |result: bool, comment: String| {
        Ok(Map::new()
            .with("result", result)
            .with("comment", comment)
            .into())
    };
    if !args.rest.is_empty() {
        let unknown: Vec<String> = args.rest.iter().map(Value::to_text).collect();
        return ret(false, format!("Unknown arguments: {}", unknown.join(" ")));
    }
    let mut words = Vec::new();
    for name in ["rx", "tx", "rx-mini", "rx-jumbo"] {
        let value = args.kwargs.get(name).filter(|value| !value.is_null());
        words.extend(value.map(|value| [name.to_owned(), value.to_text()]));
    }
    let words = words.concat();
    if words.is_empty() {
        let wanted = "Requires rx=<val> tx==<val> rx-mini=<val> and/or rx-jumbo=<val>";
        return ret(false, wanted.to_owned());
    }
    let out = ethtool(cx, "-G", &args.iface, &words)?.into_stdout_regardless();
    match out.is_empty() {
        true => ret(true, words.join(" ")),
        false => ret(false, out),
    }
}

/// Parses a line of traceroute: the number, then the host with three times, or three stars. Returns
/// `None` for other lines.
fn hop(line: &str) -> Option<Map> {
    let parts: Vec<&str> = line.split("  ").collect();
    let word = |at: usize, word: usize| parts.get(at)?.split_whitespace().nth(word);
    let hop = Map::new().with("count", word(0, 0)?.parse::<i64>().ok()?);
    if parts.get(1) == Some(&"* * *") {
        return Some(hop.with("hostname", "*"));
    }
    let ms = |at: usize| word(at, 0)?.parse::<f64>().ok();
    Some(
        hop.with("hostname", word(1, 0)?)
            .with("ip", word(1, 1)?.trim_matches(['(', ')']))
            .with("ms1", ms(2)?)
            .with("ms2", ms(3)?)
            .with("ms3", ms(4)?),
    )
}

fn hops(text: &str) -> Vec<Map> {
    let lines = text
        .lines()
        .filter(|line| line.contains(' ') && !line.starts_with("traceroute"));
    let shown = |line: &str| {
        hop(line.trim_start()).unwrap_or_else(|| {
            log::warning(format_args!("Cannot parse traceroute output line: {line}"));
            Map::new()
        })
    };
    lines.map(shown).collect()
}

fn traceroute(cx: &Exec, args: Traceroute) -> Result<Value, Error> {
    let host = host(&args.host)?;
    if which("traceroute").is_none() {
        return Err("The 'traceroute' binary was not found in $PATH.".into());
    }
    // If no host responds, traceroute takes eight minutes without this timeout.
    let process = Process {
        timeout: Some(120.into()),
        ..Process::words(["traceroute", &host]).quiet()
    };
    let done = process.run(cx)?;
    if done.timed_out {
        return Err(done.into_stdout_regardless().into());
    }
    if !done.success() {
        return Err(format!("traceroute {host}: {}", done.stderr).into());
    }
    Ok(Value::list(
        hops(done.stdout_regardless()).into_iter().map(Value::from),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::exec;

    #[test]
    fn a_card_is_woken() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = i64::from(socket.local_addr().unwrap().port());
        let call = |mac: &str| {
            let args = vec![mac.into(), "127.0.0.1".into(), port.into()];
            exec().call("network.wol", args, Map::new())
        };
        for mac in ["080027136977", "08-00-27-13-69-77"] {
            assert_eq!(call(mac).unwrap(), true.into());
            let mut packet = [0; 200];
            assert_eq!(socket.recv(&mut packet).unwrap(), 102);
            assert_eq!(packet[..8], [255, 255, 255, 255, 255, 255, 8, 0]);
            assert_eq!(packet[96..102], [8, 0, 0x27, 0x13, 0x69, 0x77]);
        }
        for mac in ["0800271369", "zz:00:27:13:69:77", "08:00:27:13:69:7"] {
            let error = call(mac).unwrap_err().to_string();
            assert_eq!(error, format!("Invalid MAC address '{mac}'"));
        }
    }

    #[test]
    fn an_address_has_names() {
        let loopback = [IpAddr::from([127, 0, 0, 1])];
        let names = names_of(&exec(), &loopback).unwrap();
        assert!(names[0].iter().any(|name| name == "localhost"));
        let unknown = "no such name".to_owned();
        assert_eq!(qualified(&exec(), unknown.clone()).unwrap(), unknown);
    }

    #[test]
    fn the_way_is_told_hop_by_hop() {
        let text = "traceroute to example.org (192.0.2.9), 30 hops max, 60 byte packets\n 1  gw (192.0.2.1)  0.512 ms  0.4 ms  0.1 ms\n 2  * * *\n 3  * x (192.0.2.7)  1.1 ms *\n";
        let found = Value::list(hops(text).into_iter().map(Value::from));
        assert_eq!(
            value::python::repr(&found),
            "[{'count': 1, 'hostname': 'gw', 'ip': '192.0.2.1', 'ms1': 0.512, 'ms2': 0.4, 'ms3': 0.1}, {'count': 2, 'hostname': '*'}, {}]"
        );
    }
}
