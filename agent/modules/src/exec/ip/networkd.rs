//! systemd-networkd's files in `/etc/systemd/network`: a `.network` file for each interface, a
//! `.netdev` file for a virtual device, and a drop-in for routes.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, python};

use super::options::Options;
use super::wanted::{Route, Wanted, is_on, renamed};
use super::{File, Plan, lines, read};

/// The prefix of the paths. These files sort before those of the distribution: the first file that
/// matches an interface is used.
const FOLDER: &str = "/etc/systemd/network/10-salt-";

const BOND: [(&str, &str); 11] = [
    ("mode", "Mode"),
    ("miimon", "MIIMonitorSec"),
    ("downdelay", "DownDelaySec"),
    ("updelay", "UpDelaySec"),
    ("arp_interval", "ARPIntervalSec"),
    ("arp_ip_target", "ARPIPTargets"),
    ("lacp_rate", "LACPTransmitRate"),
    ("ad_select", "AdSelect"),
    ("xmit_hash_policy", "TransmitHashPolicy"),
    ("hashing-algorithm", "TransmitHashPolicy"),
    ("min_links", "MinLinks"),
];

const BRIDGE: [(&str, &str); 6] = [
    ("fd", "ForwardDelaySec"),
    ("forward_delay", "ForwardDelaySec"),
    ("ageing", "AgeingTimeSec"),
    ("maxage", "MaxAgeSec"),
    ("hello", "HelloTimeSec"),
    ("priority", "Priority"),
];

fn path(iface: &str, kind: &str) -> String {
    format!("{FOLDER}{iface}.{kind}")
}

fn dropin(iface: &str, name: &str) -> String {
    format!("{FOLDER}{iface}.network.d/{name}.conf")
}

/// Returns the path of the drop-in with the routes of an interface.
pub(super) fn route_path(iface: &str) -> String {
    dropin(iface, "routes")
}

/// Returns the lines of the current files of an interface.
pub(super) fn current_lines(iface: &str) -> Result<Vec<String>, Error> {
    let texts = [
        read(&path(iface, "netdev"))?,
        read(&path(iface, "network"))?,
    ];
    Ok(lines(&texts.concat()))
}

/// Returns the changes that apply these settings to an interface. For a bond or a bridge they
/// include the files of its members.
pub(super) fn interface(
    _cx: &Exec,
    iface: &str,
    kind: &str,
    enabled: bool,
    given: &Map,
) -> Result<Plan, Error> {
    let options = Options { iface, given };
    let wanted = Wanted::parse(options, kind, "systemd-networkd")?;
    let netdev = netdev(options, &wanted);
    let network = network(options, &wanted, enabled)?;
    let new = lines(&(netdev.clone() + &network));
    let mut files = Vec::new();
    if !netdev.is_empty() {
        files.push(File::new(path(iface, "netdev"), netdev));
    }
    files.push(File::new(path(iface, "network"), network));
    let master = if kind == "bond" { "Bond" } else { "Bridge" };
    for member in wanted.members.iter().filter(|member| *member != iface) {
        let text = format!("[Match]\nName={member}\n\n[Network]\n{master}={iface}\n");
        files.push(File::new(path(member, "network"), text));
    }
    if let Some((_, parent)) = &wanted.vlan {
        let text = format!("[Network]\nVLAN={iface}\n");
        files.push(File::new(dropin(parent, &format!("vlan-{iface}")), text));
    }
    Ok(Plan {
        new,
        files,
        ..Plan::default()
    })
}

