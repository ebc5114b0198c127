//! Returns the containers of a network, which podman does not list.

use state::module::Error;
use value::{Map, Value};

use super::client::{Client, Kind};
use super::compare;

/// Returns the running containers of a network of podman, in docker's format.
///
/// # Errors
/// When the program fails.
pub(crate) fn containers(client: &Client<'_>, net: &str) -> Result<Map, Error> {
    let filter = format!("--filter=network={net}");
    let list = ["ps", "--quiet", "--no-trunc", &filter];
    let mut told = Map::new();
    for container in client.all(Kind::Container, &list)? {
        let nets = compare::nets(&container);
        let Some(own) = nets.get(net).and_then(Value::as_map) else {
            continue;
        };
        let part = |key: &str| own.get(key).map(Value::to_text).unwrap_or_default();
        let address = |ip: &str, length: &str| match part(ip) {
            ip if ip.is_empty() => ip,
            ip => format!("{ip}/{}", part(length)),
        };
        let entry = Map::new()
            .with("Name", compare::name(&container))
            .with("EndpointID", part("EndpointID"))
            .with("MacAddress", part("MacAddress"))
            .with("IPv4Address", address("IPAddress", "IPPrefixLen"))
            .with(
                "IPv6Address",
                address("GlobalIPv6Address", "GlobalIPv6PrefixLen"),
            );
        told.insert(container.get("Id").cloned().unwrap_or_default(), entry);
    }
    Ok(told)
}
