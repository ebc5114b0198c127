//! Checks the arguments of containers and networks in an SLS file, as Salt does, and converts each
//! into one form.

use state::module::Error;
use value::{Map, Value, nested, python};

use crate::exec::dig::is_ip;

/// The type of an argument's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A text.
    Text,
    /// A whole number.
    Int,
    /// A boolean.
    Bool,
    /// A size in bytes, or with a unit such as `512m`.
    Bytes,
    /// A list of texts.
    List,
    /// A list of IP addresses.
    Addresses,
    /// A command line, or a list of its words.
    Command,
    /// Names with values, separated by `=`.
    Pairs,
    /// Host names with addresses.
    Hosts,
    /// Names with values, separated by `:`.
    Links,
    /// Paths or volumes of the host with their paths in the container.
    Binds,
    /// Labels. A label may have a name without a value.
    Labels,
    /// A dictionary.
    Dict,
    /// Device paths with weights.
    Weights,
    /// Device paths with rates in bytes per second.
    ByteRates,
    /// Device paths with rates in operations per second.
    Rates,
    /// Exposed ports.
    Ports,
    /// Ports of the host that are bound to ports of the container.
    Bindings,
    /// A restart policy.
    Restart,
    /// Resource limits of processes.
    Ulimits,
    /// A user.
    User,
    /// A list of absolute paths.
    Paths,
    /// An absolute path.
    Path,
    /// An IP address.
    Address,
    /// A network such as `10.0.0.0/8`.
    Subnet,
    /// Names with IP addresses.
    NamedAddresses,
    /// A list of dictionaries, one for each address pool of a network.
    Pools,
}

/// The arguments of a function. An argument has a name, a kind and an option of the program; an
/// alias has a name and the name of its argument.
pub(crate) struct Table {
    pub(crate) arguments: &'static [(&'static str, Kind, &'static str)],
    pub(crate) aliases: &'static [(&'static str, &'static str)],
}

type Parsed<T> = Result<T, String>;

/// Checks and converts the known arguments. Returns them in the order of the table.
///
/// # Errors
/// Salt's list of the invalid arguments, with the reason for each.
pub(crate) fn input(
    table: &Table,
    given: &Map,
    (ignore_collisions, validate): (bool, bool),
) -> Result<Map, Error> {
    let (mut invalid, mut collisions, mut known) = (Map::new(), Vec::new(), Map::new());
    for &(name, kind, _) in table.arguments {
        let aliases = table.aliases.iter().filter(|(_, real)| *real == name);
        for key in std::iter::once(name).chain(aliases.map(|(alias, _)| *alias)) {
            let Some(value) = given.get(key).filter(|value| !value.is_null()) else {
                continue;
            };
            match translated(kind, &own_form(kind, value), validate) {
                Err(problem) => {
                    invalid.insert(key, problem);
                }
                Ok(_) if known.contains(name) => collisions.push(Value::from(format!(
                    "'{key}' is an alias for '{name}', they cannot both be used"
                ))),
                Ok(value) => {
                    known.insert(name, value);
                }
            }
        }
    }
    if known.get("port_bindings").is_some()
        && known.get("publish_all_ports").is_some_and(Value::is_true)
    {
        invalid.insert(
            "port_bindings",
            "Cannot be used when publish_all_ports=True",
        );
    }
    let is_of_host = known.get("network_mode").and_then(Value::as_str) == Some("host");
    if known.contains("hostname") && is_of_host {
        invalid.insert("hostname", "Cannot be used when network_mode=True");
    }
    let mut wrong = Map::new();
    let has_invalid = !invalid.is_empty();
    if has_invalid {
        wrong.insert("invalid", invalid);
    }
    if !collisions.is_empty() && !ignore_collisions {
        wrong.insert("collisions", Value::from(collisions));
    }
    if wrong.is_empty() {
        return Ok(known);
    }
    let shown = nested::text(&wrong.into());
    Err(Error::refused(format!(
        "Failed to translate input. Additional info follows:\n\n{shown}"
    )))
}

