//! NetworkManager's keyfiles in `/etc/NetworkManager/system-connections`: one connection for each
//! interface.

use machine::hashes;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, python};

use super::options::Options;
use super::wanted::{Route, Wanted, is_on, renamed};
use super::{File, Plan, lines, read};

const BOND: [(&str, &str); 13] = [
    ("mode", "mode"),
    ("miimon", "miimon"),
    ("lacp_rate", "lacp_rate"),
    ("ad_select", "ad_select"),
    ("xmit_hash_policy", "xmit_hash_policy"),
    ("hashing-algorithm", "xmit_hash_policy"),
    ("downdelay", "downdelay"),
    ("updelay", "updelay"),
    ("arp_interval", "arp_interval"),
    ("arp_ip_target", "arp_ip_target"),
    ("primary", "primary"),
    ("fail_over_mac", "fail_over_mac"),
    ("min_links", "min_links"),
];

const BRIDGE: [(&str, &str); 6] = [
    ("fd", "forward-delay"),
    ("forward_delay", "forward-delay"),
    ("ageing", "ageing-time"),
    ("maxage", "max-age"),
    ("hello", "hello-time"),
    ("priority", "priority"),
];

/// Returns the path of the keyfile of an interface.
pub(super) fn path(iface: &str) -> String {
    format!("/etc/NetworkManager/system-connections/{iface}.nmconnection")
}

/// Returns a UUID (version 5) of the connection. It is derived from the name of the interface, so
/// it is the same in every run.
fn uuid(iface: &str) -> Result<String, Error> {
    let space: &[u8] = b"pinch network connection";
    let digits = hashes::of_bytes(&[space, iface.as_bytes()].concat(), "sha1")?;
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    Ok(format!(
        "{}-{}-5{}-a{}-{}",
        part(0, 8),
        part(8, 12),
        part(13, 16),
        part(17, 20),
        part(20, 32)
    ))
}

/// A keyfile that is being written.
struct Keyfile(String);

impl Keyfile {
    fn section(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0 += &format!("[{name}]\n");
    }

    fn set(&mut self, key: &str, value: impl std::fmt::Display) {
        self.0 += &format!("{key}={value}\n");
    }

    fn connection(&mut self, iface: &str, kind: &str, enabled: bool) -> Result<(), Error> {
        self.section("connection");
        self.set("id", iface);
        self.set("uuid", uuid(iface)?);
        self.set("type", kind);
        self.set("interface-name", iface);
        self.set("autoconnect", enabled);
        Ok(())
    }

    /// Returns the connection of a member of a bond or a bridge.
    fn member(iface: &str, enabled: bool, master: &str, kind: &str) -> Result<Self, Error> {
        let mut file = Self(String::new());
        file.connection(iface, "ethernet", enabled)?;
        file.set("master", master);
        file.set("slave-type", kind);
        Ok(file)
    }

    /// Writes the section of an address family: addresses, servers, and the routes that are
    /// configured already.
    fn family(&mut self, wanted: &Wanted, is_six: bool, is_off: bool, routes: &[String]) {
        self.section(if is_six { "ipv6" } else { "ipv4" });
        let of_it = |text: &&String| text.contains(':') == is_six;
        let addresses: Vec<&String> = wanted.addresses.iter().filter(of_it).collect();
        let is_dhcp = if is_six { wanted.dhcp6 } else { wanted.dhcp4 };
        let method = match (is_dhcp, is_six) {
            (true, true) => "dhcp",
            (true, false) => "auto",
            _ if !addresses.is_empty() => "manual",
            _ if is_off => "disabled",
            _ => "auto",
        };
        self.set("method", method);
        let mut gateways = wanted.gateways.iter();
        let mut gateway = gateways.find(|gateway| of_it(gateway));
        for (number, address) in (1..).zip(addresses) {
            match gateway.take() {
                Some(gateway) => self.set(
                    &format!("address{number}"),
                    format_args!("{address},{gateway}"),
                ),
                None => self.set(&format!("address{number}"), address),
            }
        }
        let dns: Vec<&str> = wanted
            .dns
            .iter()
            .filter(of_it)
            .map(String::as_str)
            .collect();
        if !dns.is_empty() {
            self.set("dns", dns.join(";") + ";");
        }
        if !wanted.search.is_empty() && method != "disabled" {
            self.set("dns-search", wanted.search.join(";") + ";");
        }
        for (number, route) in (1..).zip(routes) {
            self.set(&format!("route{number}"), route);
        }
    }

    fn file(self, iface: &str) -> File {
        File::new(path(iface), self.0).with_mode(0o600)
    }
}

/// Returns the changes that apply these settings to an interface. For a bond or a bridge they
/// include the connections of its members.
pub(super) fn interface(
    _cx: &Exec,
    iface: &str,
    kind: &str,
    enabled: bool,
    given: &Map,
) -> Result<Plan, Error> {
    let options = Options { iface, given };
    let wanted = Wanted::parse(options, kind, "NetworkManager")?;
    let file = match (&wanted.master, kind) {
        (Some(master), _) => {
            let kind = options
                .text("slave_type")
                .unwrap_or_else(|| "bond".to_owned());
            Keyfile::member(iface, enabled, super::named(master)?, &kind)?
        }
        (None, "slave") => return Err("master is a required setting for slave interfaces".into()),
        (None, _) => connection(options, &wanted, enabled)?,
    };
    let new = lines(&file.0);
    let mut files = vec![file.file(iface)];
    for member in wanted.members.iter().filter(|member| *member != iface) {
        files.push(Keyfile::member(member, enabled, iface, kind)?.file(member));
    }
    Ok(Plan {
        new,
        files,
        ..Plan::default()
    })
}

