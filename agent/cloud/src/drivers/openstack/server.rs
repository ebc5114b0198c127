//! Servers of Nova: those of its answers, and the request for a new one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use value::{Map, Value};

use super::{Found, OPENSTACK};
use crate::driver::{Machine, RUN_TAG, Wanted};
use crate::drivers::api::{address, field};
use crate::drivers::sorted_addresses;
use crate::fault::Fault;
use crate::spec::Spec;

/// The size of a new volume in GiB, unless `volume_size` is another one.
const VOLUME_GIB: i64 = 50;

/// Returns the addresses of a server: those for everyone, and the others.
fn addresses(server: &Value) -> (Vec<String>, Vec<String>) {
    let networks = server.get("addresses").and_then(Value::as_map);
    let networks = networks.into_iter().flat_map(Map::values);
    let all = networks.flat_map(|network| network.as_list().unwrap_or_default());
    let is_floating = |one: &&Value| one.get("OS-EXT-IPS:type") == Some(&"floating".into());
    let (floating, fixed): (Vec<_>, Vec<_>) = all.partition(is_floating);
    let texts = |all: Vec<&Value>| {
        let texts = all
            .into_iter()
            .filter_map(|one| address(&field(one, "addr")));
        texts.collect::<Vec<_>>()
    };
    let (private, public) = sorted_addresses(&texts(fixed));
    ([texts(floating), public].concat(), private)
}

/// Returns a server of an answer.
pub(super) fn machine(server: &Value) -> Option<Machine> {
    let id = field(server, "id");
    let (public_ips, private_ips) = addresses(server);
    let token = field(server, &format!("metadata:{RUN_TAG}"));
    let (state, reason) = (field(server, "status"), field(server, "fault:message"));
    (!id.is_empty()).then(|| Machine {
        name: field(server, "name"),
        id,
        image: field(server, "image:id"),
        size: field(server, "flavor:id"),
        state: match reason.is_empty() {
            true => state,
            false => format!("{state}: {reason}"),
        },
        public_ips,
        private_ips,
        token: Some(token).filter(|token| !token.is_empty()),
        full: server.as_map().cloned().unwrap_or_default(),
    })
}

/// Returns a network of Nova in its words: `net-id`, `port-id` and `v4-fixed-ip` are those of its
/// client.
///
/// # Errors
/// When it has neither a network nor a port.
pub(super) fn nic(given: &Map) -> Result<Map, Fault> {
    let mut nic = Map::new();
    for (name, keys) in [
        ("uuid", ["uuid", "net-id"]),
        ("port", ["port", "port-id"]),
        ("fixed_ip", ["fixed_ip", "v4-fixed-ip"]),
    ] {
        if let Some(value) = keys.iter().find_map(|key| given.get(key)) {
            nic.insert(name, value.to_text());
        }
    }
    match nic.contains("uuid") || nic.contains("port") {
        true => Ok(nic),
        false => Err(Fault::wrong(format!(
            "{OPENSTACK}: a network of the profile needs net-id or port-id"
        ))),
    }
}

/// Returns the disk to start from, if it is a volume.
fn volume(spec: &Spec, image: Option<&str>) -> Option<Map> {
    let disk = Map::new()
        .with("boot_index", 0)
        .with("destination_type", "volume")
        .with(
            "delete_on_termination",
            spec.flag("terminate_volume", false),
        );
    if let Some(volume) = spec.text("boot_volume") {
        return Some(disk.with("source_type", "volume").with("uuid", volume));
    }
    let image = image.filter(|_| spec.flag("boot_from_volume", false))?;
    let size = spec.get("volume_size").and_then(Value::as_int);
    let disk = disk.with("source_type", "image").with("uuid", image);
    Some(disk.with("volume_size", size.unwrap_or(VOLUME_GIB)))
}

/// Returns the request for a new server.
///
/// # Errors
/// When a setting is not well formed.
pub(super) fn wanted(wanted: &Wanted<'_>, found: &Found) -> Result<Map, Fault> {
    let spec = wanted.spec;
    let mut metadata = Map::new();
    for (key, value) in &spec.map("meta") {
        metadata.insert(key.to_text(), value.to_text());
    }
    let mut body = Map::new()
        .with("name", spec.name.as_str())
        .with("flavorRef", found.flavor.as_str())
        .with("metadata", metadata.with(RUN_TAG, wanted.token));
    match volume(spec, found.image.as_deref()) {
        Some(disk) => body.insert("block_device_mapping_v2", Value::list([disk.into()])),
        None => body.insert("imageRef", found.image.clone()),
    };
    for (name, keys) in [
        ("key_name", ["ssh_key_name", "key_name"]),
        ("availability_zone", ["availability_zone", "location"]),
    ] {
        if let Some(text) = keys.iter().find_map(|key| spec.text(key)) {
            body.insert(name, text);
        }
    }
    if let Some(groups) = spec.get("security_groups") {
        let groups = groups.split_input().into_iter();
        let groups = groups.map(|group| Map::new().with("name", group).into());
        body.insert("security_groups", Value::list(groups));
    }
    if !found.networks.is_empty() {
        let networks = found.networks.iter().cloned().map(Value::from);
        body.insert("networks", Value::list(networks));
    }
    if spec.get("config_drive").is_some() {
        body.insert("config_drive", spec.flag("config_drive", false));
    }
    if let Some(data) = wanted.user_data {
        body.insert("user_data", STANDARD.encode(data));
    }
    Ok(body)
}
