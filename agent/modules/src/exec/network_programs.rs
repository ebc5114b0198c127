//! The `network` execution module: the functions that run programs of the machine or access other
//! hosts.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use machine::process::{Output, Process, which};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Return information about the network of this machine, and test connections.
    mod network;

    /// Return the kernel's ARP table: the hardware addresses of the known neighbours.
    ///
    ///     salt-call network.arp
    fn arp(Arp {});

    /// Return the open TCP connections.
    ///
    ///     salt-call network.active_tcp
    fn active_tcp(ActiveTcp {});

    /// Test whether a connection to a port can be opened.
    ///
    ///     salt-call network.connect example.com 443
    fn connect(Connect {
        /// The host.
        host: String,
        /// The port of the host.
        port: Option<i64> = None,
        ..kwargs
    });

    /// Return the output of dig for a name.
    ///
    ///     salt-call network.dig example.com
    fn dig(Dig {
        /// The name.
        host: String,
    });

    /// Return the route to an address.
    ///
    ///     salt-call network.get_route 10.0.0.7
    fn get_route(GetRoute {
        /// The address.
        ip: String,
    });

    /// Return the interfaces whose addresses start with a prefix.
    ///
    ///     salt-call network.ifacestartswith 10.0
    fn ifacestartswith(Ifacestartswith {
        /// The prefix.
        cidr: String,
    });

    /// Convert an address to hexadecimal digits.
    ///
    ///     salt-call network.iphexval 10.0.0.7
    fn iphexval(Iphexval {
        /// The address.
        ip: String,
    });

    /// Return the open ports and the connections.
    ///
    ///     salt-call network.netstat
    fn netstat(Netstat {});

    /// Return the output of ping, or with `return_boolean` whether a host responds.
    ///
    ///     salt-call network.ping example.com
    fn ping(Ping {
        /// The host.
        host: String,
        /// The time to wait for a response, in seconds.
        timeout: Value = false.into(),
        /// Whether to return only True or False.
        return_boolean: bool = false,
    });
}

pub(super) fn run(cx: &Exec, words: &[&str]) -> Result<Output, Error> {
    let program = words.first().copied().unwrap_or_default();
    if which(program).is_none() {
        return Err(format!("The '{program}' binary was not found in $PATH.").into());
    }
    Process::words(words.iter().copied()).quiet().run(cx)
}

/// Returns the name of a host without characters that are not allowed in it, or an error if it
/// would be an option.
pub(super) fn host(text: &str) -> Result<String, Error> {
    let name: String = text
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || ".:-_".contains(*c))
        .collect();
    if name.is_empty() || name.starts_with('-') {
        return Err(format!("'{text}' is not the name of a host").into());
    }
    Ok(name)
}

fn arp(cx: &Exec, _args: Arp) -> Result<Value, Error> {
    let out = run(cx, &["arp", "-an"])?.into_stdout_regardless();
    let entry = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some((
            Value::from(*words.get(3)?),
            Value::from(words.get(1)?.trim_matches(['(', ')'])),
        ))
    };
    Ok(out.lines().filter_map(entry).collect::<Map>().into())
}

fn active_tcp(_cx: &Exec, _args: ActiveTcp) -> Result<Value, Error> {
    let mut found = Map::new();
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = machine::procfs::text(file);
        for connection in text.lines().filter_map(established) {
            found.insert(Value::from(found.len()), connection);
        }
    }
    Ok(found.into())
}

/// Parses a line of `/proc/net/tcp`. Returns `None` if it is not an open connection.
fn established(line: &str) -> Option<Map> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.get(3) != Some(&"01") {
        return None;
    }
    let ((local_addr, local_port), (remote_addr, remote_port)) =
        (endpoint(words.get(1)?)?, endpoint(words.get(2)?)?);
    Some(
        Map::new()
            .with("local_addr", local_addr)
            .with("local_port", local_port)
            .with("remote_addr", remote_addr)
            .with("remote_port", remote_port),
    )
}

/// Parses an address and a port. The kernel writes addresses as words of four bytes in native byte
/// order.
fn endpoint(text: &str) -> Option<(String, i64)> {
    let (address, port) = text.split_once(':')?;
    let mut bytes = Vec::new();
    for at in (0..address.len()).step_by(8) {
        bytes.extend(
            u32::from_str_radix(address.get(at..at + 8)?, 16)
                .ok()?
                .to_ne_bytes(),
        );
    }
    let shown = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(four) => std::net::Ipv4Addr::from(four).to_string(),
        Err(_) => {
            std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?).to_string()
        }
    };
    Some((shown, i64::from_str_radix(port, 16).ok()?))
}