/// Merges a list of dictionaries with one key each into one dictionary. Returns any other value
/// unchanged.
pub(crate) fn repacked(value: &Value) -> Value {
    let Some(items) = value.as_list().filter(|items| !items.is_empty()) else {
        return value.clone();
    };
    let single = |item: &Value| item.as_map().filter(|map| map.len() == 1).cloned();
    let maps: Option<Vec<Map>> = items.iter().map(single).collect();
    match maps {
        Some(maps) => {
            let mut all = Map::new();
            maps.into_iter().for_each(|map| all.update(map));
            all.into()
        }
        _ => value.clone(),
    }
}

/// Returns the value with its lists of dictionaries merged. Pools stay separate, even if they have
/// one key each.
fn own_form(kind: Kind, value: &Value) -> Value {
    match kind {
        Kind::Pools => value.clone(),
        _ => repacked(value),
    }
}

fn translated(kind: Kind, value: &Value, validate: bool) -> Parsed<Value> {
    Ok(match kind {
        Kind::Text => value.to_text().into(),
        Kind::Int => int(value)
            .map_err(|()| format!("'{}' is not an integer", value.to_text()))?
            .into(),
        Kind::Bool => value.is_true().into(),
        Kind::Bytes => int(value).map_or_else(|()| value.to_text().into(), Value::from),
        Kind::List => Value::from(list(value)),
        Kind::Addresses => {
            let all = list(value);
            all.iter().try_for_each(|one| address(one, validate))?;
            Value::from(all)
        }
        Kind::Address => {
            address(&value.to_text(), validate)?;
            value.to_text().into()
        }
        Kind::Subnet => {
            let text = value.to_text();
            if validate && !is_subnet(&text) {
                return Err(format!("'{text}' is not a valid subnet"));
            }
            text.into()
        }
        Kind::Command => match value.as_list() {
            Some(words) => Value::list(words.iter().map(|word| word.to_text().into())),
            None => value.to_text().into(),
        },
        Kind::Pairs => pairs(value, '=')?.into(),
        Kind::Links => pairs(value, ':')?.into(),
        Kind::Hosts | Kind::NamedAddresses => {
            let delimiter = if kind == Kind::Hosts { ':' } else { '=' };
            let all = pairs(value, delimiter)?;
            for one in all.values() {
                address(&one.to_text(), validate)?;
            }
            all.into()
        }
        Kind::Labels => labels(value)?.into(),
        Kind::Dict => match value {
            Value::Map(_) => value.clone(),
            other => return Err(format!("'{}' is not a dictionary", python::str(other))),
        },
        Kind::Weights | Kind::ByteRates | Kind::Rates | Kind::Restart => parted(kind, value)?,
        Kind::Ports => ports(value)?,
        Kind::Bindings => super::ports::bindings(value, validate)?,
        Kind::Ulimits => ulimits(value)?,
        Kind::User => user(value)?,
        Kind::Paths | Kind::Path => absolute(kind, value)?,
        Kind::Binds => Value::from(binds(value)?),
        Kind::Pools => {
            let all = value.as_list().unwrap_or_default();
            if all.is_empty() || all.iter().any(|pool| pool.as_map().is_none()) {
                return Err("ipam_pools must be a list of dictionaries".into());
            }
            value.clone()
        }
    })
}

/// Converts a value that consists of two parts with a colon between them.
fn parted(kind: Kind, value: &Value) -> Parsed<Value> {
    match kind {
        Kind::Weights => rows(value, ["Path", "Weight"], None, |[path, weight]| {
            let number = weight.parse::<i64>().map(Value::from);
            number.map_err(|_| format!("Weight '{weight}' for path '{path}' is not an integer"))
        }),
        Kind::Restart => {
            let names = ["Name", "MaximumRetryCount"];
            let policies = rows(value, names, Some("0"), |[_, count]| {
                let number = count.parse::<i64>().map(Value::from);
                number.map_err(|_| format!("Retry count '{count}' is non-numeric"))
            })?;
            match policies.as_list() {
                Some([one]) => Ok(one.clone()),
                _ => Err("Only one policy is permitted".into()),
            }
        }
        _ => rows(value, ["Path", "Rate"], None, |[path, rate]| {
            if !path.starts_with('/') {
                return Err(format!("Path '{path}' is not absolute"));
            }
            match rate.parse::<i64>() {
                Ok(rate) => Ok(rate.into()),
                Err(_) if kind == Kind::ByteRates => Ok(rate.into()),
                Err(_) => Err(format!("Rate '{rate}' for path '{path}' is non-numeric")),
            }
        }),
    }
}

