//! Bridges, bonds and PPP connections in Debian's `/etc/network/interfaces`.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, python};

use super::File;
use super::ifupdown::is_mac;
use super::options::{Options, SWITCH, int};

/// Returns the options of a bridge.
pub(super) fn bridging(options: Options<'_>) -> Result<Map, Error> {
    let mut config = Map::new();
    let mut keep = |name: &str, value: Value| drop(config.insert(name, value));
    if let Some(ports) = options.get("ports") {
        keep(
            "ports",
            ports
                .as_list()
                .map_or_else(|| ports.clone(), |_| ports.texts().join(" ").into()),
        );
    }
    for name in ["ageing", "fd", "gcint", "hello", "maxage"] {
        if let Some(given) = options.get(name) {
            let is_float =
                given.as_float().is_some() || python::str(given).trim().parse::<f64>().is_ok();
            match is_float {
                true => keep(name, given.clone()),
                false => return Err(options.invalid(name, "float")),
            }
        }
    }
    for name in ["bridgeprio", "maxwait"] {
        match options.get(name) {
            Some(given) if given.as_int().is_some() => keep(name, given.clone()),
            Some(_) => return Err(options.invalid(name, "integer")),
            None => {}
        }
    }
    if let Some(hw) = options.get("hw") {
        let text = python::str(hw);
        let is_full = text.len() == 17 && !text.contains('.') && is_mac(&text);
        match is_full {
            true => keep("hw", hw.clone()),
            false => return Err(options.invalid("hw", "valid MAC address")),
        }
    }
    for name in ["pathcost", "portprio"] {
        if let Some(given) = options.get(name) {
            let text = python::str(given);
            let words: Vec<&str> = text.split_whitespace().collect();
            match words[..] {
                [port, number] if number.parse::<i64>().is_ok() => {
                    keep(name, format!("{port} {number}").into());
                }
                _ => return Err(options.invalid(name, "interface integer")),
            }
        }
    }
    if let Some(on) = options.switch("stp")? {
        keep("stp", if on { "on" } else { "off" }.into());
    }
    if let Some(given) = options.get("waitport") {
        let text = python::str(given);
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_time = |time: &&str| time.bytes().all(|byte| byte.is_ascii_digit());
        match words[..] {
            _ if given.as_int().is_some() => keep("waitport", given.clone()),
            [time, _, ..] if is_time(&time) => keep("waitport", words.join(" ").into()),
            _ => return Err(options.invalid("waitport", "integer [interfaces]")),
        }
    }
    Ok(config)
}

/// The modes of a bond: number, name, and the groups of options that the mode supports.
const BONDS: [(&str, &str, &[Part]); 7] = [
    ("0", "balance-rr", &[Part::Arp]),
    (
        "1",
        "active-backup",
        &[Part::Link, Part::Primary, Part::Carrier],
    ),
    ("2", "balance-xor", &[Part::Arp, Part::Hash]),
    ("3", "broadcast", &[Part::Link, Part::Carrier]),
    (
        "4",
        "802.3ad",
        &[Part::Link, Part::Lacp, Part::Carrier, Part::Hash],
    ),
    (
        "5",
        "balance-tlb",
        &[Part::Link, Part::Carrier, Part::Primary],
    ),
    (
        "6",
        "balance-alb",
        &[Part::Link, Part::Carrier, Part::Primary],
    ),
];

/// A group of options that a bond mode supports.
#[derive(Clone, Copy)]
enum Part {
    Arp,
    Carrier,
    Hash,
    Lacp,
    Link,
    Primary,
}

const BOND_MODES: &str =
    "0|1|2|3|4|5|6|balance-rr|active-backup|balance-xor|broadcast|802.3ad|balance-tlb|balance-alb";