fn connection(options: Options<'_>, wanted: &Wanted, enabled: bool) -> Result<Keyfile, Error> {
    let Options { iface, given } = options;
    let kind = match wanted.kind.as_str() {
        "eth" => "ethernet",
        other => other,
    };
    let mut file = Keyfile(String::new());
    file.connection(iface, kind, enabled)?;
    let mut device = match kind {
        "bond" => {
            given.get("mode").ok_or_else(|| {
                format!("Missing required option 'mode' for bond interface '{iface}'")
            })?;
            renamed(given, &BOND)
        }
        "bridge" => renamed(given, &BRIDGE),
        _ => Vec::new(),
    };
    if let Some(stp) = given.get("stp").filter(|_| kind == "bridge") {
        device.insert(0, ("stp", if is_on(stp) { "true" } else { "false" }.into()));
    }
    if let Some((id, parent)) = &wanted.vlan {
        device.extend([("id", (*id).into()), ("parent", parent.as_str().into())]);
    }
    if !device.is_empty() {
        file.section(kind);
        for (key, value) in device {
            let text = match value.as_list() {
                Some(items) => items.iter().map(python::str).collect::<Vec<_>>().join(","),
                None => python::str(&value),
            };
            file.set(key, text);
        }
    }
    let pin = options
        .text("hwaddr")
        .filter(|it| !["auto", "none"].contains(&it.as_str()));
    let link = [
        ("mtu", wanted.mtu.map(|mtu| mtu.to_string())),
        ("mac-address", pin.filter(|_| kind == "ethernet")),
        (
            "cloned-mac-address",
            options.text("macaddr").filter(|_| kind == "ethernet"),
        ),
    ];
    if link.iter().any(|(_, value)| value.is_some()) {
        file.section("ethernet");
        for (key, value) in link {
            value.into_iter().for_each(|value| file.set(key, value));
        }
    }
    let [four, six] = routes_of(&read(&path(iface))?);
    let is_off = |name: &str| {
        let proto = options.text(name).unwrap_or_default().to_lowercase();
        ["none", "disabled", "off"].contains(&proto.as_str())
    };
    file.family(wanted, false, is_off("proto"), &four);
    file.family(
        wanted,
        true,
        is_off("ipv6proto") || given.get("enable_ipv6") == Some(&false.into()),
        &six,
    );
    Ok(file)
}

/// Returns the routes of a keyfile, by address family.
fn routes_of(text: &str) -> [Vec<String>; 2] {
    let mut routes = [Vec::new(), Vec::new()];
    let mut section = "";
    for line in text.lines() {
        match line.split_once('=') {
            None => section = line.trim(),
            Some((key, value)) if key.starts_with("route") => {
                let [four, six] = &mut routes;
                match section {
                    "[ipv4]" => four.push(value.to_owned()),
                    "[ipv6]" => six.push(value.to_owned()),
                    _ => {}
                }
            }
            Some(_) => {}
        }
    }
    routes
}

/// Returns the lines for these routes.
fn route_lines(routes: &[Vec<String>; 2]) -> Vec<String> {
    let mut file = Keyfile(String::new());
    for (name, routes) in ["ipv4", "ipv6"]
        .iter()
        .zip(routes)
        .filter(|(_, routes)| !routes.is_empty())
    {
        file.section(name);
        for (number, route) in (1..).zip(routes) {
            file.set(&format!("route{number}"), route);
        }
    }
    lines(&file.0)
}

/// Returns the lines of the routes in the keyfile of an interface.
pub(super) fn shown_routes(iface: &str) -> Result<Vec<String>, Error> {
    Ok(route_lines(&routes_of(&read(&path(iface))?)))
}

/// Returns the changes that apply these routes to an interface. Its keyfile must exist.
pub(super) fn routes(cx: &Exec, iface: &str, given: &[Value]) -> Result<Plan, Error> {
    let mut wanted = [Vec::new(), Vec::new()];
    for route in Route::all(given)? {
        let mut entry = route.to.clone();
        let via = route.via.or_else(|| route.metric.map(|_| String::new()));
        via.into_iter().for_each(|via| entry += &format!(",{via}"));
        route
            .metric
            .into_iter()
            .for_each(|metric| entry += &format!(",{metric}"));
        let [four, six] = &mut wanted;
        let family = if route.to.contains(':') { six } else { four };
        family.push(entry);
    }
    let path = path(iface);
    let old = read(&path)?;
    if old.is_empty() && !cx.test {
        return Err(format!(
            "{path} does not exist: manage {iface} with network.managed before its routes"
        )
        .into());
    }
    let mut out = String::new();
    let kept = old
        .lines()
        .filter(|line| !(line.starts_with("route") && line.contains('=')));
    let mut sections: Vec<Vec<&str>> = Vec::new();
    for line in kept {
        if line.starts_with('[') || sections.is_empty() {
            sections.push(Vec::new());
        }
        if let Some(section) = sections.last_mut() {
            section.push(line);
        }
    }
    for mut section in sections {
        while section.last().is_some_and(|line| line.trim().is_empty()) {
            section.pop();
        }
        let first = section.first().copied().unwrap_or_default();
        let none = Vec::new();
        let routes = match first {
            "[ipv4]" => &wanted[0],
            "[ipv6]" => &wanted[1],
            _ => &none,
        };
        out += if out.is_empty() { "" } else { "\n" };
        section.iter().for_each(|line| out += &format!("{line}\n"));
        for (number, route) in (1..).zip(routes) {
            out += &format!("route{number}={route}\n");
        }
    }
    Ok(Plan {
        new: route_lines(&wanted),
        files: vec![File::new(path, out).with_mode(0o600)],
        ..Plan::default()
    })
}
