//! The network settings of the machine for Debian's ifupdown and Red Hat's init scripts.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::{File, Plan, Way, call_is_true, read, reloaded};

const DEFAULT: &str = "/etc/default/networking";
const HOSTNAME: &str = "/etc/hostname";
const RESOLV: &str = "/etc/resolv.conf";
const SYSCONFIG: &str = "/etc/sysconfig/network";

/// The format in which a distribution stores the settings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Debian,
    /// Like Debian, but without `/etc/default/networking`: the services determine whether
    /// networking is enabled.
    Ubuntu,
    RedHat,
}

fn kind(cx: &Exec) -> Result<Kind, Error> {
    match cx.grain("os_family").as_str() {
        "Debian" if cx.grain("osfullname") == "Ubuntu" => Ok(Kind::Ubuntu),
        "Debian" => Ok(Kind::Debian),
        "RedHat" => Ok(Kind::RedHat),
        family => Err(Error::refused(format!(
            "network settings are not supported for os_family {family}: only for Debian and RedHat"
        ))),
    }
}

fn invalid(option: &str, expected: &str) -> Error {
    Error::refused(format!(
        "Invalid network setting -- Setting: {option}, Expected: [{expected}]"
    ))
}

/// Returns whether an option is on. Accepts `yes`, `off`, `1` and similar values.
fn switch(option: &str, given: &str) -> Result<bool, Error> {
    match given {
        "yes" | "on" | "true" | "1" | "True" => Ok(true),
        "no" | "off" | "false" | "0" | "False" => Ok(false),
        _ => Err(invalid(option, "yes|on|true|1|True|no|off|false|0|False")),
    }
}

/// Returns the options with lower-case names and with values as text. The items of a list are
/// joined with spaces.
fn lowered(kwargs: &Map) -> Vec<(String, String)> {
    let entry = |(name, value): (&Value, &Value)| {
        let words = value.as_list().map(|list| {
            let words: Vec<String> = list.iter().map(Value::to_text).collect();
            words.join(" ")
        });
        let text = words.unwrap_or_else(|| value::python::str(value));
        (name.to_text().to_lowercase(), text)
    };
    kwargs.iter().map(entry).collect()
}

fn option<'a>(options: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = options.iter().rev().find(|(key, _)| key == name);
    found.map(|(_, value)| value.as_str())
}

/// Returns the change that these options result in.
///
/// # Errors
/// When an option is missing or invalid, or the distribution is not supported.
pub(crate) fn plan(cx: &Exec, kwargs: &Map) -> Result<Plan, Error> {
    let options = lowered(kwargs);
    match kind(cx)? {
        Kind::RedHat => red_hat(&read(SYSCONFIG)?, &options),
        kind => debian(kind, current(cx, kind)?, &options),
    }
}

/// The settings on Debian.
#[derive(Clone, Default)]
struct Settings {
    networking: String,
    hostname: String,
    domain: String,
    search: String,
}

impl Settings {
    fn lines(&self) -> Vec<String> {
        let named = [
            ("NETWORKING", &self.networking),
            ("HOSTNAME", &self.hostname),
            ("DOMAIN", &self.domain),
            ("SEARCH", &self.search),
        ];
        let set = named.iter().filter(|(_, value)| !value.is_empty());
        set.map(|(name, value)| format!("{name}={value}\n"))
            .collect()
    }
}

/// Returns the words after a directive of `resolv.conf`.
fn resolver(text: &str, directive: &str) -> String {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let words = words
            .next()
            .filter(|word| *word == directive)
            .map(|_| words)?;
        let words: Vec<&str> = words
            .take_while(|word| !word.starts_with(['#', ';']))
            .collect();
        Some(words.join(" "))
    };
    text.lines()
        .filter_map(line)
        .next_back()
        .unwrap_or_default()
}

fn current(cx: &Exec, kind: Kind) -> Result<Settings, Error> {
    let resolv = read(RESOLV)?;
    let host = read(HOSTNAME)?;
    let networking = match kind {
        Kind::Ubuntu => {
            let up = call_is_true(cx, "service.available", "networking")?
                && call_is_true(cx, "service.status", "networking")?;
            yes_or_no(up).to_owned()
        }
        _ => configured(&read(DEFAULT)?),
    };
    // Only the host name is compared. The domain has a separate field.
    let host = host.lines().next().unwrap_or_default();
    let host = host.split('.').next().unwrap_or_default();
    Ok(Settings {
        networking,
        hostname: host.trim().to_owned(),
        domain: resolver(&resolv, "domain"),
        search: resolver(&resolv, "search"),
    })
}

