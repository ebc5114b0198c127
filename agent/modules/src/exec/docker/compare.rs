//! Compares two containers, or two networks. Applies Salt's rules to docker's format.

use value::{Map, Value, sorted};

/// The keys to ignore. They only describe how the program was attached to the container, or differ
/// between the programs; no user has set them.
const IGNORED: [&str; 8] = [
    "AttachStderr",
    "AttachStdin",
    "AttachStdout",
    "ConsoleSize",
    "CreateCommand",
    "Hostname",
    "MacAddress",
    "StdinOnce",
];

/// The lists whose order is irrelevant.
const UNORDERED: [&str; 9] = [
    "Binds",
    "CapAdd",
    "CapDrop",
    "Env",
    "ExtraHosts",
    "GroupAdd",
    "Links",
    "SecurityOpt",
    "Ulimits",
];

/// The parts of a container that are compared, as docker and Salt call them.
const PARTS: [&str; 2] = ["Config", "HostConfig"];

/// The parts of a network connection that are compared, and the addresses that are reported when
/// one side is assigned automatically.
const STATIC: [&str; 3] = ["Aliases", "Links", "IPAMConfig"];
pub(crate) const AUTOMATIC: [&str; 4] =
    ["IPAddress", "Gateway", "GlobalIPv6Address", "IPv6Gateway"];

/// Returns a change from an old to a new value.
pub(crate) fn from_to(old: impl Into<Value>, new: impl Into<Value>) -> Value {
    Map::new().with("old", old).with("new", new).into()
}

fn part<'a>(container: &'a Map, key: &str) -> Option<&'a Map> {
    container.get(key)?.as_map()
}

/// Returns the name of a container without docker's leading slash.
pub(crate) fn name(container: &Map) -> String {
    let name = container
        .get("Name")
        .map(Value::to_text)
        .unwrap_or_default();
    name.trim_start_matches('/').to_owned()
}

/// Returns the comparable settings of a container, in a form that does not depend on the program
/// that created it.
fn comparable(container: &Map, key: &str) -> Map {
    let mut all = part(container, key).cloned().unwrap_or_default();
    all.retain(|key, _| key.as_str().is_none_or(|key| !IGNORED.contains(&key)));
    match key {
        "Config" => config(container, &mut all),
        _ => host_config(&name(container), &mut all),
    }
    all
}

/// Sorts a list whose order is irrelevant. Returns `None` for any other value.
fn ordered(item: &str, value: &Value) -> Option<Value> {
    let mut items = value
        .as_list()
        .filter(|_| UNORDERED.contains(&item))?
        .to_vec();
    sorted::sort_by_key(&mut items, |item| match item.as_map() {
        Some(limit) => ["Name", "Hard", "Soft"]
            .map(|key| limit.get(key).cloned())
            .map(text),
        None => [item.to_text(), String::new(), String::new()],
    });
    Some(items.into())
}

fn text(value: Option<Value>) -> String {
    value.as_ref().map(Value::to_text).unwrap_or_default()
}

fn config(container: &Map, all: &mut Map) {
    if let Some(image) = container.get("Image") {
        all.insert("Image", image.clone());
    }
    // Podman sets the name of the container as an environment variable.
    let host = part(container, "Config").and_then(|config| config.get("Hostname"));
    if let (Some(host), Some(env)) = (host, all.get("Env").map(Value::texts)) {
        let own = format!("HOSTNAME={}", host.to_text());
        let env = env.into_iter().filter(|one| *one != own);
        all.insert("Env", env.collect::<Vec<_>>());
    }
    // Salt's API client declares a volume for each path of a bind mount. The program does not.
    let binds = part(container, "HostConfig").and_then(|host| host.get("Binds"));
    let binds = binds.map(Value::texts).unwrap_or_default();
    if let Some(Value::Map(volumes)) = all.get_mut("Volumes") {
        volumes.retain(|path, _| {
            let path = path.to_text();
            !binds
                .iter()
                .any(|bind| bind.split(':').nth(1) == Some(&path))
        });
    }
}

/// Removes the variable `HOME`, which podman adds to a container when it starts, unless the new
/// container sets it.
fn without_home(old: &mut Map, new: &Map) {
    let texts = |of: &Map| of.get("Env").map(Value::texts).unwrap_or_default();
    let is_home = |one: &String| one.starts_with("HOME=");
    let (mut has, wanted) = (texts(old), texts(new));
    if has.iter().any(|one| one == "container=podman") && !wanted.iter().any(is_home) {
        has.retain(|one| !is_home(one));
        old.insert("Env", has);
    }
}

