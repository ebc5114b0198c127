//! Parses port bindings between the host and a container, in the forms that an SLS file may
//! contain.

use value::{Map, Value};

use crate::exec::dig::is_ip;

type Parsed<T> = Result<T, String>;

/// Parses a port or a range such as `8000-8010`.
///
/// # Errors
/// Salt's message when the text is not a port or a range.
pub(crate) fn range(text: &str) -> Parsed<(i64, i64)> {
    let parts: Option<Vec<i64>> = text
        .split('-')
        .map(|part| part.trim().parse().ok())
        .collect();
    match parts.as_deref() {
        Some([one]) => Ok((*one, *one)),
        Some([start, end]) if start > end => Err(format!(
            "Start of port range ({start}) cannot be greater than end of port range ({end})"
        )),
        Some([start, end]) => Ok((*start, *end)),
        _ => Err(format!("'{text}' is non-numeric or an invalid port range")),
    }
}

/// A port of a container, and the address and port of the host that lead to it.
struct Binding {
    /// The address of the host followed by a colon, or an empty text.
    ip: String,
    /// The port of the host. If it is `None`, the program chooses a port.
    host: Option<i64>,
    port: i64,
    proto: String,
}

impl Binding {
    fn to_text(&self) -> String {
        let host = self.host.map(|host| host.to_string()).unwrap_or_default();
        let colon = match self.ip.is_empty() && self.host.is_none() {
            true => "",
            false => ":",
        };
        format!("{}{host}{colon}{}/{}", self.ip, self.port, self.proto)
    }
}

/// Returns the port bindings in the syntax of the program: `IP:HOST:PORT/PROTO`.
///
/// # Errors
/// Salt's message when a binding is invalid.
pub(crate) fn bindings(value: &Value, validate: bool) -> Parsed<Value> {
    let mut all = Vec::new();
    match value {
        Value::Map(map) => {
            for (port, bound) in map {
                of_dict(&mut all, &port.to_text(), bound)?;
            }
        }
        other => {
            for text in super::translate::list(other) {
                of_text(&mut all, &text, validate)?;
            }
        }
    }
    // If a container port has several bindings, those without an address and a host port use the
    // same port number on the host.
    let ports: Vec<(i64, String)> = all
        .iter()
        .map(|one| (one.port, one.proto.clone()))
        .collect();
    for one in &mut all {
        let same = ports
            .iter()
            .filter(|(port, proto)| *port == one.port && *proto == one.proto);
        if same.count() > 1 && one.host.is_none() && one.ip.is_empty() {
            one.host = Some(one.port);
        }
    }
    Ok(Value::list(all.iter().map(|one| one.to_text().into())))
}

fn parted(text: &str) -> (&str, String) {
    let (port, proto) = text.split_once('/').unwrap_or((text, "tcp"));
    (port, proto.to_lowercase())
}

fn of_text(all: &mut Vec<Binding>, text: &str, validate: bool) -> Parsed<()> {
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let (ip, host, port) = match parts.as_slice() {
        [""] => return Err("Empty port binding definition found".into()),
        [port] => ("", "", *port),
        ["", _] => {
            return Err(format!(
                "Empty host port in port binding definition '{text}'"
            ));
        }
        [_, ""] => {
            return Err(format!(
                "Empty container port in port binding definition '{text}'"
            ));
        }
        [host, port] => ("", *host, *port),
        [ip, _, _] if validate && !is_ip(ip) => {
            return Err(format!("'{ip}' is not a valid IP address"));
        }
        [ip, host, port] => (*ip, *host, *port),
        parts => {
            return Err(format!(
                "'{text}' is an invalid port binding definition (at most 3 components are allowed, found {})",
                parts.len()
            ));
        }
    };
    let (port, proto) = parted(port);
    let (start, end) = range(port)?;
    let hosts = match host {
        "" => None,
        host => Some(range(host)?),
    };
    if let Some((first, last)) = hosts
        && last - first != end - start
    {
        return Err(format!(
            "Host port range ({host}) does not have the same number of ports as the container port range ({port})"
        ));
    }
    let ip = if ip.is_empty() {
        String::new()
    } else {
        format!("{ip}:")
    };
    all.extend((start..=end).map(|port| Binding {
        ip: ip.clone(),
        host: hosts.map(|(first, _)| first + port - start),
        port,
        proto: proto.clone(),
    }));
    Ok(())
}

/// Adds the bindings that a dictionary contains for a port: nothing, a port, an address with a
/// port, or several of these.
fn of_dict(all: &mut Vec<Binding>, port: &str, bound: &Value) -> Parsed<()> {
    let (port, proto) = parted(port);
    let (port, _) = range(port)?;
    let binding = |ip: &str, host: &str| -> Parsed<Binding> {
        let ip = if ip.is_empty() {
            String::new()
        } else {
            format!("{ip}:")
        };
        let host = match host {
            "" => None,
            host => Some(range(host)?.0),
        };
        let proto = proto.clone();
        Ok(Binding {
            ip,
            host,
            port,
            proto,
        })
    };
    let text = |map: &Map, key: &str| map.get(key).map(Value::to_text).unwrap_or_default();
    match bound {
        Value::Null => all.push(binding("", "")?),
        Value::Map(map) => all.push(binding(&text(map, "HostIp"), &text(map, "HostPort"))?),
        Value::List(items) | Value::Tuple(items) => match items.as_slice() {
            [ip, host] if ip.as_str().is_some_and(is_ip) => {
                all.push(binding(&ip.to_text(), &host.to_text())?);
            }
            items => {
                for item in items {
                    of_dict(all, &format!("{port}/{proto}"), item)?;
                }
            }
        },
        one => {
            let one = one.to_text();
            let (ip, host) = match one.rsplit_once(':') {
                Some((ip, host)) => (ip, host),
                None if is_ip(&one) => (one.as_str(), ""),
                None => ("", one.as_str()),
            };
            all.push(binding(ip, host)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bindings_text(given: &str) -> Parsed<String> {
        let given = value::json::read(given).unwrap();
        bindings(&given, true).map(|all| all.texts().join(" "))
    }

    #[test]
    fn every_form_of_a_binding_is_one_text() {
        for (given, wanted) in [
            ("\"80, 8080:81/udp\"", "80/tcp 8080:81/udp"),
            ("[\"80-81\"]", "80/tcp 81/tcp"),
            ("[\"90-91:80-81\"]", "90:80/tcp 91:81/tcp"),
            (
                "[\"10.0.0.1:90:80\", \"10.0.0.1::81\"]",
                "10.0.0.1:90:80/tcp 10.0.0.1::81/tcp",
            ),
            // If a port has several bindings, the one without a host port uses its own number.
            ("[80, \"90:80\"]", "80:80/tcp 90:80/tcp"),
            ("{\"80\": 90, \"53/udp\": null}", "90:80/tcp 53/udp"),
            ("{\"80\": [\"10.0.0.1\", 90]}", "10.0.0.1:90:80/tcp"),
            (
                "{\"80\": [90, {\"HostPort\": \"91\"}]}",
                "90:80/tcp 91:80/tcp",
            ),
        ] {
            assert_eq!(bindings_text(given).unwrap(), wanted, "{given}");
        }
        for given in [
            "\"\"",
            "\":80\"",
            "\"80:\"",
            "\"x:1:2\"",
            "\"1:2:3:4\"",
            "\"2-1\"",
            "\"1-2:3\"",
        ] {
            assert!(bindings_text(given).is_err(), "{given}");
        }
    }
}