fn connect(_cx: &Exec, args: Connect) -> Result<Value, Error> {
    let answer = |result: bool, comment: String| {
        Ok(Map::new()
            .with("result", result)
            .with("comment", comment)
            .into())
    };
    if args.host.is_empty() {
        return answer(false, "Required argument, host, is missing.".into());
    }
    let Some(port) = args.port.filter(|port| *port != 0) else {
        return answer(false, "Required argument, port, is missing.".into());
    };
    let text = |key: &str| args.kwargs.get(key).map(Value::to_text);
    let udp = text("proto").as_deref() == Some("udp");
    let proto = if udp { "udp" } else { "tcp" };
    let wanted = |address: &SocketAddr| match text("family").as_deref() {
        Some("ipv4") => address.is_ipv4(),
        Some("ipv6") => address.is_ipv6(),
        _ => true,
    };
    let number =
        u16::try_from(port).map_err(|_| Error::refused(format!("{port} is not a port")))?;
    let address = host(&args.host)
        .ok()
        .and_then(|name| (name, number).to_socket_addrs().ok()?.find(wanted));
    let name = &args.host;
    let Some(address) = address else {
        return answer(
            false,
            format!("Unable to resolve host {name} on {proto} port {port}"),
        );
    };
    let seconds = args
        .kwargs
        .get("timeout")
        .and_then(Value::as_float)
        .unwrap_or(5.0);
    let timeout = Duration::try_from_secs_f64(seconds.max(0.001)).unwrap_or(Duration::from_secs(5));
    let reached = if udp {
        answers(address, timeout)
    } else {
        TcpStream::connect_timeout(&address, timeout).is_ok()
    };
    let ip = address.ip();
    if reached {
        answer(
            true,
            format!("Successfully connected to {name} ({ip}) on {proto} port {port}"),
        )
    } else {
        answer(
            false,
            format!("Unable to connect to {name} ({ip}) on {proto} port {port}"),
        )
    }
}

/// Returns whether any response arrives.
fn answers(address: SocketAddr, timeout: Duration) -> bool {
    let any = if address.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let asked = || -> std::io::Result<usize> {
        let socket = std::net::UdpSocket::bind(any)?;
        socket.set_read_timeout(Some(timeout))?;
        socket.connect(address)?;
        socket.send(b"pinch")?;
        socket.recv(&mut [0; 255])
    };
    asked().is_ok()
}

fn dig(cx: &Exec, args: Dig) -> Result<Value, Error> {
    Ok(run(cx, &["dig", &host(&args.host)?])?
        .into_stdout_regardless()
        .into())
}

fn get_route(cx: &Exec, args: GetRoute) -> Result<Value, Error> {
    let done = run(cx, &["ip", "route", "get", &host(&args.ip)?])?;
    if !done.success() {
        return Err(done.stderr.into());
    }
    let words: Vec<&str> = done.stdout_regardless().split_whitespace().collect();
    let after = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).map(|word| (*word).to_owned())
    };
    Ok(Map::new()
        .with("destination", args.ip)
        .with("gateway", after("via"))
        .with("interface", after("dev"))
        .with("source", after("src"))
        .into())
}

fn ifacestartswith(_cx: &Exec, args: Ifacestartswith) -> Result<Value, Error> {
    let mut names = Vec::new();
    for interface in machine::net::interfaces::all() {
        let own = interface
            .addresses
            .iter()
            .filter(|address| address.ip.is_ipv4() && !address.secondary);
        for address in own.filter(|address| address.ip.to_string().starts_with(&args.cidr)) {
            names.push(Value::from(
                address.label.as_deref().unwrap_or(&interface.name),
            ));
        }
    }
    Ok(Value::list(names))
}

fn iphexval(_cx: &Exec, args: Iphexval) -> Result<Value, Error> {
    let mut digits = String::new();
    for part in args.ip.split('.') {
        let number: u32 = part
            .parse()
            .map_err(|_| Error::refused(format!("'{}' is not an IPv4 address", args.ip)))?;
        digits.push_str(&format!("{number:02X}"));
    }
    Ok(digits.into())
}