fn user(value: &Value) -> Parsed<Value> {
    match int(value) {
        Ok(uid) if uid < 0 => Err(format!("'{uid}' is an invalid uid")),
        Ok(uid) => Ok(uid.into()),
        Err(()) if value.as_str().is_some() => Ok(value.clone()),
        Err(()) => Err("Value must be a username or uid".into()),
    }
}

fn absolute(kind: Kind, value: &Value) -> Parsed<Value> {
    let all = match kind {
        Kind::Paths => list(value),
        _ => vec![python::str(value)],
    };
    match all.iter().find(|path| !path.starts_with('/')) {
        Some(path) => Err(format!("'{path}' is not an absolute path")),
        None if kind == Kind::Paths => Ok(Value::from(all)),
        None => Ok(value.clone()),
    }
}

/// Returns bind mounts, each with the path or volume of the host and the path in the container. The
/// value is a list of texts, or a dictionary as docker's API accepts it.
fn binds(value: &Value) -> Parsed<Vec<String>> {
    let Value::Map(map) = value else {
        return Ok(list(value));
    };
    let bind = |(host, told): (&Value, &Value)| {
        let (path, mode) = match told {
            Value::Map(told) => {
                let mode = match (told.get("mode"), told.get("ro")) {
                    (Some(mode), _) => mode.to_text(),
                    (None, Some(Value::Bool(true))) => "ro".to_owned(),
                    (None, _) => "rw".to_owned(),
                };
                (told.get("bind").map(Value::to_text), mode)
            }
            path => (Some(path.to_text()), "rw".to_owned()),
        };
        let host = host.to_text();
        match path {
            Some(path) => Ok(format!("{host}:{path}:{mode}")),
            None => Err(format!("'{host}' has no `bind`")),
        }
    };
    map.iter().map(bind).collect()
}

fn int(value: &Value) -> Result<i64, ()> {
    match value {
        Value::Float(number) => Ok(*number as i64),
        other => other.to_text().trim().parse().map_err(|_| ()),
    }
}

fn address(text: &str, validate: bool) -> Parsed<()> {
    match !validate || is_ip(text) {
        true => Ok(()),
        false => Err(format!("'{text}' is not a valid IP address")),
    }
}

fn is_subnet(text: &str) -> bool {
    text.contains('/') && value::networks::Network::parse(text, true).is_ok()
}

/// Returns a list of texts. Commas separate the items of a text.
pub(crate) fn list(value: &Value) -> Vec<String> {
    match value.as_list() {
        Some(items) => items.iter().map(python::str).collect(),
        None => split(&python::str(value)),
    }
}

fn split(text: &str) -> Vec<String> {
    text.split(',').map(|word| word.trim().to_owned()).collect()
}

fn pairs(value: &Value, delimiter: char) -> Parsed<Map> {
    if let Value::Map(map) = value {
        return Ok(map.clone());
    }
    let mut all = Map::new();
    for item in list(value) {
        let Some((name, value)) = item.split_once(delimiter) else {
            return Err(format!("'{item}' is not a key{delimiter}value pair"));
        };
        all.insert(name.trim(), value.trim());
    }
    Ok(all)
}