fn host_config(name: &str, all: &mut Map) {
    // The program returns an empty list where Salt's API client returned null.
    for (_, value) in all.iter_mut() {
        if matches!(value, Value::Map(_) | Value::List(_)) && !value.is_true() {
            *value = Value::Null;
        }
    }
    if let Some(links) = all.get("Links").filter(|links| !links.is_null()) {
        let scope = format!("/{name}/");
        let links = links
            .texts()
            .into_iter()
            .map(|link| link.replacen(&scope, "/", 1));
        all.insert("Links", links.collect::<Vec<_>>());
    }
    if let Some(Value::Map(policy)) = all.get_mut("RestartPolicy")
        && policy.get("Name").and_then(Value::as_str) == Some("no")
    {
        policy.insert("Name", "");
    }
    if let Some(Value::Map(log)) = all.get_mut("LogConfig") {
        // Podman adds the path and the current size of the container's log file.
        log.retain(|key, _| !matches!(key.as_str(), Some("Path" | "Size")));
    }
    if matches!(
        all.get("NetworkMode").and_then(Value::as_str),
        Some("default" | "")
    ) {
        all.insert("NetworkMode", "bridge");
    }
}

/// Returns the command line of a container: its entry point and its command. An entry point with
/// several words can be stored in two ways.
fn argv(config: &Map) -> Vec<String> {
    let words = |key: &str| {
        let words = config.get(key).filter(|words| words.is_true());
        words.map_or_else(Vec::new, |words| match words {
            Value::Str(line) => vec![line.to_string()],
            words => words.texts(),
        })
    };
    let mut all = words("Entrypoint");
    all.extend(words("Cmd"));
    all
}

/// Returns the changes that would turn the first container into the second.
pub(crate) fn containers(first: &Map, second: &Map, ignore: &[String]) -> Map {
    let mut changes = Map::new();
    for key in PARTS {
        let (mut old, new) = (comparable(first, key), comparable(second, key));
        without_home(&mut old, &new);
        let is_same_start = key == "Config" && argv(&old) == argv(&new);
        let mut found = Map::new();
        for item in old.keys().chain(new.keys()).map(Value::to_text) {
            let is_start = matches!(item.as_str(), "Cmd" | "Entrypoint");
            if found.contains(&item) || ignore.contains(&item) || (is_start && is_same_start) {
                continue;
            }
            let value = |of: &Map| of.get(&item).cloned().unwrap_or_default();
            let (mut old, mut new) = (value(&old), value(&new));
            let both = (ordered(&item, &old), ordered(&item, &new));
            if let (Some(first), Some(second)) = both {
                (old, new) = (first, second);
            }
            if differ(&item, &old, &new) {
                found.insert(item, from_to(old, new));
            }
        }
        if !found.is_empty() {
            changes.insert(key, found);
        }
    }
    changes
}

/// Reports whether two values differ. Docker uses null and an empty list for the same value.
fn differ(item: &str, old: &Value, new: &Value) -> bool {
    match item == "OomKillDisable" || old.is_null() || new.is_null() {
        true => old.is_true() != new.is_true(),
        false => old != new && (old.is_true() || new.is_true()),
    }
}

/// Returns the networks of a container.
pub(crate) fn nets(container: &Map) -> Map {
    let nets = part(container, "NetworkSettings").and_then(|settings| settings.get("Networks"));
    nets.and_then(Value::as_map).cloned().unwrap_or_default()
}

/// Returns a property of a container's network connection, without the entries that every container
/// has.
fn connection_property(container: &Map, net: &Map, key: &str) -> Value {
    let value = net.get(key).cloned().unwrap_or_default();
    let Some(items) = value.as_list() else {
        return value;
    };
    let host = part(container, "Config").and_then(|config| config.get("Hostname"));
    let host = host.map(Value::to_text);
    let id = container.get("Id").map(Value::to_text).unwrap_or_default();
    let is_own = |item: &Value| {
        let item = item.to_text();
        key == "Aliases" && (Some(&item) == host.as_ref() || id.get(..12) == Some(&item))
    };
    let mut items: Vec<Value> = items.iter().filter(|item| !is_own(item)).cloned().collect();
    sorted::sort_by_key(&mut items, Value::to_text);
    match items.is_empty() {
        true => Value::Null,
        false => Value::from(items),
    }
}

/// Returns the changes that would turn the first container's networks into those of the second.
pub(crate) fn networks(first: &Map, second: &Map) -> Map {
    let (nets1, nets2) = (nets(first), nets(second));
    let mut changes = Map::new();
    for name in nets1.keys().chain(nets2.keys()).map(Value::to_text) {
        if changes.contains(&name) {
            continue;
        }
        let net = |nets: &Map| nets.get(&name).and_then(Value::as_map).cloned();
        let (old, new) = (net(&nets1), net(&nets2));
        let mut found = Map::new();
        for key in STATIC {
            let value = |container: &Map, net: &Option<Map>| {
                net.as_ref()
                    .map(|net| connection_property(container, net, key))
                    .unwrap_or_default()
            };
            let values = (value(first, &old), value(second, &new));
            if key == "IPAMConfig" {
                addresses(&mut found, (old.as_ref(), new.as_ref()), values);
            } else if values.0 != values.1 && (values.0.is_true() || values.1.is_true()) {
                found.insert(key, from_to(values.0, values.1));
            }
        }
        if !found.is_empty() {
            changes.insert(name, found);
        }
    }
    changes
}