fn netstat(cx: &Exec, _args: Netstat) -> Result<Value, Error> {
    if which("netstat").is_some() {
        let out = run(cx, &["netstat", "-tulpnea"])?.into_stdout_regardless();
        return Ok(Value::list(
            out.lines().filter_map(of_netstat).map(Value::from),
        ));
    }
    let out = run(cx, &["ss", "-tulpnea"])?.into_stdout_regardless();
    Ok(Value::list(out.lines().filter_map(of_ss).map(Value::from)))
}

fn of_netstat(line: &str) -> Option<Map> {
    const TCP: [&str; 9] = [
        "proto",
        "recv-q",
        "send-q",
        "local-address",
        "remote-address",
        "state",
        "user",
        "inode",
        "program",
    ];
    let words = line.split_whitespace();
    if line.starts_with("tcp") {
        Some(TCP.into_iter().zip(words).collect())
    } else if line.starts_with("udp") {
        // An open UDP socket has a state, which is left out.
        let words: Vec<&str> = words.filter(|word| *word != "ESTABLISHED").collect();
        Some(
            TCP.into_iter()
                .filter(|name| *name != "state")
                .zip(words)
                .collect(),
        )
    } else {
        None
    }
}

fn of_ss(line: &str) -> Option<Map> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [proto, state, receive, send, local, remote, rest @ ..] = words.as_slice() else {
        return None;
    };
    if !proto.starts_with("tcp") && !proto.starts_with("udp") {
        return None;
    }
    let of = |key: &str| rest.iter().find_map(|word| word.strip_prefix(key));
    let mut entry = Map::new()
        .with("proto", *proto)
        .with("recv-q", *receive)
        .with("send-q", *send)
        .with("local-address", *local)
        .with("remote-address", *remote);
    if proto.starts_with("tcp") {
        entry.insert(
            "state",
            if *state == "ESTAB" {
                "ESTABLISHED"
            } else {
                state
            },
        );
    }
    let program = of("users:").and_then(|users| users.split('"').nth(1));
    for (key, value) in [
        ("user", of("uid:")),
        ("inode", of("ino:")),
        ("program", program),
    ] {
        entry.insert(key, value.map_or(Value::Int(0), Value::from));
    }
    Some(entry)
}

fn ping(cx: &Exec, args: Ping) -> Result<Value, Error> {
    let (name, timeout) = (host(&args.host)?, args.timeout.to_text());
    let mut words = vec!["ping"];
    if args.timeout.is_true() {
        words.extend(["-W", &timeout]);
    }
    words.extend(["-c", "4", &name]);
    let done = run(cx, &words)?;
    Ok(if args.return_boolean {
        done.success().into()
    } else {
        done.into_stdout_regardless().into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_read_from_the_kernels_list() {
        let line =
            "  1: 0100007F:1F90 0A00000A:C350 01 00000000:00000000 00:00000000 00000000 0 0 1 1";
        assert_eq!(
            value::python::repr(&established(line).unwrap().into()),
            "{'local_addr': '127.0.0.1', 'local_port': 8080, 'remote_addr': '10.0.0.10', 'remote_port': 50000}"
        );
        assert!(established(&line.replace(" 01 ", " 0A ")).is_none());
        let six = endpoint("00000000000000000000000001000000:0016").unwrap();
        assert_eq!(six, ("::1".to_owned(), 22));
    }

    #[test]
    fn lines_of_ss_and_netstat_have_the_same_names() {
        let line =
            "tcp LISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:((\"sshd\",pid=1,fd=3)) ino:77 sk:1";
        let found = of_ss(line).unwrap();
        assert_eq!(found.get("program"), Some(&"sshd".into()));
        assert_eq!(found.get("user"), Some(&Value::Int(0)));
        let found = of_netstat("udp 0 0 0.0.0.0:68 0.0.0.0:* 0 1234 55/dhclient").unwrap();
        assert_eq!(found.get("program"), Some(&"55/dhclient".into()));
    }

    #[test]
    fn a_host_is_no_option() {
        assert!(host("-f").is_err());
        assert_eq!(host("a;b.org").unwrap(), "ab.org");
    }

    #[test]
    fn a_port_is_tried() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = i64::from(listener.local_addr().unwrap().port());
        let kwargs = Map::new().with("port", port);
        let found = crate::testing::exec()
            .call("network.connect", vec!["127.0.0.1".into()], kwargs)
            .unwrap();
        assert_eq!(
            found.get("comment"),
            Some(
                &format!("Successfully connected to 127.0.0.1 (127.0.0.1) on tcp port {port}")
                    .into()
            )
        );
    }
}