fn labels(value: &Value) -> Parsed<Map> {
    let mut all = Map::new();
    let items = match value {
        Value::Map(map) => return Ok(map.clone()),
        Value::List(items) => items.to_vec(),
        other => split(&other.to_text())
            .into_iter()
            .map(Value::from)
            .collect(),
    };
    for item in items {
        let text = item.to_text();
        let (key, value) = match item.as_map().map(|map| (map.len(), map.first())) {
            Some((1, Some((key, value)))) => (key.to_text(), value.to_text()),
            Some(_) => return Err("Invalid label(s)".into()),
            None => match text.split_once('=') {
                Some((key, value)) => (key.trim().to_owned(), value.trim().to_owned()),
                None => (text, String::new()),
            },
        };
        all.insert(key, value);
    }
    Ok(all)
}

/// Converts texts such as `a:b` into dictionaries with the two given names. `second` checks and
/// converts the second part.
fn rows(
    value: &Value,
    [first, last]: [&str; 2],
    fill: Option<&str>,
    second: impl Fn([&str; 2]) -> Parsed<Value>,
) -> Parsed<Value> {
    let row = |item: &Value| -> Parsed<Value> {
        let (left, right) = match item {
            Value::Map(map) => {
                let text = |key: &str| map.get(key).map(Value::to_text).unwrap_or_default();
                (text(first), text(last))
            }
            other => {
                let text = other.to_text();
                let parts: Vec<&str> = text.split(':').map(str::trim).collect();
                match (parts.as_slice(), fill) {
                    ([left], Some(fill)) => ((*left).to_owned(), fill.to_owned()),
                    ([left, right], _) => ((*left).to_owned(), (*right).to_owned()),
                    (parts, fill) => {
                        let most = if fill.is_some() && parts.len() > 2 {
                            "up to "
                        } else {
                            ""
                        };
                        return Err(format!(
                            "'{text}' contains {} value(s) (expected {most}2)",
                            parts.len()
                        ));
                    }
                }
            }
        };
        let right = second([&left, &right])?;
        Ok(Map::new().with(first, left).with(last, right).into())
    };
    let items = match value {
        Value::List(items) => items.to_vec(),
        map @ Value::Map(_) => vec![map.clone()],
        other => split(&other.to_text())
            .into_iter()
            .map(Value::from)
            .collect(),
    };
    let rows: Parsed<Vec<Value>> = items.iter().map(row).collect();
    Ok(Value::from(rows?))
}

fn ports(value: &Value) -> Parsed<Value> {
    let items = match value {
        Value::List(items) => items.to_vec(),
        Value::Int(_) => vec![value.clone()],
        Value::Str(text) => split(text).into_iter().map(Value::from).collect(),
        other => {
            return Err(format!(
                "'{}' is not a valid port definition",
                python::str(other)
            ));
        }
    };
    let mut all = Vec::new();
    for item in &items {
        let text = item.to_text();
        let (range, proto) = text.split_once('/').unwrap_or((&text, "tcp"));
        let (first, last) = super::ports::range(range)?;
        all.extend((first..=last).map(|port| format!("{port}/{}", proto.to_lowercase())));
    }
    value::sorted::sort(&mut all);
    Ok(Value::from(all))
}

fn ulimits(value: &Value) -> Parsed<Value> {
    let limit = |item: &Value| -> Parsed<Value> {
        if item.as_map().is_some() {
            return Ok(item.clone());
        }
        let text = item.to_text();
        let Some((name, limits)) = text.split_once('=') else {
            return Err(format!(
                "Ulimit definition '{text}' is not in the format type=soft_limit[:hard_limit]"
            ));
        };
        let (soft, hard) = limits.split_once(':').unwrap_or((limits, limits));
        let (Ok(soft), Ok(hard)) = (soft.trim().parse::<i64>(), hard.trim().parse::<i64>()) else {
            return Err(format!("Limit '{text}' contains non-numeric value(s)"));
        };
        let name = Map::new().with("Name", name.trim());
        Ok(name.with("Soft", soft).with("Hard", hard).into())
    };
    let items = match value {
        Value::List(items) => items.to_vec(),
        map @ Value::Map(_) => vec![map.clone()],
        other => split(&other.to_text())
            .into_iter()
            .map(Value::from)
            .collect(),
    };
    let limits: Parsed<Vec<Value>> = items.iter().map(limit).collect();
    Ok(Value::from(limits?))
}