/// Returns the value of `CONFIGURE_INTERFACES` in `/etc/default/networking`.
fn configured(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| line.starts_with("CONFIGURE_INTERFACES"));
    let value = lines.filter_map(|line| line.split_once('=')).next_back();
    value.map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

fn debian(kind: Kind, old: Settings, options: &[(String, String)]) -> Result<Plan, Error> {
    let networking = option(options, "enabled").unwrap_or(&old.networking);
    let on = switch("networking", networking)?;
    let full = option(options, "hostname").unwrap_or(&old.hostname);
    if full.is_empty() {
        return Err(invalid("hostname", "server1.example.com"));
    }
    let (host, domain) = full.split_once('.').unwrap_or((full, &old.domain));
    let new = Settings {
        networking: yes_or_no(on).to_owned(),
        hostname: host.to_owned(),
        domain: domain.to_owned(),
        search: option(options, "search").unwrap_or(&old.search).to_owned(),
    };
    let mut files = Vec::new();
    if kind == Kind::Debian {
        files.push(File::new(DEFAULT, defaults(&new.networking)));
    }
    if new.domain != old.domain || new.search != old.search {
        files.push(File::new(RESOLV, resolved(&read(RESOLV)?, &new)));
    }
    Ok(Plan {
        old: old.lines(),
        new: new.lines(),
        files,
        services: (kind == Kind::Ubuntu).then_some(on),
        ..Plan::default()
    })
}

fn defaults(networking: &str) -> String {
    format!(
        "# Configuration for networking init script being run during\n# the boot sequence\n\n# Set to 'no' to skip interfaces configuration on boot\nCONFIGURE_INTERFACES={networking}\n\n# Don't configure these interfaces. Shell wildcards supported/\n#EXCLUDE_INTERFACES=\n\n# Set to 'yes' to enable additional verbosity\n#VERBOSE=no"
    )
}