/// Compares how a container gets its addresses in a network. `old` and `new` are the network
/// connections, `was` and `is` their fixed addresses.
fn addresses(found: &mut Map, (old, new): (Option<&Map>, Option<&Map>), (was, is): (Value, Value)) {
    let word = |net: Option<&Map>, fixed: &Value| match net {
        None => "not connected",
        Some(_) if fixed.is_true() => "static",
        Some(_) => "automatic",
    };
    let (before, after) = (word(old, &was), word(new, &is));
    if before == after {
        if was != is && (was.is_true() || is.is_true()) {
            found.insert("IPAMConfig", from_to(was, is));
        }
        return;
    }
    let mut any = false;
    let mut chosen = |found: &mut Map, net: Option<&Map>, is_old: bool| {
        for key in AUTOMATIC {
            let value = net
                .and_then(|net| net.get(key))
                .filter(|value| value.is_true());
            if let Some(value) = value.cloned() {
                any = true;
                let (old, new) = match is_old {
                    true => (value, Value::Null),
                    false => (Value::Null, value),
                };
                found.insert(key, from_to(old, new));
            }
        }
    };
    match (before, after) {
        ("automatic", _) => chosen(found, old, true),
        (_, "automatic") => chosen(found, new, false),
        _ => any = true,
    }
    if before == "static" || after == "static" {
        let value = |value: Value| if value.is_true() { value } else { Value::Null };
        found.insert("IPAMConfig", from_to(value(was), value(is)));
    }
    if !any {
        found.insert("IPConfiguration", from_to(before, after));
    }
}

/// Returns the changes that would turn the first network into the second.
pub(crate) fn two_networks(first: &Map, second: &Map, ignore: &[String]) -> Map {
    let mut changes = Map::new();
    for item in first.keys().chain(second.keys()).map(Value::to_text) {
        if ignore.contains(&item) || changes.contains(&item) {
            continue;
        }
        let value = |of: &Map| of.get(&item).cloned().unwrap_or_default();
        let (old, new) = (value(first), value(second));
        if !old.is_true() && !new.is_true() {
            continue;
        }
        let found = match item.as_str() {
            "IPAM" => within(&pooled(&old), &pooled(&new), ""),
            "Options" => within(&old, &new, "com.docker.network.bridge.name"),
            _ if old != new => {
                changes.insert(item, from_to(old, new));
                continue;
            }
            _ => Map::new(),
        };
        if !found.is_empty() {
            changes.insert(item, found);
        }
    }
    changes
}

/// Returns the differences between two dictionaries, by key.
fn within(old: &Value, new: &Value, ignored: &str) -> Map {
    let keys = [old, new]
        .into_iter()
        .filter_map(Value::as_map)
        .flat_map(Map::keys);
    let mut found = Map::new();
    for key in keys.map(Value::to_text).filter(|key| key != ignored) {
        let value = |of: &Value| of.get(&key).cloned().unwrap_or_default();
        let (old, new) = (value(old), value(new));
        if old != new && (old.is_true() || new.is_true()) {
            found.insert(key, from_to(old, new));
        }
    }
    found
}

/// Returns the IPAM settings with the pools sorted by subnet.
fn pooled(ipam: &Value) -> Value {
    let Some(map) = ipam.as_map() else {
        return ipam.clone();
    };
    let mut map = map.clone();
    if let Some(Value::List(pools)) = map.get_mut("Config") {
        let mut own = pools.to_vec();
        sorted::sort_by_key(&mut own, |pool| pool.get("Subnet").map(Value::to_text));
        *pools = own.into();
    }
    map.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json;

    #[test]
    fn who_made_a_container_and_in_which_words_is_no_difference() {
        let salts = json(
            r#"{"Name": "/a", "Config": {"AttachStdout": true, "Cmd": ["b", "c"], "Entrypoint": ["a"], "Env": ["B=1", "A=2"],
                "Volumes": {"/x": {}}, "Hostname": "h"}, "HostConfig": {"Binds": ["/y:/x:ro"], "Dns": null,
                "RestartPolicy": {"Name": "", "MaximumRetryCount": 0}, "NetworkMode": "default"}}"#,
        );
        let ours = json(
            r#"{"Name": "/b", "Config": {"AttachStdout": false, "Cmd": ["c"], "Entrypoint": ["a", "b"], "Env": ["A=2", "B=1", "HOSTNAME=i"],
                "Volumes": null, "Hostname": "i"}, "HostConfig": {"Binds": ["/y:/x:ro"], "Dns": [],
                "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0}, "NetworkMode": "bridge"}}"#,
        );
        assert_eq!(containers(&salts, &ours, &[]), Map::new());
        let other = json(
            r#"{"Name": "/b", "Config": {"Cmd": ["a", "b", "d"], "Env": ["A=2", "B=1"]}, "HostConfig": {}}"#,
        );
        let changes = containers(&ours, &other, &[]);
        let config = changes.get("Config").and_then(Value::as_map).unwrap();
        let keys: Vec<String> = config.keys().map(Value::to_text).collect();
        assert_eq!(keys, ["Cmd", "Entrypoint"]);
        let binds = changes.get("HostConfig").and_then(|host| host.get("Binds"));
        assert_eq!(binds, Some(&from_to(vec!["/y:/x:ro"], Value::Null)));
    }
}