/// Returns the options of a bond; they depend on its mode.
pub(super) fn bonding(cx: &Exec, options: Options<'_>) -> Result<Map, Error> {
    let mode = options.get("mode").ok_or_else(|| Error::missing("mode"))?;
    let mode = mode.as_str().unwrap_or_default();
    let mut modes = BONDS.iter();
    let found = modes.find(|(number, name, _)| [*number, *name].contains(&mode));
    let (number, _, parts) = found.ok_or_else(|| options.invalid("mode", BOND_MODES))?;
    let mut bond = Map::new().with("mode", *number);
    let numbers = |bond: &mut Map, defaults: &[(&str, &str)]| {
        for (name, default) in defaults {
            let given = options.number(name)?.cloned();
            bond.insert(*name, given.unwrap_or_else(|| (*default).into()));
        }
        Ok::<_, Error>(())
    };
    for part in *parts {
        match part {
            Part::Arp => {
                bond.insert("arp_ip_target", options.targets()?);
                numbers(&mut bond, &[("arp_interval", "250")])?;
            }
            Part::Link => numbers(
                &mut bond,
                &[("miimon", "100"), ("downdelay", "200"), ("updelay", "0")],
            )?,
            Part::Lacp => {
                let rate = options.get("lacp_rate").map(|rate| match rate.as_str() {
                    Some("fast") => "1".into(),
                    Some("slow") => "0".into(),
                    _ => rate.clone(),
                });
                if rate.as_ref().is_some_and(|rate| int(rate).is_none()) {
                    return Err(options.invalid("lacp_rate", "fast|1|slow|0"));
                }
                bond.insert("lacp_rate", rate.unwrap_or_else(|| "0".into()));
                numbers(&mut bond, &[("ad_select", "0")])?;
            }
            Part::Carrier if *number == "1" && is_new_ubuntu(cx) => {}
            Part::Carrier => {
                let on = options.switch("use_carrier")?;
                let carrier = on.map_or("on", |on| if on { "1" } else { "0" });
                bond.insert("use_carrier", carrier);
            }
            Part::Primary => {
                let primary = options.get("primary").cloned();
                primary.map(|primary| bond.insert("primary", primary));
            }
            Part::Hash => {
                let valid = "layer2|layer2+3|layer3+4";
                let hash = options.one_of("hashing-algorithm", valid)?.cloned();
                hash.map(|hash| bond.insert("xmit_hash_policy", hash));
            }
        }
    }
    Ok(bond)
}

fn is_new_ubuntu(cx: &Exec) -> bool {
    let release = cx.grain("osmajorrelease").parse();
    cx.grain("os") == "Ubuntu" && release.is_ok_and(|release: u32| release >= 16)
}

/// The settings of a PPP connection in the order of Salt's table; those in the second list are
/// switches.
const PPPOE: &str = "user password provider pppoe_iface holdoff maxfail lcp-echo-interval lcp-echo-failure connect mtu linkname";
const PPPOE_SWITCHES: [&str; 7] = [
    "noipdefault",
    "usepeerdns",
    "defaultroute",
    "hide-password",
    "noauth",
    "persist",
    "noaccomp",
];

/// Returns the settings of a PPP connection.
pub(super) fn pppoe(options: Options<'_>) -> Result<Map, Error> {
    let mut config = Map::new();
    for name in PPPOE.split(' ') {
        let given = options.get(name).cloned();
        given.map(|given| config.insert(name, given));
    }
    if options.get("provider").is_some_and(|it| !it.is_true()) {
        return Err(options.invalid("provider", SWITCH));
    }
    for name in PPPOE_SWITCHES {
        if let Some(on) = options.switch(name)? {
            config.insert(name, if on { "True" } else { "False" });
        }
    }
    Ok(config)
}

/// Returns pppd's file for a provider. It may contain a password, so only root can read it.
pub(super) fn peer(given: &Map) -> Result<File, Error> {
    let options = Options { iface: "", given };
    let provider = options
        .text("provider")
        .ok_or_else(|| Error::missing("provider"))?;
    if provider.contains('/') {
        return Err(format!("{provider:?} is not the name of a provider").into());
    }
    let mut out = String::new();
    let is_on = |name: &str| options.switch(name).ok().flatten() != Some(false);
    let word = |name: &str| {
        if is_on(name) {
            name.to_owned()
        } else {
            String::new()
        }
    };
    let set = |name: &str, default: &str| match options.get(name) {
        Some(given) if *given == "".into() => String::new(),
        given => format!(
            "{name} {}",
            given.map_or_else(|| default.to_owned(), python::str)
        ),
    };
    if let Some(user) = options.text("user") {
        let password = options.text("password");
        let password = password.map_or_else(String::new, |it| format!("password {it} "));
        let device = options
            .get("pppoe_iface")
            .map_or_else(|| "eth0".to_owned(), python::str);
        let lines = [
            format!("user {user}"),
            password,
            format!("plugin rp-pppoe.so {device}"),
            String::new(),
            word("noipdefault"),
            word("usepeerdns") + if is_on("usepeerdns") { " " } else { "" },
            word("defaultroute"),
            String::new(),
            set("holdoff", "15"),
            set("maxfail", "0"),
            String::new(),
            word("hide-password"),
            set("lcp-echo-interval", "20") + " ",
            set("lcp-echo-failure", "3") + " ",
            String::new(),
            word("noauth"),
            word("persist"),
            set("mtu", "1492") + " ",
            word("noaccomp"),
        ];
        out = lines.join("\n") + "\n";
        if given.get("default-asyncmap").is_some_and(Value::is_true) {
            out += "default-asyncmap";
        }
        out += "\n";
        if let Some(name) = options.get("linkname") {
            out += &format!("\nlinkname {}\n", python::str(name));
        }
        out += "\n";
    }
    Ok(File::new(format!("/etc/ppp/peers/{provider}"), out).with_mode(0o600))
}