/// Returns the text of `resolv.conf` with new lines for the domain and the search list. If it had
/// no such lines, they become the first ones.
fn resolved(text: &str, new: &Settings) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (directive, value) in [("search", &new.search), ("domain", &new.domain)] {
        let is_it = |line: &&mut String| line.split_whitespace().next() == Some(directive);
        let line = format!("{directive} {value}");
        match lines.iter_mut().rev().find(is_it) {
            Some(found) => *found = line,
            None if value.is_empty() => {}
            None => lines.insert(0, line),
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The settings in Red Hat's file, in the order of the file.
const KEYS: [&str; 9] = [
    "networking",
    "networking_ipv6",
    "hostname",
    "gateway",
    "gatewaydev",
    "nisdomain",
    "networkdelay",
    "devtimeout",
    "nozeroconf",
];

fn unquoted(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

fn red_hat(text: &str, options: &[(String, String)]) -> Result<Plan, Error> {
    let pair = |line: &str| {
        let (name, value) = line.trim().split_once('=')?;
        let is_set = !name.starts_with(['#', '!']);
        is_set.then(|| (name.trim().to_lowercase(), value.trim().to_owned()))
    };
    let old: Vec<(String, String)> = text.lines().filter_map(pair).collect();
    let was = |name: &str| option(&old, name);
    // If the switch is copied from the old file and has quotes, all values get the same quotes.
    let quote = match was("networking") {
        Some(value) if option(options, "enabled").is_none() && unquoted(value) != value => {
            value.get(..1).unwrap_or_default()
        }
        _ => "",
    };
    let networking = option(options, "enabled").or_else(|| was("networking"));
    let on = switch("networking", unquoted(networking.unwrap_or_default()))?;
    let retains = option(options, "retain_settings") == Some("True");
    let mut lines = Vec::new();
    for key in KEYS {
        let value = match (key, option(options, key)) {
            ("networking", _) => Some(yes_or_no(on)),
            ("nozeroconf", Some(given)) => Some(yes_or_no(switch(key, unquoted(given))?)),
            ("hostname", given) => {
                let host = given
                    .or_else(|| was(key))
                    .map(unquoted)
                    .filter(|host| !host.is_empty());
                Some(host.ok_or_else(|| invalid(key, "server1.example.com"))?)
            }
            (_, Some(given)) => Some(unquoted(given)),
            (_, None) => {
                let kept = was(key).filter(|_| retains);
                lines.extend(kept.map(|value| format!("{}={value}", key.to_uppercase())));
                None
            }
        };
        lines.extend(value.map(|value| format!("{}={quote}{value}{quote}", key.to_uppercase())));
    }
    if option(options, "enable_ipv6").is_some_and(|value| value != "False") {
        lines.push("IPV6INIT=\"yes\"".to_owned());
    }
    if let Some(gateway) = option(options, "ipv6gateway") {
        lines.push(format!("IPV6_DEFAULTGW=\"{}\"", unquoted(gateway)));
    }
    Ok(Plan {
        old: text.lines().map(str::to_owned).collect(),
        files: vec![File::new(SYSCONFIG, format!("{}\n", lines.join("\n")))],
        new: lines,
        ..Plan::default()
    })
}

fn yes_or_no(on: bool) -> &'static str {
    if on { "yes" } else { "no" }
}

/// Returns the current settings.
///
/// # Errors
/// When a file cannot be read, or the distribution is not supported.
pub(super) fn now(cx: &Exec) -> Result<Vec<String>, Error> {
    Ok(match kind(cx)? {
        Kind::RedHat => read(SYSCONFIG)?.lines().map(str::to_owned).collect(),
        kind => current(cx, kind)?.lines(),
    })
}

/// Sets the host name if that is requested, and restarts the network unless a reboot is required.
/// Returns whether that succeeded.
///
/// # Errors
/// When the name is refused.
pub(crate) fn apply(cx: &Exec, kwargs: &Map) -> Result<bool, Error> {
    let options = lowered(kwargs);
    let is_on = |name: &str| {
        let given = option(&options, name).unwrap_or("no");
        switch(name, given).unwrap_or(false)
    };
    let named = match option(&options, "hostname").filter(|_| is_on("apply_hostname")) {
        Some(host) => call_is_true(cx, "network.mod_hostname", host)?,
        None if is_on("apply_hostname") => {
            log::warning("apply_hostname is set, but no hostname is given");
            false
        }
        None => true,
    };
    if is_on("require_reboot") {
        log::warning("The network settings take effect after the next reboot");
        return Ok(named);
    }
    Ok(restarted(cx)? && named)
}

/// Restarts the network service of this machine. Returns whether that succeeded.
fn restarted(cx: &Exec) -> Result<bool, Error> {
    let way = Way::detect(cx);
    let is_reloaded = matches!(
        way,
        Ok(Way::Netplan | Way::Manager | Way::Networkd | Way::OpenWrt)
    );
    let is_old = |major: String| major.parse().is_ok_and(|major: u32| major < 8);
    let (service, verbs): (_, &[_]) = match kind(cx) {
        _ if matches!(way, Ok(Way::Netplan)) => ("", &[]),
        Ok(Kind::Debian | Kind::Ubuntu) => ("networking", &["service.stop", "service.start"]),
        Ok(Kind::RedHat) if is_old(cx.grain("osmajorrelease")) => ("network", &["service.restart"]),
        Ok(Kind::RedHat) => ("NetworkManager", &["service.restart"]),
        Err(_) if is_reloaded => ("", &[]),
        Err(error) => return Err(error),
    };
    if !service.is_empty() && call_is_true(cx, "service.available", service)? {
        for verb in verbs {
            if !call_is_true(cx, verb, service)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    match way {
        Ok(way) if is_reloaded => Ok(reloaded(cx, way)?.success()),
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolv_conf_keeps_what_it_has_besides() {
        let new = Settings {
            domain: "example.org".to_owned(),
            search: "example.org example.com".to_owned(),
            ..Settings::default()
        };
        let text = "# by hand\nnameserver 9.9.9.9\nsearch old.example\n";
        assert_eq!(
            resolved(text, &new),
            "domain example.org\n# by hand\nnameserver 9.9.9.9\nsearch example.org example.com\n"
        );
    }

    #[test]
    fn red_hats_file_keeps_its_quotes_and_what_is_retained() {
        let options = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let owned = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
            pairs.iter().map(owned).collect()
        };
        let old = "# a comment\nNETWORKING=\"yes\"\nHOSTNAME=\"a.example\"\nGATEWAY=\"10.0.0.1\"\n";
        let plan = red_hat(
            old,
            &options(&[("retain_settings", "True"), ("nozeroconf", "on")]),
        );
        assert_eq!(
            plan.unwrap().new,
            [
                "NETWORKING=\"yes\"",
                "HOSTNAME=\"a.example\"",
                "GATEWAY=\"10.0.0.1\"",
                "NOZEROCONF=\"yes\""
            ]
        );
        let error = red_hat("", &options(&[("enabled", "maybe")])).err();
        assert!(error.unwrap().to_string().contains("Setting: networking"));
    }
}
