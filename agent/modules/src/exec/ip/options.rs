//! The settings of an interface that the Debian and Red Hat formats share, and their checks.

use state::module::Error;
use value::python;
use value::{Map, Value};

/// The valid values of a switch.
pub(super) const SWITCH: &str = "yes|on|true|1|True|no|off|false|0|False";

/// The settings of an interface.
#[derive(Clone, Copy)]
pub(super) struct Options<'a> {
    pub(super) iface: &'a str,
    pub(super) given: &'a Map,
}

/// Returns the result of Python's `int(value)`.
pub(super) fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(truth) => Some(i64::from(*truth)),
        Value::Float(number) => Some(*number as i64),
        Value::Str(text) => text.trim().parse().ok(),
        other => other.as_int(),
    }
}

/// Returns whether a switch is on; `None` if the value is not a valid switch.
fn is_on(value: &Value) -> Option<bool> {
    match value.as_str() {
        Some("yes" | "on" | "true" | "1") => Some(true),
        Some("no" | "off" | "false" | "0") => Some(false),
        Some(_) => None,
        None if *value == Value::Bool(true) => Some(true),
        None if *value == Value::Bool(false) => Some(false),
        None => None,
    }
}

/// Returns the items of a list, or the words of a text.
pub(super) fn words(value: Option<&Value>) -> Vec<String> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::List(_) | Value::Tuple(_)) => value.map(Value::texts).unwrap_or_default(),
        Some(other) => {
            let text = python::str(other);
            let words = text.split(|c: char| c.is_whitespace() || c == ',' || c == ';');
            let words = words.filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        }
    }
}

impl<'a> Options<'a> {
    /// Returns the error for an invalid option, in Salt's words.
    pub(super) fn invalid(self, option: &str, expected: &str) -> Error {
        let iface = self.iface;
        Error::refused(format!(
            "Invalid option -- Interface: {iface}, Option: {option}, Expected: [{expected}]"
        ))
    }

    pub(super) fn get(self, name: &str) -> Option<&'a Value> {
        self.given.get(name)
    }

    /// Returns a setting as text, if it is given and true.
    pub(super) fn text(self, name: &str) -> Option<String> {
        let given = self.get(name).filter(|value| value.is_true());
        given.map(python::str)
    }

    /// Returns whether a switch is on, if it is given.
    pub(super) fn switch(self, name: &str) -> Result<Option<bool>, Error> {
        let Some(given) = self.get(name) else {
            return Ok(None);
        };
        let on = is_on(given).ok_or_else(|| self.invalid(name, SWITCH))?;
        Ok(Some(on))
    }

    /// Returns a setting unchanged if it is one of the valid values; an error if it is another
    /// value.
    pub(super) fn one_of(self, name: &str, valid: &str) -> Result<Option<&'a Value>, Error> {
        let Some(given) = self.get(name) else {
            return Ok(None);
        };
        let text = python::str(given);
        match valid.split('|').any(|valid| valid == text) {
            true => Ok(Some(given)),
            false => Err(self.invalid(name, valid)),
        }
    }

    /// Returns a setting unchanged if it is an integer; an error if it is another value.
    pub(super) fn number(self, name: &str) -> Result<Option<&'a Value>, Error> {
        match self.get(name) {
            Some(given) if int(given).is_none() => Err(self.invalid(name, "integer")),
            given => Ok(given),
        }
    }

    /// Returns the ARP targets: up to sixteen addresses, with commas between them.
    pub(super) fn targets(self) -> Result<String, Error> {
        let given = self.get("arp_ip_target").and_then(Value::as_list);
        let given = given.filter(|given| (1..=16).contains(&given.len()));
        let given = given.ok_or_else(|| self.invalid("arp_ip_target", "list of ips (up to 16)"))?;
        let given: Vec<String> = given.iter().map(python::str).collect();
        Ok(given.join(","))
    }

    /// Returns the settings of the link negotiation: `autoneg`, `duplex` and `speed`.
    pub(super) fn link(self) -> Result<Map, Error> {
        let mut link = Map::new();
        if let Some(on) = self.switch("autoneg")? {
            link.insert("autoneg", on_or_off(on));
        }
        if let Some(duplex) = self.one_of("duplex", "full|half")? {
            link.insert("duplex", duplex.clone());
        }
        let valid = "10|100|1000|10000";
        match (self.one_of("speed", valid), self.get("speed")) {
            (Ok(Some(speed)), _) => drop(link.insert("speed", speed.clone())),
            (Err(_), Some(given)) => return Err(self.invalid(&python::str(given), valid)),
            _ => {}
        }
        Ok(link)
    }

    /// Returns the offload settings of the device.
    pub(super) fn offloads(self) -> Result<Map, Error> {
        let mut config = Map::new();
        for name in ["rx", "tx", "sg", "tso", "ufo", "gso", "gro", "lro"] {
            if let Some(on) = self.switch(name)? {
                config.insert(name, on_or_off(on));
            }
        }
        Ok(config)
    }
}

fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}
