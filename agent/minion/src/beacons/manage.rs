//! Answers requests of `beacons.*` functions to the daemon: Salt's `Beacon` class with its answers.

use value::{Map, Value};

use super::{available, validated};

/// Answers a request, and changes the configured beacons if the request asks for it.
pub(crate) fn managed(
    asked: &wire::Beacons,
    config: &mut Value,
    pillar: &Map,
    is_changed: &mut bool,
) -> Map {
    let name = asked.name.as_deref().unwrap_or_default();
    let data = asked.data.clone().unwrap_or_default();
    let of_pillar = beacons(pillar.get("beacons"));
    if config.as_map().is_none() {
        *config = Map::new().into();
    }
    let Some(own) = config.as_map_mut() else {
        return refused("`beacons` in the configuration must be a dictionary");
    };
    let done = match asked.fun.as_str() {
        "list" => return listed(&of_pillar, own),
        "list_available" => {
            let names = Value::list(available().map(Value::from));
            return complete(names);
        }
        "validate" => return checked(name, &data),
        "add" | "modify" | "delete" | "enable_beacon" | "disable_beacon" => {
            change(&asked.fun, name, data, &of_pillar, own)
        }
        "enable" | "disable" => {
            own.insert("enabled", asked.fun == "enable");
            Ok(())
        }
        "reset" => {
            own.retain(|_, _| false);
            Ok(())
        }
        other => {
            return refused(&format!("unknown beacon operation `{other}`"));
        }
    };
    match done {
        Ok(()) => {
            *is_changed = true;
            complete(own.clone())
        }
        Err(comment) => refused(&comment),
    }
}

fn beacons(of: Option<&Value>) -> Map {
    of.and_then(Value::as_map).cloned().unwrap_or_default()
}

fn complete(beacons: impl Into<Value>) -> Map {
    Map::new().with("complete", true).with("beacons", beacons)
}

fn refused(comment: &str) -> Map {
    Map::new().with("complete", false).with("comment", comment)
}

/// Returns the beacons of pillar and configuration merged, and those of each separately: only the
/// beacons of the configuration are saved.
fn listed(of_pillar: &Map, own: &Map) -> Map {
    let mut all = of_pillar.clone();
    all.update(own.clone());
    complete(all)
        .with("pillar", of_pillar.clone())
        .with("opts", own.clone())
}

fn checked(name: &str, data: &Value) -> Map {
    let checked = validated(name, data);
    Map::new()
        .with("complete", true)
        .with("valid", checked.is_ok())
        .with("vcomment", checked.err().unwrap_or_default())
}

/// Changes one beacon. The error is Salt's sentence.
fn change(
    fun: &str,
    name: &str,
    data: Value,
    of_pillar: &Map,
    own: &mut Map,
) -> Result<(), String> {
    if of_pillar.contains(name) {
        let (verb, because) = match fun {
            "add" => ("update", "because it is"),
            "modify" => ("modify", "it is"),
            "delete" => ("delete", "it is"),
            "enable_beacon" => ("enable", "it is"),
            _ => ("disable", "because it is"),
        };
        return Err(format!(
            "Cannot {verb} beacon item {name}, {because} configured in pillar."
        ));
    }
    match fun {
        "delete" => drop(own.remove(name)),
        "enable_beacon" => switch(own, name, true),
        "disable_beacon" => switch(own, name, false),
        _ => drop(own.insert(name, data)),
    }
    Ok(())
}

fn switch(own: &mut Map, name: &str, on: bool) {
    let Some(beacon) = own.get_mut(name) else {
        return;
    };
    if let Some(map) = beacon.as_map_mut() {
        map.insert("enabled", on);
        return;
    }
    let Some(list) = beacon.as_list_mut() else {
        return;
    };
    let mut parts = list.iter_mut().filter_map(Value::as_map_mut);
    match parts.find(|part| part.contains("enabled")) {
        Some(part) => drop(part.insert("enabled", on)),
        None => list.push(Map::new().with("enabled", on).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        value::json::read(text).unwrap()
    }

    fn text(value: impl Into<Value>) -> String {
        value::json::write(&value.into(), Default::default())
    }

    #[test]
    fn beacons_are_changed_and_those_of_the_pillar_are_not() {
        let pillar = json(r#"{"beacons": {"load": []}}"#);
        let mut config = json(r#"{"ps": [{"interval": 5}]}"#);
        let mut ask = |fun: &str, name: &str, data: &str| {
            let asked = wire::Beacons {
                fun: fun.to_owned(),
                name: Some(name.to_owned()),
                data: Some(json(data)),
            };
            let mut is_changed = false;
            let answer = managed(
                &asked,
                &mut config,
                pillar.as_map().unwrap(),
                &mut is_changed,
            );
            format!("{is_changed} {}", text(answer))
        };
        let cases = [
            (
                ("list", "", "null"),
                r#"false {"complete": true, "beacons": {"load": [], "ps": [{"interval": 5}]}, "pillar": {"load": []}, "opts": {"ps": [{"interval": 5}]}}"#,
            ),
            (
                ("add", "load", "[]"),
                r#"false {"complete": false, "comment": "Cannot update beacon item load, because it is configured in pillar."}"#,
            ),
            (
                ("delete", "load", "null"),
                r#"false {"complete": false, "comment": "Cannot delete beacon item load, it is configured in pillar."}"#,
            ),
            (
                ("disable_beacon", "ps", "null"),
                r#"true {"complete": true, "beacons": {"ps": [{"interval": 5}, {"enabled": false}]}}"#,
            ),
            (
                ("enable_beacon", "ps", "null"),
                r#"true {"complete": true, "beacons": {"ps": [{"interval": 5}, {"enabled": true}]}}"#,
            ),
            (
                ("modify", "ps", r#"[{"interval": 6}]"#),
                r#"true {"complete": true, "beacons": {"ps": [{"interval": 6}]}}"#,
            ),
            (
                ("disable", "", "null"),
                r#"true {"complete": true, "beacons": {"ps": [{"interval": 6}], "enabled": false}}"#,
            ),
            (
                ("validate", "memusage", "[]"),
                r#"false {"complete": true, "valid": false, "vcomment": "Configuration for memusage beacon requires percent."}"#,
            ),
            (
                ("reset", "", "null"),
                r#"true {"complete": true, "beacons": {}}"#,
            ),
        ];
        for ((fun, name, data), expected) in cases {
            assert_eq!(ask(fun, name, data), expected, "{fun}");
        }
    }
}