/// Returns the text of the `.netdev` file of a virtual device; it is empty for a device of the
/// machine.
fn netdev(options: Options<'_>, wanted: &Wanted) -> String {
    let Options { iface, given } = options;
    let kind = wanted.kind.as_str();
    let (section, settings) = match kind {
        "bond" => ("Bond", renamed(given, &BOND)),
        "bridge" => ("Bridge", renamed(given, &BRIDGE)),
        "vlan" => ("VLAN", Vec::new()),
        _ => return String::new(),
    };
    let mut out = format!("[NetDev]\nName={iface}\nKind={kind}\n\n[{section}]\n");
    if let Some((id, _)) = wanted.vlan {
        out += &format!("Id={id}\n");
    }
    if let Some(stp) = given.get("stp").filter(|_| kind == "bridge") {
        out += &format!("STP={}\n", is_on(stp));
    }
    for (key, value) in settings {
        let text = match value.as_list() {
            Some(items) => items.iter().map(python::str).collect::<Vec<_>>().join(" "),
            None => python::str(&value),
        };
        // The kernel's options for bonds are in milliseconds, those for bridges in seconds.
        let unit = if kind == "bond" && key.ends_with("Sec") {
            "ms"
        } else {
            ""
        };
        out += &format!("{key}={text}{unit}\n");
    }
    out + "\n"
}

/// Returns the text of the `.network` file of an interface.
fn network(options: Options<'_>, wanted: &Wanted, enabled: bool) -> Result<String, Error> {
    let iface = options.iface;
    let mut out = format!("[Match]\nName={iface}\n\n");
    let mut link = String::new();
    if let Some(mtu) = wanted.mtu {
        link += &format!("MTUBytes={mtu}\n");
    }
    if let Some(address) = options.text("macaddr") {
        link += &format!("MACAddress={address}\n");
    }
    if !enabled {
        link += "ActivationPolicy=manual\n";
    }
    if !link.is_empty() {
        out += &format!("[Link]\n{link}\n");
    }
    out += "[Network]\n";
    if wanted.kind == "slave" {
        let master = wanted.master.as_deref();
        let master = master.ok_or("master is a required setting for slave interfaces")?;
        let kind = options.text("slave_type").unwrap_or_default();
        let key = if kind == "bridge" { "Bridge" } else { "Bond" };
        return Ok(format!("{out}{key}={}\n", super::named(master)?));
    }
    let dhcp = match (wanted.dhcp4, wanted.dhcp6) {
        (true, true) => "yes",
        (true, false) => "ipv4",
        (false, true) => "ipv6",
        (false, false) => "no",
    };
    out += &format!("DHCP={dhcp}\n");
    let lists = [
        ("Address", &wanted.addresses),
        ("Gateway", &wanted.gateways),
        ("DNS", &wanted.dns),
    ];
    for (key, list) in lists {
        list.iter()
            .for_each(|item| out += &format!("{key}={item}\n"));
    }
    if !wanted.search.is_empty() {
        out += &format!("Domains={}\n", wanted.search.join(" "));
    }
    if options.given.get("enable_ipv6") == Some(&false.into()) {
        out += "LinkLocalAddressing=no\nIPv6AcceptRA=no\n";
    }
    Ok(out)
}

/// Returns the changes that write the drop-in with these routes. It takes effect once the interface
/// has its own file.
pub(super) fn routes(cx: &Exec, iface: &str, given: &[Value]) -> Result<Plan, Error> {
    let mut text = String::new();
    for route in Route::all(given)? {
        text += if text.is_empty() {
            "[Route]\n"
        } else {
            "\n[Route]\n"
        };
        text += &format!("Destination={}\n", route.to);
        route
            .via
            .iter()
            .for_each(|via| text += &format!("Gateway={via}\n"));
        route
            .metric
            .iter()
            .for_each(|metric| text += &format!("Metric={metric}\n"));
    }
    if !cx.test && read(&path(iface, "network"))?.is_empty() {
        let path = path(iface, "network");
        return Err(format!(
            "{path} does not exist: manage {iface} with network.managed before its routes"
        )
        .into());
    }
    Ok(Plan {
        new: lines(&text),
        files: vec![File::new(route_path(iface), text)],
        ..Plan::default()
    })
}
