//! The settings of new machines in the form of Proxmox VE.

use value::{Map, Value, secret};

use super::client::{Form, form};
use crate::driver::RUN_TAG;
use crate::spec::Spec;

/// The settings of a machine that a profile may have.
const OF_MACHINES: [&str; 15] = [
    "agent",
    "balloon",
    "ciuser",
    "cores",
    "cpu",
    "cpulimit",
    "cpuunits",
    "memory",
    "nameserver",
    "onboot",
    "ostype",
    "searchdomain",
    "sockets",
    "vga",
    "citype",
];
/// The settings of a container that a profile may have.
const OF_CONTAINERS: [&str; 14] = [
    "cores",
    "cpulimit",
    "cpuunits",
    "description",
    "features",
    "memory",
    "nameserver",
    "onboot",
    "pool",
    "rootfs",
    "searchdomain",
    "storage",
    "swap",
    "unprivileged",
];

/// Returns the tag with the token of a call.
fn tag(token: &str) -> String {
    format!("{RUN_TAG}-{token}")
}

/// Returns the tags of a list, which has several separators.
fn tags(list: &str) -> impl Iterator<Item = &str> {
    list.split([';', ',', ' ']).filter(|tag| !tag.is_empty())
}

/// Returns the token of the tags of a machine.
pub(super) fn token(list: &str) -> Option<&str> {
    tags(list).find_map(|tag| tag.strip_prefix(RUN_TAG)?.strip_prefix('-'))
}

/// Returns whether a key is a word with a number: `net0`.
pub(super) fn is_numbered(key: &str, word: &str) -> bool {
    let number = key.strip_prefix(word).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the settings of a network card with those of a profile: `virtio=MAC,bridge=vmbr0`.
fn merged(old: &str, new: &str) -> String {
    let key = |part: &str| part.split('=').next().unwrap_or_default().to_owned();
    let mut parts: Vec<String> = old
        .split(',')
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    for part in new
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        match parts.iter_mut().find(|old| key(old) == key(part)) {
            Some(old) => part.clone_into(old),
            None => parts.push(part.to_owned()),
        }
    }
    parts.join(",")
}

/// Returns a setting in the API's form, in which true is 1.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Bool(truth) => u8::from(*truth).to_string(),
        other => other.to_text(),
    }
}

/// Returns the settings of a new machine that is a clone with this configuration.
pub(super) fn configuration(spec: &Spec, token: &str, old: &Map) -> Form {
    let old_text = |key: &str| old.get(key).map(Value::to_text).unwrap_or_default();
    let mut all = Form::new();
    for (key, value) in &spec.settings {
        let (key, text) = (key.to_text(), plain(value));
        let text = match key.as_str() {
            "sshkeys" => machine::net::http::quoted(text.trim()),
            "cipassword" => {
                secret::keep(&[], value);
                text
            }
            key if is_numbered(key, "net") => merged(&old_text(key), &text),
            key if is_numbered(key, "ipconfig") || OF_MACHINES.contains(&key) => text,
            _ => continue,
        };
        all.push((key, text));
    }
    all.push((
        "tags".to_owned(),
        joined_tags(spec, token, &old_text("tags")),
    ));
    all
}

/// Returns the tags of a new machine. The token of a template is not one of them.
fn joined_tags(spec: &Spec, token: &str, old: &str) -> String {
    let own = spec.get("tags").map(Value::split_input);
    let given = own.map_or_else(|| old.to_owned(), |own| own.join(";"));
    let mut all: Vec<String> = tags(&given).map(str::to_owned).collect();
    all.retain(|tag| !tag.starts_with(RUN_TAG));
    all.push(tag(token));
    all.join(";")
}

/// Returns the settings of a new container.
pub(super) fn container(spec: &Spec, token: &str) -> Form {
    let mut all = form(&[
        ("hostname", spec.name.as_str()),
        ("tags", &joined_tags(spec, token, "")),
    ]);
    for (key, value) in &spec.settings {
        let key = key.to_text();
        if OF_CONTAINERS.contains(&key.as_str()) || is_numbered(&key, "net") {
            all.push((key, plain(value)));
        }
    }
    if let Some(keys) = spec.text("pubkey") {
        all.push(("ssh-public-keys".to_owned(), keys));
    }
    // The password of the provider is that of the API.
    let of_api = spec.provider.settings.get("password");
    if let Some(password) = spec.get("password").filter(|own| of_api != Some(*own)) {
        secret::keep(&[], password);
        all.push(("password".to_owned(), password.to_text()));
    }
    all
}
